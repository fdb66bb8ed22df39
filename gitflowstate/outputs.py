"""What a process wrote, read back from where its supervisor keeps it.

Rules: reading takes nothing away; offsets count what was written, so that a reader knows what was
left out between two pieces; it is untrusted text, shown and never obeyed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitflowstate import runfiles
from gitflowstate.capture import PREFIX

_CHUNK = 1 << 18


class Piece(NamedTuple):
    """Some output, and where in the whole it begins."""

    offset: int
    data: bytes


class Kept(NamedTuple):
    """How much was written so far, and when the last of it came, in seconds since 1970."""

    total: int
    last_at: float | None


def _segments(folder: str) -> list[tuple[int, Path]]:
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]  # noqa: PTH208
    except OSError:
        return []
    numbers = ((name[len(PREFIX) :], name) for name in names)
    return sorted((int(n), Path(folder) / name) for n, name in numbers if n.isdecimal())


def is_kept(gitdir: Path, process: str) -> bool:
    """Tell whether what a process left on this machine is still there."""
    return Path(runfiles.run_folder(gitdir, process)).is_dir()


def every(gitdir: Path) -> list[str]:
    """Return the processes of which something is still there."""
    try:
        return sorted(path.name for path in (gitdir / runfiles.RUNS).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def pieces(gitdir: Path, process: str, since: int = 0) -> Iterator[Piece]:
    """Yield what is kept of the output from an offset on, to its present end."""
    for begin, path in _segments(runfiles.run_folder(gitdir, process)):
        with suppress(FileNotFoundError), path.open("rb") as file:  # dropped meanwhile
            at = max(begin, since)
            file.seek(at - begin)
            while data := file.read(_CHUNK):
                yield Piece(at, data)
                at += len(data)


def kept(gitdir: Path, process: str) -> Kept:
    """Return how much a process has written so far, and when the last of it came."""
    for begin, path in reversed(_segments(runfiles.run_folder(gitdir, process))):
        with suppress(FileNotFoundError):
            info = path.stat()
            return Kept(begin + info.st_size, info.st_mtime)
    return Kept(0, None)


def tail(gitdir: Path, process: str, limit: int) -> str:
    """Return the end of the output as text, at most so many bytes of it."""
    since = max(0, kept(gitdir, process).total - limit)
    data = b"".join(piece.data for piece in pieces(gitdir, process, since))
    return data.decode("utf-8", "replace")


def expire(gitdir: Path, process: str) -> int:
    """Remove what a process that has ended left on this machine; return how many bytes that were.

    Its record, its state and its identity are not here, and stay.
    """
    folder = Path(runfiles.run_folder(gitdir, process))
    try:
        size = sum(path.lstat().st_size for path in folder.iterdir())
    except FileNotFoundError:
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    return size
