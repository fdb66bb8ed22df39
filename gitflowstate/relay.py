"""One stream of output on its way: from the command, into the capture, and on to the client.

Rules: what a client does not take yet holds the command back, as a pipe between them would; a
client that has gone holds nothing back. Standard library alone, and cheap: a supervisor imports it.
"""

from __future__ import annotations

import fcntl
import posix as os  # `os` itself is a tenth of what a supervisor costs
import select

from gitflowstate.capture import Capture

CHUNK = 1 << 18
_AT_ONCE = 32  # reads of a torrent, before anything else gets its turn
_PIPE = getattr(fcntl, "F_SETPIPE_SZ", None)


class Stream:
    """Reads one pipe of a command; `onward` is where it is passed to, -1 for nowhere."""

    def __init__(self, source: int, onward: int, capture: Capture) -> None:
        self.source = source
        self.onward = onward
        self.capture = capture
        self._rest = memoryview(b"")
        os.set_blocking(source, False)
        if onward >= 0:
            os.set_blocking(onward, False)
        _widen(source)

    @property
    def is_open(self) -> bool:
        """Tell whether there may be more."""
        return self.source >= 0

    def wants(self) -> tuple[int, int]:
        """Return the descriptor to poll, and for what."""
        if self._rest:
            return self.onward, select.POLLOUT
        return self.source, select.POLLIN

    def serve(self, now: float) -> None:
        """Do what was polled for."""
        if self._rest:
            self._pass_on()
        else:
            self._read(now)

    def _read(self, now: float) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = os.read(self.source, CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            self.capture.take(data, now)
            if self.onward >= 0:
                self._rest = memoryview(data)
                self._pass_on()
                return

    def _pass_on(self) -> None:
        try:
            self._rest = self._rest[os.write(self.onward, self._rest) :]
        except BlockingIOError:
            return
        except OSError:  # the client has gone, or wants no more
            os.close(self.onward)
            self.onward = -1
            self._rest = memoryview(b"")

    def close(self) -> None:
        """Read no more."""
        for descriptor in (self.source, self.onward):
            if descriptor >= 0:
                os.close(descriptor)
        self.source = self.onward = -1
        self._rest = memoryview(b"")


def _widen(pipe: int) -> None:
    """Let a pipe hold as much as is read at once, where this user may have more such pipes."""
    if _PIPE is not None:
        try:
            fcntl.fcntl(pipe, _PIPE, CHUNK)
        except OSError:
            return
