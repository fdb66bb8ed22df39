"""Git's own `gc.pid`: held while we write, so that no `git gc` removes what is not yet referenced.

Rules (git's `builtin/gc.c`, and architecture, write protocol, step 1): `gc.pid.lock` guards the
change of `gc.pid`; another's pid counts for twelve hours, and on its own host only while it
lives. The caller holds the repository lock, so a file of ours (it ends in `gfs`) is a dead
writer's, whatever host it names.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple, NoReturn

from gitflowstate import leftovers
from gitflowstate.errors import Unavailable
from gitflowstate.syscalls import (
    CREATE_FLAGS,
    calls,
    identity,
    lstat_or_none,
    read_regular,
    remove_quietly,
    reported,
    write_all,
)

_HONOURED_S = 12 * 3600
_POLL_S = 0.005
_LIMIT = 4096
_OURS = b"gfs"


class Holder(NamedTuple):
    """Who runs a gc, as `gc.pid` says."""

    pid: int
    host: str


class GcPid:
    """Our hold on `gc.pid`, for one write."""

    def __init__(self, gitdir: str, warnings: list[str]) -> None:
        self._gitdir = gitdir
        self._path = f"{gitdir}/gc.pid"
        self._lock = f"{gitdir}/gc.pid.lock"
        # One name: whoever holds the repository lock may remove what a dead writer left there.
        self._private = f"{gitdir}/gfs.gc.pid"
        self._warnings = warnings
        self._mine: tuple[int, int] | None = None

    def take(self, deadline: float) -> None:
        """Take `gc.pid`, waiting for a running gc until `deadline` (monotonic seconds).

        Unavailable, with pid and host, if it runs on.
        """
        with reported("write", self._private):
            self._drop_dead()
            mine = self._write_private()
        try:
            with reported("take", self._path):
                self._take_lock(deadline)
                while (holder := self._living()) is not None:
                    self._drop_lock(mine)
                    self._wait(deadline, holder)
                    self._take_lock(deadline)
                calls.rename(self._lock, self._path)
                self._mine = mine
        except BaseException:
            with suppress(OSError):
                self._drop_lock(mine)
            raise
        finally:
            remove_quietly(self._private)

    def release(self) -> None:
        """Give `gc.pid` back, if it is still ours; what cannot be removed is taken over later."""
        mine, self._mine = self._mine, None
        with suppress(OSError):
            info = lstat_or_none(self._path)
            if info is not None and identity(info) == mine:
                calls.unlink(self._path)

    def _drop_dead(self) -> None:
        """Remove a dead writer's lock, whose text may not have reached the disk (hazard A12)."""
        info = lstat_or_none(self._private)
        if info is not None:
            self._drop_lock(identity(info))

    def _write_private(self) -> tuple[int, int]:
        with suppress(FileNotFoundError):
            calls.unlink(self._private)
        descriptor = calls.open(self._private, CREATE_FLAGS, 0o644)
        try:
            write_all(descriptor, f"{os.getpid()} {os.uname().nodename} gfs".encode())
            return identity(calls.fstat(descriptor))
        finally:
            calls.close(descriptor)

    def _take_lock(self, deadline: float) -> None:
        while True:
            try:
                calls.link(self._private, self._lock)
            except FileExistsError:
                if self._clear_lock():
                    continue
            else:
                return
            self._wait(deadline, None)

    def _clear_lock(self) -> bool:
        """Remove a dead writer's lock, move a foreign one aside when it is old."""
        raw = read_regular(self._lock, _LIMIT)
        if raw is not None and raw.split()[-1:] == [_OURS]:
            calls.unlink(self._lock)
            return True
        return leftovers.clear(self._gitdir, self._lock, self._warnings)

    def _drop_lock(self, mine: tuple[int, int]) -> None:
        info = lstat_or_none(self._lock)
        if info is not None and identity(info) == mine:
            calls.unlink(self._lock)

    def _living(self) -> Holder | None:
        """Return who holds `gc.pid` by Git's rules, None if it may be taken."""
        info = lstat_or_none(self._path)
        raw = read_regular(self._path, _LIMIT)
        if info is None or raw is None or time.time() - info.st_mtime > _HONOURED_S:
            return None
        words = raw.decode("utf-8", "replace").split()
        if len(words) < 2 or not words[0].isdecimal() or words[-1:] == ["gfs"]:  # noqa: PLR2004  pid and host
            return None
        holder = Holder(int(words[0]), words[1])
        here = holder.host == os.uname().nodename
        return None if here and not _is_alive(holder.pid) else holder

    def _wait(self, deadline: float, holder: Holder | None) -> None:
        if time.monotonic() >= deadline:
            self._refuse(holder)
        time.sleep(_POLL_S)

    def _refuse(self, holder: Holder | None) -> NoReturn:
        hint = "Wait until it has ended, then run the same command again."
        if holder is not None:
            raise Unavailable(
                f"a git gc runs here: pid {holder.pid} on {holder.host} ({self._path})",
                hint=hint,
                pid=holder.pid,
                host=holder.host,
            )
        info = lstat_or_none(self._lock)
        age = 0.0 if info is None else leftovers.age_s(info)
        raise Unavailable(f"a git gc starts here: {self._lock}, {age:.0f} s old", hint=hint)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
