"""What each operation on tasks changes: the tasks' own table, and the rules behind it.

Rules: a rule returns the very flow it was given when there is nothing to do. Readiness and claims
are as architecture, section 3, says: completion, not intention, is what the plan records; a holder
that lost its claim is refused; only a claim's own time or a proof of death ends it for others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from gitflowstate import graph, taskops
from gitflowstate.errors import Blocked, NotFound, Rejected, Stale
from gitflowstate.kinds import Status, Time
from gitflowstate.model import Claim, Flow, Plan, Step, Task, Waiting, instant
from gitflowstate.ops import FlowOp
from gitflowstate.taskops import TaskOp

MAX_INTERRUPTIONS = 10

# op -> the status a task is found in -> the statuses it may be left in.
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
    "task expire": {"pending": ("pending", "waiting")},
    "recover": {
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
    raise NotFound(f"{flow.id} has no task {name}", hint=f"gfs graph {flow.id}")


def settle(op: TaskOp, flow: Flow) -> Flow:
    """Interpret the table for an op on one named task."""
    task = task_of(flow, op.task)
    allowed = TABLE[op.TAG].get(task.status)
    if allowed is None:
        raise _refused(op, flow, task)
    after = _RULES[op.TAG](op, flow, task)
    if after.status not in allowed:
        raise Rejected(f"{task.id} is {task.status}: {op.TAG} may not make it {after.status}")
    return _with(flow, op, {task.id: after})


def _refused(op: FlowOp, flow: Flow, task: Task) -> Rejected:
    ended = f" with {task.result_ref}" if task.result_ref else ""
    return Rejected(
        f"{task.id} of {flow.id} is {task.status}{ended}: {op.TAG} is refused",
        hint=f"gfs why {flow.id} {task.id}",
        status=task.status,
        next=["gfs", "why", flow.id, task.id],
    )


def _with(flow: Flow, op: FlowOp, changed: Mapping[str, Task]) -> Flow:
    """Return the flow with some tasks changed; the first progress makes it run."""
    children = tuple(changed.get(task.id, task) for task in flow.children)
    if all(one is other for one, other in zip(children, flow.children, strict=True)):
        return flow
    runs = flow.status == "pending" and op.TAG in _PROGRESS
    return flow.replace(children=children, status="running" if runs else flow.status)


# ── claims ──────────────────────────────────────────────────────────────────────────────────────


def claim(op: taskops.TaskClaim, flow: Flow) -> Flow:
    """Give the worker the named task, or the first that is ready.

    Claims whose time is over are expired on the way; a `hold` task then waits for a person.
    """
    if op.task is not None:
        return _claim_named(op, flow, task_of(flow, op.task))
    done, changed = graph.completed(flow), dict[str, Task]()
    if graph.is_open(flow):
        due = [task for task in flow.children if graph.is_due(task, done, op.at)]
        for task in sorted(due, key=graph.rank):
            if task.claim is None or is_over(task.claim, op.at, op.skew_s):
                changed[task.id] = _claimed(op, flow, task)
                if changed[task.id].status == "pending":
                    break
    if not changed:
        raise Blocked(
            f"{flow.id} has no ready task", hint=f"gfs why {flow.id}", next=["gfs", "why", flow.id]
        )
    return _with(flow, op, changed)


def _claim_named(op: taskops.TaskClaim, flow: Flow, task: Task) -> Flow:
    if task.status not in TABLE[op.TAG]:
        raise _refused(op, flow, task)
    if task.process is not None:
        raise Stale(f"{task.id} is served by the process {task.process}", hint="gfs ps")
    if task.claim is not None and not is_over(task.claim, op.at, op.skew_s):
        raise _held(task, task.claim)
    found = [b for b in graph.blockers(flow, task, op.at) if b.kind != "claim"]
    if found:
        raise Rejected(
            f"{task.id} is blocked: {'; '.join(b.text for b in found[:3])}",
            hint=f"gfs why {flow.id} {task.id}",
            next=["gfs", "why", flow.id, task.id],
        )
    return _with(flow, op, {task.id: _claimed(op, flow, task)})


def _held(task: Task, held: Claim) -> Stale:
    return Stale(
        f"{task.id} is claimed by {held.worker} until {held.until}",
        hint="choose another: gfs task claim ID --next",
        holder=held.worker,
        by=held.by,
        attempt=held.attempt,
        until=held.until,
    )


def _claimed(op: taskops.TaskClaim, flow: Flow, task: Task) -> Task:
    freed = task if task.claim is None else interrupted(task, op.at)
    if freed.status != "pending":
        return freed
    held = Claim(worker=op.worker, by=op.by, attempt=flow.revision + 1, until=op.until)
    return freed.replace(claim=held)


def is_over(held: Claim, at: Time, skew_s: int) -> bool:
    """Tell whether a claim's time has passed, with the allowance for skew in seconds."""
    end = datetime.fromisoformat(held.until) + timedelta(seconds=skew_s)
    return datetime.fromisoformat(at) >= end


def interrupted(task: Task, at: Time) -> Task:
    """Return a task whose claim has ended without a word: ready again, or waiting for a person."""
    count = task.interruptions + 1
    freed = task.replace(claim=None, interruptions=count)
    if task.on_interrupt == "hold":
        reason = "its worker was interrupted, and nobody knows how far it came"
    elif count >= MAX_INTERRUPTIONS:
        reason = f"its worker was interrupted {count} times"
    else:
        return freed
    waiting = Waiting(reason=reason, condition="gfs recover decides", on="human", since=at)
    return freed.replace(status="waiting", waiting=waiting)


def _check_holder(op: Any, task: Task) -> None:  # noqa: ANN401  any op with an attempt
    """Refuse a settlement by anyone but the holder of a claim; unclaimed is open to all."""
    held = task.claim
    if op.attempt is not None and (held is None or held.attempt != op.attempt):
        holder = f"{held.worker} holds it with attempt {held.attempt}" if held else "it is free"
        raise Stale(
            f"the claim on {task.id} with attempt {op.attempt} is lost: {holder}",
            hint=f"gfs show {op.flow}",
            holder=held.worker if held else None,
            lost=True,
        )
    if op.attempt is None and held is not None and held.by != op.by:
        raise _held(task, held)
    if task.process is not None:
        raise Stale(f"{task.id} is served by the process {task.process}", hint="gfs ps")


def _renew(op: taskops.TaskRenew, _flow: Flow, task: Task) -> Task:
    if task.claim is None:
        raise Stale(f"{task.id} is not claimed", hint=f"gfs task claim {op.flow} {task.id}")
    _check_holder(op, task)
    if instant(op.until) < instant(task.claim.until):
        return task
    return task.replace(claim=task.claim.replace(until=op.until))


def _release(op: taskops.TaskRelease, _flow: Flow, task: Task) -> Task:
    _check_holder(op, task)
    return task.replace(claim=None)


def _expire(op: taskops.TaskExpire, _flow: Flow, task: Task) -> Task:
    held = task.claim
    if task.process is not None:
        raise Stale(f"{task.id} is served by the process {task.process}", hint="gfs ps")
    if held is None or held.attempt != op.attempt:
        raise Stale(f"{task.id} is not claimed with attempt {op.attempt}", hint="gfs show")
    if op.proof == "time" and not is_over(held, op.at, op.skew_s):
        raise _held(task, held)
    return interrupted(task, op.at)


# ── settling ────────────────────────────────────────────────────────────────────────────────────


def _done(op: taskops.TaskDone, flow: Flow, task: Task) -> Task:
    if task.status == "done":
        if task.result_ref == op.result:
            return task
        raise _refused(op, flow, task)
    _check_holder(op, task)
    missing = [dep for dep in task.deps if dep not in graph.completed(flow)]
    if missing:
        raise Rejected(
            f"{task.id} cannot be done before {', '.join(missing[:5])}",
            hint=f"gfs why {flow.id} {task.id}",
        )
    return _finished(op, task, status="done", outcome="completed", result_ref=op.result)


def _finished(op: TaskOp, task: Task, **changes: Any) -> Task:  # noqa: ANN401  fields of a task
    return task.replace(
        claim=None, waiting=None, finished_at=op.at, finished_by=op.by, **{"reason": None} | changes
    )


def _fail(op: taskops.TaskFail, flow: Flow, task: Task) -> Task:
    if task.status == "failed":
        if task.reason == op.reason:
            return task
        raise _refused(op, flow, task)
    _check_holder(op, task)
    failures = task.failures + 1
    again = op.requeue and task.on_interrupt == "rerun" and failures < task.max_attempts
    if again:
        return task.replace(status="pending", claim=None, failures=failures, reason=op.reason)
    return _finished(
        op, task, status="failed", outcome=op.outcome, reason=op.reason, failures=failures
    )


def _wait(op: taskops.TaskWait, _flow: Flow, task: Task) -> Task:
    present = task.waiting
    if present and (present.reason, present.condition, present.on) == (op.reason, op.until, op.on):
        return task
    _check_holder(op, task)
    waiting = Waiting(reason=op.reason, condition=op.until, on=op.on, since=op.at)
    return task.replace(status="waiting", claim=None, waiting=waiting)


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
    match op.decide:
        case "retry":
            return again(task)
        case "fail":
            return _finished(op, task, status="failed", outcome="uncertain", reason=op.reason)
        case "done" if op.result:
            return _finished(op, task, status="done", outcome="completed", result_ref=op.result)
        case "done":
            raise Rejected(f"{task.id} cannot be done without a result", hint="--result REF")
        case "leave":
            return task.replace(reason=op.reason)
        case _:
            raise Rejected(f"{flow.id}: there is no decision {op.decide}")


_RULES: dict[str, Callable[[Any, Flow, Task], Task]] = {
    "task renew": _renew,
    "task release": _release,
    "task done": _done,
    "task fail": _fail,
    "task wait": _wait,
    "task resume": _resume,
    "task retry": _retry,
    "task expire": _expire,
    "recover": _recover,
}


# ── plans ───────────────────────────────────────────────────────────────────────────────────────

_STEP = tuple(Step.__annotations__)


def add(op: taskops.TaskAdd, flow: Flow) -> Flow:
    """Add a task at the end of the list."""
    task = Task(id=op.task or _next_id(flow), status="pending", **_static(op))
    if any(other.id == task.id for other in flow.children):
        raise Stale(f"{flow.id} has a task {task.id} already", hint=f"gfs graph {flow.id}")
    children = (*flow.children, task)
    graph.check(graph.edges_of(children))
    return flow.replace(children=children)


def _next_id(flow: Flow) -> str:
    numbers = [int(t.id[1:]) for t in flow.children if t.id[:1] == "t" and t.id[1:].isdigit()]
    return f"t{max(numbers, default=0) + 1}"


def _static(source: Any) -> dict[str, Any]:  # noqa: ANN401  a step, a task or an op with its fields
    return {name: getattr(source, name) for name in _STEP if name != "id"}


def plan(op: taskops.Plan, flow: Flow) -> Flow:
    """Set the tasks from the plan: once, or deliberately in place of the present ones."""
    if flow.plan is not None or flow.children:
        _check_replaceable(op, flow)
    return flow.replace(children=planned(op.document, flow, keep=op.keep_done), plan=_after(flow))


def _after(flow: Flow) -> int:
    return (flow.plan or 0) + 1


def _check_replaceable(op: taskops.Plan, flow: Flow) -> None:
    if not op.replace_plan:
        raise Rejected(
            f"{flow.id} has a plan of {len(flow.children)} tasks already",
            hint=f"gfs plan {flow.id} FILE --replace --reason REASON",
        )
    if op.reason is None:
        raise Rejected("a plan is replaced for a reason", hint="--reason REASON")
    busy = [task.id for task in flow.children if task.claim or task.status == "running"]
    if busy and not op.cancel_children:
        raise Rejected(
            f"{flow.id} has tasks in work: {', '.join(busy[:5])}",
            hint="let them end, or cancel them by --cancel-children",
            tasks=busy,
        )


def planned(document: Plan, flow: Flow | None, *, keep: bool = False) -> tuple[Task, ...]:
    """Return the tasks of a plan; with `keep`, done ones of the same id and goal stay done.

    Raises Invalid for a cycle or an unknown dependency.
    """
    graph.check({step.id: step.deps for step in document.tasks}, "tasks")
    old = {t.id: t for t in flow.children if t.status == "done"} if flow and keep else {}
    return tuple(_planned(step, old.get(step.id)) for step in document.tasks)


def _planned(step: Step, old: Task | None) -> Task:
    if old is not None and old.goal == step.goal:
        return old.replace(**_static(step))
    return Task(id=step.id, status="pending", **_static(step))


def plan_of(flow: Flow) -> Plan:
    """Return the plan that a flow's tasks follow, as `plans/` keeps it."""
    steps = tuple(Step(id=task.id, **_static(task)) for task in flow.children)
    return Plan(schema_version=1, flow=flow.id, tasks=steps)
