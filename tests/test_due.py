"""What the clock makes of a document: states that are computed and never stored."""

from __future__ import annotations

import pytest
from anyflow import EXAMPLE, NOW, WAITING, flows, times
from hypothesis import given, settings

from gitflowstate import graph
from gitflowstate.due import (
    FLOW_STATES,
    TASK_STATES,
    age,
    elapsed,
    flow_state,
    span,
    task_states,
)
from gitflowstate.model import Claim, Flow, Task

UPDATED = "2026-09-06T10:00:00Z"


def _claimed(until: str) -> Claim:
    return Claim(worker="w.12345678", by="w", attempt=4, until=until)


def _with(*tasks: Task, **fields) -> Flow:
    return EXAMPLE.replace(children=tasks, **fields)


def _task(**fields) -> Task:
    return Task(**{"id": "t", "goal": "Do it", "status": "pending", **fields})


@pytest.mark.req("R-TF-37")
@pytest.mark.parametrize(
    ("now", "stale_after", "state"),
    [
        ("2026-09-06T10:59:59.999999Z", 3600, "running"),
        ("2026-09-06T11:00:00Z", 3600, "stale"),
        ("2026-09-06T10:00:10Z", 10, "stale"),
        ("2026-09-06T10:59:59Z", 7200, "running"),
        ("2026-09-06T09:00:00Z", 3600, "running"),  # a clock that was set back
    ],
)
def test_a_flow_is_stale_once_it_was_not_updated_for_so_long(now, stale_after, state):
    assert flow_state(EXAMPLE, now, stale_after) == state


@pytest.mark.req("R-TF-37")
@pytest.mark.parametrize("status", ["pending", "running"])
def test_every_flow_that_should_move_can_be_stale(status):
    assert flow_state(EXAMPLE.replace(status=status), NOW) == "stale"


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_a_flow_that_waits_or_has_ended_is_never_stale(status):
    assert flow_state(EXAMPLE.replace(status=status), "2030-01-01T00:00:00Z") == status


@pytest.mark.req("R-TF-37")
def test_a_flow_is_not_stale_while_a_lease_of_its_tasks_runs():
    flow = _with(_task(claim=_claimed("2026-09-06T12:00:00Z")))
    assert flow_state(flow, "2026-09-06T11:59:59.5Z".replace(".5", ".500000")) == "running"
    assert flow_state(flow, "2026-09-06T12:00:00Z") == "stale"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ready"),
        ({"status": "done", "result_ref": "r"}, "done"),
        ({"status": "failed"}, "failed"),
        ({"status": "waiting"}, "waiting"),
        ({"not_before": "2026-09-06T13:10:00.000001Z"}, "scheduled"),
        ({"not_before": NOW}, "ready"),
        ({"deps": ("finished",)}, "ready"),
        ({"deps": ("finished", "broken")}, "blocked"),
        ({"deps": ("unknown",)}, "blocked"),
        ({"deps": ("broken",), "not_before": "2027-01-01T00:00:00Z"}, "blocked"),
        ({"process": "p-1"}, "blocked"),
        ({"process": "p-1", "not_before": "2027-01-01T00:00:00Z"}, "blocked"),
        ({"claim": _claimed("2026-09-06T13:10:01Z")}, "claimed"),
        ({"claim": _claimed("2026-09-06T13:10:01Z"), "status": "running"}, "running"),
        ({"claim": _claimed(NOW)}, "stale"),
        ({"status": "running"}, "stale"),
    ],
)
def test_the_state_of_a_task(fields, state):
    others = (
        _task(id="finished", status="done", result_ref="r"),
        _task(id="broken", status="failed"),
    )
    task = _task(**fields)
    flow = _with(task, *others)
    assert task_states(flow, NOW) == {"t": state, "finished": "done", "broken": "failed"}


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_nothing_is_ready_in_a_flow_that_waits_or_has_ended_but_a_claim_still_stands(status):
    free, held = _task(), _task(id="held", claim=_claimed("2026-09-06T14:00:00Z"))
    assert task_states(_with(free, held, status=status), NOW) == {"t": "blocked", "held": "claimed"}


@given(flows, times)
def test_ready_is_what_may_be_claimed(flow, now):
    ready = {name for name, state in task_states(flow, now).items() if state == "ready"}
    assert ready == {task.id for task in graph.ready(flow, now)}


@pytest.mark.req("R-TF-34")
def test_the_running_child_of_the_founding_example_is_stale():
    assert task_states(EXAMPLE, UPDATED) == {"task-001": "done", "task-002": "stale"}


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (NOW, "now"),
        ("2026-09-06T13:09:59.500000Z", "now"),
        ("2026-09-06T13:09:58Z", "2 s ago"),
        ("2026-09-06T13:09:00Z", "1 min ago"),
        ("2026-09-06T12:10:01Z", "59 min ago"),
        (UPDATED, "3 h ago"),
        ("2026-09-05T13:10:00Z", "1 d ago"),
        ("2024-09-06T13:10:00Z", "730 d ago"),
        ("2026-09-06T13:15:30Z", "in 5 min"),
    ],
)
def test_an_age_is_told_in_its_largest_whole_unit(then, words):
    assert age(then, NOW) == words


@settings(deadline=None)
@given(flows, times, times)
def test_every_flow_has_a_state_at_every_time(flow, now, then):
    assert flow_state(flow, now) in FLOW_STATES
    assert set(task_states(flow, now).values()) <= set(TASK_STATES)
    assert elapsed(then, now) == -elapsed(now, then)
    assert span(abs(elapsed(then, now))) in age(then, now) or age(then, now) == "now"


@pytest.mark.req("R-TF-37", "R-TF-33")
@pytest.mark.parametrize("flow", [EXAMPLE, WAITING])
def test_a_state_is_computed_and_never_stored(flow):
    before = repr(flow)
    flow_state(flow, NOW)
    task_states(flow, NOW)
    assert repr(flow) == before
