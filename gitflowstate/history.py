"""History along first parents: the log of a flow, the changes since a commit, and the audit.

Rules: never a date, only ancestry; a merge whose governed trees equal one parent's is followed to
that parent; the first commit of a shallow clone is taken as given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from gitflowstate import ancestry, codec, documents, handmade, machine, outcomes, prose
from gitflowstate.cursors import cursor_ref
from gitflowstate.definitions import FLOWS, Definition
from gitflowstate.errors import Corrupt, GfsError, Invalid, NotFound
from gitflowstate.git import CommitInfo, Repository
from gitflowstate.governed import GOVERNED
from gitflowstate.kinds import MAX_DOCUMENT
from gitflowstate.message import RULES, Record, decode_message, decode_trailers, large_parts
from gitflowstate.model import Flow, Value

MOST_UNSEEN = 1000  # commits that are looked at for what an actor has not seen


class Step(NamedTuple):
    """One commit and the one before it; what the commit says of itself, if gfs made it."""

    commit: CommitInfo
    parent: CommitInfo | None
    trailers: dict[str, str] | None


def steps(repo: Repository, head: str, governed: Sequence[str] = GOVERNED) -> Iterator[Step]:
    """Yield the commits from the head back along first parents."""
    later: CommitInfo | None = None
    for commit in repo.lineage(head, governed):
        if later is not None:
            yield Step(later, commit, decode_trailers(later.message))
        later = commit
    if later is not None:
        yield Step(later, None, decode_trailers(later.message))


def of_flow(repo: Repository, head: str, flow: str) -> Iterator[Step]:
    """Yield the commits that changed a flow, newest first, those made by hand included."""
    for step in steps(repo, head):
        if flow in _flows_of(repo, step):
            yield step
            if (step.trailers or {}).get("Revision") == "1":
                return


def at_revision(repo: Repository, head: str, flow: str, revision: int) -> Flow:
    """Return a flow as it was at a revision; of two, that which gfs made. Raises NotFound."""
    by_hand: Flow | None = None
    for step in of_flow(repo, head, flow):
        found = documents.flow_at(repo, step.commit.tree, flow)
        if found is None or found[0].revision > revision:
            continue
        if found[0].revision == revision:
            if step.trailers is not None:
                return found[0]
            by_hand = by_hand or found[0]
        elif step.trailers is not None:
            break  # only edits by hand go back
    if by_hand is None:
        raise NotFound(f"{flow} has no revision {revision}", next=["gfs", "log", flow])
    return by_hand


def before_revision(repo: Repository, head: str, flow: str, revision: int) -> Flow | None:
    """Return a flow as it was before a revision; None where its history begins with that one.

    An edit by hand and an import may leave out revisions.
    """
    with suppress(NotFound):
        return at_revision(repo, head, flow, revision - 1)
    for step in of_flow(repo, head, flow):
        found = documents.flow_at(repo, step.commit.tree, flow)
        if found is not None and found[0].revision < revision:
            return found[0]
    return None


def unseen(
    repo: Repository, head: str, actor: str, flows: Iterable[str], most: int = MOST_UNSEEN
) -> dict[str, list[Step]]:
    """Return what others did to each flow since the actor's own last op on it, oldest first.

    One walk for all of them, over `most` commits at most; where it is cut short before that op,
    by this or by a hole in the history, what it met is returned. A flow on which the actor never
    acted has nothing that is new to it.
    """
    told, wanted = prose.inert(actor), set(flows)
    found: dict[str, list[Step]] = {flow: [] for flow in wanted}
    whole = False
    with suppress(Corrupt):
        for step in islice(steps(repo, head), most):
            trailers = step.trailers or {}
            for flow in wanted & _flows_of(repo, step):
                if trailers.get("Actor") == told:
                    wanted.discard(flow)
                elif trailers.get("Revision") == "1":
                    wanted.discard(flow)
                    del found[flow]
                else:
                    found[flow].append(step)
            whole = step.parent is None and not step.commit.parents
            if not wanted or whole:
                break
    never = wanted if whole else ()
    return {flow: met[::-1] for flow, met in found.items() if met and flow not in never}


def _flows_of(repo: Repository, step: Step) -> set[str]:
    if step.trailers is not None:
        return {step.trailers.get("Flow", "")}
    before = step.parent.tree if step.parent else None
    return {*handmade.touched(repo, before, step.commit.tree)}


class Changes(NamedTuple):
    """The flows that differ from an earlier commit; `known` is false where it is no ancestor."""

    flows: list[str]
    known: bool
    commits: int


def changes(repo: Repository, head: CommitInfo, since: str | None) -> Changes:
    """Return the flows that changed after `since`, which the walk along first parents must meet.

    Where it does not (rewritten history, objects that are gone, or since is None), every flow is
    named.
    """
    count = 0
    try:
        for commit in repo.lineage(head.oid, GOVERNED) if since else ():
            if commit.oid == since:
                flows = handmade.touched(repo, commit.tree, head.tree)
                return Changes(flows, known=True, commits=count)
            count += 1
    except Corrupt:
        pass  # a hole behind the head; what stands at the head is read all the same
    every = documents.flow_ids(repo, head.tree, archived=True)
    return Changes(every, known=since is None, commits=count)


# ── the audit ───────────────────────────────────────────────────────────────────────────────────


class Report(NamedTuple):
    """What `verify` found."""

    commits: int
    unmanaged: list[str]
    problems: list[dict[str, str]]
    shallow: bool


def verify(
    repo: Repository,
    head: str,
    since: str | None = None,
    progress: Callable[[int], None] | None = None,
    definition: Definition = FLOWS,
) -> Report:
    """Replay every commit of a family after `since` and compare each governed path with its blob.

    Problems are collected; `progress` is told the count of commits done. Raises Corrupt where the
    head does not keep what main had at `since`, so that no commit after that tells what was lost.
    """
    end = since and _kept(repo, head, since)
    report = Report(0, [], [], shallow=False)
    at = head
    try:
        for step in steps(repo, head, definition.governed):
            if step.commit.oid == end:
                break
            report = _audited(repo, step, report, definition)
            at = step.parent.oid if step.parent else at
            if progress:
                progress(report.commits)
    except Corrupt as error:
        report.problems.append({"commit": at, "problem": f"history ends here: {error.message}"})
    return report


def _kept(repo: Repository, head: str, since: str) -> str | None:
    """Return where the line of a head meets that of an earlier one, which it has to keep."""
    try:
        found = ancestry.meeting(repo, since, head)
        gone = ancestry.lost(repo, found)
    except Corrupt:
        return since  # a hole, which the audit comes upon and tells
    if not gone:
        return found.met
    cut = "; git fetch --unshallow first, if a clone was cut" if repo.shallow else ""
    seen = f"{found.met[:12]}..{since[:12]}" if found.met else since[:12]
    raise Corrupt(
        f"{head[:12]} takes back what main had at {since[:12]}: "
        f"{prose.count(len(gone), 'commit')} that changed flows, from {gone[0][:12]} on",
        hint=f"git log --first-parent {seen} shows them; instead of a merge: git pull --rebase"
        f"{cut}",
        since=since,
        until=head,
        lost=[*gone],
    )


def _audited(
    repo: Repository, step: Step, report: Report, definition: Definition = FLOWS
) -> Report:
    """Return the report with one more commit in it."""
    report = report._replace(commits=report.commits + 1)
    if step.parent is None and step.commit.parents:
        return report._replace(shallow=True)  # taken as given
    try:
        if step.trailers is not None:
            replay(repo, step, definition)
        elif _changed(repo, step, definition):
            report.unmanaged.append(step.commit.oid)
    except GfsError as error:
        report.problems.append({"commit": step.commit.oid, "problem": error.message})
    return report


def _changed(repo: Repository, step: Step, definition: Definition) -> dict[str, str | None]:
    before = step.parent.tree if step.parent else None
    return {
        path: new.oid if new else None
        for path, _, new in repo.diff(before, step.commit.tree, definition.governed)
    }


def replay(repo: Repository, step: Step, definition: Definition = FLOWS) -> Record:
    """Apply a commit's op to its parent and compare the outcome with its tree: the law.

    Raises Corrupt where they differ, Invalid where the op cannot be read.
    """
    changed = _changed(repo, step, definition)
    record = recorded(repo, step, changed)
    _check_family(record, definition)
    load = documents.salvage if definition.expendable else documents.load
    tree = step.parent.tree if step.parent else None
    before = load(repo, tree, definition.reads(record.op), definition.classes)
    after = definition.apply(record.op, before)
    values = {path: value for path, value in after.items() if value is not before.get(path)}
    if values.keys() != changed.keys():
        odd = sorted(values.keys() ^ changed.keys())
        raise Corrupt(f"{record.op.TAG} does not account for {', '.join(odd[:3])}")
    for path, value in values.items():
        _compare(repo, path, value, changed[path])
    _check_trailers(record, before, after)
    return record


def recorded(repo: Repository, step: Step, changed: dict[str, str | None] | None = None) -> Record:
    """Return what a commit of gfs says of itself, its long texts taken from its own tree.

    `changed` spares the comparison with its parent. Raises Invalid where it cannot be read.
    """
    files = {}
    if '"sha256":' in (step.trailers or {})["Gfs-Op"]:
        changed = _changed(repo, step, FLOWS) if changed is None else changed
        blobs = (repo.blob(oid, MAX_DOCUMENT + 1) for oid in changed.values() if oid)
        files = large_parts(blobs)
    record = decode_message(step.commit.message, files)
    assert record is not None
    if record.rules > RULES:
        raise Invalid(f"written under rule set {record.rules}; this gfs knows {RULES}")
    return record


def _check_family(record: Record, definition: Definition) -> None:
    """Refuse an operation that belongs on another ref."""
    right = record.channel is None or definition.ref == cursor_ref(record.channel)
    if not (isinstance(record.op, definition.ops) and right):
        raise Invalid(f"{record.op.TAG} is no operation on {definition.ref}")


def _compare(repo: Repository, path: str, value: Value | None, oid: str | None) -> None:
    if value is None or oid is None:
        if value is not None or oid is not None:
            raise Corrupt(f"{path} is {'there' if oid else 'absent'} against its operation")
        return
    if codec.encode(value) != repo.blob(oid, MAX_DOCUMENT + 1):
        raise Corrupt(f"{path} differs from what its operation gives")
    documents.remember(path, oid, value)


def _check_trailers(record: Record, before: machine.State, after: machine.State) -> None:
    flow = outcomes.changed_flow(record.op, before, after)
    stated = (record.flow, record.revision, record.status)
    if stated != ((flow.id, flow.revision, flow.status) if flow else (None, None, None)):
        raise Corrupt("the trailers do not agree with the document")
