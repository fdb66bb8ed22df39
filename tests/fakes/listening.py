"""A port on loopback: each connection is served by a thread of its own, until all is closed."""

import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path


class Listener:
    """A TCP server; `connected` serves one connection, which is closed afterwards."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def connected(self, client: socket.socket) -> None:
        """Serve one connection."""

    def stop(self) -> None:
        """Close the port and every connection, and wait for what served them."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._threads[0].join()
        self._socket.close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def keep(self, connection: socket.socket) -> None:
        """Let `stop` close a connection."""
        with self._lock:
            self._open.add(connection)

    def drop(self, connection: socket.socket) -> None:
        """Close a connection."""
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.keep(client)
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with suppress(OSError):
                self.connected(client)
        finally:
            self.drop(client)


class Inetd(Listener):
    """Starts a command for each connection, which is its standard input and output."""

    def __init__(self, command: list[str | Path], log: Path) -> None:
        self._command = command
        self._log = log
        super().__init__()

    def connected(self, client: socket.socket) -> None:
        """Run the command to its end."""
        with self._log.open("ab") as log:
            started = subprocess.Popen(
                self._command, stdin=client.fileno(), stdout=client.fileno(), stderr=log
            )
        started.wait()


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
