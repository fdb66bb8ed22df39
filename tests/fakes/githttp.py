"""Git's own `http-backend` behind a real HTTP server, with a password if one is set.

It takes what real servers take: bodies in chunks or compressed, `Expect: 100-continue`, and
connections that stay open.
"""

import base64
import http.server
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

USER, PASSWORD = "x-access-token", "t0p-secret"


class Request(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


class GitHttp:
    """The server of every repository below a folder."""

    def __init__(self, root: Path, *, password: str | None = None) -> None:
        self.root = root
        self.password = password
        self.requests: list[Request] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def url(self, name: str, credentials: str = "") -> str:
        """Return the URL of a repository, with credentials if any."""
        return f"http://{credentials}127.0.0.1:{self.port}/{name}"

    def lets_in(self, given: str) -> bool:
        """Tell whether an Authorization header holds what is wanted."""
        if self.password is None:
            return True
        scheme, _, pair = given.partition(" ")
        wanted = f"{USER}:{self.password}".encode()
        return scheme == "Basic" and base64.b64decode(pair) == wanted

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    owner: GitHttp

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients here are killed on purpose."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves whole
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        owner = self.server.owner
        body = self._body()
        owner.requests.append(Request(self.command, self.path, dict(self.headers.items())))
        if not owner.lets_in(self.headers.get("Authorization", "")):
            self._answer(401, {"WWW-Authenticate": 'Basic realm="flows"'}, b"")
            return
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env=self._environment(len(body)),
            capture_output=True,
            check=False,
        )
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self._answer(int(fields.pop("Status", "200").split()[0]), fields, rest)

    do_POST = do_GET  # noqa: N815  its name there

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _environment(self, length: int) -> dict[str, str]:
        path, _, query = self.path.partition("?")
        told = {
            "GIT_PROJECT_ROOT": str(self.server.owner.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",  # who is known may push
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_LENGTH": str(length),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        return os.environ | told

    def _answer(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
