"""The one table of operating-system calls through which repository files are read and written.

Rules: `git`, its siblings and the git part of `locks` reach the operating system through `calls`
alone, so that a test can make call number k fail or die, for every k; an `OSError` leaves as one
of our errors and names the path.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gitflowstate.errors import Corrupt, Denied, GfsError, Unavailable, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_CHUNK = 1 << 20

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
# Conditions that pass: the same command may be run again.
_PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EBUSY,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


def _full_fsync(descriptor: int) -> None:
    if sys.platform == "darwin":  # there fsync() does not empty the drive's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


class Syscalls:
    """Hold the functions; each may be replaced by one that counts, fails or dies."""

    def __init__(self) -> None:
        self.open = os.open
        self.read = os.read
        self.pread = os.pread
        self.write = os.write
        self.fsync = _full_fsync
        self.close = os.close
        self.fstat = os.fstat
        self.lstat = os.lstat
        self.fchmod = os.fchmod
        self.chmod = os.chmod
        self.rename = os.rename
        self.link = os.link
        self.unlink = os.unlink
        self.mkdir = os.mkdir
        self.listdir = os.listdir
        self.flock = fcntl.flock


calls = Syscalls()


def failure(error: OSError, doing: str, path: str) -> GfsError:
    """Return the error of ours that says what could not be done to `path`, and why."""
    text = f"cannot {doing} {path}: {error.strerror or error}"
    number = error.errno
    if number in _DENIED:
        return Denied(text, hint="Ask the owner of the repository for access.", path=path)
    if number == errno.ELOOP:
        return Corrupt(f"{path} is a symbolic link", hint="Call a person.", path=path)
    if number == errno.ENAMETOOLONG:
        return Usage(text, hint="Choose a shorter name.", path=path)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(text, hint="Make room, then run the same command again.", path=path)
    if number in _PASSING:
        return Unavailable(text, hint="Run the same command again.", path=path)
    return GfsError(text, hint="Nothing was changed. Look at the disk and its mount.", path=path)


@contextmanager
def reported(doing: str, path: str) -> Iterator[None]:
    """Turn an `OSError` of the block into one of our errors."""
    try:
        yield
    except OSError as error:
        raise failure(error, doing, path) from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, whatever a single write takes."""
    view = memoryview(data)
    while view:
        view = view[calls.write(descriptor, view) :]


def read_regular(path: str, limit: int) -> bytes | None:
    """Read a regular file of at most `limit` bytes; None only if there is no such file.

    A symbolic link, anything but a regular file, and a longer file are Corrupt; every other
    error is an error, never "absent" (hazard F5).
    """
    with reported("read", path):
        try:
            descriptor = calls.open(path, READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            info = calls.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise Corrupt(f"{path} is not a regular file", hint="Call a person.", path=path)
            if info.st_size > limit:
                raise Corrupt(
                    f"{path} has {info.st_size} bytes, more than {limit}",
                    hint="Call a person.",
                    path=path,
                )
            return _read_up_to(descriptor, info.st_size, limit)
        finally:
            calls.close(descriptor)


def _read_up_to(descriptor: int, expected: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while left > 0 and (part := calls.read(descriptor, min(left, expected + 1, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def write_new(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write a file of a name that is not there yet, durably but for the name."""
    descriptor = calls.open(path, CREATE_FLAGS, mode)
    try:
        write_all(descriptor, data)
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


def fsync_folder(path: str) -> None:
    """Make the names in a folder survive a power cut."""
    fsync_file(path, os.O_DIRECTORY)


def fsync_file(path: str, flags: int = 0) -> None:
    """Make what another program wrote into a file survive a power cut."""
    descriptor = calls.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


def identity(info: os.stat_result) -> tuple[int, int]:
    """Return what makes two names the same file."""
    return info.st_dev, info.st_ino


def lstat_or_none(path: str) -> os.stat_result | None:
    """Look at a name without following it; None only if there is no such file."""
    try:
        return calls.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def remove_quietly(path: str) -> None:
    """Remove a private file of ours; what cannot be removed is swept later."""
    try:
        calls.unlink(path)
    except OSError:
        return


def random_name(prefix: str) -> str:
    """Return a name nobody else uses."""
    return prefix + os.urandom(8).hex()  # `secrets` brings a dozen modules along
