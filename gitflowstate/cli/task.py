"""Work on one task of a flow: add, claim, renew, release, done, fail, wait, resume, retry."""

from __future__ import annotations

from typing import Annotated

import typer

from gitflowstate import taskops
from gitflowstate.cli import config, inputs
from gitflowstate.cli.flow import (
    FlowArgument,
    OnOption,
    ReasonOption,
    ResultOption,
    UntilOption,
)
from gitflowstate.cli.session import Session
from gitflowstate.cli.settled import answer_claim, commit_claim, keep_result, run
from gitflowstate.cli.verb import writes
from gitflowstate.errors import Stale, Usage

LEASE = "2h"  # an agent will not renew

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="The task.")]
AttemptOption = Annotated[
    int | None,
    typer.Option("--attempt", metavar="N", help="The attempt that claim printed."),
]


@writes
def add(
    session: Session,
    id: FlowArgument,
    goal: Annotated[str, typer.Argument(help="What is to be done.")],
    task: Annotated[str | None, typer.Option("--id", help="Its id; t1, t2, … if not.")] = None,
    dep: Annotated[list[str] | None, typer.Option(metavar="TASK", help="Needs this.")] = None,
    priority: Annotated[int, typer.Option(metavar="N", help="Higher goes first.")] = 0,
    not_before: Annotated[str | None, typer.Option(metavar="TIME", help="Not before.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="30m", help="At most so long.")] = None,
    max_attempts: Annotated[int, typer.Option(metavar="N", help="Failures until it fails.")] = 3,
    on_interrupt: Annotated[str, typer.Option(help="rerun, or hold for a person.")] = "rerun",
) -> None:
    """Add a task to a flow.

    Example: gfs task add f-k2m9qx 'Compare costs' --dep t1
    """
    op = session.op(
        taskops.TaskAdd,
        derived=("not_before",),
        asked={"not_before": not_before},
        flow=session.flow_id(id),
        task=task,
        goal=inputs.text(goal, "GOAL"),
        deps=tuple(dep or ()),
        priority=priority,
        not_before=config.time_of(not_before, "--not-before"),
        timeout_s=None if timeout is None else config.seconds_of(timeout, "--timeout"),
        max_attempts=max_attempts,
        on_interrupt=on_interrupt,
    )
    run(session, op)


@writes
def claim(
    session: Session,
    id: FlowArgument,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="The task.")] = None,
    following: Annotated[bool, typer.Option("--next", help="The first that is ready.")] = False,
    lease: Annotated[str, typer.Option(metavar="2h", help="For how long.")] = LEASE,
    worker: Annotated[str | None, typer.Option(metavar="NAME", help="Who works.")] = None,
) -> None:
    """Take the right to work on a task; prints the attempt that done wants.

    Example: gfs task claim f-k2m9qx --next
    """
    if (task is None) != following:
        raise Usage(
            "claim takes a TASK or --next, not both", next=["gfs", "task", "claim", "ID", "--next"]
        )
    lease_s = config.seconds_of(lease, "--lease")
    op = session.op(
        taskops.TaskClaim,
        derived=("worker", "until", "skew_s"),
        asked={"lease": lease_s, "name": worker},
        flow=session.flow_id(id),
        task=task,
        worker=config.mint_worker(worker or session.actor),
        until=config.later(lease_s),
        skew_s=session.skew_s,
    )
    if session.dry_run:
        session.write(op)
        return
    answer_claim(session, commit_claim(session, op))


@writes
def renew(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    attempt: AttemptOption = None,
    lease: Annotated[str, typer.Option(metavar="2h", help="For how long from now.")] = LEASE,
) -> None:
    """Hold a claim for longer.

    Example: gfs task renew f-k2m9qx t2 --lease 4h
    """
    lease_s = config.seconds_of(lease, "--lease")
    op = session.op(
        taskops.TaskRenew,
        derived=("until",),
        asked={"lease": lease_s},
        flow=session.flow_id(id),
        task=task,
        attempt=attempt,
        until=config.later(lease_s),
    )
    run(session, op)


@writes
def release(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    attempt: AttemptOption = None,
) -> None:
    """Give a claim back with nothing done, so that another may take the task.

    Example: gfs task release f-k2m9qx t2
    """
    flow = session.flow_id(id)
    run(session, session.op(taskops.TaskRelease, flow=flow, task=task, attempt=attempt))


@writes
def done(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    result: ResultOption,
    attempt: AttemptOption = None,
) -> None:
    """Record that a task is complete, and where its result is.

    A result that comes after its claim was lost is refused, and kept as a note.
    Example: gfs task done f-k2m9qx t2 --attempt 7 --result notes/costs.md
    """
    op = session.op(
        taskops.TaskDone,
        flow=session.flow_id(id),
        task=task,
        result=inputs.text(result, "--result"),
        attempt=attempt,
    )
    try:
        run(session, op)
    except Stale as error:
        if error.details.get("lost") and not session.dry_run:
            keep_result(session, op, error)
        raise


@writes
def fail(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    reason: ReasonOption,
    attempt: AttemptOption = None,
) -> None:
    """Record that a task has failed; gfs task retry makes it pending again.

    Example: gfs task fail f-k2m9qx t2 --reason 'The source is gone'
    """
    op = session.op(
        taskops.TaskFail,
        flow=session.flow_id(id),
        task=task,
        reason=inputs.text(reason, "--reason"),
        attempt=attempt,
    )
    run(session, op)


@writes
def wait(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    reason: ReasonOption,
    until: UntilOption,
    on: OnOption = "human",
    attempt: AttemptOption = None,
) -> None:
    """Record that a task cannot go on, and what it needs.

    Example: gfs task wait f-k2m9qx t2 --reason 'No access' --until 'Ana grants it'
    """
    op = session.op(
        taskops.TaskWait,
        flow=session.flow_id(id),
        task=task,
        reason=inputs.text(reason, "--reason"),
        until=inputs.text(until, "--until"),
        on=on,
        attempt=attempt,
    )
    run(session, op)


@writes
def resume(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
) -> None:
    """Make a waiting task pending again.

    Example: gfs task resume f-k2m9qx t2
    """
    run(session, session.op(taskops.TaskResume, flow=session.flow_id(id), task=task))


@writes
def retry(
    session: Session,
    id: FlowArgument,
    task: TaskArgument,
    reason: ReasonOption,
) -> None:
    """Make a failed or waiting task pending again, with its failures forgotten.

    Example: gfs task retry f-k2m9qx t2 --reason 'The source is back'
    """
    reason_text = inputs.text(reason, "--reason")
    flow = session.flow_id(id)
    run(session, session.op(taskops.TaskRetry, flow=flow, task=task, reason=reason_text))
