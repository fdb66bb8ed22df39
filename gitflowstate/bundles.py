"""Copies of a whole flow repository: a bundle is written and read again, and a copy is read.

Rules: a copy holds main and every ref of ours, at least as they were when it was asked for; nothing
that is there is written over; what was written counts only after it was read back. No op is made
(architecture, section 1).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gitflowstate import location, scratch, stopped
from gitflowstate.cgit import Ended, Git
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, Denied, GfsError, NotFound, Rejected, Unavailable
from gitflowstate.git import Oid, Repository
from gitflowstate.syscalls import READ_FLAGS, calls, fsync_file, fsync_folder, reported

OURS = "refs/gfs"
_REMOTE = f"{OURS}/remote/"  # what the remote had when it was asked: of no use in a copy
REFSPECS = (f"{MAIN}:{MAIN}", f"{OURS}/*:{OURS}/*", f"^{_REMOTE}*")

_ATTEMPTS = 5  # while main moves


class Copy(NamedTuple):
    """A copy: what its refs hold, and what brings them into a repository; both run Git in one."""

    refs: Callable[[Path], dict[str, Oid]]
    bring: Callable[[Path], None]


def refs_of(repo: Repository) -> dict[str, Oid]:
    """Return main and every ref of ours. Raises NotFound without a main, Rejected if shallow."""
    main = repo.ref(MAIN)
    if main is None:
        raise NotFound(f"{repo.gitdir} has no {MAIN}: it holds no flows", next=["gfs", "where"])
    if repo.shallow:
        raise Rejected(
            f"{repo.gitdir} is a shallow clone: it does not have all of its history",
            hint="back up the repository that it was cloned from",
        )
    return {MAIN: main} | {name: oid for name, oid in repo.refs(OURS).items() if _is_kept(name)}


def _is_kept(name: str) -> bool:
    """Tell whether a ref is one that a copy has."""
    return name == MAIN or (name.startswith(f"{OURS}/") and not name.startswith(_REMOTE))


def _is_folder(path: Path) -> bool:
    with reported("look at", str(path)):
        return path.is_dir()


# ── a bundle ────────────────────────────────────────────────────────────────────────────────────


def write(repo: Repository, git: Git, file: Path) -> dict[str, Oid]:
    """Write a bundle under a new name, once it was read back; return its refs.

    Raises Rejected where the name is taken, Unavailable where a ref was moved back meanwhile or
    there is no room, Corrupt where the repository is damaged.
    """
    if location.is_there(file):
        raise Rejected(f"{file} is there already and stays as it is", hint="choose another name")
    if not _is_folder(file.parent):
        raise NotFound(f"there is no folder {file.parent}", hint="make it, or name another one")
    refs = refs_of(repo)
    with reported("write", str(file)), scratch.beside(file.parent) as (folder, descriptor):
        git = git.holding(descriptor)
        aside = folder / scratch.BUNDLE
        _bundle(git, aside, refs)
        found = _checked(repo, git, aside, refs)
        fsync_file(str(aside))
        try:
            calls.link(str(aside), str(file))
        except FileExistsError:
            raise Rejected(f"{file} appeared meanwhile", hint="choose another name") from None
        fsync_folder(str(file.parent))
    return found


def _bundle(git: Git, file: Path, refs: dict[str, Oid]) -> None:
    """Let Git write a bundle, and again where it left out a ref that moved meanwhile."""
    path = os.path.abspath(file)  # noqa: PTH100  text
    for _ in range(_ATTEMPTS):
        ended = git.attempt("bundle", "create", "--quiet", path, *refs)
        heads: list[str] = []
        if ended.code == 0:
            heads = stopped.run(git, "bundle", "list-heads", path).split()[1::2]
        elif "empty bundle" not in ended.err:
            raise stopped.failure(ended, "git bundle stopped", git.gitdir)
        if set(heads) == refs.keys():
            return
    left = ", ".join(sorted(refs.keys() - set(heads)))
    raise Unavailable(f"{left} moved while the bundle was written", hint="run it again")


def _checked(repo: Repository, git: Git, file: Path, refs: dict[str, Oid]) -> dict[str, Oid]:
    """Read a bundle back, whole; return what its refs hold."""
    stopped.run(git, "bundle", "verify", "--quiet", os.path.abspath(file))  # noqa: PTH100  text
    copy = file.parent / scratch.COPY
    Repository.init(copy).close()
    source = copy_at(file, git)
    found = source.refs(copy)
    try:
        source.bring(copy)
    except Corrupt as error:  # Git copies packs as they are
        raise Corrupt(
            f"{repo.gitdir} is damaged: {error.details['reason']}; no backup was kept",
            hint="gfs doctor names what is wrong; a copy that was made before stays as it is",
        ) from error
    for name, oid in refs.items():
        if not repo.is_within(oid, found[name]):
            raise Unavailable(f"{name} was moved back meanwhile", hint="run it again")
    return found


def copy_at(place: Path, git: Git) -> Copy:
    """Return the copy that a bundle is, or a repository on this machine."""
    path = os.path.abspath(place)  # noqa: PTH100  links stay as the person wrote them

    def refs(gitdir: Path) -> dict[str, Oid]:
        told = git.at(gitdir).attempt("ls-remote", "--quiet", "--", path, MAIN, f"{OURS}/*")
        if told.code:
            raise _no_copy(place, told)
        return told_refs(told.out)

    def bring(gitdir: Path) -> None:
        ended = git.at(gitdir).attempt(*fetching(path))
        if ended.code:
            raise _not_brought(place, ended)

    return Copy(refs, bring)


def _no_copy(place: Path, told: Ended) -> GfsError:
    """Return the error for what does not say which refs it has."""
    if "dubious ownership" in told.err:
        return Denied(
            f"{place} belongs to another user",
            hint="ask that user for a bundle, which gfs backup FILE makes; or, if you trust that "
            "user, let your own Git read it: safe.directory in git help config",
        )
    with reported("read", str(place)):
        for path in (place, place / ".git"):
            if location.is_there(path):
                os.close(os.open(path, READ_FLAGS & ~os.O_NOFOLLOW))
    return stopped.hindrance(told, f"{place} cannot be read") or NotFound(
        f"{place} is neither a bundle nor a repository",
        hint="name a file that gfs backup wrote, or a repository",
    )


def _not_brought(place: Path, ended: Ended) -> GfsError:
    """Return the error for what did not arrive here."""
    reason = stopped.reason(ended.err)
    return (
        stopped.hindrance(ended, f"what {place} has was not brought here")
        or stopped.unreadable(place, f"{place} cannot be read to its end")
        or stopped.unreadable(place / ".git", f"{place} cannot be read to its end")
        or Corrupt(
            f"{place} cannot be read to its end: {reason}", hint="name another copy", reason=reason
        )
    )


def fetching(source: str) -> tuple[str, ...]:
    """Return the words that fetch every ref of a copy into an empty repository."""
    return (
        *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-head-ok"),
        *("--no-recurse-submodules", "--refmap=", "--", source, *REFSPECS),
    )


def told_refs(listing: str) -> dict[str, Oid]:
    """Return the refs of ours in what `git ls-remote` printed. Raises NotFound without a main."""
    pairs = (line.split("\t", 1) for line in listing.splitlines() if "\t" in line)
    refs = {name: oid for oid, name in pairs if _is_kept(name)}
    if MAIN not in refs:
        raise NotFound("the copy has no main: it holds no flows", hint="name another copy")
    return refs
