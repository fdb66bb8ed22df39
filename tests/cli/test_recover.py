"""`gfs recover`: what an interruption left behind, and one decision recorded."""

from __future__ import annotations

import json

import pytest
import time_machine
from clirun import FOUNDING, Cli

from gitflowstate.workers import WorkerLock

TEN, TWELVE = "2026-09-06T10:00:00Z", "2026-09-06T12:00:00Z"


def at(moment: str):
    return time_machine.travel(moment, tick=False)


@pytest.fixture
def left(flow) -> Cli:
    """Return the command line on a flow with tasks that were left in every way."""
    tasks = [
        {"id": "free", "goal": "g"},
        {"id": "over", "goal": "Read it"},
        {"id": "held", "goal": "g"},
        {"id": "sent", "goal": "Send it", "on_interrupt": "hold"},
        {"id": "asked", "goal": "g"},
        {"id": "after", "goal": "g", "deps": ["over"]},
    ]
    flow("plan", "plan", "-", stdin=json.dumps(tasks).encode())
    with at(TEN):
        for name in ("over", "sent"):
            flow("task", "claim", "plan", name, "--lease", "1h", "--worker", "bob")
        flow("task", "wait", "plan", "asked", "--reason", "r", "--until", "u")
        flow("task", "claim", "plan", "held", "--lease", "1d")
    return flow


def of(cli: Cli, name: str) -> dict:
    return next(task for task in cli.flow("plan")["children"] if task["id"] == name)


@pytest.mark.req("R-TF-34", "R-TF-37")
def test_what_nobody_knows_is_listed_with_its_age_and_the_choices(left):
    with at(TWELVE):
        rows = left.json("recover", "plan")["tasks"]
        text = left("recover", "plan")
    assert [(row["task"], row["state"]) for row in rows] == [("over", "stale"), ("sent", "stale")]
    assert rows[0]["claimed_by"].startswith("bob.")
    assert (rows[0]["until"], rows[0]["age"]) == ("2026-09-06T11:00:00Z", "1 h ago")
    assert rows[0]["decisions"] == ["retry", "done", "fail", "leave"]
    assert text.startswith("over stale: Read it\n  claimed by bob.")
    assert "--task over --decide retry|done|fail|leave --reason R" in text


@pytest.mark.req("R-TF-34", "C-01")
def test_the_running_child_of_the_founding_example_is_listed(cli, tmp_path):
    cli("import", FOUNDING)
    (row,) = cli.json("recover", "flow-example-001")["tasks"]
    assert (row["task"], row["state"], row["claimed_by"]) == ("task-002", "stale", None)
    assert row["age"].endswith(" d ago")
    words = ("recover", "flow-example-001", "--task", "task-002", "--as", "architecture-session")
    cli(*words, "--decide", "retry", "--reason", "nothing was there")
    assert cli.flow("flow-example-001")["children"][1]["status"] == "pending"
    assert "Reason: nothing was there" in cli.message()


@pytest.mark.req("R-TF-34", "R-TF-07")
@pytest.mark.parametrize(
    ("reference", "found", "said"),
    [
        ("out/part.md", True, "is there"),
        ("out/none.md", False, "is not there"),
        ("https://example.invalid/x", None, "is not checked"),
    ],
)
def test_whether_a_result_exists_is_told(cli, tmp_path, reference, found, said):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/part.md").write_text("half of it")
    document = json.loads(FOUNDING.read_bytes())
    document["children"][1]["result_ref"] = reference
    cli("import", "-", stdin=json.dumps(document).encode())
    (row,) = cli.json("recover", "flow-example-001", cwd=tmp_path)["tasks"]
    assert (row["result_ref"], row["result_exists"]) == (reference, found)
    assert f"its result {reference} {said}" in cli("recover", "flow-example-001", cwd=tmp_path)


def test_where_nothing_was_interrupted_it_says_so(flow):
    assert flow("recover", "plan") == "plan: nothing is stale or interrupted\n"


@pytest.mark.req("R-TF-33", "R-TF-34", "R-TF-35")
def test_a_decision_on_a_claim_that_is_over(left):
    """The claim is ended first, in a commit of its own, and then the decision is recorded."""
    words = ("recover", "plan", "--task", "over", "--reason", "asked bob")
    with at(TEN):
        left.refuses(4, *words, "--decide", "retry")
    with at(TWELVE):
        assert left(*words, "--decide", "done", "--result", "found.md").endswith(": over done\n")
    assert left.git("log", "-2", "--format=%s").splitlines() == [
        "plan r8 recover: over: done",
        "plan r7 task expire: over",
    ]
    done = of(left, "over")
    assert (done["result_ref"], done["interruptions"]) == ("found.md", 1)
    with at(TWELVE):
        assert left.json("next", "plan")["ready"][0]["id"] == "after"


@pytest.mark.req("C-04", "R-TS-16")
@pytest.mark.parametrize(
    ("decide", "status"), [("retry", "pending"), ("fail", "failed"), ("leave", "waiting")]
)
def test_a_decision_on_a_task_on_hold(left, decide, status):
    words = ("recover", "plan", "--task", "sent", "--reason", "asked bob", "--decide", decide)
    with at(TWELVE):
        left(*words)
        assert of(left, "sent")["status"] == status
        listed = {row["task"] for row in left.json("recover", "plan")["tasks"]}
    assert ("sent" in listed) == (decide == "leave")
    assert of(left, "sent").get("outcome") == ("uncertain" if decide == "fail" else None)


@pytest.mark.req("C-12")
def test_a_worker_that_is_known_to_be_dead_is_listed_and_decided_on_at_once(left):
    """Within its lease: on this machine the lock of its worker proves its death."""
    worker = of(left, "held")["claim"]["worker"]
    words = ("recover", "plan", "--task", "held", "--decide", "retry", "--reason", "it died")
    with at(TWELVE):
        left.refuses(4, *words)
        with WorkerLock(left.gitdir, worker, "plan") as lock:
            lock.keep = True
            left.refuses(4, *words)
        assert "held" in {row["task"] for row in left.json("recover", "plan")["tasks"]}
        left(*words)
    assert of(left, "held") == {"id": "held", "goal": "g", "status": "pending"}


def test_a_decision_is_refused_where_there_is_none_to_make(left):
    words = ("recover", "plan", "--decide", "retry", "--reason", "r")
    left.refuses(2, *words)
    left.refuses(5, *words, "--task", "none")
    assert "never interrupted" in left.refuses(3, *words, "--task", "free")["message"]
    left.refuses(2, "recover", "plan", "--task", "asked", "--decide", "retry")
    left.refuses(2, "recover", "plan", "--task", "asked", "--decide", "guess", "--reason", "r")
    error = left.refuses(
        3, "recover", "plan", "--task", "asked", "--decide", "done", "--reason", "r"
    )
    assert "without a result" in error["message"]


def test_expect_covers_both_commits_of_a_decision(left):
    words = ("recover", "plan", "--task", "over", "--decide", "retry", "--reason", "r")
    with at(TWELVE):
        left.refuses(4, *words, "--expect", "3")
        left(*words, "--expect", "6")
    assert left.flow("plan")["revision"] == 8


def test_a_decision_under_a_key_can_be_repeated(left):
    words = (
        "recover",
        "plan",
        "--task",
        "over",
        "--decide",
        "retry",
        "--reason",
        "r",
        "--key",
        "k",
    )
    with at(TWELVE):
        left(*words)
        left("task", "claim", "plan", "over")
        assert left.json(*words)["repeated"]
