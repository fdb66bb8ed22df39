"""The verbs of a live flow: update, note, wait, resume, handoff, take."""

from __future__ import annotations

import pytest


def fields(flow, *names):
    return [flow.get(name) for name in names]


# ── update ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-17", "R-TF-04")
def test_an_update_is_one_revision(flow):
    before = flow.flow("plan")
    said = flow("update", "plan", "--progress", "Docs read", "--next", "Compare costs")
    after = flow.flow("plan")
    assert said == "plan r2 running\n"
    changed = {name for name in after if after[name] != before[name]}
    assert changed <= {"progress", "next_action", "status", "revision", "updated_at"}
    assert fields(after, "progress", "next_action", "revision") == ["Docs read", "Compare costs", 2]
    assert after["updated_at"].endswith("Z")
    assert after["updated_at"] >= before["updated_at"]


@pytest.mark.req("R-TF-17")
def test_revisions_rise_by_one(flow):
    for number in range(2, 6):
        assert flow("update", "plan", "--progress", f"step {number}") == f"plan r{number} running\n"
    assert flow.json("show", "plan")["flow"]["revision"] == 5


def test_the_answer_of_an_update_as_json(flow):
    data = flow.json("update", "plan", "--progress", "Docs read")
    assert data == {
        "id": "plan",
        "revision": 2,
        "status": "running",
        "changed": True,
        "commit": flow.head,
    }


@pytest.mark.req("R-TF-05")
def test_a_change_of_progress_shows_as_three_lines(flow):
    flow("update", "plan", "--progress", "one")
    flow("update", "plan", "--progress", "two")
    lines = flow.git("show", "--format=", "--unified=0", "main", "--", "flows").splitlines()
    added = sorted(line.split('"')[1] for line in lines if line.startswith("+ "))
    assert set(added) <= {"progress", "revision", "updated_at"}
    assert {"progress", "revision"} <= set(added)


@pytest.mark.req("R-TF-17")
def test_nothing_changed_is_no_commit(flow):
    flow("update", "plan", "--progress", "one", "--label", "a")
    before = flow.state()
    for options in (("--progress", "one"), ("--label", "a"), ("--status", "running")):
        assert flow("update", "plan", *options) == "plan r2 running (unchanged)\n"
    data = flow.json("update", "plan", "--progress", "one")
    assert (data["changed"], data["commit"], data["revision"]) == (False, None, 2)
    assert flow.state() == before


def test_labels_links_goal_and_data_change(flow):
    flow("update", "plan", "--label", "a", "--label", "b", "--link", "doc=x", "--goal", "Better")
    flow("update", "plan", "--unlabel", "a", "--label", "c", "--issue", "o/r#1", "--unlink", "x")
    flow("update", "plan", "--data", "-", stdin=b'{"n": 1}')
    found = flow.flow("plan")
    assert fields(found, "labels", "goal", "data") == [["b", "c"], "Better", {"n": 1}]
    assert found["links"] == [{"rel": "issue", "href": "o/r#1"}]


def test_a_flow_may_be_set_back_to_pending(flow):
    flow("update", "plan", "--progress", "one")
    assert flow("update", "plan", "--status", "pending") == "plan r3 pending\n"


def test_an_update_of_nothing_is_usage(flow):
    error = flow.refuses(2, "update", "plan")
    assert "nothing to record" in error["message"]


@pytest.mark.req("R-TF-03")
@pytest.mark.parametrize("status", ["complete", "DONE", "", "runing"])
def test_another_word_for_a_status_names_the_field(flow, status):
    error = flow.refuses(3, "update", "plan", "--status", status)
    assert error["details"]["violations"][0]["path"] == "status"
    assert "pending, running, waiting, done, failed" in error["message"]


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_update_may_not_end_or_stop_a_flow(flow, status):
    error = flow.refuses(3, "update", "plan", "--status", status)
    assert error["name"] == "rejected"
    assert error["hint"].startswith("gfs wait")


@pytest.mark.req("R-TF-17")
@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_live_flow_has_a_next_action(flow, text):
    assert flow.refuses(3, "update", "plan", "--next", text)["name"] == "invalid"


# ── note ────────────────────────────────────────────────────────────────────────────────────────


def test_a_note_is_appended_and_nothing_replaced(flow):
    flow("note", "plan", "first", "--as", "ann")
    assert flow("note", "plan", "second\nline", "--as", "bob") == "plan r3 pending\n"
    notes = flow.flow("plan")["notes"]
    assert [(note["by"], note["text"]) for note in notes] == [
        ("ann", "first"),
        ("bob", "second\nline"),
    ]


def test_a_note_says_something(flow):
    assert flow.refuses(3, "note", "plan", " ")["details"]["violations"][0]["path"] == "text"


def test_a_text_that_looks_like_an_option_goes_behind_two_dashes(flow):
    said = flow("note", "plan", "--", "--json")
    assert said == "plan r2 pending\n"
    assert flow.flow("plan")["notes"][0]["text"] == "--json"


# ── wait and resume ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-20")
def test_waiting_says_why_and_until_what(flow):
    said = flow("wait", "plan", "--reason", "No budget", "--until", "Ana names one")
    assert said == "plan r2 waiting\n"
    waiting = flow.flow("plan")["waiting"]
    assert waiting.pop("since") == flow.flow("plan")["updated_at"]
    assert waiting == {"reason": "No budget", "condition": "Ana names one", "on": "human"}


@pytest.mark.req("R-TF-20")
def test_going_on_clears_both(flow):
    flow("wait", "plan", "--reason", "No budget", "--until", "An answer", "--on", "agent")
    assert flow("resume", "plan", "--next", "Order it") == "plan r3 running\n"
    found = flow.flow("plan")
    assert "waiting" not in found
    assert found["next_action"] == "Order it"


def test_waiting_for_the_same_again_changes_nothing(flow):
    words = ("wait", "plan", "--reason", "No budget", "--until", "An answer")
    flow(*words)
    assert flow(*words) == "plan r2 waiting (unchanged)\n"
    assert flow("wait", "plan", "--reason", "Other", "--until", "An answer") == "plan r3 waiting\n"


@pytest.mark.req("R-TF-20")
@pytest.mark.parametrize(
    ("code", "options"),
    [
        (2, ("--reason", "r")),
        (2, ("--until", "u")),
        (3, ("--reason", "", "--until", "u")),
        (3, ("--reason", "r", "--until", " ")),
        (3, ("--reason", "r", "--until", "u", "--on", "weather")),
    ],
)
def test_waiting_without_both_is_refused(flow, code, options):
    flow.refuses(code, "wait", "plan", *options)


def test_a_waiting_flow_is_resumed_not_updated_to_running(flow):
    flow("wait", "plan", "--reason", "r", "--until", "u")
    assert flow.refuses(3, "update", "plan", "--status", "running")["hint"] == "gfs resume plan"
    assert flow("update", "plan", "--progress", "still") == "plan r3 waiting\n"


def test_resume_of_what_runs(flow):
    flow("update", "plan", "--progress", "one")
    assert flow("resume", "plan") == "plan r2 running (unchanged)\n"
    error = flow.refuses(3, "resume", "plan", "--next", "Another step")
    assert error["hint"] == "gfs update plan --next TEXT"
    flow("create", "Other", "--id", "other")
    flow.refuses(3, "resume", "other")


# ── ownership ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def anns(cli):
    """Return the command line on a repository where `plan` is ann's."""
    cli("create", "Compare options", "--id", "plan", "--as", "ann")
    return cli


OWNERS = [
    ("update", "plan", "--progress", "x"),
    ("wait", "plan", "--reason", "r", "--until", "u"),
    ("resume", "plan"),
    ("done", "plan", "--result", "r"),
    ("fail", "plan", "--reason", "r", "--recoverable", "none"),
    ("handoff", "plan", "--to", "bob", "--reason", "r"),
]


@pytest.mark.req("R-TF-26")
@pytest.mark.parametrize("verb", OWNERS, ids=lambda verb: verb[0])
def test_what_is_the_owners_is_refused_to_another(anns, verb):
    error = anns.refuses(4, *verb, "--as", "bob")
    assert error["message"] == f"plan is owned by ann; bob may not {verb[0]} it"
    assert error["details"] == {
        "owner": "ann",
        "next": ["gfs", "take", "plan", "--reason", "REASON"],
    }
    assert "gfs handoff" in error["hint"]


@pytest.mark.req("R-TF-26")
def test_the_actor_is_as_then_gfs_actor_then_the_session(anns):
    update = ("update", "plan", "--progress", "x")
    anns.refuses(4, *update, env={"GFS_ACTOR": "bob", "GFS_SESSION": "ann"})
    anns.refuses(4, *update, env={"GFS_SESSION": "bob"})
    assert anns(*update, "--as", "ann", env={"GFS_ACTOR": "bob"}) == "plan r2 running\n"
    assert anns.op()["by"] == "ann"
    assert anns.git("log", "-1", "--format=%an", "main") == "ann"


def test_local_is_recorded_and_never_refused(anns):
    assert anns("update", "plan", "--progress", "x") == "plan r2 running\n"
    assert anns.op()["by"] == "local"


def test_a_flow_of_local_is_open_to_all(flow):
    assert flow("update", "plan", "--progress", "x", "--as", "bob") == "plan r2 running\n"


def test_a_note_is_anybodys(anns):
    assert anns("note", "plan", "hello", "--as", "bob") == "plan r2 pending\n"


@pytest.mark.req("R-TF-26")
def test_taking_records_from_whom_and_why(anns):
    assert anns("take", "plan", "--reason", "ann left", "--as", "bob") == "plan r2 pending\n"
    found = anns.flow("plan")
    assert found["owner"] == "bob"
    (note,) = found["notes"]
    assert (note["by"], note["text"]) == ("bob", "Owner: ann -> bob. ann left")
    assert note["at"] == found["updated_at"]
    anns.refuses(4, "update", "plan", "--progress", "x", "--as", "ann")
    assert (
        anns("take", "plan", "--reason", "again", "--as", "bob") == "plan r2 pending (unchanged)\n"
    )


@pytest.mark.req("R-TF-26")
def test_handing_off_records_to_whom_and_why(anns):
    said = anns("handoff", "plan", "--to", "bob", "--reason", "prices", "--as", "ann")
    assert said == "plan r2 pending\n"
    found = anns.flow("plan")
    assert (found["owner"], found["notes"][0]["text"]) == ("bob", "Owner: ann -> bob. prices")
    assert anns("update", "plan", "--progress", "x", "--as", "bob") == "plan r3 running\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("handoff", "plan", "--to", "bob")),
        (2, ("handoff", "plan", "--reason", "r")),
        (3, ("handoff", "plan", "--to", "", "--reason", "r")),
        (3, ("handoff", "plan", "--to", "a\nb", "--reason", "r")),
        (2, ("take", "plan")),
        (3, ("take", "plan", "--reason", "")),
        (3, ("take", "plan", "--reason", "x" * 1001)),
    ],
)
def test_a_change_of_owner_has_a_reason(anns, code, words):
    anns.refuses(code, *words)
