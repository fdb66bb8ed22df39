"""`gfs ps`: the processes that were started, as recorded and as this machine knows better."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import due, outputs, processes, settling
from gitflowstate.cli import config, managed, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt
from gitflowstate.inboxstore import InboxStore, Marks
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.runfiles import Exit

_COMMAND = 60  # columns


@reads
def ps(
    session: Session,
    of: Annotated[
        str | None, typer.Option("--session", metavar="S", help="Only this session's.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
) -> None:
    """List the processes that have not ended, of every session, with age and last output.

    What is recorded of another host is shown with its age. It only reads: gfs inbox records what
    has ended meanwhile.
    Example: gfs ps --all
    """
    store = session.store()
    wanted = None if of is None else config.process_session(of)
    found = [*processes.listing(store, wanted)]
    for item in found:
        if isinstance(item, Broken):
            output.warn(item.said)
    shown = [p for p in found if isinstance(p, Process) and (every or not has_ended(p))]
    shown.sort(key=lambda process: (process.created_at, process.id))
    marks = InboxStore(store.repo, store.timeout).everyone()
    now = config.now()
    rows = [row(store.repo.gitdir, process, marks, now) for process in shown]
    text = "\n".join(line(process, told) for process, told in zip(shown, rows, strict=True))
    nothing = "no process has ended yet" if every else "no process runs; gfs ps --all has the ended"
    broken = [{"path": i.path, "message": i.error.message} for i in found if isinstance(i, Broken)]
    data = {"processes": rows, "unusable": broken}
    output.success(data, text or nothing, as_json=session.json)


def row(gitdir: Path, process: Process, marks: Marks, now: str) -> dict[str, Any]:
    """Return what is known of a process: its record, and what only this machine can tell.

    `ended`, `delivered` and `seen` are three facts; the last two are of whichever session it was.
    """
    mark = marks.get(process.id, {})
    told = {"ended": has_ended(process)}
    told |= {name: name in mark or process.returned for name in ("delivered", "seen")}
    about = process.finished_at or process.started_at or process.created_at
    return managed.data(
        process,
        age=due.age(about, now),
        **_known(gitdir, process),
        output=output_of(gitdir, process, now),
        told=told,
    )


def _known(gitdir: Path, process: Process) -> dict[str, Any]:
    """Return what this machine alone knows of a process that is not recorded as ended yet.

    `unrecorded` is the state in which it ended meanwhile; a record of that which cannot be read is
    warned of, and hides no other process.
    """
    found = {"unrecorded": None, "elsewhere": False}
    if has_ended(process):
        return found
    try:
        fate = settling.fate(gitdir, process)
        found["elsewhere"] = settling.is_elsewhere(gitdir, process)
    except Corrupt as error:
        output.warn(f"{error.message}; {error.hint}")
        return found
    return found | {"unrecorded": fate.state if isinstance(fate, Exit) else fate and "lost"}


def output_of(gitdir: Path, process: Process, now: str) -> dict[str, Any]:
    """Return where the output of a process is, how much it is, and how old the last of it."""
    if not outputs.is_kept(gitdir, process.id):
        where = "expired" if process.output_ref and _is_of_here(process) else "elsewhere"
        where = where if process.output_bytes or not has_ended(process) else "none"
        return {"kept": False, "where": where, "bytes": process.output_bytes, "last": None}
    kept = outputs.kept(gitdir, process.id)
    last = None
    if kept.last_at is not None:
        stamp = datetime.fromtimestamp(kept.last_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        last = due.age(stamp, now)
    return {"kept": True, "where": "here", "bytes": kept.total, "last": last}


def _is_of_here(process: Process) -> bool:
    import socket

    return process.host == socket.gethostname()


def line(process: Process, told: dict[str, Any]) -> str:
    """Return a process on one line."""
    words = output.line(" ".join(process.argv))
    command = words if len(words) <= _COMMAND else f"{words[: _COMMAND - 3]}..."
    said = f"{managed.line(process)}, {told['age']}"
    if told["unrecorded"]:
        said += f" ({told['unrecorded']} meanwhile: gfs inbox records it)"
    elif told["elsewhere"]:
        said += f" (on {output.line(process.host)}, as last recorded)"
    last = told["output"]["last"]
    parts = [said, command]
    parts += [f"task {process.task} of {process.flow}"] if process.task else []
    parts += [f"flow {process.flow}"] if process.flow and not process.task else []
    parts += [f"session {output.line(process.session_id)}"]
    parts += [f"last output {last}"] if last and not told["told"]["ended"] else []
    return "; ".join(map(output.line, parts))
