"""Our hook in a repository that people push to or from: installed, looked at, and taken out again.

Rules: a hook that was there before is kept, under another name, and is called first; at no moment
is there none where there was one; nothing is installed where Git would not look for it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gitflowstate import layout
from gitflowstate.cgit import Git
from gitflowstate.errors import NotFound, Rejected
from gitflowstate.git import Repository
from gitflowstate.location import is_there
from gitflowstate.syscalls import (
    calls,
    fsync_folder,
    random_name,
    read_regular,
    remove_quietly,
    reported,
    write_new,
)

SERVER, CLONE = "pre-receive", "pre-push"
MARK = b"# gitflowstate hook"
_BEFORE = ".before-gfs"
_LIMIT = 1 << 20
_COMMAND = re.compile(rb"^gfs\(\) \{.*$", re.MULTILINE)


class Hook(NamedTuple):
    """One hook of one repository, and the script that belongs there."""

    path: Path
    script: bytes

    @property
    def before(self) -> Path:
        """Where the hook that was there before is kept."""
        return self.path.with_name(self.path.name + _BEFORE)


def of(repo: Repository, scripts: Path, command: Sequence[str], git: Git) -> Hook:
    """Return the hook of a repository: `pre-receive` where it is bare, else `pre-push`.

    `command` starts gfs. Raises Rejected where Git is told to look for hooks elsewhere.
    """
    name = SERVER if layout.is_bare(str(repo.gitdir), repo.config) else CLONE
    elsewhere = _elsewhere(git)
    if elsewhere is not None:
        raise Rejected(
            f"Git looks for hooks in {elsewhere} (core.hooksPath), which may be others' as well",
            hint=f"let the {name} there call {scripts / name}",
        )
    words = " ".join(map(shlex.quote, command))
    line = f'gfs() {{ {words} "$@"; }}'.encode()
    script = _COMMAND.sub(lambda _: line, (scripts / name).read_bytes(), count=1)
    return Hook(repo.gitdir / "hooks" / name, script)


def _elsewhere(git: Git) -> str | None:
    """Return where Git looks for hooks, if it is told to; the last value is our own setting."""
    values = git.attempt("config", "--get-all", "core.hooksPath", timeout_s=20).out.splitlines()
    return values[-2] if len(values) > 1 else None


def state(hook: Hook) -> str:
    """Return what is there: installed, outdated, disabled, another or absent."""
    if not is_there(hook.path):
        return "absent"
    found = None if hook.path.is_symlink() else read_regular(str(hook.path), _LIMIT)
    if found is None or MARK not in found:
        return "another"
    if not os.access(hook.path, os.X_OK):
        return "disabled"
    return "installed" if found == hook.script else "outdated"


def install(hook: Hook) -> bool:
    """Put our hook in place, and keep the one before it; return whether anything changed.

    Raises Rejected where one is kept already and another stands in our place.
    """
    now = state(hook)
    if now == "installed":
        return False
    if now == "another" and is_there(hook.before):
        raise Rejected(
            f"{hook.path} is not ours, and {hook.before} is there as well",
            hint="a person should decide which of the two is meant",
        )
    aside = hook.path.with_name(random_name(f".{hook.path.name}-"))
    with reported("write", str(hook.path)):
        hook.path.parent.mkdir(exist_ok=True)
        try:
            write_new(str(aside), hook.script, 0o755)
            if now == "another":
                os.link(hook.path, hook.before, follow_symlinks=False)
            calls.rename(str(aside), str(hook.path))
        finally:
            remove_quietly(str(aside))
        fsync_folder(str(hook.path.parent))
    return True


def remove(hook: Hook) -> bool:
    """Take our hook out, and put the one before it back; return whether there was one before.

    Raises NotFound where it is not there.
    """
    if state(hook) in ("absent", "another"):
        raise NotFound(f"{hook.path} is not a hook of gfs", next=["gfs", "hooks", "check"])
    with reported("take out", str(hook.path)):
        kept = is_there(hook.before)
        if kept:
            calls.rename(str(hook.before), str(hook.path))
        else:
            calls.unlink(str(hook.path))
        fsync_folder(str(hook.path.parent))
    return kept
