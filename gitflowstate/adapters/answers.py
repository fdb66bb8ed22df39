"""What an answer over HTTP means for a message, in the words of `delivery`.

Rules: what a service says never becomes part of an error: the texts are ours, with its number at
most. An answer that may stand for a message that arrived is never taken for a refusal.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NoReturn

from gitflowstate.delivery import HoldOff, NotSent, Refused, Unknown
from gitflowstate.kinds import Time

LEAST_S = 60  # where a service wants silence and does not say how long
MOST_S = 86_400
_REASONS = {
    403: "it has no permission",
    404: "there is no such address",
    410: "the address is gone",
    413: "the message is too long",
    422: "the message is not acceptable",
}


def is_sent(status: int) -> bool:
    """Tell whether a status says that the message arrived."""
    return 200 <= status <= 299  # noqa: PLR2004  the class of success


def refuse(status: int, wait: str | None, now: Time, what: str, *, writes: bool = True) -> NoReturn:
    """Raise what any other status means; `wait` is its Retry-After, `what` names who answered.

    Raises HoldOff, Refused or Unknown, and NotSent in the place of that where nothing was to be
    written. What 401 means depends on the channel.
    """
    if status == 429 or (wait and _may_be_there(status)):  # noqa: PLR2004  too many requests
        raise HoldOff(until(wait, now), f"{what} answered {status}", guessed=not wait)
    if _may_be_there(status) and not writes:
        raise NotSent(f"{what} answered {status}", hint="run the same command again")
    if _may_be_there(status):
        raise Unknown(
            f"{what} answered {status}: the message may have arrived or not",
            hint="the next run finds out, or sends it again",
        )
    if 300 <= status <= 399:  # noqa: PLR2004  the class of redirects
        raise Refused(f"{what} redirects ({status}), which is not followed")
    reason = _REASONS.get(status, "it is not acceptable")
    raise Refused(f"{what} answered {status}: {reason}")


def _may_be_there(status: int) -> bool:
    return status == 408 or status >= 500 or status < 200  # noqa: PLR2004  timed out; the server failed; no answer


def until(wait: str | None, now: Time) -> Time:
    """Return the time that a Retry-After names: seconds or a date, within a day from now."""
    start = datetime.fromisoformat(now)
    delay = timedelta(seconds=min(max(_delay(wait, start), 1), MOST_S))
    return f"{start + delay:%Y-%m-%dT%H:%M:%SZ}"


def _delay(wait: str | None, start: datetime) -> int:
    text = (wait or "").strip()
    if text.isascii() and text.isdigit():
        return int(text[:9])
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  start-up: services send seconds

    try:
        return int((parsedate_to_datetime(text) - start).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no date, or one without a zone
        return LEAST_S
