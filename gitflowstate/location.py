"""Which repository is meant: a folder that gfs made, or any ordinary clone, which is only read.

Rules: a folder is one that gfs made when the config of its repository says so (`gfs.format`),
since all else that is not Git's own may be lost and made again; a `.gfs` that leads nowhere ends
the search, so that no other repository is taken in its place.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, Denied, GfsError, NotFound, Rejected
from gitflowstate.git import Oid, Repository
from gitflowstate.gitconfig import is_true, read_config
from gitflowstate.model import FORMAT_PATH
from gitflowstate.syscalls import calls, lstat_or_none, read_regular, reported, write_all

# What an ordinary clone is read from: what its origin had, before what is its own.
CLONED = ("refs/remotes/origin/main", MAIN)
POINTER = ".gfs"
REMOTE = "gfs/remote"  # in a repository that gfs made: the way to its remote, if it has one
NAMED = "gfs"  # there: a name that no configuration of a person's is likely to have
TRACKED = "refs/gfs/remote/main"  # main as the remote last had it
_FORMAT = "1"  # of a folder: what lies where beside the repository
_POINTER_LIMIT = 4096
_PACKED_LIMIT = 1 << 26


class Location(NamedTuple):
    """A flow repository: where it is, the ref that is read, and what may be done there.

    `remote` is where the repository is that decides, None where it is this one.
    """

    folder: Path
    gitdir: Path
    ref: str
    writable: bool
    view: bool
    remote: str | None = None


def mark(gitdir: Path, *, view: bool) -> None:
    """Say in a new repository's config, before it is in place, that gfs made its folder."""
    path = f"{gitdir}/config"
    text = f"[gfs]\n\tformat = {_FORMAT}\n" + ("" if view else "\tview = false\n")
    with reported("write", path):
        descriptor = calls.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            write_all(descriptor, text.encode("ascii"))
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)


def made_by_gfs(gitdir: Path) -> Location | None:
    """Return the location of a repository that gfs made, None if it is not one.

    Rejected if a newer gfs made it, Corrupt or Denied if its config cannot be read.
    """
    config = read_config(f"{gitdir}/config")
    form = config.get("gfs.format")
    if form is None:
        return None
    folder = gitdir.parent if gitdir.name == ".git" else gitdir
    if form != _FORMAT:
        raise Rejected(
            f"{folder} has format {form}; this gfs knows {_FORMAT}", hint="upgrade gitflowstate"
        )
    view = folder != gitdir and ("gfs.view" not in config or is_true(config, "gfs.view"))
    remote = url_in(gitdir / REMOTE)
    return Location(folder, gitdir, MAIN, writable=True, view=view, remote=remote)


def url_in(folder: Path) -> str | None:
    """Return where the remote is by a folder that holds the way to it, None if that is lost."""
    return read_config(f"{folder}/config").get(f"remote.{NAMED}.url") or None


def at(folder: Path, trust: frozenset[str] = frozenset()) -> Location:
    """Return the repository that a folder is or holds, itself or as `.gfs`. Raises NotFound."""
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  links stay as the person wrote them
    found = _led_to(folder, trust) or _own(folder) or _clone(folder, trust)
    if found is None:
        raise NotFound(
            f"{folder} holds no flow repository",
            hint=f"gfs init {folder} makes one; gfs where says which is found from here",
        )
    return found


def above(start: Path, trust: frozenset[str] = frozenset()) -> Location:
    """Return the first repository in a folder or one above it. Raises NotFound.

    An ordinary clone that cannot be opened is not ours to judge: it is passed, and named if
    nothing is found.
    """
    passed: list[str] = []
    for folder in (start, *start.parents):
        found = _led_to(folder, trust) or _own(folder)
        if found is None:
            try:
                found = _clone(folder, trust)
            except GfsError as error:
                passed.append(error.message)
        if found is not None:
            return found
    raise NotFound(
        f"there is no flow repository in {start} or above it"
        + "".join(f"; not looked into: {message}" for message in passed),
        hint="gfs init makes one; --repo DIR or GFS_REPO names another",
        passed=passed,
    )


def is_there(path: Path) -> bool:
    """Return whether there is anything at a path, a link that leads nowhere included."""
    with reported("look at", str(path)):
        return lstat_or_none(str(path)) is not None


def _own(folder: Path) -> Location | None:
    """Return the repository that gfs made in a folder, or that is the folder."""
    found = made_by_gfs(folder / ".git")
    if found is None and is_there(folder / "HEAD"):
        found = made_by_gfs(folder)
    if found is not None and found.remote is None and _was_shared(found.gitdir):
        # Alone it would decide for itself, beside all who still share its flows.
        raise Corrupt(
            f"{folder} shared its flows through a remote, and no longer says which "
            f"({found.gitdir}/{REMOTE} is lost)",
            hint=f"name it again: gfs init {folder} --remote URL",
        )
    return found


def _was_shared(gitdir: Path) -> bool:
    """Tell whether there is a trace of what a remote had."""
    if is_there(gitdir / TRACKED):
        return True
    packed = read_regular(f"{gitdir}/packed-refs", _PACKED_LIMIT) or b""
    return f" {TRACKED}\n".encode() in packed


def _led_to(folder: Path, trust: frozenset[str]) -> Location | None:
    """Return the repository of a folder's `.gfs`, None if it has none."""
    pointer = folder / POINTER
    with reported("look at", str(pointer)):
        info = lstat_or_none(str(pointer))
    if info is None:
        return None
    target = _target(pointer, info, trust) if stat.S_ISREG(info.st_mode) else pointer
    found = _own(target) or _clone(target, trust)
    if found is None:
        raise NotFound(
            f"{pointer} leads to {target}, which holds no flow repository"
            if target != pointer
            else f"{pointer} holds no flow repository",
            hint=f"gfs init {target} makes one, or say --repo DIR",
        )
    return found


def _target(pointer: Path, info: os.stat_result, trust: frozenset[str]) -> Path:
    """Return the folder that a `.gfs` file names; a relative one starts where the file is."""
    if info.st_uid != os.geteuid() and str(pointer) not in trust:
        raise Denied(
            f"{pointer} belongs to another user (uid {info.st_uid})",
            hint=f"If you trust that user, set GFS_TRUST={pointer}.",
        )
    text = os.fsdecode(read_regular(str(pointer), _POINTER_LIMIT) or b"").rstrip("\r\n")
    if not text or "\n" in text or "\0" in text:
        raise Corrupt(f"{pointer} does not hold one path", hint="Call a person.")
    return pointer.parent / text


def _clone(folder: Path, trust: frozenset[str]) -> Location | None:
    """Return an ordinary clone that holds flows; other repositories are none of ours."""
    if not (is_there(folder / ".git") or is_there(folder / "HEAD")):
        return None
    try:
        repo = Repository.open(folder, trust=trust)
    except NotFound:
        return None
    with repo:
        ref, oid = _readable(repo)
        if oid is None or repo.lookup(repo.commit(oid).tree, FORMAT_PATH) is None:
            return None
        return Location(folder, repo.gitdir, ref, writable=False, view=False)


def _readable(repo: Repository) -> tuple[str, Oid | None]:
    for ref in CLONED:
        oid = repo.ref(ref)
        if oid is not None:
            return ref, oid
    return MAIN, None
