"""Owns the board: what is running, what is waiting and what is finished, for people (R-TF-51).

Rules: pure. A flow that nobody began yet stands with those that run, under its own state. A line
is cut to the width, but never inside an id, a revision or a state, nor a command to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gitflowstate import prose
from gitflowstate.due import STALE_AFTER, elapsed, span
from gitflowstate.kinds import Time
from gitflowstate.listing import WIDTH, list_lines
from gitflowstate.model import Flow, instant, live
from gitflowstate.phrases import inline
from gitflowstate.tasktables import is_for_people, needed_for

SECTIONS = ("running", "waiting", "finished")
LIMIT, FINISHED = 20, 10  # flows of a section, and of the finished ones

_NEEDED = {"human": "needs a person", "agent": "needs an agent", "external": "waits"}
_NAMED = 3  # tasks that are named before the rest are counted
_MARGIN = " " * 8


class Section(NamedTuple):
    """The flows of one section that are shown, and how many there are in all."""

    flows: tuple[Flow, ...]
    total: int


def board(
    flows: Iterable[Flow], limit: int = LIMIT, finished: int = FINISHED
) -> dict[str, Section]:
    """Return the sections by their names, each with so many of its flows at most.

    The last changed and the last ended come first; of those that wait, the ones that need a person
    and have waited longest.
    """
    found: dict[str, list[Flow]] = {name: [] for name in SECTIONS}
    for flow in flows:
        found[_section(flow)].append(flow)
    for name in ("running", "finished"):
        found[name].sort(key=lambda flow: flow.id)
        found[name].sort(key=lambda flow: instant(flow.updated_at), reverse=True)
    found["waiting"].sort(key=lambda flow: (not is_for_people(flow.waiting), _since(flow), flow.id))
    most = {"running": limit, "waiting": limit, "finished": finished}
    return {name: Section(tuple(all_[: most[name]]), len(all_)) for name, all_ in found.items()}


def _section(flow: Flow) -> str:
    if not live(flow):
        return "finished"
    return "waiting" if flow.status == "waiting" else "running"


def _since(flow: Flow) -> str:
    return instant((flow.waiting and flow.waiting.since) or flow.updated_at)


def board_text(
    sections: Mapping[str, Section],
    now: Time,
    width: int = WIDTH,
    *,
    more: Mapping[str, str],
    unmanaged: Collection[str] = (),
    stale_after: int = STALE_AFTER,
    paint: Callable[[str], str] = str,
) -> str:
    """Return the board: for each flow its line, then who is needed and what comes next.

    `more` has the command that shows the rest of a section.
    """
    lines: list[str] = []
    for name, (flows, total) in sections.items():
        lines += [*([""] if lines else []), f"{name.capitalize()} ({total:,})"]
        listed = list_lines(
            flows, now, width - 2, unmanaged=unmanaged, stale_after=stale_after, paint=paint
        )
        for flow, line in zip(flows, listed.split("\n") if flows else (), strict=True):
            lines.append(f"  {line}")
            lines += [prose.cut(_MARGIN + detail, width) for detail in _details(flow, now)]
        if total > len(flows):
            lines.append(f"  {total - len(flows):,} more: {inline(more[name])}")
    return "\n".join(lines)


def _details(flow: Flow, now: Time) -> Iterator[str]:
    if flow.waiting:
        seconds = elapsed(flow.waiting.since, now) if flow.waiting.since else -1
        since = f", {span(seconds)}" if seconds >= 0 else ""
        yield f"{_NEEDED[flow.waiting.on]}{since}: {prose.fold(flow.waiting.condition)}"
        yield f"because: {prose.fold(flow.waiting.reason)}"
    asked = needed_for(flow)
    if asked:
        rest = f" and {len(asked) - _NAMED:,} more" if len(asked) > _NAMED else ""
        yield f"needs a person for {', '.join(map(inline, asked[:_NAMED]))}{rest}"
    if flow.failure:
        yield f"reason: {prose.fold(flow.failure.reason)}"
    if flow.result_ref:
        yield f"result: {inline(flow.result_ref)}"
    if flow.next_action and live(flow):
        yield f"next: {prose.fold(flow.next_action)}"
