"""The operations on a channel's cursor: who may send, what was sent, and how far it has looked.

Rules: as in `ops`. `Ack` records a success right after it, and nothing else does; what is uncertain
stays in the hold until a receipt settles it. `generation` is that of the cursor the writer saw: a
receipt of an earlier one counts for nothing.
"""

from __future__ import annotations

from typing import ClassVar

from gitflowstate import prose
from gitflowstate.cursors import Acknowledged, Budget, Intent
from gitflowstate.kinds import (
    Commit,
    Count,
    Flag,
    Id,
    Line,
    Name,
    NoticeKind,
    Parts,
    Ref,
    Revision,
    Sha256,
    Time,
)
from gitflowstate.model import Flow
from gitflowstate.ops import Op


class CursorOp(Op):
    """An operation on the cursor of one channel."""

    OWNERS = False

    channel: Id


class Begin(CursorOp):
    """Begin a cursor, or look at everything again; `anew` lets no earlier receipt count.

    `chunks` is how many lists of acknowledged flows there were, which are removed.
    """

    TAG = "begin"

    cutoff: Time | None = None
    anew: Flag = False
    chunks: Parts = 0

    def headline(self, flow: Flow | None) -> str:
        """Return what is taken as acknowledged."""
        del flow
        return f"what ended before {self.cutoff} is known" if self.cutoff else "everything is told"


class Skip(CursorOp):
    """Take flows that had ended long before the channel's first pass as acknowledged."""

    TAG = "skip"

    chunk: Parts
    ended: Acknowledged

    def headline(self, flow: Flow | None) -> str:
        """Return how many."""
        del flow
        return f"{prose.count(len(self.ended.flows), 'flow')} that had ended"


class Hold(CursorOp):
    """Take the right to send, and say beforehand what will be sent; without `seen`, renew it.

    `seen` is the digest of the cursor that the notices were worked out from; `skew_s` the allowance
    for the clock of another holder, in seconds.
    """

    TAG = "hold"

    holder: Name
    until: Time
    notices: tuple[Intent, ...]
    seen: Sha256 | None = None
    skew_s: Count = 0

    def headline(self, flow: Flow | None) -> str:
        """Return how many messages are about to be sent."""
        del flow
        return prose.count(len(self.notices), "message")


class ReceiptOp(CursorOp):
    """An operation on the receipt of one flow; `place` is the digest of where it is told."""

    flow: Id
    revision: Revision
    generation: Count = 0
    place: Sha256 | None = None

    def headline(self, flow: Flow | None) -> str:
        """Return which revision of which flow, and the kind of message."""
        del flow
        return f"{self.flow} r{self.revision} {getattr(self, 'kind', '')}".rstrip()


class Ack(ReceiptOp):
    """Record that a message is there: `message`, of a kind, about a revision.

    `since` is the entry into waiting that counts as announced from now on; `edits` tells whether
    the channel can edit a status message, `replaced` whether a removed one was made again, and
    `text` the digest of what it says, where that can be compared later.
    """

    TAG = "ack"

    kind: NoticeKind
    message: Ref
    digest: Sha256
    text: Sha256 | None = None
    since: Time | None = None
    edits: Flag = False
    replaced: Flag = False


class Park(ReceiptOp):
    """Record that the channel will not take a message, and when it is tried again."""

    TAG = "park"
    BODY: ClassVar = (("Reason", "reason"),)

    kind: NoticeKind
    reason: Line
    next: Time


class Mute(ReceiptOp):
    """Record that people removed the status message twice: there will be no third one."""

    TAG = "mute"


class Advance(CursorOp):
    """Give the hold back: what was compared, what is owed, and what remains uncertain.

    `owe` and `settled` are the flows that enter and leave the list of those owed; `filters` is the
    digest of what the channel wants to hear of.
    """

    TAG = "advance"

    holder: Name
    head: Commit | None = None
    owe: tuple[Id, ...] = ()
    settled: tuple[Id, ...] = ()
    notices: tuple[Intent, ...] = ()
    budget: Budget | None = None
    author_id: Name | None = None
    filters: Sha256 | None = None

    def headline(self, flow: Flow | None) -> str:
        """Return the commit of main that was compared."""
        del flow
        return self.head[:12] if self.head else ""


UNION: tuple[type[CursorOp], ...] = (Begin, Skip, Hold, Ack, Park, Mute, Advance)
BY_TAG: dict[str, type[Op]] = {op.TAG: op for op in UNION}
