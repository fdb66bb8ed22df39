"""The lock of a process: who holds it lives, and that nobody does proves a death.

Rules: `gfs/workers/<id>.lock` is held from before the start intent until the supervisor has gone;
one that is free proves that nobody will record an end any more, and one that is not there proves
nothing (C-12). It is dropped only while it is held, once the end is committed or nothing was
intended. Standard library alone, and cheap: a supervisor imports it.
"""

from __future__ import annotations

import errno
import fcntl
import posix as os  # `os` itself is a tenth of what a supervisor costs

from gitflowstate import identity

TYPE_CHECKING = False  # as in `typing`, which a supervisor cannot afford
if TYPE_CHECKING:
    from os import PathLike

LOCKS = "gfs/workers"
_HOLDER_BYTES = 2048
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # a link is none of ours
_NO_LOCKS = (errno.ENOTSUP, errno.ENOSYS)  # a file system without: nothing is ever proven there


def lock_path(gitdir: str | PathLike[str], process: str) -> str:
    """Return the path of a process's lock."""
    return f"{os.fspath(gitdir)}/{LOCKS}/{process}.lock"


def hold(path: str) -> int:
    """Create and lock a file; return its descriptor, or -1 where somebody else holds it."""
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return -1
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # removed by its last holder before it was locked


def _opened(path: str) -> int:
    try:
        return os.open(path, _OPEN, 0o644)
    except FileNotFoundError:
        from pathlib import Path  # noqa: PLC0415  a supervisor does not come here

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, _OPEN, 0o644)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        there, own = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)


def is_held(path: str) -> bool | None:
    """Tell whether somebody holds a lock; None where there is none.

    Looking needs no right to write. One that cannot be looked at proves no death: it is held.
    """
    try:
        descriptor = os.open(path, _LOOK)
    except OSError as error:
        return None if error.errno in _ABSENT else True
    try:
        # Shared, so that two who ask at once do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return None if error.errno in _NO_LOCKS else True
    finally:
        os.close(descriptor)
    return False


def write_holder(descriptor: int, told: bytes) -> None:
    """Write into a lock that this process holds who that is, after what else is told of it.

    As JSON, for people and for `workers`; `told` is an object without its closing brace.
    """
    own = os.getpid(), identity.start_ticks()
    text = told + b', "boot_id": "%s"' % identity.boot_id().encode()
    text += b', "pid": %d, "started": "%d"}' % own
    os.pwrite(descriptor, text.ljust(_HOLDER_BYTES), 0)  # over what was written before


def holder(gitdir: str | PathLike[str], process: str) -> dict[str, object]:
    """Return what a lock says of who holds or held it; nothing where it says nothing."""
    import json  # noqa: PLC0415  start-up of a supervisor

    try:
        with open(lock_path(gitdir, process), encoding="utf-8") as file:  # noqa: PTH123
            told = json.loads(file.read(_HOLDER_BYTES))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def left(gitdir: str | PathLike[str]) -> list[str]:
    """Return the processes whose locks are here, and held by nobody any more."""
    try:
        names = os.listdir(f"{os.fspath(gitdir)}/{LOCKS}")
    except OSError:
        return []
    found = sorted(n[:-5] for n in names if n.startswith("p-") and n.endswith(".lock"))
    return [process for process in found if is_held(lock_path(gitdir, process)) is False]


def forget(gitdir: str | PathLike[str], process: str) -> None:
    """Drop the lock of a process whose end is committed, unless somebody holds it."""
    path = lock_path(gitdir, process)
    if is_held(path) is not False:
        return
    try:
        descriptor = hold(path)
    except OSError:
        return
    if descriptor >= 0:
        drop(path)
        os.close(descriptor)


def drop(path: str) -> None:
    """Drop a lock; only while it is held, lest somebody lock a file that is none any more."""
    try:
        os.unlink(path)
    except OSError:
        return
