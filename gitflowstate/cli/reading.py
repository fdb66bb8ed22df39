"""The verbs that read the present: show, list, brief. They write nothing and start nothing."""

from __future__ import annotations

import shutil
from typing import Annotated, Any, Optional

import typer

from gitflowstate import codec, due, history
from gitflowstate.cli import config, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.documents import Broken
from gitflowstate.errors import Usage
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow, archive_path, flow_path, live

PAGE = 50


@reads
def show(
    session: Session,
    id: FlowArgument,  # noqa: A002
    rev: Annotated[Optional[int], typer.Option(metavar="N", help="As it was at N.")] = None,  # noqa: UP045
    path: Annotated[bool, typer.Option("--path", help="Print where the document lies.")] = False,
) -> None:
    """Show all that a flow records.

    Example: gfs show f-k2m9qx --rev 3
    """
    store = session.store()
    flow = store.flow(session.flow_id(id))
    if path:
        place = flow_path(flow.id) if live(flow) else archive_path(flow.id)
        output.success({"path": place}, f"{session.location.folder}/{place}", as_json=session.json)
        return
    if rev is not None:
        flow = history.at_revision(store.repo, store.head().oid, flow.id, rev)
    if session.json:
        output.success(described(flow), "", as_json=True)
        return
    from gitflowstate import render

    text = render.show(
        flow,
        config.now(),
        zone=config.zone(),
        unmanaged=rev is None and store.is_unmanaged(flow.id),
        paint=output.painted,
    )
    output.success(None, text, as_json=False)


def described(flow: Flow) -> dict[str, Any]:
    """Return a flow as JSON, with the states that are derived and never stored."""
    now = config.now()
    return {
        "flow": codec.to_json(flow),
        "state": due.flow_state(flow, now),
        "tasks": due.task_states(flow, now),
    }


@reads
def list_(
    session: Session,
    status: Annotated[Optional[str], typer.Option(help="Only this status.")] = None,  # noqa: UP045
    owner: Annotated[Optional[str], typer.Option(help="Only this owner's.")] = None,  # noqa: UP045
    label: Annotated[Optional[str], typer.Option(help="Only with this label.")] = None,  # noqa: UP045
    stale: Annotated[bool, typer.Option("--stale", help="Only not updated for an hour.")] = False,
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
    now = config.now()
    archived = every or status in ("done", "failed")
    found, broken = _sorted(session, archived=archived)
    chosen = [
        flow
        for flow in found
        if (status is None or flow.status == status)
        and (owner is None or flow.owner == owner)
        and (label is None or label in flow.labels)
        and (not stale or due.flow_state(flow, now) == "stale")
    ]
    shown = chosen[(page - 1) * limit : page * limit]
    left = max(0, len(chosen) - page * limit)
    if session.json:
        _list_json(session, shown, broken, left)
        return
    from gitflowstate import listing

    text = listing.list_lines(
        shown,
        now,
        shutil.get_terminal_size((100, 24)).columns,
        left=left,
        command=f"gfs list --page {page + 1}",
        paint=output.painted,
    )
    for item in broken:
        output.warn(f"{item.path}: {item.error.message}")
    output.success(None, text or "no flows; gfs create begins one", as_json=False)


def _sorted(session: Session, *, archived: bool) -> tuple[list[Flow], list[Broken]]:
    items = list(session.store().flows(archived=archived))
    broken = [item for item in items if isinstance(item, Broken)]
    return [item for item in items if isinstance(item, Flow)], broken


_SUMMARY = ("id", "goal", "status", "revision", "owner", "updated_at", "progress", "next_action")


def _list_json(session: Session, shown: list[Flow], broken: list[Broken], left: int) -> None:
    now = config.now()
    rows = [
        {name: getattr(flow, name) for name in _SUMMARY}
        | {"labels": list(flow.labels), "state": due.flow_state(flow, now)}
        for flow in shown
    ]
    bad = [{"path": item.path, "message": item.error.message} for item in broken]
    data = {"flows": rows, "unusable": bad, "left": left}
    output.success(data, "", as_json=session.json)


@reads
def brief(
    session: Session,
    ids: Annotated[Optional[list[str]], typer.Argument(metavar="[ID…]", help="Which.")] = None,  # noqa: UP045
    max_chars: Annotated[int, typer.Option(metavar="N", help="At most N characters.")] = 4000,
    since: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="N", help="With one ID: what changed after revision N."),
    ] = None,
) -> None:
    """Print what a new session needs: what is done, what blocks, what comes next.

    Example: gfs brief --max-chars 2000
    """
    from gitflowstate import brief as briefing
    from gitflowstate.cli import past

    store = session.store()
    if since is not None and len(ids or ()) != 1:
        raise Usage("--since goes with exactly one ID", hint="gfs brief ID --since N")
    if ids:
        flows = [store.flow(session.flow_id(text)) for text in ids]
        broken: list[Broken] = []
    else:
        flows, broken = _sorted(session, archived=False)
    for item in broken:
        output.warn(f"{item.path}: {item.error.message}")
    changes = {flows[0].id: past.entries_since(session, flows[0].id, since)} if since else {}
    text = briefing.brief(flows, config.now(), max_chars, changes=changes)
    output.success({"brief": text, "flows": [f.id for f in flows]}, text, as_json=session.json)
