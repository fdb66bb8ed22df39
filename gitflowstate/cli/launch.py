"""How a managed process begins and ends: lock and slot, intent, command, start, `go`, its end.

Rules: in this order, and each is durable before the next; nothing is started for a call that has a
record already. A supervisor begins beside the intent, and knows of no command before that is
durable. Whatever keeps the start from being recorded keeps the command from being executed.
What this dies of changes nothing: the supervisor goes on, and records what is not recorded yet.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gitflowstate import identity, outputs, processes, runfiles, runlocks, settling
from gitflowstate.adapters.process import ROOT, Reserved, Supervised
from gitflowstate.cli import config
from gitflowstate.cli.session import Session
from gitflowstate.cli.telling import Reader
from gitflowstate.errors import GfsError, Unavailable, Uncertain
from gitflowstate.processes import End, Identity, Intended, Wanted
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.store import Store
from gitflowstate.syscalls import reported

_POLL_S = 0.02


def _search_path(cwd: str) -> list[str]:
    """Return where a supervisor may import from: never the folder that its command is run in."""
    here = os.path.realpath(cwd)
    kept = [
        path for path in sys.path if Path(path).is_absolute() and os.path.realpath(path) != here
    ]
    return [*kept, ROOT]  # also where this package itself is in that folder


class Begun(NamedTuple):
    """The record of a call, and its supervisor where this is what started it."""

    process: Process
    supervised: Supervised | None


class Launch:
    """One call of a session, whose process is started at most once, here or elsewhere."""

    def __init__(self, session: Session, wanted: Wanted, *, passing: bool) -> None:
        self.reader = Reader()
        self.outcome = ""  # how it ended, once that is known
        self.session = session
        self.store: Store = session.store(writing=True)
        self.wanted = wanted
        self.passing = passing
        self.gitdir = self.store.repo.gitdir
        self.id = wanted.mint()

    def begin(self) -> Begun:
        """Return the process of the call, started unless there is a record of it.

        Raises what `processes.intend` raises, Unavailable where every slot is taken, and what keeps
        the repository from being written: then nothing was started.
        """
        if self._is_known():
            return self._again(self._intended().process)
        # What has ended meanwhile is recorded before anything is started.
        settling.settle_left(self.store, **self._stamp())
        with Reserved(self.gitdir, self.id, self.wanted.session) as reserved:
            if self._has_taken(reserved):
                begun = self._begun(reserved)
                if begun:
                    return begun
        return self._again(self._intended().process)

    def interrupted(self) -> Process | None:
        """Return what is recorded of the call once `begin` was interrupted, None for nothing.

        What nobody holds, and does not run yet, never will: it has failed.
        """
        with suppress(GfsError):
            process = processes.find_by_id(self.store, self.wanted.session, self.id)
            held = runlocks.is_held(runlocks.lock_path(self.gitdir, self.id))
            if process is not None and process.state == "starting" and held is False:
                self._never_started(process, GfsError("interrupted"))
            return processes.find_by_id(self.store, self.wanted.session, self.id)
        return None

    def _is_known(self) -> bool:
        if self.wanted.call_id is None:
            return False
        return processes.find_by_id(self.store, self.wanted.session, self.id) is not None

    def _again(self, process: Process) -> Begun:
        return Begun(settling.settle(self.store, process, **self._stamp()), None)

    def _stamp(self) -> dict[str, str]:
        return {"at": config.now(), "by": self.session.actor}

    def _has_taken(self, reserved: Reserved) -> bool:
        """Take lock and slot; False where somebody else starts the same call meanwhile."""
        deadline = time.monotonic() + self.store.timeout
        while not reserved.take():
            if self._is_known():
                return False
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{reserved.path} is held by another process", hint="run it again"
                )
            time.sleep(_POLL_S)
        return True

    def _clear(self) -> None:
        """Remove what a run left here whose record is gone: its end is not that of this one."""
        if outputs.is_kept(self.gitdir, self.id) and not self._is_known():
            outputs.expire(self.gitdir, self.id)

    def _intended(self) -> Intended:
        here = {"host": socket.gethostname(), "boot_id": identity.boot_id()}
        return processes.intend(self.store, self.wanted, self.id, **here, **self._stamp())

    # ── a new one ───────────────────────────────────────────────────────────────────────────────

    def _begun(self, reserved: Reserved) -> Begun | None:
        """Record the intent and start the process; None where there is a record meanwhile."""
        self._clear()
        with reported("start", sys.executable):
            supervised = Supervised(reserved, passing=self.passing)
        fresh = False
        try:
            process, fresh = self._intended()
        except Uncertain:
            raise  # it may be recorded, and then the lock tells that it came to nothing
        except GfsError:
            self._withdraw(reserved)
            raise
        finally:
            if not fresh:
                supervised.discard()
        if not fresh:
            self._withdraw(reserved, ended=has_ended(process))
            return None
        self._ask(process, supervised, reserved)
        try:
            return Begun(self._started(process, supervised), supervised)
        except GfsError:
            supervised.close()
            raise

    @staticmethod
    def _withdraw(reserved: Reserved, *, ended: bool = False) -> None:
        """Leave no lock of ours for a call that another host started: it would tell its death."""
        if ended or reserved.made:
            reserved.drop()

    def _ask(self, process: Process, supervised: Supervised, reserved: Reserved) -> None:
        """Ask for the process that was intended; what keeps it from that has it never started."""
        folder = runfiles.run_folder(self.gitdir, self.id)
        try:
            with reported("make", folder):
                # Somebody may have asked already that it be cancelled.
                Path(folder).mkdir(parents=True, exist_ok=True)
            request = self._request(folder)
        except BaseException as error:
            supervised.discard()
            if isinstance(error, GfsError):
                self._never_started(process, error)
            raise
        supervised.ask(request | {"holder": reserved.told})

    def _started(self, process: Process, supervised: Supervised) -> Process:
        blocked = supervised.blocked()
        if blocked is None:  # it was cancelled already, or its supervisor has died
            return process
        at = config.now()
        try:
            told = Identity(*blocked, at)
            process = processes.started(self.store, process, told, **self._stamp())
        except GfsError:
            supervised.abort()
            raise
        supervised.go()
        return process

    def _never_started(self, process: Process, error: GfsError) -> None:
        """Record that what was intended was not started; have the error say so.

        What cannot be recorded is `lost` to whoever looks next, since nobody holds its lock.
        """
        why = f"it was not started: {error.message}"
        error.message = f"{self.id} was not started: {error.message}"
        error.details["process"] = self.id
        error.hint = "see to that, then run it again"
        if process.call_id is not None:
            error.hint = "see to that, then run it under a new call id: this one has failed"
        with suppress(GfsError, OSError):
            at = config.now()
            processes.settled(self.store, process, End("failed", at, reason=why), **self._stamp())

    def _request(self, folder: str) -> dict[str, Any]:
        place, wanted = self.session.location, self.wanted
        told = {"GFS_PROCESS": self.id, "GFS_FLOW": wanted.flow, "GFS_TASK_ID": wanted.task}
        return {
            "process": self.id,
            "folder": folder,
            "argv": [os.fsencode(word) for word in wanted.argv],
            "cwd": os.fsencode(wanted.cwd),
            "timeout_s": wanted.timeout_s,
            "env": {name: value for name, value in told.items() if value is not None},
            # What its supervisor records itself, should this die:
            "session": wanted.session,
            "by": self.session.actor,
            "gitdir": str(self.gitdir),
            "view": str(place.folder) if place.view else "",
            "ref": place.ref,
            "remote": place.remote or "",
            "transport": "gitflowstate.adapters.transport",
            "offline": self.session.offline,
            "remote_timeout": config.remote_timeout(),
            "trust": [*config.trust()],
            "lock_timeout": self.store.timeout,
            "path": _search_path(wanted.cwd),
        }

    # ── its end ─────────────────────────────────────────────────────────────────────────────────

    def end(self, begun: Begun) -> Process:
        """Wait for the end of what was begun and record it; return the record.

        Raises what the store raises: then its supervisor, or whoever comes next, records it.
        """
        process, supervised = begun
        assert supervised is not None
        told = supervised.end(self.reader.sink("stdout"), self.reader.sink("stderr"))
        if told is None:  # its supervisor has died, or is just about to
            by = self.session.actor
            return settling.awaited(self.store, process, at=config.now, by=by)
        code = "" if told.exit_code is None else f", exit code {told.exit_code}"
        self.outcome = f"{told.state}{code}"
        # Here its exit code is the answer, and there is nothing left that could go wrong with it.
        returned = self.passing and self.reader.is_there()
        end = settling.end(told, self.id, returned=returned)
        process = processes.settled(self.store, process, end, **self._stamp())
        runlocks.drop(runlocks.lock_path(self.gitdir, self.id))  # its supervisor holds it
        supervised.settled()
        return process
