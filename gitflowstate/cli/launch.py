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
from pathlib import Path
from typing import Any, NamedTuple

from gitflowstate import identity, outputs, processes, runfiles, runlocks, settling
from gitflowstate.adapters.process import Reserved, Sink, Supervised
from gitflowstate.cli import config
from gitflowstate.cli.session import Session
from gitflowstate.errors import GfsError, Unavailable, Uncertain
from gitflowstate.processes import Identity, Intended, Wanted
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.store import Store
from gitflowstate.syscalls import reported

_POLL_S = 0.02


class Begun(NamedTuple):
    """The record of a call, and its supervisor where this is what started it."""

    process: Process
    supervised: Supervised | None


class Launch:
    """One call of a session, whose process is started at most once, here or elsewhere."""

    def __init__(self, session: Session, wanted: Wanted, *, passing: bool) -> None:
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
        for _ in settling.settle_left(self.store, **self._stamp()):
            pass
        with Reserved(self.gitdir, self.id, self.wanted.session) as reserved:
            if self._has_taken(reserved):
                begun = self._begun(reserved)
                if begun:
                    return begun
        return self._again(self._intended().process)

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
        try:
            return Begun(self._started(process, supervised, reserved), supervised)
        except GfsError:
            supervised.close()
            raise

    @staticmethod
    def _withdraw(reserved: Reserved, *, ended: bool = False) -> None:
        """Leave no lock of ours for a call that another host started: it would tell its death."""
        if ended or reserved.made:
            reserved.drop()

    def _started(self, process: Process, supervised: Supervised, reserved: Reserved) -> Process:
        folder = runfiles.run_folder(self.gitdir, self.id)
        with reported("make", folder):
            # Somebody may have asked already that it be cancelled.
            Path(folder).mkdir(parents=True, exist_ok=True)
        supervised.ask(self._request(folder) | {"holder": reserved.told})
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
            "path": list(sys.path),
        }

    # ── its end ─────────────────────────────────────────────────────────────────────────────────

    def end(self, begun: Begun, out: Sink, err: Sink) -> Process:
        """Wait for the end of what was begun and record it; return the record.

        Raises what the store raises: then its supervisor, or whoever comes next, records it.
        """
        process, supervised = begun
        assert supervised is not None
        told = supervised.end(out, err)
        if told is None:  # its supervisor has died, or is just about to
            by = self.session.actor
            return settling.awaited(self.store, process, at=config.now, by=by)
        end = settling.end(told, self.id, returned=True)
        process = processes.settled(self.store, process, end, **self._stamp())
        runlocks.drop(runlocks.lock_path(self.gitdir, self.id))  # its supervisor holds it
        supervised.settled()
        return process
