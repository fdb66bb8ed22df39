"""Owns what the clock makes of a document: the derived states of flows and tasks, and ages.

Rules: time enters as an argument, and nothing here is ever stored. A state flags, it decides
nothing: a lease is compared without skew, and only the op `expire` ends one.
"""

from __future__ import annotations

from gitflowstate import graph
from gitflowstate.kinds import TERMINAL, Time
from gitflowstate.model import Flow, Task, instant

STALE_AFTER = 3600  # seconds
FLOW_STATES = ("pending", "running", "waiting", "stale", "done", "failed")
TASK_STATES = (
    "ready",
    "blocked",
    "scheduled",
    "claimed",
    "running",
    "waiting",
    "stale",
    "done",
    "failed",
)

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def flow_state(flow: Flow, now: Time, stale_after: int = STALE_AFTER) -> str:
    """Return one of FLOW_STATES: the status, or `stale` for work that nobody seems to be doing.

    A pending or running flow is stale once it was not updated for `stale_after` seconds and no
    lease of its tasks runs (R-TF-37). A waiting flow stays `waiting` however long: it is known
    what it waits for, and silence is no sign of neglect.
    """
    if flow.status not in ("pending", "running"):
        return flow.status
    if elapsed(flow.updated_at, now) < stale_after:
        return flow.status
    return flow.status if any(_held(task, now) for task in flow.children) else "stale"


def task_state(flow: Flow, task: Task, now: Time) -> str:
    """Return one of TASK_STATES.

    `stale` is a claim past its lease, or a `running` that somebody wrote by hand. `ready` is what
    `graph` says, `scheduled` what only the clock holds back; any other open task is `blocked`, and
    so is each of a flow that is waiting or has ended. For all tasks of a flow, `task_states` reads
    the plan only once.
    """
    return _state(flow, task, now, graph.completed(flow))


def task_states(flow: Flow, now: Time) -> dict[str, str]:
    """Return the state of each task by its id, in the order of the document."""
    done = graph.completed(flow)
    return {task.id: _state(flow, task, now, done) for task in flow.children}


def _state(flow: Flow, task: Task, now: Time, done: set[str]) -> str:
    if task.status in TERMINAL or task.status == "waiting":
        return task.status
    if _held(task, now):
        return "running" if task.status == "running" else "claimed"
    if task.claim or task.status == "running":
        return "stale"
    if not graph.is_open(flow):
        return "blocked"
    if graph.is_due(task, done, now):
        return "ready"
    # Due at its own time, so nothing else is in the way.
    due_then = task.not_before is not None and graph.is_due(task, done, task.not_before)
    return "scheduled" if due_then else "blocked"


def _held(task: Task, now: Time) -> bool:
    return task.claim is not None and _before(now, task.claim.until)


def _before(one: Time, other: Time) -> bool:
    return instant(one) < instant(other)


def elapsed(then: Time, now: Time) -> int:
    """Return the whole seconds from `then` to `now`, negative when `then` is still to come."""
    from datetime import datetime, timedelta  # noqa: PLC0415  start-up: writing verbs need no ages

    between = datetime.fromisoformat(now) - datetime.fromisoformat(then)
    return int(between / timedelta(seconds=1))


def span(seconds: int) -> str:
    """Return a length of time in its largest whole unit, such as `3 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def age(then: Time, now: Time) -> str:
    """Return how long ago a time was, such as `3 h ago`, or how far off it is, `in 5 min`."""
    seconds = elapsed(then, now)
    if seconds == 0:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
