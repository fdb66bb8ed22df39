"""The right to work on a task: how it is taken, kept, given back, and ended without its holder.

Rules: a claim is a right and no progress. A holder that lost it is refused, however late it comes:
`attempt` is the fencing token. Only a claim's own time, with the allowance for the skew of clocks,
or a proof of death ends it for others (architecture, section 3, Claims).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gitflowstate import graph, taskops
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import Time
from gitflowstate.model import Claim, Flow, Task, Waiting, instant

MAX_INTERRUPTIONS = 10
DECIDES = "gfs recover decides"


def claim(op: taskops.TaskClaim, flow: Flow, task: Task) -> Task:
    """Give the worker a task that is free, or whose claim is over."""
    if task.process is not None:
        raise served(task)
    if task.claim is not None and not may_end(task.claim, op.worker, op.at, op.skew_s):
        raise held(op.flow, task, task.claim)
    found = [b.text for b in graph.blockers(flow, task, op.at) if b.kind != "claim"]
    if found:
        raise Rejected(
            f"{task.id} is blocked: {'; '.join(found[:3])}",
            next=["gfs", "why", flow.id, task.id],
        )
    return claimed(op, flow, task)


def claimable(op: taskops.TaskClaim, flow: Flow) -> Iterator[Task]:
    """Yield the tasks that may be claimed, in the order in which they are taken."""
    if not graph.is_open(flow):
        return
    done = graph.completed(flow)
    due = [task for task in flow.children if graph.is_due(task, done, op.at)]
    for task in sorted(due, key=graph.rank):
        if task.claim is None or may_end(task.claim, op.worker, op.at, op.skew_s):
            yield task


def claimed(op: taskops.TaskClaim, flow: Flow, task: Task) -> Task:
    """Return a task with its new claim; or waiting, when its last one has ended and it is held."""
    free = task if task.claim is None else interrupted(task, op.at)
    if free.status != "pending":
        return free
    # The token only grows, over a new plan as well: the revision at which the claim is made.
    right = Claim(worker=op.worker, by=op.by, attempt=flow.revision + 1, until=op.until)
    return free.replace(claim=right, process=getattr(op, "process", None))


def may_end(claim: Claim, worker: str, at: Time, skew_s: int) -> bool:
    """Tell whether a worker may take over a claim: its time has passed, and it is not its own.

    A worker that asks lives, so it never takes a task from itself to run it twice.
    """
    return claim.worker != worker and is_over(claim, at, skew_s)


def is_over(claim: Claim, at: Time, skew_s: int) -> bool:
    """Tell whether a claim's time has passed, with the allowance for skew in seconds."""
    late = datetime.fromisoformat(at) - datetime.fromisoformat(claim.until)
    return late.total_seconds() >= skew_s


def interrupted(task: Task, at: Time) -> Task:
    """Return a task whose claim has ended without a word: ready again, or waiting for a person."""
    count = task.interruptions + 1
    free = task.replace(claim=None, interruptions=count)
    if task.on_interrupt == "hold":
        reason = "its worker was interrupted, and nobody knows how far it came"
    elif count >= MAX_INTERRUPTIONS:
        reason = f"its worker was interrupted {count} times"
    else:
        return free
    waiting = Waiting(reason=reason, condition=DECIDES, on="human", since=at)
    return free.replace(status="waiting", waiting=waiting)


def renew(op: taskops.TaskRenew, _flow: Flow, task: Task) -> Task:
    """Hold a claim for longer; never for less."""
    check_holder(op, task)
    if task.claim is None:
        raise Stale(f"{task.id} is not claimed", next=["gfs", "task", "claim", op.flow, task.id])
    if instant(op.until) < instant(task.claim.until):
        return task
    return task.replace(claim=task.claim.replace(until=op.until))


def release(op: taskops.TaskRelease, _flow: Flow, task: Task) -> Task:
    """Give a claim back."""
    check_holder(op, task)
    return task.replace(claim=None)


def expire(op: taskops.TaskExpire, _flow: Flow, task: Task) -> Task:
    """End the claim of a worker that is dead, or whose time is over."""
    check_attempt(op, task)
    if task.process is not None:
        raise served(task)
    assert task.claim is not None
    if op.proof == "time" and not is_over(task.claim, op.at, op.skew_s):
        raise held(op.flow, task, task.claim)
    return interrupted(task, op.at)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────


def check_holder(op: Any, task: Task) -> None:  # noqa: ANN401  any op with an attempt
    """Refuse a settlement by anyone but the holder of a claim; unclaimed is open to all."""
    check_attempt(op, task)
    process = getattr(op, "process", None)
    if process is not None:  # a process speaks for itself, whoever records it
        _check_serving(process, task)
        return
    if op.attempt is None and task.claim is not None and task.claim.by != op.by:
        raise held(op.flow, task, task.claim)
    if task.process is not None and task.status != "waiting":
        raise served(task)


def _check_serving(process: str, task: Task) -> None:
    """Refuse a process that a task is no longer served by. Raises Stale."""
    if task.process != process or task.claim is None or task.claim.worker != process:
        raise Stale(f"{task.id} is not served by the process {process}", process=task.process)


def check_attempt(op: Any, task: Task) -> None:  # noqa: ANN401  any op on a task
    """Refuse an op that names an attempt which is not the present one. Raises Stale."""
    attempt, present = getattr(op, "attempt", None), task.claim
    if attempt is None or (present is not None and present.attempt == attempt):
        return
    now = f"it is {task.status} and claimed by nobody"
    if present is not None:
        now = f"{present.worker} holds it with attempt {present.attempt}"
    raise Stale(
        f"the claim on {task.id} with attempt {attempt} is lost: {now}",
        holder=present.worker if present else None,
        lost=True,
        next=["gfs", "show", op.flow],
    )


def held(flow: str, task: Task, claim: Claim) -> Stale:
    """Return the refusal of a task that somebody else holds, whom it names."""
    return Stale(
        f"{task.id} is claimed by {claim.worker} until {claim.until}",
        hint=f"choose another: gfs task claim {flow} --next",
        holder=claim.worker,
        by=claim.by,
        attempt=claim.attempt,
        until=claim.until,
        next=["gfs", "task", "claim", flow, "--next"],
    )


def served(task: Task) -> Stale:
    """Return the refusal of a task that a process serves: only the process's own end frees it."""
    return Stale(
        f"{task.id} is served by the process {task.process}",
        hint="it is free once that process has ended; gfs ps shows it",
        process=task.process,
    )
