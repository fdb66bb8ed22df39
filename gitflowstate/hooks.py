"""Our hook in a repository that people push to or from: installed, looked at, and taken out again.

Rules: a hook that was there before is kept, under another name, and is called first; at no moment
is there none where there was one; what somebody wrote into ours is kept beside it; nothing is
installed where Git would not look for it.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitflowstate import layout
from gitflowstate.cgit import Git
from gitflowstate.errors import NotFound, Rejected
from gitflowstate.git import Repository
from gitflowstate.leftovers import age_s
from gitflowstate.location import is_there
from gitflowstate.syscalls import (
    calls,
    fsync_folder,
    identity,
    lstat_or_none,
    random_name,
    read_regular,
    remove_quietly,
    reported,
    write_new,
)

SERVER, CLONE = "pre-receive", "pre-push"
OURS = ("installed", "outdated", "disabled")  # states of a hook that gfs put there
MARK = b"# gitflowstate hook"
_BEFORE = ".before-gfs"
_REPLACED = ".replaced-"  # and the beginning of its digest
_LIMIT = 1 << 20
_FRESH_S = 60  # of a file that may be in somebody's hands
_COMMAND = re.compile(rb"^gfs\(\) \{.*$", re.MULTILINE)


class Hook(NamedTuple):
    """One hook of one repository, and the script that belongs there, as it is and as shipped.

    `elsewhere` is the folder in which Git looks instead, None where it looks here.
    """

    path: Path
    script: bytes
    shipped: Path
    elsewhere: str | None

    @property
    def before(self) -> Path:
        """Where the hook that was there before is kept."""
        return self.path.with_name(self.path.name + _BEFORE)

    @property
    def unused(self) -> Rejected | None:
        """Why a hook here would not be called, None if it would."""
        if self.elsewhere is None:
            return None
        return Rejected(
            f"Git looks for hooks in {self.elsewhere} (core.hooksPath), which may be others' as "
            f"well, and not in {self.path.parent}",
            hint=f"let the {self.path.name} there call {self.shipped}",
        )


class Done(NamedTuple):
    """What was done: whether anything changed, and where what somebody wrote into ours is kept."""

    changed: bool
    kept: Path | None = None


def of(repo: Repository, scripts: Path, command: Sequence[str], git: Git) -> Hook:
    """Return the hook of a repository: `pre-receive` where it is bare, else `pre-push`.

    `command` starts gfs.
    """
    name = SERVER if layout.is_bare(str(repo.gitdir), repo.config) else CLONE
    words = " ".join(map(shlex.quote, command))
    line = f'gfs() {{ {words} "$@"; }}'.encode()
    script = _COMMAND.sub(lambda _: line, (scripts / name).read_bytes(), count=1)
    return Hook(repo.gitdir / "hooks" / name, script, scripts / name, _elsewhere(git))


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


def install(hook: Hook) -> Done:
    """Put our hook in place, and keep what was there.

    Raises Rejected where a hook is kept already and another stands in our place, and where Git is
    told to look for hooks elsewhere.
    """
    if hook.unused:
        raise hook.unused
    now = state(hook)
    if now == "installed":
        return Done(changed=False)
    half_done = now == "another" and _is_same(hook.path, hook.before)  # killed below, or so
    if now == "another" and is_there(hook.before) and not half_done:
        raise Rejected(
            f"{hook.path} is not ours, and {hook.before} is there as well",
            hint="a person should decide which of the two is meant",
        )
    aside = hook.path.with_name(random_name(f".{hook.path.name}-"))
    with reported("write", str(hook.path)):
        hook.path.parent.mkdir(exist_ok=True)
        _sweep(hook)
        try:
            write_new(str(aside), hook.script, 0o755)
            if now == "another" and not half_done:
                calls.link(str(hook.path), str(hook.before), follow_symlinks=False)
            kept = _kept(hook) if now in OURS else None
            calls.rename(str(aside), str(hook.path))
        finally:
            remove_quietly(str(aside))
        fsync_folder(str(hook.path.parent))
    return Done(changed=True, kept=kept)


def remove(hook: Hook) -> Done:
    """Take our hook out, and put the one before it back; `changed` tells whether there was one.

    Raises NotFound where it is not there.
    """
    if state(hook) not in OURS:
        raise NotFound(f"{hook.path} is not a hook of gfs", next=["gfs", "hooks", "check"])
    with reported("take out", str(hook.path)):
        kept = _kept(hook)
        before = is_there(hook.before)
        if before:
            calls.rename(str(hook.before), str(hook.path))
        else:
            calls.unlink(str(hook.path))
        fsync_folder(str(hook.path.parent))
    return Done(changed=before, kept=kept)


def _kept(hook: Hook) -> Path | None:
    """Give the hook that is there a second name where it is not just what gfs wrote."""
    found = read_regular(str(hook.path), _LIMIT) or b""
    if _COMMAND.sub(b"", found) == _COMMAND.sub(b"", hook.script):
        return None
    from hashlib import sha256  # noqa: PLC0415  hardly ever

    kept = hook.path.with_name(hook.path.name + _REPLACED + sha256(found).hexdigest()[:8])
    with suppress(FileExistsError):  # the same once more
        calls.link(str(hook.path), str(kept))
    return kept


def _is_same(one: Path, other: Path) -> bool:
    """Tell whether two names are those of one file."""
    found = [lstat_or_none(str(path)) for path in (one, other)]
    return None not in found and len({identity(info) for info in found if info}) == 1


def _sweep(hook: Hook) -> None:
    """Remove what killed ones left half-written."""
    name = re.compile(re.escape(f".{hook.path.name}-") + "[0-9a-f]{16}")
    for path in filter(name.fullmatch, calls.listdir(str(hook.path.parent))):
        left = hook.path.with_name(path)
        info = lstat_or_none(str(left))
        if info is not None and stat.S_ISREG(info.st_mode) and age_s(info) >= _FRESH_S:
            remove_quietly(str(left))
