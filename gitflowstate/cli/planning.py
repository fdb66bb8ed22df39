"""The verbs of a flow's graph: plan, next, why, graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from gitflowstate import codec, due, model, taskops, taskrules
from gitflowstate import graph as graphs
from gitflowstate.cli import config, inputs, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads, writes
from gitflowstate.errors import Usage

MAX_INDENT = 16  # levels that `why` shows by indenting; a long chain would fill the screen with it


def plan_from(file: str, flow: str) -> model.Plan:
    """Return the plan that a file holds: a list of tasks, or an object with `tasks`.

    Raises Invalid with every violation.
    """
    from gitflowstate import boundary

    raw = codec.load(inputs.read_file(file, "FILE"))
    given = raw if isinstance(raw, dict) else {"tasks": raw}
    return boundary.validate(model.Plan, {"schema_version": 1, "flow": flow} | given)


@writes
def plan(
    session: Session,
    id: FlowArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON: tasks and deps; - is stdin.")],
    replace: Annotated[bool, typer.Option("--replace", help="In place of the present.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="R", help="Why.")] = None,
    keep_done: Annotated[bool, typer.Option("--keep-done", help="Keep what is done.")] = False,
    cancel_children: Annotated[
        bool, typer.Option("--cancel-children", help="Although tasks are in work.")
    ] = False,
) -> None:
    """Store the graph of tasks, once, before any of it runs.

    The file is {"tasks": [{"id": "t1", "goal": "…"}, {"id": "t2", "goal": "…", "deps": ["t1"]}]}.
    Example: gfs plan f-k2m9qx plan.json
    """
    flow = session.flow_id(id)
    op = session.op(
        taskops.Plan,
        flow=flow,
        document=plan_from(file, flow),
        replace_plan=replace,
        reason=inputs.text(reason, "--reason"),
        keep_done=keep_done,
        cancel_children=cancel_children,
    )
    session.write(op, hint=f"next: gfs next {flow}")


@reads
def next_(
    session: Session,
    id: FlowArgument,
) -> None:
    """List the tasks that are ready, the first to take at the top.

    Example: gfs next f-k2m9qx
    """
    flow = session.store().flow(session.flow_id(id))
    found = graphs.ready(flow, config.now())
    tasks = [{"id": t.id, "goal": t.goal, "priority": t.priority} for t in found]
    text = "\n".join(f"{t.id}  {output.line(t.goal)}" for t in found)
    if not found:
        text = f"nothing is ready in {flow.id}: gfs why {flow.id}"
    output.success({"id": flow.id, "ready": tasks}, text, as_json=session.json)


@reads
def why(
    session: Session,
    id: FlowArgument,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Which.")] = None,
) -> None:
    """Say what a task waits for, down to the tasks that block it; or all that is not ready.

    Example: gfs why f-k2m9qx t4
    """
    flow, now = session.store().flow(session.flow_id(id)), config.now()
    found: Iterable[tuple[int, model.Task, list[graphs.Blocker]]]
    if task is None:
        found = ((0, *pair) for pair in graphs.unfinished(flow, now))
    else:
        found = graphs.chain(flow, taskrules.task_of(flow, task), now)
    from gitflowstate import phrases

    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    for depth, current, blockers in found:
        reasons = "; ".join(b.text for b in blockers) or "is ready"
        left = _left_running(session, current)
        reasons += f"; {left['orphans']['said']}" if left else ""
        lines.append(f"{'  ' * min(depth, MAX_INDENT)}{current.id}: {output.line(reasons)}")
        why = {"why": [blocker._asdict() for blocker in blockers]} | left
        rows.append({"task": current.id, "depth": depth} | why)
    nothing = f"every task of {flow.id} is done" if flow.children else f"{flow.id} has no tasks"
    states = due.task_states(flow, now)
    # A chain is told from its beginning, whatever the states are.
    urgent = [states[row["task"]] if task is None else "" for row in rows]
    shown = phrases.within(lines, urgent)
    hidden = len(lines) - len(shown)
    lines = [lines[place] for place in shown]
    lines += (
        [f"{hidden:,} more: {' '.join(filter(None, ('gfs why', flow.id, task)))} --json"]
        if hidden
        else []
    )
    output.success({"id": flow.id, "why": rows}, "\n".join(lines) or nothing, as_json=session.json)


def _left_running(session: Session, task: model.Task) -> dict[str, Any]:
    if task.process is None:
        return {}
    from gitflowstate.cli import losing

    return losing.orphans(session, task)


@reads
def graph(
    session: Session,
    id: FlowArgument,
    form: Annotated[str, typer.Option("--format", help="text, mermaid or dot.")] = "text",
) -> None:
    """Draw the graph: as text, Mermaid or dot.

    Example: gfs graph f-k2m9qx --format mermaid
    """
    from gitflowstate import drawing

    flow = session.store().flow(session.flow_id(id))
    draw = drawing.FORMS.get(form)
    if draw is None:
        raise Usage(f"--format must be one of {', '.join(drawing.FORMS)}")
    text = draw(flow, due.task_states(flow, config.now()))
    data = {"id": flow.id, "format": form, "graph": text}
    output.success(data, text or f"{flow.id} has no tasks", as_json=session.json)
