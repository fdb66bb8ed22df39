"""A command from its `go` to its end: its output, its time, and the request to stop it.

Rules: it is stopped by TERM, then KILL after a grace, for its group and for what escaped from that;
what is sent is recorded. It is not reaped before that is done, so that its number stays its own.
Nothing waits for ever on what it left behind. Standard library alone: a supervisor imports it.
"""

from __future__ import annotations

import posix as os  # `os` itself is a tenth of what a supervisor costs
import select
import time

from gitflowstate import runfiles, signals
from gitflowstate.capture import Capture
from gitflowstate.family import Family
from gitflowstate.relay import Stream
from gitflowstate.spawning import Command

TYPE_CHECKING = False  # as in `typing`, which a supervisor cannot afford
if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_S = 1.0
AFTER_EXIT_S = 1.0  # for output that is still in the pipe, while something holds it open
CONFIRM_S = 2.0  # after KILL; what is there then is said not to be known to have gone
LOOK_S = 0.05  # between two looks at what else there is to end
_LONGEST_MS = 2**31 - 1  # what poll() takes; whoever waits for longer looks again then


class Running:
    """Watches one command; `cancelled` tells whether it shall be cancelled, and why."""

    def __init__(  # noqa: PLR0917  what it watches, each once
        self,
        command: Command,
        folder: str,
        onward: tuple[int, int],
        wake: int,
        cancelled: Callable[[], str | None],
        timeout_s: int | None,
    ) -> None:
        self.command = command
        self.family = Family(folder, command.pid)
        self.capture = Capture(folder)
        self.cancelled = cancelled
        self.wake = wake
        self.timeout_s = timeout_s
        self.code: int | None = None
        self.signal: int | None = None
        self.stopped: tuple[str, str] | None = None  # the state that this leads to, and why
        self.sent: list[str] = []
        self.confirmed = True
        self._ended = False
        self._streams = [Stream(command.out, onward[0], self.capture)]
        self._streams.append(Stream(command.err, onward[1], self.capture))
        self._next: float | None = time.monotonic() + timeout_s if timeout_s else None
        self._drained = 0.0

    def watch(self) -> None:
        """Return when the command has ended, or cannot be ended."""
        while not self._is_over(time.monotonic()):
            ready = self._ready()
            now = time.monotonic()
            for stream in self._streams:
                if stream.is_open and stream.wants()[0] in ready:
                    stream.serve(now)
            if self.wake in ready:
                self._woken()
        self._finish(time.monotonic())

    def _ready(self) -> set[int]:
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        for stream in self._streams:
            if stream.is_open:
                poll.register(*stream.wants())
        ready = {descriptor for descriptor, _ in poll.poll(self._patience_ms())}
        if not ready:
            self.capture.flush_due(time.monotonic())
        return ready

    def _patience_ms(self) -> int | None:
        """Return how long nothing but an event is of interest."""
        now = time.monotonic()
        if self._ended and self.stopped:
            return int(LOOK_S * 1000)
        until = [moment for moment in (self._next, self._drained, self.capture.due) if moment]
        if not until:
            return None
        return min(max(0, int((min(until) - now) * 1000) + 1), _LONGEST_MS)

    # ── its end ─────────────────────────────────────────────────────────────────────────────────

    def _woken(self) -> None:
        numbers = os.read(self.wake, 4096)
        self._look()
        reason = self.cancelled()
        if reason is None and signals.TERM in numbers:
            reason = runfiles.TOLD_TO_END
        if reason is not None:
            self._stop("cancelled", reason)

    def _look(self) -> None:
        """See whether the command has ended, without reaping it."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        told = os.waitid(os.P_PID, self.command.pid, options)
        if told is None or self._ended:
            return
        self._ended = True
        self._drained = time.monotonic() + AFTER_EXIT_S
        if told.si_code == os.CLD_EXITED:
            self.code = told.si_status
        else:
            self.signal = told.si_status
        if not self.stopped:
            self._next = None

    def _is_over(self, now: float) -> bool:
        if self._next is not None and now >= self._next and not self._next_step(now):
            return True
        if not self._ended:
            return False
        if any(stream.is_open for stream in self._streams) and now < self._drained:
            return False
        return not self.stopped or self._next is None or not self.family.members()

    def _next_step(self, now: float) -> bool:
        """Take the step whose time has come; False when none is left."""
        if not self.stopped:
            self._stop("timed_out", f"it ran for longer than {self.timeout_s} s")
        elif len(self.sent) == 1:
            self._send(signals.KILL)
            self._next = now + CONFIRM_S
        else:
            self._next = None
            self.confirmed = False
            return False
        return True

    def _stop(self, state: str, reason: str) -> None:
        """Begin to end it. What has ended by itself is not stopped any more."""
        if self.stopped or self._ended:
            return
        self.stopped = state, reason
        self._send(signals.TERM)
        self._next = time.monotonic() + GRACE_S

    def _send(self, number: int) -> None:
        self.family.send(number)
        self.sent.append(signals.SENT[number])

    def _finish(self, now: float) -> None:
        for stream in self._streams:
            stream.close()
        self.capture.flush(now)
        self.capture.close()
        if self._ended:
            os.waitpid(self.command.pid, 0)

    def said(self) -> str | None:
        """Return what there is to say of the end, beyond its code."""
        parts = [self.stopped[1]] if self.stopped else []
        if not self.confirmed:
            parts.append("its termination is not confirmed")
        if self.capture.problem:
            parts.append(f"its output is incomplete: {self.capture.problem}")
        return "; ".join(parts) or None
