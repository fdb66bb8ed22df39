"""The files of one process on this machine: its lock, and the record of its end.

Rules: the lock `gfs/workers/<id>.lock` is held from before the start intent until the supervisor
has gone, so one that is free proves that nobody will write a record any more, and one that is not
there proves nothing (C-12). The record `gfs/runs/<id>/exit` appears whole or not at all, before the
lock is freed, and is the truth, whoever reads it. Standard library alone, and cheap: a supervisor
imports it.
"""

from __future__ import annotations

import fcntl
import os

from gitflowstate import identity

LOCKS = "gfs/workers"
RUNS = "gfs/runs"
SLOTS = "gfs/slots"
EXIT = "exit"
CANCEL = "cancel"
WAKE = "wake"
_HEAD, _LAST = "gitflowstate exit 1", "end"
_LIMIT = 65_536
_HOLDER_BYTES = 2048
_FIELDS = {
    *("state", "finished_at", "started_at", "pid", "ticks", "exit_code", "signal", "sent"),
    *("reason", "output_bytes", "output_truncated"),
}
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def run_folder(gitdir: str | os.PathLike[str], process: str) -> str:
    """Return the folder that holds what a process left on this machine."""
    return f"{os.fspath(gitdir)}/{RUNS}/{process}"


def output_ref(process: str) -> str:
    """Return what a process document says of where its output is."""
    return f"{RUNS}/{process}"


def lock_path(gitdir: str | os.PathLike[str], process: str) -> str:
    """Return the path of a process's lock."""
    return f"{os.fspath(gitdir)}/{LOCKS}/{process}.lock"


# ── the lock ────────────────────────────────────────────────────────────────────────────────────


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
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  start-up
        return os.open(path, _OPEN, 0o644)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116  start-up
    except FileNotFoundError:
        return False


def is_held(path: str) -> bool | None:
    """Tell whether somebody holds a lock; None where the file is absent or out of reach."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # Shared, so that two who ask at once do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
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


def holder(gitdir: str | os.PathLike[str], process: str) -> dict[str, object]:
    """Return what a lock says of who holds or held it; nothing where it says nothing."""
    import json  # noqa: PLC0415  start-up of a supervisor

    try:
        with open(lock_path(gitdir, process), encoding="utf-8") as file:  # noqa: PTH123
            told = json.loads(file.read(_HOLDER_BYTES))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def left(gitdir: str | os.PathLike[str]) -> list[str]:
    """Return the processes whose locks are here, and held by nobody any more."""
    try:
        names = os.listdir(f"{os.fspath(gitdir)}/{LOCKS}")  # noqa: PTH208  no pathlib here
    except OSError:
        return []
    found = sorted(n[:-5] for n in names if n.startswith("p-") and n.endswith(".lock"))
    return [process for process in found if is_held(lock_path(gitdir, process)) is False]


# ── the wish to cancel ──────────────────────────────────────────────────────────────────────────


def cancel(folder: str, reason: str) -> None:
    """Ask for a process to be cancelled, and wake its supervisor if there is one.

    The first request stands. Raises OSError.
    """
    try:
        descriptor = os.open(f"{folder}/{CANCEL}.new", _OPEN | os.O_TRUNC, 0o644)
        os.write(descriptor, f"{_said(reason)}\n".encode())
        os.close(descriptor)
        os.link(f"{folder}/{CANCEL}.new", f"{folder}/{CANCEL}")
    except FileExistsError:
        pass
    try:
        descriptor = os.open(f"{folder}/{WAKE}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # not yet there: it looks before the command may go
    try:
        os.write(descriptor, b"c")
    finally:
        os.close(descriptor)


def cancellation(folder: str) -> str | None:
    """Return why a process shall be cancelled, None if nobody asked for it."""
    try:
        descriptor = os.open(f"{folder}/{CANCEL}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _said(os.read(descriptor, 1000).decode("utf-8", "replace"))
    finally:
        os.close(descriptor)


# ── the record of the end ───────────────────────────────────────────────────────────────────────


class Exit:
    """How a process ended, as its supervisor saw it; `state` is any terminal one but `lost`.

    `pid` and `ticks` are those of its command; `started_at` is absent where that was never let go;
    `signal` is the number that ended it, `sent` are the names of those that we sent, in order;
    `output_bytes` counts what was written, kept or not.
    """

    def __init__(
        self,
        state: str,
        finished_at: str,
        *,
        pid: int | None = None,
        ticks: int | None = None,
        started_at: str | None = None,
        exit_code: int | None = None,
        signal: int | None = None,
        sent: tuple[str, ...] = (),
        reason: str | None = None,
        output_bytes: int = 0,
        output_truncated: bool = False,
    ) -> None:
        self.state = state
        self.finished_at = finished_at
        self.pid = pid
        self.ticks = ticks
        self.started_at = started_at
        self.exit_code = exit_code
        self.signal = signal
        self.sent = sent
        self.reason = reason
        self.output_bytes = output_bytes
        self.output_truncated = output_truncated

    def text(self) -> str:
        """Return the record: a line for each fact, none for what is not known."""
        told = {name: value for name, value in self.__dict__.items() if value is not None}
        lines = [f"{name} {_said(value)}" for name, value in told.items()]
        return "\n".join([_HEAD, *lines, _LAST, ""])


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return " ".join(str(int(value) if isinstance(value, bool) else value).split())


def parsed(text: str) -> Exit:
    """Return the end that a record tells. Raises ValueError."""
    first, *lines, last, rest = text.split("\n")
    told = dict(line.split(" ", 1) for line in lines)
    if (first, last, rest) != (_HEAD, _LAST, "") or not set(told) <= _FIELDS:
        raise ValueError("not a record of an end")
    return Exit(
        told["state"],
        told["finished_at"],
        started_at=told.get("started_at"),
        reason=told.get("reason"),
        pid=_number(told, "pid"),
        ticks=_number(told, "ticks"),
        exit_code=_number(told, "exit_code"),
        signal=_number(told, "signal"),
        sent=(*told["sent"].split(),),
        output_bytes=int(told["output_bytes"]),
        output_truncated=told["output_truncated"] == "1",
    )


def _number(told: dict[str, str], name: str) -> int | None:
    return int(told[name]) if name in told else None


def write_exit(folder: str, end: Exit) -> None:
    """Write the record of an end, whole and durably. Raises OSError."""
    path = f"{folder}/{EXIT}"
    descriptor = os.open(f"{path}.new", _OPEN | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, end.text().encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(f"{path}.new", path)  # noqa: PTH104  no pathlib in a supervisor
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_exit(gitdir: str | os.PathLike[str], process: str) -> Exit | None:
    """Return how a process ended, None where nothing was recorded.

    Raises OSError where it cannot be read, ValueError for what is no such record.
    """
    try:
        descriptor = os.open(f"{run_folder(gitdir, process)}/{EXIT}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return parsed(os.read(descriptor, _LIMIT).decode())
    except KeyError as error:
        raise ValueError(f"a record of an end without {error}") from error
    finally:
        os.close(descriptor)


def fate(gitdir: str | os.PathLike[str], process: str) -> Exit | bool | None:
    """Return the recorded end; else True while somebody holds the lock, False once nobody does.

    None where neither is here: then this machine knows nothing of the process.
    """
    held = is_held(lock_path(gitdir, process))  # first: the record is older than a free lock
    end = read_exit(gitdir, process)
    return held if end is None else end


def forget(gitdir: str | os.PathLike[str], process: str) -> None:
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
        os.unlink(path)  # noqa: PTH108  no pathlib in a supervisor
    except OSError:
        return
