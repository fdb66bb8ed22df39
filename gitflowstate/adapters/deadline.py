"""An end in time for a whole exchange with a server, however slowly that goes on talking (K2).

Rule: the limits of the libraries are for each byte anew, so at the deadline the connection is shut
down under them, and what they read then is no answer.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any, Self


class Deadline:
    """Bounds each exchange that is made within it; `over` tells whether the last one was cut.

    One object serves one connection after another, and one exchange at a time.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: socket.socket | None = None  # the library's own
        self._held: socket.socket | None = None  # a second descriptor of it
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self.over = False
        self._timer = threading.Timer(self._seconds, self._cut)
        self._timer.daemon = True
        if self._kept is not None:
            self._hold(self._kept)
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def take(self, connection: socket.socket) -> None:
        """Let a connection be the one that is shut down."""
        self._kept = connection
        self._hold(connection)
        if self.over:
            self._cut()

    def trace(self, event: str, facts: dict[str, Any]) -> None:
        """Take each connection that httpx tells of as soon as there is one."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self.take(facts["return_value"].get_extra_info("socket"))

    def _hold(self, connection: socket.socket) -> None:
        self._release()
        if connection.fileno() < 0:
            return
        with self._lock:
            # A descriptor of our own: the library may close its one meanwhile, or wrap it in TLS.
            self._held = socket.fromfd(connection.fileno(), connection.family, connection.type)

    def _release(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held.close()
            self._held = None

    def _cut(self) -> None:
        with self._lock:
            self.over = True
            if self._held is not None:
                with suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)
