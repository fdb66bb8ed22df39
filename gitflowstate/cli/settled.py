"""How an op on a task is committed and answered: the flow, the task, and what comes next."""

from __future__ import annotations

from shlex import join
from typing import Any

from gitflowstate import ops, taskops
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.errors import GfsError, Stale
from gitflowstate.model import Flow, Task
from gitflowstate.ops import FlowOp
from gitflowstate.outcomes import Outcome


def run(session: Session, op: FlowOp) -> None:
    """Commit an op on a task and print the flow and the task."""
    if session.dry_run:
        session.write(op)
        return
    outcome = session.store(writing=True).commit(op)
    task = _task(outcome, getattr(op, "task", None))
    data, text = session.outcome_data(outcome), session.outcome_text(outcome)
    if task is not None:
        data |= {"task": task.id, "task_status": task.status}
        text += f": {task.id} {task.status}"
    output.success(data, text, as_json=session.json)


def _task(outcome: Outcome, named: str | None = None) -> Task | None:
    """Return the task that an op was about: the named one, or that which it made or took."""
    flow: Flow | None = outcome.flow
    if flow is None:
        return None
    if named is None:
        op, receipt = outcome.op, outcome.receipt
        made = receipt.made if receipt else op.made_in(flow) if isinstance(op, FlowOp) else ()
        named = next(iter(made), None)
    return next((task for task in flow.children if task.id == named), None)


def commit_claim(session: Session, op: taskops.TaskClaim) -> Outcome:
    """Commit a claim; where it only expired claims of others, try again.

    Raises Stale where the named task now waits for a person, Blocked where no other is ready.
    """
    while True:
        outcome = session.store(writing=True).commit(op)
        if outcome.receipt or (outcome.flow and op.made_in(outcome.flow)):
            return outcome
        op = op.replace(expect=None)  # it has seen the revision that was expected
        if op.task is not None:
            raise Stale(
                f"{op.task} was interrupted and waits for a decision",
                next=["gfs", "recover", op.flow],
            )


def answer_claim(session: Session, outcome: Outcome) -> None:
    """Print the task that was claimed, its attempt, and how it is settled.

    The repeat of a claim under its key is told the same, and whether that claim still stands.
    """
    task, receipt = _task(outcome), outcome.receipt
    attempt = receipt.revision if receipt else outcome.flow and outcome.flow.revision
    data, text = session.outcome_data(outcome), session.outcome_text(outcome)
    flow = data["id"]
    if task is None or task.claim is None or task.claim.attempt != attempt:
        name = task.id if task else next(iter(receipt.made if receipt else ()), None)
        data |= {"task": name, "attempt": attempt, "held": False, "next": ["gfs", "show", flow]}
        text += f": {name} attempt {attempt}, and that claim is over"
        output.success(data, text, as_json=session.json)
        return
    words = ["gfs", "task", "done", flow, task.id, "--attempt", str(attempt), "--result", "REF"]
    following = words + session.addressed()
    data |= {
        "task": task.id,
        "goal": task.goal,
        "attempt": attempt,
        "held": True,
        "worker": task.claim.worker,
        "until": task.claim.until,
        "next": following,
    }
    text += f": {task.id} attempt {attempt} until {task.claim.until}"
    lines = [text, f"goal: {output.line(task.goal)}", f"next: {join(following)}"]
    output.success(data, "\n".join(lines), as_json=session.json)


def keep_result(session: Session, op: taskops.TaskDone, error: Stale) -> None:
    """Keep the result of a holder that lost its claim as a note, while the flow is open."""
    attempt = f" (attempt {op.attempt})"
    text = f"A result for {op.task} came after its claim{attempt} was lost: {op.result}"
    fields: dict[str, Any] = {"at": config.now(), "by": session.actor, "flow": op.flow}
    try:
        session.store(writing=True).commit(ops.Note(**fields, text=text))
    except GfsError:
        return
    error.hint = f"the result was kept as a note; {error.hint}"
