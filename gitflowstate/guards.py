"""What every operation on a flow must pass, whatever it changes: version, revision, owner, size.

Rule: a guard looks at the flow and the op alone, and either returns or raises.
"""

from __future__ import annotations

from gitflowstate import codec
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import MAX_CHILDREN, MAX_GROWN
from gitflowstate.model import Flow
from gitflowstate.ops import FlowOp


def check_version(flow: Flow) -> None:
    """Refuse to write a document of a newer schema version. Raises Rejected."""
    if flow.schema_version > Flow.VERSION:
        raise Rejected(
            f"{flow.id} has schema version {flow.schema_version}; this gfs writes {Flow.VERSION}",
            hint="upgrade gitflowstate",
        )


def check_expected(op: FlowOp, flow: Flow) -> None:
    """Refuse an op that was made for another revision. Raises Stale."""
    if op.expect is not None and op.expect != flow.revision:
        raise Stale(
            f"{flow.id} is at r{flow.revision}, not r{op.expect}",
            hint=f"gfs show {flow.id}, then decide",
            revision=flow.revision,
            next=["gfs", "show", flow.id],
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


def check_size(flow: Flow) -> None:
    """Refuse a flow that has grown past its limits. Raises Rejected (architecture, Limits)."""
    if len(flow.children) > MAX_CHILDREN:
        raise Rejected(f"{flow.id} would have {len(flow.children):,} tasks, of {MAX_CHILDREN:,}")
    size = len(codec.encode(flow))
    if size > MAX_GROWN:
        raise Rejected(
            f"{flow.id} would have {size:,} bytes; an addition may leave {MAX_GROWN:,}",
            hint="keep large texts in a file of their own and refer to it",
        )
