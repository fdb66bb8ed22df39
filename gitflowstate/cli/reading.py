"""The verbs that read the present: show, list, brief. They write nothing and start nothing."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from gitflowstate import codec, due, prose
from gitflowstate.cli import config, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.documents import Broken
from gitflowstate.errors import NotFound, Usage
from gitflowstate.kinds import KINDS, TERMINAL
from gitflowstate.model import Flow, archive_path, flow_path, live

PAGE = 50


@reads
def show(
    session: Session,
    id: FlowArgument,
    rev: Annotated[int | None, typer.Option(metavar="N", help="As it was at N.")] = None,
    path: Annotated[bool, typer.Option("--path", help="Print where the document lies.")] = False,
) -> None:
    """Show all that a flow records.

    Example: gfs show f-k2m9qx --rev 3
    """
    store = session.store()
    flow = store.flow(session.flow_id(id))
    if path:
        place = flow_path(flow.id) if live(flow) else archive_path(flow.id)
        where = session.location
        if not where.view:
            raise NotFound(
                f"{where.folder} has no plain files; {flow.id} is {where.ref}:{place}",
                next=["gfs", "export", flow.id],
            )
        file = f"{where.folder}/{place}"
        output.success({"path": place, "file": file}, prose.terminal(file), as_json=session.json)
        return
    if rev is not None:
        from gitflowstate import history

        flow = history.at_revision(store.repo, store.head().oid, flow.id, rev)
    unmanaged = rev is None and store.is_unmanaged(flow.id)
    if session.json:
        output.success(described(flow) | {"unmanaged": unmanaged}, "", as_json=True)
        return
    from gitflowstate import render

    text = render.show(
        flow,
        config.now(),
        zone=config.zone(),
        unmanaged=unmanaged,
        paint=output.painted,
    )
    output.success(None, text, as_json=False)


def described(flow: Flow) -> dict[str, Any]:
    """Return a flow as JSON, with the states that are derived and never stored, and why."""
    from gitflowstate import phrases

    now = config.now()
    states = due.task_states(flow, now)
    why = {task.id: phrases.situation(flow, task, states, now) for task in flow.children}
    return {
        "flow": codec.to_json(flow),
        "state": due.flow_state(flow, now),
        "tasks": states,
        "why": {name: words for name, words in why.items() if words},
    }


@reads
def list_(
    session: Session,
    status: Annotated[str | None, typer.Option(help="Only this status.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this derived state.")] = None,
    stale: Annotated[bool, typer.Option("--stale", help="The same as --state stale.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Ended flows too.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", help="At most N a page.")] = PAGE,
    page: Annotated[int, typer.Option(metavar="N", help="Which page.")] = 1,
) -> None:
    """List flows, one line each: the open ones, or all.

    Example: gfs list --owner reviewer --stale
    """
    if limit < 1 or page < 1:
        raise Usage("--limit and --page count from 1")
    if status is not None and not KINDS["Status"].accepts(status):
        raise Usage(f"--status must be {KINDS['Status'].rule}")
    if state is not None and state not in due.FLOW_STATES:
        raise Usage(f"--state must be one of {', '.join(due.FLOW_STATES)}")
    states = {"stale"} if stale else set(due.FLOW_STATES)
    wanted = states if state is None else states & {state}
    now = config.now()
    found, broken = _sorted(session, archived=every or not {*TERMINAL}.isdisjoint((status, state)))
    chosen = [
        flow
        for flow in found
        if (status is None or flow.status == status)
        and (owner is None or flow.owner == owner)
        and (label is None or label in flow.labels)
        and due.flow_state(flow, now) in wanted
    ]
    asked = {"status": status, "owner": owner, "state": state, "label": label}
    flags = {"stale": stale, "all": every}
    nothing = f"none to show, of {len(found)}" if found else "no flows; gfs create begins one"
    rest = Rest(chosen[page * limit :], _next_page(asked, flags, limit, page), nothing)
    _answer(session, chosen[(page - 1) * limit : page * limit], broken, rest)


class Rest(NamedTuple):
    """What is not on this page, the arguments that show the next one, the words for an empty one.

    An empty page of a full repository must not be taken for the beginning of a new one.
    """

    flows: list[Flow]
    arguments: list[str]
    nothing: str


def _next_page(
    asked: dict[str, str | None], flags: dict[str, bool], limit: int, page: int
) -> list[str]:
    options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    options += [f"--{name}" for name, given in flags.items() if given]
    options += [f"--limit={limit}"] if limit != PAGE else []
    return ["gfs", "list", *options, "--page", str(page + 1)]


def _answer(session: Session, shown: list[Flow], broken: list[Broken], rest: Rest) -> None:
    unmanaged = session.unmanaged()
    if session.json:
        _list_json(session, shown, broken, rest, unmanaged)
        return
    from shlex import join
    from shutil import get_terminal_size

    from gitflowstate import listing

    text = listing.list_lines(
        shown,
        config.now(),
        get_terminal_size((100, 24)).columns,
        left=len(rest.flows),
        command=join(rest.arguments + session.addressed()),
        unmanaged=unmanaged,
        paint=output.painted,
    )
    for item in broken:
        output.warn(item.said)
    output.success(None, text or rest.nothing, as_json=False)


def _sorted(session: Session, *, archived: bool) -> tuple[list[Flow], list[Broken]]:
    items = list(session.store().flows(archived=archived))
    broken = [item for item in items if isinstance(item, Broken)]
    return [item for item in items if isinstance(item, Flow)], broken


_SUMMARY = ("id", "goal", "status", "revision", "owner", "updated_at", "progress", "next_action")


def _list_json(
    session: Session, shown: list[Flow], broken: list[Broken], rest: Rest, unmanaged: set[str]
) -> None:
    now = config.now()
    rows = [
        {name: getattr(flow, name) for name in _SUMMARY}
        | {"labels": list(flow.labels), "state": due.flow_state(flow, now)}
        | {"unmanaged": flow.id in unmanaged, "tasks": _counted(flow, now)}
        for flow in shown
    ]
    bad = [{"path": item.path, "message": item.error.message} for item in broken]
    data: dict[str, Any] = {"flows": rows, "unusable": bad, "left": len(rest.flows)}
    if rest.flows:
        data["next"] = rest.arguments + session.addressed()
    output.success(data, "", as_json=session.json)


def _counted(flow: Flow, now: str) -> dict[str, int]:
    """Return how many tasks are in which derived state."""
    states = [*due.task_states(flow, now).values()]
    return {state: states.count(state) for state in dict.fromkeys(states)}


@reads
def brief(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="Which.")] = None,
    max_chars: Annotated[int, typer.Option(metavar="N", help="At most N characters.")] = 4000,
    since: Annotated[
        int | None,
        typer.Option(metavar="N", help="With one ID: what changed after revision N."),
    ] = None,
) -> None:
    """Print what a new session needs: what is done, what blocks, what comes next, what is new.

    New is what others did since this actor's own last change of a flow.
    Example: gfs brief --max-chars 2000
    """
    from gitflowstate import brief as briefing
    from gitflowstate.cli import past

    if max_chars < 1:
        raise Usage("--max-chars counts from 1")
    store = session.store()
    if since is not None and len(ids or ()) != 1:
        raise Usage("--since goes with exactly one ID", next=["gfs", "brief", "ID", "--since", "N"])
    if ids:
        flows = [store.flow(session.flow_id(text)) for text in ids]
        broken: list[Broken] = []
    else:
        flows, broken = _sorted(session, archived=False)
    for item in broken:
        output.warn(item.said)
    if since is not None:
        changes = {flows[0].id: past.entries_since(session, flows[0].id, since)}
    else:
        changes = past.entries_unseen(session, [flow.id for flow in flows])
    told = _ends_to_tell(session)
    line = f"ended: {prose.count(told, 'notice')} of background processes to read: gfs inbox"
    room = max_chars - len(line) - 1 if told else max_chars
    text = briefing.brief(flows, config.now(), room, changes=changes, unmanaged=session.unmanaged())
    text = f"{text}\n{line}" if told and room > 1 else text
    data = {"brief": text, "flows": [f.id for f in flows], "inbox": told}
    output.success(data, text, as_json=session.json)


def _ends_to_tell(session: Session) -> int:
    """Return how many ends of processes this session was not told of."""
    store = session.store()
    if store.repo.lookup(store.head().tree, "processes") is None:
        return 0  # and nothing about them is imported
    from gitflowstate.cli import inbox

    return inbox.waiting(session, store)
