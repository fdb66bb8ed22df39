"""The verbs that read the past: log, diff, changes. History is read along first parents."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from gitflowstate import history
from gitflowstate.cli import config, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import Usage
from gitflowstate.history import Step
from gitflowstate.listing import LogEntry
from gitflowstate.model import Flow

_LAST = 253_402_300_799  # the last second of the year 9999; a commit may claim a later one


def entry(step: Step) -> LogEntry:
    """Return a commit as a list shows it."""
    commit, trailers = step.commit, step.trailers
    subject = commit.message.decode("utf-8", "replace").split("\n", 1)[0]
    moment = datetime.fromtimestamp(min(max(commit.time, 0), _LAST), UTC)
    time = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    if trailers is None:
        author = commit.author.decode("utf-8", "replace").split(" <")[0]
        return LogEntry(commit.oid[:10], time, author or "?", None, "", subject, unmanaged=True)
    start, _, headline = subject.partition(": ")
    revision = trailers.get("Revision", "")
    return LogEntry(
        commit.oid[:10],
        time,
        trailers["Actor"],
        int(revision) if revision.isdecimal() else None,
        start.split(" ", 2)[-1],  # `<id> r<revision> task claim`
        headline,
    )


def entries_since(session: Session, flow: str, revision: int) -> list[LogEntry]:
    """Return what happened to a flow after a revision, oldest first."""
    store = session.store()
    found: list[LogEntry] = []
    for step in history.of_flow(store.repo, store.head().oid, flow):
        item = entry(step)
        if item.revision is not None and item.revision <= revision:
            break
        found.append(item)
    return found[::-1]


def entries_unseen(session: Session, flows: list[str]) -> dict[str, list[LogEntry]]:
    """Return what others did to flows since this actor's own last op on each, oldest first."""
    store = session.store()
    found = history.unseen(store.repo, store.head().oid, session.actor, flows)
    return {flow: [entry(step) for step in steps] for flow, steps in found.items()}


@reads
def log(
    session: Session,
    id: FlowArgument,
    number: Annotated[int | None, typer.Option("-n", metavar="N", help="At most N.")] = None,
) -> None:
    """Show the history of a flow, newest first; edits by hand are marked.

    Example: gfs log f-k2m9qx -n 5
    """
    from gitflowstate import listing

    if number is not None and number < 1:
        raise Usage("-n counts from 1", next=["gfs", "log", id, "-n", "10"])
    store = session.store()
    flow = store.flow(session.flow_id(id)).id
    found = history.of_flow(store.repo, store.head().oid, flow)
    items = [entry(step) for step in islice(found, number)]
    text = listing.log_lines(items, zone=config.zone())
    data = {"id": flow, "log": [item._asdict() for item in items]}
    output.success(data, text, as_json=session.json)


@reads
def diff(
    session: Session,
    id: FlowArgument,
    a: Annotated[int | None, typer.Argument(metavar="[A]", help="From; the one before B.")] = None,
    b: Annotated[int | None, typer.Argument(metavar="[B]", help="To; the present.")] = None,
) -> None:
    """Show what differs between two revisions of a flow.

    Example: gfs diff f-k2m9qx 3 5
    """
    from gitflowstate import compare

    store = session.store()
    present = store.flow(session.flow_id(id))
    after = present if b is None else _at(session, present, b)
    before: Flow | None
    if a is None:
        before = history.before_revision(store.repo, store.head().oid, present.id, after.revision)
    else:
        before = _at(session, present, a) if a > 0 else None
    text = compare.diff(before, after)
    first = before.revision if before else 0
    data = {"id": present.id, "from": first, "to": after.revision, "diff": text}
    output.success(data, text or "no difference", as_json=session.json)


def _at(session: Session, present: Flow, revision: int) -> Flow:
    store = session.store()
    return history.at_revision(store.repo, store.head().oid, present.id, revision)


@reads
def changes(
    session: Session,
    id: FlowArgument,
    since: Annotated[int, typer.Option(metavar="N", help="After this revision.")],
) -> None:
    """Show what happened to a flow after a revision: each operation, oldest first.

    Example: gfs changes f-k2m9qx --since 3
    """
    from gitflowstate import listing

    flow = session.store().flow(session.flow_id(id))
    items = entries_since(session, flow.id, since)
    data = {"id": flow.id, "revision": flow.revision, "changes": [item._asdict() for item in items]}
    text = listing.log_lines(items, zone=config.zone()) or f"nothing since r{since}"
    output.success(data, text, as_json=session.json)
