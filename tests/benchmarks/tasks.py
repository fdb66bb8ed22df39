"""Graphs and tasks: readiness and cycles beside graphlib, settling beside updates.

Run by the interpreter under test: `python tasks.py FOLDER`.
"""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter
from pathlib import Path

from workbench import AT, Desk, founded
from table import Row, cpu, interleaved, rounds, send, wall

from gitflowstate import graph
from gitflowstate.model import Flow, Task

READY, CHECKED = 10_000, 5_000
LARGE, SMALL = 1_000, 10


def graphs() -> list[Row]:
    """Return the rows of pure functions over a graph, in CPU."""
    large, middle = _flow(READY), _flow(CHECKED)
    edges = {flow: graph.edges_of(flow.children) for flow in (large, middle)}
    cases = {
        "ready": lambda: cpu(lambda: graph.ready(large, AT)),
        "sort": lambda: cpu(lambda: _sorted(edges[large])),
        "check": lambda: cpu(lambda: graph.check(edges[middle])),
        "less": lambda: cpu(lambda: _sorted(edges[middle])),
    }
    found = interleaved(cases, rounds(30))
    sort = "graphlib: topological sort"
    return [
        Row(f"ready set of {READY:,} tasks, CPU", sort, 0.1, found["ready"], found["sort"]),
        Row(f"cycle check of {CHECKED:,} nodes, CPU", sort, 1.0, found["check"], found["less"]),
    ]


def _sorted(edges: dict[str, tuple[str, ...]]) -> list[str]:
    return list(TopologicalSorter(edges).static_order())


def _flow(count: int) -> Flow:
    """Return a flow of so many tasks with three dependencies each, a tenth of them done."""
    tasks = tuple(_task(number, done=number < count // 10) for number in range(count))
    return Flow(
        schema_version=1,
        id="f-1",
        goal="Compare",
        status="running",
        revision=1,
        owner="bench",
        updated_at=AT,
        next_action="Go",
        children=tasks,
    )


def _task(number: int, *, done: bool) -> Task:
    deps = tuple(f"t{other}" for other in {number // 2, number // 3, number // 5} - {number})
    if done:
        return Task(id=f"t{number}", goal="Read", status="done", deps=deps, result_ref="a.md")
    return Task(id=f"t{number}", goal="Read", status="pending", deps=deps)


def settling(folder: Path) -> list[Row]:
    """Return the rows of tasks that are claimed and settled, durably."""
    count = rounds(100)
    small, large = founded(folder / "small", view=False), founded(folder / "large", view=False)
    small.make_folders()
    large.make_folders()
    for number in range(count + 3):
        if number % SMALL == 0:
            small.plan(f"f-{number // SMALL}", SMALL)
            small.plan(f"g-{number // SMALL}", SMALL)
    for flow in ("cold", "warm"):
        large.plan(flow, LARGE)
    at = [0]

    def both(act: str, flow: str) -> None:
        name, task = f"{flow}-{at[0] // SMALL}", f"t{at[0] % SMALL + 1}"
        if act == "settle":
            small.settle(name, task)
            return
        small.claim(name, task)
        small.settle(name, task)

    def cold(desk: Desk, flow: str, task: str) -> float:
        desk.forget()
        return wall(lambda: desk.settle(flow, task))

    def warm(desk: Desk, flow: str, task: str) -> float:
        desk.store.flow(flow)
        return wall(lambda: desk.settle(flow, task))

    def place(flow: str) -> tuple[str, str]:
        return f"{flow}-{at[0] // SMALL}", f"t{at[0] % SMALL + 1}"

    def updates() -> None:
        name, _ = place("f")
        small.update(name)
        small.update(name)

    cases = {
        "updates": lambda: wall(updates),
        "tasks": lambda: wall(lambda: both("claim", "f")),
        "cold small": lambda: cold(small, *place("g")),
        "cold large": lambda: cold(large, "cold", f"t{at[0] + 1}"),
        "warm small": lambda: warm(small, *place("h")),
        "warm large": lambda: warm(large, "warm", f"t{at[0] + 1}"),
    }
    for number in range(count + 3):
        if number % SMALL == 0:
            small.plan(f"h-{number // SMALL}", SMALL)

    def begin(number: int) -> None:
        at[0] = number

    found = interleaved(cases, count, begin)
    return [
        Row("claim and done of a task", "two updates", 1.1, found["tasks"], found["updates"]),
        Row(
            f"a task settled among {LARGE:,}, cold",
            f"among {SMALL}",
            4.0,
            found["cold large"],
            found["cold small"],
        ),
        Row(
            f"a task settled among {LARGE:,}, in one process",
            f"among {SMALL}",
            2.0,
            found["warm large"],
            found["warm small"],
        ),
    ]


if __name__ == "__main__":
    send(graphs() + settling(Path(sys.argv[1])))
