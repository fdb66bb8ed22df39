"""Graphs and tasks: readiness and cycles beside graphlib, settling among many beside among few.

Run by the interpreter under test: `python tasks.py FOLDER`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter

from table import WARM_UP, Row, cpu, interleaved, rounds, send, wall
from workbench import AT, Desk, founded

from gitflowstate import graph
from gitflowstate.adapters.command import CommandExecutor
from gitflowstate.cli.config import Clock
from gitflowstate.model import Flow, Task
from gitflowstate.ops import FlowOp
from gitflowstate.outcomes import Outcome
from gitflowstate.store import Store
from gitflowstate.taskops import TaskDone
from gitflowstate.worker import Settings, Worker

READY, CHECKED = 10_000, 5_000
LARGE, SMALL = 1_000, 10


def graphs() -> list[Row]:
    """Return the rows of pure functions over a graph, in CPU."""
    large, middle = _flow(READY), _flow(CHECKED)
    edges, mixed = graph.edges_of(large.children), _mixed(graph.edges_of(middle.children))
    cases = {
        "ready": lambda: cpu(lambda: graph.ready(large, AT)),
        "sort": lambda: cpu(lambda: _sorted(edges)),
        "check": lambda: cpu(lambda: graph.check(mixed)),
        "less": lambda: cpu(lambda: _sorted(mixed)),
    }
    found = interleaved(cases, rounds(30))
    sort = "graphlib: topological sort"
    return [
        Row(f"ready set of {READY:,} tasks, CPU", sort, 0.1, found["ready"], found["sort"]),
        Row(f"cycle check of {CHECKED:,} nodes, CPU", sort, 1.0, found["check"], found["less"]),
    ]


Edges = Mapping[str, Sequence[str]]


def _sorted(edges: Edges) -> list[str]:
    return list(TopologicalSorter(edges).static_order())


def _mixed(edges: Edges) -> Edges:
    """Return the edges in another order, since one in which no task waits is the easy case."""
    names = list(edges)
    Random(1).shuffle(names)
    return {name: edges[name] for name in names}


def _flow(count: int) -> Flow:
    """Return a flow of so many tasks, each after three others, a tenth of them done."""
    chance = Random(1)
    tasks = tuple(_task(number, chance, done=number < count // 10) for number in range(count))
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


def _task(number: int, chance: Random, *, done: bool) -> Task:
    deps = tuple(f"t{other}" for other in chance.sample(range(number), min(number, 3)))
    if done:
        return Task(id=f"t{number}", goal="Read", status="done", deps=deps, result_ref="a.md")
    return Task(id=f"t{number}", goal="Read", status="pending", deps=deps)


class Lessons:
    """Flows of tasks that are settled one a round: small ones by the dozen, and large ones."""

    def __init__(self, folder: Path, count: int) -> None:
        self.small, self.large = (founded(folder / name, view=False) for name in ("small", "large"))
        self.round = 0
        for desk in (self.small, self.large):
            desk.make_folders()
        for group, number in product(("claimed", "cold", "warm"), range(count // SMALL + 1)):
            self.small.plan(f"{group}-{number}", SMALL)
        for group in ("cold", "warm"):
            self.large.plan(group, LARGE)

    def begin(self, number: int) -> None:
        """Turn to the tasks of a round."""
        self.round = number

    def in_small(self, group: str) -> tuple[str, str]:
        """Return the flow and the task of this round in a group of small flows."""
        return f"{group}-{self.round // SMALL}", f"t{self.round % SMALL + 1}"

    def in_large(self, group: str) -> tuple[str, str]:
        """Return the flow and the task of this round in a large flow."""
        return group, f"t{self.round + 1}"

    def claim_and_done(self) -> None:
        """Claim a task, and report it done."""
        place = self.in_small("claimed")
        self.small.claim(*place)
        self.small.settle(*place)

    def two_updates(self) -> None:
        """Update that task's flow twice."""
        flow, _ = self.in_small("claimed")
        self.small.update(flow)
        self.small.update(flow)


def settling(folder: Path) -> list[Row]:
    """Return the rows of tasks that are claimed and settled, durably."""
    count = min(rounds(100), LARGE - WARM_UP)
    lessons = Lessons(folder, count + WARM_UP)
    cases = {
        "updates": lambda: wall(lessons.two_updates),
        "tasks": lambda: wall(lessons.claim_and_done),
        "cold small": lambda: _cold(lessons.small, *lessons.in_small("cold")),
        "cold large": lambda: _cold(lessons.large, *lessons.in_large("cold")),
        "warm small": lambda: _warm(lessons.small, *lessons.in_small("warm")),
        "warm large": lambda: _warm(lessons.large, *lessons.in_large("warm")),
    }
    found = interleaved(cases, count, lessons.begin)
    settled, small = f"a task settled among {LARGE:,}", f"among {SMALL}"
    return [
        Row("claim and done of a task", "two updates", 1.1, found["tasks"], found["updates"]),
        Row(f"{settled}, cold", small, 4.0, found["cold large"], found["cold small"]),
        Row(f"{settled}, in one process", small, 2.0, found["warm large"], found["warm small"]),
    ]


GROUP = 20  # tasks of one run of a worker


class Marked:
    """A store that notes how long it is from one task done to the next."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.flow, self.version = store.flow, store.version
        self.spans: list[float] = []
        self._last = perf_counter()

    def commit(self, op: FlowOp) -> Outcome:
        """Commit an op."""
        outcome = self.store.commit(op)
        if isinstance(op, TaskDone):
            now = perf_counter()
            self.spans.append((now - self._last) * 1000)
            self._last = now
        return outcome


def working(folder: Path) -> list[Row]:
    """Return the row of a worker that runs `true` for each task of a flow."""
    desk = founded(folder / "work", view=False)
    desk.make_folders()
    worked: list[float] = []
    bare: list[float] = []
    for number in range(rounds(200) // GROUP):
        for kind in ("work", "bare"):
            desk.plan(f"{kind}-{number}", GROUP)
        marked = Marked(desk.store)
        asked = Settings(flow=f"work-{number}", by="bench", worker=f"bench.{number}")
        Worker(asked, marked, CommandExecutor(["true"]), Clock()).run()
        worked += marked.spans
        bare += [wall(lambda t=t, n=number: _by_hand(desk, n, t)) for t in range(GROUP)]
    name = "`gfs work`, a task of true"
    return [Row(name, "claim, done and one spawn", 1.5, worked, bare)]


def _by_hand(desk: Desk, number: int, task: int) -> None:
    place = f"bare-{number}", f"t{task + 1}"
    desk.claim(*place)
    subprocess.run(["true"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    desk.settle(*place)


def _cold(desk: Desk, flow: str, task: str) -> float:
    desk.forget()
    return wall(lambda: desk.settle(flow, task))


def _warm(desk: Desk, flow: str, task: str) -> float:
    desk.update(flow)  # the cold ones made this process forget
    return wall(lambda: desk.settle(flow, task))


if __name__ == "__main__":
    where = Path(sys.argv[1])
    send(graphs() + settling(where) + working(where))
