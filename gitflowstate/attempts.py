"""How often one commit is sent to the remote, how that ended, and when to give up.

Rules: what did not leave this machine is Unavailable; what may have arrived and is seen nowhere is
Unknown, unless the remote itself refused it. Pauses grow, and differ between those who wait.
"""

from __future__ import annotations

import re
import time
from random import random
from typing import NoReturn

from gitflowstate import reconcile
from gitflowstate.delivery import NotSent, Unknown
from gitflowstate.errors import Denied, GfsError, Unavailable

_UNSENT = 3  # attempts to reach a remote at all
_DROPPED = 3  # times that it may say yes without doing it
# How a Git server's refusal begins; what follows are words of its rules, which may be any.
_BEGIN = r"(?:\[(?:remote )?rejected\] \()?"
_RACES = re.compile(
    _BEGIN + r"(?:stale info|fetch first|non-fast-forward|failed to (?:update ref|lock)"
    r"|cannot lock|unable to create \S+\.lock|lock.?(?:error|fail)|incorrect old value"
    r"|reference already exists)",
    re.IGNORECASE,
)
_DISK = re.compile(
    _BEGIN + r"(?:unpack|missing necessary objects|remote failure|failed to write)", re.IGNORECASE
)
_BARRED = re.compile(
    r"insufficient permission|permission denied|read-only file system"
    r"|unable to create temporary object directory",
    re.IGNORECASE,
)


def is_race(refusal: str) -> bool:
    """Tell whether a server refused because somebody else was faster."""
    return _RACES.match(refusal) is not None


def is_storage(refusal: str) -> bool:
    """Tell whether a server could not store what it was sent."""
    return _DISK.match(refusal) is not None


def is_barred(refusal: str) -> bool:
    """Tell whether a server may not write where it should."""
    return _BARRED.search(refusal) is not None


def _final(refusal: str) -> GfsError | None:
    """Return the error for a refusal that stands, None for a race."""
    race, disk = is_race(refusal), is_storage(refusal)
    if not (race or disk):
        return Denied(
            f"the remote refuses to move main: {refusal}",
            hint="a rule or a hook there decides: ask who keeps it",
        )
    if is_barred(refusal):
        return Denied(
            f"the remote cannot be written: {refusal}",
            hint="ask who keeps it whether you may write there, and whether its disk has room",
        )
    if disk:
        return Unavailable(
            f"the remote could not store the commit: {refusal}",
            hint="its disk may be full: ask who keeps it, then run the same command again",
        )
    return None


class Attempts:
    """How often one commit was sent, how it ended, and when to give up."""

    def __init__(self, patience_s: float, races: int = 0) -> None:
        self._deadline = time.monotonic() + patience_s
        self._count = races  # that the op has lost with other commits
        self._unsent = self._dropped = 0
        self._open = False  # whether one may still be under way

    @property
    def is_open(self) -> bool:
        """Whether one that was sent may have arrived, and its answer was lost."""
        return self._open

    def rest(self) -> None:
        """Wait a while that grows, and differs from that of others."""
        time.sleep(reconcile.pause(self._count, random()))  # noqa: S311  jitter
        self._count += 1

    def beaten(self, refusal: str | None) -> None:
        """Let others go first after a race that the remote decided; what is asked then is new."""
        if refusal is not None and is_race(refusal):
            self.rest()

    def passed(self) -> None:
        """Go on with another commit, since this one cannot land any more. Raises Unavailable."""
        if self._is_over():
            raise Unavailable(
                "others were always faster at the remote", hint="run the same command again"
            )

    def unsent(self, error: NotSent) -> None:
        """Try again what did not leave, or give up. Raises Unavailable, or Unknown."""
        self._hold_out(error)

    def lost(self) -> None:
        """Remember that an answer was lost."""
        self._open = True

    def unseen(self, error: GfsError, *, refused: bool) -> None:
        """Look again, or give up. Raises the error, or Unknown where something may be there."""
        self._open = self._open or not refused
        self._hold_out(error)

    def again(self, refusal: str | None) -> None:
        """Send again what is not there, or give up. Raises Denied, Unavailable or Unknown."""
        final = refusal and _final(refusal)
        if final:
            raise final
        self._dropped += refusal is None and not self._open
        if self._dropped >= _DROPPED or self._is_over():
            self._end(Unavailable("the remote did not move main", hint="run it again"))
        self.rest()

    def _hold_out(self, error: GfsError) -> None:
        """Wait for a remote that is out of reach, or give up."""
        self._unsent += 1
        if self._unsent >= _UNSENT or self._is_over():
            self._end(error)
        self.rest()

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def _end(self, error: GfsError) -> NoReturn:
        if self._open:
            raise Unknown(
                f"whether the remote has it is unknown: {error.message}",
                hint="read again when it answers, before doing it again; --key makes that safe",
            ) from error
        raise error
