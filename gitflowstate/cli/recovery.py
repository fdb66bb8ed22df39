"""`gfs recover`: what an interruption left behind, the choices, and one decision recorded.

Rule: what has ended on this machine is recorded first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import due, taskops, taskrules
from gitflowstate.cli import config, inputs, losing, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.settled import run
from gitflowstate.cli.verb import writes
from gitflowstate.errors import GfsError, Usage
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow, Task
from gitflowstate.processmodel import RESULT, Process
from gitflowstate.workers import Workers

DECISIONS = KINDS["Decision"].values


@writes
def recover(
    session: Session,
    id: FlowArgument,
    task: Annotated[str | None, typer.Option(metavar="T", help="Decide on this.")] = None,
    decide: Annotated[
        str | None,
        typer.Option(metavar="D", help="retry, done, fail or leave; of a process lost."),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="R", help="Why; recorded.")] = None,
    result: Annotated[str | None, typer.Option(metavar="REF", help="With done.")] = None,
) -> None:
    """Show stale and interrupted tasks and whether their results exist; or decide on one.

    ID may be a process whose machine is gone: --decide lost gives it up, and it is never run again.
    Example: gfs recover f-k2m9qx --task t2 --decide retry --reason 'Nothing was sent'
    """
    losing.settle_left(session)
    if losing.is_process(session, id):
        losing.recover(session, id, decide, reason)
        return
    session.writes = session.writes and decide is not None
    store = session.newest() if session.writes else session.store()
    flow = store.flow(session.flow_id(id))
    workers = Workers(Path(session.location.gitdir))
    if decide is None:
        _show(session, flow, workers)
        return
    if task is None or reason is None:
        raise Usage(
            "a decision needs --task and --reason",
            next=[
                "gfs",
                "recover",
                flow.id,
                "--task",
                "TASK",
                "--decide",
                decide,
                "--reason",
                "REASON",
            ],
        )
    if decide not in DECISIONS:
        raise Usage(f"--decide must be one of {', '.join(DECISIONS)}")
    reason_text, result_text = inputs.text(reason, "--reason"), inputs.text(result, "--result")
    fields: dict[str, Any] = {"task": task, "decide": decide}
    fields |= {"reason": reason_text, "result": result_text}
    op = session.op(taskops.Recover, flow=flow.id, **fields)
    if not session.dry_run and not _is_answered(session, op):
        left = _freed(session, flow, taskrules.task_of(flow, task), workers)
        if session.expect is not None:
            op = op.replace(expect=left.revision)
    run(session, op)


def _is_answered(session: Session, op: taskops.Recover) -> bool:
    """Tell whether this very request was carried out before, under its key."""
    try:
        return op.key is not None and session.store().preview(op).receipt is not None
    except GfsError:
        return False


def _freed(session: Session, flow: Flow, task: Task, workers: Workers) -> Flow:
    """Return the flow once the claim that stands in the way of a decision has ended.

    Raises Stale, naming the holder, where nothing proves that it is dead or its time over.
    """
    if task.claim is None or task.process is not None:
        return flow
    op = taskops.TaskExpire(
        at=config.now(),
        by=session.actor,
        flow=flow.id,
        expect=session.expect,
        task=task.id,
        attempt=task.claim.attempt,
        proof="lock" if workers.is_dead(task.claim.worker) else "time",
        skew_s=session.skew_s,
    )
    return session.store(writing=True).commit(op).flow or flow


# ── what there is to decide ─────────────────────────────────────────────────────────────────────


def _show(session: Session, flow: Flow, workers: Workers) -> None:
    now = config.now()
    states = due.task_states(flow, now)
    rows = []
    serving = losing.serving(session, flow)
    for task in flow.children:
        dead = task.claim is not None and not task.process and workers.is_dead(task.claim.worker)
        if task.id in serving:
            rows.append(_row(flow, task, states[task.id], now) | _held(session, serving[task.id]))
        elif dead or _is_unknown(task, states[task.id]):
            row = _row(flow, task, "stale" if dead else states[task.id], now)
            rows.append(row | losing.orphans(session, task))
    text = "\n".join(_lines(flow, row) for row in rows)
    output.success(
        {"id": flow.id, "tasks": rows},
        text or f"{flow.id}: nothing is stale or interrupted",
        as_json=session.json,
    )


def _is_unknown(task: Task, state: str) -> bool:
    """Tell whether nobody may know how far a task has come."""
    if task.status == "waiting":
        return task.interruptions > 0 or task.on_interrupt == "hold" or task.process is not None
    return state == "stale" or task.status == "running"


def _row(flow: Flow, task: Task, state: str, now: str) -> dict[str, Any]:
    held = task.claim
    return {
        "task": task.id,
        "goal": task.goal,
        "state": state,
        "claimed_by": held.worker if held else None,
        "until": held.until if held else None,
        "age": due.age(held.until if held else flow.updated_at, now),
        "interruptions": task.interruptions,
        "reason": task.waiting.reason if task.waiting else None,
        "result_ref": task.result_ref,
        "result_exists": exists(task.result_ref),
        "decisions": list(DECISIONS),
    }


def _held(session: Session, process: Process) -> dict[str, Any]:
    """Return what is known of the process that holds a task and does not run on this machine."""
    told = losing.row(session, process)
    about = {"id": process.id, "state": process.state, "host": process.host}
    return {"process": about | told, "decisions": []}


def exists(reference: str | None) -> bool | None:
    """Tell whether a reference names a file that is here; None for what is no plain path."""
    if reference is None or "://" in reference or "\0" in reference:
        return None
    if reference.startswith(RESULT):  # what a process wrote, wherever it ran
        return None
    try:
        return Path(reference).exists()
    except (OSError, ValueError):
        return None


_FOUND = {True: "is there", False: "is not there", None: "is not checked"}


def _lines(flow: Flow, row: dict[str, Any]) -> str:
    lines = [f"{row['task']} {row['state']}: {output.line(row['goal'])}"]
    if "process" in row:
        told = row["process"]
        host = output.line(told["host"])
        lines.append(f"  its process {told['id']} is {told['state']} on {host}, {told['age']}")
        lines.append(
            f"  gfs recover {told['id']} --decide {losing.LOST} --reason R, if that is gone"
        )
        return "\n".join(lines)
    if row["claimed_by"]:
        held = f"{output.line(row['claimed_by'])} until {row['until']} ({row['age']})"
        lines.append(f"  claimed by {held}")
    else:
        lines.append(f"  nobody holds it; the flow was changed {row['age']}")
    if "orphans" in row:
        lines.append(f"  {row['orphans']['said']}")
    if row["reason"]:
        lines.append(f"  {output.line(row['reason'])}")
    if row["result_ref"]:
        found = _FOUND[row["result_exists"]]
        lines.append(f"  its result {output.line(row['result_ref'])} {found}")
    choices = "|".join(DECISIONS)
    lines.append(f"  gfs recover {flow.id} --task {row['task']} --decide {choices} --reason R")
    return "\n".join(lines)
