"""The files of one process on this machine: the wish to cancel it, and the record of its end.

Rules: the record `gfs/runs/<id>/exit` appears whole or not at all, before the lock of the process
is freed; what it says of another command than the recorded one is not believed (`settling`), since
a command can write there, too. Standard library alone, and cheap: a supervisor imports it.
"""

from __future__ import annotations

import posix as os  # `os` itself is a tenth of what a supervisor costs
import sys
import time

from gitflowstate import runlocks

TYPE_CHECKING = False  # as in `typing`, which a supervisor cannot afford
if TYPE_CHECKING:
    from os import PathLike

RUNS = "gfs/runs"
SLOTS = "gfs/slots"
EXIT = "exit"
CANCEL = "cancel"
WAKE = "wake"
MARK = "GFS_RUN"  # a variable of the command: which run it is, so that what escapes is found
TOLD_TO_END = "its supervisor was told to end"
_HEAD, _LAST = "gitflowstate exit 1", "end"
_LIMIT = 65_536
_KIND, _REGULAR = 0o170000, 0o100000  # `stat` would be one more module
_RESERVED = 8192  # bytes, more than any record has
_FIELDS = {
    *("state", "finished_at", "started_at", "pid", "ticks", "exit_code", "signal", "sent"),
    *("reason", "output_bytes", "output_truncated"),
}
_STATES = ("completed", "failed", "cancelled", "timed_out")
_MOST = 2**53 - 1  # the largest number that a document holds
_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO would hold who opens it
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def run_folder(gitdir: str | PathLike[str], process: str) -> str:
    """Return the folder that holds what a process left on this machine."""
    return f"{os.fspath(gitdir)}/{RUNS}/{process}"


def raw(path: str) -> bytes:
    """Return a path as the system has it."""
    return path.encode(sys.getfilesystemencoding(), "surrogateescape")


def output_ref(process: str) -> str:
    """Return what a process document says of where its output is."""
    return f"{RUNS}/{process}"


# ── the wish to cancel ──────────────────────────────────────────────────────────────────────────


def cancel(folder: str, reason: str) -> None:
    """Ask for a process to be cancelled, and wake its supervisor if there is one.

    The first request stands. Raises OSError.
    """
    path, own = f"{folder}/{CANCEL}", f"{folder}/{CANCEL}.{os.getpid()}"
    descriptor = os.open(own, _OPEN | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, f"{_said(reason)}\n".encode())
        os.link(own, path)  # whole from the first moment
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        os.unlink(own)
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
    if told["state"] not in _STATES:
        raise ValueError(f"a record of an end that is {told['state']!r}")
    return Exit(
        told["state"],
        _time(told["finished_at"]),
        started_at=_time(told["started_at"]) if "started_at" in told else None,
        reason=told.get("reason"),
        pid=_number(told, "pid"),
        ticks=_number(told, "ticks"),
        exit_code=_number(told, "exit_code"),
        signal=_number(told, "signal"),
        sent=(*told["sent"].split(),),
        output_bytes=_count(told["output_bytes"]),
        output_truncated=told["output_truncated"] == "1",
    )


def _number(told: dict[str, str], name: str) -> int | None:
    return _count(told[name]) if name in told else None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _MOST:
        raise ValueError(f"a record of an end with the number {text[:20]!r}")
    return int(text)


def _time(text: str) -> str:
    from datetime import datetime  # noqa: PLC0415  start-up of a supervisor, which reads none

    if datetime.strptime(text, _STAMP).strftime(_STAMP) != text:  # noqa: DTZ007  it is only checked
        raise ValueError(f"a record of an end at {text!r}")
    return text


def now() -> str:
    """Return the time as a record of an end has it: in UTC, to the second."""
    return time.strftime(_STAMP, time.gmtime())


def reserve_exit(folder: str) -> None:
    """Take the room that the record of an end needs, before there is one. Raises OSError."""
    descriptor = os.open(f"{folder}/{EXIT}.new", _OPEN, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, _RESERVED)
    finally:
        os.close(descriptor)


def write_exit(folder: str, end: Exit) -> None:
    """Write the record of an end, whole and durably, where room was reserved. Raises OSError."""
    path, text = f"{folder}/{EXIT}", end.text().encode()
    descriptor = os.open(f"{path}.new", _OPEN, 0o644)
    try:
        written = 0
        while written < len(text):  # what does not fit is an error, never cut
            written += os.pwrite(descriptor, text[written:], written)
        os.ftruncate(descriptor, len(text))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(f"{path}.new", path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_exit(gitdir: str | PathLike[str], process: str) -> Exit | None:
    """Return how a process ended, None where nothing was recorded.

    Raises OSError where it cannot be read, ValueError for what is no such record.
    """
    try:
        descriptor = os.open(f"{run_folder(gitdir, process)}/{EXIT}", _READ)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if os.fstat(descriptor).st_mode & _KIND != _REGULAR:
            raise ValueError("not a regular file")
        return parsed(os.read(descriptor, _LIMIT).decode())
    except KeyError as error:
        raise ValueError(f"a record of an end without {error}") from error
    finally:
        os.close(descriptor)


def fate(gitdir: str | PathLike[str], process: str) -> Exit | bool | None:
    """Return True while somebody holds the lock; then the recorded end, or False without one.

    What is in the way of a record while its supervisor lives is replaced by it, and is not even
    read: a command can write there, too. None where neither is here: then this machine knows
    nothing of the process.
    """
    # In this order: the record is older than a free lock.
    held = runlocks.is_held(runlocks.lock_path(gitdir, process))
    if held:
        return True
    end = read_exit(gitdir, process)
    return held if end is None else end
