"""What is sent in one pass of a watcher, from the hold to the advance.

Rules: what is about to be sent stands in the cursor before the first request; each message that
arrived is acknowledged before the next is sent; what may have arrived stays announced until a
receipt settles it, whatever ended the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gitflowstate import due
from gitflowstate.codec import digest, encode
from gitflowstate.cursormachine import HOLD_S
from gitflowstate.cursors import Budget, Intent
from gitflowstate.delivery import Gone, HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.due import Owed, Reported
from gitflowstate.errors import GfsError, Stale
from gitflowstate.kinds import Time
from gitflowstate.looking import Key, Look, filters, place_of
from gitflowstate.model import latest
from gitflowstate.ports import Channel, Clock, Cursors, Notice
from gitflowstate.reports import Report, Settings, Told, left, notice_of
from gitflowstate.sending import Muted, Sender, Sent, Sought
from gitflowstate.watchops import Ack, Advance, CursorOp, Hold, Mute, Park

BATCH = 50  # messages that are announced at once
GIVE_UP = 3  # failures one after another
_SILENCE_S = 60  # at least, where a channel does not say how much it wants; doubled each time
_MOST_STUCK = 100


class Pass:
    """The part of a pass that writes: to the channel, and to its cursor."""

    def __init__(  # noqa: PLR0917  its ports, each once
        self,
        settings: Settings,
        head: str,
        seen: Look,
        cursors: Cursors,
        channel: Channel | None,
        clock: Clock,
        fallback: Callable[[], Channel] | None = None,
    ) -> None:
        self.settings = settings
        self.head = head
        self.seen = seen
        self.cursors = cursors
        self.channel = channel
        self.clock = clock
        self.fallback = fallback
        self.budget = seen.cursor.budget
        # What may have been sent: by whoever held the cursor before, or just now.
        self.uncertain: dict[Key, Intent] = dict(seen.begun)
        self.intents: dict[Key, Intent] = {}
        self.until: Time = ""
        self.told: list[Told] = []
        self.parked: set[str] = set()  # flows of which a message was refused just now
        self.stuck: set[str] = set()  # flows about which no answer came just now
        self.unsure = self.failed = self.failing = 0

    def run(self, planned: list[Owed]) -> Report:
        """Send what is planned. Raises Stale when nothing was sent, since others came first."""
        batches = [planned[at : at + BATCH] for at in range(0, len(planned), BATCH)] or [[]]
        self._hold(batches[0], first=True)
        held_by = None
        try:
            self._send(batches)
            self._advance()
        except Stale as lost:
            held_by = lost.details.get("held_by", "another watcher")
        except Unauthorised:
            self._release()
            raise
        except BaseException:
            with suppress(GfsError):  # the first failure is the one to tell
                self._advance()
            raise
        return left(self.seen)._replace(
            told=tuple(self.told),
            uncertain=self.unsure,
            failed=self.failed,
            held_by=held_by,
            silent_until=due.silent_until(self.budget, self.clock.now()),
        )

    # ── the hold ────────────────────────────────────────────────────────────────────────────────

    def _hold(self, batch: list[Owed], *, first: bool = False) -> None:
        """Take or renew the hold, and announce a batch. Raises Stale."""
        now = self.clock.now()
        for flow, kind in batch:
            known = self.uncertain.get((flow.id, kind)) or self.intents.get((flow.id, kind))
            since = due.entry(flow) if kind == "waiting" else None
            fresh = Intent(flow=flow.id, kind=kind, revision=flow.revision, since=since, at=now)
            self.intents[flow.id, kind] = known or fresh
        self.until = self.clock.later(HOLD_S)
        announced = {**self.uncertain, **{key: self.intents[key] for key in map(_key, batch)}}
        self._commit(
            Hold,
            holder=self.settings.holder,
            until=self.until,
            notices=tuple(announced.values()),
            seen=digest(encode(self.seen.cursor)) if first else None,
            skew_s=self.settings.skew_s,
        )

    def _advance(self) -> None:
        """Give the hold back, and say what was compared and what is owed."""
        cursor = self.seen.cursor
        owed, wanted = self.seen.pending(), filters(self.settings.rules)
        self._commit(
            Advance,
            holder=self.settings.holder,
            head=self.head,
            owe=tuple(sorted(owed - {*cursor.owed})),
            settled=tuple(sorted({*cursor.owed} - owed)),
            notices=tuple(self.uncertain.values()),
            budget=self._left(),
            author_id=getattr(self.channel, "author_id", None),
            filters=None if wanted == cursor.filters else wanted,
        )

    def _release(self) -> None:
        """Give the hold back, and leave the rest of the cursor as it was."""
        cursor = self.seen.cursor
        self._commit(
            Advance,
            holder=self.settings.holder,
            head=cursor.head,
            notices=tuple(self.uncertain.values()),
            budget=self._left(),
        )

    def _left(self) -> Budget | None:
        """Return the budget as it is left, with the flows that no answer came about."""
        before = self.seen.cursor.budget
        told = {each.flow for each in self.told}
        open_ = {*self.stuck, *(before.failed if before else ())} & {*self.seen.owed()} - told
        failed = tuple(sorted(open_)[:_MOST_STUCK])
        if failed == (self.budget.failed if self.budget else ()):
            return self.budget
        return (self.budget or Budget()).replace(failed=failed)

    def _commit(self, kind: type[CursorOp], /, **fields: Any) -> None:  # noqa: ANN401  fields of the op
        asked = self.settings
        op = kind(at=self.clock.now(), by=asked.by, channel=asked.channel, **fields)
        self.cursors.commit(op)

    # ── one message after another ───────────────────────────────────────────────────────────────

    def _send(self, batches: list[list[Owed]]) -> None:
        if self.channel is None:
            return
        sender = Sender(self.channel, self.clock.now, self.seen.warnings.append)
        for number, batch in enumerate(batches):
            if number:
                self._hold(batch)
            for place, owed in enumerate(batch):
                if owed.flow.id in self.parked:
                    continue  # what is parked last says what is tried first
                # Somebody whose hold ran out may have sent it meanwhile.
                item = self.seen.refresh(owed.flow.id, self.cursors)
                if owed.kind not in due.owed(item, self.settings.rules):
                    continue
                self._renew(batch[place:])
                if not self._put(sender, owed, item):
                    return

    def _renew(self, rest: list[Owed]) -> None:
        """Renew the hold when half of it is over, or the clock was set back."""
        if not HOLD_S // 2 < due.elapsed(self.clock.now(), self.until) <= HOLD_S:
            self._hold(rest)

    def _put(self, sender: Sender, owed: Owed, item: Reported) -> bool:
        """Send one message and record what came of it; False where the pass had better end."""
        key = _key(owed)
        notice = notice_of(owed, sender.can.limit, self.settings.target(owed.flow))
        try:
            result = sender.put(notice, item.receipt, self.uncertain.get(key), owed.flow.created_at)
        except Refused as refusal:
            self._park(notice, item, refusal.reason)
            return True
        except HoldOff as wait:
            self._fall_silent(wait)
            return False
        except (NotSent, Unknown, Gone) as failure:  # an edit may be repeated freely, a look too
            if failure.message not in self.seen.warnings:
                self.seen.warnings.append(failure.message)
            if isinstance(failure, Unknown) and owed.kind == "status":
                self.uncertain.setdefault(key, self.intents[key])
            self.stuck.add(owed.flow.id)
            self.failed += 1
            self.failing += 1
            return self.failing < GIVE_UP
        except Unauthorised:
            raise
        except BaseException:
            self.uncertain.setdefault(key, self.intents[key])
            raise
        self.failing = 0
        self._record(owed, item, result, sender)
        if isinstance(result, Sought) and result.wait is not None:
            self._fall_silent(result.wait)
            return False
        return True

    def _record(
        self, owed: Owed, item: Reported, result: Sent | Muted | Sought, sender: Sender
    ) -> None:
        key = _key(owed)
        if isinstance(result, Sought):
            self.unsure += 1
            self.budget = due.spent(self.budget, self.clock.now())  # it may have been sent
            intent = self.intents[key].replace(revision=result.revision, sought=result.at)
            self.uncertain[key] = intent
            return
        self.uncertain.setdefault(key, self.intents[key])  # until the receipt is there
        about = {
            "flow": owed.flow.id,
            "revision": owed.flow.revision,
            "generation": self.seen.cursor.generation,
            "place": place_of(self.settings.target, owed.flow),
        }
        if isinstance(result, Muted):
            self._commit(Mute, **about)
        else:
            self._commit(
                Ack,
                **about,
                kind=owed.kind,
                message=result.message,
                digest=item.digest,
                text=result.text if owed.kind == "status" else None,
                since=_announced(owed, item),
                edits=sender.can.edits,
                replaced=result.replaced,
            )
            self.told.append(Told(owed.flow.id, owed.kind, owed.flow.revision, result.message))
            self.budget = due.spent(self.budget, self.clock.now())
        del self.uncertain[key]
        self.seen.refresh(owed.flow.id, self.cursors)

    def _fall_silent(self, wait: HoldOff) -> None:
        tries = (self.budget.tries if self.budget else 0) + 1 if wait.guessed else 0
        least = self.clock.later(due.back_off(tries, _SILENCE_S)) if tries > 1 else wait.until
        self.budget = due.silenced(self.budget, latest(wait.until, least), wait.reason, tries)

    # ── what the channel will not take ──────────────────────────────────────────────────────────

    def _park(self, notice: Notice, item: Reported, reason: str) -> None:
        parked = item.receipt.parked if item.receipt else None
        known = (parked.kind, parked.revision) if parked else None
        if known is None or (notice.kind != "status" and known != (notice.kind, notice.revision)):
            self._tell_fallback(notice)
        tries = (parked.tries if parked else 0) + 1
        self._commit(
            Park,
            flow=notice.flow,
            revision=notice.revision,
            generation=self.seen.cursor.generation,
            place=place_of(self.settings.target, item.flow),
            kind=notice.kind,
            reason=reason,
            next=self.clock.later(due.back_off(tries)),
        )
        self.parked.add(notice.flow)
        self.uncertain.pop((notice.flow, notice.kind), None)
        self.seen.refresh(notice.flow, self.cursors)

    def _tell_fallback(self, notice: Notice) -> None:
        if self.fallback is None:
            return
        try:
            channel = self.fallback()
            try:
                channel.post(notice._replace(target=None))
            finally:
                channel.close()
        except GfsError as error:
            self.seen.warnings.append(f"the fallback channel failed as well: {error.message}")


def _key(owed: Owed) -> Key:
    return owed.flow.id, owed.kind


def _announced(owed: Owed, item: Reported) -> Time | None:
    """Return the entry into waiting that counts as announced once this message is there."""
    since = due.entry(owed.flow)
    if owed.kind == "waiting" or since is None:
        return since
    return item.receipt.waiting_since if item.receipt else None
