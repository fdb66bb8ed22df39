"""Files that a dead process left, told from those of a living one, and moved aside.

Rules: nothing is judged dead that a process may still have open; nothing is removed but private
files of our own; of two judges only one moves a file, and looks at it again first.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gitflowstate.syscalls import (
    READ_FLAGS,
    calls,
    identity,
    lstat_or_none,
    random_name,
    remove_quietly,
    reported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = "gfs-ref-"
FOREIGN_AGE_S = 600
_PRIVATE_AGE_S = 60  # between creating a private file and locking it
_OBJECT = re.compile(r"tmp_obj_[0-9a-f]{16}")  # ours; those of Git are shorter


def age_s(info: os.stat_result) -> float:
    """Return the age of a file in seconds; never negative, whatever the clock did."""
    return max(0.0, time.time() - info.st_mtime)


def clear(gitdir: str, path: str, warnings: list[str]) -> bool:
    """Move a dead lock file aside; return whether its name may be tried again.

    A file that is also a private file of ours is dead as soon as nobody has it open; any other
    only after ten minutes (hazard A4).
    """
    with reported("clear", path):
        info = lstat_or_none(path)
        if info is None:
            return True
        if not stat.S_ISREG(info.st_mode):
            return False
        private = _private_name(gitdir, info)
        if private is None and age_s(info) < FOREIGN_AGE_S:
            return False
        moved = _move_aside(gitdir, path, info)
    if moved and private is not None:
        remove_quietly(private)
    elif moved:
        minutes = age_s(info) // 60
        warnings.append(
            f"{path} was {minutes:.0f} minutes old and no process had it open; it is now {moved}"
        )
    return moved is not None


def set_aside(gitdir: str, path: str) -> str | None:
    """Move what is of no use aside, unless a process has it open; return its new path.

    A link and a folder are moved as they are: what they lead to stays where it is.
    """
    info = lstat_or_none(path)
    if info is None:
        return None
    if stat.S_ISREG(info.st_mode):
        return _move_aside(gitdir, path, info)
    target = _aside(gitdir, path)
    calls.rename(path, target)
    return target


def is_dead(gitdir: str, path: str) -> bool:
    """Tell whether `clear` would move a lock file aside."""
    info = lstat_or_none(path)
    if info is None or not stat.S_ISREG(info.st_mode):
        return False
    if age_s(info) < FOREIGN_AGE_S and _private_name(gitdir, info) is None:
        return False
    descriptor = _sole_holder(path, info)
    if descriptor is not None:
        calls.close(descriptor)
    return descriptor is not None


def _private_name(gitdir: str, info: os.stat_result) -> str | None:
    """Return the private file of ours that is the same file."""
    for path, other in private_files(gitdir):
        if identity(other) == identity(info):
            return path
    return None


def private_files(gitdir: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the private files of writers, living or dead."""
    for name in calls.listdir(gitdir):
        if name.startswith(PRIVATE):
            info = lstat_or_none(f"{gitdir}/{name}")
            if info is not None and stat.S_ISREG(info.st_mode):
                yield f"{gitdir}/{name}", info


def _move_aside(gitdir: str, path: str, judged: os.stat_result) -> str | None:
    """Rename a file that nobody has open into `gfs/stale`; return its new path."""
    descriptor = _sole_holder(path, judged)
    if descriptor is None:
        return None
    try:
        target = _aside(gitdir, path)
        calls.rename(path, target)
        if identity(calls.lstat(target)) == identity(judged):
            return target
        # Its owner came alive between our look and the rename: give it back.
        with suppress(FileExistsError):
            calls.link(target, path)
        calls.unlink(target)
    except FileNotFoundError:
        pass  # its owner removed it
    finally:
        calls.close(descriptor)
    return None


def _aside(gitdir: str, path: str) -> str:
    """Return a new name in `gfs/stale`, which is made if it is not there."""
    for folder in (f"{gitdir}/gfs", f"{gitdir}/gfs/stale"):
        with suppress(FileExistsError):
            calls.mkdir(folder, 0o777)
    flat = path.removeprefix(f"{gitdir}/").replace("/", "-")
    return f"{gitdir}/gfs/stale/{flat}-{random_name(f'{time.time():.0f}-')}"


def _sole_holder(path: str, judged: os.stat_result) -> int | None:
    """Open and lock a file; None if it changed or another process has it open.

    The lock is what living writers of ours hold too. It crosses process name spaces, and makes
    judges wait for each other.
    """
    try:
        descriptor = calls.open(path, READ_FLAGS)
    except FileNotFoundError:
        return None
    with_others = True
    try:
        with suppress(NotImplementedError):
            with_others = not _try_lock(descriptor) or is_open_elsewhere(descriptor)
        now = lstat_or_none(path)
        if now is None or identity(now) != identity(judged):
            with_others = True
    finally:
        if with_others:
            calls.close(descriptor)
    return None if with_others else descriptor


def _try_lock(descriptor: int) -> bool:
    """Return False if another open file description holds the lock."""
    try:
        calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # no flock on this file system: the list of open files must do
    return True


def hold(descriptor: int) -> None:
    """Mark an open private file as a living writer's."""
    with suppress(OSError):
        calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_open_elsewhere(descriptor: int) -> bool:
    """Return whether a visible process has the file open, but for this descriptor of ours.

    Where open files cannot be listed (no /proc), only the lock speaks.
    """
    wanted = identity(calls.fstat(descriptor))
    mine = f"{os.getpid()}/fd/{descriptor}"
    with suppress(OSError):
        for process in os.listdir("/proc"):  # noqa: PTH208  a bare listing is the cheapest
            if process.isdigit() and _has_open(process, wanted, mine):
                return True
    return False


def _has_open(process: str, wanted: tuple[int, int], mine: str) -> bool:
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208  the same
            if f"{process}/fd/{number}" == mine:
                continue
            with suppress(OSError):
                if identity(os.stat(f"/proc/{process}/fd/{number}")) == wanted:  # noqa: PTH116  the same
                    return True
    return False


def sweep(gitdir: str) -> None:
    """Remove private files that dead writers left; a failure is left to the next sweep."""
    with suppress(OSError):
        for path, info in private_files(gitdir):
            # Another name means that a lock or a ref is the same file: judged there.
            if info.st_nlink > 1 or age_s(info) < _PRIVATE_AGE_S:
                continue
            descriptor = _sole_holder(path, info)
            if descriptor is not None:
                remove_quietly(path)
                calls.close(descriptor)


def sweep_objects(folder: str) -> int:
    """Remove the unfinished objects that dead writers of ours left; return how many.

    The caller holds the repository lock, so that no writer of ours is at work here.
    """
    removed = 0
    with reported("sweep", folder):
        for name in calls.listdir(folder):
            if len(name) == 2:  # noqa: PLR2004  a folder of loose objects
                found = (f"{folder}/{name}/{each}" for each in calls.listdir(f"{folder}/{name}"))
                removed += sum(_swept(path) for path in found if _OBJECT.fullmatch(path[-24:]))
    return removed


def _swept(path: str) -> bool:
    info = lstat_or_none(path)
    if info is None or not stat.S_ISREG(info.st_mode) or age_s(info) < _PRIVATE_AGE_S:
        return False
    descriptor = _sole_holder(path, info)
    if descriptor is None:
        return False
    remove_quietly(path)
    calls.close(descriptor)
    return True
