"""How two heads of main stand to each other along the lineage of what is governed.

Rules: to be an ancestor is not to be kept. A commit is kept by a later head which has it on its
line, or has its operation there under another commit; or where it changed nothing governed, or a
person merged it by hand into documents that did not fall. A merge that took the other side alone
keeps nothing of it: that is history taken back, as by a push that forces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from gitflowstate import handmade, reconcile
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
    # A merge that somebody made may have brought in ours beside its first parents.
    beside = [*takewhile(lambda oid: repo.is_within(oid, theirs, found.met), found.queued)]
    if beside and lost(repo, found._replace(queued=tuple(beside))):
        return found
    return found._replace(queued=found.queued[len(beside) :])


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


def lost(repo: Repository, found: Standing) -> tuple[Oid, ...]:
    """Return what of the older of two lines the newer one does not keep, the oldest first."""
    ruled = [*_governing(repo, found)]
    if not ruled:
        return ()
    there = (op_text(repo, oid) for oid in found.newer)
    left = tuple(reconcile.unpublished([(oid, op_text(repo, oid)) for oid in ruled], there))
    return () if left and _merged_by_hand(repo, found) else left


def _governing(repo: Repository, found: Standing) -> Iterator[Oid]:
    """Yield the commits of the older line that changed anything governed."""
    before = None if found.met is None else repo.commit(found.met).tree
    for oid in found.queued:
        tree = repo.commit(oid).tree
        if any(True for _ in repo.diff(before, tree, GOVERNED)):
            yield oid
        before = tree


def op_text(repo: Repository, oid: Oid) -> str | None:
    """Return the operation of a commit as it stands there, None for one made by hand."""
    return (decode_trailers(repo.commit(oid).message) or {}).get("Gfs-Op")


# ── merged by hand ──────────────────────────────────────────────────────────────────────────────


def _merged_by_hand(repo: Repository, found: Standing) -> bool:
    """Tell whether a merge of both sides has the older line within, and let nothing of it fall."""
    was = found.queued[-1]
    for oid in found.newer:
        merge = repo.commit(oid)
        if (
            len(merge.parents) > 1
            and not _took_one_side(repo, merge)
            and repo.is_within(was, oid, found.met)
            and _stands(repo, found.met, repo.commit(was).tree, merge.tree)
        ):
            return True
    return False


def _took_one_side(repo: Repository, merge: CommitInfo) -> bool:
    trees = (repo.commit(parent).tree for parent in merge.parents)
    return any(_equal(repo, tree, merge.tree, GOVERNED) for tree in trees)


def _equal(repo: Repository, one: Oid, other: Oid, names: Sequence[str]) -> bool:
    return not any(True for _ in repo.diff(one, other, names))


def _stands(repo: Repository, met: Oid | None, was: Oid, merged: Oid) -> bool:
    """Tell whether a merged tree holds what a side had changed, judged as an edit by hand is."""
    known = handmade.entries(repo, was)
    for flow in handmade.touched(repo, was, merged):
        if handmade.verdict(repo, was, merged, flow) != known.get(flow):
            return False
    others = [name for name in GOVERNED if name not in _JUDGED_ELSEWHERE]
    before = None if met is None else repo.commit(met).tree
    changed = repo.diff(before, was, others)
    return all(repo.lookup(merged, path) == entry for path, _, entry in changed)
