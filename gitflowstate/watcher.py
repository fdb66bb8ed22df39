"""One pass of a watcher: look, hold, put, acknowledge, advance (architecture, section 7).

Rules: it observes and never changes a flow; what is sent was announced in the cursor before, and is
recorded there right after, one message at a time; what is owed is compared anew in each pass, so
that a crash can only leave it owed. Where nothing is due, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gitflowstate import due, looking
from gitflowstate.cursors import Cursor
from gitflowstate.errors import Stale, Unavailable
from gitflowstate.kinds import Time
from gitflowstate.looking import Look
from gitflowstate.passing import Pass
from gitflowstate.ports import Channel, Clock, Cursors, Flows, Notice
from gitflowstate.reports import Report, Settings, left, notice_of
from gitflowstate.watchops import CursorOp

__all__ = ["Planned", "Report", "Settings", "Watcher"]

LONG_WALK = 1000  # commits after which even a pass that owes nothing says how far it looked
_ATTEMPTS = 5
_OVERTAKEN = Report(held_by="a watcher that has seen more")


class Planned(NamedTuple):
    """A message that would be sent, and the one that it would edit."""

    notice: Notice
    edits: str | None


class Watcher:
    """One watcher of one channel; the channel is opened only where something is due."""

    def __init__(  # noqa: PLR0917  its ports, each once
        self,
        settings: Settings,
        flows: Flows,
        cursors: Cursors,
        channel: Callable[[Cursor], Channel],
        clock: Clock,
        fallback: Callable[[], Channel] | None = None,
    ) -> None:
        self.settings = settings
        self.flows = flows
        self.cursors = cursors
        self.channel = channel
        self.clock = clock
        self.fallback = fallback

    def run(self) -> Report:
        """Make one pass.

        Raises Unauthorised, with the cursor as it was; and what the stores raise, with every
        message that may have been sent still owed.
        """
        loaded = self.cursors.load()
        first = loaded.head if loaded else None
        for _ in range(_ATTEMPTS):
            if first is not None and (loaded is None or loaded.head != first):
                return _OVERTAKEN
            try:
                return self._once(loaded)
            except Stale as other:
                if "held_by" in other.details:
                    return Report(held_by=other.details["held_by"])
            loaded = self.cursors.load()
        raise Unavailable("the cursor changed again and again", hint="run the same command again")

    def preview(self, limit: int) -> tuple[Report, list[Planned]]:
        """Return what a pass would leave and what it would send; write and open nothing."""
        now = self.clock.now()
        seen, _ = self._look(self.cursors.load(), now)
        planned = [self._planned(seen, owed, limit) for owed in self._due(seen, now)]
        return self._quiet(seen, now), planned

    def _planned(self, seen: Look, owed: due.Owed, limit: int) -> Planned:
        receipt = seen.items[owed.flow.id].receipt
        known = receipt.message if receipt and owed.kind == "status" else None
        target = self.settings.target(owed.flow)
        return Planned(notice_of(owed, limit, target), known)

    def _look(self, loaded: Cursor | None, now: Time) -> tuple[Look, list[CursorOp]]:
        """Return what there is to see, and the ops by which a cursor begins, if it does."""
        asked = self.settings
        op = looking.begin(loaded, asked.channel, asked.by, now, backfill=asked.backfill)
        cursor = looking.begun(loaded, op) if op else loaded
        assert cursor is not None
        seen = looking.look(
            self.flows, self.cursors, asked.rules, cursor, place=asked.target, now=now
        )
        skips = list(looking.skips(seen, asked.channel, asked.by, now))
        seen.cursor = cursor.replace(acknowledged=cursor.acknowledged + len(skips))
        return seen, [*([op] if op else []), *skips]

    def _once(self, loaded: Cursor | None) -> Report:
        now = self.clock.now()
        seen, beginnings = self._look(loaded, now)
        if seen.overtaken:
            return _OVERTAKEN
        planned = self._due(seen, now)
        if not planned and not self._is_worth_saying(seen):
            return self._quiet(seen, now)
        # Before anything is written: it may lack its credentials.
        channel = self.channel(seen.cursor) if planned else None
        try:
            for op in beginnings:
                self.cursors.commit(op)
            asked, head = self.settings, self.flows.head
            writing = Pass(asked, head, seen, self.cursors, channel, self.clock, self.fallback)
            return writing.run(planned)
        finally:
            if channel is not None:
                channel.close()

    def _due(self, seen: Look, now: Time) -> list[due.Owed]:
        return due.notices(seen.items.values(), seen.cursor, now, self.settings.rules)

    def _is_worth_saying(self, seen: Look) -> bool:
        """Tell whether a pass that owes nothing records how far it looked all the same."""
        unknown = not seen.known and not self.flows.shallow
        anew = seen.cursor.head is None or seen.filtered_anew
        return anew or unknown or seen.walked > LONG_WALK

    def _quiet(self, seen: Look, now: Time) -> Report:
        return left(seen)._replace(silent_until=due.silent_until(seen.cursor.budget, now))
