"""What is wrong with the folder of a flow repository: locks, access, refs and the head.

Rule: it works on a repository that cannot be opened, or whose head cannot be read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from gitflowstate import layout, leftovers, movedback, packindex, reflogs, torn
from gitflowstate.definitions import MAIN
from gitflowstate.errors import NotFound, Unavailable
from gitflowstate.findings import FROM_A_CLONE, Finding
from gitflowstate.git import Repository
from gitflowstate.kinds import Time
from gitflowstate.syscalls import (
    calls,
    fsync_folder,
    lstat_or_none,
    random_name,
    remove_quietly,
    reported,
    write_new,
)

_LOCKS = ("*.lock", "refs/**/*.lock", "logs/**/*.lock", "objects/**/*.lock")
_OWN_LOCKS = ("gfs.lock",)
# What the lock of the repository is made of; all but the first are those of `git gc`.
_OF_THE_LOCK = ("gfs.lock", "gc.pid", "gc.pid.lock", "gfs.gc.pid")
_LITTLE_SPACE = 64 << 20
_HEAD = re.compile("ref: refs/.+|[0-9a-f]{40}")  # what Git asks of HEAD in a repository


# ── the folder, whether it can be opened or not ─────────────────────────────────────────────────


def folder(gitdir: Path) -> Iterator[Finding]:
    """Yield what can be seen without opening the repository: locks and space."""
    for path in sorted({p for name in (*_LOCKS, *_OF_THE_LOCK) for p in gitdir.glob(name)}):
        if (what := _no_file(path)) is not None:
            yield _in_the_way(gitdir, path, what)
        elif (
            path.name.endswith(".lock")
            and path.name not in _OWN_LOCKS
            and leftovers.is_dead(str(gitdir), str(path))
        ):
            yield _stale(gitdir, path)
    try:
        space = os.statvfs(gitdir)
    except OSError:
        return
    free = space.f_bavail * space.f_frsize
    if free < _LITTLE_SPACE:
        yield Finding("space", "the disk is nearly full", f"{free >> 20} MiB free", "make room")


def _stale(gitdir: Path, path: Path) -> Finding:
    info = lstat_or_none(str(path))
    minutes = leftovers.age_s(info) // 60 if info else 0

    def fix() -> str:
        told: list[str] = []
        if not leftovers.clear(str(gitdir), str(path), told):
            return ""
        return told[0] if told else f"{path} was moved aside"

    return Finding(
        "stale-lock",
        f"{path} was left behind",
        f"{minutes:.0f} minutes old, and no process has it open",
        "gfs doctor --fix moves it aside",
        fix=fix,
    )


def _no_file(path: Path) -> str | None:
    """Return what is where a lock file would be, None for a file or nothing."""
    with reported("look at", str(path)):
        info = lstat_or_none(str(path))
    if info is None or stat.S_ISREG(info.st_mode):
        return None
    return f"a {'folder' if stat.S_ISDIR(info.st_mode) else 'link or no file'}"


def _in_the_way(gitdir: Path, path: Path, what: str) -> Finding:
    def fix() -> str:
        if _no_file(path) is None:
            return "it is gone by now: nothing was moved"
        with reported("set aside", str(path)):
            return f"it is now {leftovers.set_aside(str(gitdir), str(path))}"

    return Finding(
        "in-the-way",
        f"{path} is in the way: nothing can be locked there",
        f"it is {what}, which neither Git nor gfs makes",
        "gfs doctor --fix moves it aside",
        fix=fix,
        free=path.name in _OF_THE_LOCK,
    )


def access(gitdir: Path) -> Iterator[Finding]:
    """Yield what keeps us from writing."""
    for name in ("", "objects", "refs", "refs/heads"):
        path = gitdir / name
        if path.exists() and not os.access(path, os.W_OK):
            owner = path.stat()
            yield Finding(
                "permission",
                f"{path} cannot be written by this user",
                f"uid {owner.st_uid}, mode {stat.filemode(owner.st_mode)}",
                "ask its owner for access",
            )


# ── refs and the head ───────────────────────────────────────────────────────────────────────────


def named(repo: Repository, *, made_by_gfs: bool) -> Iterator[Finding]:
    """Yield what is wrong with HEAD, without which no command of Git works."""
    said = layout.read_head(str(repo.gitdir))
    if not _HEAD.fullmatch(said):
        yield _headless(repo.gitdir, said)
    elif made_by_gfs and said != f"ref: {MAIN}":
        yield Finding(
            "head",
            "HEAD does not name main, so that a clone begins elsewhere",
            f"HEAD says {said[:80]!r}",
            f"git symbolic-ref HEAD {MAIN}",
        )


def heads(repo: Repository, at: Time) -> Iterator[Finding]:
    """Yield what is wrong with main and the objects that it names."""
    for name, oid in repo.refs("refs/replace").items():
        yield Finding(
            "replace-ref",
            "Git shows another object in the place of one, and gfs does not",
            f"{name} -> {oid[:12]}",
            "git replace --list shows them; ask who made it",
        )
    yield from _torn(repo, at)


def _headless(gitdir: Path, said: str) -> Finding:
    """Return that HEAD holds nothing that Git accepts, so that none of its commands works."""

    def fix() -> str:
        path, new = f"{gitdir}/HEAD", f"{gitdir}/{random_name(leftovers.PRIVATE)}"
        if _HEAD.fullmatch(layout.read_head(str(gitdir))):
            return "it was written meanwhile"
        aside = gitdir / "gfs" / "stale" / random_name("HEAD-")
        aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_new(new, f"ref: {MAIN}\n".encode())
            calls.link(path, str(aside))
            calls.rename(new, path)
        finally:
            remove_quietly(new)
        fsync_folder(str(gitdir))
        return f"HEAD names main; the file that it was is now {aside}"

    return Finding(
        "head",
        "HEAD names no branch, so that Git takes this for no repository",
        f"HEAD says {said[:80]!r}",
        "gfs doctor --fix lets it name main, and keeps the file that it was",
        fix=fix,
    )


def _torn(repo: Repository, at: Time) -> Iterator[Finding]:
    found = torn.find(repo)
    if isinstance(found, torn.Cut):
        cut = found
        count = len(cut.torn)
        what = f"{count} commit{'s' * (count > 1)} at the head" if count else f"the value of {MAIN}"
        lost = cut.torn[0].problem if count else f"{MAIN} holds no commit id"
        yield Finding(
            "torn-head",
            f"{what} did not reach the disk whole",
            f"{lost}; {cut.good[:12]} is the last whole commit",
            "first look for a clone or a backup that has them; gfs doctor --fix goes back to the "
            "last whole commit and keeps what can be read on refs/gfs/rescued/",
            fix=lambda: _moved_back(repo, cut, at),
        )
    elif found is not None:
        step = FROM_A_CLONE
        if packindex.unindexed(f"{repo.gitdir}/objects/pack"):
            step = "first let the pack have its index again, which may be all that is missing"
        yield Finding("torn-head", "the head cannot be read", found, step)
    elif repo.ref(MAIN) is None:
        yield _missing(repo)


def _missing(repo: Repository) -> Finding:
    """Return that there is no main, and what it was where anything tells."""
    was = movedback.last_known(repo)
    if was is None:
        raise NotFound(
            f"{repo.gitdir} has no {MAIN}: it holds no flows", hint="gfs where; look into a backup"
        )
    return Finding(
        "refs",
        f"{repo.gitdir} has no {MAIN}, which it had",
        f"it was at {movedback.about(repo, was)}",
        f"git branch main {was[:12]} makes it again; if somebody took it away, ask why first",
    )


def _moved_back(repo: Repository, cut: torn.Cut, at: Time) -> str:
    name = torn.move_back(repo, cut, at)
    if name is None:
        return "it can be read whole by now: nothing was moved"
    return f"main is at {cut.good[:12]} again; what was above it is kept on {name}"


# ── the reflog ──────────────────────────────────────────────────────────────────────────────────


def logs(repo: Repository) -> Iterator[Finding]:
    """Yield a reflog of main that Git stumbles over, or that does not keep what it should.

    It stays in its place while the head is not whole, since it may be all that knows an older one.
    """
    flaw = reflogs.flaw(repo)
    if flaw is not None:
        whole = torn.is_whole(repo)
        yield Finding(
            "reflog",
            "the reflog of main does not parse"
            if " " in flaw
            else "the reflog of main names a commit that is not here",
            flaw,
            "gfs doctor --fix keeps it aside, and goes on with what it says of what is here"
            if whole
            else "first mend the head: the reflog knows what came before it",
            fix=(lambda: _log_renewed(repo)) if whole else None,
        )


def _log_renewed(repo: Repository) -> str:
    if reflogs.flaw(repo) is None:
        return "it is sound by now: nothing was moved"
    if not torn.is_whole(repo):
        raise Unavailable("the head is not whole any more", hint="run the same command again")
    return f"it goes on with what is here; as it was it is kept in {reflogs.renew(repo)}"
