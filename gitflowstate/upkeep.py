"""Upkeep of a repository by C git: packing, the index of changed paths, and old leftovers.

Rules: everything is done under the repository lock and git's own `gc.pid`, which Git's commands
inherit, so that they outlive us without a writer beside them; what is packed is on the disk before
its loose copy goes; of what no ref names, only what is older than two weeks goes (hazards F6, F7,
F8, A14). Never dulwich's gc, and never `git gc`, which would wait for the `gc.pid` that we hold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gitflowstate import leftovers, packindex, reindex, roots, stopped
from gitflowstate.cgit import Git, is_installed, last_line
from gitflowstate.errors import GfsError
from gitflowstate.git import Repository
from gitflowstate.locks import repository_lock
from gitflowstate.syscalls import calls, fsync_folder, lstat_or_none, reported

EXPIRE = "2.weeks.ago"
MANY_LOOSE = 6700  # as for Git's own `gc.auto`
MANY_PACKS = 50  # as for `gc.autoPackLimit`
_SAMPLE = "17"  # as good as any other
_REST = 38  # digits of an id after its folder
_SETTINGS = (
    *("-c", "repack.writeBitmaps=false"),  # dulwich cannot push beside a pack with one
    *("-c", "core.fsync=all"),
)


class Sizes(NamedTuple):
    """How a repository is stored: loose objects, packs, and the bytes of both."""

    loose: int
    packs: int
    bytes: int


class Upkeep(NamedTuple):
    """What one run did."""

    before: Sizes
    after: Sizes
    swept: int
    warnings: list[str]


def sizes(repo: Repository) -> Sizes:
    """Return how a repository is stored."""
    loose = packs = total = 0
    objects = f"{repo.gitdir}/objects"
    for folder in names_in(objects):
        if len(folder) != 2 and folder != "pack":  # noqa: PLR2004  loose objects
            continue
        for name in names_in(f"{objects}/{folder}"):
            loose += folder != "pack" and len(name) == _REST
            packs += name.endswith(".pack")
            total += _size(f"{objects}/{folder}/{name}")
    return Sizes(loose, packs, total)


def is_due(gitdir: Path) -> bool:
    """Tell whether many loose objects lie about, from one folder of 256, as Git does."""
    found = names_in(f"{gitdir}/objects/{_SAMPLE}")
    return sum(len(name) == _REST for name in found) * 256 > MANY_LOOSE


def names_in(folder: str) -> list[str]:
    """Return the names in a folder of objects, none where a packing has removed it meanwhile."""
    with reported("list", folder):
        try:
            return sorted(calls.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []


def _size(path: str) -> int:
    with reported("look at", path):
        info = lstat_or_none(path)
    return info.st_size if info else 0


def run(repo: Repository, environment: Mapping[str, str], timeout: float) -> Upkeep:
    """Pack what is loose and index it; drop what is unreachable and old.

    Raises GfsError where Git is not installed, after what dead writers left was swept; Corrupt
    where a ref is lost or an object missing, Unavailable where there is no room, Denied where a
    file may not be read or written, and then nothing that a ref names was touched.
    """
    if not is_installed(environment):
        with repository_lock(repo.gitdir, timeout):
            roots.check(repo, None)
            swept = _sweep(repo)
        raise GfsError(
            f"git is not installed: nothing was packed, {swept} leftovers of dead writers went",
            hint="install git (2.36 or newer), then run the same command again",
            swept=swept,
        )
    _check_readable(Git(repo.gitdir, environment))
    with repository_lock(repo.gitdir, timeout) as lock:
        git = Git(repo.gitdir, environment, keep_open=(lock.descriptor,))
        before = sizes(repo)
        indexed = [
            f"{found.path} had no usable index: {reindex.build(repo, git, found.path)}"
            for found in packindex.unindexed(f"{repo.gitdir}/objects/pack")
        ]
        roots.check(repo, git)
        swept = _sweep(repo)
        _pack(git, repo.gitdir, before)
        warnings = [*indexed, *_index(git, repo.gitdir)]
        _run(git, "prune", f"--expire={EXPIRE}", "--no-progress")
        roots.begin_logs(repo, int(time.time()))
        repo.close()
        return Upkeep(before, sizes(repo), swept, [*lock.warnings, *warnings])


def _sweep(repo: Repository) -> int:
    """Remove what dead writers of ours left unfinished; return how many objects."""
    swept = leftovers.sweep_objects(f"{repo.gitdir}/objects")
    leftovers.sweep(str(repo.gitdir))
    return swept


def _check_readable(git: Git) -> None:
    """Refuse a repository whose configuration Git cannot read, before anything is locked."""
    ended = git.attempt("rev-parse", "--is-bare-repository", timeout_s=20)
    if ended.code:
        raise GfsError(
            f"git cannot read {git.gitdir}: {last_line(ended.err)}", hint="look at its config file"
        )


def _pack(git: Git, gitdir: Path, before: Sizes) -> None:
    everything = before.packs >= MANY_PACKS
    kind = ("-A", f"--unpack-unreachable={EXPIRE}", "-d") if everything else ()
    _run(git, "repack", "-l", "-q", "-n", *kind)
    folder = f"{gitdir}/objects/pack"
    with reported("sync", folder):
        fsync_folder(folder)
    _run(git, "prune-packed", "--quiet")


def _index(git: Git, gitdir: Path) -> list[str]:
    """Write the commit-graph, for `git log -- PATH`; a lock file in the way only delays it."""
    warnings: list[str] = []
    path = f"{gitdir}/objects/info/commit-graph.lock"
    if leftovers.clear(str(gitdir), path, warnings):
        _run(git, "commit-graph", "write", "--reachable", "--changed-paths", "--no-progress")
    else:
        warnings.append(f"the index of changed paths was not renewed: {path} is in the way")
    return warnings


def _run(git: Git, *arguments: str) -> None:
    stopped.run(git, *_SETTINGS, *arguments)
