"""The lock of a repository: one writer at a time on this machine, and no `git gc` beside it.

Rules: the lock is an optimisation, the compare-and-swap of `git` is the guarantee; the kernel
frees it when its holder dies, so it is never broken; every wait ends (architecture, write
protocol, step 1).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Self

from gitflowstate.errors import Denied, GfsError, NotFound, Unavailable
from gitflowstate.gcpid import GcPid
from gitflowstate.syscalls import calls, failure, lstat_or_none, read_regular, reported, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import UnixFileLock

# filelock's own 50 ms make eight writers wait for seconds; at 5 ms a hundred waiters leave the
# holder no time to finish (measured: p50 7.9 s against 1.5 s).
_POLL_S = 0.02
_HOLDER_BYTES = 127
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_WORD = re.compile(r"[a-z][a-z-]{0,30}")


class RepositoryLock:
    """Hold the repository: `with lock:`, re-entrant on the same object and thread.

    Threads of one process wait for each other. After a fork the child's copy is unlocked.
    `warnings` collects what was moved aside; `descriptor` is the open lock file while it is held:
    a program that inherits it keeps the repository locked for as long as it runs.
    """

    def __init__(self, gitdir: Path, timeout: float = 10.0) -> None:
        self.gitdir = gitdir
        self.timeout = timeout
        self.warnings: list[str] = []
        self.descriptor = -1
        self._path = f"{gitdir}/gfs.lock"
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._file: UnixFileLock | None = None
        self._gc = GcPid(str(self.gitdir), self.warnings)

    def __enter__(self) -> Self:
        """Take the lock; Unavailable names the holder, or the gc, that kept it to the end."""
        if self._pid != os.getpid():
            self._reset()
        deadline = time.monotonic() + self.timeout
        if not self._thread_lock.acquire(timeout=max(self.timeout, 0)):
            self._refuse_held()
        try:
            if self._depth == 0:
                self._take(deadline)
            self._depth += 1
        except BaseException:
            self._thread_lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid != os.getpid() or self._depth == 0:
            return  # a child leaves its parent's block: the lock is the parent's
        self._depth -= 1
        try:
            if self._depth == 0:
                self._gc.release()
                self._release_file()
        finally:
            self._thread_lock.release()

    def _take(self, deadline: float) -> None:
        self._take_file(deadline)
        try:
            self._write_holder()
            self._gc.take(deadline)
        except BaseException:
            self._release_file()
            raise

    def _take_file(self, deadline: float) -> None:
        from filelock import Timeout  # noqa: PLC0415  start-up: only writers lock

        mode = self._check()
        if self._file is None:
            self._file = self._new_file(mode)
        try:
            self._file.acquire(timeout=max(deadline - time.monotonic(), 0))
        except Timeout:
            self._refuse_held()
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise failure(error, "lock", self._path) from error
            raise GfsError(
                f"{self._path} cannot be locked: {getattr(error, 'strerror', None) or error}",
                hint="Put the repository on a local file system.",
                path=self._path,
            ) from error

    def _new_file(self, mode: int) -> UnixFileLock:
        from filelock import UnixFileLock  # noqa: PLC0415  start-up: only writers lock

        # Never the soft kind: a marker file outlives its dead writer.
        return UnixFileLock(
            self._path,
            mode=mode,
            poll_interval=_POLL_S,
            fallback_to_soft=False,
            on_acquired=self._remember,
        )

    def _remember(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def _check(self) -> int:
        """Refuse a lock file that is none; return the mode for a new one."""
        with reported("look at", self._path):
            folder = lstat_or_none(f"{self.gitdir}/")
            if folder is None:
                raise NotFound(f"{self.gitdir} is not a repository", hint="Name one with --repo.")
            info = lstat_or_none(self._path)
        if info is not None and not stat.S_ISREG(info.st_mode):
            raise Denied(
                f"{self._path} is not a regular file",
                hint="Call a person: it was put there by someone else.",
                path=self._path,
            )
        # A folder that its group may write is shared, and so is its lock.
        return 0o664 if folder.st_mode & stat.S_IWGRP else 0o644

    def _release_file(self) -> None:
        if self._file is not None:
            self._file.release()

    def _write_holder(self) -> None:
        """Say who holds the lock, for the messages of those who wait.

        Always in as many bytes, and over the last ones: some file systems send a file to the disk
        at once when it was truncated before it was written.
        """
        text = f"{os.getpid()} {_command()}".encode("utf-8", "replace")
        text = text[:_HOLDER_BYTES].ljust(_HOLDER_BYTES) + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with suppress(OSError):
            descriptor = calls.open(f"{self._path}.holder", flags, 0o664)
            try:
                write_all(descriptor, text)
            finally:
                calls.close(descriptor)

    def _refuse_held(self) -> NoReturn:
        pid, command = self._holder()
        who = f"pid {pid} ({command})" if pid else "another process"
        raise Unavailable(
            f"the repository is locked by {who} for more than {self.timeout:g} s",
            hint="Run the same command again; if it stays so, look at what that process does.",
            path=self._path,
            pid=pid,
            command=command,
        )

    def _holder(self) -> tuple[int, str]:
        with suppress(GfsError):
            raw = read_regular(f"{self._path}.holder", 4096) or b""
            pid, _, command = raw.decode("utf-8", "replace").strip().partition(" ")
            if pid.isdecimal():
                return int(pid), command
        return 0, ""


def _command() -> str:
    """Return the program and its verbs; other arguments may be somebody's words."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119  argv is text
    verbs = [word for word in sys.argv[1:3] if _WORD.fullmatch(word)]
    return " ".join([program or "python", *verbs])


_locks: dict[tuple[int, str], RepositoryLock] = {}


def repository_lock(gitdir: Path, timeout: float = 10.0) -> RepositoryLock:
    """Return this process's one lock object for a repository, with the timeout set (seconds)."""
    key = os.getpid(), os.path.realpath(gitdir)
    lock = _locks.get(key)
    if lock is None:
        lock = _locks.setdefault(key, RepositoryLock(gitdir, timeout))
    lock.timeout = timeout
    return lock
