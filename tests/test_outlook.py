"""What a worker can expect: the same that the ops would say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import after, flow, op, task

from gitflowstate import outlook
from gitflowstate.errors import Blocked
from gitflowstate.model import Claim, Flow, seconds

NOW = "2026-09-06T10:00:00Z"
HALF = "2026-09-06T10:00:00.500000Z"
TIMES = ("2026-09-06T09:00:00Z", NOW, HALF, "2026-09-06T11:00:00Z", "9999-12-31T23:59:59Z")


def claim(until: str, worker: str = "w.12345678") -> Claim:
    return Claim(worker=worker, by="ann", attempt=3, until=until)


def of(*tasks, status: str = "running") -> Flow:
    return flow(status, children=tasks)


@st.composite
def small_flows(draw):
    """Return a flow of a few tasks in any situation."""
    tasks = []
    for number in range(draw(st.integers(0, 5))):
        before = st.sampled_from([f"t{n}" for n in range(number)] or ["t9"])
        tasks.append(
            task(
                f"t{number}",
                draw(st.sampled_from(["pending", "pending", "done", "failed", "waiting"])),
                deps=tuple(draw(st.sets(before, max_size=2 if number else 0))),
                not_before=draw(st.none() | st.sampled_from(TIMES)),
                claim=draw(st.none() | st.sampled_from(TIMES).map(claim)),
                process=draw(st.sampled_from([None, None, None, "p-1"])),
                on_interrupt=draw(st.sampled_from(["rerun", "hold"])),
            )
        )
    return of(*tasks, status=draw(st.sampled_from(["running", "pending", "waiting"])))


@given(small_flows(), st.sampled_from(TIMES), st.sampled_from([0, 900]))
def test_there_is_a_chance_exactly_when_a_claim_changes_something(there, now, skew):
    for worker in ("w.12345678", "v.87654321"):
        wanted = op("task claim", task=None, worker=worker, at=now, skew_s=skew)
        try:
            left = after(wanted, there)
        except Blocked:
            left = there
        assert outlook.has_chance(there, worker, now, skew) == (left != there)


@given(small_flows(), st.sampled_from([0, 900]))
@example(of(task(claim=claim(NOW))), 900)
def test_no_chance_comes_before_it_is_told(there, skew):
    """A second before it nothing has become possible by time alone."""
    if outlook.has_chance(there, "v.87654321", NOW, skew):
        return
    at = outlook.next_chance(there, NOW, skew)
    far = "9999-12-31T23:59:59Z"
    if at is None:
        assert not outlook.has_chance(there, "v.87654321", far, skew)
        return
    assert at > seconds(NOW)
    assert not outlook.has_chance(there, "v.87654321", text(at - 1), skew)


def text(moment: int) -> str:
    """Return seconds since 1970 as a time of a document."""
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:  # past the calendar
        return "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("tasks", "skew", "chance"),
    [
        ((task(),), 0, None),
        ((task(claim=claim("2026-09-06T11:00:00Z")),), 0, "2026-09-06T11:00:00Z"),
        ((task(claim=claim("2026-09-06T11:00:00Z")),), 900, "2026-09-06T11:15:00Z"),
        ((task(claim=claim(HALF)),), 0, "2026-09-06T10:00:01Z"),
        ((task(claim=claim("2026-09-06T09:00:00Z")),), 0, None),
        ((task(not_before=HALF),), 0, "2026-09-06T10:00:01Z"),
        ((task(not_before="2026-09-06T11:00:00Z"),), 0, "2026-09-06T11:00:00Z"),
        ((task("t2", deps=("t1",), not_before="2026-09-06T11:00:00Z"), task()), 0, None),
        ((task("t1", "failed", not_before="2026-09-06T11:00:00Z"),), 0, None),
    ],
)
def test_when_the_next_chance_comes(tasks, skew, chance):
    found = outlook.next_chance(of(*tasks), NOW, skew)
    assert found == (chance and seconds(chance))


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_a_flow_that_waits_or_has_ended_has_no_chance(status):
    there = of(task(not_before="2026-09-06T11:00:00Z"), status=status)
    assert outlook.next_chance(there, NOW, 0) is None


def test_what_a_proof_of_death_would_end():
    held = claim("2026-09-06T11:00:00Z")
    tasks = (
        task("a", claim=held),
        task("b"),
        task("c", claim=held, process="p-1"),
        task("d", "running", claim=held),
        task("e", "done", claim=held),
    )
    assert [each.id for each, _ in outlook.expirable(of(*tasks))] == ["a", "d"]
    for name in ("a", "d"):
        wanted = op("task expire", task=name, attempt=3)
        assert after(wanted, of(*tasks)).revision == 4


def test_the_reasons_are_those_of_every_task_that_is_not_done():
    tasks = (task("a", "done"), task("b"), task("c", deps=("b",)))
    assert outlook.reasons(of(*tasks), NOW) == ["b: is ready", "c: b is pending"]
