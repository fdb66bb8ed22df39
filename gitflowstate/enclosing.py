"""Another repository in whose work tree a flow repository lies: found, and kept from seeing it.

Rule: nothing there is touched but `info/exclude`, and of that only the end.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gitflowstate.errors import GfsError
from gitflowstate.git import Repository
from gitflowstate.location import POINTER, is_there
from gitflowstate.syscalls import calls, read_regular, reported, write_all

_MAX_EXCLUDE = 1 << 20


def top_of(folder: Path) -> Path | None:
    """Return the top of the work tree that a folder lies in, None if it is in none."""
    for top in (folder, *folder.parents):
        if top.name == ".git":
            return None
        if is_there(top / ".git"):
            return top
    return None


def exclude(folder: Path) -> list[str]:
    """Keep a `.gfs` out of the status of the repository around it; return warnings."""
    top = top_of(folder.parent) if folder.name == POINTER else None
    if top is None:
        return []
    try:
        _append_line(f"{_git_folder(top)}/info", "exclude", POINTER)
    except GfsError as error:
        return [f"{POINTER} was not entered in info/exclude of {top}: {error.message}"]
    return []


def _git_folder(top: Path) -> Path:
    if (top / ".git").is_dir():
        return top / ".git"
    with Repository.open(top) as linked:  # a linked worktree or submodule
        return linked.gitdir


def _append_line(folder: str, name: str, line: str) -> None:
    path = f"{folder}/{name}"
    content = read_regular(path, _MAX_EXCLUDE) or b""
    if line.encode() in content.splitlines():
        return
    start = "\n" if content and not content.endswith(b"\n") else ""
    with reported("write", path):
        with suppress(FileExistsError):
            calls.mkdir(folder, 0o777)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = calls.open(path, flags, 0o666)
        try:
            write_all(descriptor, f"{start}{line}\n".encode())
        finally:
            calls.close(descriptor)
