"""Owns the tasks of a flow in a message: what runs, what waits, what is finished, and a graph.

Rules: a state is what the record says at its own time, so nothing is called stale here: that is
for whoever looks now (R-TF-47). Rows are whole or counted, never cut (hazard L17).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gitflowstate import drawing
from gitflowstate.due import task_states
from gitflowstate.markup import Fitted, code, details, row, size, table, words
from gitflowstate.model import Flow, Task, Waiting, live
from gitflowstate.phrases import clip

PEOPLE = {"human": "a person", "agent": "an agent", "external": "something outside"}

_NODES, _EDGES = 60, 200  # of a graph that can still be read
_ROWS = 100  # of one table
_OPEN = 10  # rows above which a table folds away
_WORDS = 120  # characters of a cell
_REFERENCE = 300
_NAMED = 5  # dependencies that are named before the rest are counted


class Group(NamedTuple):
    """Tasks that are told of together; the ones of its first states come first."""

    name: str
    states: tuple[str, ...]
    head: tuple[str, str, str, str]


GROUPS = (
    Group("Running", ("running", "claimed"), ("Task", "State", "Goal", "By")),
    Group(
        "Waiting",
        ("waiting", "ready", "scheduled", "blocked"),
        ("Task", "State", "Goal", "Waits for"),
    ),
    Group("Finished", ("failed", "done"), ("Task", "State", "Goal", "Result or reason")),
)


def recorded_states(flow: Flow) -> dict[str, str]:
    """Return the state of each task by its id, at the time of the flow's last change."""
    states = task_states(flow, flow.updated_at)
    for task in flow.children:
        if states[task.id] == "stale":
            states[task.id] = "claimed" if task.claim else "running"
    return states


def is_for_people(waiting: Waiting | None) -> bool:
    """Tell whether something waits for a person."""
    return waiting is not None and waiting.on == "human"


def needed_for(flow: Flow) -> list[str]:
    """Return the ids of the tasks of an open flow that wait for a person."""
    if not live(flow):
        return []
    return [
        task.id
        for task in flow.children
        if task.status == "waiting" and is_for_people(task.waiting)
    ]


def group_table(flow: Flow, group: Group, states: Mapping[str, str], room: int) -> Fitted:
    """Return a heading and the table of a group in at most `room` bytes, the rest as `N more`."""
    tasks = sorted(
        (task for task in flow.children if states[task.id] in group.states),
        key=lambda task: (group.states.index(states[task.id]), not is_for_people(task.waiting)),
    )
    if not tasks:
        return Fitted("")
    named = "Not done" if group.name == "Waiting" and not live(flow) else group.name
    name = f"{named} ({len(tasks):,})"
    left = room - size(_framed(name, group, [], len(tasks), folded=len(tasks) > _OPEN))
    rows: list[str] = []
    for task in tasks[:_ROWS]:
        made = row(_cells(flow, task, states))
        left -= size(made) + 1
        if left < 0:
            break
        rows.append(made)
    if not rows:
        heading = f"**{name}**"
        return Fitted(heading if size(heading) <= room else "", whole=False)
    more = len(tasks) - len(rows)
    return Fitted(_framed(name, group, rows, more, folded=len(tasks) > _OPEN), more == 0)


def _framed(name: str, group: Group, rows: list[str], more: int, *, folded: bool) -> str:
    inside = table(group.head, rows) + (f"\n\n{more:,} more" if more else "")
    return details(name, inside) if folded else f"**{name}**\n\n{inside}"


def _cells(flow: Flow, task: Task, states: Mapping[str, str]) -> tuple[str, str, str, str]:
    state = states[task.id]
    told = state if live(flow) or state != "blocked" else task.status
    return code(task.id, cell=True), told, _brief(task.goal), _detail(flow, task, state, states)


def _brief(text: str) -> str:
    return words(clip(text, _WORDS))


def _detail(flow: Flow, task: Task, state: str, states: Mapping[str, str]) -> str:
    if state == "done":
        return code(clip(task.result_ref or "", _REFERENCE), cell=True)
    if state == "failed":
        outcome = (task.outcome or "").replace("_", " ")
        return ": ".join(filter(None, (outcome, _brief(task.reason or ""))))
    if state == "waiting" and task.waiting:
        condition, reason = _brief(task.waiting.condition), _brief(task.waiting.reason)
        return f"{PEOPLE[task.waiting.on]}: {condition} ({reason})"
    if state == "scheduled" and task.not_before:
        return f"not before {moment(task.not_before)}"
    if state in ("running", "claimed"):
        return code(task.claim.worker, cell=True) if task.claim else ""
    return _needs(task, states) if live(flow) else ""


def _needs(task: Task, states: Mapping[str, str]) -> str:
    missing = [code(dep, cell=True) for dep in task.deps if states.get(dep) != "done"]
    rest = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return ", ".join(missing[:_NAMED]) + rest


def moment(time: str) -> str:
    """Return a time to the minute, in UTC."""
    return f"{time[:10]} {time[11:16]} UTC"


# ── the graph ───────────────────────────────────────────────────────────────────────────────────


def graph(flow: Flow, states: Mapping[str, str], room: int) -> Fitted:
    """Return what is left to do as a Mermaid graph, where that helps a reader and fits.

    A picture repeats what the tables say, so leaving it out cuts nothing.
    """
    shown = _unfinished(flow, states)
    names = {task.id for task in shown.children}
    edges = sum(dep in names for task in shown.children for dep in task.deps)
    if not live(flow) or not 0 < edges <= _EDGES or len(names) > _NODES:
        return Fitted("")
    now = {task.id: states.get(task.id, "done") for task in shown.children}
    drawn = f"```mermaid\n{drawing.mermaid(shown, now)}\n```"
    return Fitted(drawn if size(drawn) <= room else "")


def _unfinished(flow: Flow, states: Mapping[str, str]) -> Flow:
    """Return the flow with its done tasks as one, whose name no task can have."""
    done = [task.id for task in flow.children if states[task.id] == "done"]
    if len(done) < 2:  # noqa: PLR2004  one is shown as it is
        return flow
    name, gone = f"{len(done):,} done", set(done)
    together = Task(id=name, goal=", ".join(done), status="done")
    rest = [
        task.replace(deps=tuple(dict.fromkeys(name if d in gone else d for d in task.deps)))
        for task in flow.children
        if task.id not in gone
    ]
    return flow.replace(children=(together, *rest))
