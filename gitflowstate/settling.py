"""What became of a process whose end nobody recorded, as this machine's files tell it.

Rules: the record of its supervisor is the truth; without one, a lock that nobody holds means
`lost`, and so does another boot of this host; in all else nothing is known, and nothing is
recorded. A host is not known by its name alone where others share the flows: two may have the same.
Nothing is ever adopted, and nothing is started again (architecture, section 3; C-12).
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gitflowstate import identity, processes, runfiles, runlocks
from gitflowstate.errors import Corrupt
from gitflowstate.kinds import Time
from gitflowstate.location import REMOTE
from gitflowstate.processes import End, Identity
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.runfiles import Exit
from gitflowstate.store import Store

DIED = "its supervisor died before it had recorded an end"
PATIENCE_S = 1.0
_POLL_S = 0.02
RESTARTED = "its host was started again before an end was recorded"


def settle(store: Store, process: Process, *, at: Time, by: str) -> Process:
    """Record how a process ended if this machine can tell; return the record as it stands then.

    Raises Corrupt where the record of its end is there and cannot be read.
    """
    if has_ended(process):
        return process
    told = fate(store.repo.gitdir, process)
    if told is None:
        return process
    if isinstance(told, Exit):
        after = processes.settled(store, process, end(told, process.id), at=at, by=by)
    else:
        after = processes.lost(store, process, told, at=at, by=by)
    runlocks.forget(store.repo.gitdir, process.id)
    return after


def fate(gitdir: Path, process: Process) -> Exit | str | None:
    """Return how a process ended, why it counts as lost, or None while it may be alive.

    Raises Corrupt where the record of its end is there and cannot be read.
    """
    try:
        told = runfiles.fate(gitdir, process.id)
    except (OSError, ValueError) as error:
        path = f"{runfiles.run_folder(gitdir, process.id)}/{runfiles.EXIT}"
        raise Corrupt(
            f"the record of how {process.id} ended cannot be read: {error}",
            hint=f"call a person: it was left as it is; gfs recover {process.id} --decide lost "
            "--reason R gives the process up",
            next=["gfs", "recover", process.id, "--decide", "lost", "--reason", "REASON"],
            path=path,
        ) from error
    if isinstance(told, Exit):
        if _is_of(told, process):
            return told
        told = False  # not written by its supervisor
    if process.boot_id == identity.boot_id():
        return DIED if told is False and not _is_anothers(gitdir, process) else None
    return RESTARTED if _was_here(gitdir, process) else None


def _is_anothers(gitdir: Path, process: Process) -> bool:
    """Tell whether a process that runs was started through another clone on this machine.

    Then the lock here is that of a client which died before it could start the same call.
    """
    folder = runfiles.run_folder(gitdir, process.id)  # is there before a start is recorded
    return process.state == "running" and _is_shared(gitdir) and not os.path.lexists(folder)


def _was_here(gitdir: Path, process: Process) -> bool:
    """Tell whether a process of another boot was one of this host.

    Where there is a remote its name may be another's as well: a lock or a folder shows that it was.
    """
    if process.host != socket.gethostname():
        return False
    left = runlocks.lock_path(gitdir, process.id), runfiles.run_folder(gitdir, process.id)
    return not _is_shared(gitdir) or any(map(os.path.lexists, left))


def _is_shared(gitdir: Path) -> bool:
    return os.path.lexists(gitdir / REMOTE)


def _is_of(told: Exit, process: Process) -> bool:
    """Tell whether a record is of the command that was recorded as started, if one was."""
    return process.pid is None or (told.pid, told.ticks) == (process.pid, process.ticks)


def lives(gitdir: Path, process: Process) -> bool:
    """Tell whether a process has a supervisor on this machine, so that its end may yet come."""
    return runlocks.is_held(runlocks.lock_path(gitdir, process.id)) is True


def is_elsewhere(gitdir: Path, process: Process) -> bool:
    """Tell whether a process that has not ended may live where this machine cannot see it."""
    return not lives(gitdir, process) and fate(gitdir, process) is None


def awaited(store: Store, process: Process, *, at: Callable[[], Time], by: str) -> Process:
    """Return the record of a process that has ended, once it says so.

    Whoever has started it records that while its lock is held; what is not recorded then, or not
    soon, is recorded here.
    """
    deadline = time.monotonic() + PATIENCE_S
    path = runlocks.lock_path(store.repo.gitdir, process.id)
    while True:
        held = runlocks.is_held(path)  # before the record, which is older than a free lock
        found = processes.find_by_id(store, process.session_id, process.id)
        if found is not None and has_ended(found):
            return found
        if not held or time.monotonic() >= deadline:
            return settle(store, process, at=at(), by=by)
        time.sleep(_POLL_S)


def settle_left(store: Store, *, at: Time, by: str) -> list[Process]:
    """Record the ends of all processes that left a lock here which nobody holds; return them.

    What cannot be read is left for the verb that is about it.
    """
    settled = []
    for process in runlocks.left(store.repo.gitdir):
        session = runlocks.holder(store.repo.gitdir, process).get("session")
        found = None
        with suppress(Corrupt):
            if isinstance(session, str):
                found = processes.find_by_id(store, session, process)
            if found is None or has_ended(found):
                runlocks.forget(store.repo.gitdir, process)
            else:
                settled.append(settle(store, found, at=at, by=by))
    return settled


def end(told: Exit, process: str, *, returned: bool = False) -> End:
    """Return the recorded end of a process as the facade takes it."""
    return End(
        state=told.state,  # type: ignore[arg-type]  # the op is checked
        finished_at=told.finished_at,
        exit_code=told.exit_code,
        signal=None if told.signal is None else signal_name(told.signal),
        sent=told.sent,
        reason=told.reason,
        output_ref=runfiles.output_ref(process) if told.output_bytes else None,
        output_bytes=told.output_bytes,
        output_truncated=told.output_truncated,
        identity=_identity(told),
        returned=returned,
    )


def _identity(told: Exit) -> Identity | None:
    if told.pid is None or told.ticks is None or told.started_at is None:
        return None
    return Identity(told.pid, told.ticks, told.started_at)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
