"""What main once was and does not keep now, as its reflog and the plain files tell.

Rules: nothing is moved, since whoever moved main may have meant it; what a sync or a rescue set
aside, and what the remote has, was not lost. A line of the reflog alone proves no move: a command
that was killed leaves one as well; that main was moved off a value does, and that files show it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import NamedTuple

from gitflowstate import ancestry, prose, reflogs, sightings
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, GfsError
from gitflowstate.findings import Finding
from gitflowstate.git import Oid, Repository
from gitflowstate.location import TRACKED
from gitflowstate.message import decode_trailers
from gitflowstate.reconcile import Standing
from gitflowstate.syncing import OFFLINE, REJECTED

_NONE = "0" * 40
_RESCUED = "refs/gfs/rescued"
_TORN = re.compile(rb"^([0-9a-f]{40}): ", re.MULTILINE)  # what was cut, in the text of a rescue
_MANY = 10_000  # values that are looked at


class Setback(NamedTuple):
    """A value that main had, what of it is not kept, and the branch or tag that still has it."""

    was: Oid
    met: Oid | None
    lost: tuple[Oid, ...]
    kept: str | None


def find(repo: Repository, head: Oid, values: Iterable[Oid]) -> Setback | None:
    """Return the first of some values that a head does not keep, or a later one built on that.

    What cannot be told is no news. Each line is read once, however many of its commits are asked
    for: what holds of a value holds of what it is built on.
    """
    known, whole = _read(repo, head)
    aside = _set_aside(repo, known)
    best, told = None, set[Oid]()
    for was in islice(dict.fromkeys(values), _MANY):
        if was in known or was in aside or was in told:
            continue
        with suppress(GfsError):  # a hole, or a commit that is not here
            found = _meeting(repo, was, known, told)
            if found.met is None and (repo.shallow or not whole):
                continue
            gone = _lost(repo, found)
            if gone and (best is None or best.was in found.queued):
                best = Setback(was, found.met, gone, None)
    return best and best._replace(kept=_kept_by(repo, best.was, known))


def _read(repo: Repository, head: Oid) -> tuple[dict[Oid, None], bool]:
    """Return the line of a head, the newest first, and whether it was read to its end."""
    line: dict[Oid, None] = {}
    with suppress(Corrupt):
        for oid in ancestry.line(repo, head):
            line[oid] = None
        return line, True
    return line, False


def _meeting(repo: Repository, was: Oid, known: dict[Oid, None], told: set[Oid]) -> Standing:
    """Compare the line of a value with a known one; add what only it has to `told`."""
    queued: list[Oid] = []
    met = None
    for oid in ancestry.line(repo, was):
        if oid in known:
            met = oid
            break
        queued.append(oid)
        told.add(oid)
    newer = takewhile(lambda oid: oid != met, known)
    return Standing(tuple(queued[::-1]), tuple(newer)[::-1], met)


def _lost(repo: Repository, found: Standing) -> tuple[Oid, ...]:
    """Return what is not kept; all of it where that cannot be told of a tree that is damaged."""
    try:
        return ancestry.lost(repo, found)
    except Corrupt:
        return found.queued


def _set_aside(repo: Repository, known: Container[Oid]) -> set[Oid]:
    """Return what is not on the line of main and was never lost: kept by us, or at the remote."""
    found: set[Oid] = set()
    with suppress(GfsError):
        for prefix in (OFFLINE, REJECTED, _RESCUED):
            for oid in repo.refs(prefix).values():
                found.update(_until(repo, oid, known, found))
                if prefix == _RESCUED:
                    found.update(cut.decode() for cut in _TORN.findall(repo.commit(oid).message))
        if (theirs := repo.ref(TRACKED)) is not None:
            found.update(_until(repo, theirs, known, found))
    return found


def _until(
    repo: Repository, oid: Oid, known: Container[Oid], seen: Container[Oid]
) -> Iterator[Oid]:
    for each in ancestry.readable(repo, oid):
        if each in known or each in seen:
            return
        yield each


def _kept_by(repo: Repository, was: Oid, known: Container[Oid]) -> str | None:
    seen = set[Oid]()
    with suppress(GfsError):
        for prefix in ("refs/heads", "refs/tags"):
            for name, oid in repo.refs(prefix).items():
                if name != MAIN:
                    seen.update(_until(repo, oid, known, seen))
                    if was in seen:
                        return name
    return None


# ── what main was ───────────────────────────────────────────────────────────────────────────────


def last_known(repo: Repository) -> Oid | None:
    """Return the newest commit that main is known to have been at, of those that are here."""
    told = [new for _, new in reflogs.logged(repo)]
    for oid in (*told[:_MANY], sightings.shown(repo), repo.ref(TRACKED)):
        if oid not in (None, _NONE) and repo.has(oid):
            return oid
    return None


def about(repo: Repository, oid: Oid) -> str:
    """Return which commit it is, and what it did to which flow."""
    message = repo.commit(oid).message
    what = message.split(b"\n", 1)[0].decode("utf-8", "replace")
    who = (decode_trailers(message) or {}).get("Actor")
    return prose.fold(f"{oid[:12]} ({what}{f', by {who}' if who else ''})")


# ── what is found ───────────────────────────────────────────────────────────────────────────────


def examine(repo: Repository) -> Iterator[Finding]:
    """Yield that main was moved back, off a value that the reflog or the plain files tell."""
    moves, seen = [*reflogs.logged(repo)], sightings.shown(repo)
    head = repo.ref(MAIN)  # after those: what a writer adds meanwhile is on its line
    if head is None:
        return
    before, last = moves[0] if moves else (_NONE, _NONE)
    had = [oid for oid in (seen, *(old for old, _ in moves)) if oid not in (None, _NONE)]
    unfinished = before == head != last
    if not unfinished:
        had.insert(0, last)
    found = find(repo, head, had)
    if found is not None:
        yield _finding(repo, head, found)
    elif unfinished and (found := find(repo, head, [last])) and repo.ref(MAIN) == head:
        told = _finding(repo, head, found)
        yield told._replace(
            problem="main is not where its reflog says",
            evidence=f"{told.evidence}; or a command was killed just before it moved main there",
            note=True,
        )


def _finding(repo: Repository, head: Oid, found: Setback) -> Finding:
    was, count = found.was[:12], prose.count(len(found.lost), "commit")
    span = f"{found.met[:12]}..{was}" if found.met else was
    keep = f"git branch kept-{was} {was} keeps that; " if found.kept is None else ""
    return Finding(
        "moved-back",
        "main was moved back: it does not keep what it had",
        f"it was at {about(repo, found.was)}; {count} of that line not kept at {head[:12]}"
        + (f"; {found.kept} has it" if found.kept else ""),
        f"git log --first-parent {span} shows what it had; {keep}ask who moved main, and decide",
        note=found.kept is not None,
    )
