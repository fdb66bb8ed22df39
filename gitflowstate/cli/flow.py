"""The verbs of a live flow: create, update, note, wait, resume, handoff, take."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from gitflowstate import ops
from gitflowstate.cli import config, inputs, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import writes
from gitflowstate.errors import Invalid, Usage
from gitflowstate.kinds import Json, check
from gitflowstate.model import Flow, Link, Plan
from gitflowstate.outcomes import Outcome

FlowArgument = Annotated[str, typer.Argument(metavar="ID", help="The flow, or a unique prefix.")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="R", help="Why; recorded.")]
UntilOption = Annotated[str, typer.Option(metavar="CONDITION", help="What would let it go on.")]
OnOption = Annotated[str, typer.Option(help="human, agent or external.")]
ResultOption = Annotated[str, typer.Option(metavar="REF", help="Where the result is.")]

_ISSUE = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}#[1-9][0-9]{0,14}"
FIRST_STEP = "Plan the work"


def links_of(issues: list[str], links: list[str]) -> tuple[Link, ...]:
    """Return links from OWNER/REPO#N and from REL=HREF, or a bare HREF.

    Raises Invalid for an issue of another form: nobody would be told of the flow.
    """
    for issue in issues:
        if not re.fullmatch(_ISSUE, issue):
            rule = "must be OWNER/REPO#N, such as octo/plans#12"
            violation = {"path": "--issue", "message": rule}
            raise Invalid(f"--issue: {rule}", violations=[violation])
    found = [Link(rel="issue", href=issue) for issue in issues]
    for link in links:
        rel, equals, href = link.partition("=")
        plain = not equals or "/" in rel or ":" in rel
        found.append(Link(rel="related", href=link) if plain else Link(rel=rel, href=href))
    return tuple(found)


def data_of(path: str | None) -> Json | None:
    """Return the object that a file of --data holds. Raises Invalid."""
    if path is None:
        return None
    from gitflowstate import codec

    try:
        loaded = codec.load(inputs.read_file(path, "--data"))
        codec.check_data(loaded, "data")
    except Invalid as error:
        error.message = f"--data: {error.message.removeprefix('--data: ')}"
        raise
    return dict(loaded)


@writes
def create(
    session: Session,
    goal: Annotated[str, typer.Argument(help="What is to be reached.")],
    id: Annotated[str | None, typer.Option(help="Its id; minted by default.")] = None,
    owner: Annotated[str | None, typer.Option(help="Its owner; the actor by default.")] = None,
    next: Annotated[str | None, typer.Option(help=f"First step; {FIRST_STEP!r}.")] = None,
    issue: Annotated[
        list[str] | None,
        typer.Option(metavar="OWNER/REPO#N", help="The issue to keep informed."),
    ] = None,
    link: Annotated[list[str] | None, typer.Option(metavar="REL=HREF", help="A link.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="A label; may be repeated.")] = None,
    type: Annotated[str | None, typer.Option(help="Its type: types/TYPE.schema.json.")] = None,
    data: Annotated[str | None, typer.Option(metavar="FILE", help="Its data, JSON.")] = None,
    plan: Annotated[str | None, typer.Option(metavar="FILE", help="Its tasks, JSON.")] = None,
) -> None:
    """Record a goal before any work begins, and print its id.

    Example: gfs create 'Compare three options' --next 'Read the docs'
    """
    if id is not None:
        check("Id", id, "--id")
    there = present(session, id)
    given = {
        "owner": owner,
        "next": inputs.text(next, "--next"),
        "links": links_of(issue or [], link or []) or None,
        "labels": tuple(label) if label else None,
        "type": type,
        "data": data_of(data),
    }
    missing = {name for name, value in given.items() if value is None}
    fields = given | {name: _default(session, there, name) for name in missing}
    flow = minted(session) if id is None else id
    op = session.op(
        ops.Create,
        minted=id is None,
        derived=missing,
        flow=flow,
        plan=plan_of(plan, flow),
        goal=inputs.text(goal, "GOAL"),
        **fields,
    )
    if session.dry_run:
        session.write(op)
        return
    outcome = session.store(writing=True).commit(op)
    answer_created(session, outcome)


def plan_of(path: str | None, flow: str) -> Plan | None:
    """Return the plan that a file of --plan holds. Raises Invalid."""
    if path is None:
        return None
    from gitflowstate.cli.planning import plan_from

    return plan_from(path, flow)


def present(session: Session, id: str | None) -> Flow | None:
    """Return the flow that has the id already."""
    if id is None:
        return None
    store = session.newest()
    return store.flow(id) if store.exists(id) else None


def _default(session: Session, there: Flow | None, name: str) -> Any:  # noqa: ANN401  a field
    """Return a field that was not given: as it stands, since only what is given is compared."""
    if there is not None and there.next_action is not None:
        return getattr(there, {"next": "next_action"}.get(name, name))
    return {"owner": session.actor, "next": FIRST_STEP, "links": (), "labels": ()}.get(name)


def minted(session: Session) -> str:
    """Return a fresh id; a longer one where the short one is taken."""
    short = config.mint_flow_id()
    taken = session.store(writing=not session.dry_run).exists(short)
    return config.mint_flow_id(8) if taken else short


def answer_created(session: Session, outcome: Outcome) -> None:
    """Print the id, and the exact command that comes next."""
    from shlex import join

    data = session.outcome_data(outcome)
    words = ["gfs", "update", data["id"], "--progress", "WHAT IS DONE", "--next", "WHAT IS NEXT"]
    following = words + session.addressed()
    text = f"{session.outcome_text(outcome)}\nnext: {join(following)}"
    output.success(data | {"next": following}, text, as_json=session.json)


@writes
def update(
    session: Session,
    id: FlowArgument,
    progress: Annotated[str | None, typer.Option(help="What is done; - reads stdin.")] = None,
    next: Annotated[str | None, typer.Option(help="The next action.")] = None,
    goal: Annotated[str | None, typer.Option(help="A better wording of the goal.")] = None,
    status: Annotated[str | None, typer.Option(help="pending or running.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Add a label.")] = None,
    unlabel: Annotated[list[str] | None, typer.Option(help="Take a label off.")] = None,
    issue: Annotated[
        list[str] | None,
        typer.Option(metavar="OWNER/REPO#N", help="Add an issue to keep informed."),
    ] = None,
    link: Annotated[list[str] | None, typer.Option(metavar="REL=HREF", help="Add.")] = None,
    unlink: Annotated[list[str] | None, typer.Option(metavar="HREF", help="Take off.")] = None,
    data: Annotated[str | None, typer.Option(metavar="FILE", help="New data, JSON.")] = None,
) -> None:
    """Record progress and the next action: one revision.

    Example: gfs update f-k2m9qx --progress 'Docs read' --next 'Compare costs'
    """
    given = (progress, next, goal, status, label, unlabel, issue, link, unlink, data)
    if all(value is None for value in given):
        raise Usage(
            "update was given nothing to record", next=["gfs", "update", "ID", "--progress", "TEXT"]
        )
    session.write(
        session.op(
            ops.Update,
            flow=session.flow_id(id),
            progress=inputs.text(progress, "--progress"),
            next=inputs.text(next, "--next"),
            goal=inputs.text(goal, "--goal"),
            status=status,
            labels=tuple(label or ()),
            unlabel=tuple(unlabel or ()),
            links=links_of(issue or [], link or []),
            unlink=tuple(unlink or ()),
            data=data_of(data),
        )
    )


@writes
def note(
    session: Session,
    id: FlowArgument,
    text: Annotated[str, typer.Argument(help="The remark; - reads stdin.")],
) -> None:
    """Append a remark; anybody may, and nothing is ever replaced.

    Example: gfs note f-k2m9qx 'The vendor answered: 12 May'
    """
    op = session.op(ops.Note, flow=session.flow_id(id), text=inputs.text(text, "TEXT"))
    session.write(op)


@writes
def wait(
    session: Session,
    id: FlowArgument,
    reason: ReasonOption,
    until: UntilOption,
    on: OnOption = "human",
) -> None:
    """Stand still, saying why and until what.

    Example: gfs wait f-k2m9qx --reason 'Budget' --until 'Ana approves 300 EUR'
    """
    op = session.op(
        ops.Wait,
        flow=session.flow_id(id),
        reason=inputs.text(reason, "--reason"),
        until=inputs.text(until, "--until"),
        on=on,
    )
    session.write(op)


@writes
def resume(
    session: Session,
    id: FlowArgument,
    next: Annotated[str | None, typer.Option(help="The next action.")] = None,
) -> None:
    """Go on after waiting.

    Example: gfs resume f-k2m9qx --next 'Order the part'
    """
    op = session.op(ops.Resume, flow=session.flow_id(id), next=inputs.text(next, "--next"))
    session.write(op)


@writes
def handoff(
    session: Session,
    id: FlowArgument,
    to: Annotated[str, typer.Option(metavar="OWNER", help="The new owner.")],
    reason: ReasonOption,
) -> None:
    """Give the flow to another owner.

    Example: gfs handoff f-k2m9qx --to reviewer --reason 'Draft is ready'
    """
    reason_text = inputs.text(reason, "--reason")
    session.write(session.op(ops.Handoff, flow=session.flow_id(id), to=to, reason=reason_text))


@writes
def take(
    session: Session,
    id: FlowArgument,
    reason: ReasonOption,
) -> None:
    """Become the owner of somebody's flow.

    Example: gfs take f-k2m9qx --as new-session --reason 'The old session ended'
    """
    reason_text = inputs.text(reason, "--reason")
    session.write(session.op(ops.Take, flow=session.flow_id(id), reason=reason_text))
