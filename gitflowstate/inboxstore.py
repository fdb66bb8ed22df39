"""The store of the inbox: which session was told of which end, on one ref of its own.

Rules: the same law as for flows, with another definition. It is expendable: marks that cannot be
read count as absent and are said, since a notice too many is better than one too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gitflowstate import inbox
from gitflowstate.definitions import Definition
from gitflowstate.errors import Corrupt, NotFound
from gitflowstate.git import Repository
from gitflowstate.inbox import CHANNEL, CLASSES, Deliver, InboxOp, Seen
from gitflowstate.kinds import Time
from gitflowstate.store import Store

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

    def marks(self, sessions: Iterable[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the marks of each session, by event."""
        return {session: self._marks(session) for session in sessions}

    def _marks(self, session: str) -> dict[str, dict[str, Any]]:
        try:
            return inbox.marks_of(self._store.document(inbox.reader_path(session)))
        except NotFound:
            return {}
        except Corrupt as error:
            self.problems.append(f"the inbox of {session} has a hole: {error.message}")
            return {}

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
