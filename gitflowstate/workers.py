"""Proof of life on this machine: the lock that a worker holds for as long as it runs.

Rules: a lock file that can be locked, or that names an earlier boot of this host, proves its worker
dead. One that is not there, or that another host wrote, proves nothing (architecture, section 3,
Claims; C-12). The identity inside is for people and for that comparison, and never leaves here.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gitflowstate import identity as ids

FOLDER = "gfs/workers"
_SUFFIX = ".lock"


def identity() -> dict[str, object]:
    """Return what tells this process from any other: host, boot, pid and its start."""
    return {
        "host": socket.gethostname(),
        "boot_id": ids.boot_id(),
        "pid": os.getpid(),
        "started": str(ids.start_ticks()),
    }


class WorkerLock:
    """Hold the lock of a worker on a flow while it lives; the kernel frees it at its death.

    The file goes with it, unless `keep` is set: then the claims left behind can be expired at once.
    """

    def __init__(self, gitdir: Path, worker: str, flow: str) -> None:
        self.path = gitdir / FOLDER / f"{worker}{_SUFFIX}"
        self.flow = flow
        self.keep = False
        self._file = -1

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(self._file, json.dumps(identity() | {"flow": self.flow}).encode(), 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self.keep:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._file)


class Workers:
    """What this machine knows of the workers of a repository."""

    def __init__(self, gitdir: Path) -> None:
        self.folder = gitdir / FOLDER

    def is_dead(self, worker: str) -> bool:
        """Tell whether a worker's lock proves that it is dead."""
        return self._dead(worker) is not None

    def left(self, flow: str) -> list[str]:
        """Return the dead workers on a flow whose locks are still here."""
        with suppress(OSError):
            names = [path.name for path in self.folder.glob(f"*{_SUFFIX}")]
            found = (
                (name.removesuffix(_SUFFIX), self._dead(name.removesuffix(_SUFFIX)))
                for name in names
            )
            return [worker for worker, told in found if told and told.get("flow") == flow]
        return []

    def _dead(self, worker: str) -> dict[str, object] | None:
        """Return the identity of a worker that is known to be dead."""
        path = self.folder / f"{worker}{_SUFFIX}"
        if "/" in worker or not path.is_file():
            return None
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            told = _identity_in(file)
            return told if _is_dead(file, told) else None
        finally:
            os.close(file)

    def forget(self, worker: str) -> None:
        """Drop the lock of a dead worker."""
        with suppress(OSError):
            (self.folder / f"{worker}{_SUFFIX}").unlink()


def _is_dead(file: int, told: dict[str, object]) -> bool:
    own = identity()
    if told.get("boot_id", own["boot_id"]) != own["boot_id"]:
        return bool(told.get("host") == own["host"])
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _identity_in(file: int) -> dict[str, object]:
    """Return the identity in a lock file; nothing where it was not written, or is no identity."""
    try:
        found = json.loads(os.pread(file, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
