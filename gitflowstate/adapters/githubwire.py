"""How requests to GitHub leave, and what its answers mean, in the words of `delivery`.

Rules: the token goes to one host, so no redirect is followed and no URL is taken from an answer
unless it is of that host; one request at a time, at least a second between two that write; nothing
is sent twice by the library; no answer is waited for without end, or read without end; what GitHub
says never becomes part of an error (hazards G2, G3, F11, K2).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urljoin, urlsplit

import httpx2
from ghapi import core

from gitflowstate import __version__
from gitflowstate.adapters import answers
from gitflowstate.adapters.bounded import Client
from gitflowstate.adapters.deadline import Deadline
from gitflowstate.delivery import HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.due import elapsed
from gitflowstate.kinds import Time
from gitflowstate.ports import Clock

API_URL = "https://api.github.com"
TIMEOUT_S = 15.0
DEADLINE_S = 60.0  # for a whole exchange: a page of the longest comments takes its time
SPACING_S = 1.0  # between two requests that write, which makes 60 a minute at most
OK, CREATED = 200, 201
UNAUTHORISED, FORBIDDEN, TOO_MANY = 401, 403, 429
MOVED = (301, 302, 307, 308)
MISSING = (404, 410)
_LIBRARY: Any = core  # it has no types
_LIMITED = re.compile(r"rate limit|abuse detection", re.IGNORECASE)
_REASONS = {
    403: "the token has no permission: it needs Issues, read and write (scope repo or public_repo)",
    404: "there is no such issue, or the token does not see it",
    410: "the issue is gone, or issues are turned off there",
    422: "the message is not acceptable",
}
# What GitHub's own words for 403 hold, where it is not about the token.
_CLOSED = {"locked": "the issue is locked", "archived": "the repository is archived"}
# The request never left: there was no connection, or none was even tried.
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)


class Answer(NamedTuple):
    """One answer: `body` is its JSON, None where it is none; `wrote` tells what was asked for."""

    status: int
    headers: Mapping[str, str]
    body: object
    wrote: bool = False

    @property
    def mapping(self) -> dict[str, Any]:
        """Return the body where it is an object, else an empty one."""
        return self.body if isinstance(self.body, dict) else {}


class Wire:
    """One connection to one host; `pause` and `ticks` are sleep and a clock that only rises."""

    def __init__(
        self,
        token: str,
        base_url: str = API_URL,
        *,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        pause: Callable[[float], None] = time.sleep,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._deadline = Deadline(deadline_s)
        self._pause = pause
        self._ticks = ticks
        self._wrote: float | None = None
        self._transport: Any = None

    def call(self, operation: str, **params: object) -> Answer:
        """Make one request, such as `issues.get`; return its answer, whatever that says.

        Raises Unknown where no answer came to one that writes, NotSent where nothing was written.
        """
        endpoint = self._endpoint(operation)
        writes = endpoint.verb not in ("GET", "HEAD")
        if writes:
            self._space()
        try:
            return self._answered(lambda: endpoint(**params, raw_=True), writes=writes)
        finally:
            if writes:
                self._wrote = self._ticks()

    def get(self, url: str) -> Answer:
        """Read a URL of this host, where it may be a relative one. Raises NotSent."""
        whole = self.own(url)
        if whole is None:
            raise NotSent("GitHub named another host, which is not asked", hint="run it again")
        opened = self._opened()
        return self._answered(lambda: opened.request("GET", whole, raw=True))

    def own(self, location: str) -> str | None:
        """Return a URL as it is meant beside the address of the host, None for another host."""
        try:
            url = urljoin(f"{self.base_url}/", location)
            there, here = urlsplit(url), urlsplit(self.base_url)
        except ValueError:  # what is no URL at all
            return None
        return url if (there.scheme, there.netloc) == (here.scheme, here.netloc) else None

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _space(self) -> None:
        if self._wrote is not None:
            left = self._wrote + SPACING_S - self._ticks()
            if left > 0:
                self._pause(left)

    def _opened(self) -> Any:  # noqa: ANN401  the library has no types
        if self._transport is None:
            made = _LIBRARY.GhSyncTransport(debug=_say_nothing, base_headers=self._headers())
            made.retries = 0
            made.client = Client(
                self._deadline,
                timeout=self._timeout_s,
                follow_redirects=False,
                trust_env=self.base_url.startswith("https:"),  # a proxy would read plain text
            )
            self._transport = made
        return self._transport

    def _headers(self) -> dict[str, str]:
        return {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "User-Agent": f"gitflowstate/{__version__}",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def _endpoint(self, operation: str) -> Any:  # noqa: ANN401  the same
        return _LIBRARY.SyncOpFunc(_operation(operation), self._opened(), self.base_url)

    def _answered(self, request: Callable[[], httpx2.Response], *, writes: bool = False) -> Answer:
        response: httpx2.Response | None = None
        cause: BaseException | None = None
        with self._deadline as deadline:
            try:
                response = request()
            except (core.APIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
                response = getattr(error, "response", None)
                cause = error.__cause__ if isinstance(error, core.APIError) else error
        if deadline.over:  # what was read then may be a part of an answer
            self.close()
        elif response is not None:
            return _answer(response, wrote=writes)
        if isinstance(cause, _UNSENT):
            raise NotSent("GitHub cannot be reached", hint="what is owed is sent by a later run")
        if not writes:
            raise NotSent("no answer came from GitHub", hint="run the same command again")
        raise Unknown(
            "no answer came from GitHub: the message may have arrived or not",
            hint="the next run looks for it",
        )


@cache
def _operation(name: str) -> Any:  # noqa: ANN401  the same
    """Return what the library knows of an operation.

    `GhApi` would make a thousand of them, and look for tokens in the environment by itself.
    """
    return next(each for each in _LIBRARY.pspec.ops if f"{each.group}.{each.name}" == name)


def _say_nothing(*_: object) -> None:
    """Print nothing, whatever GHAPI_DEBUG says: standard output is for one document."""


def _answer(response: httpx2.Response, *, wrote: bool) -> Answer:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    return Answer(response.status_code, response.headers, body, wrote)


def refuse(answer: Answer, clock: Clock, variable: str) -> NoReturn:
    """Raise what an answer other than the one expected means; `variable` held the token.

    Raises Unauthorised, HoldOff, Refused or Unknown, by the table of the hazards' GitHub part, and
    NotSent in the place of Unknown where nothing was to be written.
    """
    status = answer.status
    if status == UNAUTHORISED:
        raise Unauthorised(variable)
    hold_off(answer, clock)
    if 400 <= status <= 499 and status not in (408, 425):  # noqa: PLR2004  the class of refusals
        raise Refused(reason_of(answer))
    if not answer.wrote:
        raise NotSent(
            f"GitHub answered {status}, and not what was asked for",
            hint="run the same command again",
        )
    raise Unknown(
        f"GitHub answered {status}: the message may have arrived or not",
        hint="the next run looks for it",
    )


def reason_of(answer: Answer) -> str:
    """Return why a request was refused, in words of ours, with GitHub's own number for it."""
    said = answer.mapping.get("message")
    reason = _REASONS.get(answer.status, "it is not acceptable")
    if answer.status == FORBIDDEN and isinstance(said, str):
        named = (why for word, why in _CLOSED.items() if word in said.lower())
        reason = next(named, reason)
    number = answer.headers.get("x-github-request-id") or ""
    request = f", request {number}" if re.fullmatch(r"[0-9A-Za-z:-]{1,80}", number) else ""
    return f"{reason} (GitHub answered {answer.status}{request})"


def hold_off(answer: Answer, clock: Clock) -> None:
    """Raise HoldOff where an answer asks for silence: for how long it says so, else a minute.

    Times of GitHub's are read beside its own clock, since ours may be wrong.
    """
    if answer.status not in (FORBIDDEN, TOO_MANY):
        return
    headers, now = answer.headers, clock.now()
    wait, spent = headers.get("retry-after"), headers.get("x-ratelimit-remaining") == "0"
    said = answer.mapping.get("message")
    named = isinstance(said, str) and _LIMITED.search(said) is not None
    if not (wait or spent or named or answer.status == TOO_MANY):
        return
    there = _date(headers.get("date")) or now
    seconds = answers.LEAST_S
    if wait:
        seconds = elapsed(there, answers.until(wait, there))
    elif spent:
        seconds = _until_reset(headers.get("x-ratelimit-reset"), there)
    reason = f"GitHub answered {answer.status}, its limit"
    raise HoldOff(answers.until(str(seconds), now), reason, guessed=not (wait or spent))


def _until_reset(reset: str | None, now: Time) -> int:
    if reset is None or not (reset.isascii() and reset.isdigit()):
        return answers.LEAST_S
    left = int(reset[:12]) - int(datetime.fromisoformat(now).timestamp())
    return left + 1 if left > 0 else answers.LEAST_S


def _date(text: str | None) -> Time | None:
    try:
        moment = parsedate_to_datetime(text or "").astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%SZ}"
