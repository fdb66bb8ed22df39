"""What a worker can expect of a flow: whether a claim may succeed now, when one may, and why not.

Rules: pure; the clock enters as an argument. It only spares a worker what would be refused: what
is decided is decided by the op.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitflowstate import claims, graph, taskrules
from gitflowstate.kinds import Time
from gitflowstate.model import Claim, Flow, Task, instant, seconds


def has_chance(flow: Flow, worker: str, now: Time, skew_s: int) -> bool:
    """Tell whether a claim of a worker on the first ready task may succeed."""
    if not graph.is_open(flow):
        return False
    done = graph.completed(flow)
    return any(
        graph.is_due(task, done, now)
        and (task.claim is None or claims.may_end(task.claim, worker, now, skew_s))
        for task in flow.children
    )


def next_chance(flow: Flow, now: Time, skew_s: int) -> int | None:
    """Return when something may become ready, in seconds since 1970; None where nothing can.

    That is when a claim of somebody ends or a task's time comes. What is over already is no
    chance: either it was claimed, or something else stands in its way.
    """
    if not graph.is_open(flow):
        return None
    done = graph.completed(flow)
    ends = [_whole(task.claim.until) + skew_s for task in flow.children if task.claim]
    starts = [
        _whole(task.not_before)
        for task in flow.children
        if task.not_before is not None
        and instant(task.not_before) > instant(now)
        and graph.is_due(task, done, task.not_before)
    ]
    return min((at for at in (*ends, *starts) if at > seconds(now)), default=None)


def _whole(moment: Time) -> int:
    """Return a time as seconds since 1970, a fraction counting as one more."""
    return seconds(moment) + ("." in moment)


def expirable(flow: Flow) -> Iterator[tuple[Task, Claim]]:
    """Yield the tasks whose claim a proof of death would end."""
    for task in flow.children:
        if task.claim and task.process is None and task.status in taskrules.TABLE["task expire"]:
            yield task, task.claim


def reasons(flow: Flow, now: Time) -> list[str]:
    """Return why tasks that are not done stand still, one line each."""
    return [
        f"{task.id}: {'; '.join(blocker.text for blocker in found) or 'is ready'}"
        for task, found in graph.unfinished(flow, now)
    ]
