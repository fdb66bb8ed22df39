"""How two histories of one ref stand to each other, and what becomes of operations queued here.

Pure. Rules: a commit that the remote has is never applied again, and neither is an operation that
it has under another commit; what is asked of the remote again is asked after a pause that grows,
and differs between those who wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_FIRST_S, _LONGEST_S = 0.02, 2.0


class Standing(NamedTuple):
    """What only one of two histories has, the oldest first, and the commit where they meet."""

    queued: tuple[str, ...]
    newer: tuple[str, ...]
    met: str | None


def meeting(ours: Iterable[str], theirs: Iterable[str]) -> Standing:
    """Compare two lines of ancestors, each the newest first; neither is read further than needed.

    `met` is None where they have nothing in common.
    """
    mine: dict[str, None] = {}
    others: dict[str, None] = {}
    met = _read(ours, theirs, mine, others)
    return Standing(_before(mine, met), _before(others, met), met)


def _read(
    ours: Iterable[str], theirs: Iterable[str], mine: dict[str, None], others: dict[str, None]
) -> str | None:
    """Read both lines side by side until one has what the other had; keep what was read."""
    for one, other in zip_longest(ours, theirs):
        if one is not None:
            mine[one] = None
        if other is not None:
            others[other] = None
        for met in (one, other):
            if met in mine and met in others:
                return met
    return None


def _before(line: Iterable[str], met: str | None) -> tuple[str, ...]:
    """Return what a line has before the meeting, the oldest first."""
    return tuple(takewhile(lambda commit: commit != met, line))[::-1]


def unpublished(
    queued: Sequence[tuple[T, str | None]], published: Iterable[str | None]
) -> Iterator[T]:
    """Yield what of a queue is still to be applied: an item whose operation is not published yet.

    An operation is known by its text, which has its time and actor; what has none was made by hand.
    Two that are alike are two: each published one stands for one of the queue.
    """
    there = Counter(text for text in published if text is not None)
    for item, text in queued:
        if text is not None and there[text] > 0:
            there[text] -= 1
        else:
            yield item


def pause(attempt: int, chance: float) -> float:
    """Return how long to wait before the next attempt, in seconds; `chance` is from 0 to 1."""
    longest = min(_LONGEST_S, _FIRST_S * 2.0 ** min(attempt, 20))
    return longest * (0.5 + chance / 2)


def stamp(at: str) -> str:
    """Return a time as part of the name of a ref."""
    return "".join(letter for letter in at if letter in "0123456789TZ")
