"""Owns a flow as text for people: its summary line, and everything that one flow records.

Rules: pure and deterministic, so reading a flow changes nothing (R-TF-33). A label stands at the
margin and every line of a user's text is indented, so that no text can pose as a field. `paint`
gets each state word, and returns it for a terminal; it may add no column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gitflowstate import prose
from gitflowstate.due import STALE_AFTER, elapsed, flow_state, span, task_states
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Note, Task, Waiting
from gitflowstate.phrases import MARKS, inline, more, situation, when, within

if TYPE_CHECKING:
    from datetime import tzinfo

Paint = Callable[[str], str]

_LABEL = 13  # columns, for the longest label, its colon and a space
_DEEP = " " * 6


def summary(flow: Flow) -> str:
    """Return the line that a verb succeeds with, such as `flow-example-001 r5 running`."""
    return f"{inline(flow.id)} r{flow.revision} {inline(flow.status)}"


def show(
    flow: Flow,
    now: Time,
    *,
    zone: tzinfo | None = None,
    unmanaged: bool = False,
    stale_after: int = STALE_AFTER,
    paint: Paint = str,
) -> str:
    """Return all that a flow records, as text without a final newline (R-TF-31).

    Times are in `zone`, or else in UTC, with their offset. `unmanaged` says that the document was
    last changed by hand.
    """
    state = flow_state(flow, now, stale_after)
    lines = [f"{inline(flow.id)} r{flow.revision} {paint(state)}"]
    if unmanaged:
        lines += _field("unmanaged", "last changed by hand, not by an operation of gfs")
    lines += _field("goal", flow.goal)
    lines += _field("status", _status(flow, now, state))
    lines += _field("owner", inline(flow.owner))
    lines += _field("progress", flow.progress)
    lines += _field("next", flow.next_action)
    lines += _waiting(flow.waiting, now, zone)
    lines += _ended(flow)
    lines += _tasks(flow, now, zone, paint)
    lines += _notes(flow.notes, now, zone)
    lines += _rest(flow, now, zone)
    return "\n".join(lines)


def _field(label: str, text: str | None) -> Iterator[str]:
    """Yield a labelled text, its further lines indented; nothing for a blank one."""
    if text and text.strip():
        yield from _hung(f"{label}: ".ljust(_LABEL), text)


def _hung(start: str, text: str) -> Iterator[str]:
    """Yield `start` and the text, with the further lines of the text below its first."""
    margin = " " * len(start)
    for number, line in enumerate(prose.terminal(text).split("\n")):
        yield ((margin if number else start) + line).rstrip()


def _status(flow: Flow, now: Time, state: str) -> str:
    if state != "stale":
        return inline(flow.status)
    return f"{inline(flow.status)}, but not updated for {span(elapsed(flow.updated_at, now))}"


def _waiting(waiting: Waiting | None, now: Time, zone: tzinfo | None) -> Iterator[str]:
    if waiting is None:
        return
    since = f", since {when(waiting.since, now, zone)}" if waiting.since else ""
    yield from _field("waiting", waiting.reason)
    yield from _field("until", waiting.condition)
    yield from _field("needed", f"{inline(waiting.on)}{since}")


def _ended(flow: Flow) -> Iterator[str]:
    if flow.failure:
        yield from _field("failure", flow.failure.reason)
        yield from _field("recoverable", flow.failure.recoverable)
    yield from _field("result", inline(flow.result_ref or ""))


def _tasks(flow: Flow, now: Time, zone: tzinfo | None, paint: Paint) -> Iterator[str]:
    if not flow.children:
        return
    states = task_states(flow, now)
    done = sum(state == "done" for state in states.values())
    widths = max(map(len, states.values())), max(len(inline(name)) for name in states)
    yield from _field("tasks", f"{done} of {len(flow.children)} done")
    blocks = []
    for task in flow.children:
        why = _task_details(task, situation(flow, task, states, now, zone), now, zone)
        blocks.append("\n".join([*_task(task, states[task.id], widths, paint), *why]))
    shown = within(blocks, [*states.values()])
    yield from (blocks[place] for place in shown)
    if len(shown) < len(blocks):
        yield f"  {more(len(blocks) - len(shown), flow)}"


def _task(task: Task, state: str, widths: tuple[int, int], paint: Paint) -> Iterator[str]:
    gap = " " * (widths[0] - len(state))
    start, *others = _hung(f"{inline(task.id):{widths[1]}}  ", task.goal)
    yield f"  {MARKS[state]} {paint(state)}{gap}  {start}"
    yield from (" " * (widths[0] + 8) + line if line else "" for line in others)


def _task_details(task: Task, why: str, now: Time, zone: tzinfo | None) -> Iterator[str]:
    if why:
        yield from _hung(_DEEP, why)
    if task.result_ref:
        yield f"{_DEEP}result: {inline(task.result_ref)}"
    if task.finished_at:
        by = f" by {inline(task.finished_by)}" if task.finished_by else ""
        yield f"{_DEEP}finished {when(task.finished_at, now, zone)}{by}"


def _notes(notes: Iterable[Note], now: Time, zone: tzinfo | None) -> Iterator[str]:
    for number, note in enumerate(notes):
        if not number:
            yield "notes:"
        yield f"  {when(note.at, now, zone)} by {inline(note.by)}"
        yield from _hung(_DEEP, note.text)


def _rest(flow: Flow, now: Time, zone: tzinfo | None) -> Iterator[str]:
    yield from _field("links", "\n".join(f"{inline(x.rel)} {inline(x.href)}" for x in flow.links))
    yield from _field("labels", ", ".join(map(inline, flow.labels)))
    yield from _field("type", inline(flow.type or ""))
    if flow.data is not None:
        from json import dumps  # noqa: PLC0415  start-up: the summary line needs none

        yield from _field("data", dumps(flow.data, ensure_ascii=False, indent=2))
    yield from _field("attempt of", inline(flow.attempt_of or ""))
    if flow.created_at:
        yield from _field("created", when(flow.created_at, now, zone))
    yield from _field("updated", when(flow.updated_at, now, zone))
