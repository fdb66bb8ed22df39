"""How a flow repository begins: `gfs init`.

Rules: a repository is made aside, with its first commit, and renamed into place, so that it is
there whole or not at all; what is there is never touched; the first commit is the same object
everywhere, so that two repositories that begin apart are not unrelated (architecture, section 1).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gitflowstate import enclosing, location, wholeness
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Rejected, Unavailable, Uncertain
from gitflowstate.git import Repository
from gitflowstate.kinds import Time
from gitflowstate.location import POINTER, Location, is_there
from gitflowstate.locks import repository_lock
from gitflowstate.ops import Init
from gitflowstate.store import Store
from gitflowstate.syscalls import (
    calls,
    fsync_folder,
    identity,
    lstat_or_none,
    random_name,
    reported,
)

FIRST = Init(at="2026-01-01T00:00:00Z", by="gitflowstate")
_ASIDE = ".gfs-init-"  # how `layout` names what it makes aside, too
_COMMAND = "gfs init"
_PATIENCE_S = 10.0


class Founded(NamedTuple):
    """Where the repository is, whether it was made just now, and what went less than well."""

    location: Location
    made: bool
    warnings: list[str]


def init(
    folder: Path,
    *,
    view: bool = True,
    begin: Callable[[Path], None] | None = None,
    command: str = _COMMAND,
) -> Founded:
    """Make a flow repository in a folder, or find the one that it holds.

    `begin` makes it at a path aside, if it is to be another than an empty one; `command` is what a
    hint names. A `.gfs` inside another repository's work tree is also entered in that repository's
    `info/exclude`. Rejected if the folder holds a repository that gfs did not make, Corrupt if it
    holds a damaged one, Unavailable if another process goes on making one there.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  links stay as the person wrote them
    found = _present(folder, command)
    warnings = enclosing.exclude(folder)
    if found is not None:
        return Founded(found, made=False, warnings=warnings)
    with reported("make", str(folder)), _made(folder), _alone_in(folder):
        found = _present(folder, command)
        if found is None and _moved_in(folder, begin or partial(_begin, view=view)):
            made = Location(folder, folder / ".git", MAIN, writable=True, view=view)
            return Founded(made, made=True, warnings=warnings)
        found = found or _present(folder, command)
    assert found is not None
    return Founded(found, made=False, warnings=warnings)


def add(  # noqa: PLR0917  what a commit is made of
    place: Location, files: Mapping[str, bytes], by: str, at: Time, subject: str, timeout: float
) -> list[str]:
    """Commit files of people's own into a flow repository; return the paths that were added.

    What is there stays as it is, whatever it holds. Raises what the repository and its lock raise.
    """
    with (
        Repository.open(place.gitdir, writing=True) as repo,
        repository_lock(repo.gitdir, timeout),
    ):
        old = repo.ref(place.ref)
        tree = repo.commit(old).tree if old else None
        missing = {p: files[p] for p in files if not tree or repo.lookup(tree, p) is None}
        if missing:
            staged = repo.stage(tree, missing)
            parents, moment = ([old] if old else []), int(datetime.fromisoformat(at).timestamp())
            made = repo.commit_object(staged, parents, f"{subject}\n".encode(), by, moment)
            if not repo.publish(place.ref, old, made, subject):
                raise Unavailable(f"{place.ref} moved meanwhile", hint="run it again")
        return [*missing]


def choose(here: Path, command: str = _COMMAND) -> Path:
    """Return the folder that `gfs init` without DIR is about.

    That is the flow repository one stands in; else `.gfs` inside another repository's work tree,
    the nearest one where there is one; else the working folder. Rejected if that is not empty.
    """
    top = enclosing.top_of(here)
    for folder in (here, *here.parents):
        if location.made_by_gfs(folder / ".git"):
            return folder
        pointer = folder / POINTER
        if (folder == here or top) and is_there(pointer):
            return pointer if pointer.is_dir() else location.at(folder).folder
        if folder == top:
            return here / POINTER
    with reported("list", str(here)):
        if any(not name.startswith(_ASIDE) for name in calls.listdir(str(here))):
            raise Rejected(f"{here} is not empty", hint=f"{command} DIR makes one in DIR")
    return here


def _present(folder: Path, command: str) -> Location | None:
    """Return the flow repository in a folder, None if there is room for one."""
    found = location.made_by_gfs(folder / ".git")
    if found is not None:
        wholeness.check_sound(str(found.gitdir), MAIN)
        return found
    if is_there(folder / ".git"):
        own = f"a folder of its own: {command} {folder / POINTER}"
        raise _refused(folder, "it holds a Git repository that gfs did not make", own)
    if all(is_there(folder / name) for name in ("HEAD", "objects", "refs")):
        raise _refused(folder, "it is a Git repository itself", "another folder")
    if is_there(folder) and not folder.is_dir():
        raise _refused(folder, "it is no folder", "another name")
    return None


def _refused(folder: Path, reason: str, choice: str) -> Rejected:
    return Rejected(
        f"no flow repository is made in {folder}: {reason}",
        hint=f"choose {choice}",
        path=str(folder),
    )


# ── making it ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder and those above it, so that they survive a power cut.

    What was made here and is empty goes again where the block fails.
    """
    missing = [path for path in (folder, *folder.parents) if lstat_or_none(str(path)) is None]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            with suppress(FileExistsError):
                calls.mkdir(str(path), 0o777)
                made.append(path)
            fsync_folder(str(path.parent))
        yield
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep out others who begin here, and clear what those who died left aside."""
    descriptor = calls.open(str(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        locked = _locked(descriptor, folder)
        if not _leads_to(folder, descriptor):
            raise Unavailable(
                f"{folder} was removed by another process, which could not make a repository there",
                hint="Run the same command again.",
            )
        if locked:
            for name in calls.listdir(str(folder)):
                if name.startswith(_ASIDE):
                    _clear(folder / name)
        yield
    finally:
        with suppress(OSError):  # nothing was written through it
            calls.close(descriptor)


def _leads_to(folder: Path, descriptor: int) -> bool:
    """Tell whether a folder is still the one that was opened."""
    with suppress(FileNotFoundError):
        return identity(folder.stat()) == identity(calls.fstat(descriptor))
    return False


def _locked(descriptor: int, folder: Path) -> bool:
    """Lock a folder; False where the file system has no locks: the rename lets only one in."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"another process is making a repository in {folder}",
                    hint="Run the same command again.",
                ) from None
            time.sleep(0.01)
        except OSError:
            return False
        else:
            return True


def _clear(aside: Path) -> None:
    from shutil import rmtree  # noqa: PLC0415  start-up, and hardly ever

    rmtree(aside, ignore_errors=True)


def place(folder: Path, begin: Callable[[Path], None]) -> None:
    """Let `begin` make a repository aside, and move it into a new or empty folder.

    Rejected if the folder holds anything, Unavailable if another process goes on making one there.
    """
    with reported("make", str(folder)), _made(folder), _alone_in(folder):
        if calls.listdir(str(folder)) or not _moved_in(folder, begin):
            raise _refused(folder, "it is not empty", "a new or an empty folder")


def _moved_in(folder: Path, begin: Callable[[Path], None]) -> bool:
    """Make the repository aside and move it into place; False if another one came first."""
    aside = folder / random_name(_ASIDE)
    try:
        begin(aside)
        calls.rename(str(aside), str(folder / ".git"))
    except BaseException as error:
        _clear(aside)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    try:
        fsync_folder(str(folder))
    except OSError as error:
        raise Uncertain(
            f"the repository in {folder} is made, but may not survive a power cut: {error}",
            hint="Look at the disk, then run the same command again.",
        ) from error
    return True


def _begin(gitdir: Path, *, view: bool) -> None:
    with Repository.init(gitdir) as repo:
        location.mark(gitdir, view=view)
        try:
            Store(repo).commit(FIRST)
        except Uncertain as error:
            # Not in place yet: what is uncertain about the ref is a plain failure here.
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            raise
