"""A folder of plain files that are replaced and removed whole, and never followed out of.

Rules: a path has its folders and a name, divided by slashes, and every folder on the way is opened
without following a symbolic link; a reader finds the old file or the new one; nothing is synced,
since all of it can be made again. Every method may raise `OSError`.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitflowstate.gitconfig import Modes
from gitflowstate.objects import Oid, object_id

OTHER = ""  # in place of an id: something there that is no readable file within the limit
_TOP_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER_FLAGS = _TOP_FLAGS | os.O_NOFOLLOW
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_PLACE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o444  # an editor says at once that this is not the place to edit


class PlainFiles:
    """The files below `folder`; `private`, on the same mount, takes what is not yet complete."""

    def __init__(self, folder: Path, private: Path, modes: Modes) -> None:
        self._folder = folder
        self._private = private
        self._modes = modes

    def content_id(self, path: str, limit: int) -> Oid | None:
        """Return the id that Git would give to a file's content.

        None if there is nothing; OTHER for a link, a folder, more than `limit` bytes, and what
        may not be read.
        """
        try:
            with self._open_folder(path) as folder:
                return _content_id(folder, _name(path), limit)
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes) -> None:
        """Put a file in its place, with its folders."""
        complete = self._complete(content)
        with self._open_folder(path, make=True) as folder:
            os.rename(complete, _name(path), dst_dir_fd=folder)

    def remove(self, path: str) -> None:
        """Remove a file, and its folder if that is left empty."""
        with self._open_folder(path) as folder:
            os.unlink(_name(path), dir_fd=folder)
        shard = path.rpartition("/")[0]
        with suppress(OSError), self._open_folder(shard) as above:
            os.rmdir(_name(shard), dir_fd=above)

    def keep(self, path: str) -> str:
        """Move what is there to a free name beside it; return that name.

        The name says when it was changed, in UTC.
        """
        with self._open_folder(path) as folder:
            name = _name(path)
            changed = os.lstat(name, dir_fd=folder).st_mtime
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(min(max(changed, 0), 1 << 33)))
            kept, number = f"{name}.edited-{stamp}", 1
            while _exists(folder, kept):
                number += 1
                kept = f"{name}.edited-{stamp}-{number}"
            os.rename(name, kept, src_dir_fd=folder, dst_dir_fd=folder)
        return kept

    def paths(self, top: str) -> Iterator[str]:
        """Yield `top/folder/name` for all that is two levels below the top folder."""
        for shard in self._names(top):
            with suppress(NotADirectoryError):
                yield from (f"{top}/{shard}/{name}" for name in self._names(f"{top}/{shard}"))

    def _names(self, path: str) -> list[str]:
        try:
            with self._open_folder(f"{path}/") as folder:
                return sorted(os.listdir(folder))  # noqa: PTH208  an open folder, not a path
        except FileNotFoundError:
            return []

    @contextmanager
    def _open_folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open the folder of a path; FileNotFoundError if there is none, and none is made."""
        descriptor = os.open(self._folder, _TOP_FLAGS)
        here = str(self._folder)
        try:
            for name in path.split("/")[:-1]:
                here = f"{here}/{name}"
                below = self._below(descriptor, here, make=make)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _below(self, folder: int, path: str, *, make: bool) -> int:
        name = _name(path)
        try:
            return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
        except OSError as error:
            if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                raise
            raise NotADirectoryError(error.errno, "it is a link or no folder", path) from error
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            self._modes.folder(path)
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)

    # ── private files ───────────────────────────────────────────────────────────────────────────

    def _complete(self, content: bytes) -> Path:
        """Write a whole file under a private name; return where."""
        path = self._private / "view-new"
        with suppress(FileNotFoundError):  # a writer that was killed left it
            path.unlink()
        descriptor = self._open_private(path, _NEW_FLAGS, _MODE)
        try:
            _write(descriptor, content)
            self._modes.file(descriptor, _MODE)
        finally:
            os.close(descriptor)
        return path

    def note(self, name: str, content: bytes) -> None:
        """Write a small private file in place."""
        descriptor = self._open_private(self._private / name, _IN_PLACE_FLAGS, 0o666)
        try:
            _write(descriptor, content)
            if os.fstat(descriptor).st_size != len(content):
                os.ftruncate(descriptor, len(content))
            self._modes.file(descriptor, 0o644)
        finally:
            os.close(descriptor)

    def _open_private(self, path: Path, flags: int, mode: int) -> int:
        try:
            return os.open(path, flags, mode)
        except FileNotFoundError:
            with suppress(FileExistsError):
                path.parent.mkdir()
                self._modes.folder(str(path.parent))
        return os.open(path, flags, mode)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _exists(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _content_id(folder: int, name: str, limit: int) -> Oid:
    try:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        return OTHER
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_size > limit:
            return OTHER
        return object_id("blob", _read(descriptor, limit))
    finally:
        os.close(descriptor)


def _read(descriptor: int, limit: int) -> bytes:
    content = b""
    while len(content) <= limit and (part := os.read(descriptor, 1 << 20)):
        content += part
    return content


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
