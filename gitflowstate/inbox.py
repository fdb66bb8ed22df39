"""The inbox: which ends of processes are due to which session, and the marks of who was told.

Rules: pure. That a process ended, that a session was told, and that its model has seen it are three
facts, recorded apart. A mark is kept by the id of the event, which is that of the process; it is
set once and never taken back. The marks are on a ref of their own, one document for each reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gitflowstate import prose
from gitflowstate.cursors import cursor_ref
from gitflowstate.errors import Rejected
from gitflowstate.kinds import Id, Json, Name, Revision
from gitflowstate.model import Flow, Value
from gitflowstate.ops import Op
from gitflowstate.processmodel import Process, has_ended, session_place

CHANNEL = "inbox"
INBOX_REF = cursor_ref(CHANNEL)
MAX_MARKED = 30_000  # events of one reader: with both marks of each, its document can still be read
State = Mapping[str, Value | None]


class Reader(Value):
    """What one session was told: by the id of an event, when it was `delivered` and `seen`."""

    VERSION = 1

    schema_version: Revision
    session_id: Name
    events: Json


class InboxOp(Op):
    """An operation on the marks of one reader."""

    OWNERS = False

    channel: Id
    reader: Name
    events: tuple[Id, ...]

    def headline(self, flow: Flow | None) -> str:
        """Return which events, of which reader."""
        del flow
        return f"{prose.count(len(self.events), 'event')} to {self.reader}"


class Deliver(InboxOp):
    """Record that events are about to be shown to a session."""

    TAG = "deliver"


class Seen(InboxOp):
    """Record that the model of a session has seen events."""

    TAG = "seen"


UNION: tuple[type[InboxOp], ...] = (Deliver, Seen)
BY_TAG: dict[str, type[Op]] = {op.TAG: op for op in UNION}
CLASSES: dict[str, type[Value]] = {"readers": Reader}


def reader_path(session: str) -> str:
    """Return where the marks of a session are kept."""
    return f"readers/{session_place(session)}.json"


def reads(op: Op) -> tuple[str, ...]:
    """Return the paths of the documents that an op on the inbox names."""
    assert isinstance(op, InboxOp)
    return (reader_path(op.reader),)


def apply(op: Op, state: State) -> State:
    """Return the marks after the op, or `state` itself when all of them are set.

    Raises Rejected for a document of a newer version, and for more events than one may hold: a mark
    that was dropped would be a notice again.
    """
    assert isinstance(op, InboxOp)
    path = reader_path(op.reader)
    before = state[path]
    if isinstance(before, Reader) and before.schema_version > Reader.VERSION:
        raise Rejected(
            f"{path} was written by a newer gitflowstate", hint="upgrade gitflowstate", path=path
        )
    mark = "delivered" if isinstance(op, Deliver) else "seen"
    marks = marks_of(before)
    new = {event for event in op.events if mark not in marks.get(event, {})}
    if not new:
        return state
    events = {**marks, **{event: {**marks.get(event, {}), mark: op.at} for event in sorted(new)}}
    if len(events) > max(MAX_MARKED, len(marks)):
        raise Rejected(
            f"session {op.reader} was told of {len(marks):,} events, of {MAX_MARKED:,} at most",
            hint="go on under another GFS_SESSION; gfs inbox --peek still shows what has ended",
            reader=op.reader,
        )
    return {**state, path: Reader(schema_version=1, session_id=op.reader, events=events)}


def marks_of(reader: Value | None) -> dict[str, dict[str, Any]]:
    """Return the marks of a reader by event; what is no mark counts as absent."""
    if not isinstance(reader, Reader):
        return {}
    return {event: mark for event, mark in reader.events.items() if isinstance(mark, dict)}


# ── what is due ─────────────────────────────────────────────────────────────────────────────────


class Who(NamedTuple):
    """Who looks into the inbox: a session, the actor in it, and whether at everyone's events."""

    session: str
    actor: str
    everyone: bool = False


class Event(NamedTuple):
    """An end that is due, and whether it was shown to this reader before."""

    process: Process
    again: bool


def due(
    processes: Iterable[Process],
    who: Who,
    owners: Mapping[str, str],
    marks: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> list[Event]:
    """Return the ends that a session has to be told, the earliest first.

    `owners` is the owner of each flow; `marks` the marks of each session. What its own session has
    seen is told to nobody else.
    """
    mine = marks.get(who.session, {})
    found = [
        Event(process, "delivered" in mine.get(process.id, {}))
        for process in processes
        if is_notice(process)
        and _concerns(process, who, owners)
        and "seen" not in mine.get(process.id, {})
        and "seen" not in marks.get(process.session_id, {}).get(process.id, {})
    ]
    return sorted(found, key=lambda event: (event.process.finished_at or "", event.process.id))


def is_notice(process: Process) -> bool:
    """Tell whether the end of a process is to be told to anybody who did not get it as an answer.

    One that was started with `--manual` never notifies (X-30); one whose end was the answer of the
    command that started it has been told (X-32).
    """
    return has_ended(process) and process.notify == "on_exit" and not process.returned


def _concerns(process: Process, who: Who, owners: Mapping[str, str]) -> bool:
    if who.everyone or process.session_id == who.session:
        return True
    return process.flow is not None and owners.get(process.flow) == who.actor
