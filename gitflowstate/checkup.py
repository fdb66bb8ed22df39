"""What is wrong with the folder of a flow repository: locks, access, refs, the head, and storage.

Rule: it works on a repository that cannot be opened, or whose head cannot be read.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gitflowstate import layout, leftovers, movedback, objects, torn, upkeep
from gitflowstate.definitions import MAIN
from gitflowstate.errors import NotFound
from gitflowstate.findings import Finding
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
_LITTLE_SPACE = 64 << 20
MUCH = 1 << 30  # bytes
_FIRST, _REST = 2, 38  # digits of an id in the name of its folder, and of its file
_CHECKSUM = 20  # bytes, at the end of a pack
_HEAD = re.compile("ref: refs/.+|[0-9a-f]{40}")  # what Git asks of HEAD in a repository
_CLONE = "fetch the object from a clone or a backup that has it; a person should look"


# ── the folder, whether it can be opened or not ─────────────────────────────────────────────────


def folder(gitdir: Path) -> Iterator[Finding]:
    """Yield what can be seen without opening the repository: locks and space."""
    for path in sorted({p for pattern in _LOCKS for p in gitdir.glob(pattern)}):
        if path.name not in _OWN_LOCKS and leftovers.is_dead(str(gitdir), str(path)):
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


def heads(repo: Repository, *, made_by_gfs: bool, at: Time) -> Iterator[Finding]:
    """Yield what is wrong with HEAD, main and the objects that it names."""
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
        yield Finding("torn-head", "the head cannot be read", found, _CLONE)
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
    return f"main is at {cut.good[:12]} again; what was above it is kept on {name}"


# ── how it is stored ────────────────────────────────────────────────────────────────────────────


def storage(repo: Repository, sizes: upkeep.Sizes) -> Iterator[Finding]:
    """Yield what is broken on the disk, whether anything names it or not, and what is much."""
    gitdir, folder = repo.gitdir, repo.gitdir / "objects"
    for first in (name for name in upkeep.names_in(str(folder)) if len(name) == _FIRST):
        for path in (folder / first / name for name in upkeep.names_in(f"{folder}/{first}")):
            info = lstat_or_none(str(path))
            if info and stat.S_ISREG(info.st_mode) and len(path.name) == _REST:
                yield from _loose(gitdir, path, empty=info.st_size == 0)
    for name in upkeep.names_in(f"{folder}/pack"):
        if name.endswith(".pack"):
            yield from _pack(folder / "pack" / name)
    if sizes.loose > upkeep.MANY_LOOSE or sizes.packs > upkeep.MANY_PACKS:
        yield Finding(
            "upkeep",
            f"{sizes.loose:,} loose objects and {sizes.packs} packs: logs are slow",
            f"{sizes.bytes >> 20} MiB",
            "gfs gc",
            note=True,
        )
    if sizes.bytes > MUCH:
        yield Finding(
            "disk-use",
            f"the repository takes {sizes.bytes / (1 << 30):.1f} GiB",
            f"{sizes.loose:,} loose objects and {sizes.packs} packs",
            "gfs gc; large results belong into files of their own, which a flow only names",
            note=True,
        )


def _loose(gitdir: Path, path: Path, *, empty: bool) -> Iterator[Finding]:
    """Yield what is wrong with one loose object."""
    oid = f"{path.parent.name}{path.name}"
    if empty:
        yield _broken(gitdir, path, "empty-object", f"object {oid} is an empty file")
    elif (wrong := objects.flaw(oid, str(path))) is not None:
        yield _broken(gitdir, path, "corrupt-object", f"object {oid} is corrupt: {wrong}")


def _pack(path: Path) -> Iterator[Finding]:
    """Yield a pack whose bytes are not those that Git wrote; one that is gone is none."""
    total = hashlib.sha1(usedforsecurity=False)
    with reported("read", str(path)), suppress(FileNotFoundError), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while left := max(0, size - _CHECKSUM - file.tell()):
            total.update(file.read(min(left, 1 << 20)))
        if total.digest() != file.read(_CHECKSUM):
            what = f"the checksum of {path.name} is wrong"
            yield Finding("corrupt-pack", what, str(path), f"git verify-pack says more; {_CLONE}")


def _broken(gitdir: Path, path: Path, kind: str, problem: str) -> Finding:
    def fix() -> str:
        aside = gitdir / "gfs" / "stale"
        aside.mkdir(parents=True, exist_ok=True)
        moved = aside / random_name(f"{path.parent.name}{path.name}-")
        calls.rename(str(path), str(moved))
        return f"the file is now {moved}"

    return Finding(
        kind,
        problem,
        str(path),
        f"gfs doctor --fix moves it aside, so that Git can store it again; or {_CLONE}",
        fix=fix,
    )


def logs(repo: Repository) -> Iterator[Finding]:
    """Yield a reflog of main that names a commit which is not here: Git stumbles over it."""
    missing = torn.unlogged(repo)
    if missing is not None:
        yield Finding(
            "reflog",
            "the reflog of main names a commit that is not here",
            missing,
            "gfs doctor --fix moves the reflog aside and begins another",
            fix=lambda: f"it is now {torn.set_log_aside(repo.gitdir)}",
        )
