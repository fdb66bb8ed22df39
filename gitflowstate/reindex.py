"""The index of a pack, written anew by C git, so that what is in the pack is found again.

Rules: a pack is moved only where Git cannot read it and nothing that a ref names is missing
without it; pack and broken index are kept.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from gitflowstate import leftovers, packindex, stopped, torn
from gitflowstate.cgit import Git, last_line
from gitflowstate.errors import Corrupt, Unavailable
from gitflowstate.git import Repository
from gitflowstate.syscalls import calls, fsync_file, fsync_folder, lstat_or_none, reported


def index(repo: Repository, git: Git, pack: str) -> str:
    """Write the index of a pack, or move a pack aside that is of no use; return what was done.

    The caller holds the repository lock. Raises Corrupt where Git cannot read a pack that may hold
    what is missing, GfsError where Git is not installed.
    """
    try:
        return build(repo, git, pack)
    except Corrupt as error:
        needed = git.attempt("rev-list", "--objects", "--all", "--quiet")
        if needed.code or not torn.is_whole(repo):
            raise
        return _given_up(repo, pack, error.message)


def build(repo: Repository, git: Git, pack: str) -> str:
    """Write the index of a pack, as `index` does. Raises Corrupt where Git cannot read the pack."""
    folder = os.path.dirname(pack)  # noqa: PTH120  plain text paths
    if pack not in {found.path for found in packindex.unindexed(folder)}:
        return "it has one by now: nothing was moved"
    private = Path(repo.gitdir) / "gfs"
    private.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="index-", dir=private) as scratch:
        made = f"{scratch}/made.idx"
        if os.path.isdir(packindex.index_of(pack)):  # noqa: PTH112  Git stumbles over a folder
            _clear(repo, packindex.index_of(pack))
        ended = git.attempt("index-pack", "-o", made, pack)  # an absolute path
        if ended.code:
            if (hindrance := stopped.hindrance(ended, "git index-pack stopped")) is not None:
                raise hindrance
            raise Corrupt(
                f"{pack} has no usable index, and git index-pack stopped: {last_line(ended.err)}",
                hint=f"git unpack-objects -r < {pack} takes out what can be read; then a clone or "
                "a backup may have the rest",
                path=pack,
            )
        with reported("write", packindex.index_of(pack)):
            fsync_file(made)
            _clear(repo, packindex.index_of(pack))
            calls.rename(made, packindex.index_of(pack))
            fsync_folder(folder)
    return f"git has written {packindex.index_of(pack)}"


def _clear(repo: Repository, index_path: str) -> None:
    if lstat_or_none(index_path) and not leftovers.set_aside(str(repo.gitdir), index_path):
        raise Unavailable(f"a process has {index_path} open", hint="run the same command again")


def _given_up(repo: Repository, pack: str, said: str) -> str:
    """Move a pack aside that Git cannot read, and without which nothing is missing."""
    _clear(repo, pack)
    if lstat_or_none(packindex.index_of(pack)):
        _clear(repo, packindex.index_of(pack))
    return (
        f"{said}; nothing that a ref names is missing without it: it is kept in "
        f"{repo.gitdir}/gfs/stale"
    )
