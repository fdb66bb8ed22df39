"""Owns what a brief may say of one flow: its lines, and how much each of them matters.

Rules: pure. Every item is one line with its own label, so that any other can be left out. The text
of a result never comes in; its reference does, and whole, since half a reference leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gitflowstate import prose
from gitflowstate.due import age, elapsed, flow_state, span, task_states
from gitflowstate.kinds import TERMINAL, Time
from gitflowstate.listing import LogEntry, entry_words
from gitflowstate.model import Flow, Note, Task, Waiting
from gitflowstate.phrases import clip, inline, situation

# What matters most comes first. OPEN are as many open tasks as get along with a BLOCK, MORE are
# the others; NEVER is only counted.
HEAD, CORE, OPEN, BLOCK, MORE, ENDED, CHANGE, NOTE, NEVER = range(9)
KINDS = ("open task", "failed task", "done task", "change", "note", "field")

_NOTES = 5  # the latest; older ones are history
_OPEN_FIRST = ("waiting", "stale", "claimed", "running", "ready", "scheduled", "blocked")
_OPEN_PERCENT = 45  # of the share of a flow, for its open tasks before anything blocks them
_WORTH = 12  # characters of a goal below which only the id is shown


class Item(NamedTuple):
    """One line; the lower its level and then its rank, the longer it stays."""

    level: int
    rank: int
    flow: int
    kind: str
    line: str
    shortened: bool = False


class Context(NamedTuple):
    """What is the same for all flows of a brief; `share` is None while nothing needs shortening."""

    now: Time
    stale_after: int
    changes: Mapping[str, Sequence[LogEntry]]
    unmanaged: frozenset[str]
    share: int | None

    def part(self, parts: int) -> int | None:
        """Return how many characters a text gets that has one of so many parts of the share."""
        return None if self.share is None else max(20, self.share // parts)


def items(number: int, flow: Flow, context: Context) -> Iterator[Item]:
    """Yield the items of the flow with that number, in the order in which they are read."""
    states = task_states(flow, context.now)
    yield Item(HEAD, 0, number, "flow", ("\n" if number else "") + _head(flow, context))
    for level, label, text, parts in _fields(flow, context):
        yield _with(Item(level, 0, number, "field", label), text, context.part(parts))
    if flow.result_ref:
        yield Item(CORE, 1, number, "field", f"result: {inline(flow.result_ref)}")
    yield from _open(number, flow, states, context)
    yield from _ended(number, flow, states, context)
    yield from _changes(number, context.changes.get(flow.id, ()), context)
    yield from _notes(number, flow.notes, context)


def _head(flow: Flow, context: Context) -> str:
    state = flow_state(flow, context.now, context.stale_after)
    flag = " (stale)" if state == "stale" else ""
    return f"{inline(flow.id)} r{flow.revision} {inline(flow.status)}{flag}"


def _fields(flow: Flow, context: Context) -> Iterator[tuple[int, str, str, int]]:
    """Yield level, label and text of each field, and by how much its room is divided."""
    yield CORE, "goal: ", flow.goal, 8
    if flow.next_action:
        yield CORE, "next: ", flow.next_action, 8
    if flow.failure:
        yield CORE, "failure: ", flow.failure.reason, 8
        yield BLOCK, "recoverable: ", flow.failure.recoverable, 8
    if flow.id in context.unmanaged:
        yield BLOCK, "unmanaged: ", "last changed by hand, not by an operation of gfs", 1
    if flow.waiting:
        yield BLOCK, _waiting_label(flow.waiting, context.now), flow.waiting.reason, 8
        yield BLOCK, "until: ", flow.waiting.condition, 8
    if flow.progress and flow.progress.strip():
        yield BLOCK, "progress: ", flow.progress, 6
    updated = age(flow.updated_at, context.now)
    yield BLOCK, "owner: ", f"{flow.owner}, updated {updated}", 4


def _waiting_label(waiting: Waiting, now: Time) -> str:
    since = f" since {span(max(0, elapsed(waiting.since, now)))}" if waiting.since else ""
    return f"waiting on {inline(waiting.on)}{since}: "


def _with(item: Item, text: str, most: int | None) -> Item:
    """Return an item, whose line is a label, with the text, shortened to `most` characters."""
    whole = prose.fold(text)
    shown = whole if most is None else clip(whole, most)
    return item._replace(line=(item.line + shown).rstrip(), shortened=shown != whole)


def _open(number: int, flow: Flow, states: Mapping[str, str], context: Context) -> Iterator[Item]:
    """Yield the open tasks, as long as they get along with each other in their part of the share.

    Those that do not fit there even so leave room to what blocks the flow.
    """
    tasks = [task for task in flow.children if task.status not in TERMINAL]
    first = sorted(range(len(tasks)), key=lambda at: _OPEN_FIRST.index(states[tasks[at].id]))
    rank = {at: place for place, at in enumerate(first)}
    room = context.share and context.share * _OPEN_PERCENT // 100
    each = room and room // max(1, len(tasks))
    made = []
    for at, task in enumerate(tasks):
        item = Item(
            OPEN, rank[at], number, "open task", f"open: {inline(task.id)} {states[task.id]}"
        )
        made.append(_open_task(item, _reasoned(flow, task, states, context.now), each))
    yield from made if room is None else _within(made, first, room)


def _reasoned(flow: Flow, task: Task, states: Mapping[str, str], now: Time) -> str:
    why = situation(flow, task, states, now)
    return f"{task.goal} ({why})" if why else task.goal


def _open_task(item: Item, goal: str, each: int | None) -> Item:
    most = None if each is None else min(160, each - len(item.line) - 3)
    if most is not None and most < _WORTH:
        return item._replace(shortened=True)
    return _with(item._replace(line=f"{item.line}: "), goal, most)


def _within(made: list[Item], first: list[int], room: int) -> list[Item]:
    """Return the items, those past the room, in the order of `first`, at the level MORE."""
    for at in first:
        room -= len(made[at].line) + 1
        if room < 0:
            made[at] = made[at]._replace(level=MORE)
    return made


def _ended(number: int, flow: Flow, states: Mapping[str, str], context: Context) -> Iterator[Item]:
    """Yield the failed tasks, which want a decision, then the done ones; the latest matter most."""
    for status in ("failed", "done"):
        tasks = [(at, task) for at, task in enumerate(flow.children) if task.status == status]
        latest = sorted(tasks, key=lambda pair: (pair[1].finished_at or "", pair[0]), reverse=True)
        rank = {at: place for place, (at, _) in enumerate(latest)}
        after = 0 if status == "failed" else len(flow.children)
        for at, task in tasks:
            label = f"{status}: {inline(task.id)}"
            if task.result_ref:
                label += f" -> {inline(task.result_ref)}"
            item = Item(ENDED, after + rank[at], number, f"{status} task", f"{label}: ")
            yield _with(item, _reasoned(flow, task, states, context.now), context.part(25))


def _changes(number: int, entries: Sequence[LogEntry], context: Context) -> Iterator[Item]:
    for place, entry in enumerate(entries):
        later = len(entries) - 1 - place
        item = Item(CHANGE, later, number, "change", f"changed: {entry_words(entry)}: ")
        yield _with(item, entry.headline, context.part(25))


def _notes(number: int, notes: Sequence[Note], context: Context) -> Iterator[Item]:
    for place, note in enumerate(notes):
        later = len(notes) - 1 - place
        if later >= _NOTES:
            yield Item(NEVER, later, number, "note", "")
            continue
        label = f"note by {inline(note.by)}, {age(note.at, context.now)}: "
        yield _with(Item(NOTE, later, number, "note", label), note.text, context.part(12))
