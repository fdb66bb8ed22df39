"""`gfs work`: runs a command for each ready task until none is left."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import prose
from gitflowstate.cli import config, inputs, output
from gitflowstate.cli.flow import FlowArgument
from gitflowstate.cli.idle import Idle
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import Blocked, Usage
from gitflowstate.model import Flow

_SHOWN = 5  # reasons in a message; --json has them all


@reads
def work(
    session: Session,
    id: FlowArgument,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="What to run.")],
    worker: Annotated[str | None, typer.Option(metavar="NAME", help="Who works.")] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="At most N at once.")] = 1,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Leave with 8, not wait.")] = False,
    result_template: Annotated[
        str | None,
        typer.Option(metavar="T", help="The result, from {flow} {id} {attempt}."),
    ] = None,
    lease: Annotated[str, typer.Option(metavar="15m", help="How long a claim lasts.")] = "15m",
) -> None:
    """Claim ready tasks and run a command for each, until none is left; resumes after any crash.

    The command gets the task as JSON on standard input and in GFS_TASK. With exit code 0 the task
    is done, and the last line it printed names the result.
    Example: gfs work f-k2m9qx --jobs 4 -- ./do-task
    """
    from gitflowstate.adapters.command import CommandExecutor
    from gitflowstate.settlement import Settings
    from gitflowstate.worker import Worker
    from gitflowstate.workers import WorkerLock, Workers

    gc.enable()  # this one may live for days
    inputs.command(command)
    if jobs < 1:
        raise Usage("--jobs counts from 1")
    store = session.newest()
    gitdir = Path(session.location.gitdir)
    settings = Settings(
        flow=session.flow_id(id),
        by=session.actor,
        worker=config.mint_worker(worker or session.actor),
        jobs=jobs,
        lease_s=config.seconds_of(lease, "--lease"),
        skew_s=session.skew_s,
        wait=not no_wait,
        warn=output.warn,
    )
    executor = CommandExecutor(command, inputs.text(result_template, "--result-template"))
    with _hang_up_terminates(), WorkerLock(gitdir, settings.worker, settings.flow) as lock:
        idle = Idle(session.location)
        run = Worker(settings, store, executor, config.Clock(), Workers(gitdir), _show, idle)
        try:
            report = run.run()
        finally:
            # What it could not give back, others may take as soon as it has gone.
            lock.keep = bool(run.running)
            output.progress("")
    idle()
    _answer(session, report.flow, report.completed, report.blocked)


@contextmanager
def _hang_up_terminates() -> Iterator[None]:
    """Let a worker whose terminal is closed give back what it holds, unless that is ignored."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_DFL:  # nohup has it ignored
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _answer(session: Session, flow: Flow, completed: int, blocked: list[str]) -> None:
    """Print that all tasks are done. Raises Blocked where some are not, or there is none."""
    left = [task.id for task in flow.children if task.status != "done"]
    data: dict[str, Any] = {"id": flow.id, "revision": flow.revision}
    data |= {"completed": completed, "open": left}
    if left:
        shown = "; ".join(blocked[:_SHOWN])
        more = f"; and {len(blocked) - _SHOWN} more" if len(blocked) > _SHOWN else ""
        raise Blocked(
            f"{flow.id}: {_of(len(left), len(flow.children))} not done: {shown}{more}",
            next=["gfs", "why", flow.id],
            blocked=blocked,
            **data,
        )
    if not flow.children:
        plan = ["gfs", "plan", flow.id, "FILE"]
        raise Blocked(f"{flow.id} has no tasks", next=plan, **data)
    count = len(flow.children)
    every = f"all {count:,} tasks are" if count > 1 else "its one task is"
    text = f"{flow.id} r{flow.revision} {flow.status}: {every} done"
    output.success(data, text, as_json=session.json)


def _of(left: int, count: int) -> str:
    return f"{left:,} of {prose.count(count, 'task')} {'is' if left == 1 else 'are'}"


def _show(flow: Flow, running: int) -> None:
    done = sum(task.status == "done" for task in flow.children)
    failed = sum(task.status == "failed" for task in flow.children)
    rest = f", {failed} failed" if failed else ""
    output.progress(f"{flow.id}: {done}/{len(flow.children)} done, {running} in work{rest}")
