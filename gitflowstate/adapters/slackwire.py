"""How requests to Slack leave, and which errors prove that none did.

Rules: the token goes to one host, so no redirect is followed; nothing is sent twice by the library,
whose own retries would; of an answer so much is read and no more (hazards G3, K2).
"""

from __future__ import annotations

import errno
import json
import logging
import ssl
from socket import gaierror
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from slack_sdk import WebClient

BASE_URL = WebClient.BASE_URL
_MOST_BYTES = 8 * 2**20  # of an answer


class SlackClient(WebClient):
    """Slack's client, but it sends each request once, follows no redirect, and says nothing."""

    def __init__(self, token: str, base_url: str, timeout_s: int) -> None:
        super().__init__(token, base_url, timeout_s, logger=_silent(), retry_handlers=[])

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        del url  # the request has it
        proxies = {"http": self.proxy, "https": self.proxy} if self.proxy else {}
        tls = HTTPSHandler(context=self.ssl)
        opener = build_opener(ProxyHandler(proxies), tls, _Straight())
        try:
            answer = opener.open(req, timeout=self.timeout)
        except HTTPError as error:
            answer = error
        with answer:
            body = answer.read(_MOST_BYTES + 1)
        return {
            "status": answer.status,
            "headers": answer.headers,
            "body": "",
            "parsed_body": _parsed(body, answer.status),
        }


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
