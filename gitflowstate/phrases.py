"""Owns how one text, one time and one task's situation are put into words for a terminal.

Rules: what a user wrote leaves here without a control character, and where one line is promised
it is one line, so that no text can pose as another field. Markup stays as it was typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gitflowstate import prose
from gitflowstate.due import age
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Task, Waiting

if TYPE_CHECKING:
    from datetime import tzinfo

MARKS = {
    "ready": "[ ]",
    "blocked": "[-]",
    "scheduled": "[@]",
    "claimed": "[>]",
    "running": "[>]",
    "waiting": "[?]",
    "stale": "[~]",
    "done": "[x]",
    "failed": "[!]",
}
MOST_SHOWN = 12_000  # bytes of tasks in one answer for people; --json has them all
# Which tasks are kept where there is no room for all: those that want someone, then open ones.
_URGENCY = ("failed", "stale", "waiting", "claimed", "running", "ready", "scheduled", "blocked")
_NAMED = 5  # dependencies that are named before the rest are counted


def inline(text: str) -> str:
    """Return a name or reference as one line, with everything unseen in it made visible."""
    return prose.terminal(text, lines=False)


def clip(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters, ending in `...` where it was cut."""
    line = prose.fold(text)
    if len(line) <= most:
        return line
    shown = prose.cut(line, most)
    if len(shown) > most:  # marks take no column, yet each is a character
        shown = prose.fold(line[: max(0, most - 3)]) + "..."
    return shown[:most]


def stamp(time: Time, zone: tzinfo | None = None) -> str:
    """Return a time to the second with its UTC offset, in `zone` or else in UTC (hazard L20)."""
    from datetime import datetime  # noqa: PLC0415  start-up: writing verbs show no times

    try:
        moment = datetime.fromisoformat(time)
        moment = moment if zone is None else moment.astimezone(zone)
    except (ValueError, OverflowError):  # a year that the calendar or the zone cannot reach
        return inline(time)
    return moment.isoformat(sep=" ", timespec="seconds")


def when(time: Time, now: Time, zone: tzinfo | None = None) -> str:
    """Return a time with its UTC offset, and how long ago it was."""
    return f"{stamp(time, zone)} ({age(time, now)})"


def awaited(waiting: Waiting) -> str:
    """Return on one line why something waits, for what, and who is needed."""
    reason, condition = prose.fold(waiting.reason), prose.fold(waiting.condition)
    return f"{reason}; until {condition}; on {inline(waiting.on)}"


def situation(
    flow: Flow, task: Task, states: Mapping[str, str], now: Time, zone: tzinfo | None = None
) -> str:
    """Return on one line what explains a task's state, or "" when the state says it all.

    `states` is what `due.task_states` gives for the flow.
    """
    state = states[task.id]
    if state == "waiting" and task.waiting:
        return awaited(task.waiting)
    if state == "blocked":
        return _blocked(flow, task, states)
    if state == "scheduled" and task.not_before:
        return f"not before {when(task.not_before, now, zone)}"
    if state == "failed":
        return ": ".join(filter(None, (task.outcome, prose.fold(task.reason or ""))))
    if task.claim:
        verb = "lease ended" if state == "stale" else "until"
        held = f"by {inline(task.claim.worker)}, {verb} {when(task.claim.until, now, zone)}"
        return held if task.process is None else f"served by the process {inline(task.process)}"
    return "set to running by hand" if state == "stale" else ""


def within(texts: Sequence[str], states: Sequence[str], most: int = MOST_SHOWN) -> list[int]:
    """Return the places of the texts that fit into `most` bytes: all in order, or urgent first.

    `states` are those of the tasks that the texts are about. One is always among them.
    """
    sizes = [len(text.encode("utf-8", "replace")) + 1 for text in texts]
    places = list(range(len(texts)))
    if sum(sizes) <= most:
        return places
    rank = {state: number for number, state in enumerate(_URGENCY)}
    places.sort(key=lambda place: rank.get(states[place], len(rank)))
    for count, place in enumerate(places):
        most -= sizes[place]
        if most < 0 and count:
            return places[:count]
    return places


def more(count: int, flow: Flow) -> str:
    """Return the line that says how many tasks are not shown, and where they are."""
    return f"{count:,} more: gfs show {inline(flow.id)} --json"


def _blocked(flow: Flow, task: Task, states: Mapping[str, str]) -> str:
    missing = [inline(dep) for dep in task.deps if states.get(dep) != "done"]
    if not missing:
        return f"served by {task.process}" if task.process else f"the flow is {flow.status}"
    rest = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"needs {', '.join(missing[:_NAMED])}{rest}"
