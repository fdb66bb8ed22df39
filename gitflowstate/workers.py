"""Proof of life on this machine: the lock that a worker holds for as long as it runs.

Rules: a lock file that exists and can be locked, or that names another boot, proves its worker
dead; one that does not exist proves nothing (architecture, section 3, Claims).
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

FOLDER = "gfs/workers"


def boot_id() -> str:
    """Return the id of this boot, or nothing where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class WorkerLock:
    """Hold a worker's lock: `with WorkerLock(gitdir, worker):`; the kernel frees it at death."""

    def __init__(self, gitdir: Path, worker: str) -> None:
        self.path = gitdir / FOLDER / f"{worker}.lock"
        self._file = -1

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        identity = {"pid": os.getpid(), "boot_id": boot_id()}
        os.pwrite(self._file, json.dumps(identity).encode(), 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self.path.unlink()
        os.close(self._file)


class Workers:
    """What this machine knows of the workers of a repository."""

    def __init__(self, gitdir: Path) -> None:
        self.folder = gitdir / FOLDER

    def is_dead(self, worker: str) -> bool:
        """Tell whether a worker's lock proves that it is dead."""
        path = self.folder / f"{worker}.lock"
        if "/" in worker or not path.is_file():
            return False
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if _boot_in(file) not in ("", boot_id()):
                return True
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(file)
        return True

    def forget(self, worker: str) -> None:
        """Drop the lock of a dead worker."""
        with suppress(OSError):
            (self.folder / f"{worker}.lock").unlink()


def _boot_in(file: int) -> str:
    try:
        return str(json.loads(os.pread(file, 4096, 0)).get("boot_id", ""))
    except (ValueError, AttributeError):
        return ""
