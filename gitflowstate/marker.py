"""Owns the marker: the first line of every message, by which one of ours is found again.

Rules: only the first line counts, and it is read strictly, so no text of a user's can pose as one
(hazards F3, F4). What looks like the beginning of a comment further down is broken.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from gitflowstate.kinds import ID_PATTERN, KINDS

MARKED_KINDS = ("status", "waiting", "final")


class Marker(NamedTuple):
    """What a message says of itself: its flow, its kind, and the revision it reports."""

    flow: str
    kind: str
    revision: int


def line(flow: str, kind: str, revision: int) -> str:
    """Return the marker of a message, without a newline."""
    return f"<!-- gfs:1 flow={flow} kind={kind} rev={revision} -->"


def read(text: str) -> Marker | None:
    """Return what the first line of a text marks it as, or None if that is no marker."""
    found = _pattern().fullmatch(text.split("\n", 1)[0].removesuffix("\r"))
    if found is None or re.match(ID_PATTERN, found["flow"]) is None:
        return None
    revision = int(found["revision"])
    return Marker(found["flow"], found["kind"], revision) if _is_revision(revision) else None


def parts(text: str) -> tuple[str, str]:
    """Return the line of the marker, "" where there is none, and the rest, in which none begins."""
    first, _, rest = text.partition("\n")
    if read(text) is None:
        first, rest = "", text
    return first, rest.replace("<!--", "&lt;!--")


def body(text: str) -> str:
    """Return a text without its marker, and with nothing in it that could begin another."""
    return parts(text)[1].lstrip("\n")


def _is_revision(number: int) -> bool:
    return KINDS["Revision"].accepts(number)


@cache
def _pattern() -> re.Pattern[str]:
    kinds = "|".join(MARKED_KINDS)
    return re.compile(
        rf"<!-- gfs:1 flow=(?P<flow>[a-z0-9._-]{{1,64}}) kind=(?P<kind>{kinds})"
        r" rev=(?P<revision>[1-9][0-9]{0,15}) -->"
    )
