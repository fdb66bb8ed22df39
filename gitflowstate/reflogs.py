"""What the reflog of a ref tells, and how one that names what is lost goes on without that.

Rule: Git keeps what a reflog names, so that no line about commits that are here is ever dropped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from gitflowstate import leftovers
from gitflowstate.definitions import MAIN
from gitflowstate.errors import GfsError
from gitflowstate.git import Oid, Repository
from gitflowstate.gitconfig import Modes
from gitflowstate.refs import quoted
from gitflowstate.syscalls import (
    CREATE_FLAGS,
    calls,
    fsync_folder,
    random_name,
    read_regular,
    remove_quietly,
    reported,
    write_all,
)

NONE = "0" * 40
LIMIT = 256 << 20
_MOST = 1000  # of the newest lines, where it is asked whether Git stumbles
_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ")
_BEGUN = re.compile(rb"[0-9a-f]{0,40}(?: |\Z)")  # by somebody who is about to end it


def logged(repo: Repository, ref: str = MAIN) -> Iterator[tuple[Oid, Oid]]:
    """Yield old and new value of each move that the reflog of a ref tells, newest first."""
    for line in reversed(_lines(repo, ref)):
        if found := _LINE.match(line):
            yield found[1].decode(), found[2].decode()


def flaw(repo: Repository) -> str | None:
    """Return what Git stumbles over, or passes over, in the newest lines of the reflog of main.

    A commit that is not stored, or a line that is none, as a power cut leaves one: Git keeps
    nothing by it.
    """
    *lines, last = _lines(repo, MAIN)[-_MOST:] or [b""]
    for line in (*lines, *([last] if not _BEGUN.match(last) else [])):
        if not _LINE.match(line):
            return f"a line is {quoted(line)}"
    return _unlogged(repo)


def _unlogged(repo: Repository) -> Oid | None:
    for pair in islice(logged(repo), _MOST):
        for oid in pair:
            if oid != NONE and not repo.has(oid):
                return oid
    return None


def renew(repo: Repository, torn: Container[Oid] = ()) -> Path:
    """Keep the reflog of main aside, and go on with what it says of commits that are here.

    Nothing that is `torn` is here. Returns where it is kept; the caller holds the repository lock.
    """
    path, new = f"{repo.gitdir}/logs/{MAIN}", f"{repo.gitdir}/{random_name(leftovers.PRIVATE)}"
    aside = repo.gitdir / "gfs" / "stale" / random_name("reflog-main-")
    kept = b"".join(_kept(repo, torn))
    with reported("set aside", path), suppress(FileNotFoundError):
        aside.parent.mkdir(parents=True, exist_ok=True)
        if not kept:
            calls.rename(path, str(aside))
            return aside
        try:
            _write(repo, new, kept)
            calls.link(path, str(aside))
            fsync_folder(str(aside.parent))
            calls.rename(new, path)
            fsync_folder(os.path.dirname(path))  # noqa: PTH120  plain text paths
        finally:
            remove_quietly(new)
    return aside


def _lines(repo: Repository, ref: str) -> list[bytes]:
    with suppress(GfsError):
        return (read_regular(f"{repo.gitdir}/logs/{ref}", LIMIT) or b"").split(b"\n")
    return []


def _kept(repo: Repository, torn: Container[Oid]) -> Iterator[bytes]:
    """Yield the lines about commits that are here; an old value that is not gives way."""

    def here(oid: Oid) -> bool:
        return oid not in torn and repo.has(oid)

    last = NONE
    for line in _lines(repo, MAIN):
        line = line.lstrip(b"\0")  # noqa: PLW2901  what was never written, before what was
        found = _LINE.match(line)
        if found is None:
            continue
        old, new = found[1].decode(), found[2].decode()
        old = old if old == NONE or here(old) else last
        if here(new):
            yield old.encode() + b" " + line[41:] + b"\n"
            last = new
        elif old not in (NONE, last):
            yield old.encode() + b" " + old.encode() + line[81:] + b"\n"
            last = old


def _write(repo: Repository, path: str, data: bytes) -> None:
    modes = Modes(repo.config.get("core.sharedrepository", ""))
    descriptor = calls.open(path, CREATE_FLAGS, 0o666)
    try:
        modes.file(descriptor, 0o644)
        write_all(descriptor, data)
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)
