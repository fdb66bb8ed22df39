"""Claims: who gets a task, who keeps it, and how it comes free without its holder."""

from __future__ import annotations

import pytest
from samples import AT, after, flow, op, state, task

from gitflowstate import claims, machine
from gitflowstate.errors import Blocked, Rejected, Stale
from gitflowstate.model import Claim, Flow, Task

UNTIL = "2026-09-06T12:00:00Z"
HELD = Claim(worker="w.12345678", by="ann", attempt=3, until=UNTIL)
OVER = "2026-09-06T12:00:00Z"
NEXT = {"task": None, "worker": "v.87654321", "by": "bob"}


def on(*tasks: Task, status: str = "running", revision: int = 3) -> Flow:
    """Return the flow with tasks."""
    return flow(status, children=tasks, revision=revision)


def settled(wanted, *tasks: Task) -> Task:
    """Return the first task as an op leaves it."""
    return after(wanted, on(*tasks)).children[0]


# ── who gets it ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-09", "L1")
def test_a_claim_names_the_worker_and_its_token_is_the_revision_it_was_made_at():
    left = after(op("task claim", by="bob"), on(task(), revision=41))
    assert left.revision == 42
    assert left.children[0].claim == Claim(
        worker="w.12345678", by="bob", attempt=42, until="2026-09-06T13:00:00Z"
    )
    assert left.children[0].status == "pending"


@pytest.mark.req("L1", "C3")
def test_a_held_task_is_refused_and_its_holder_named():
    with pytest.raises(Stale, match=rf"t1 is claimed by w\.12345678 until {UNTIL}") as refused:
        settled(op("task claim", by="bob", worker="v.87654321"), task(claim=HELD))
    told = refused.value.details
    assert (told["holder"], told["by"], told["attempt"], told["until"]) == (
        "w.12345678",
        "ann",
        3,
        UNTIL,
    )


@pytest.mark.req("R-TS-05", "R-TS-27")
def test_a_claim_without_a_task_takes_the_first_of_the_ready_set():
    tasks = (
        task("t1", deps=("t2",)),
        task("t10"),
        task("t2"),
        task("t3", claim=HELD, priority=9),
        task("t4", not_before="2026-09-07T00:00:00Z", priority=9),
        task("t5", "waiting", priority=9),
        task("t6", process="p-1", priority=9),
    )
    left = after(op("task claim", **NEXT), on(*tasks))
    changed = [each.id for each, was in zip(left.children, tasks, strict=True) if each != was]
    assert changed == ["t2"]
    urgent = after(op("task claim", **NEXT), on(*tasks, task("t99", priority=1)))
    assert urgent.children[-1].claim.worker == "v.87654321"


@pytest.mark.req("R-TS-19")
@pytest.mark.parametrize(
    "there",
    [
        on(),
        on(task("t1", "done")),
        on(task("t1", "failed"), task("t2", deps=("t1",))),
        on(task(claim=HELD)),
        on(task(), status="waiting"),
    ],
)
def test_where_nothing_is_ready_the_claim_is_blocked(there):
    with pytest.raises(Blocked, match="no ready task"):
        after(op("task claim", **NEXT), there)


@pytest.mark.req("R-TS-03", "R-TS-25")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (task(deps=("t2",)), "t2 is pending"),
        (task(not_before="2026-09-07T00:00:00Z"), "not to begin before"),
    ],
)
def test_a_task_that_is_not_ready_cannot_be_claimed_by_name(found, said):
    with pytest.raises(Rejected, match=f"t1 is blocked: .*{said}"):
        settled(op("task claim"), found, task("t2"))


def test_no_task_of_a_waiting_flow_can_be_claimed_by_name():
    with pytest.raises(Rejected, match="f-1 is waiting"):
        after(op("task claim"), on(task(), status="waiting"))


@pytest.mark.parametrize("tag", ["task claim", "task done", "task fail", "task expire"])
def test_a_task_that_a_process_serves_is_refused_to_others(tag):
    with pytest.raises(Stale, match="served by the process p-1") as refused:
        settled(op(tag, at=OVER), task(process="p-1", claim=HELD))
    assert refused.value.details["process"] == "p-1"


# ── who keeps it ────────────────────────────────────────────────────────────────────────────────

HOLDERS = ["task done", "task fail", "task wait", "task release", "task renew"]


@pytest.mark.req("L3", "X-01")
@pytest.mark.parametrize("tag", [*HOLDERS, "task expire"])
@pytest.mark.parametrize(
    "found",
    [
        task(claim=HELD.replace(attempt=9, worker="v.87654321")),
        task(),
        task("t1", "done"),
        task("t1", "failed", reason="cancelled"),
        task("t1", "waiting"),
        task("t1", "waiting", process="p-1"),
    ],
)
def test_a_holder_that_lost_its_claim_is_refused_whatever_became_of_the_task(tag, found):
    wanted = op(tag, attempt=3, **({"reason": "late"} if tag in ("task fail", "task wait") else {}))
    if tag == "task done":
        wanted = op(tag, attempt=3, result="late.md")
    with pytest.raises(Stale, match="attempt 3 is lost") as refused:
        settled(wanted, found)
    assert refused.value.details["lost"] is True
    assert refused.value.details["holder"] == (found.claim and "v.87654321")


@pytest.mark.req("L3")
@pytest.mark.parametrize("tag", HOLDERS)
def test_a_holder_may_settle_after_its_lease_while_its_claim_stands(tag):
    wanted = op(tag, at="2026-09-06T23:00:00Z", attempt=3)
    assert settled(wanted, task(claim=HELD)) != task(claim=HELD)


@pytest.mark.req("L3")
@pytest.mark.parametrize("tag", HOLDERS)
def test_without_an_attempt_only_the_actor_of_the_claim_is_heard(tag):
    with pytest.raises(Stale, match=r"claimed by w\.12345678"):
        settled(op(tag, by="bob"), task(claim=HELD))
    assert settled(op(tag, by="ann"), task(claim=HELD)) != task(claim=HELD)


@pytest.mark.req("L3")
def test_the_right_attempt_is_heard_whoever_brings_it():
    assert settled(op("task done", by="bob", attempt=3), task(claim=HELD)).finished_by == "bob"


@pytest.mark.req("X-01")
def test_a_settlement_that_is_recorded_already_is_no_error_for_its_late_holder():
    wanted = op("task done", attempt=3)
    there = state(wanted, on(task("t1", "done", result_ref="out/t.md")))
    assert machine.apply(wanted, there) is there


@pytest.mark.parametrize(
    ("until", "kept"), [("2026-09-06T14:00:00Z", "2026-09-06T14:00:00Z"), (AT, UNTIL)]
)
def test_a_claim_is_renewed_for_longer_and_never_for_less(until, kept):
    left = settled(op("task renew", until=until, attempt=3), task(claim=HELD))
    assert left.claim == HELD.replace(until=kept)


def test_a_released_task_is_as_before_its_claim():
    found = task(claim=HELD, failures=1, interruptions=2)
    left = settled(op("task release", attempt=3), found)
    assert left == found.replace(claim=None)


# ── how it ends without its holder ──────────────────────────────────────────────────────────────


@pytest.mark.req("C-12", "R-TS-09")
@pytest.mark.parametrize(
    ("at", "skew", "over"),
    [
        ("2026-09-06T11:59:59Z", 0, False),
        ("2026-09-06T11:59:59.999999Z", 0, False),
        (UNTIL, 0, True),
        ("2026-09-06T12:14:59Z", 900, False),
        ("2026-09-06T12:15:00Z", 900, True),
        ("9999-12-31T23:59:59Z", 2**53 - 1, False),
    ],
)
def test_a_claim_ends_by_time_with_the_skew_of_clocks(at, skew, over):
    assert claims.is_over(HELD, at, skew) == over
    expired = op("task expire", at=at, skew_s=skew, proof="time")
    taken = op("task claim", at=at, skew_s=skew, worker="v.87654321")
    if over:
        assert settled(expired, task(claim=HELD)) == task(interruptions=1)
        left = settled(taken, task(claim=HELD))
        assert (left.claim.worker, left.interruptions) == ("v.87654321", 1)
    else:
        for wanted in (expired, taken, op("task claim", at=at, skew_s=skew, task="t1", by="bob")):
            with pytest.raises(Stale, match="claimed by"):
                settled(wanted, task(claim=HELD))


@pytest.mark.req("X-40")
def test_a_worker_never_takes_over_its_own_claim():
    """It lives, since it asks; taken once more, the task would run twice at once."""
    own = {"at": "2026-09-07T00:00:00Z", "worker": HELD.worker}
    with pytest.raises(Stale):
        settled(op("task claim", **own), task(claim=HELD))
    with pytest.raises(Blocked):
        settled(op("task claim", **own, task=None), task(claim=HELD))
    left = after(op("task claim", **own, task=None), on(task(claim=HELD), task("t2")))
    assert [each.claim.attempt for each in left.children] == [3, 4]


def test_a_lease_that_ends_with_the_calendar_never_overflows():
    forever = HELD.replace(until="9999-12-31T23:59:59Z")
    with pytest.raises(Stale):
        settled(op("task claim", skew_s=900), task(claim=forever))


@pytest.mark.req("C-12")
def test_the_death_of_its_worker_ends_a_claim_before_its_time():
    wanted = op("task expire", proof="lock", attempt=3, by="bob")
    assert settled(wanted, task(claim=HELD)) == task(interruptions=1)


@pytest.mark.req("C-04", "C-17", "R-TS-16", "R-TF-35")
def test_an_interrupted_task_on_hold_waits_for_a_person_and_is_not_claimed():
    held = task(claim=HELD, on_interrupt="hold")
    for wanted in (
        op("task expire", proof="lock"),
        op("task claim", at=OVER, by="bob", worker="v.87654321"),
    ):
        left = settled(wanted, held)
        assert (left.status, left.claim, left.interruptions) == ("waiting", None, 1)
        assert (left.waiting.on, left.waiting.since) == ("human", wanted.at)
        assert "nobody knows" in left.waiting.reason


@pytest.mark.req("C-17")
def test_the_tenth_interruption_leads_to_waiting():
    found = task(max_attempts=1)
    for count in range(1, 10):
        found = settled(op("task expire", proof="lock"), found.replace(claim=HELD))
        assert (found.status, found.interruptions, found.failures) == ("pending", count, 0)
    found = settled(op("task claim", at=OVER, worker="v.87654321"), found.replace(claim=HELD))
    assert (found.status, found.interruptions, found.claim) == ("waiting", 10, None)
    assert "10 times" in found.waiting.reason


def test_a_claim_on_a_task_that_a_hand_set_to_running_can_end_too():
    found = task("t1", "running", claim=HELD)
    assert settled(op("task expire", proof="lock"), found).claim is None
    waiting = settled(op("task expire", proof="lock"), found.replace(on_interrupt="hold"))
    assert waiting.status == "waiting"


@pytest.mark.req("C-04")
def test_a_claim_without_a_task_ends_what_is_over_on_its_way_to_the_first():
    """Of two on hold both wait for a person, and the third task is taken, all in one commit."""
    held = [task(f"t{n}", claim=HELD, on_interrupt="hold") for n in (1, 2)]
    left = after(op("task claim", at=OVER, **NEXT), on(*held, task("t3"), task("t4")))
    assert [each.status for each in left.children] == ["waiting", "waiting", "pending", "pending"]
    assert [bool(each.claim) for each in left.children] == [False, False, True, False]
    assert left.revision == 4


@pytest.mark.req("C-04")
def test_a_claim_without_a_task_that_finds_only_holds_records_them_and_takes_none():
    held = task(claim=HELD, on_interrupt="hold")
    wanted = op("task claim", at=OVER, **NEXT)
    left = after(wanted, on(held))
    assert left.children[0].status == "waiting"
    assert wanted.made_in(left) == ()
