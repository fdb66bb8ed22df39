"""What is wrong with how a flow repository is stored: its objects and packs, and how much it takes.

Rule: what is moved aside is looked at again first, and once more afterwards.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gitflowstate import leftovers, objects, packindex, reindex, stopped, upkeep
from gitflowstate.cgit import Git
from gitflowstate.errors import Unavailable
from gitflowstate.findings import FROM_A_CLONE, Finding
from gitflowstate.git import Repository
from gitflowstate.syscalls import calls, lstat_or_none, reported

MUCH = 1 << 30  # bytes
_FIRST, _REST = 2, 38  # digits of an id in the name of its folder, and of its file


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
    with reported("read", str(path)), suppress(FileNotFoundError):
        digest, end = packindex.checksum(str(path))
        if digest != end[-len(digest) :]:
            what = f"the checksum of {path.name} is wrong"
            step = f"git verify-pack says more; {FROM_A_CLONE}"
            yield Finding("corrupt-pack", what, str(path), step)


def indexes(repo: Repository, git: Git) -> Iterator[Finding]:
    """Yield the packs that nobody can look into, and the indexes whose pack is not there."""
    folder = f"{repo.gitdir}/objects/pack"
    for found in packindex.unindexed(folder):
        yield Finding(
            "pack-index",
            f"{Path(found.path).name} has no usable index, so that nothing in it can be found",
            found.why,
            f"git index-pack {found.path} (which only writes the index); gfs doctor --fix does it",
            fix=lambda path=found.path: reindex.index(repo, git, path),  # type: ignore[misc]
        )
    for index in packindex.without_pack(folder):
        yield Finding(
            "lost-pack",
            f"the pack of {Path(index).name} is not there",
            index,
            "look for it in a copy, a backup or lost+found; what was in it may be elsewhere, too",
            note=True,
        )


def reach(git: Git) -> Iterator[Finding]:
    """Yield what Git misses of all that refs, reflogs and worktrees name: it packs nothing then."""
    every = ("--all", "--reflog", "--indexed-objects")
    ended = git.attempt("rev-list", "--objects", "--quiet", *every)
    if ended.code:
        if (hindrance := stopped.hindrance(ended, "git rev-list stopped")) is not None:
            raise hindrance
        yield Finding(
            "reach",
            "something that a ref or a reflog names is not whole, so that nothing can be packed",
            stopped.reason(ended.err),
            FROM_A_CLONE,
        )


def _broken(gitdir: Path, path: Path, kind: str, problem: str) -> Finding:
    return Finding(
        kind,
        problem,
        str(path),
        f"gfs doctor --fix moves it aside, so that Git can store it again; or {FROM_A_CLONE}",
        fix=lambda: _set_aside(gitdir, path),
    )


def _set_aside(gitdir: Path, path: Path) -> str:
    """Move a broken object aside; a good one that took its place meanwhile stays or comes back."""
    oid, good = f"{path.parent.name}{path.name}", "it is whole, or gone, by now: nothing was moved"
    if objects.flaw(oid, str(path)) is None:
        return good
    with reported("set aside", str(path)):
        moved = leftovers.set_aside(str(gitdir), str(path))
        if moved is None:
            raise Unavailable(f"a process has {path} open", hint="run the same command again")
        if objects.flaw(oid, moved) is None:
            with suppress(FileExistsError):
                calls.link(moved, str(path))
            return good
    return f"the file is now {moved}"
