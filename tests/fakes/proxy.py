"""A TCP proxy that breaks connections in the ways networks do, one mode at a time.

`pass` forwards; `cut` lets a push through and closes before its answer; `hang` answers nothing, for
ever; `reset` takes the request and resets; `drop` closes at once; `late` cuts in the middle of the
request. `after` counts the connections that are forwarded first, whatever the mode.
"""

import socket
import struct
import threading
from contextlib import suppress

from fakes.listening import Listener

MODES = ("cut", "hang", "reset", "drop", "late")
_PACK = b"PACK"  # what a push begins with, over plain HTTP and over git:// alike
_REPORT, _END = b"unpack ", b"0000"  # how its answer begins and ends


class Proxy(Listener):
    """Stands before a port of loopback."""

    def __init__(self, port: int, mode: str = "pass", *, after: int = 0) -> None:
        self.target = port
        self.mode = mode
        self.after = after
        self.broken = 0  # connections that the mode broke
        self._released = threading.Event()
        super().__init__()

    def stop(self) -> None:
        """Let go of what hangs, and close."""
        self._released.set()
        super().stop()

    def connected(self, client: socket.socket) -> None:
        """Forward one connection, or break it."""
        mode, self.after = ("pass", self.after - 1) if self.after > 0 else (self.mode, 0)
        match mode:
            case "drop":
                self.broken += 1
            case "reset":
                client.recv(1)
                linger = struct.pack("ii", 1, 0)  # close sends RST
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.broken += 1
            case "hang":
                self.broken += 1
                self._released.wait(60)
            case _:
                self._forward(client, mode)

    def _forward(self, client: socket.socket, mode: str) -> None:
        server = socket.create_connection(("127.0.0.1", self.target))
        self.keep(server)
        pushed = threading.Event()
        back = threading.Thread(target=self._answer, args=(server, client, mode, pushed))
        back.start()
        try:
            self._request(client, server, mode, pushed)
            back.join()
        finally:
            self.drop(server)

    def _request(
        self, client: socket.socket, server: socket.socket, mode: str, pushed: threading.Event
    ) -> None:
        last = b""
        while data := _received(client):
            if mode != "pass" and _PACK in last + data:
                if mode == "late":
                    self.broken += 1
                    _end(server, socket.SHUT_RDWR)
                    return
                pushed.set()
            last = data[-len(_PACK) :]
            server.sendall(data)
        _end(server, socket.SHUT_WR)

    def _answer(
        self, server: socket.socket, client: socket.socket, mode: str, pushed: threading.Event
    ) -> None:
        swallowed = b""
        while data := _received(server):
            if mode == "cut" and pushed.is_set():
                swallowed += data
                if _REPORT in swallowed and swallowed.endswith(_END):
                    self.broken += 1
                    break
            else:
                with suppress(OSError):  # it was killed
                    client.sendall(data)
        _end(client, socket.SHUT_RDWR)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def _end(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        connection.close()
