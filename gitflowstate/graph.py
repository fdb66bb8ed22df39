"""The task graph: whether it is sound, what is ready, and what stands in the way.

Rules: readiness looks at completed dependencies, `not_before` and live claims, and at nothing else
(architecture, section 3). Order is priority, higher first, then the natural order of ids (t2 before
t10). Nothing here recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gitflowstate import prose
from gitflowstate.errors import Invalid
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Task, instant, live

_DIGITS = re.compile(r"([0-9]+)")
_NAMED = 20  # tasks of a cycle that are named before the rest are counted
_REASON = 200  # columns of why a task failed


class Blocker(NamedTuple):
    """Why one task is not ready: kind is status, dependency, not_before, claim, process or flow."""

    kind: str
    text: str
    task: str | None = None


def rank(task: Task) -> tuple[Any, ...]:
    """Return the key by which ready tasks are taken; it sorts numbers within ids by value."""
    parts = _DIGITS.split(task.id)  # text and numbers in turn, text first, perhaps ""
    if len(parts) == 3:  # noqa: PLR2004  as in nearly every id: text, one number, text
        return -task.priority, parts[0], int(parts[1]), parts[2]
    return (-task.priority, *(int(part) if at % 2 else part for at, part in enumerate(parts)))


def check(edges: Mapping[str, Sequence[str]], field: str = "children") -> None:
    """Refuse a graph with an unknown dependency or a cycle, which is named.

    Raises Invalid.
    """
    if _is_in_order(edges):
        return
    from graphlib import CycleError, TopologicalSorter  # noqa: PLC0415  start-up: few plans need it

    for task, deps in edges.items():
        for dep in deps:
            if dep not in edges:
                raise _refused(field, f"{task} depends on {dep}, which is not there")
            if dep == task:
                raise _refused(field, f"{task} depends on itself")
    try:
        TopologicalSorter(_knotted(edges)).prepare()
    except CycleError as error:
        raise _refused(field, f"the dependencies form a cycle: {_path(error.args[1])}") from None


def _is_in_order(edges: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether each task stands after all that it depends on, as in most plans: no cycle."""
    before: set[str] = set()
    for task, deps in edges.items():
        if not before.issuperset(deps):
            return False
        before.add(task)
    return True


def _knotted(edges: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Return what a cycle could be made of: not a task without dependencies, nor one none awaits.

    Taking those away leaves others like them; it ends when a round takes less than a tenth.
    """
    while True:
        awaited = set[str]().union(*edges.values())
        kept = {task: deps for task, deps in edges.items() if deps and task in awaited}
        if len(kept) * 10 >= len(edges) * 9:
            return kept
        edges = kept


def _path(cycle: Sequence[str]) -> str:
    """Return a cycle as what depends on what; of a long one, its beginning and its end."""
    names = [*reversed(cycle)]
    if len(names) > _NAMED:
        left = len(names) - _NAMED + 1
        names[_NAMED // 2 : -(_NAMED // 2) + 1] = [f"({left:,} more)"]
    return " -> ".join(names)


def _refused(field: str, rule: str) -> Invalid:
    return Invalid(f"{field}: {rule}", violations=[{"path": field, "message": rule}])


def edges_of(tasks: Iterable[Task]) -> dict[str, Sequence[str]]:
    """Return task to dependencies. The ids are unique: the codec has seen to it."""
    return {task.id: task.deps for task in tasks}


# ── readiness ───────────────────────────────────────────────────────────────────────────────────


def completed(flow: Flow) -> set[str]:
    """Return the ids of the tasks that are done."""
    return {task.id for task in flow.children if task.status == "done"}


def is_open(flow: Flow) -> bool:
    """Tell whether the flow lets its tasks be taken: it lives and does not wait."""
    return live(flow) and flow.status != "waiting"


def is_due(task: Task, done: set[str], now: Time) -> bool:
    """Tell whether a task could be worked on, but for a claim."""
    return task.status == "pending" and done.issuperset(task.deps) and _is_free(task, now)


def _is_free(task: Task, now: Time) -> bool:
    if task.process is not None:
        return False
    return task.not_before is None or instant(task.not_before) <= instant(now)


def ready(flow: Flow, now: Time) -> list[Task]:
    """Return the tasks that may be claimed, in the order in which they are taken.

    One whose claim has run out is not among them: it is ready once that claim is expired.
    """
    if not is_open(flow):
        return []
    done, pending = set[str](), list[Task]()
    for task in flow.children:
        if task.status == "pending":
            pending.append(task)
        elif task.status == "done":
            done.add(task.id)
    after_done = done.issuperset
    # `is_due`, spelled out: of a large graph, nearly every task fails by its dependencies.
    found = [
        task
        for task in pending
        if after_done(task.deps) and task.claim is None and _is_free(task, now)
    ]
    return sorted(found, key=rank)


# ── what stands in the way ──────────────────────────────────────────────────────────────────────


def blockers(flow: Flow, task: Task, now: Time) -> list[Blocker]:
    """Return why a task is not ready; nothing when it is."""
    return _blockers(flow, task, now, _statuses(flow))


def unfinished(flow: Flow, now: Time) -> Iterator[tuple[Task, list[Blocker]]]:
    """Yield every task that is not done, with what stands in its way."""
    statuses = _statuses(flow)
    for task in flow.children:
        if task.status != "done":
            yield task, _blockers(flow, task, now, statuses)


def chain(flow: Flow, task: Task, now: Time) -> Iterator[tuple[int, Task, list[Blocker]]]:
    """Yield a task and, below it, all that it waits for, each once: depth, task, why."""
    by_id = {other.id: other for other in flow.children}
    statuses = _statuses(flow)
    pending, seen = [(0, task)], {task.id}
    while pending:
        depth, current = pending.pop()
        found = _blockers(flow, current, now, statuses)
        yield depth, current, found
        for item in reversed(found):
            if item.task in by_id and item.task not in seen:
                seen.add(item.task)
                pending.append((depth + 1, by_id[item.task]))


def _statuses(flow: Flow) -> dict[str, str]:
    return {task.id: task.status for task in flow.children}


def _blockers(flow: Flow, task: Task, now: Time, statuses: Mapping[str, str]) -> list[Blocker]:
    found = list(_own_blockers(task, now))
    if not is_open(flow):
        found.append(Blocker("flow", f"{flow.id} is {flow.status}"))
    found += [
        Blocker("dependency", f"{dep} is {statuses.get(dep, 'missing')}", dep)
        for dep in task.deps
        if statuses.get(dep) != "done"
    ]
    return found


def _stated(task: Task) -> str:
    """Return what is recorded of a task that waits or has failed, after a colon."""
    if task.waiting:
        return f": {task.waiting.reason}; until {task.waiting.condition}"
    if task.status == "failed" and task.reason:
        return f": {prose.cut(prose.fold(task.reason), _REASON)}"
    return ""


def _own_blockers(task: Task, now: Time) -> Iterator[Blocker]:
    if task.claim is not None and task.process is None:
        over = instant(task.claim.until) <= instant(now)
        end = ", which is past: the next claim ends it" if over else ""
        held = f"{task.id} is claimed by {task.claim.worker} until {task.claim.until}{end}"
        yield Blocker("claim", held)
    if task.status != "pending":
        yield Blocker("status", f"{task.id} is {task.status}{_stated(task)}")
    elif task.process is not None:
        yield Blocker("process", f"{task.id} is served by the process {task.process}")
    if task.not_before is not None and instant(task.not_before) > instant(now):
        yield Blocker("not_before", f"{task.id} is not to begin before {task.not_before}")
