"""One message to its channel: edit the known one, else find it by its marker, else post it.

Rules: a message that may be there already is looked for now and again at least 30 s later, and is
sent once more only after both looks showed none (hazards, GitHub notification protocol). An edit
may be repeated freely. Of several messages the oldest is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from gitflowstate.codec import digest
from gitflowstate.cursors import Delivery, Intent
from gitflowstate.delivery import Gone, HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.due import elapsed
from gitflowstate.kinds import Time
from gitflowstate.model import instant
from gitflowstate.ports import Channel, Found, Notice
from gitflowstate.statusmessage import superseded

AGAIN_S = 30  # between two looks for a message that may be there
_MARGIN = timedelta(days=1)  # for clocks: how much further back to look than seems needed
_FIRST = "0001-01-01T00:00:00Z"


class Sent(NamedTuple):
    """The message is there; `replaced` tells that one which people removed was made again.

    `text` is the digest of what it says, where the channel tells that.
    """

    message: str
    replaced: bool = False
    text: str | None = None


class Muted(NamedTuple):
    """People removed the status message twice; it is not made again."""


class Sought(NamedTuple):
    """The message, of a revision, may be there; `at` says when it was looked for in vain.

    `wait` is what the look itself was told: nothing may be sent before it is over.
    """

    revision: int
    at: Time | None = None
    wait: HoldOff | None = None


class Sender:
    """What brings notices to one channel; `warn` is told what a person may want to know."""

    def __init__(
        self, channel: Channel, now: Callable[[], Time], warn: Callable[[str], None]
    ) -> None:
        self.channel = channel
        self.can = channel.capabilities
        self.now = now
        self.warn = warn

    def put(
        self, notice: Notice, told: Delivery | None, begun: Intent | None, born: Time | None
    ) -> Sent | Muted | Sought:
        """Bring a notice to the channel; `begun` is the intent of a try whose outcome is unknown.

        `born` bounds how far back a message of the flow can be. Raises the errors of `delivery`.
        """
        replaced = False
        if notice.kind == "status" and told is not None and told.message and self.can.edits:
            try:
                return self._edited(told.message, told.text, notice, sure=begun is None)
            except Gone:
                if told.gone:
                    return Muted()
                replaced = True
        adopted = self._adopted(notice, told, begun, self._since(begun, born))
        if adopted is not None:
            return adopted._replace(replaced=replaced)
        if begun is not None and self.can.searches and not self._sought_twice(begun):
            return Sought(begun.revision, begun.sought or self.now())
        return self._posted(notice, told, replaced=replaced)

    def _edited(self, message: str, text: str | None, notice: Notice, *, sure: bool) -> Sent:
        """Edit a message; say where people had changed `text`, the digest of what was sent.

        Unless that is `sure`, what is there may be of a try whose outcome is unknown.
        """
        there = self.channel.digest(message) if text and sure else None
        known = self._sent(self.channel.edit(message, notice), notice)
        if there not in (None, text, known.text):
            self._warn_edited(notice)
        return known

    def _warn_edited(self, notice: Notice) -> None:
        self.warn(f"{notice.flow}: its {notice.kind} message was edited by hand; rewritten")

    def _sent(self, message: str, notice: Notice) -> Sent:
        """Return what is recorded of a message that says what the notice does."""
        return Sent(message, text=digest(notice.text.encode()) if self.can.searches else None)

    def _posted(self, notice: Notice, told: Delivery | None, *, replaced: bool) -> Sent | Sought:
        try:
            return self._sent(self.channel.post(notice), notice)._replace(replaced=replaced)
        except Unknown:
            return self._looked_for(notice, told, replaced=replaced)

    def _looked_for(
        self, notice: Notice, told: Delivery | None, *, replaced: bool
    ) -> Sent | Sought:
        """Return what became of a message whose answer was lost, as far as that can be known."""
        try:
            known = self._adopted(notice, told, None, self._since(None, self.now()))
        except HoldOff as wait:
            return Sought(notice.revision, wait=wait)  # no request may leave before it is over
        except (NotSent, Unknown, Refused, Gone, Unauthorised):
            return Sought(notice.revision)  # the next message meets it as well
        if known is not None:
            return known._replace(replaced=replaced)
        return Sought(notice.revision, self.now() if self.can.searches else None)

    def _sought_twice(self, begun: Intent) -> bool:
        if begun.sought is None:
            return False
        between = elapsed(begun.sought, self.now())
        return between >= AGAIN_S or between < 0  # the clock was set back: it is long ago

    def _since(self, begun: Intent | None, born: Time | None) -> Time | None:
        """Return from when on to look: long before the message can have been made."""
        start = begun.at if begun else born
        if start is None:
            return None
        start = min(start, self.now(), key=instant)
        try:
            moment = datetime.fromisoformat(start) - _MARGIN
        except OverflowError:
            return _FIRST
        return f"{moment.year:04}-{moment:%m-%dT%H:%M:%SZ}"

    # ── what is there ───────────────────────────────────────────────────────────────────────────

    def _adopted(
        self, notice: Notice, told: Delivery | None, begun: Intent | None, since: Time | None
    ) -> Sent | None:
        """Return the message that is there already, brought to what the notice says.

        One that was acknowledged is none: what is owed is another, of a history rewritten since.
        """
        known = told.notice if told else None
        found = [each for each in self._found(notice, begun, since) if each.id != known]
        if not found:
            return None
        kept = found[0]
        if self._differs(kept, notice) and self.can.edits:
            edited = self._sent(self.channel.edit(kept.id, notice), notice)
        else:
            edited = Sent(kept.id, text=kept.digest or None)
        if self.can.edits:
            self._supersede(found[1:], notice)
        return edited

    def _found(self, notice: Notice, begun: Intent | None, since: Time | None) -> list[Found]:
        if not self.can.searches:
            return []
        revisions = {notice.revision} | ({begun.revision} if begun else set())
        return [
            each
            for each in self.channel.find(notice, since)
            if each.kind == notice.kind and (notice.kind == "status" or each.revision in revisions)
        ]

    def _differs(self, kept: Found, notice: Notice) -> bool:
        if kept.revision != notice.revision:
            return kept.revision < notice.revision  # never back
        if kept.digest and kept.digest != digest(notice.text.encode()):
            self._warn_edited(notice)
            return True
        return False

    def _supersede(self, others: list[Found], notice: Notice) -> None:
        """Say in the newer of several messages that they count for nothing; the marker goes."""
        for other in others:
            try:
                self.channel.edit(other.id, notice._replace(text=superseded(notice.text)))
            except Gone:
                continue
