"""The law of cursors: what an operation on a channel's cursor reads, and what it leaves.

Rules: pure and total, as `machine` is for flows. An acknowledgement never lowers the revision that
was reported. One watcher holds a cursor at a time; what it sent is recorded even after its hold was
lost, since it was sent.
"""

from __future__ import annotations

from typing import TypeVar

from gitflowstate.codec import digest, encode
from gitflowstate.cursors import (
    CURSOR_PATH,
    Cursor,
    Delivery,
    Lease,
    Parked,
    acknowledged_path,
    receipt_path,
    told_there,
)
from gitflowstate.due import MUTED, elapsed
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import Time
from gitflowstate.machine import State
from gitflowstate.model import Value
from gitflowstate.ops import Op
from gitflowstate.watchops import Ack, Advance, Begin, CursorOp, Hold, Mute, Park, ReceiptOp, Skip

V = TypeVar("V", bound=Value)

HOLD_S = 300


def reads(op: Op) -> tuple[str, ...]:
    """Return the paths of the documents that an op on a cursor names."""
    if isinstance(op, ReceiptOp):
        return (receipt_path(op.flow),)
    if isinstance(op, Begin):
        return (CURSOR_PATH, *map(acknowledged_path, range(op.chunks)))
    if isinstance(op, Skip):
        return (CURSOR_PATH, acknowledged_path(op.chunk))
    return (CURSOR_PATH,)


def apply(op: Op, state: State) -> State:
    """Return the documents after the op, or `state` itself when there is nothing to do.

    Raises Stale when another watcher holds the cursor, Rejected for a document of a newer version.
    """
    assert isinstance(op, CursorOp)
    for path, value in state.items():
        _check_version(path, value)
    if isinstance(op, ReceiptOp):
        return _receipted(op, state)
    cursor = _of(Cursor, state[CURSOR_PATH])
    if isinstance(op, Begin):
        return _begun(op, state, cursor)
    if cursor is None:
        raise Rejected(f"{op.channel} has no cursor", hint=f"gfs watch {op.channel} begins one")
    if isinstance(op, Skip):
        return _skipped(op, state, cursor)
    if isinstance(op, Hold):
        return _put(state, CURSOR_PATH, _held(op, cursor))
    assert isinstance(op, Advance)
    return _put(state, CURSOR_PATH, _advanced(op, cursor))


def _of(cls: type[V], value: Value | None) -> V | None:
    return value if isinstance(value, cls) else None


def _check_version(path: str, value: Value | None) -> None:
    if value is not None and getattr(value, "schema_version", 1) > type(value).VERSION:
        raise Rejected(
            f"{path} was written by a newer gitflowstate", hint="upgrade gitflowstate", path=path
        )


def _put(state: State, path: str, value: Value) -> State:
    return state if value == state[path] else {**state, path: value}


# ── the cursor ──────────────────────────────────────────────────────────────────────────────────


def _begun(op: Begin, state: State, cursor: Cursor | None) -> State:
    if (cursor.acknowledged if cursor else 0) != op.chunks:
        raise _changed(op)
    hold = cursor.hold if cursor else None
    if op.anew and hold and held(hold, op.at):
        raise _taken(op, hold)
    generation = cursor.generation if cursor else 0
    fresh = Cursor(
        schema_version=1,
        cutoff=op.cutoff,
        generation=generation + op.anew,
        author_id=cursor.author_id if cursor else None,
    )
    if cursor and not op.anew:
        fresh = fresh.replace(owed=cursor.owed, hold=cursor.hold, budget=cursor.budget)
    removed = dict.fromkeys(map(acknowledged_path, range(op.chunks)))
    begun = _put(state, CURSOR_PATH, fresh)
    return {**begun, **removed} if removed else begun


def _skipped(op: Skip, state: State, cursor: Cursor) -> State:
    if op.chunk != cursor.acknowledged:
        raise _changed(op)
    counted = cursor.replace(acknowledged=op.chunk + 1)
    return {**state, CURSOR_PATH: counted, acknowledged_path(op.chunk): op.ended}


def held(hold: Lease | None, now: Time, skew_s: int = 0) -> bool:
    """Tell whether a hold stands at a time, with an allowance for its holder's clock in seconds.

    One that reaches much further than a hold can is of a clock that was set back since: it is over.
    A little further is one whose holder read the clock after us, and was first all the same.
    """
    if hold is None:
        return False
    left = elapsed(now, hold.until)
    return -skew_s < left <= 2 * HOLD_S + skew_s


def _held(op: Hold, cursor: Cursor) -> Cursor:
    hold = cursor.hold
    mine = hold is not None and hold.by == op.holder
    if hold is not None and not mine and (op.seen is None or held(hold, op.at, op.skew_s)):
        raise _taken(op, hold)
    if op.seen is not None and op.seen != digest(encode(cursor)):
        raise _changed(op)
    return cursor.replace(hold=Lease(by=op.holder, until=op.until, notices=op.notices))


def _taken(op: CursorOp, hold: Lease) -> Stale:
    return Stale(
        f"{op.channel} is watched by {hold.by} until {hold.until}",
        hint="nothing to do: that watcher sends what is owed",
        held_by=hold.by,
    )


def _changed(op: CursorOp) -> Stale:
    return Stale(f"the cursor of {op.channel} changed meanwhile", hint="run it again")


def _advanced(op: Advance, cursor: Cursor) -> Cursor:
    if cursor.hold is None:
        raise _changed(op)
    if cursor.hold.by != op.holder:
        raise _taken(op, cursor.hold)
    uncertain = Lease(by=op.holder, until=op.at, notices=op.notices) if op.notices else None
    return cursor.replace(
        head=op.head,
        owed=tuple(sorted({*cursor.owed, *op.owe} - {*op.settled})),
        hold=uncertain,
        budget=op.budget,
        author_id=op.author_id or cursor.author_id,
        filters=op.filters or cursor.filters,
        cutoff=None if op.head else cursor.cutoff,
    )


# ── a receipt ───────────────────────────────────────────────────────────────────────────────────


def _receipted(op: ReceiptOp, state: State) -> State:
    path = receipt_path(op.flow)
    before = _of(Delivery, state[path])
    if before is None or before.generation != op.generation:
        before = Delivery(schema_version=1, revision=0, generation=op.generation)
    if op.place is not None:
        before = told_there(before, op.place).replace(place=op.place)
    if isinstance(op, Ack):
        return _put(state, path, _acked(op, before))
    if isinstance(op, Park):
        return _put(state, path, _parked(op, before))
    assert isinstance(op, Mute)
    return _put(state, path, before.replace(message=None, text=None, gone=MUTED, parked=None))


def _acked(op: Ack, before: Delivery) -> Delivery:
    after = before.replace(waiting_since=op.since, parked=None)
    if op.kind == "status":
        return after.replace(
            revision=max(before.revision, op.revision),
            digest=op.digest,
            message=op.message if op.edits else None,
            text=op.text if op.edits else None,
            sent_at=op.at,
            gone=before.gone + op.replaced,
        )
    after = after.replace(notice=op.message)
    if op.kind == "final":
        after = after.replace(terminal_revision=op.revision, terminal_digest=op.digest)
    if before.message is None:  # there is no status message to bring up to date
        after = after.replace(revision=max(before.revision, op.revision), digest=op.digest)
    return after


def _parked(op: Park, before: Delivery) -> Delivery:
    last = before.parked
    return before.replace(
        parked=Parked(
            reason=op.reason,
            kind=op.kind,
            revision=op.revision,
            since=last.since if last else op.at,
            tries=(last.tries if last else 0) + 1,
            next=op.next,
        )
    )
