"""The verbs around the end of a flow: done, fail, reopen, retry; and the founding example."""

from __future__ import annotations

import json
import re

import pytest
from clirun import FOUNDING

OWNER = "architecture-session"
EXAMPLE = "flow-example-001"


@pytest.fixture
def ended(flow):
    """Return the command line on a repository where `plan` is done, at r2."""
    flow("done", "plan", "--result", "reports/options.md")
    return flow


@pytest.fixture
def example(cli):
    """Return the command line on a repository that holds the founding example."""
    cli("import", FOUNDING)
    return cli


# ── done and fail ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-18", "R-TF-21", "R-TF-29")
def test_done_moves_the_flow_in_the_same_commit(flow):
    (before,) = flow.folder.glob("flows/*/plan.json")
    assert flow("done", "plan", "--result", "reports/options.md") == "plan r2 done\n"
    (after,) = flow.folder.glob("archive/*/plan.json")
    assert not before.exists()
    assert after.parent.name == before.parent.name
    found = flow.flow("plan")
    assert (found["status"], found["result_ref"]) == ("done", "reports/options.md")
    assert "next_action" not in found
    moved = flow.git("show", "--format=", "--name-status", "-M30", "main").split("\t")[1:]
    assert moved == [str(path.relative_to(flow.folder)) for path in (before, after)]


@pytest.mark.req("R-TF-19", "R-TF-21")
def test_fail_says_why_and_what_can_be_used_again(flow):
    said = flow("fail", "plan", "--reason", "Vendor closed", "--recoverable", "none")
    assert said == "plan r2 failed\n"
    failure = {"reason": "Vendor closed", "recoverable": "none"}
    assert flow.flow("plan")["failure"] == failure
    assert list(flow.folder.glob("archive/*/plan.json"))


@pytest.mark.req("R-TF-18", "R-TF-19")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("done", "plan")),
        (3, ("done", "plan", "--result", "")),
        (3, ("done", "plan", "--result", "a\nb")),
        (3, ("done", "plan", "--result", "x" * 2049)),
        (2, ("fail", "plan")),
        (2, ("fail", "plan", "--reason", "r")),
        (2, ("fail", "plan", "--recoverable", "none")),
        (3, ("fail", "plan", "--reason", "", "--recoverable", "none")),
        (3, ("fail", "plan", "--reason", "r", "--recoverable", " ")),
    ],
)
def test_an_end_has_what_it_needs(flow, code, words):
    flow.refuses(code, *words)


def test_the_same_end_again_changes_nothing(ended):
    before = ended.state()
    said = ended("done", "plan", "--result", "reports/options.md")
    assert said == "plan r2 done (unchanged)\n"
    ended("create", "Other", "--id", "other")
    fail = ("fail", "other", "--reason", "r", "--recoverable", "none")
    assert ended(*fail) == "other r2 failed\n"
    assert ended(*fail) == "other r2 failed (unchanged)\n"
    assert ended.state().keys() > before.keys()


REFUSED = [
    ("update", "plan", "--progress", "x"),
    ("note", "plan", "x"),
    ("wait", "plan", "--reason", "r", "--until", "u"),
    ("resume", "plan"),
    ("done", "plan", "--result", "other.md"),
    ("fail", "plan", "--reason", "r", "--recoverable", "none"),
    ("handoff", "plan", "--to", "bob", "--reason", "r"),
    ("take", "plan", "--reason", "r"),
]


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words[0])
def test_what_has_ended_stays_as_it_is(ended, words):
    error = ended.refuses(3, *words)
    assert error["message"] == (
        f"plan is done at r2: {words[0]} is refused; it ended with reports/options.md"
    )
    assert error["hint"] == "gfs reopen plan --reason REASON --next TEXT, or gfs retry plan"
    assert error["details"]["next"] == ["gfs", "show", "plan"]
    assert error["details"]["status"] == "done"


@pytest.mark.req("R-TF-21")
def test_an_ended_flow_stays_readable(ended):
    assert ended("list") == "no flows; gfs create begins one\n"
    assert re.match(r"done +plan +r2 ", ended("list", "--all"))
    assert "result:      reports/options.md" in ended("show", "plan")
    assert ended.json("show", "plan", "--rev", "1")["flow"]["status"] == "pending"
    assert len(ended("log", "plan").splitlines()) == 2


# ── reopen and retry ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-22")
def test_reopening_keeps_how_it_ended_as_a_note(ended):
    said = ended("reopen", "plan", "--reason", "A fourth option", "--next", "Read its docs")
    assert said == "plan r3 running\n"
    found = ended.flow("plan")
    assert list(ended.folder.glob("flows/*/plan.json"))
    assert not list(ended.folder.glob("archive/*/plan.json"))
    assert found["next_action"] == "Read its docs"
    assert "result_ref" not in found
    (note,) = found["notes"]
    assert note["text"] == "Reopened: A fourth option\nIt was done with reports/options.md"
    assert ended("done", "plan", "--result", "second.md") == "plan r4 done\n"


def test_reopening_a_failure(flow):
    flow("fail", "plan", "--reason", "Vendor closed", "--recoverable", "notes.md")
    flow("reopen", "plan", "--reason", "It opened", "--next", "Ask again")
    found = flow.flow("plan")
    assert "failure" not in found
    assert "had failed: Vendor closed; recoverable: notes.md" in found["notes"][0]["text"]


@pytest.mark.req("R-TF-22")
def test_a_live_flow_is_neither_reopened_nor_retried(flow):
    error = flow.refuses(3, "reopen", "plan", "--reason", "r", "--next", "n")
    assert error["message"] == "plan is pending at r1: reopen is refused"
    assert "has not ended" in flow.refuses(3, "retry", "plan")["message"]
    flow.refuses(2, "reopen", "plan", "--reason", "r")
    flow.refuses(2, "reopen", "plan", "--next", "n")


@pytest.mark.req("R-TF-22")
def test_a_retry_is_a_new_flow_that_names_the_old_one(cli):
    cli("create", "Goal", "--id", "one", "--label", "l", "--link", "a=b", "--owner", "ann")
    cli("fail", "one", "--reason", "r", "--recoverable", "none")
    old = cli.flow("one")
    said = cli("retry", "one", "--id", "two", "--as", "bob")
    assert said.startswith("two r1 pending\nnext: gfs update two ")
    new = cli.flow("two")
    assert cli.flow("one") == old
    assert new["attempt_of"] == "one"
    copied = ("goal", "owner", "labels", "links")
    assert [new[name] for name in copied] == [old[name] for name in copied]
    assert (new["next_action"], new["revision"]) == ("Plan the work", 1)
    assert cli.op()["op"] == "create"
    assert cli.json("retry", "one")["id"].startswith("f-")


def test_the_same_retry_again_is_harmless(ended):
    ended("retry", "plan", "--id", "again")
    ended("update", "again", "--progress", "x", "--next", "y")
    assert ended("retry", "plan", "--id", "again").startswith("again r2 running (unchanged)\n")
    ended("create", "Else", "--id", "else")
    assert ended.refuses(4, "retry", "plan", "--id", "else")["name"] == "stale"
    assert ended.refuses(3, "retry", "plan", "--id", "")["message"].startswith("--id: ")
    assert ended.refuses(5, "retry", "nope")["name"] == "not-found"


def test_a_retry_expects_the_revision_of_the_old_flow(ended):
    error = ended.refuses(4, "retry", "plan", "--id", "again", "--expect", "1")
    assert error["message"] == "plan is at r2, not r1"
    assert ended("retry", "plan", "--id", "again", "--expect", "2").startswith("again r1 pending\n")


# ── the founding example ────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-01", "R-TF-02")
def test_the_founding_example_is_stored_byte_for_byte(example):
    (file,) = example.folder.glob(f"flows/*/{EXAMPLE}.json")
    assert file.read_bytes() == FOUNDING.read_bytes()
    assert example("import", FOUNDING) == f"{EXAMPLE} r4 running (unchanged)\n"
    assert example("export", EXAMPLE).encode() == FOUNDING.read_bytes()


@pytest.mark.req("R-TF-05", "R-TF-29")
def test_its_log_is_one_commit_for_each_revision_with_the_lines_that_changed(example):
    example("update", EXAMPLE, "--progress", "All compared", "--as", OWNER)
    example("note", EXAMPLE, "Well done", "--as", "ann")
    done = ("done", EXAMPLE, "--result", "artifacts/report.md", "--as", OWNER)
    example(*done, "--cancel-children")
    log = ("log", "-p", "--unified=0", "--format=%x00%s", "main", "--", f"*/{EXAMPLE}.json")
    commits = example.git(*log).split("\0")[1:][::-1]
    assert [commit.split(": ")[0] for commit in commits] == [
        f"{EXAMPLE} r4 import",
        f"{EXAMPLE} r5 update",
        f"{EXAMPLE} r6 note",
        f"{EXAMPLE} r7 done",
    ]
    changed = [
        {line.split('"')[1] for line in commit.splitlines() if re.match(r'[-+] +"', line)}
        for commit in commits[1:]
    ]
    assert changed[0] - {"updated_at"} == {"progress", "revision"}
    assert changed[1] - {"updated_at"} == {"revision", "notes", "at", "by", "text"}
    assert changed[2] - {"updated_at"} == {
        *("status", "revision", "next_action", "result_ref"),
        *("outcome", "reason", "finished_at", "finished_by"),
    }


@pytest.mark.req("R-TF-26")
def test_a_child_that_runs_holds_up_the_end(example):
    ends = [
        ("done", EXAMPLE, "--result", "r.md"),
        ("fail", EXAMPLE, "--reason", "r", "--recoverable", "none"),
    ]
    for words in ends:
        error = example.refuses(3, *words, "--as", OWNER)
        assert error["message"] == f"{EXAMPLE} has tasks in work: task-002"
        assert "--cancel-children" in error["hint"]
        assert error["details"]["tasks"] == ["task-002"]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("done", "--result", "r.md"), "done", f"{EXAMPLE} was completed"),
        (("fail", "--reason", "r", "--recoverable", "none"), "failed", f"{EXAMPLE} failed"),
    ],
)
def test_open_children_end_with_it_when_asked(example, words, status, reason):
    verb, *options = words
    said = example(verb, EXAMPLE, *options, "--cancel-children", "--as", OWNER)
    assert said == f"{EXAMPLE} r5 {status}\n"
    first, second = example.flow(EXAMPLE)["children"]
    assert first == json.loads(FOUNDING.read_text())["children"][0]
    assert second.pop("finished_at") == example.flow(EXAMPLE)["updated_at"]
    assert second == {
        "id": "task-002",
        "goal": "Assess integration options",
        "status": "failed",
        "outcome": "cancelled",
        "reason": reason,
        "finished_by": OWNER,
    }


def test_reopened_its_children_are_as_they_were(example):
    example("done", EXAMPLE, "--result", "r.md", "--cancel-children", "--as", OWNER)
    children = example.flow(EXAMPLE)["children"]
    example("reopen", EXAMPLE, "--reason", "r", "--next", "n", "--as", OWNER)
    assert example.flow(EXAMPLE)["children"] == children


def test_tried_again_its_finished_children_stay_finished(example):
    example("done", EXAMPLE, "--result", "r.md", "--cancel-children", "--as", OWNER)
    example("retry", EXAMPLE, "--id", "second", "--as", OWNER)
    first, second = example.flow("second")["children"]
    assert first == json.loads(FOUNDING.read_text())["children"][0]
    assert second == {"id": "task-002", "goal": "Assess integration options", "status": "pending"}
