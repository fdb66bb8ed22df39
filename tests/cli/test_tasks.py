"""Tasks on the command line: plan, next, why, graph, and every word of `gfs task`."""

from __future__ import annotations

import json
import re

import pytest
import time_machine
from clirun import Cli

LESSON = {
    "tasks": [
        {"id": "t1", "goal": "Read"},
        {"id": "t2", "goal": "Compare costs", "deps": ["t1"]},
        {"id": "t3", "goal": "Compare risks", "deps": ["t1"]},
        {"id": "t4", "goal": "Decide", "deps": ["t2", "t3"]},
        {"id": "t5", "goal": "Write", "deps": ["t4"], "on_interrupt": "hold"},
    ]
}


def as_bytes(document) -> bytes:
    return json.dumps(document).encode()


@pytest.fixture
def lesson(flow) -> Cli:
    """Return the command line on a flow `plan` with the five tasks of the lesson."""
    flow("plan", "plan", "-", stdin=as_bytes(LESSON))
    return flow


def statuses(cli: Cli, flow: str = "plan") -> dict[str, str]:
    return {task["id"]: task["status"] for task in cli.flow(flow)["children"]}


def task_of(cli: Cli, name: str) -> dict:
    return next(task for task in cli.flow("plan")["children"] if task["id"] == name)


# ── plan ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-02", "R-TS-01")
@pytest.mark.parametrize("given", [LESSON, LESSON["tasks"]], ids=["object", "list"])
def test_a_plan_is_stored_whole_in_one_commit(flow, tmp_path, given):
    file = tmp_path / "plan.json"
    file.write_bytes(as_bytes(given))
    assert flow("plan", "plan", file) == "plan r2 pending\nnext: gfs next plan\n"
    assert set(statuses(flow).values()) == {"pending"}
    kept = json.loads(
        flow.git("show", "main:" + flow.git("ls-tree", "-r", "--name-only", "main", "plans"))
    )
    assert kept == {"schema_version": 1, "flow": "plan"} | LESSON
    assert flow.op()["document"] == kept


@pytest.mark.req("R-TS-18")
@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (
            [{"id": "a", "goal": "g", "deps": ["b"]}, {"id": "b", "goal": "g", "deps": ["a"]}],
            "cycle",
        ),
        ([{"id": "a", "goal": "g", "deps": ["a"]}], "a depends on itself"),
        ([{"id": "a", "goal": "g", "deps": ["z"]}], "z, which is not there"),
        ([{"id": "a", "goal": "g"}, {"id": "a", "goal": "g"}], "stands twice"),
        ([], "at least one task"),
        ([{"id": "a"}], "tasks.0.goal"),
        ([{"id": "a", "goal": "g", "dep": []}], "tasks.0.dep"),
        ("t1", "tasks"),
    ],
)
def test_a_plan_that_is_wrong_is_refused_with_the_reason(flow, tasks, said):
    error = flow.refuses(3, "plan", "plan", "-", stdin=as_bytes(tasks))
    assert said in error["message"]


def test_a_plan_takes_no_word_it_does_not_know(flow):
    error = flow.refuses(3, "plan", "plan", "-", stdin=as_bytes(LESSON | {"goal": "another"}))
    assert "goal" in error["message"]
    error = flow.refuses(3, "plan", "plan", "-", stdin=as_bytes(LESSON | {"flow": "other"}))
    assert "one for other, not for plan" in error["message"]


@pytest.mark.req("R-TS-10", "R-TS-20")
def test_a_second_plan_is_refused_and_a_replacement_keeps_what_is_done_if_asked(lesson):
    error = lesson.refuses(3, "plan", "plan", "-", stdin=as_bytes(LESSON))
    assert "plan of 5 tasks already" in error["message"]
    lesson.refuses(3, "plan", "plan", "-", "--replace", stdin=as_bytes(LESSON))
    lesson("task", "done", "plan", "t1", "--result", "notes.md")
    options = ("--replace", "--reason", "another idea", "--keep-done")
    lesson(
        "plan",
        "plan",
        "-",
        *options,
        stdin=as_bytes([*LESSON["tasks"][:1], {"id": "z", "goal": "g"}]),
    )
    assert statuses(lesson) == {"t1": "done", "z": "pending"}
    kept = lesson.git("ls-tree", "-r", "--name-only", "main", "plans").split()
    assert [path.rsplit("/")[-1] for path in kept] == ["plan.1.json", "plan.2.json"]
    assert "Reason: another idea" in lesson.message()


@pytest.mark.req("R-TS-20")
def test_a_plan_in_work_is_replaced_only_with_its_tasks_cancelled(lesson):
    lesson("task", "claim", "plan", "t1")
    options = ("--replace", "--reason", "another idea")
    error = lesson.refuses(3, "plan", "plan", "-", *options, stdin=as_bytes(LESSON))
    assert error["details"]["tasks"] == ["t1"]
    lesson("plan", "plan", "-", *options, "--cancel-children", stdin=as_bytes(LESSON))
    assert "claim" not in task_of(lesson, "t1")


def test_a_flow_is_created_with_its_plan(cli, tmp_path):
    file = tmp_path / "plan.json"
    file.write_bytes(as_bytes(LESSON))
    cli("create", "Decide", "--id", "plan", "--plan", file)
    assert (len(statuses(cli)), cli.flow("plan")["revision"]) == (5, 1)


# ── next, why, graph ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-03", "R-TS-05")
def test_next_lists_the_ready_set_in_its_order(lesson):
    assert lesson("next", "plan") == "t1  Read\n"
    lesson("task", "done", "plan", "t1", "--result", "notes.md")
    assert [task["id"] for task in lesson.json("next", "plan")["ready"]] == ["t2", "t3"]
    lesson("task", "claim", "plan", "--next")
    assert lesson("next", "plan") == "t3  Compare risks\n"
    lesson("task", "claim", "plan", "--next")
    assert lesson("next", "plan") == "nothing is ready in plan: gfs why plan\n"


@pytest.mark.req("R-TS-04")
def test_why_explains_down_to_what_can_be_done(lesson):
    for name in ("t1", "t2"):
        lesson("task", "done", "plan", name, "--result", "notes.md")
    assert lesson("why", "plan", "t5") == (
        "t5: t4 is pending\n  t4: t3 is pending\n    t3: is ready\n"
    )
    (first, *_) = lesson.json("why", "plan", "t4")["why"]
    assert first["why"] == [{"kind": "dependency", "text": "t3 is pending", "task": "t3"}]
    assert lesson("why", "plan") == "t3: is ready\nt4: t3 is pending\nt5: t4 is pending\n"


@pytest.mark.req("L23")
def test_why_of_a_long_chain_does_not_wander_to_the_right(flow):
    links = [{"id": f"c{n}", "goal": "g", "deps": [f"c{n - 1}"] if n else []} for n in range(400)]
    flow("create", "Chain", "--id", "chain", "--plan", "-", stdin=json.dumps(links).encode())
    assert len(flow("why", "chain", "c399")) < 400 * 64
    assert flow.json("why", "chain", "c399")["why"][-1]["depth"] == 399


@pytest.mark.req("L23")
def test_l23_a_large_flow_is_told_in_part_and_says_where_the_rest_is(flow):
    tasks = [{"id": f"t{n}", "goal": "Do it", "priority": n} for n in range(2000)]
    flow("create", "Large", "--id", "large", "--plan", "-", stdin=json.dumps(tasks).encode())
    flow("task", "fail", "large", "t1999", "--reason", "no\nnetwork")
    for verb in ("show", "why", "graph"):
        told = flow(verb, "large")
        assert len(told) < 20_000
        assert "t1999" in told
        assert re.search(r"^ *1,\d{3} more: gfs (show|why) large --json$", told, re.MULTILINE)
    assert flow("why", "large").startswith("t1999: t1999 is failed: no network\n")
    assert len(flow.json("why", "large")["why"]) == 2000
    assert len(flow.json("show", "large")["tasks"]) == 2000


def test_why_of_a_flow_that_is_done_and_of_no_task(lesson):
    lesson.refuses(5, "why", "plan", "t9")
    for number in range(1, 6):
        lesson("task", "done", "plan", f"t{number}", "--result", "notes.md")
    assert lesson("why", "plan") == "every task of plan is done\n"
    lesson("create", "Bare", "--id", "bare")
    assert lesson("why", "bare") == "bare has no tasks\n"
    assert lesson("why", "plan", "t1") == "t1: t1 is done\n"


def test_graph_in_each_form(lesson):
    assert lesson("graph", "plan").startswith("[ ] t1 Read\n  [-] t2 Compare costs <- t1\n")
    assert lesson.json("graph", "plan", "--format", "dot")["graph"].startswith("digraph flow {")
    assert lesson("graph", "plan", "--format", "mermaid").startswith("flowchart TD\n")
    lesson.refuses(2, "graph", "plan", "--format", "svg")
    lesson("create", "Bare", "--id", "bare")
    assert lesson("graph", "bare") == "bare has no tasks\n"


@pytest.mark.req("R-TF-33")
@pytest.mark.parametrize(
    "words",
    [
        ("next", "plan"),
        ("why", "plan"),
        ("why", "plan", "t4"),
        ("graph", "plan"),
        ("recover", "plan"),
    ],
)
def test_looking_changes_nothing(lesson, words):
    before = lesson.state()
    lesson(*words)
    assert lesson.state() == before


def test_hostile_goals_stay_on_their_line(flow):
    flow("task", "add", "plan", "one\n\x1b[31mt9  forged"[:3] + "\nt9  forged")
    assert flow("next", "plan").count("\n") == 1
    flow("task", "wait", "plan", "t1", "--reason", "a\nt2: is ready", "--until", "b")
    assert flow("why", "plan").count("\n") == 1


# ── states in show, list and brief ──────────────────────────────────────────────────────────────


def test_every_derived_state_says_what_it_hangs_on(flow):
    """Ready, blocked by what, scheduled until when, claimed by whom, waiting for what, stale."""
    tasks = [
        {"id": "ready", "goal": "g"},
        {"id": "blocked", "goal": "g", "deps": ["ready"]},
        {"id": "later", "goal": "g", "not_before": "2099-01-01T00:00:00Z"},
        {"id": "mine", "goal": "g"},
        {"id": "over", "goal": "g"},
        {"id": "asked", "goal": "g"},
        {"id": "broken", "goal": "g"},
        {"id": "ended", "goal": "g"},
    ]
    flow("plan", "plan", "-", stdin=as_bytes(tasks))
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False):
        flow("task", "claim", "plan", "over", "--lease", "1h")
    with time_machine.travel("2026-09-06T12:00:00Z", tick=False):
        flow("task", "claim", "plan", "mine", "--worker", "ann")
        flow("task", "wait", "plan", "asked", "--reason", "no key", "--until", "a key")
        flow("task", "fail", "plan", "broken", "--reason", "no luck")
        flow("task", "done", "plan", "ended", "--result", "out.md")
        shown = flow("show", "plan")
        data = flow.json("show", "plan")
        brief = flow("brief", "plan")
        (row,) = flow.json("list")["flows"]
    assert data["tasks"] == {
        "ready": "ready",
        "blocked": "blocked",
        "later": "scheduled",
        "mine": "claimed",
        "over": "stale",
        "asked": "waiting",
        "broken": "failed",
        "ended": "done",
    }
    why = data["why"]
    assert why["blocked"] == "needs ready"
    assert why["later"].startswith("not before 2099-01-01")
    assert why["mine"].startswith("by ann.")
    assert "until 2026-09-06 14:00:00" in why["mine"]
    assert "lease ended" in why["over"]
    assert why["asked"] == "no key; until a key; on human"
    assert why["broken"] == "errored: no luck"
    assert "ready" not in why
    for name, state in data["tasks"].items():
        assert re.search(rf"\[.\] {state} +{name} ", shown), name
    for text in (why["blocked"], why["asked"], why["later"]):
        assert text in shown
        assert text in brief
    assert row["tasks"] == {
        "ready": 1, "blocked": 1, "scheduled": 1, "claimed": 1,
        "waiting": 1, "stale": 1, "done": 1, "failed": 1,
    }  # fmt: skip


# ── add ─────────────────────────────────────────────────────────────────────────────────────────


def test_added_tasks_are_numbered_and_checked(lesson):
    assert lesson("task", "add", "plan", "Check", "--dep", "t5") == "plan r3 pending: t6 pending\n"
    assert lesson("task", "add", "plan", "Check", "--id", "c") == "plan r4 pending: c pending\n"
    assert lesson("task", "add", "plan", "Check", "--id", "c").endswith("(unchanged): c pending\n")
    lesson.refuses(4, "task", "add", "plan", "Other", "--id", "c")
    lesson.refuses(3, "task", "add", "plan", "Check", "--dep", "t9")
    lesson.refuses(3, "task", "add", "plan", "Check", "--id", "t7", "--dep", "t7")
    lesson.refuses(3, "task", "add", "plan", " ")
    lesson.refuses(2, "task", "add", "plan", "Check", "--timeout", "soon")
    lesson.refuses(2, "task", "add", "plan", "Check", "--not-before", "soon")
    lesson.refuses(3, "task", "add", "plan", "Check", "--on-interrupt", "explode")


def test_every_field_of_a_task_can_be_given(flow):
    options = [
        "--priority",
        "5",
        "--timeout",
        "30m",
        "--max-attempts",
        "1",
        "--on-interrupt",
        "hold",
    ]
    flow("task", "add", "plan", "Do it", *options, "--not-before", "2099-01-01T02:00:00+02:00")
    assert flow.flow("plan")["children"] == [
        {
            "id": "t1",
            "goal": "Do it",
            "status": "pending",
            "priority": 5,
            "not_before": "2099-01-01T00:00:00Z",
            "timeout_s": 1800,
            "max_attempts": 1,
            "on_interrupt": "hold",
        }
    ]


# ── claims ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-09", "R-TS-29")
def test_a_claim_prints_the_attempt_and_the_command_that_settles_it(lesson):
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False):
        said = lesson("task", "claim", "plan", "--next", "--as", "bob")
    assert said == (
        "plan r3 running: t1 attempt 3 until 2026-09-06T12:00:00Z\n"
        "goal: Read\n"
        "next: gfs task done plan t1 --attempt 3 --result REF --as bob\n"
    )
    claim = task_of(lesson, "t1")["claim"]
    assert claim["by"] == "bob"
    assert re.fullmatch(r"bob\.[0-9a-z]{8}", claim["worker"])
    done = lesson.json("task", "done", "plan", "t1", "--attempt", "3", "--result", "notes.md")
    assert (done["task"], done["task_status"], done["revision"]) == ("t1", "done", 4)
    assert task_of(lesson, "t1")["finished_by"] == "local"


@pytest.mark.req("L1", "C3")
def test_the_loser_of_a_claim_is_told_the_holder(lesson):
    lesson("task", "claim", "plan", "t1", "--worker", "ann")
    error = lesson.refuses(4, "task", "claim", "plan", "t1", "--as", "bob")
    assert error["details"]["holder"].startswith("ann.")
    assert error["details"]["holder"] in error["message"]
    assert error["details"]["next"] == ["gfs", "task", "claim", "plan", "--next"]


def test_where_nothing_is_ready_claim_leaves_with_8(lesson):
    lesson("task", "claim", "plan", "--next")
    error = lesson.refuses(8, "task", "claim", "plan", "--next")
    assert error["details"]["next"] == ["gfs", "why", "plan"]
    lesson.refuses(3, "task", "claim", "plan", "t4")


@pytest.mark.parametrize("words", [(), ("t1", "--next")])
def test_claim_takes_a_task_or_next(lesson, words):
    lesson.refuses(2, "task", "claim", "plan", *words)


@pytest.mark.req("L3")
def test_a_holder_that_lost_its_claim_is_refused_and_its_result_is_kept(lesson):
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False) as clock:
        lesson("task", "claim", "plan", "t1", "--as", "ann")
        clock.shift(7200)
        lesson("task", "claim", "plan", "t1", "--as", "bob")
        before = lesson.head
        for words in (
            ("release", "plan", "t1"),
            ("renew", "plan", "t1"),
            ("fail", "plan", "t1", "--reason", "r"),
            ("wait", "plan", "t1", "--reason", "r", "--until", "u"),
        ):
            lesson.refuses(4, "task", *words, "--attempt", "3", "--as", "ann")
        assert lesson.head == before
        late = lesson.run(
            "task", "done", "plan", "t1", "--attempt", "3", "--result", "late.md", "--as", "ann"
        )
    assert (late.code, late.out) == (4, "")
    assert "attempt 3 is lost: bob." in late.err
    assert "kept as a note" in late.err
    assert "late.md" in lesson.flow("plan")["notes"][0]["text"]
    assert task_of(lesson, "t1")["claim"]["by"] == "bob"
    assert task_of(lesson, "t1")["interruptions"] == 1


def test_a_late_result_of_a_flow_that_has_ended_has_no_place(lesson):
    lesson("task", "claim", "plan", "t1")
    lesson("done", "plan", "--result", "all.md", "--cancel-children")
    lesson.refuses(3, "task", "done", "plan", "t1", "--attempt", "3", "--result", "late.md")


def test_a_claim_is_renewed_and_released(lesson):
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False):
        lesson("task", "claim", "plan", "t1")
        lesson("task", "renew", "plan", "t1", "--lease", "1d")
    assert task_of(lesson, "t1")["claim"]["until"] == "2026-09-07T10:00:00Z"
    lesson("task", "release", "plan", "t1")
    assert "claim" not in task_of(lesson, "t1")
    assert lesson("task", "release", "plan", "t1").endswith("(unchanged): t1 pending\n")
    lesson.refuses(4, "task", "renew", "plan", "t1")
    lesson.refuses(2, "task", "claim", "plan", "t1", "--lease", "0")


@pytest.mark.req("C-04")
def test_an_interrupted_task_on_hold_is_not_claimed_and_leads_to_recover(flow):
    flow("task", "add", "plan", "Send", "--on-interrupt", "hold")
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False) as clock:
        flow("task", "claim", "plan", "t1")
        clock.shift(7200)
        result = flow.run("task", "claim", "plan", "t1", "--json", "--as", "bob")
    assert result.code == 4
    assert result.error["details"]["next"] == ["gfs", "recover", "plan"]
    assert statuses(flow) == {"t1": "waiting"}
    assert flow.run("task", "claim", "plan", "--next").code == 8


# ── settling ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-25", "R-TS-23")
def test_done_fail_wait_resume_and_retry(lesson):
    lesson.refuses(2, "task", "done", "plan", "t1")
    lesson.refuses(3, "task", "done", "plan", "t2", "--result", "early.md")
    assert lesson(
        "task", "wait", "plan", "t1", "--reason", "r", "--until", "u", "--on", "agent"
    ) == ("plan r3 running: t1 waiting\n")
    assert lesson("task", "resume", "plan", "t1") == "plan r4 running: t1 pending\n"
    assert (
        lesson("task", "fail", "plan", "t1", "--reason", "no luck")
        == "plan r5 running: t1 failed\n"
    )
    lesson.refuses(3, "task", "claim", "plan", "t1")
    assert (
        lesson("task", "retry", "plan", "t1", "--reason", "new key")
        == "plan r6 running: t1 pending\n"
    )
    assert lesson("task", "done", "plan", "t1", "--result", "n.md") == "plan r7 running: t1 done\n"
    assert lesson("task", "done", "plan", "t1", "--result", "n.md").endswith(
        "(unchanged): t1 done\n"
    )
    error = lesson.refuses(3, "task", "done", "plan", "t1", "--result", "other.md")
    assert "n.md" in error["message"]


@pytest.mark.req("R-TF-26")
def test_a_stranger_settles_a_task_and_changes_no_course(cli):
    cli("create", "Compare", "--id", "plan", "--as", "ann")
    cli("task", "add", "plan", "Do it", "--as", "ann")
    cli.refuses(4, "task", "add", "plan", "More", "--as", "bob")
    cli.refuses(4, "plan", "plan", "-", "--as", "bob", stdin=as_bytes(LESSON))
    cli("task", "claim", "plan", "t1", "--as", "bob")
    cli("task", "done", "plan", "t1", "--result", "r", "--as", "bob")
    assert task_of(cli, "t1")["finished_by"] == "bob"


@pytest.mark.req("E9")
def test_a_secret_in_a_result_is_refused(lesson):
    secret = "ghp_" + "a1B2" * 9
    before = lesson.every_object()
    result = lesson.run("task", "done", "plan", "t1", "--result", f"https://x/{secret}")
    assert result.code == 3
    assert secret not in result.err
    assert lesson.every_object() == before


def test_dry_runs_write_nothing(lesson):
    before = lesson.state()
    for words in (
        ("task", "claim", "plan", "--next"),
        ("task", "done", "plan", "t1", "--result", "r"),
        ("task", "add", "plan", "More"),
        ("recover", "plan"),
    ):
        said = lesson(*words, "--dry-run")
        assert "nothing was written" in said or words[0] == "recover"
    assert lesson.state() == before


# ── keys ────────────────────────────────────────────────────────────────────────────────────────


def test_the_repeat_of_an_add_answers_with_the_same_task(lesson):
    first = lesson.json("task", "add", "plan", "More", "--key", "k1", "--not-before", "1h")
    lesson("task", "add", "plan", "Another")
    again = lesson.json("task", "add", "plan", "More", "--key", "k1", "--not-before", "1h")
    assert (first["task"], again["task"]) == ("t6", "t6")
    assert (again["repeated"], again["made"], again["revision"]) == (
        True,
        ["t6"],
        first["revision"],
    )
    assert lesson("task", "add", "plan", "More", "--key", "k1", "--not-before", "1h") == (
        "plan r3 (already done under this key): t6 pending\n"
    )
    lesson.refuses(4, "task", "add", "plan", "More", "--key", "k1", "--not-before", "2h")


def test_the_repeat_of_a_claim_answers_with_the_same_task_and_attempt(lesson):
    lesson("task", "done", "plan", "t1", "--result", "n.md")
    words = ("task", "claim", "plan", "--next", "--key", "k1", "--as", "ann")
    first = lesson.json(*words)
    lesson("task", "claim", "plan", "--next", "--as", "bob")
    again = lesson.json(*words)
    same = ("task", "attempt", "worker", "until", "goal", "next", "held")
    assert {name: again[name] for name in same} == {name: first[name] for name in same}
    assert (first["task"], first["held"], again["repeated"]) == ("t2", True, True)
    lesson.refuses(4, *words, "--lease", "3h")
    lesson("task", "done", "plan", "t2", "--attempt", str(first["attempt"]), "--result", "r")
    over = lesson.json(*words)
    assert (over["task"], over["attempt"], over["held"]) == ("t2", first["attempt"], False)
    assert "that claim is over" in lesson(*words)


def test_the_repeat_of_a_claim_that_another_has_taken_over_says_so(flow):
    flow("task", "add", "plan", "Do it")
    words = ("task", "claim", "plan", "t1", "--key", "k1", "--as", "ann")
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False) as clock:
        first = flow.json(*words)
        clock.shift(7200)
        flow("task", "claim", "plan", "t1", "--as", "bob")
        again = flow.json(*words)
    assert (again["task"], again["attempt"], again["held"]) == ("t1", first["attempt"], False)
    assert "worker" not in again


def test_a_claim_that_took_none_has_not_used_up_its_key(flow):
    """First it only ends the claim of another, whose task then waits for a person: exit 8."""
    flow("task", "add", "plan", "Send", "--on-interrupt", "hold")
    words = ("task", "claim", "plan", "--next", "--key", "k1")
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False) as clock:
        flow("task", "claim", "plan", "t1")
        clock.shift(7200)
        assert flow.run(*words).code == 8
        flow("task", "add", "plan", "Other")
        assert flow.json(*words)["task"] == "t2"


def test_the_repeat_of_a_create_with_a_plan_and_a_minted_id(cli, tmp_path):
    """The minted id stands in the plan as well, and is another at each try."""
    file = tmp_path / "plan.json"
    file.write_bytes(as_bytes(LESSON))
    words = ("create", "Decide", "--plan", file, "--key", "k1")
    first = cli.json(*words)
    again = cli.json(*words)
    assert (again["id"], again["repeated"]) == (first["id"], True)
    file.write_bytes(as_bytes(LESSON["tasks"][:1]))
    cli.refuses(4, *words)


def test_the_repeat_of_renew_done_and_plan(flow):
    flow("plan", "plan", "-", "--key", "p", stdin=as_bytes(LESSON))
    assert flow.json("plan", "plan", "-", "--key", "p", stdin=as_bytes(LESSON))["repeated"]
    flow("task", "claim", "plan", "t1")
    for words in (("renew", "plan", "t1"), ("done", "plan", "t1", "--result", "r")):
        first = flow.json("task", *words, "--key", words[0])
        assert flow.json("task", *words, "--key", words[0])["revision"] == first["revision"]


@pytest.mark.req("R-TF-24")
def test_expect_is_for_every_verb_of_a_task(lesson):
    error = lesson.refuses(4, "task", "claim", "plan", "--next", "--expect", "1")
    assert error["details"]["revision"] == 2
    lesson("task", "claim", "plan", "--next", "--expect", "2")


@pytest.mark.req("R-TF-29", "R-TS-07")
def test_each_op_is_one_commit_and_the_history_replays(lesson):
    for number in range(1, 6):
        attempt = lesson.json("task", "claim", "plan", "--next")["attempt"]
        lesson("task", "done", "plan", f"t{number}", "--attempt", str(attempt), "--result", "r")
    lesson("done", "plan", "--result", "all.md")
    subjects = lesson.git("log", "--reverse", "--format=%s", "main").splitlines()[1:]
    assert [re.sub(r" by .*", "", s) for s in subjects] == [
        "plan r1 create: Compare options",
        "plan r2 plan: plan 1, 5 tasks",
        *(
            line
            for n in range(1, 6)
            for line in (
                f"plan r{2 * n + 1} task claim: t{n}",
                f"plan r{2 * n + 2} task done: t{n}: r",
            )
        ),
        "plan r13 done: all.md",
    ]
    said = lesson("log", "plan", "-n", "2")
    assert [line.split(" ", 3)[3] for line in said.splitlines()] == [
        "r13 done by local: all.md",
        "r12 task done by local: t5: r",
    ]
    lesson.sound(("plan", 13))
