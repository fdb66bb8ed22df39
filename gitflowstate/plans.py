"""A flow's graph as it is planned: stored once, replaced only deliberately, added to one by one.

Rules: a plan is checked as a whole before any of it is kept. What is done stays done only where
the new plan has the same id and the same goal, and only if asked.
"""

from __future__ import annotations

from typing import Any

from gitflowstate import graph, guards, prose, taskops
from gitflowstate.errors import Invalid, Rejected, Stale
from gitflowstate.model import Flow, Plan, Step, Task

_STEP = tuple(Step.__annotations__)
# An id that only looks like t1, and is too long to be followed by another, does not count.
_LONGEST_NUMBERED = 10


def plan(op: taskops.Plan, flow: Flow) -> Flow:
    """Set the tasks from the plan: once, or deliberately in place of the present ones."""
    if flow.plan is not None or flow.children:
        _check_replaceable(op, flow)
    kept = flow if op.keep_done else None
    children = planned(op.document, flow.id, kept)
    return flow.replace(children=children, plan=(flow.plan or 0) + 1)


def _check_replaceable(op: taskops.Plan, flow: Flow) -> None:
    if not op.replace_plan:
        raise Rejected(
            f"{flow.id} has a plan of {prose.count(len(flow.children), 'task')} already",
            hint=f"gfs graph {flow.id} shows it; --replace --reason REASON puts this one in place",
            next=["gfs", "graph", flow.id],
        )
    if op.reason is None:
        raise Rejected("a plan is replaced for a reason", hint="--reason REASON")
    if not op.cancel_children:
        guards.check_idle(flow, "let them end, or cancel them by --cancel-children")


def planned(document: Plan, flow: str, kept: Flow | None = None) -> tuple[Task, ...]:
    """Return the tasks of a flow's plan; done ones of `kept` with the same id and goal stay done.

    Raises Rejected for the plan of another flow; Invalid for no task at all, a cycle or an unknown
    dependency.
    """
    if document.flow != flow:
        raise Rejected(f"the plan is one for {document.flow}, not for {flow}")
    if not document.tasks:
        rule = "a plan has at least one task"
        raise Invalid(f"tasks: {rule}", violations=[{"path": "tasks", "message": rule}])
    graph.check({step.id: step.deps for step in document.tasks}, "tasks")
    done = {task.id: task for task in kept.children if task.status == "done"} if kept else {}
    return tuple(_planned(step, done.get(step.id)) for step in document.tasks)


def _planned(step: Step, done: Task | None) -> Task:
    if done is not None and done.goal == step.goal:
        return done.replace(**_static(step))
    return Task(id=step.id, status="pending", **_static(step))


def _static(source: Any) -> dict[str, Any]:  # noqa: ANN401  a step, a task or an op with its fields
    """Return the fields that a plan gives to a task, but for its id."""
    return {name: getattr(source, name) for name in _STEP if name != "id"}


def plan_of(flow: Flow) -> Plan:
    """Return the plan that a flow's tasks follow, as `plans/` keeps it."""
    steps = tuple(Step(id=task.id, **_static(task)) for task in flow.children)
    return Plan(schema_version=1, flow=flow.id, tasks=steps)


def add(op: taskops.TaskAdd, flow: Flow) -> Flow:
    """Add a task at the end of the list; the same one again is already so."""
    there = {task.id: task for task in flow.children}
    task = Task(id=op.task or _next_id(there), status="pending", **_static(op))
    if task.id in there:
        if _static(there[task.id]) == _static(task):
            return flow
        raise Stale(
            f"{flow.id} has a task {task.id} already, and it differs",
            hint=f"gfs show {flow.id}, or choose another id",
            next=["gfs", "show", flow.id],
        )
    children = (*flow.children, task)
    graph.check(graph.edges_of(children))
    return flow.replace(children=children)


def _next_id(there: dict[str, Task]) -> str:
    """Return the id after the highest of those like t1 and t2."""
    numbers = [int(name[1:]) for name in there if _is_numbered(name)]
    number = max(numbers, default=0) + 1
    while f"t{number}" in there:
        number += 1
    return f"t{number}"


def _is_numbered(name: str) -> bool:
    return name[0] == "t" and name[1:].isdigit() and len(name) <= _LONGEST_NUMBERED
