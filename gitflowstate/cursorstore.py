"""The store of one channel's cursor: what it holds, and how it is read though parts are broken.

Rules: the same law as for flows, with another definition. A cursor is expendable: what cannot be
read counts as absent and is said, since a message too many is better than one too few.
"""

from __future__ import annotations

from gitflowstate import cursormachine, history, inbox, inboxstore
from gitflowstate.cursors import (
    CLASSES,
    CURSOR_PATH,
    Acknowledged,
    Cursor,
    Delivery,
    acknowledged_path,
    cursor_ref,
    receipt_path,
)
from gitflowstate.definitions import Definition
from gitflowstate.errors import Corrupt, NotFound, Stale
from gitflowstate.git import Repository
from gitflowstate.model import Value
from gitflowstate.movers import Refs
from gitflowstate.store import Store
from gitflowstate.watchops import Begin, CursorOp


def definition(channel: str) -> Definition:
    """Return what makes the family of documents on a channel's ref; the inbox has its own."""
    if channel == inbox.CHANNEL:
        return inboxstore.INBOX
    return Definition(
        cursor_ref(channel),
        cursormachine.reads,
        cursormachine.apply,
        ops=(CursorOp,),
        first=(Begin,),
        governed=tuple(CLASSES),
        classes=CLASSES,
        expendable=True,
    )


def verify(repo: Repository, head: str, channel: str) -> history.Report:
    """Replay the history of a channel's cursor, as `history.verify` does that of main."""
    return history.verify(repo, head, definition=definition(channel))


class CursorStore:
    """The cursor of one channel; `problems` collects what could not be read.

    `refs` says where its ref is, if that is not in the repository itself.
    """

    def __init__(
        self, repo: Repository, channel: str, *, refs: Refs | None = None, timeout: float = 10.0
    ) -> None:
        self.channel = channel
        self.problems: list[str] = []
        self._store = Store(repo, definition=definition(channel), refs=refs, timeout=timeout)
        self._lies = False

    def load(self) -> Cursor | None:
        """Return the cursor, None where there is none yet or it cannot be read."""
        try:
            if self._store.refs.ref(self._store.ref) is None:
                return None
        except Corrupt as error:
            self._lies = True
            self._note(error)
            return None
        found = self._read(CURSOR_PATH)
        if found is None and not self.problems:
            self.problems.append(f"the ref of {self.channel} holds no cursor: it begins anew")
        return found if isinstance(found, Cursor) else None

    def delivery(self, flow: str) -> Delivery | None:
        """Return what the channel was last told of a flow."""
        found = self._read(receipt_path(flow))
        return found if isinstance(found, Delivery) else None

    def acknowledged(self, chunks: int) -> dict[str, int]:
        """Return the flows that count as acknowledged, and the revision of each."""
        found: dict[str, int] = {}
        for number in range(chunks):
            part = self._read(acknowledged_path(number))
            if isinstance(part, Acknowledged):
                found |= part.flows
        return found

    def commit(self, op: CursorOp) -> None:
        """Apply an op durably. Raises what `cursormachine.apply` and `Store.commit` raise.

        A ref that held no commit id is moved aside first; Stale where an older one appears below.
        """
        assert op.channel == self.channel
        if self._lies:
            self._set_aside()
        self._store.commit(op)

    def _set_aside(self) -> None:
        from gitflowstate.locks import repository_lock  # noqa: PLC0415  start-up: a rare case

        repo, ref = self._store.repo, self._store.ref
        with repository_lock(repo.gitdir, self._store.timeout):
            moved = repo.set_aside(ref)
        self._lies = False
        if moved and repo.ref(ref) is not None:
            raise Stale("an older cursor counts again", hint="run the same command again")

    def _read(self, path: str) -> Value | None:
        try:
            return self._store.document(path)
        except NotFound:
            return None
        except Corrupt as error:
            self._note(error)
            return None

    def _note(self, error: Corrupt) -> None:
        problem = f"the cursor of {self.channel} has a hole: {error.message}"
        if problem not in self.problems:
            self.problems.append(problem)
