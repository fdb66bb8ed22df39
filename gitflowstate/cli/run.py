"""`gfs run`: starts a managed process under a supervisor, and passes through what comes of it."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from gitflowstate import outputs, processes, settling
from gitflowstate.cli import config, inputs, managed, output, telling
from gitflowstate.cli.launch import Begun, Launch
from gitflowstate.cli.session import Session
from gitflowstate.cli.telling import Reader
from gitflowstate.cli.verb import reads
from gitflowstate.errors import INTERRUPTED, TERMINATED, Blocked, GfsError, Unavailable, Uncertain
from gitflowstate.processmodel import Process, has_ended


@reads
def run(
    session: Session,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="What to run.")],
    of: Annotated[
        str | None,
        typer.Option("--session", metavar="S", help="Whose it is: GFS_SESSION, then local."),
    ] = None,
    call_id: Annotated[
        str | None, typer.Option(metavar="C", help="The same again starts nothing.")
    ] = None,
    flow: Annotated[str | None, typer.Option(metavar="F", help="For this flow.")] = None,
    task: Annotated[str | None, typer.Option(metavar="T", help="Claims and settles it.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="30m", help="Ended after that.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running.")] = False,
    manual: Annotated[bool, typer.Option("--manual", help="Its end notifies nobody.")] = False,
    allow_secret: Annotated[
        str | None,
        typer.Option("--allow-secret", metavar="REASON", help="For a false alarm; recorded."),
    ] = None,
) -> int:
    """Start a process whose facts outlive the agent; pass its output and exit code through.

    Its start is recorded before it exists, its end when it has ended, whoever has died meanwhile.
    The same --call-id of a session again gives the same record, and is never run twice. It reads
    nothing; under --json its output is only captured. Killing this command changes nothing for it.
    Example: gfs run --call-id build-1 --detach -- make all
    """
    gc.enable()  # as long as the process does
    wanted = processes.Wanted(
        session=config.process_session(of),
        argv=inputs.command(command),
        cwd=str(config.working_folder()),
        call_id=inputs.text(call_id, "--call-id"),
        notify="manual" if manual else "on_exit",
        timeout_s=None if timeout is None else config.seconds_of(timeout, "--timeout"),
        flow=None if flow is None else session.flow_id(flow),
        task=task,
        allow_secret=allow_secret,
    )
    launch = Launch(session, wanted, passing=not (detach or session.json))
    try:
        begun = launch.begin()
    except (KeyboardInterrupt, SystemExit) as leaving:
        recorded = launch.interrupted()
        if recorded is None:  # nothing was started
            raise
        raise _interrupted(recorded, leaving) from None
    repeated = begun.supervised is None
    try:
        if detach:
            return _left(session, begun.process, repeated=repeated)
        if repeated:
            process = _repeated(session, begun.process, launch.reader)
        else:
            process = _awaited(launch, begun)
    except (KeyboardInterrupt, SystemExit) as leaving:
        raise _interrupted(begun.process, leaving) from None
    finally:
        if begun.supervised:
            begun.supervised.close()
    code = _answered(session, process, launch.reader, repeated=repeated)
    if launch.reader.is_there():
        telling.mark_told(session, launch.store, process)
    return managed.whole(code, process, *launch.reader.passed)


def _left(session: Session, process: Process, *, repeated: bool) -> int:
    hint = "" if has_ended(process) else f"\nnext: gfs logs {process.id} -f"
    data = managed.data(process, repeated=repeated)
    output.success(data, managed.line(process) + hint, as_json=session.json)
    return 0


def _awaited(launch: Launch, begun: Begun) -> Process:
    """Wait for a process that was started here; return its record, recorded or not."""
    try:
        return launch.end(begun)
    except GfsError as error:
        known = f" ({launch.outcome})" if launch.outcome else ""
        said = f"{begun.process.id}: its end is not recorded yet{known}"
        error.message = f"{said}: {error.message}"
        error.hint = "gfs inbox records it; gfs ps shows it"
        if not launch.gitdir.exists():
            error.hint = "its repository has gone, and what is recorded there with it"
        error.details["process"] = begun.process.id
        raise


def _repeated(session: Session, process: Process, reader: Reader) -> Process:
    """Wait for a process that was started by the same call before, and show what it wrote."""
    store = session.store(writing=True)
    if not has_ended(process) and settling.is_elsewhere(store.repo.gitdir, process):
        raise Blocked(
            f"{process.id} was started on {process.host}: it is {process.state}, as last recorded",
            next=["gfs", "ps", "--all"],
            process=process.id,
        )
    show = reader.sink("stdout")
    for piece in managed.follow(store.repo.gitdir, process):
        if not session.json:
            show(piece.data)
    return settling.awaited(store, process, at=config.now, by=session.actor)


def _answered(session: Session, process: Process, reader: Reader, *, repeated: bool) -> int:
    """Say what became of a process; return the exit code. Raises Uncertain if nobody knows."""
    if not has_ended(process):
        raise Unavailable(
            f"{process.id} is {process.state}: its end is not recorded yet",
            hint="run the same command again",
            process=process.id,
        )
    if process.state == "lost":
        raise Uncertain(
            f"{process.id} is lost: {process.reason}",
            hint="look at what it was to do; it is not run again under this call id",
            process=process.id,
        )
    if session.json:
        tail = outputs.tail(session.store().repo.gitdir, process.id, managed.SHOWN_BYTES)
        data = managed.data(process, repeated=repeated, output=tail)
        reader.heed(taken=output.success(data, "", as_json=True))
    elif process.reason:
        output.aside(managed.line(process))
    return managed.code(process)


def _interrupted(process: Process, leaving: KeyboardInterrupt | SystemExit) -> GfsError:
    terminated = isinstance(leaving, SystemExit) and leaving.code == TERMINATED
    name, code = ("terminated", TERMINATED) if terminated else ("interrupted", INTERRUPTED)
    following = ["gfs", "cancel", process.id]
    said, hint = "goes on", f"{' '.join(following)} ends it; gfs logs {process.id} -f shows it"
    if process.state == "starting":
        said = "is being started, and may go on"
    elif has_ended(process):
        following = ["gfs", "ps", "--all"]
        said, hint = f"is {process.state}", f"{' '.join(following)} shows what is recorded"
    error = GfsError(f"{name}; {process.id} {said}", hint=hint, next=following, process=process.id)
    error.code, error.name = code, name
    return error
