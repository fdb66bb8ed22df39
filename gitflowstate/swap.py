"""One ref moved by compare-and-swap (architecture, write protocol, steps 5 and 6).

Rules: whatever a rename said, we look whether the ref is our own file; an error after the rename
is Uncertain, never "failed"; two fsyncs, one of the value and one of its folder (and one for each
folder that had to be made).
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Self

from gitflowstate import leftovers
from gitflowstate.errors import Denied, GfsError, Unavailable, Uncertain
from gitflowstate.refs import check_name
from gitflowstate.syscalls import (
    CREATE_FLAGS,
    calls,
    failure,
    fsync_folder,
    identity,
    lstat_or_none,
    random_name,
    remove_quietly,
    reported,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gitflowstate.gitconfig import Modes
    from gitflowstate.objects import Oid
    from gitflowstate.refs import Refs

    # (head, wanted, stop): whether `wanted` is `head` or before it, not looking past `stop`.
    Within = Callable[[Oid, Oid, Oid | None], bool]

_ZERO = "0" * 40
_COMMITTER = "gitflowstate <gitflowstate@localhost>"
_POLL_S, _MAX_POLL_S = 0.005, 0.05


class Reflog:
    """What the reflog will say of one move."""

    def __init__(self, message: str, when: int) -> None:
        self.message = " ".join(message.split())
        self.when = when


class Swap:
    """One move of one ref from `old` (None creates) to `new`.

    Private file, lock by link, compare, rename, look. `within` says whether a commit is among
    the ancestors of a head. Use as a context manager, and call `run` once.
    """

    patience_s = 2.0  # for the lock file of another; Git holds one for milliseconds

    def __init__(self, refs: Refs, modes: Modes, name: str, within: Within) -> None:
        check_name(name)
        refs.refuse_links(name)
        self.warnings: list[str] = []
        self._refs = refs
        self._modes = modes
        self._name = name
        self._within = within
        self._path = f"{refs.gitdir}/{name}"
        self._lock = f"{self._path}.lock"
        self._folder = self._path.rpartition("/")[0]
        self._private = f"{refs.gitdir}/{random_name(leftovers.PRIVATE)}"
        # The private file stays open to the end: no other file can get its inode number.
        self._descriptor = -1
        self._mine: tuple[int, int] | None = None
        self._touched: list[str] = []
        self._old: Oid | None = None
        self._new: Oid = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back the lock file if it is ours, and drop the private file."""
        if self._descriptor < 0:
            return
        with suppress(OSError):
            if self._holds_lock():
                calls.unlink(self._lock)
        remove_quietly(self._private)
        with suppress(OSError):
            calls.close(self._descriptor)
        leftovers.sweep(self._refs.gitdir)

    def run(self, old: Oid | None, new: Oid, reflog: Reflog) -> bool:
        """Move the ref; return whether `new` is now in its history.

        Unavailable while a living process holds the ref's lock file, Denied where that is no
        file; Uncertain if the ref is moved and the disk then failed.
        """
        self._old, self._new = old, new
        with reported("write", self._private):
            self._write_private()
        with reported("lock", self._lock):
            self._take_lock()
        for touched in self._touched:
            with reported("sync", touched):
                fsync_folder(touched)
        # Opened before the rename, so that nothing but the sync itself can fail after it.
        with reported("open", self._folder):
            folder = calls.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._compare_and_rename(reflog) and self._settle(folder)
        finally:
            with suppress(OSError):
                calls.close(folder)

    def _write_private(self) -> None:
        self._descriptor = calls.open(self._private, CREATE_FLAGS, 0o666)
        leftovers.hold(self._descriptor)
        write_all(self._descriptor, f"{self._new}\n".encode("ascii"))
        self._modes.file(self._descriptor, 0o644)
        calls.fsync(self._descriptor)
        self._mine = identity(calls.fstat(self._descriptor))

    def _take_lock(self) -> None:
        deadline = time.monotonic() + self.patience_s
        pause = _POLL_S
        while True:
            try:
                calls.link(self._private, self._lock)
            except FileExistsError:
                if leftovers.clear(self._refs.gitdir, self._lock, self.warnings):
                    continue
            except FileNotFoundError:
                self._make_folders()  # Git removes empty folders at any moment
            else:
                return
            if time.monotonic() >= deadline:
                self._refuse_held()
            time.sleep(pause)
            pause = min(2 * pause, _MAX_POLL_S)

    def _refuse_held(self) -> NoReturn:
        info = lstat_or_none(self._lock)
        if info is not None and not stat.S_ISREG(info.st_mode):
            raise Denied(
                f"{self._name} cannot be locked: {self._lock} is not a regular file",
                hint="gfs doctor --fix moves it aside; ask who put it there.",
                path=self._lock,
            )
        age = "" if info is None else f", {leftovers.age_s(info):.0f} s old"
        raise Unavailable(
            f"{self._name} is locked by {self._lock}{age}",
            hint="Another process may be writing: run the same command again.",
            path=self._lock,
        )

    def _make_folders(self) -> None:
        path = self._refs.gitdir
        for part in self._name.split("/")[:-1]:
            parent, path = path, f"{path}/{part}"
            with suppress(FileExistsError):
                calls.mkdir(path, 0o777)
                self._modes.folder(path)
                self._touched.append(parent)

    def begin_log(self, value: Oid, reflog: Reflog) -> None:
        """Begin the reflog of the ref with the value that it has, where there is no reflog yet."""
        self._new = value
        with reported("look at", f"{self._refs.gitdir}/logs/{self._name}"):
            if lstat_or_none(f"{self._refs.gitdir}/logs/{self._name}") is None:
                self._append(reflog)

    def _append(self, reflog: Reflog) -> None:
        """Tell the reflog; it is for people, so a failure is a warning, and nothing is synced."""
        if not reflog.message:
            return
        path = f"{self._refs.gitdir}/logs/{self._name}"
        line = (
            f"{self._old or _ZERO} {self._new} {_COMMITTER} {reflog.when} +0000\t{reflog.message}\n"
        )
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            try:
                descriptor = calls.open(path, flags, 0o666)
            except FileNotFoundError:
                self._make_log_folders()
                descriptor = calls.open(path, flags, 0o666)
            try:
                self._modes.file(descriptor, 0o644)
                write_all(descriptor, line.encode("utf-8", "replace"))
            finally:
                calls.close(descriptor)
        except OSError as error:
            self.warnings.append(f"the reflog {path} was not written: {error.strerror}")

    def _make_log_folders(self) -> None:
        path = self._refs.gitdir
        for part in f"logs/{self._name}".split("/")[:-1]:
            path = f"{path}/{part}"
            with suppress(FileExistsError):
                calls.mkdir(path, 0o777)
                self._modes.folder(path)

    def _compare_and_rename(self, reflog: Reflog) -> bool:
        """Return False if the race is lost for sure; else only a look can tell."""
        if self._refs.read(self._name) != self._old:
            # Only if somebody took our lock file can our value be there.
            with reported("look at", self._lock):
                return not self._holds_lock()
        self._append(reflog)
        try:
            calls.rename(self._lock, self._path)
        except FileNotFoundError:
            pass  # somebody took our lock file away, perhaps to its place
        except OSError as error:
            if self._is_mine() is False:
                raise failure(error, "replace", self._path) from error
            raise self._uncertain(error) from error
        return True

    def _settle(self, folder: int) -> bool:
        """Sync and look: after the rename every failure is of its own kind."""
        try:
            calls.fsync(folder)
            return self._look()
        except (OSError, GfsError) as error:
            if self._is_mine() is False and not self._may_be_within():
                return False
            raise self._uncertain(error) from error

    def _look(self) -> bool:
        """Return whether our value is, or was and is built upon."""
        info = lstat_or_none(self._path)
        if info is not None and identity(info) == self._mine:
            return True
        head = self._refs.read(self._name)
        return head is not None and self._within(head, self._new, self._old)

    def _is_mine(self) -> bool | None:
        """Return whether the ref is our own file; None if that cannot be seen."""
        try:
            info = lstat_or_none(self._path)
        except OSError:
            return None
        return info is not None and identity(info) == self._mine

    def _may_be_within(self) -> bool:
        try:
            return self._look()
        except (OSError, GfsError):
            return True

    def _uncertain(self, error: Exception) -> Uncertain:
        return Uncertain(
            f"committed, durability unknown: {self._name} is {self._new}, and then: {error}",
            hint="Read again before doing anything: the change is in place unless power fails.",
            ref=self._name,
            commit=self._new,
        )

    def _holds_lock(self) -> bool:
        info = lstat_or_none(self._lock)
        return info is not None and identity(info) == self._mine
