"""What keeps the objects of a repository: its refs, and whether any of them was lost.

Rules: whoever removes what no ref names asks here first. A ref that is gone or cannot be read costs
what it named; so does one that shows an older value. What else knows a commit that is here (a
reflog, the plain files, a cursor) speaks for a ref that is lost.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from gitflowstate import reflogs, sightings, stopped, wholeness
from gitflowstate.cgit import Git
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt
from gitflowstate.findings import FROM_A_CLONE, Finding
from gitflowstate.git import Oid, Repository
from gitflowstate.inbox import INBOX_REF
from gitflowstate.location import TRACKED
from gitflowstate.objects import is_large
from gitflowstate.refs import is_plain, quoted, value_of
from gitflowstate.syscalls import calls, lstat_or_none, read_regular, reported

_OURS = "refs/gfs/"
_REMOTE = TRACKED.rpartition("/")[0]  # what is there is at the remote
_CLONED = "refs/remotes/"  # there Git itself leaves a symbolic ref that leads nowhere
_ZERO = "0" * 40
_LIMIT, _LOG_LIMIT = 64 << 20, 256 << 20
_LINE = re.compile(rb"([0-9a-f]{40}) (refs/\S+)|\^[0-9a-f]{40}|#.*")
_WRITTEN = (
    "a clone, a backup and the folder logs know which refs it held; when they are back, "
    "git pack-refs --all writes it anew"
)
_HEAD = "gfs doctor names what is wrong with the head, and what it can be mended with"
_ASK = "a person should look: a clone, a backup and the folder logs know what it held"


class Root(NamedTuple):
    """One ref as it is stored: what it holds, or where it leads."""

    name: str
    oid: Oid | None
    target: str | None = None


def check(repo: Repository, git: Git | None) -> None:
    """Refuse to remove anything where a ref may be lost; without Git less is looked at.

    Raises Corrupt with what is wrong, and what reading raises.
    """
    _refuse(flaws(repo, git))
    wholeness.check_sound(str(repo.gitdir), MAIN)
    main = repo.ref(MAIN)
    if main is not None and git:
        try:
            repo.commit(main)
        except Corrupt as error:
            raise Corrupt(f"nothing was removed: {error.message}", hint=_HEAD) from error
        _refuse(moved_back(repo, git))


def _refuse(findings: Iterator[Finding]) -> None:
    for found in findings:
        raise Corrupt(f"nothing was removed: {found.problem} ({found.evidence})", hint=found.next)


def flaws(repo: Repository, git: Git | None) -> Iterator[Finding]:
    """Yield each ref but main that is lost, or that Git and gfs read differently or not at all.

    The refs that are gone without a trace but their reflog are found with Git alone, and where the
    others can be read.
    """
    roots: dict[str, Root] = {}
    clean = git is not None
    for found in (*_packed(str(repo.gitdir)), *_loose(repo, "refs")):
        if isinstance(found, Finding):
            clean = False
            yield found
        else:
            roots[found.name] = found
    for root in roots.values():
        for found in _judged(repo, root, {*roots, MAIN}):
            clean = False
            yield found
    yield from _shallow(repo)
    for name in _logs(str(repo.gitdir), "refs") if clean else ():
        if git and name not in roots and name != MAIN:
            yield from _lost(repo, git, name)


def begin_logs(repo: Repository, time: int) -> None:
    """Begin a reflog for each ref of ours that has none, as after a restore; `time` is seconds.

    So that it is missed when it is lost. The caller holds the repository lock.
    """
    main = repo.ref(MAIN)
    for name, oid in [*([(MAIN, main)] if main else []), *repo.refs(_OURS.rstrip("/")).items()]:
        if not name.startswith(_REMOTE):
            repo.begin_log(name, oid, "gfs gc: seen", time)


# ── the refs as they are stored ─────────────────────────────────────────────────────────────────


def _packed(gitdir: str) -> Iterator[Root | Finding]:
    raw = read_regular(f"{gitdir}/packed-refs", _LIMIT)
    if raw is None:
        return
    if not raw.endswith(b"\n"):  # Git writes no empty one, either
        what = "is an empty file" if not raw else "ends within a line"
        yield Finding("packed-refs", f"packed-refs {what}", f"{gitdir}/packed-refs", _WRITTEN)
    for line in raw.splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            what = f"packed-refs does not parse: {quoted(line)}"
            yield Finding("packed-refs", what, f"{gitdir}/packed-refs", _ASK)
            return
        if match[1]:
            yield Root(os.fsdecode(match[2]), match[1].decode())


def _loose(repo: Repository, folder: str) -> Iterator[Root | Finding]:
    for name, info in _entries(str(repo.gitdir), folder):
        path = f"{repo.gitdir}/{name}"
        if stat.S_ISDIR(info.st_mode):
            yield from _loose(repo, name)
        elif not stat.S_ISREG(info.st_mode):
            what = f"{name} is no file, so that Git and gfs may read another ref there, or none"
            yield Finding("ref", what, path, "a person should look who put it there")
        elif not is_plain(name):
            what = f"{name} is no name for a ref, so that nobody reads it"
            yield Finding("ref", what, path, "a person should look what it holds")
        elif name != MAIN:  # which is read and judged by itself
            yield from _read(repo, name)


def _entries(gitdir: str, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the entries of a folder of refs, but for lock files and what is hidden."""
    path = f"{gitdir}/{folder}"
    with reported("list", path):
        try:
            names = sorted(calls.listdir(path))
        except FileNotFoundError:
            return
        found = ((name, lstat_or_none(f"{path}/{name}")) for name in names)
        kept = [(name, info) for name, info in found if info is not None]
    for name, info in kept:
        if not name.startswith(".") and not name.endswith(".lock"):
            yield f"{folder}/{name}", info


def _read(repo: Repository, name: str) -> Iterator[Root | Finding]:
    path = f"{repo.gitdir}/{name}"
    raw = read_regular(path, 4096)
    if raw is None:
        return  # removed meanwhile
    value = value_of(raw)
    if raw.startswith(b"ref:"):
        yield Root(name, None, os.fsdecode(raw[4:].strip()))
    elif value is None or value == _ZERO:
        _, last = next(reflogs.logged(repo, name), ("", ""))
        known = f"{path}; its reflog ends at {last}" if last else path
        what = f"{name} does not hold a commit id but {quoted(raw)}"
        yield Finding("ref", what, known, _anew(name) or _ASK)
    else:
        yield Root(name, value)


def _anew(name: str) -> str:
    """Return how a cursor that cannot be read is kept aside and begun anew; "" for other refs."""
    if not name.startswith(sightings.CURSORS) or name == INBOX_REF:
        return ""
    channel = name.removeprefix(sightings.CURSORS)
    return f"gfs watch {channel} --once keeps it aside, and goes on from what the channel shows"


def _judged(repo: Repository, root: Root, names: set[str]) -> Iterator[Finding]:
    if root.oid is not None:
        try:
            repo.kind(root.oid)
        except Corrupt as error:
            if not is_large(error):
                what = f"what {root.name} names cannot be read"
                yield Finding("ref", what, error.message, FROM_A_CLONE)
    elif root.name.startswith(_OURS):
        what = f"{root.name} is symbolic, and gfs reads no such ref"
        yield Finding("ref", what, f"it leads to {root.target}", "ask who made it")
    elif root.target not in names and not root.name.startswith(_CLONED):
        what = f"{root.name} leads to {root.target}, which is not there"
        yield Finding("ref", what, f"{repo.gitdir}/{root.name}", _ASK)


def _shallow(repo: Repository) -> Iterator[Finding]:
    """Yield a commit that the file `shallow` cuts off from what is here: Git would drop that."""
    for oid in sorted(repo.shallow):
        behind = repo.commit(oid).parents if repo.has(oid) else ()
        if any(repo.has(parent) for parent in behind):
            yield Finding(
                "shallow-file",
                f"the file shallow says that history begins at {oid[:12]}, and it does not",
                f"{behind[0][:12]} is behind it, and is here",
                "a person should look: a git fetch with --depth writes that file",
            )
            return


# ── refs that are gone, or show an older value ──────────────────────────────────────────────────


def _logs(gitdir: str, folder: str) -> Iterator[str]:
    """Yield the refs that have a reflog, each of which can be read: Git passes over others."""
    for name, info in _entries(f"{gitdir}/logs", folder):
        if stat.S_ISDIR(info.st_mode):
            yield from _logs(gitdir, name)
        else:
            read_regular(f"{gitdir}/logs/{name}", _LOG_LIMIT)
            yield name


def _lost(repo: Repository, git: Git, name: str) -> Iterator[Finding]:
    _, last = next(reflogs.logged(repo, name), ("", _ZERO))
    if _is_lost(repo, git, last):
        what = f"{name} is not there, and no other ref leads to what it held"
        yield Finding("lost-ref", what, f"its reflog ends at {last}", _keeping(last))


def moved_back(repo: Repository, git: Git) -> Iterator[Finding]:
    """Yield a commit at which something here saw main, and to which no ref leads any more.

    What the reflog of main names is kept by Git, as long as main and its reflog agree.
    """
    main = repo.ref(MAIN)
    moves = [*reflogs.logged(repo)]
    logged = {oid for pair in moves for oid in pair}
    if moves and main not in moves[0] and _is_lost(repo, git, moves[0][1]):
        yield _was_at(main, moves[0][1], "its reflog ends there")
    for oid, where in sightings.of_main(repo):
        if oid not in logged and _is_lost(repo, git, oid):
            yield _was_at(main, oid, where)


def _was_at(main: Oid | None, oid: Oid, where: str) -> Finding:
    what = f"{MAIN} is at {(main or '')[:12]}, and no ref leads to {oid[:12]}, where it was"
    return Finding("lost-ref", what, where, _keeping(oid))


def _is_lost(repo: Repository, git: Git, oid: Oid) -> bool:
    """Tell whether a commit is here and no ref leads to it. Raises Corrupt where it is damaged."""
    if oid == _ZERO or not repo.has(oid):
        return False
    ended = git.attempt("rev-list", "--max-count=1", oid, "--not", "--all")
    if ended.code:
        raise stopped.failure(ended, "git rev-list stopped", repo.gitdir)
    return bool(ended.out.strip())


def _keeping(oid: Oid) -> str:
    return f"git branch NAME {oid} keeps it; then ask who took the ref away"
