"""What each operation changes in a task: the tasks' own table, and how a task is settled.

Rules: a rule returns the very task it was given when there is nothing to do. Completion, not
intention, is what is recorded: only an execution's end, or a person's decision, leaves `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitflowstate import claims, graph, taskops
from gitflowstate.errors import Blocked, NotFound, Rejected
from gitflowstate.kinds import Status
from gitflowstate.model import Flow, Task, Waiting
from gitflowstate.ops import FlowOp, Wait

# The life of a task
#
#     pending ⇄ waiting       a claim leaves the status as it is; `running` only a hand can write,
#        ↓         ↓          and it is legal, never ready, and left by settling or `recover`
#      done      failed ── retry ──→ pending
#
# op -> the status a task is found in -> the statuses it may be left in. `done`, `task fail` and
# `task wait` find themselves, since the same report twice is "already so".
TABLE: dict[str, dict[Status, tuple[Status, ...]]] = {
    "task claim": {"pending": ("pending", "waiting")},
    "task renew": {"pending": ("pending",)},
    "task release": {"pending": ("pending",)},
    "task done": {
        "pending": ("done",),
        "running": ("done",),
        "waiting": ("done",),
        "done": ("done",),
    },
    "task fail": {
        "pending": ("failed", "pending"),
        "running": ("failed", "pending"),
        "waiting": ("failed",),
        "failed": ("failed",),
    },
    "task wait": {"pending": ("waiting",), "running": ("waiting",), "waiting": ("waiting",)},
    "task resume": {"waiting": ("pending",), "pending": ("pending",)},
    "task retry": {"failed": ("pending",), "waiting": ("pending",)},
    "task expire": {"pending": ("pending", "waiting"), "running": ("running", "waiting")},
    "recover": {
        "pending": ("pending", "done", "failed"),
        "running": ("running", "pending", "done", "failed"),
        "waiting": ("waiting", "pending", "done", "failed"),
    },
}
_PROGRESS = ("task claim", "task done", "task fail", "task wait")


def task_of(flow: Flow, name: str) -> Task:
    """Return a task of a flow. Raises NotFound."""
    for task in flow.children:
        if task.id == name:
            return task
    raise NotFound(
        f"{flow.id} has no task {name}",
        next=["gfs", "graph", flow.id],
    )


def settle(op: Any, flow: Flow) -> Flow:  # noqa: ANN401  any op on a task that it names
    """Interpret the table for an op on one named task."""
    task = task_of(flow, op.task)
    allowed = TABLE[op.TAG].get(task.status)
    if allowed is None:
        raise _refused(op, flow, task)
    after = _RULES[op.TAG](op, flow, task)
    if after.status not in allowed:
        raise Rejected(f"{task.id} is {task.status}: {op.TAG} may not make it {after.status}")
    return _with(flow, op, {task.id: after})


def claim(op: taskops.TaskClaim, flow: Flow) -> Flow:
    """Give the worker the named task, or the first that is ready.

    Claims whose time is over are expired on the way; a `hold` task then waits for a person.
    """
    if op.task is not None:
        return settle(op, flow)
    changed: dict[str, Task] = {}
    for task in claims.claimable(op, flow):
        changed[task.id] = claims.claimed(op, flow, task)
        if changed[task.id].claim is not None:
            break
    if not changed:
        raise Blocked(f"{flow.id} has no ready task", next=["gfs", "why", flow.id])
    return _with(flow, op, changed)


def _with(flow: Flow, op: FlowOp, changed: Mapping[str, Task]) -> Flow:
    """Return the flow with some tasks changed; the first progress makes it run."""
    children = tuple(changed.get(task.id, task) for task in flow.children)
    if all(one is other for one, other in zip(children, flow.children, strict=True)):
        return flow
    runs = flow.status == "pending" and op.TAG in _PROGRESS
    return flow.replace(children=children, status="running" if runs else flow.status)


def _refused(op: Any, flow: Flow, task: Task) -> Rejected:  # noqa: ANN401  any op on a task
    """Return the refusal of an op in a task's status.

    Raises Stale for a holder that lost its claim: it is told so, whatever became of the task.
    """
    claims.check_attempt(op, task)
    ended = f" with {task.result_ref}" if task.result_ref else ""
    return Rejected(
        f"{task.id} of {flow.id} is {task.status}{ended}: {op.TAG} is refused",
        status=task.status,
        next=["gfs", "why", flow.id, task.id],
    )


# ── settling ────────────────────────────────────────────────────────────────────────────────────


def _done(op: taskops.TaskDone, flow: Flow, task: Task) -> Task:
    if task.status == "done":
        if task.result_ref == op.result:
            return task
        raise _refused(op, flow, task)
    claims.check_holder(op, task)
    return _completed(op, flow, task, op.result)


def _completed(op: FlowOp, flow: Flow, task: Task, result: str) -> Task:
    done = graph.completed(flow)
    missing = [dep for dep in task.deps if dep not in done]
    if missing:
        raise Rejected(
            f"{task.id} cannot be done before {', '.join(missing[:5])}",
            next=["gfs", "why", flow.id, task.id],
        )
    return _finished(op, task, status="done", outcome="completed", result_ref=result)


def _finished(op: FlowOp, task: Task, **changes: Any) -> Task:  # noqa: ANN401  fields of a task
    return task.replace(
        claim=None, waiting=None, finished_at=op.at, finished_by=op.by, **{"reason": None} | changes
    )


def _fail(op: taskops.TaskFail, flow: Flow, task: Task) -> Task:
    if task.status == "failed":
        if task.reason == op.reason:
            return task
        raise _refused(op, flow, task)
    claims.check_holder(op, task)
    failures = task.failures + 1
    if op.requeue and task.on_interrupt == "rerun" and failures < task.max_attempts:
        return task.replace(status="pending", claim=None, failures=failures, reason=op.reason)
    return _finished(
        op, task, status="failed", outcome=op.outcome, reason=op.reason, failures=failures
    )


def _wait(op: taskops.TaskWait, _flow: Flow, task: Task) -> Task:
    waiting = waiting_for(op, task.waiting if task.status == "waiting" else None)
    if waiting is task.waiting:
        return task
    claims.check_holder(op, task)
    return task.replace(status="waiting", claim=None, waiting=waiting)


def waiting_for(op: Wait | taskops.TaskWait, present: Waiting | None) -> Waiting:
    """Return what is waited for, since now; or the present one where that is the same."""
    waiting = Waiting(reason=op.reason, condition=op.until, on=op.on, since=op.at)
    same = present is not None and present.replace(since=op.at) == waiting
    return present if present is not None and same else waiting


def again(task: Task) -> Task:
    """Return a task as it was before anybody tried it."""
    return task.replace(
        status="pending",
        claim=None,
        failures=0,
        interruptions=0,
        outcome=None,
        result_ref=None,
        reason=None,
        finished_at=None,
        finished_by=None,
        waiting=None,
        process=None,
    )


def _resume(_op: taskops.TaskResume, _flow: Flow, task: Task) -> Task:
    return task if task.status == "pending" else again(task)


def _retry(_op: taskops.TaskRetry, _flow: Flow, task: Task) -> Task:
    return again(task)


def _recover(op: taskops.Recover, flow: Flow, task: Task) -> Task:
    """Apply a person's decision to a task whose outcome nobody knows, and nobody holds."""
    if task.claim is not None:
        raise claims.served(task) if task.process else claims.held(op.flow, task, task.claim)
    if task.status == "pending" and not task.interruptions:
        raise Rejected(
            f"{task.id} of {flow.id} was never interrupted: there is nothing to decide",
            next=["gfs", "why", flow.id, task.id],
        )
    match op.decide:
        case "retry":
            return again(task)
        case "fail":
            return _finished(op, task, status="failed", outcome="uncertain", reason=op.reason)
        case "done" if op.result:
            return _completed(op, flow, task, op.result)
        case "done":
            raise Rejected(f"{task.id} cannot be done without a result", hint="--result REF")
        case "leave":
            return task.replace(reason=op.reason)
        case _:
            raise Rejected(f"{flow.id}: there is no decision {op.decide}")


_RULES: dict[str, Callable[[Any, Flow, Task], Task]] = {
    "task claim": claims.claim,
    "task renew": claims.renew,
    "task release": claims.release,
    "task done": _done,
    "task fail": _fail,
    "task wait": _wait,
    "task resume": _resume,
    "task retry": _retry,
    "task expire": claims.expire,
    "recover": _recover,
}
