"""A real HTTP server on loopback that can fail in the ways servers fail, one script step a request.

A step is None (serve it), a number (answer that status, without effect), or one of: `dropped` (read
it, do nothing, close), `lost` (do it, close without an answer), `silent` (do it, never answer),
`dripping` (do it, answer a byte at a time without end), `truncated` (do it, answer half of it),
`garbled` (do it, answer what is no HTTP), `endless` (do it, say so, and go on talking).
"""

import http.server
import threading
from contextlib import suppress
from typing import Any, NamedTuple

# What no error, log or file of ours may ever hold.
REMOTE_WORDS = "remote-words-4711"


class Received(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """One answer as it leaves."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Loopback:
    """The server; `serve` decides what a request does and what is answered."""

    def __init__(self, tls: Any = None) -> None:
        self.requests: list[Received] = []
        self.script: list[Any] = []
        self.headers: tuple[tuple[str, str], ...] = ()  # of an answer that is only a status
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def serve(self, request: Received) -> Answer:
        """Do what a request asks; called by one request at a time."""
        del request
        return Answer()

    def stop(self) -> None:
        """Close the port; what still hangs is let go."""
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def taken(self, request: Received) -> tuple[Any, Answer]:
        """Record a request; return the step it meets and the answer."""
        with self._lock:
            self.requests.append(request)
            step = self.script.pop(0) if self.script else None
            if isinstance(step, int):
                return None, Answer(step, REMOTE_WORDS.encode(), self.headers)
            return step, Answer() if step == "dropped" else self.serve(request)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    owner: Loopback

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients here hang up on purpose."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        received = Received(self.command, self.path, dict(self.headers.items()), body)
        step, answer = self.server.owner.taken(received)
        if step is None:
            self._answer(answer)
            return
        self.close_connection = True
        with suppress(OSError):
            self._fail(step)

    do_GET = do_POST  # noqa: N815  its name there; what a redirect would make of it
    do_PATCH = do_POST  # noqa: N815  its name there

    def _answer(self, answer: Answer) -> None:
        self.send_response_only(answer.status)  # no Date but what the answer has
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _fail(self, step: str) -> None:
        if step == "silent":
            self.server.owner.released.wait(60)
        elif step == "truncated":
            self.wfile.write(b'HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{"id": 90')
        elif step == "garbled":
            self.wfile.write(b"\x00\xff no HTTP at all\r\n\r\n")
        elif step in ("dripping", "endless"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            if step == "endless":
                self.wfile.write(b"x\r\nContent-Length: 1000000000\r\n\r\n")
            while not self.server.owner.released.wait(0.02):
                self.wfile.write(b"x")

    def log_message(self, *_: object) -> None:
        pass
