"""What every operation on a flow must pass, whatever it changes: version, revision, owner, size.

Rule: a guard looks at the flow and the op alone; it returns, or raises and names the way on.
"""

from __future__ import annotations

from gitflowstate import codec
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import MAX_CHILDREN, MAX_DOCUMENT, MAX_GROWN, MAX_INT
from gitflowstate.model import Flow, Value, live
from gitflowstate.ops import FlowOp

_ELSEWHERE = "keep large texts in a file of their own and refer to it"


def check_version(flow: Flow) -> None:
    """Refuse to write a document of a newer schema version. Raises Rejected."""
    if flow.schema_version > Flow.VERSION:
        raise Rejected(
            f"{flow.id} has schema version {flow.schema_version}; this gfs writes {Flow.VERSION}",
            hint="upgrade gitflowstate",
        )


def check_expected(op: FlowOp, flow: Flow | None) -> None:
    """Refuse an op that was made for another revision, or for a flow not there. Raises Stale."""
    if op.expect is None or (flow and flow.revision == op.expect):
        return
    there = f"is at r{flow.revision}, not" if flow else "is not there, at"
    raise Stale(
        f"{op.flow} {there} r{op.expect}",
        hint=f"gfs show {op.flow}, then decide",
        revision=flow.revision if flow else None,
        next=["gfs", "show", op.flow],
    )


def check_owner(op: FlowOp, flow: Flow) -> None:
    """Refuse a named actor what belongs to another named owner (architecture, section 9)."""
    if op.OWNERS and op.by != flow.owner and "local" not in (op.by, flow.owner):
        raise Stale(
            f"{flow.id} is owned by {flow.owner}; {op.by} may not {op.TAG} it",
            hint=f"gfs take {flow.id} --reason REASON, or ask {flow.owner} for gfs handoff",
            owner=flow.owner,
            next=["gfs", "take", flow.id, "--reason", "REASON"],
        )


def check_idle(flow: Flow, hint: str) -> None:
    """Refuse to end or replace tasks that are in work: claimed, or running. Raises Rejected."""
    busy = [task.id for task in flow.children if task.claim or task.status == "running"]
    if busy:
        raise Rejected(f"{flow.id} has tasks in work: {', '.join(busy[:5])}", hint=hint, tasks=busy)


def refused(op: FlowOp, flow: Flow) -> Rejected:
    """Return the error for an op that the table does not allow in the flow's status."""
    ended = f"; it ended with {flow.result_ref}" if flow.result_ref else ""
    return Rejected(
        f"{flow.id} is {flow.status} at r{flow.revision}: {op.TAG} is refused{ended}",
        hint=f"gfs show {flow.id}"
        if live(flow)
        else f"gfs reopen {flow.id} --reason REASON --next TEXT, or gfs retry {flow.id}",
        revision=flow.revision,
        status=flow.status,
        next=["gfs", "show", flow.id],
    )


def next_revision(flow: str, last: int) -> int:
    """Return the revision after the last one. Raises Rejected when no integer is left for it."""
    if last >= MAX_INT:
        raise Rejected(
            f"{flow} is at r{last}: no revision is left",
            hint=f"ask a person to revert the commit that set it, or gfs retry {flow}",
        )
    return last + 1


def check_readable(flow: Flow) -> None:
    """Refuse what nothing could read again: the one limit that every op has. Raises Rejected."""
    size = len(codec.encode(flow))
    if size > MAX_DOCUMENT:
        raise Rejected(
            f"{flow.id} would have {size:,} bytes; {MAX_DOCUMENT:,} can be read again",
            hint=_ELSEWHERE,
        )


def check_size(flow: Flow) -> None:
    """Refuse a flow that has grown past its limits. Raises Rejected (architecture, Limits)."""
    if len(flow.children) > MAX_CHILDREN:
        raise Rejected(f"{flow.id} would have {len(flow.children):,} tasks, of {MAX_CHILDREN:,}")
    check_document(flow.id, flow)


def check_document(name: str, document: Value) -> None:
    """Refuse a document that has grown past its size. Raises Rejected."""
    size = len(codec.encode(document))
    if size > MAX_GROWN:
        raise Rejected(
            f"{name} would have {size:,} bytes; an addition may leave {MAX_GROWN:,}",
            hint=_ELSEWHERE,
        )
