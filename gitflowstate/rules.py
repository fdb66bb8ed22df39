"""What each operation changes in its flow, beyond the status that `machine.TABLE` allows.

Rules: a rule is pure, returns the very flow it was given when there is nothing to do, and never
sets `revision` or `updated_at`, which `machine` does for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gitflowstate import graph, guards, ops, plans, taskrules
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import TERMINAL, Status
from gitflowstate.model import Failure, Flow, Note, Task

T = TypeVar("T")
_GIVEN = ("goal", "owner", "next_action", "links", "attempt_of", "labels", "type", "data")


def create(op: ops.Create, parent: Flow | None, existing: Flow | None) -> Flow:
    """Return the new flow; or the existing open one when every field given equals it."""
    flow = Flow(
        schema_version=1,
        id=op.flow,
        goal=op.goal,
        status="pending",
        revision=1,
        owner=op.owner,
        created_at=op.at,
        updated_at=op.at,
        progress="",
        next_action=op.next,
        links=op.links,
        attempt_of=op.attempt_of,
        labels=op.labels,
        type=op.type,
        data=op.data,
        plan=1 if op.plan or (parent and parent.plan) else None,
        children=_children(op, parent),
    )
    if existing is None:
        _check_parent(op, parent)
        return flow
    planned = op.plan is None or plans.plan_of(existing).tasks == op.plan.tasks
    if planned and _agrees(flow, existing) and existing.status not in TERMINAL:
        return existing
    raise _taken(existing)


def _agrees(asked: Flow, existing: Flow) -> bool:
    """Tell whether every field that a create gave equals the stored one."""
    given = {name for name in _GIVEN if name in asked.__dict__}
    return existing.replace(**{name: getattr(asked, name) for name in given}) is existing


def _check_parent(op: ops.Create, parent: Flow | None) -> None:
    if op.attempt_of and parent is None:
        raise Rejected(
            f"{op.attempt_of} has not ended: only a done or failed flow can be tried again",
            next=["gfs", "show", op.attempt_of],
        )


def _children(op: ops.Create, parent: Flow | None) -> tuple[Task, ...]:
    """Return the tasks of a new flow: of its plan, or of the flow it tries again."""
    if op.plan is not None:
        return plans.planned(op.plan, op.flow)
    if parent is None:
        return ()
    return tuple(
        task.replace(claim=None) if task.status == "done" else taskrules.again(task)
        for task in parent.children
    )


def _taken(existing: Flow) -> Stale:
    ended = existing.status in TERMINAL
    return Stale(
        f"the id {existing.id} is taken by a flow that is {existing.status} at r{existing.revision}"
        + (" and archived" if ended else " and differs"),
        hint=f"gfs retry {existing.id} for a further attempt, or choose another id"
        if ended
        else f"gfs show {existing.id}, or choose another id",
        revision=existing.revision,
        next=["gfs", "show", existing.id],
    )


def normalised(document: Flow) -> Flow:
    """Return a document as an import keeps it: without claims, nor processes that hold by one."""
    if not any(task.claim for task in document.children):
        return document
    return document.replace(children=tuple(map(_unclaimed, document.children)))


def _unclaimed(task: Task) -> Task:
    held = task.claim is not None and task.claim.worker == task.process
    return task.replace(claim=None, process=None if held else task.process)


def import_(op: ops.Import, existing: Flow | None) -> Flow:
    """Return the document to take over; or the existing one when it is the same."""
    document = normalised(op.document)
    if document.id != op.flow:
        raise Rejected(f"the document is {document.id}, not {op.flow}")
    guards.check_version(document)
    if existing is None:
        graph.check(graph.edges_of(document.children))
        return document
    if existing == document:
        return existing
    raise _taken(existing)


def update(op: ops.Update, flow: Flow) -> Flow:
    """Set what is given; progress makes a pending flow run."""
    if op.status not in (None, "pending", "running"):
        raise Rejected(
            f"update may not make {flow.id} {op.status}", hint="gfs wait, gfs done or gfs fail"
        )
    status: Status = op.status or flow.status
    if flow.status == "waiting" and op.status is not None:
        raise Rejected(f"{flow.id} is waiting", next=["gfs", "resume", flow.id])
    if flow.status == "pending" and op.progress and op.status is None:
        status = "running"
    return flow.replace(
        status=status,
        progress=flow.progress if op.progress is None else op.progress,
        next_action=op.next or flow.next_action,
        goal=op.goal or flow.goal,
        labels=_merged(flow.labels, op.labels, lambda label: label in op.unlabel),
        links=_merged(flow.links, op.links, lambda link: link.href in op.unlink),
        data=flow.data if op.data is None else op.data,
    )


def _merged(
    present: tuple[T, ...], added: tuple[T, ...], removed: Callable[[T], bool]
) -> tuple[T, ...]:
    """Return what is present and not removed, in its order, and then what is new."""
    merged = [item for item in present if not removed(item)]
    for item in added:
        if item not in merged:
            merged.append(item)
    return tuple(merged)


def note(op: ops.Note, flow: Flow) -> Flow:
    """Append a remark."""
    return _noted(flow, op, op.text)


def _noted(flow: Flow, op: ops.Op, text: str) -> Flow:
    return flow.replace(notes=(*flow.notes, Note(at=op.at, by=op.by, text=text)))


def wait(op: ops.Wait, flow: Flow) -> Flow:
    """Stand still; a changed reason is a new entry into waiting."""
    waiting = taskrules.waiting_for(op, flow.waiting)
    return flow.replace(status="waiting", waiting=waiting)


def resume(op: ops.Resume, flow: Flow) -> Flow:
    """Run again, with the reason and condition cleared; a running flow is already so."""
    following = op.next or flow.next_action
    if flow.status == "running" and following != flow.next_action:
        raise Rejected(
            f"{flow.id} is running, not waiting", next=["gfs", "update", flow.id, "--next", "TEXT"]
        )
    return flow.replace(status="running", waiting=None, next_action=following)


def done(op: ops.Done, flow: Flow) -> Flow:
    """End with a result; the same end again is already so."""
    if flow.status == "done" and flow.result_ref == op.result:
        return flow
    reason = f"{flow.id} was completed"
    return flow.replace(
        status="done",
        result_ref=op.result,
        next_action=None,
        waiting=None,
        children=_ended(flow, op, reason=reason, cancel=op.cancel_children),
    )


def fail(op: ops.Fail, flow: Flow) -> Flow:
    """End without a result; the same end again is already so."""
    failure = Failure(reason=op.reason, recoverable=op.recoverable)
    if flow.failure == failure:
        return flow
    return flow.replace(
        status="failed",
        failure=failure,
        next_action=None,
        waiting=None,
        children=_ended(flow, op, reason=f"{flow.id} failed", cancel=op.cancel_children),
    )


def _ended(flow: Flow, op: ops.FlowOp, *, reason: str, cancel: bool) -> tuple[Task, ...]:
    """Return the tasks of an ending flow: none is claimed or running, unless all open ones end."""
    if not cancel:
        if flow.status not in TERMINAL:
            hint = "settle them first, or end them with it by --cancel-children"
            guards.check_idle(flow, hint)
        return flow.children
    return tuple(
        task if task.status in TERMINAL else _cancelled(task, op, reason) for task in flow.children
    )


def _cancelled(task: Task, op: ops.Op, reason: str) -> Task:
    return task.replace(
        status="failed",
        outcome="cancelled",
        reason=reason,
        claim=None,
        waiting=None,
        finished_at=op.at,
        finished_by=op.by,
    )


def reopen(op: ops.Reopen, flow: Flow) -> Flow:
    """Run again; how it ended moves into a note."""
    ended = (
        f"was done with {flow.result_ref}"
        if flow.failure is None
        else f"had failed: {flow.failure.reason}; recoverable: {flow.failure.recoverable}"
    )
    return _noted(flow, op, f"Reopened: {op.reason}\nIt {ended}").replace(
        status="running", next_action=op.next, result_ref=None, failure=None
    )


def handoff(op: ops.Handoff, flow: Flow) -> Flow:
    """Give the flow to another owner, and note who gave it and why."""
    return _owned(flow, op, op.to, op.reason)


def take(op: ops.Take, flow: Flow) -> Flow:
    """Become the owner, and note from whom and why."""
    return _owned(flow, op, op.by, op.reason)


def _owned(flow: Flow, op: ops.FlowOp, owner: str, reason: str) -> Flow:
    if owner == flow.owner:
        return flow
    text = f"Owner: {flow.owner} -> {owner}. {reason}"
    return _noted(flow, op, text).replace(owner=owner)
