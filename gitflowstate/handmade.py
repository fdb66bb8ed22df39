"""Commits made by hand: which are, what they touched, and which flows they left unusable.

Rule: what counts is the document at the head (architecture, section 1). A hand-made document that
is valid and whose revision rose is used; any other makes its flow unusable until `adopt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitflowstate import documents
from gitflowstate.documents import FLOW_FOLDERS
from gitflowstate.errors import Corrupt
from gitflowstate.git import CommitInfo, Repository
from gitflowstate.governed import GOVERNED
from gitflowstate.judgement import judge
from gitflowstate.message import decode_trailers
from gitflowstate.model import FORMAT_PATH, UNUSABLE_PATH, Fallen, Unusable
from gitflowstate.ops import Observe


def is_managed(commit: CommitInfo) -> bool:
    """Tell whether a commit carries an operation."""
    return decode_trailers(commit.message) is not None


def base(repo: Repository, head: str, governed: Sequence[str] = GOVERNED) -> CommitInfo | None:
    """Return the last commit that gfs made, at or before the head.

    In a shallow clone that was cut before one, the first commit, which is taken as given; None
    where the history has none.
    """
    for commit in repo.lineage(head, governed):
        if is_managed(commit) or commit.oid in repo.shallow:
            return commit
    return None


def touched(repo: Repository, old: str | None, new: str) -> list[str]:
    """Return the ids of the flows that differ between two trees, in order."""
    found = (documents.id_at(path) for path, _, _ in repo.diff(old, new, FLOW_FOLDERS))
    return sorted({flow for flow in found if flow is not None})


def entries(repo: Repository, tree: str) -> dict[str, Fallen]:
    """Return what `unusable.json` of a tree says, by flow."""
    unusable = documents.read(repo, tree, UNUSABLE_PATH)
    return {e.flow: e for e in unusable.flows} if isinstance(unusable, Unusable) else {}


def verdict(repo: Repository, managed: str, tree: str, flow: str) -> Fallen | None:
    """Return the entry a flow deserves at a tree whose last managed tree is `managed`."""
    entry = entries(repo, managed).get(flow)
    if managed == tree:
        return entry
    before = documents.flow_at(repo, managed, flow)
    return judge(entry, before, documents.flow_at(repo, tree, flow), flow)


def fallen(repo: Repository, managed: CommitInfo, head: CommitInfo) -> dict[str, Fallen]:
    """Return the entries of all flows that may not be used at the head, in the order of ids."""
    flows = {*entries(repo, managed.tree), *touched(repo, managed.tree, head.tree)}
    found = ((flow, verdict(repo, managed.tree, head.tree, flow)) for flow in sorted(flows))
    return {flow: entry for flow, entry in found if entry is not None}


def observe(repo: Repository, managed: CommitInfo, head: CommitInfo, at: str) -> Observe | None:
    """Return the op that records what edits by hand did since the last managed commit.

    None where they left `unusable.json` as it is.
    """
    lost, mended = [], []
    listed = entries(repo, head.tree)  # a merge may have brought it from another line
    for flow in sorted({*touched(repo, managed.tree, head.tree), *listed}):
        now = verdict(repo, managed.tree, head.tree, flow)
        if now is not None and now != listed.get(flow):
            lost.append(now)
        elif now is None and flow in listed:
            mended.append(flow)
    if not lost and not mended:
        return None
    return Observe(at=at, by="gfs", fallen=tuple(lost), mended=tuple(mended))


def check_untouched(repo: Repository, managed: CommitInfo, head: CommitInfo) -> None:
    """Refuse a head whose `unusable.json` or mark was edited by hand. Raises Corrupt.

    What a merge brought in from a managed commit of its other side was not.
    """
    for path, _, entry in repo.diff(managed.tree, head.tree, (UNUSABLE_PATH, FORMAT_PATH)):
        sides = _sides(repo, managed, head)
        if not any(repo.lookup(side.tree, path) == entry for side in sides):
            raise Corrupt(
                f"{path} was edited by hand after {managed.oid[:12]}",
                hint="ask a person to revert that commit",
                path=path,
            )


def _sides(repo: Repository, managed: CommitInfo, head: CommitInfo) -> Iterator[CommitInfo]:
    """Yield the last managed commits of what was merged by hand."""
    for commit in unmanaged(repo, managed.oid, head.oid):
        for parent in commit.parents[1:]:
            side = base(repo, parent)
            if side is not None:
                yield side


def unmanaged(repo: Repository, managed: str, head: str) -> Iterator[CommitInfo]:
    """Yield the commits made by hand between the last managed one and the head."""
    for commit in repo.lineage(head, GOVERNED):
        if commit.oid == managed:
            return
        yield commit
