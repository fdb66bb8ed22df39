"""What a watcher sees: the flows that a channel is owed something about, and what it was told.

Rules: the walk along history only narrows the work; what counts is the comparison of each flow with
its receipt. Where the walk leads nowhere, every flow is compared (architecture, section 7).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from gitflowstate import codec, cursormachine, due
from gitflowstate.cursors import CURSOR_PATH, Acknowledged, Cursor, Intent, told_there
from gitflowstate.due import Reported, Rules
from gitflowstate.kinds import KINDS, TERMINAL, Time
from gitflowstate.model import Flow, instant
from gitflowstate.ports import Cursors, Flows
from gitflowstate.watchops import Begin, Skip

LONG_AGO_S = 86_400  # an end that is older than this at the first pass is taken as known
CHUNK = 20_000  # flows in one list, which must fit into a document

Key = tuple[str, str]  # a flow, and the kind of a message about it
Place = Callable[[Flow], str | None]  # where a flow is told of, in the channel's own words


class Look:
    """The flows with something owed, the cursor they were compared with, and how that went.

    `ended` are the flows that the first pass takes as acknowledged, `begun` the messages that were
    announced before and may have been sent, `unusable` the flows that could not be compared.
    `overtaken` says that another pass has seen a later commit: what is seen here is old.
    """

    def __init__(self, cursor: Cursor, rules: Rules, place: Place) -> None:
        self.cursor = cursor
        self.rules = rules
        self.place = place
        self.unusable: set[str] = set()
        known = cursor.head is not None and cursor.filters is not None
        self.filtered_anew = known and cursor.filters != filters(rules)
        self.items: dict[str, Reported] = {}
        self.ended: dict[str, int] = {}
        self.begun: dict[Key, Intent] = {}
        self.known = True
        self.overtaken = False
        self.walked = 0
        self.warnings: list[str] = []

    def owed(self) -> list[str]:
        """Return the flows that something is owed about, whenever it may be sent."""
        return sorted(flow for flow, item in self.items.items() if due.owed(item, self.rules))

    def pending(self) -> set[str]:
        """Return the flows to be looked at again: those owed, and those that cannot be used."""
        return {*self.owed(), *self.unusable}

    def parked(self) -> dict[str, str]:
        """Return the flows whose message the channel does not take, and why."""
        return {
            flow: item.receipt.parked.reason
            for flow, item in sorted(self.items.items())
            if item.receipt and item.receipt.parked and due.owed(item, self.rules)
        }

    def refresh(self, flow: str, cursors: Cursors) -> Reported:
        """Read again what the channel was told of a flow."""
        item = _reported(self, self.items[flow].flow, cursors)
        self.items[flow] = item
        return item


def begin(
    loaded: Cursor | None, channel: str, by: str, now: Time, *, backfill: bool
) -> Begin | None:
    """Return the op that a pass begins with, if it needs one.

    The first pass takes as acknowledged what ended a day before it; a backfill takes nothing so.
    """
    if loaded is None:
        cutoff = None if backfill else _before(now)
        return Begin(at=now, by=by, channel=channel, cutoff=cutoff)
    if backfill and (loaded.cutoff or loaded.acknowledged):
        return Begin(at=now, by=by, channel=channel, chunks=loaded.acknowledged)
    return None


def begin_anew(loaded: Cursor | None, channel: str, by: str, now: Time) -> Begin:
    """Return the op after which nothing that was told counts any more."""
    chunks = loaded.acknowledged if loaded else 0
    return Begin(
        at=now, by=by, channel=channel, cutoff=_before(now), anew=loaded is not None, chunks=chunks
    )


def begun(loaded: Cursor | None, op: Begin) -> Cursor:
    """Return the cursor that an op leaves, without writing it."""
    state = {**dict.fromkeys(cursormachine.reads(op)), CURSOR_PATH: loaded}
    found = cursormachine.apply(op, state)[CURSOR_PATH]
    assert isinstance(found, Cursor)
    return found


def _before(now: Time) -> Time:
    moment = datetime.fromisoformat(now) - timedelta(seconds=LONG_AGO_S)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%SZ}"


def filters(rules: Rules) -> str:
    """Return the digest of which flows a channel wants to hear of."""
    wanted = (rules.labels, rules.owners, rules.statuses, rules.linked)
    return codec.digest(json.dumps(wanted).encode())


def place_of(place: Place, flow: Flow) -> str | None:
    """Return the digest of where a flow is told of: the address itself may hold a token."""
    where = place(flow)
    return None if where is None else codec.digest(where.encode())


def look(
    flows: Flows,
    cursors: Cursors,
    rules: Rules,
    cursor: Cursor,
    *,
    place: Place = lambda _: None,
    now: Time | None = None,
) -> Look:
    """Compare what may have changed since the cursor's head with what the channel was told.

    Where the channel wants to hear of other flows than before, each is compared; those that ended
    long before `now`, and were not owed, are taken as known as in a first pass.
    """
    seen = Look(cursor, rules, place)
    changes = flows.changes(cursor.head)
    seen.known, seen.walked = changes.known, changes.commits
    # Asked only here: the cursor's head is hardly ever unknown, and the answer may take a walk.
    seen.overtaken = not changes.known and cursor.head is not None and flows.is_behind(cursor.head)
    if seen.overtaken:
        return seen
    intents = cursor.hold.notices if cursor.hold else ()
    if cursor.head is None or not changes.known or seen.filtered_anew:
        _compare_all(seen, flows, cursors, _cutoff(seen, now))
    else:
        _compare(seen, flows, cursors, {*changes.flows, *cursor.owed, *(i.flow for i in intents)})
    for intent in intents:
        if _matters(intent, seen.items.get(intent.flow), rules):
            seen.begun[intent.flow, intent.kind] = intent
    seen.unusable = {each for each in flows.broken if KINDS["Id"].accepts(each)}
    seen.warnings += _warnings(seen, flows, cursors)
    return seen


def _compare(seen: Look, flows: Flows, cursors: Cursors, names: set[str]) -> None:
    for name in sorted(names):
        flow = flows.flow(name)
        if flow is not None:
            _take(seen, _reported(seen, flow, cursors))


def _cutoff(seen: Look, now: Time | None) -> Time | None:
    if seen.cursor.head is None:
        return seen.cursor.cutoff
    return _before(now) if seen.filtered_anew and now else None


def _compare_all(seen: Look, flows: Flows, cursors: Cursors, cutoff: Time | None) -> None:
    cursor = seen.cursor
    known = cursors.acknowledged(cursor.acknowledged)
    for flow in flows.flows():
        item = _reported(seen, flow, cursors)
        fresh = item.receipt is None and flow.status in TERMINAL and flow.id not in cursor.owed
        if fresh and known.get(flow.id) == flow.revision:
            continue
        if fresh and _is_old(flow, cutoff):
            seen.ended[flow.id] = flow.revision
            continue
        _take(seen, item)


def _is_old(flow: Flow, cutoff: Time | None) -> bool:
    return cutoff is not None and instant(flow.updated_at) < instant(cutoff)


def _take(seen: Look, item: Reported) -> None:
    if due.owed(item, seen.rules):
        seen.items[item.flow.id] = item


def _reported(seen: Look, flow: Flow, cursors: Cursors) -> Reported:
    receipt = cursors.delivery(flow.id)
    if receipt is not None and receipt.generation != seen.cursor.generation:
        receipt = None
    if receipt is not None:
        receipt = told_there(receipt, place_of(seen.place, flow))
    return Reported(flow, codec.digest(codec.encode(flow)), receipt)


def _matters(intent: Intent, item: Reported | None, rules: Rules) -> bool:
    """Tell whether a message that was announced is still owed: the same end, the same wait."""
    if item is None or intent.kind not in due.owed(item, rules):
        return False
    if intent.kind == "final":
        return intent.revision == item.flow.revision
    return intent.kind == "status" or intent.since == due.entry(item.flow)


def _warnings(seen: Look, flows: Flows, cursors: Cursors) -> Iterator[str]:
    yield from cursors.problems
    if not seen.known and not flows.shallow:
        head = (seen.cursor.head or "")[:12]
        yield f"history was rewritten: {head} is not in it any more, so every flow was compared"
    if flows.broken:
        names = ", ".join(flows.broken[:3])
        more = f" and {len(flows.broken) - 3} more" if len(flows.broken) > 3 else ""  # noqa: PLR2004  named above
        yield f"not looked at, since they cannot be used: {names}{more}; gfs verify says why"


def skips(seen: Look, channel: str, by: str, now: Time) -> Iterator[Skip]:
    """Yield the ops that take what had ended long before the first pass as acknowledged."""
    names = sorted(seen.ended)
    for number, start in enumerate(range(0, len(names), CHUNK), seen.cursor.acknowledged):
        part = {name: seen.ended[name] for name in names[start : start + CHUNK]}
        listed = Acknowledged(schema_version=1, flows=part)
        yield Skip(at=now, by=by, channel=channel, chunk=number, ended=listed)
