"""The store of the inbox: which session was told of which end, on one ref of its own.

Rules: the same law as for flows, with another definition. It is expendable: marks that cannot be
read count as absent and are said, since a notice too many is better than one too few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from gitflowstate import inbox, processes
from gitflowstate.definitions import Definition
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, GfsError, NotFound
from gitflowstate.git import Repository
from gitflowstate.inbox import CHANNEL, CLASSES, Deliver, Event, InboxOp, Seen, Who
from gitflowstate.kinds import Time
from gitflowstate.processmodel import Process, has_ended, session_place
from gitflowstate.store import Store

Marks = dict[str, dict[str, Any]]  # of one session, by event

INBOX = Definition(
    inbox.INBOX_REF,
    inbox.reads,
    inbox.apply,
    ops=(InboxOp,),
    first=(InboxOp,),
    governed=tuple(CLASSES),
    classes=CLASSES,
    expendable=True,
)


class InboxStore:
    """The marks of every session; `problems` collects what could not be read."""

    def __init__(self, repo: Repository, timeout: float = 10.0) -> None:
        self.problems: list[str] = []
        self._store = Store(repo, definition=INBOX, timeout=timeout)

    def marks(self, session: str) -> Marks:
        """Return the marks of a session."""
        return self.marks_at(session_place(session))

    def marks_at(self, place: str) -> Marks:
        """Return the marks of the session whose folders are called so."""
        try:
            return inbox.marks_of(self._store.document(f"readers/{place}.json"))
        except NotFound:
            return {}
        except Corrupt as error:
            problem = f"what {place} was told cannot be read: {error.message}"
            if problem not in self.problems:
                self.problems.append(problem)
            return {}

    def everyone(self) -> Marks:
        """Return the marks of all sessions together: what any of them was told, and has seen."""
        found: Marks = {}
        for place in self._places():
            for event, mark in self.marks_at(place).items():
                found[event] = mark | found.get(event, {})
        return found

    def _places(self) -> list[str]:
        try:
            repo, tree = self._store.repo, self._store.head().tree
            if repo.lookup(tree, "readers") is None:
                return []
            paths = [path for path, _ in repo.walk(tree, "readers")]
        except NotFound:
            return []
        except Corrupt as error:
            self.problems.append(f"what was told cannot be read: {error.message}")
            return []
        return [path.removeprefix("readers/").removesuffix(".json") for path in paths]

    def deliver(self, reader: str, events: Sequence[str], *, at: Time, by: str) -> None:
        """Record durably that events are about to be shown to a session."""
        self._mark(Deliver, reader, events, at, by)

    def see(self, reader: str, events: Sequence[str], *, at: Time, by: str) -> None:
        """Record durably that the model of a session has seen events."""
        self._mark(Seen, reader, events, at, by)

    def _mark(
        self, kind: type[InboxOp], reader: str, events: Sequence[str], at: Time, by: str
    ) -> None:
        if events:
            self._store.commit(
                kind(at=at, by=by, channel=CHANNEL, reader=reader, events=tuple(events))
            )


class Found(NamedTuple):
    """What there is to tell, and the processes that cannot be read."""

    events: list[Event]
    broken: list[Broken]


def gather(
    store: Store, marks: InboxStore, who: Who, settle: Callable[[Process], Process]
) -> Found:
    """Return the ends that are due to a reader, the earliest first.

    What the reader has seen, or the session that started it, is not even read. `settle` gets each
    process that has not ended, as recorded, and returns it as it is.
    """
    told = marks.marks(who.session)
    seen = {event for event, mark in told.items() if "seen" in mark}
    found: list[Process] = []
    broken: list[Broken] = []
    for place, paths in processes.by_session(store).items():
        own = {event for event, mark in marks.marks_at(place).items() if "seen" in mark}
        wanted = [path for path in paths if processes.name_of(path) not in seen | own]
        for item in processes.read(store, wanted):
            if isinstance(item, Broken):
                broken.append(item)
            else:
                found.append(item if has_ended(item) else settle(item))
    owners = _owners(store, [process.flow for process in found if process.flow])
    return Found(inbox.due(found, who, owners, {who.session: told}), broken)


def _owners(store: Store, flows: list[str]) -> dict[str, str]:
    """Return who owns each flow; one that cannot be used is nobody's."""
    owners = {}
    for flow in dict.fromkeys(flows):
        with suppress(GfsError):
            owners[flow] = store.flow(flow).owner
    return owners
