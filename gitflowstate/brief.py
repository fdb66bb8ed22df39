"""Owns the brief: what a new session needs of some flows, within a number of characters (R-TF-32).

Rules: pure and deterministic. What matters most is kept first, by `items` and then by the order of
the flows. Whatever was left out or shortened is counted in the last line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gitflowstate import prose
from gitflowstate.due import STALE_AFTER
from gitflowstate.items import HEAD, KINDS, MORE, NEVER, Context, Item, items
from gitflowstate.kinds import Time
from gitflowstate.listing import LogEntry
from gitflowstate.model import Flow
from gitflowstate.phrases import inline

MAX_CHARS = 4000
_SHARE = 200  # characters without which a flow is left to `gfs list`
# How many times its share the texts of a flow may dream of: the first at which all items fit.
_SCALES = (None, 8, 4, 2, 1)


def brief(
    flows: Sequence[Flow],
    now: Time,
    max_chars: int = MAX_CHARS,
    *,
    changes: Mapping[str, Sequence[LogEntry]] | None = None,
    unmanaged: Collection[str] = (),
    stale_after: int = STALE_AFTER,
) -> str:
    """Return what a new session needs to go on, in less than `max_chars` characters.

    One character is left for the newline of whoever prints it. `changes` holds, by flow, the
    entries that the reader has not seen, oldest first. From 200 characters on, a single flow's
    goal, status and next action are always there, shortened if need be, and open tasks come next.
    """
    budget = max(0, max_chars - 1)
    shown = flows[: max(1, budget // _SHARE)]
    text = "no flows"
    for scale in _SCALES if shown else ():
        share = scale and scale * budget // len(shown)
        context = Context(now, stale_after, changes or {}, frozenset(unmanaged), share)
        found = [item for at, flow in enumerate(shown) for item in items(at, flow, context)]
        choice = _choose(found, budget)
        text, whole = _fitted(choice, _Shown(shown, len(flows) - len(shown)), budget)
        if whole:
            break
    return text[:budget]


class _Shown(NamedTuple):
    """The flows a brief is about, and how many more there are."""

    flows: Sequence[Flow]
    left: int


class _Choice(NamedTuple):
    """All items, and the places of those that are kept, the most important first."""

    items: list[Item]
    kept: list[int]

    def lines(self) -> list[str]:
        """Return the kept lines in the order in which they are read."""
        return [self.items[at].line for at in sorted(self.kept)]


def _choose(found: list[Item], budget: int) -> _Choice:
    """Return what fits, taken by importance; nothing of a flow whose head does not fit."""
    order = sorted(range(len(found)), key=lambda at: found[at][:3])
    heads: set[int] = set()
    kept: list[int] = []
    for at in order:
        item = found[at]
        cost = len(item.line) + 1
        if item.level == NEVER or cost > budget + 1:
            continue
        if item.level == HEAD:
            heads.add(item.flow)
        elif item.flow not in heads:
            continue
        budget -= cost
        kept.append(at)
    return _Choice(found, kept)


def _fitted(choice: _Choice, shown: _Shown, budget: int) -> tuple[str, bool]:
    """Return the text with its last line, and whether it holds every item that may be held.

    The least important items make room for that line; it is short before it costs an open task or
    what blocks the flow.
    """
    whole = len(choice.kept) == sum(item.level != NEVER for item in choice.items)
    for short in (False, True):
        kept = list(choice.kept)
        while True:
            chosen = choice._replace(kept=kept)
            text = "\n".join([*chosen.lines(), *_cut_line(chosen, shown, short=short)])
            if len(text) <= budget:
                return text, whole
            whole = False
            if not kept or (choice.items[kept[-1]].level < MORE and not short):
                break
            kept.pop()
    return text, False


def _cut_line(choice: _Choice, shown: _Shown, *, short: bool) -> Iterable[str]:
    """Yield the line that says what is not there, or nothing when all is."""
    kept = {at: choice.items[at] for at in choice.kept}
    heads = {item.flow for item in kept.values() if item.level == HEAD}
    counts = dict.fromkeys(KINDS, 0)
    for at, item in enumerate(choice.items):
        if at not in kept and item.level != HEAD and item.flow in heads:
            counts[item.kind] += 1
    counts["long text"] = sum(item.shortened for item in kept.values())
    within = sum(counts.values())
    flows = shown.left + len(shown.flows) - len(heads)
    if not within + flows:
        return
    counts = {"flow": flows, **({"item": within} if short else counts)}
    named = [prose.count(number, kind) for kind, number in counts.items() if number]
    if short:
        yield f"cut: {', '.join(named)}; see gfs {'list' if flows else 'show'}"
        return
    only = f" {inline(shown.flows[0].id)}" if len(shown.flows) == 1 else ""
    see = ["gfs list"] * bool(flows) + [f"gfs show{only}"] * bool(within)
    yield f"cut: {', '.join(named)}; see {' and '.join(see)}"
