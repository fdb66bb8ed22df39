"""The documents on a channel's own ref: how far it has reported, flow by flow.

Rules: as in `model`. A cursor is never part of the work it reports (architecture, section 4); a
receipt is never removed, and counts only while its generation is that of the cursor.
"""

from __future__ import annotations

from gitflowstate.kinds import (
    Commit,
    Count,
    Id,
    Json,
    Line,
    Name,
    NoticeKind,
    Parts,
    Ref,
    Revision,
    Sha256,
    Time,
)
from gitflowstate.model import Value, shard


class Intent(Value):
    """A message that is about to be sent; until its receipt says so, nobody knows whether it was.

    `since` is the entry into waiting that it announces; `sought` is when the channel was first
    searched for it in vain.
    """

    flow: Id
    kind: NoticeKind
    revision: Revision
    since: Time | None = None
    at: Time
    sought: Time | None = None


class Lease(Value):
    """The right of one watcher to send, and the messages that it, or one before it, began."""

    by: Name
    until: Time
    notices: tuple[Intent, ...] = ()


class Burst(Value):
    """How many messages were sent within a few minutes from `since` on."""

    since: Time
    count: Count


class Budget(Value):
    """How much may be sent: nothing before `until`, and what was `sent` of late, newest first.

    `failed` are the flows that the last pass got no answer about: they come last in the next one.
    """

    until: Time | None = None
    reason: Line | None = None
    tries: Count = 0
    sent: tuple[Burst, ...] = ()
    failed: tuple[Id, ...] = ()


class Cursor(Value):
    """How far one channel has looked.

    `head` is the commit of main that was compared; `owed` the flows that were compared and not
    reported. While `head` is absent, flows that ended before `cutoff` are taken as acknowledged;
    `acknowledged` counts the documents that list them. `filters` is the digest of what the channel
    wanted to hear of then.
    """

    VERSION = 1

    schema_version: Revision
    head: Commit | None = None
    owed: tuple[Id, ...] = ()
    hold: Lease | None = None
    budget: Budget | None = None
    author_id: Name | None = None
    generation: Count = 0
    cutoff: Time | None = None
    acknowledged: Parts = 0
    filters: Sha256 | None = None


class Parked(Value):
    """A message that the channel will not take, and when it is tried again."""

    reason: Line
    kind: NoticeKind
    revision: Revision
    since: Time
    tries: Count
    next: Time


class Delivery(Value):
    """What one channel was last told of one flow.

    `message` is the status message, which is edited, and `notice` the last new one; `place` is the
    digest of where they are;
    `terminal_revision` and `waiting_since` name the end and the entry into waiting that were
    announced; the digests are those of the flow's document then, and `text` that of the status
    message as it was sent. `gone` counts how often people
    removed the status message: it is made again once.
    """

    VERSION = 1

    schema_version: Revision
    revision: Count = 0
    terminal_revision: Revision | None = None
    terminal_digest: Sha256 | None = None
    waiting_since: Time | None = None
    message: Ref | None = None
    text: Sha256 | None = None
    notice: Ref | None = None
    place: Sha256 | None = None
    digest: Sha256 | None = None
    sent_at: Time | None = None
    parked: Parked | None = None
    gone: Count = 0
    generation: Count = 0


def told_there(receipt: Delivery, place: str | None) -> Delivery:
    """Return what a receipt says of a place: elsewhere there is no message to edit, none parked."""
    if place is None or receipt.place in (None, place):
        return receipt
    return receipt.replace(message=None, text=None, parked=None, gone=0)


class Acknowledged(Value):
    """Flows that had ended long before the channel's first pass: the revision of each, by id."""

    VERSION = 1

    schema_version: Revision
    flows: Json


CURSOR_PATH = "cursor.json"
# top-level name in a cursor's tree -> the class of what is kept there; all of it is governed
CLASSES: dict[str, type[Value]] = {
    CURSOR_PATH: Cursor,
    "receipts": Delivery,
    "acknowledged": Acknowledged,
}


def cursor_ref(channel: str) -> str:
    """Return the ref of a channel's cursor."""
    return f"refs/gfs/cursors/{channel}"


def receipt_path(flow: str) -> str:
    """Return where the receipt of a flow is kept."""
    return f"receipts/{shard(flow)}/{flow}.json"


def acknowledged_path(number: int) -> str:
    """Return where a part of the list of acknowledged flows is kept, counted from 0."""
    return f"acknowledged/{number}.json"
