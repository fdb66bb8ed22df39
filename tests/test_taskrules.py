"""Tasks: the table as people were promised it, and how each op settles a task."""

from __future__ import annotations

import pytest
from samples import AT, KEY, LATER, REQUEST, TASK_TAGS, after, flow, op, receipts, state, task

from gitflowstate import codec, machine, taskrules
from gitflowstate.errors import Invalid, NotFound, Rejected, Stale
from gitflowstate.kinds import MAX_DOCUMENT, MAX_GROWN
from gitflowstate.model import Claim, Flow, Task, Waiting

STATUSES = ("pending", "running", "waiting", "done", "failed")
HELD = Claim(worker="w.12345678", by="ann", attempt=3, until="2026-09-06T12:00:00Z")

# What one op of each kind makes of a task: "-" is refused (3), "!" too (4), "=" nothing to do.
# The ops are those of `samples.op`, by the claim's own actor; `done`, `fail` and `wait` report
# what is recorded already. `free` and `held` are pending.
PROMISED = """
                    free      held      running   waiting   done      failed
    task claim      held      !         -         -         -         -
    task renew      !         held      -         -         -         -
    task release    =         free      -         -         -         -
    task done       done      done      done      done      =         -
    task fail       failed    failed    failed    failed    -         =
    task wait       waiting   waiting   waiting   =         -         -
    task resume     =         =         -         free      -         -
    task retry      -         -         -         free      -         free
    task expire     !         free      !         !         !         !
    recover         -         !         free      free      -         -
"""
FOUND = PROMISED.split("\n")[1].split()
ROWS = [line.rsplit(maxsplit=6) for line in PROMISED.strip().splitlines()[1:]]
CELLS = [
    (tag.strip(), found, outcome)
    for tag, *row in ROWS
    for found, outcome in zip(FOUND, row, strict=True)
]


def found_as(word: str) -> Task:
    """Return a task as a column of the table has it."""
    if word == "held":
        return task(claim=HELD)
    ended = {"reason": "no luck"} if word == "failed" else {}
    return task("t1", "pending" if word == "free" else word, **ended)


def word_for(found: Task) -> str:
    """Return the column that a task belongs to."""
    if found.status == "pending":
        return "held" if found.claim else "free"
    return found.status


def on(found: Task, *others: Task, status: str = "running") -> Flow:
    """Return the flow with a task, and others after it."""
    return flow(status, children=(found, *others))


def settled(wanted, found: Task, *others: Task) -> Task:
    """Return a task as an op leaves it."""
    return after(wanted, on(found, *others)).children[0]


def unchanged(wanted, found: Task, *others: Task) -> bool:
    """Tell whether there is nothing to do."""
    there = state(wanted, on(found, *others))
    return machine.apply(wanted, there) is there


# ── the table ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-03", "R-TF-25", "R-TS-23")
@pytest.mark.parametrize(("tag", "found", "outcome"), CELLS)
def test_every_op_on_every_task(tag, found, outcome):
    wanted, before = op(tag), found_as(found)
    if tag == "task done" and found == "done":
        wanted = op(tag, result="out/t.md")
    if outcome == "=":
        assert unchanged(wanted, before)
    elif outcome in "-!":
        with pytest.raises(Rejected if outcome == "-" else Stale) as refused:
            settled(wanted, before)
        assert "t1" in refused.value.message
        assert refused.value.hint
    else:
        assert word_for(settled(wanted, before)) == outcome


def test_the_table_has_a_row_for_every_op_and_no_other():
    assert [tag for tag, found, _ in CELLS if found == "free"] == [*taskrules.TABLE] == TASK_TAGS


def test_the_table_allows_what_was_promised_and_what_only_some_do():
    status = dict.fromkeys(("free", "held"), "pending")
    seen = {
        (tag, *(status.get(word, word) for word in (found, found if to == "=" else to)))
        for tag, found, to in CELLS
        if to not in "-!"
    }
    others = {
        ("task claim", "pending", "waiting"),  # the last claim is over, and the task is held
        ("task expire", "pending", "waiting"),
        ("task expire", "running", "running"),  # by hand, on a task that was claimed
        ("task expire", "running", "waiting"),
        ("task fail", "pending", "pending"),  # `gfs work` requeues
        ("task fail", "running", "pending"),
        ("recover", "pending", "pending"),  # after an interruption
        *(
            ("recover", s, to)
            for s in ("pending", "running", "waiting")
            for to in ("done", "failed")
        ),
        ("recover", "running", "running"),
        ("recover", "waiting", "waiting"),
    }
    allowed = {
        (tag, status, left)
        for tag, row in taskrules.TABLE.items()
        for status, leaves in row.items()
        for left in leaves
    }
    assert allowed == seen | others


@pytest.mark.parametrize("tag", TASK_TAGS)
def test_a_task_that_is_not_there_is_not_found(tag):
    with pytest.raises(NotFound, match="f-1 has no task t9"):
        settled(op(tag, task="t9"), task())


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize("tag", [*TASK_TAGS, "plan", "task add"])
@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_flow_that_has_ended_accepts_no_op_on_its_tasks(tag, status):
    wanted = op(tag)
    with pytest.raises(Rejected, match=f"f-1 is {status}"):
        machine.apply(wanted, state(wanted, on(task(), status=status)))


@pytest.mark.req("R-TF-26", "L4")
@pytest.mark.parametrize("tag", [*TASK_TAGS, "plan", "task add"])
def test_others_may_work_on_a_task_and_only_the_owner_may_change_its_course(tag):
    owners = {"plan", "task add", "task resume", "task retry", "recover"}
    found = {"task retry": "failed", "task resume": "waiting", "recover": "running"}.get(
        tag, "free"
    )
    if tag in ("task renew", "task release", "task expire"):
        found = "held"
    wanted = op(tag, by="mallory")
    if tag in ("task renew", "task release"):
        wanted = wanted.replace(attempt=3)
    there = flow() if tag == "plan" else on(found_as(found))
    if tag in owners:
        with pytest.raises(Stale, match="owned by ann"):
            after(wanted, there)
    else:
        assert after(wanted, there).revision == 4


@pytest.mark.req("R-TS-08")
@pytest.mark.parametrize(
    ("tag", "runs"),
    [
        ("task claim", True),
        ("task done", True),
        ("task fail", True),
        ("task wait", True),
        ("task add", False),
        ("plan", False),
    ],
)
def test_the_first_claim_or_progress_makes_a_pending_flow_run(tag, runs):
    there = flow("pending") if tag == "plan" else on(task(), status="pending")
    assert after(op(tag), there).status == ("running" if runs else "pending")


@pytest.mark.parametrize("tag", ["task done", "task fail", "task wait", "task release"])
def test_a_waiting_flow_lets_live_claims_settle_and_waits_on(tag):
    left = after(op(tag, attempt=3), on(task(claim=HELD), status="waiting"))
    assert left.status == "waiting"
    assert left.children[0].claim is None


# ── done, fail, wait ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-23", "R-TS-29", "R-TF-18")
def test_done_keeps_the_result_the_time_and_who():
    left = settled(op("task done", by="bob", attempt=3), task(claim=HELD, reason="once failed"))
    assert codec.to_json(left) == {
        "id": "t1",
        "goal": "do t1",
        "status": "done",
        "outcome": "completed",
        "result_ref": "out/t.md",
        "finished_at": LATER,
        "finished_by": "bob",
    }


@pytest.mark.req("R-TS-23", "R-TF-18")
@pytest.mark.parametrize("result", ["", " ", "\ufeff"])
def test_done_without_a_result_is_no_operation(result):
    with pytest.raises(Invalid, match="result"):
        op("task done", result=result)


@pytest.mark.req("R-TS-03")
def test_done_needs_what_it_depends_on_done():
    needs = task("t1", deps=("t3", "t20", "t2"))
    others = (task("t2", "failed"), task("t3", "done"), task("t20"))
    with pytest.raises(Rejected, match="t1 cannot be done before t20, t2"):
        settled(op("task done"), needs, *others)
    ready = tuple(each.replace(status="done", result_ref="r") for each in others)
    assert settled(op("task done"), needs, *ready).status == "done"


@pytest.mark.req("R-TF-25")
def test_an_unclaimed_task_is_settled_by_anyone():
    assert settled(op("task done", by="mallory"), task()).finished_by == "mallory"
    assert settled(op("task fail", by="mallory"), task()).reason == "no luck"


def test_another_end_than_the_recorded_one_is_refused_and_told():
    with pytest.raises(Rejected, match=r"is done with out/t\.md: task done is refused"):
        settled(op("task done", result="other.md"), task("t1", "done"))
    with pytest.raises(Rejected, match="is failed: task fail is refused"):
        settled(op("task fail", reason="other"), task("t1", "failed", reason="no luck"))


def test_fail_is_final_at_once():
    left = settled(op("task fail", outcome="timed_out"), task(max_attempts=9))
    assert (left.status, left.outcome, left.reason) == ("failed", "timed_out", "no luck")
    assert (left.failures, left.finished_at, left.finished_by) == (1, LATER, "ann")


@pytest.mark.req("C-17", "R-TS-27")
def test_requeue_makes_a_failure_pending_until_the_attempts_are_used_up():
    wanted, found = op("task fail", requeue=True), task(max_attempts=3)
    for count in (1, 2):
        found = settled(wanted, found.replace(claim=HELD))
        assert (found.status, found.failures, found.claim) == ("pending", count, None)
        assert found.outcome is None
    found = settled(wanted, found)
    assert (found.status, found.failures, found.outcome) == ("failed", 3, "errored")


@pytest.mark.req("C-17", "C-04", "R-TF-35")
@pytest.mark.parametrize("most", [0, 1])
def test_no_failure_is_requeued_past_its_attempts_or_against_hold(most):
    wanted = op("task fail", requeue=True)
    assert settled(wanted, task(max_attempts=most)).status == "failed"
    assert settled(wanted, task(on_interrupt="hold")).status == "failed"


@pytest.mark.req("C-17")
def test_interruptions_do_not_count_as_failures():
    found = task(max_attempts=2, interruptions=9)
    assert settled(op("task fail", requeue=True), found).status == "pending"


def test_wait_keeps_reason_and_condition_and_frees_the_claim():
    left = settled(op("task wait", attempt=3), task(claim=HELD))
    assert left.waiting == Waiting(reason="no key", condition="a key", on="human", since=LATER)
    assert left.claim is None
    other = settled(op("task wait", reason="no money"), left)
    assert other.waiting.reason == "no money"


def test_done_after_waiting_forgets_the_wait():
    assert settled(op("task done"), task("t1", "waiting")).waiting is None


@pytest.mark.parametrize(("tag", "status"), [("task resume", "waiting"), ("task retry", "failed")])
def test_resume_and_retry_forget_every_earlier_try(tag, status):
    tried = task(
        "t1",
        status,
        failures=3,
        interruptions=7,
        outcome="errored",
        reason="no luck",
        finished_at=AT,
        finished_by="bob",
        process="p-1",
        priority=2,
        timeout_s=60,
    )
    assert settled(op(tag), tried) == task(priority=2, timeout_s=60)


# ── recover ─────────────────────────────────────────────────────────────────────────────────────

INTERRUPTED = task(interruptions=1)
UNKNOWN = [
    task("t1", "running"),
    task("t1", "waiting", interruptions=1),
    INTERRUPTED,
]


@pytest.mark.req("R-TF-34", "C-04")
@pytest.mark.parametrize("found", UNKNOWN)
@pytest.mark.parametrize(
    ("decide", "status", "outcome"),
    [("retry", "pending", None), ("done", "done", "completed"), ("fail", "failed", "uncertain")],
)
def test_a_decision_ends_what_nobody_knows(found, decide, status, outcome):
    left = settled(op("recover", decide=decide, result="out/t.md"), found)
    assert (left.status, left.outcome) == (status, outcome)
    assert (left.interruptions == 0) == (decide == "retry" or found.interruptions == 0)


@pytest.mark.req("R-TF-34")
@pytest.mark.parametrize("found", UNKNOWN)
def test_to_leave_it_records_why_and_nothing_else(found):
    wanted = op("recover", decide="leave", reason="asked Ana")
    left = settled(wanted, found)
    assert left == found.replace(reason="asked Ana")
    assert unchanged(wanted, left)


def test_a_decision_needs_something_to_decide():
    with pytest.raises(Rejected, match="never interrupted"):
        settled(op("recover"), task())
    with pytest.raises(Stale, match=r"claimed by w\.12345678"):
        settled(op("recover"), INTERRUPTED.replace(claim=HELD))


@pytest.mark.req("R-TS-23")
def test_a_decision_cannot_make_done_what_has_no_result_or_is_blocked():
    with pytest.raises(Rejected, match="without a result"):
        settled(op("recover", decide="done"), INTERRUPTED)
    with pytest.raises(Rejected, match="before t2"):
        settled(
            op("recover", decide="done", result="r"), INTERRUPTED.replace(deps=("t2",)), task("t2")
        )


# ── size ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("E7")
@pytest.mark.parametrize("tag", TASK_TAGS)
def test_no_op_that_settles_is_refused_for_the_size_of_an_addition(tag):
    found = {
        "task renew": "held",
        "task release": "held",
        "task expire": "held",
        "task resume": "waiting",
        "task retry": "failed",
        "recover": "running",
    }.get(tag, "free")
    there = on(found_as(found)).replace(progress="x" * (MAX_GROWN + 1000))
    left = after(op(tag), there)
    assert MAX_GROWN < len(codec.encode(left)) < MAX_DOCUMENT


@pytest.mark.req("E7")
def test_a_flow_that_grows_past_its_limit_while_it_is_completed_is_completed():
    """2,000 tasks at the very limit, each done with a long reference; then the flow itself."""
    tasks = tuple(Task(id=f"t{number}", goal="g", status="pending") for number in range(2000))
    there = flow(children=tasks)
    there = there.replace(progress="x" * (MAX_GROWN - len(codec.encode(there))))
    assert len(codec.encode(there)) == MAX_GROWN
    grown = there.replace(
        children=tuple(
            Task(
                id=each.id, goal="g", status="done", outcome="completed", result_ref="r" * 400,
                finished_at=AT, finished_by="ann",
            )
            for each in tasks[:-1]
        )
        + tasks[-1:]
    )  # fmt: skip
    wanted = op("task done", task="t1999", result="r" * 2048)
    left = after(wanted, grown)
    assert {each.status for each in left.children} == {"done"}
    assert len(codec.encode(left)) > 2 * MAX_GROWN
    assert after(op("done"), left).status == "done"


# ── keys ────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_of_a_claim_is_used_up_only_when_a_task_was_claimed():
    """A claim that only ended those of others answers with no task, and may be sent again."""
    stale = task(claim=HELD, on_interrupt="hold")
    who = {"at": "2026-09-06T12:00:00Z", "worker": "v.87654321"}
    wanted = op("task claim", task=None, key=KEY, request=REQUEST, **who)
    first = machine.apply(wanted, state(wanted, on(stale)))
    assert receipts(first) == []
    assert machine.find("f-1", first).children[0].status == "waiting"
    second = machine.apply(wanted, state(wanted, on(stale, task("t2"))))
    assert machine.answered(wanted, second).made == ("t2",)
