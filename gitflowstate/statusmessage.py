"""Owns the message about a flow that people get: its title and its Markdown.

Rules: the same record gives the same bytes, for there is no clock but the flow's own (R-TF-49).
The marker is the first line and cannot be forged, since no text of users keeps a `<!`. What a
message cannot hold is cut in this order: the graph, tasks, progress, the goal, the next action,
and last what ended the flow or holds it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gitflowstate import marker, markup, prose
from gitflowstate.markup import Fitted, code, field, fitted, size
from gitflowstate.model import Flow, Waiting
from gitflowstate.phrases import clip
from gitflowstate.tasktables import (
    GROUPS,
    PEOPLE,
    graph,
    group_table,
    moment,
    needed_for,
    recorded_states,
)

LIMIT = 60_000  # characters and bytes; GitHub takes 65,536 characters

_TITLE = 100  # columns
_OWNER = 40  # characters; a name may have 128
_LINK_MAX = 2000
_FLOOR = 160  # bytes that a part may take whatever its share is
_STATES = {"pending": "Not started", "running": "Running", "done": "Done", "failed": "Failed"}
_FROM = {"human": "from a person", "agent": "from an agent", "external": "from outside"}


def superseded(text: str) -> str:
    """Return what a second message about the same thing is edited to.

    It has no marker any more, so that a search finds the message that is kept, and that one alone.
    """
    known = marker.read(text)
    about = f" about {code(known.flow)}" if known else ""
    return (
        f"**Superseded.** This was sent twice; the earlier message{about} is the one that is kept."
    )


# ── the title ───────────────────────────────────────────────────────────────────────────────────


def title(flow: Flow, kind: str) -> str:
    """Return one line of plain text, such as `f-1 needs a person: Compare three options`."""
    if kind == "waiting" and flow.waiting:
        what = f"needs {PEOPLE[flow.waiting.on]}"
    else:
        what = "has failed" if flow.status == "failed" else f"is {flow.status}"
    goal = prose.fold(flow.goal).replace("<!", "< !")
    return prose.subject(f"{flow.id} {what}", goal, _TITLE)


# ── the text ────────────────────────────────────────────────────────────────────────────────────


def text(flow: Flow, *, kind: str, limit: int = LIMIT, link: str | None = None) -> str:
    """Return the message as Markdown, in at most `limit` characters and bytes.

    `link` leads to the whole record. Where not even marker and first line fit, there is no marker:
    a channel that takes so little can search for none.
    """
    states = recorded_states(flow)
    head = f"{marker.line(flow.id, kind, flow.revision)}\n{_first_line(flow, states)}"
    if size(head) > limit:
        return fitted(markup.words, title(flow, kind), limit).text
    foots = {whole: _foot(flow, link, whole=whole) for whole in (True, False)}
    room = limit - size(head) - 2 - max(map(size, foots.values()))
    if room < 0:
        return head
    body = _filled(_parts(flow, kind, states), room)
    return "\n\n".join(filter(None, (head, body.text, foots[body.whole])))


def _first_line(flow: Flow, states: dict[str, str]) -> str:
    """Return what the flow is at, which id it has, and how many of its tasks are how far."""
    parts = [f"**{_STATES.get(flow.status, 'Waiting')}**"]
    if flow.waiting:
        since = f" since {moment(flow.waiting.since)}" if flow.waiting.since else ""
        parts = [f"**Waiting for {PEOPLE[flow.waiting.on]}**{since}"]
    parts.append(code(flow.id))
    counts = {
        state: sum(found == state for found in states.values())
        for state in ("done", "running", "claimed", "waiting", "failed")
    }
    if states:
        others = [f"{count:,} {state}" for state, count in [*counts.items()][1:] if count]
        done = f"{counts['done']:,} of {len(states):,} tasks done"
        parts.append(", ".join([done, *others]))
    asked = len(needed_for(flow))
    if asked:
        parts.append(f"a person is needed for {asked:,} task{'s' if asked > 1 else ''}")
    return " · ".join(parts)


def _foot(flow: Flow, address: str | None, *, whole: bool) -> str:
    """Return which revision this is and where to read more; of a cut message, that it is cut."""
    told = f"As of r{flow.revision}, {moment(flow.updated_at)}; owner: "
    told += f"{markup.words(clip(flow.owner, _OWNER)) or '-'}."
    if address and len(address) <= _LINK_MAX:
        shown = markup.link("The record" if whole else "Cut to fit: the whole record", address)
        if shown:
            return f"{told} {shown}"
    return told if whole else f"{told} Cut to fit: {code(f'gfs show {flow.id}')} has all of it."


class _Part(NamedTuple):
    """One part of a message: its place, the share of all room it may take, and how it is made."""

    place: int
    percent: int
    make: Callable[[int], Fitted]


def _filled(parts: list[_Part], room: int) -> Fitted:
    """Return the parts in the order of reading; the first in the list are given room first."""
    found: list[Fitted] = []
    left = room
    for part in parts:
        most = max(_FLOOR, room * part.percent // 100)
        found.append(part.make(max(0, min(left - 2, most))))
        left -= _cost(found[-1])
    # What had to keep to its share takes what the others left.
    for number, part in enumerate(parts):
        if not found[number].whole:
            left += _cost(found[number])
            found[number] = part.make(max(0, left - 2))
            left -= _cost(found[number])
    order = sorted(range(len(parts)), key=lambda number: parts[number].place)
    shown = [found[number].text for number in order if found[number].text]
    return Fitted("\n\n".join(shown), all(each.whole for each in found))


def _cost(shown: Fitted) -> int:
    return size(shown.text) + 2 if shown.text else 0


def _parts(flow: Flow, kind: str, states: dict[str, str]) -> list[_Part]:
    """Return what there is to say, the most important first."""
    parts = [*_outcome(flow)]
    if flow.next_action:
        parts.append(_words(40, 15, "Next", flow.next_action))
    parts.append(_words(0, 10, "Goal", flow.goal))
    if flow.progress:
        parts.append(_words(30, 25, "Progress", flow.progress))
    for number, group in enumerate(GROUPS):
        parts.append(
            _Part(50 + number, 100, lambda room, g=group: group_table(flow, g, states, room))  # type: ignore[misc]
        )
    if kind == "status":
        parts.append(_Part(60, 100, lambda room: graph(flow, states, room)))
    return parts


def _outcome(flow: Flow) -> list[_Part]:
    """Return what ended the flow, or what holds it up and who is needed."""
    parts = []
    if flow.result_ref:
        parts.append(_Part(10, 25, lambda room: _result(flow.result_ref or "", room)))
    if flow.failure:
        parts.append(_words(11, 15, "Why it failed", flow.failure.reason))
        parts.append(_words(12, 15, "What can be used again", flow.failure.recoverable))
    if flow.waiting:
        parts += _held_up(flow.waiting)
    return parts


def _held_up(waiting: Waiting) -> list[_Part]:
    needed = _words(13, 15, f"Needed {_FROM[waiting.on]}", waiting.condition)
    return [needed, _words(14, 15, "Why it waits", waiting.reason)]


def _words(place: int, percent: int, label: str, words: str) -> _Part:
    return _Part(place, percent, lambda room: field(label, words, room))


def _result(reference: str, room: int) -> Fitted:
    shown = fitted(code, reference, max(0, room - size("**Result:** ")))
    return shown._replace(text=f"**Result:** {shown.text}" if shown.text else "")
