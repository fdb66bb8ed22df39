"""How two heads of main stand to each other along the lineage of what is governed.

Rules: to be an ancestor is not to be kept. A commit is kept by a later head which has it on its
line, or has its operation there under another commit; or where it changed nothing governed, or a
person merged it by hand into documents that did not fall. A merge that took the other side alone
keeps nothing of it: that is history taken back, as by a push that forces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitflowstate import documents, handmade, reconcile
from gitflowstate.errors import Corrupt
from gitflowstate.git import CommitInfo, Oid, Repository
from gitflowstate.governed import GOVERNED
from gitflowstate.message import decode_trailers
from gitflowstate.model import FORMAT_PATH, UNUSABLE_PATH
from gitflowstate.reconcile import Standing

# What of the governed paths is judged flow by flow, and what by its own rules (`check_untouched`).
_JUDGED_ELSEWHERE = ("flows", "archive", FORMAT_PATH, UNUSABLE_PATH)


def line(repo: Repository, head: Oid) -> Iterator[Oid]:
    """Yield a commit and those before it along the lineage, newest first."""
    return (commit.oid for commit in repo.lineage(head, GOVERNED))


def standing(repo: Repository, ours: Oid, theirs: Oid) -> Standing:
    """Return what only main here has, and what only that of the remote has."""
    found = reconcile.meeting(line(repo, ours), line(repo, theirs))
    beside = _beside(repo, found, theirs)
    owed = _owed(repo, found._replace(queued=found.queued[:beside]))
    return found._replace(queued=owed + found.queued[beside:])


def swallowed(repo: Repository, ours: Oid, theirs: Oid) -> Oid | None:
    """Return the last of ours that another main has among its ancestors, if that keeps not all."""
    found = reconcile.meeting(line(repo, ours), line(repo, theirs))
    beside = found.queued[: _beside(repo, found, theirs)]
    return beside[-1] if lost(repo, found._replace(queued=beside)) else None


def _beside(repo: Repository, found: Standing, theirs: Oid) -> int:
    """Return how many of ours a merge that somebody made brought in beside its first parents.

    That is one of them and all before it; each look walks through what is new there.
    """
    return bisect_left(
        found.queued, x=True, key=lambda oid: not repo.is_within(oid, theirs, found.met)
    )


def taken_back(repo: Repository, was: Oid, head: Oid) -> tuple[Oid, ...]:
    """Return the commits up to `was` of which a head keeps nothing, the oldest first."""
    return lost(repo, reconcile.meeting(line(repo, was), line(repo, head)))


def meeting(repo: Repository, was: Oid, head: Oid) -> Standing:
    """Compare as `standing` does, but for commits beside the line; a hole ends the older line."""
    return reconcile.meeting(readable(repo, was), line(repo, head))


def readable(repo: Repository, head: Oid) -> Iterator[Oid]:
    """Yield a line as `line` does, down to the first hole in the history."""
    try:
        yield from line(repo, head)
    except Corrupt:
        return


def keeps(repo: Repository, found: Standing) -> bool:
    """Tell whether the newer of two lines began where the older did, and keeps all of it."""
    return found.met is not None and not lost(repo, found)


def lost(repo: Repository, found: Standing) -> tuple[Oid, ...]:
    """Return what of the older of two lines the newer one does not keep, the oldest first."""
    return unpublished(repo, _owed(repo, found), found)


def _owed(repo: Repository, found: Standing) -> tuple[Oid, ...]:
    """Return what of the older line is no part of the newer one, if any of it is lost.

    What is there again under another commit is among that.
    """
    ruled = dict(_governing(repo, found))
    if not unpublished(repo, ruled, found):
        return ()
    kept = _merged_by_hand(repo, found, ruled)
    owed = tuple(oid for oid in ruled if oid not in kept)
    return owed if unpublished(repo, owed, found) else ()


def unpublished(repo: Repository, older: Iterable[Oid], found: Standing) -> tuple[Oid, ...]:
    """Return those of some older commits whose operation the newer line has under no commit."""
    there = (op_text(repo, oid) for oid in found.newer)
    return tuple(reconcile.unpublished([(oid, op_text(repo, oid)) for oid in older], there))


def _governing(repo: Repository, found: Standing) -> Iterator[tuple[Oid, frozenset[str]]]:
    """Yield the commits of the older line that changed anything governed, each with what."""
    before = None if found.met is None else repo.commit(found.met).tree
    for oid in found.queued:
        tree = repo.commit(oid).tree
        changed = frozenset(_named(path) for path, _, _ in repo.diff(before, tree, GOVERNED))
        if changed:
            yield oid, changed
        before = tree


def _named(path: str) -> str:
    """Return the id of the flow that a path belongs to, or a path of any other kind itself."""
    return documents.id_at(path) or path


def op_text(repo: Repository, oid: Oid) -> str | None:
    """Return the operation of a commit as it stands there, None for one made by hand."""
    return (decode_trailers(repo.commit(oid).message) or {}).get("Gfs-Op")


# ── merged by hand ──────────────────────────────────────────────────────────────────────────────


def _merged_by_hand(
    repo: Repository, found: Standing, ruled: Mapping[Oid, frozenset[str]]
) -> set[Oid]:
    """Return the commits of the older line that merges of both sides brought in, and let stand.

    What was merged may hold another such merge: then both have a say.
    """
    kept, seen, lines = set[Oid](), set[Oid](), [(found.newer, frozenset[str]())]
    older = (*found.queued[::-1], *([found.met] if found.met else []))
    while lines and len(kept) < len(ruled):
        newer, fallen = lines.pop()
        for merge, side in _merged(repo, newer):
            if side in seen or not repo.is_within(found.queued[0], side, found.met):
                continue
            seen.add(side)
            joined = reconcile.meeting(older, line(repo, side))
            came = older[older.index(joined.met) :] if joined.met else ()
            # What stands as it was where the lines part, or as it had become by then, is there.
            fell = _fallen(repo, side, merge)
            if came and came[0] != side:
                fell &= _fallen(repo, came[0], merge)
            fell |= fallen
            kept.update(oid for oid in came if oid in ruled and not ruled[oid] & fell)
            lines.append((joined.newer, fell))
    return kept


def _merged(repo: Repository, newer: Iterable[Oid]) -> Iterator[tuple[CommitInfo, Oid]]:
    """Yield the merges of a line that took no side alone, with each side that was merged in."""
    for oid in newer:
        merge = repo.commit(oid)
        if len(merge.parents) > 1 and not _took_one_side(repo, merge):
            yield from ((merge, side) for side in merge.parents[1:])


def _took_one_side(repo: Repository, merge: CommitInfo) -> bool:
    trees = (repo.commit(parent).tree for parent in merge.parents)
    return any(_equal(repo, tree, merge.tree, GOVERNED) for tree in trees)


def _equal(repo: Repository, one: Oid, other: Oid, names: Sequence[str]) -> bool:
    return not any(True for _ in repo.diff(one, other, names))


def _fallen(repo: Repository, side: Oid, merge: CommitInfo) -> frozenset[str]:
    """Return what a merge does not hold of the side that was merged in.

    Flows are judged as an edit by hand is; of what is judged elsewhere nothing falls here.
    """
    was = repo.commit(side).tree
    known = handmade.entries(repo, was)
    flows = (
        flow
        for flow in handmade.touched(repo, was, merge.tree)
        if handmade.verdict(repo, was, merge.tree, flow) != known.get(flow)
    )
    met = reconcile.meeting(line(repo, side), line(repo, merge.parents[0])).met
    before = None if met is None else repo.commit(met).tree
    others = [name for name in GOVERNED if name not in _JUDGED_ELSEWHERE]
    changed = repo.diff(before, was, others)
    gone = (path for path, _, entry in changed if repo.lookup(merge.tree, path) != entry)
    return frozenset((*flows, *gone))
