"""How requests to Slack leave, and which errors prove that none did.

Rules: the token goes to one host, so no redirect is followed; nothing is sent twice by the library,
whose own retries would; of an answer so much is read and no more, for so long and no longer
(hazards G3, K2).
"""

from __future__ import annotations

import errno
import json
import logging
import ssl
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from socket import gaierror
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

from slack_sdk import WebClient

from gitflowstate.adapters.deadline import Deadline

BASE_URL = WebClient.BASE_URL
_MOST_BYTES = 8 * 2**20  # of an answer


class SlackClient(WebClient):
    """Slack's client, but it sends each request once, follows no redirect, and says nothing."""

    def __init__(self, token: str, base_url: str, timeout_s: int, deadline_s: float) -> None:
        super().__init__(token, base_url, timeout_s, logger=_silent(), retry_handlers=[])
        self._deadline = Deadline(deadline_s)

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        del url  # the request has it
        proxies = {"http": self.proxy, "https": self.proxy} if self.proxy else {}
        plain, tls = _Plain(self._deadline), _TLS(self._deadline, self.ssl)
        opener = build_opener(ProxyHandler(proxies), plain, tls, _Straight())
        with self._deadline:
            try:
                answer = opener.open(req, timeout=self.timeout)
            except HTTPError as error:
                answer = error
            with answer:
                body = answer.read(_MOST_BYTES + 1)
        if self._deadline.over:  # what was read may be a part of an answer
            raise TimeoutError
        return {
            "status": answer.status,
            "headers": answer.headers,
            "body": "",
            "parsed_body": _parsed(body, answer.status),
        }


class _Connection(HTTPConnection):
    """A connection that ends with a deadline, which is given once it was made."""

    deadline: Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.take(self.sock)


class _Secure(HTTPSConnection, _Connection):  # which asks for TLS behind `_Connection.connect`
    """The same over TLS, whose greeting the deadline is for as well."""


class _Plain(HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> Any:  # noqa: ANN401  an answer
        return self.do_open(partial(_ending, _Connection, self._deadline), req)


class _TLS(HTTPSHandler):
    def __init__(self, deadline: Deadline, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._deadline = deadline
        self._tls = tls

    def https_open(self, req: Request) -> Any:  # noqa: ANN401  the same
        return self.do_open(partial(_ending, _Secure, self._deadline, context=self._tls), req)


def _ending(
    kind: type[_Connection],
    deadline: Deadline,
    host: str,
    **given: Any,  # noqa: ANN401  its own
) -> _Connection:
    made = kind(host, **given)
    made.deadline = deadline
    return made


class _Straight(HTTPRedirectHandler):
    """Follows no redirect: the token would go with it."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Leave a redirect what it is, an answer."""


def _parsed(body: bytes, status: int) -> dict[str, Any]:
    """Return the JSON of an answer. Raises ValueError where a success holds none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and len(body) <= _MOST_BYTES:
        return found
    if status == 200:  # noqa: PLR2004  it may be done
        raise ValueError("no JSON")
    return {}


def is_unreached(error: Exception) -> bool:
    """Tell whether an error proves that no request has left."""
    reason = error.reason if isinstance(error, URLError) else None
    nowhere = (errno.EHOSTUNREACH, errno.ENETUNREACH)
    return isinstance(reason, (ConnectionRefusedError, gaierror, ssl.SSLCertVerificationError)) or (
        isinstance(reason, OSError) and reason.errno in nowhere
    )


def _silent() -> logging.Logger:
    """Return a logger that says nothing: its messages would hold what Slack says."""
    logger = logging.getLogger("gitflowstate.slack")
    logger.setLevel(logging.CRITICAL)  # it is asked for its level before it is spoken to
    logger.disabled = True
    return logger
