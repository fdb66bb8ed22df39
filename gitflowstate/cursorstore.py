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
from gitflowstate.errors import Corrupt, NotFound
from gitflowstate.git import Repository
from gitflowstate.model import Value
from gitflowstate.store import Refs, Store
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

    def load(self) -> Cursor | None:
        """Return the cursor, None where there is none yet or it cannot be read.

        Raises Corrupt where the ref itself lies, since nothing could be recorded then.
        """
        if self._store.refs.ref(self._store.ref) is None:
            return None
        found = self._read(CURSOR_PATH)
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
        """Apply an op durably. Raises what `cursormachine.apply` and `Store.commit` raise."""
        assert op.channel == self.channel
        self._store.commit(op)

    def _read(self, path: str) -> Value | None:
        try:
            return self._store.document(path)
        except NotFound:
            return None
        except Corrupt as error:
            problem = f"the cursor of {self.channel} has a hole: {error.message}"
            if problem not in self.problems:
                self.problems.append(problem)
            return None
