"""`gfs recover`: what an interruption left behind, the choices, and one decision recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gitflowstate import due, taskops, taskrules
from gitflowstate.cli import config, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.task import run
from gitflowstate.cli.verb import writes
from gitflowstate.errors import Usage
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow, Task


@writes
def recover(
    session: Session,
    id: FlowArgument,  # noqa: A002
    task: Annotated[Optional[str], typer.Option(metavar="T", help="Decide on this.")] = None,  # noqa: UP045
    decide: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="D", help="retry, done, fail or leave."),
    ] = None,
    reason: Annotated[Optional[str], typer.Option(metavar="R", help="Why; recorded.")] = None,  # noqa: UP045
    result: Annotated[Optional[str], typer.Option(metavar="REF", help="With done.")] = None,  # noqa: UP045
) -> None:
    """Show stale and interrupted tasks and whether their results exist; or decide on one.

    Example: gfs recover f-k2m9qx --task t2 --decide retry --reason 'Nothing was sent'
    """
    session.writes = session.writes and decide is not None
    flow = session.store(writing=session.writes).flow(session.flow_id(id))
    if decide is None:
        _show(session, flow)
        return
    if task is None or reason is None:
        raise Usage(
            "a decision needs --task and --reason",
            hint=f"gfs recover {flow.id} --task TASK --decide {decide} --reason REASON",
        )
    if not KINDS["Decision"].accepts(decide):
        raise Usage(f"--decide must be {KINDS['Decision'].rule}")
    taskrules.task_of(flow, task)
    op = session.op(
        taskops.Recover,
        flow=flow.id,
        task=task,
        decide=decide,
        reason=config.text(reason, "--reason"),
        result=config.text(result, "--result"),
    )
    run(session, op)


def _show(session: Session, flow: Flow) -> None:
    now = config.now()
    states = due.task_states(flow, now)
    rows = [
        _row(task, states[task.id], now)
        for task in flow.children
        if states[task.id] == "stale"
        or (task.status == "waiting" and task.interruptions)
        or task.status == "running"
    ]
    data = {"id": flow.id, "tasks": rows}
    lines = [_line(flow, row) for row in rows]
    text = "\n".join(lines) or f"{flow.id}: nothing is stale or interrupted"
    output.success(data, text, as_json=session.json)


def _row(task: Task, state: str, now: str) -> dict[str, Any]:
    held = task.claim
    return {
        "task": task.id,
        "goal": task.goal,
        "state": state,
        "claimed_by": held.worker if held else None,
        "until": held.until if held else None,
        "age": due.age(held.until, now) if held else None,
        "reason": task.waiting.reason if task.waiting else None,
        "result_ref": task.result_ref,
        "result_exists": exists(task.result_ref),
        "decisions": ["retry", "done", "fail", "leave"],
    }


def exists(reference: str | None) -> bool | None:
    """Tell whether a reference names a file that is here; None for what is no plain path."""
    if reference is None or "://" in reference or "\0" in reference:
        return None
    try:
        return Path(reference).exists()
    except (OSError, ValueError):
        return None


_FOUND = {True: "is there", False: "is not there", None: "is not checked"}


def _line(flow: Flow, row: dict[str, Any]) -> str:
    parts = [f"{row['task']} {row['state']}: {output.line(row['goal'])}"]
    if row["claimed_by"]:
        parts.append(f"  claimed by {row['claimed_by']} until {row['until']} ({row['age']})")
    if row["reason"]:
        parts.append(f"  {output.line(row['reason'])}")
    if row["result_ref"]:
        found = _FOUND[row["result_exists"]]
        parts.append(f"  its result {output.line(row['result_ref'])} {found}")
    parts.append(
        f"  gfs recover {flow.id} --task {row['task']} --decide retry|done|fail|leave --reason R"
    )
    return "\n".join(parts)
