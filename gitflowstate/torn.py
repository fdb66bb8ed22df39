"""A torn head: a ref or the newest objects that did not reach the disk, found and moved back.

Rules: only commits that are themselves torn are cut, from the head back to the first whole one;
what can still be read of them is kept in a commit on `refs/gfs/rescued/<time>`, as ordinary files,
so that Git's own commands work again. Damage behind a whole head is none of this: nothing is cut
for it (requirements, C-11).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import chain, count
from typing import NamedTuple

from gitflowstate import packindex, reflogs, sightings, strays
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, GfsError, Unavailable
from gitflowstate.git import Oid, Repository, Staged
from gitflowstate.governed import GOVERNED
from gitflowstate.kinds import MAX_DOCUMENT, Time
from gitflowstate.refs import Refs
from gitflowstate.syscalls import (
    CREATE_FLAGS,
    calls,
    fsync_folder,
    read_regular,
    remove_quietly,
    reported,
    write_all,
)
from gitflowstate.trees import is_file

_MOST = 1000  # commits in one cut


class Torn(NamedTuple):
    """What cannot be read of a commit of the cut, newest first."""

    commit: Oid
    problem: str


class Cut(NamedTuple):
    """The newest whole commit, what lies above it, and the ref as it is (None: unreadable)."""

    good: Oid
    torn: list[Torn]
    old: Oid | None


def find(repo: Repository) -> Cut | str | None:
    """Return how a torn main is cut, None where it is whole, or why it cannot be cut.

    Raises what reading the ref raises, but for a value that is none.
    """
    old: Oid | None = None
    lies = ""
    try:
        old = repo.ref(MAIN)
        if old is None:
            return None
    except Corrupt as error:
        lies = error.message
    if old is not None:
        return _followed(repo, old, old)
    logged_last = _last_logged(repo, None)
    if logged_last is None:
        return f"{lies}; its reflog does not name a commit"
    start = _newest(repo, logged_last)
    if start is None:
        return f"{lies}; its reflog ends at {logged_last}, and something else has seen it elsewhere"
    return _followed(repo, start, None)


def _newest(repo: Repository, last: Oid) -> Oid | None:
    """Return the newest commit that a lost main was seen at; None where two are on different ways.

    The end of a reflog may be lost as well: it is not synced.
    """
    try:
        repo.commit(last)
    except Corrupt:
        return last  # torn itself: its reflog leads back from there
    newest = last
    with suppress(Corrupt):  # of a cursor that cannot be read
        for oid, _ in sightings.of_main(repo):
            if not repo.has(oid) or repo.is_within(oid, newest):
                continue
            if not repo.is_within(newest, oid):
                return None
            newest = oid
    return newest


def is_whole(repo: Repository) -> bool:
    """Tell whether main is there and can be read whole. Raises what reading the ref raises."""
    return find(repo) is None and repo.ref(MAIN) is not None


def _followed(repo: Repository, start: Oid, old: Oid | None) -> Cut | str | None:
    torn: list[Torn] = []
    at: Oid | None = start
    while at is not None and len(torn) < _MOST:
        if (whole := _flaw(repo, at)) is None:
            return None if old and not torn else _cut(repo, Cut(at, torn, old))
        if (problem := _own_flaw(repo, at)) is None:
            # Damage from before: to cut down to it would lose whole commits.
            return None if old and not torn else f"{at[:12]} is not whole: {whole}"
        torn.append(Torn(at, problem))
        at = _before(repo, at)
    return f"no whole commit was found behind {start[:12]}: {torn[0].problem}"


def _cut(repo: Repository, cut: Cut) -> Cut | str:
    """Return a cut, or why there is none: what is missing may be in a pack without an index."""
    unread = packindex.unindexed(f"{repo.gitdir}/objects/pack") if cut.torn else []
    if not unread:
        return cut
    return f"{cut.torn[0].problem}; it may be in {unread[0].path}, which has no usable index"


def _own_flaw(repo: Repository, oid: Oid) -> str | None:
    """Return what cannot be read of a commit and of what it changed.

    Where the commit before it is torn as well, that counts, since all may be new then.
    """
    try:
        commit = repo.commit(oid)
        parent = commit.parents[0] if commit.parents and oid not in repo.shallow else None
        before = repo.commit(parent).tree if parent else None
        names = [*repo.tree(commit.tree)]
        for path, _, entry in repo.diff(before, commit.tree, names):
            if entry is not None:
                _read(repo, path, entry.oid, plain=is_file(entry))
    except Corrupt as error:
        return error.message
    return None


def _flaw(repo: Repository, oid: Oid) -> str | None:
    """Return what cannot be read of the whole tree of a commit."""
    try:
        for path, entry in repo.walk(repo.commit(oid).tree, ""):
            _read(repo, path, entry.oid, plain=is_file(entry))
    except Corrupt as error:
        return error.message
    return None


def _read(repo: Repository, path: str, oid: Oid, *, plain: bool) -> None:
    if path.split("/", 1)[0] in GOVERNED and plain:
        repo.blob(oid, MAX_DOCUMENT + 1)
    elif plain and not repo.has(oid):
        raise Corrupt(f"object {oid} is missing")


def _before(repo: Repository, oid: Oid) -> Oid | None:
    """Return the commit before one: its parent, or what the reflog says was there."""
    with suppress(Corrupt):
        commit = repo.commit(oid)
        return commit.parents[0] if commit.parents else None
    return _last_logged(repo, oid)


def _last_logged(repo: Repository, after: Oid | None) -> Oid | None:
    """Return the last value in the reflog, or the one before a value."""
    for old, new in reflogs.logged(repo):
        if after in (None, new):
            value = new if after is None else old
            return None if value == reflogs.NONE else value
    return None


# ── moving it back ──────────────────────────────────────────────────────────────────────────────


def _free_name(repo: Repository, at: Time) -> str:
    """Return the ref on which a cut is kept; another one where a killed doctor had begun."""
    name = f"refs/gfs/rescued/{re.sub('[^0-9TZ]', '', at)}"
    numbered = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if repo.ref(each) is None)


def move_back(repo: Repository, cut: Cut, at: Time) -> str | None:
    """Keep what can be read of a cut, then move main back; return the ref that keeps it.

    The caller holds the repository lock. None where main is whole by now; Unavailable where it
    moved, or where less or more of it is torn than was seen.
    """
    now = find(repo)
    if now is None and repo.ref(MAIN) is not None:
        return None
    if now != cut:
        raise Unavailable(f"{MAIN} is not as it was seen", hint="run the same command again")
    moment = int(datetime.fromisoformat(at).timestamp())
    name = _free_name(repo, at)
    files = dict(_remains(repo, cut))
    told = "".join(f"{torn.commit}: {torn.problem}\n" for torn in cut.torn)
    text = f"gfs doctor: what was cut off above {cut.good[:12]}\n\n{told}"
    staged = repo.stage(None, files)
    kept = repo.commit_object(staged, [cut.good], text.encode("utf-8", "replace"), "gfs", moment)
    if not repo.publish(name, None, kept, "gfs doctor: what was cut off"):
        raise Unavailable(f"{name} is there already", hint="run the same command again")
    if cut.old is None:
        _replace(repo, cut.good)
    else:
        back = Staged()
        back.commit, back.time = cut.good, moment
        if not repo.publish(MAIN, cut.old, back, f"gfs doctor: back from {cut.old}"):
            raise Unavailable(f"{MAIN} moved meanwhile", hint="run the same command again")
    reflogs.renew(repo, {torn.commit for torn in cut.torn})
    return name


def _remains(repo: Repository, cut: Cut) -> Iterator[tuple[str, bytes]]:
    """Yield what is kept of a cut: commit texts, and the documents that they changed."""
    if cut.old is None:
        with suppress(GfsError):
            yield "ref", read_regular(f"{repo.gitdir}/{MAIN}", 4096) or b""
    hidden = False
    for number, torn in enumerate(cut.torn):
        place = f"{number:03}-{torn.commit[:12]}"
        yield f"{place}/problem", f"{torn.problem}\n".encode("utf-8", "replace")
        try:
            commit = repo.commit(torn.commit)
            yield f"{place}/message", commit.message
            yield from _documents(repo, place, commit.tree, cut.good)
        except Corrupt:
            hidden = True
    if hidden:  # files that are whole, below a folder that is not
        for oid, content in strays.since(repo, repo.commit(cut.good).time):
            yield f"loose/{oid}", content


def _documents(repo: Repository, place: str, tree: Oid, good: Oid) -> Iterator[tuple[str, bytes]]:
    for path, _, entry in repo.diff(repo.commit(good).tree, tree, GOVERNED):
        if entry is not None and is_file(entry):
            with suppress(Corrupt):
                yield f"{place}/{path}", repo.blob(entry.oid, MAX_DOCUMENT + 1)


def _replace(repo: Repository, value: Oid) -> None:
    """Write a ref whose own value is none, by Git's protocol: lock file, look, sync, rename."""
    path = f"{repo.gitdir}/{MAIN}"
    Refs(str(repo.gitdir)).refuse_links(MAIN)  # it would be another repository's
    with reported("write", path):
        try:
            descriptor = calls.open(f"{path}.lock", CREATE_FLAGS, 0o644)
        except FileExistsError:
            raise Unavailable(f"{MAIN} is locked by {path}.lock", hint="run it again") from None
        try:
            _check_lies(repo)
            write_all(descriptor, f"{value}\n".encode("ascii"))
            calls.fsync(descriptor)
            calls.rename(f"{path}.lock", path)
        except (OSError, GfsError):
            remove_quietly(f"{path}.lock")
            raise
        finally:
            calls.close(descriptor)
        fsync_folder(os.path.dirname(path))  # noqa: PTH120  plain text paths


def _check_lies(repo: Repository) -> None:
    """Refuse to write over a ref that holds a value after all. Raises Unavailable."""
    with suppress(Corrupt):
        repo.ref(MAIN)
        raise Unavailable(f"{MAIN} is not as it was seen", hint="run the same command again")
