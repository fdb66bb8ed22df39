"""The graph of a flow as a picture: text for a terminal, Mermaid, dot.

Rules: pure and deterministic; a node's text is one line of inert characters, quoted; text groups
tasks into levels, so that thirty of them read on one screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitflowstate import graph, prose
from gitflowstate.model import Flow, Task
from gitflowstate.phrases import MARKS, inline, more, within

WIDTH = 80  # columns
_DEEPEST = 8  # levels that are indented further; past them the edges alone tell
_NEEDS = 28  # columns of names of dependencies, before the rest are counted
_LEAST = 16  # columns that a goal gets, whatever stands beside it
_LABEL = 40  # characters of a goal in Mermaid and dot


def levels(tasks: tuple[Task, ...]) -> list[list[Task]]:
    """Return the tasks by the length of the longest way to them, each level in its order."""
    by_id = {task.id: task for task in tasks}
    waits = {task.id: sum(dep in by_id for dep in task.deps) for task in tasks}
    later: dict[str, list[str]] = {}
    for task in tasks:
        for dep in task.deps:
            later.setdefault(dep, []).append(task.id)
    found: list[list[Task]] = []
    current = [task for task in tasks if waits[task.id] == 0]
    while current:
        found.append(sorted(current, key=graph.rank))
        following = []
        for task in current:
            for name in later.get(task.id, ()):
                waits[name] -= 1
                if waits[name] == 0:
                    following.append(by_id[name])
        current = following
    placed = {task.id for level in found for task in level}
    rest = [task for task in tasks if task.id not in placed]  # a cycle made by hand
    return [*found, rest] if rest else found


def text(flow: Flow, states: Mapping[str, str]) -> str:
    """Draw the graph as lines of at most 80 columns: mark, id, goal, what it needs.

    Only a goal is ever cut, so long ids can make a line longer. Of a graph that is too large, the
    most urgent tasks are drawn, and the others counted.
    """
    width = max((len(inline(task.id)) for task in flow.children), default=0)
    lines, drawn = [], []
    for depth, level in enumerate(levels(flow.children)):
        drawn += [states[task.id] for task in level]
        lines += [_line(task, min(depth, _DEEPEST), width, states[task.id]) for task in level]
    shown = within(lines, drawn)
    left = len(lines) - len(shown)
    lines = [lines[place] for place in sorted(shown)] + ([more(left, flow)] if left else [])
    legend = [f"{MARKS[state]} {state}" for state in dict.fromkeys(states.values())]
    return "\n".join([*lines, "", "  ".join(legend)]) if lines else ""


def _line(task: Task, depth: int, width: int, state: str) -> str:
    start = f"{'  ' * depth}{MARKS[state]} {inline(task.id).ljust(width)} "
    needs = _needs(task)
    goal = prose.cut(_label(task.goal), max(_LEAST, WIDTH - len(start) - len(needs)))
    return f"{start}{goal}{needs}"


def _needs(task: Task) -> str:
    """Return what a task needs: as many names as there is room for, and how many more."""
    named = ""
    for place, dep in enumerate(map(inline, task.deps)):
        longer = f"{named}, {dep}" if named else f" <- {dep}"
        if named and len(longer) > _NEEDS:
            return f"{named} and {len(task.deps) - place} more"
        named = longer
    return named


def _label(words: str) -> str:
    return inline(prose.fold(words))


def _quoted(words: str) -> str:
    """Return words for inside double quotes, of Mermaid and of dot."""
    plain = prose.cut(_label(words), _LABEL)
    return "".join(c if c.isalnum() or c in " .,:+-_()?!/" else "\u00b7" for c in plain)


def mermaid(flow: Flow, states: Mapping[str, str]) -> str:
    """Draw the graph as a Mermaid flowchart."""
    names = {task.id: f"n{number}" for number, task in enumerate(flow.children)}
    lines = ["flowchart TD"]
    lines += [
        f'  {names[task.id]}["{task.id}: {_quoted(task.goal)}"]:::{states[task.id]}'
        for task in flow.children
    ]
    for task in flow.children:
        lines += [f"  {names[d]} --> {names[task.id]}" for d in task.deps if d in names]
    used = dict.fromkeys(states.values())
    lines += [f"  classDef {state} {_COLOURS[state]}" for state in used if state in _COLOURS]
    return "\n".join(lines) if names else ""


_COLOURS = {
    "done": "fill:#d5f5dd,stroke:#2a7d46",
    "failed": "fill:#fbd9d9,stroke:#a33",
    "claimed": "fill:#d8e8fb,stroke:#2b5f9e",
    "running": "fill:#d8e8fb,stroke:#2b5f9e",
    "ready": "fill:#ffffff,stroke:#2b5f9e",
    "blocked": "fill:#eeeeee,stroke:#999999",
    "scheduled": "fill:#eeeeee,stroke:#999999",
    "waiting": "fill:#fff1c9,stroke:#a07a10",
    "stale": "fill:#f0dcf7,stroke:#7d3f98",
}


def dot(flow: Flow, states: Mapping[str, str]) -> str:
    """Draw the graph in the dot language."""
    lines = ["digraph flow {", "  rankdir=LR;", "  node [shape=box];"]
    for task in flow.children:
        label = f"{task.id}: {_quoted(task.goal)}\\n{states[task.id]}"
        lines.append(f'  "{task.id}" [label="{label}"];')
    for task in flow.children:
        lines += [f'  "{dep}" -> "{task.id}";' for dep in task.deps]
    return "\n".join([*lines, "}"])


FORMS: dict[str, Callable[[Flow, Mapping[str, str]], str]] = {
    "text": text,
    "mermaid": mermaid,
    "dot": dot,
}
