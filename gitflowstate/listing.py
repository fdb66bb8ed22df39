"""Owns lists for people, one line each: flows, and the history of a flow.

Rules: pure. A line is cut to the width it is given, but never inside an id, a revision or a state,
which people copy and programs read; the caller pages, and says what is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gitflowstate import prose
from gitflowstate.due import STALE_AFTER, age, flow_state
from gitflowstate.kinds import Time
from gitflowstate.model import Flow
from gitflowstate.phrases import inline, stamp

if TYPE_CHECKING:
    from datetime import tzinfo

WIDTH = 100  # columns, where there is no terminal to ask
_OWNER = 16  # columns; a name may have 128
_WORDS = 20  # columns that a goal gets before owner and age do
_GAP = "  "


class LogEntry(NamedTuple):
    """One commit of a flow's history, as a list shows it."""

    commit: str  # the short id
    time: Time
    actor: str  # of an unmanaged commit: its author
    revision: int | None
    op: str  # the op's tag, "" for an unmanaged commit
    headline: str
    unmanaged: bool = False


def list_lines(
    flows: Sequence[Flow],
    now: Time,
    width: int = WIDTH,
    *,
    left: int = 0,
    command: str = "gfs list --page 2",
    unmanaged: Collection[str] = (),
    stale_after: int = STALE_AFTER,
    paint: Callable[[str], str] = str,
) -> str:
    """Return one line for each flow: state, id, revision, owner, age, goal and progress.

    `left` flows that are on later pages are announced with the `command` that shows them. What
    `unmanaged` names is marked. `paint` gets each state word and may add no column.
    """
    rows = [_row(flow, now, stale_after, flow.id in unmanaged) for flow in flows]
    lines = _aligned(rows, width, paint)
    if left > 0:
        lines.append(f"{left:,} more: {inline(command)}")
    return "\n".join(lines)


def _row(flow: Flow, now: Time, stale_after: int, by_hand: bool) -> tuple[str, ...]:  # noqa: FBT001  private
    words = prose.fold(flow.goal)
    progress = prose.fold(flow.progress or "")
    return (
        flow_state(flow, now, stale_after),
        inline(flow.id),
        f"r{flow.revision}{' unmanaged' if by_hand else ''}",
        inline(flow.owner),
        age(flow.updated_at, now),
        f"{words} | {progress}" if progress else words,
    )


def _aligned(rows: list[tuple[str, ...]], width: int, paint: Callable[[str], str]) -> list[str]:
    """Return the rows as lines, without owner, then age, where too little room is left."""
    if not rows:
        return []
    widths = [max(_columns(row[column]) for row in rows) for column in range(5)]
    widths[3] = min(widths[3], _OWNER)
    columns = [1, 2, 3, 4]
    for spare in (3, 4):
        if widths[0] + sum(len(_GAP) + widths[column] for column in columns) + _WORDS > width:
            columns.remove(spare)
    return [_line(row, widths, columns, width, paint) for row in rows]


def _line(
    row: tuple[str, ...],
    widths: list[int],
    columns: list[int],
    width: int,
    paint: Callable[[str], str],
) -> str:
    fixed = "".join(_GAP + _pad(row[column], widths[column]) for column in columns)
    gap = " " * (widths[0] - len(row[0]))
    words = prose.cut(row[5], max(0, width - widths[0] - len(_GAP) - _columns(fixed)))
    return f"{paint(row[0])}{gap}{fixed}{_GAP}{words}".rstrip()


def _pad(text: str, width: int) -> str:
    """Return a text in exactly `width` columns, cut or filled."""
    shown = prose.cut(text, width)
    return shown + " " * (width - _columns(shown))


def _columns(text: str) -> int:
    """Return how many columns a text takes: the least that it is not cut to."""
    if text.isascii():
        return len(text)
    widths = range(2 * len(text) + 1)  # no character takes more than two
    return bisect_left(widths, x=True, key=lambda width: prose.cut(text, width) == text)


def log_lines(
    entries: Iterable[LogEntry], width: int | None = None, *, zone: tzinfo | None = None
) -> str:
    """Return one line for each entry: commit, time with offset, revision, what, who, headline.

    Only the headline is cut, to `width` columns where that is given.
    """
    return "\n".join(_log_line(entry, width, zone) for entry in entries)


def _log_line(entry: LogEntry, width: int | None, zone: tzinfo | None) -> str:
    start = f"{inline(entry.commit)} {stamp(entry.time, zone)} {entry_words(entry)}"
    headline = prose.fold(entry.headline)
    if width is not None:
        headline = prose.cut(headline, max(0, width - _columns(start) - 2))
    return f"{start}: {headline}" if headline else start


def entry_words(entry: LogEntry) -> str:
    """Return what an entry was, such as `r4 update by architecture-session`."""
    revision = "" if entry.revision is None else f"r{entry.revision} "
    what = "unmanaged" if entry.unmanaged else inline(entry.op)
    return f"{revision}{what} by {inline(entry.actor)}"
