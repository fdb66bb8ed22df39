"""The verbs around the end of a flow: done, fail, reopen, retry, adopt."""

from __future__ import annotations

from typing import Annotated

import typer

from gitflowstate import guards, ops
from gitflowstate.cli import inputs
from gitflowstate.cli.flow import (
    FIRST_STEP,
    FlowArgument,
    ReasonOption,
    ResultOption,
    answer_created,
    minted,
    present,
)
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import writes
from gitflowstate.kinds import check
from gitflowstate.model import Flow

_COPIED = ("goal", "owner", "links", "labels", "type", "data")
CancelOption = Annotated[
    bool, typer.Option("--cancel-children", help="End open tasks with it, as cancelled.")
]


@writes
def done(
    session: Session,
    id: FlowArgument,
    result: ResultOption,
    cancel_children: CancelOption = False,
) -> None:
    """End the flow with a result; it moves to the archive in the same commit.

    Example: gfs done f-k2m9qx --result reports/options.md
    """
    op = session.op(
        ops.Done,
        flow=session.flow_id(id),
        result=inputs.text(result, "--result"),
        cancel_children=cancel_children,
    )
    session.write(op)


@writes
def fail(
    session: Session,
    id: FlowArgument,
    reason: ReasonOption,
    recoverable: Annotated[
        str, typer.Option(metavar="TEXT", help="What can be used again; none is an answer.")
    ],
    cancel_children: CancelOption = False,
) -> None:
    """End the flow without a result, saying what can be used again.

    Example: gfs fail f-k2m9qx --reason 'Vendor closed' --recoverable 'notes/costs.md'
    """
    op = session.op(
        ops.Fail,
        flow=session.flow_id(id),
        reason=inputs.text(reason, "--reason"),
        recoverable=inputs.text(recoverable, "--recoverable"),
        cancel_children=cancel_children,
    )
    session.write(op)


@writes
def reopen(
    session: Session,
    id: FlowArgument,
    reason: ReasonOption,
    next: Annotated[str, typer.Option(help="The next action.")],
) -> None:
    """Make an ended flow run again; how it ended becomes a note.

    Example: gfs reopen f-k2m9qx --reason 'A fourth option' --next 'Read its docs'
    """
    op = session.op(
        ops.Reopen,
        flow=session.flow_id(id),
        reason=inputs.text(reason, "--reason"),
        next=inputs.text(next, "--next"),
    )
    session.write(op)


@writes
def retry(
    session: Session,
    id: FlowArgument,
    new: Annotated[str | None, typer.Option("--id", help="The id of the new flow.")] = None,
) -> None:
    """Try an ended flow again as a new one that names it; the old one is not touched.

    Example: gfs retry f-k2m9qx
    """
    if new is not None:
        check("Id", new, "--id")
    old = session.newest().flow(session.flow_id(id))
    expected, session.expect = session.expect, None  # it is about the old flow, not the new one
    there = present(session, new)
    source = there if there is not None and there.attempt_of == old.id else old
    copied = {name: getattr(source, name) for name in _COPIED}
    copied["next"] = source.next_action or FIRST_STEP
    op = session.op(
        ops.Create,
        minted=new is None,
        derived=copied,
        flow=minted(session) if new is None else new,
        attempt_of=old.id,
        **copied,
    )
    _check_expected(session, op, old, expected)
    if session.dry_run:
        session.write(op)
        return
    answer_created(session, session.store().commit(op))


def _check_expected(session: Session, op: ops.FlowOp, old: Flow, expected: int | None) -> None:
    """Refuse another revision of the flow that is tried again, unless the key has its answer."""
    if expected in (None, old.revision):
        return
    if session.store().preview(op).receipt is None:
        guards.check_expected(op.replace(flow=old.id, expect=expected), old)


@writes
def adopt(
    session: Session,
    id: FlowArgument,
    reason: ReasonOption,
) -> None:
    """Accept a flow that was edited by hand, at the next free revision.

    Example: gfs adopt f-k2m9qx --reason 'The edit is right'
    """
    reason_text = inputs.text(reason, "--reason")
    session.write(session.op(ops.Adopt, flow=session.flow_id(id), reason=reason_text))
