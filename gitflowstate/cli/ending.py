"""The verbs around the end of a flow: done, fail, reopen, retry, adopt."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gitflowstate import ops
from gitflowstate.cli import config
from gitflowstate.cli.flow import FlowArgument, ReasonOption, answer_created, minted
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import writes

CancelOption = Annotated[
    bool, typer.Option("--cancel-children", help="End open tasks with it, as cancelled.")
]


@writes
def done(
    session: Session,
    id: FlowArgument,  # noqa: A002
    result: Annotated[str, typer.Option(metavar="REF", help="Where the result is.")],
    cancel_children: CancelOption = False,
) -> None:
    """End the flow with a result; it moves to the archive in the same commit.

    Example: gfs done f-k2m9qx --result reports/options.md
    """
    op = session.op(
        ops.Done,
        flow=session.flow_id(id),
        result=config.text(result, "--result"),
        cancel_children=cancel_children,
    )
    session.write(op)


@writes
def fail(
    session: Session,
    id: FlowArgument,  # noqa: A002
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
        reason=config.text(reason, "--reason"),
        recoverable=config.text(recoverable, "--recoverable"),
        cancel_children=cancel_children,
    )
    session.write(op)


@writes
def reopen(
    session: Session,
    id: FlowArgument,  # noqa: A002
    reason: ReasonOption,
    next: Annotated[str, typer.Option(help="The next action.")],  # noqa: A002
) -> None:
    """Make an ended flow run again; how it ended becomes a note.

    Example: gfs reopen f-k2m9qx --reason 'A fourth option' --next 'Read its docs'
    """
    op = session.op(
        ops.Reopen,
        flow=session.flow_id(id),
        reason=config.text(reason, "--reason"),
        next=config.text(next, "--next"),
    )
    session.write(op)


@writes
def retry(
    session: Session,
    id: FlowArgument,  # noqa: A002
    new: Annotated[Optional[str], typer.Option("--id", help="The id of the new flow.")] = None,  # noqa: UP045
) -> None:
    """Try an ended flow again as a new one that names it; the old one is not touched.

    Example: gfs retry f-k2m9qx
    """
    old = session.store(writing=not session.dry_run).flow(session.flow_id(id))
    op = session.op(
        ops.Create,
        minted=new is None,
        flow=new or minted(session),
        goal=old.goal,
        owner=old.owner,
        next=old.next_action or "Plan the work",
        links=old.links,
        labels=old.labels,
        type=old.type,
        data=old.data,
        attempt_of=old.id,
    )
    if session.dry_run:
        session.write(op)
        return
    answer_created(session, session.store().commit(op))


@writes
def adopt(
    session: Session,
    id: FlowArgument,  # noqa: A002
    reason: ReasonOption,
) -> None:
    """Accept a flow that was edited by hand, at the next free revision.

    Example: gfs adopt f-k2m9qx --reason 'The edit is right'
    """
    reason_text = config.text(reason, "--reason")
    session.write(session.op(ops.Adopt, flow=session.flow_id(id), reason=reason_text))
