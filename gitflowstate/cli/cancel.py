"""`gfs cancel`: ends a managed process, its group, and what escaped from that."""

from __future__ import annotations

import time
from pathlib import Path

from gitflowstate import identity, processes, runfiles, runlocks, settling, signals
from gitflowstate.cli import config, managed, output
from gitflowstate.cli.logs import ProcessArgument
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import Corrupt, GfsError, Stale, Unavailable
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.running import CONFIRM_S, GRACE_S
from gitflowstate.store import Store

_PATIENCE_S = 15.0  # TERM, grace, KILL, and its record
_POLL_S = 0.02


@reads
def cancel(session: Session, id: ProcessArgument) -> None:
    """End a process: TERM for its group and what escaped from it, KILL a second later.

    What has ended is left as it is (0). What a dead supervisor left running is ended as well, if it
    is still the one that was started. Only the machine it runs on can end it (4).
    Example: gfs cancel p-0a1b2c3d4e5f
    """
    store = session.store()
    process, gitdir = processes.get(store, id), store.repo.gitdir
    repeated = has_ended(process)
    if not repeated:
        if settling.is_elsewhere(gitdir, process):
            raise _elsewhere(process)
        _request(gitdir, process, f"cancelled by {session.actor}")
        process = _recorded(session, process)
    ended = _end_orphans(gitdir, process) if process.state == "lost" else 0
    told = managed.line(process)
    if repeated:
        told += " (it had ended before)"
    if ended:
        told += f"; {ended} of its processes were still running and were ended"
    data = managed.data(process, repeated=repeated, orphans=ended)
    output.success(data, told, as_json=session.json)


def _elsewhere(process: Process) -> Stale:
    return Stale(
        f"{process.id} is {process.state} on {process.host}, as last recorded",
        hint="run gfs cancel there; if that machine is gone, a person records it with gfs recover",
        process=process.id,
        host=process.host,
    )


# ── while its supervisor lives ──────────────────────────────────────────────────────────────────


def _request(gitdir: Path, process: Process, reason: str) -> None:
    """Ask its supervisor, and wait until that has gone or has recorded the end on this machine.

    Raises Unavailable where that takes too long.
    """
    folder = runfiles.run_folder(gitdir, process.id)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        runfiles.cancel(folder, reason)
    except OSError:  # nothing can be written: it is told by a signal
        _tell_supervisor(gitdir, process)
    deadline = time.monotonic() + _PATIENCE_S
    while settling.lives(gitdir, process):
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"{process.id} was asked to end {_PATIENCE_S:g} s ago and has not",
                next=["gfs", "ps"],
                process=process.id,
            )
        time.sleep(_POLL_S)


def _tell_supervisor(gitdir: Path, process: Process) -> None:
    told = runlocks.holder(gitdir, process.id)
    pid, ticks = told.get("pid"), told.get("started")
    if isinstance(pid, int) and isinstance(ticks, str) and ticks.isdecimal():
        identity.send(pid, int(ticks), str(told.get("boot_id")), signals.TERM)


def _recorded(session: Session, process: Process) -> Process:
    """Record the end of a process, or say why that has to wait; return the record.

    Raises Corrupt where how it ended cannot be read: that does not pass by itself.
    """
    try:
        store: Store = session.store(writing=True)
        return settling.awaited(store, process, at=config.now, by=session.actor)
    except Corrupt:
        raise
    except GfsError as error:
        output.warn(f"{process.id} has ended, which is not recorded yet: {error.message}")
        return process


# ── when it has died ────────────────────────────────────────────────────────────────────────────


def _end_orphans(gitdir: Path, process: Process) -> int:
    """End what is left of a process whose supervisor has died; return how many those were.

    Only what is proved to be of this run is signalled: its start, or its environment, says so.
    """
    family = managed.family(gitdir, process)
    found = family.members()
    for number, patience_s in ((signals.TERM, GRACE_S), (signals.KILL, CONFIRM_S)):
        if family.members():
            family.send(number)
        deadline = time.monotonic() + patience_s
        while family.members() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return len(found)
