"""What is wrong with what a flow repository says: history, documents, results and cursors.

Rule: damage is named with commit, flow and revision where they are known, and stops nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from gitflowstate import ancestry, handmade, history, processes
from gitflowstate.cursorstore import CursorStore, verify
from gitflowstate.definitions import MAIN
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt
from gitflowstate.findings import FROM_A_CLONE, Finding, guarded
from gitflowstate.git import CommitInfo, Oid, Repository
from gitflowstate.inbox import INBOX_REF
from gitflowstate.message import decode_trailers
from gitflowstate.model import Flow
from gitflowstate.store import Store

CURSORS = "refs/gfs/cursors/"
_NAMED, _MANY = 3, 20  # of many alike
_OBJECT, _ELSEWHERE = re.compile(r"\b[0-9a-f]{40}\b"), re.compile(r"is no operation on \S+")


# ── history and documents ───────────────────────────────────────────────────────────────────────


def past(
    repo: Repository, head: Oid, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    """Yield damage and broken rules in the history of main and of each cursor."""
    report = history.verify(repo, head, progress=progress)
    yield from _problems(repo, report)
    if report.unmanaged:
        yield Finding(
            "hand-made",
            f"there are commits made by hand: {len(report.unmanaged)}",
            ", ".join(oid[:12] for oid in report.unmanaged[:_NAMED]),
            "git show each; what counts is the document at the head",
            note=True,
        )
    if report.shallow:
        yield Finding("shallow", "history is cut here", "a shallow clone", "", note=True)
    for name, oid in repo.refs(CURSORS.rstrip("/")).items():
        yield from _problems(repo, verify(repo, oid, name.removeprefix(CURSORS)), name)


def _problems(repo: Repository, report: history.Report, ref: str = MAIN) -> Iterator[Finding]:
    alike: dict[str, list[dict[str, str]]] = {}
    for found in report.problems:
        alike.setdefault(_cause(found["problem"]), []).append(found)
    for group in [*alike.values()][:_MANY]:
        first, count = group[0]["commit"], len(group)
        which = f"{count} commits of {ref} do" if count > 1 else f"a commit of {ref} does"
        named = [_about(repo, found["commit"]) for found in group[:_NAMED]]
        more = [f"and {count - _NAMED} more"] * (count > _NAMED)
        yield Finding(
            "damage",
            f"{which} not replay: {group[0]['problem']}",
            "; ".join([*named, *more]),
            FROM_A_CLONE
            if _OBJECT.search(group[0]["problem"])
            else f"git show {first[:12]}; the bytes are left alone, and newer flows can be used",
        )


def _cause(problem: str) -> str:
    """Return what problems of one cause share: the object, or what no op of theirs belongs on."""
    found = _OBJECT.search(problem) or _ELSEWHERE.search(problem)
    return found[0] if found else problem


def _about(repo: Repository, oid: Oid) -> str:
    """Return which commit it is, and which flow and revision where that is known."""
    try:
        told = decode_trailers(repo.commit(oid).message) or {}
    except Corrupt:
        told = {}
    flow = f", {told['Flow']} r{told.get('Revision', '?')}" if "Flow" in told else ""
    return f"commit {oid[:12]}{flow}"


def flows(repo: Repository, timeout: float) -> Iterator[Finding]:
    """Yield the flows that cannot be used, and edits by hand that are not yet recorded."""
    store = Store(repo, timeout=timeout)
    head = store.head()
    managed = store.managed(head)
    for item in store.flows(archived=True):
        if isinstance(item, Broken):
            yield Finding("flow", item.error.message, item.path, item.error.hint)
    yield from guarded("hand-made", lambda: _untouched(repo, managed, head))


def _untouched(repo: Repository, managed: CommitInfo, head: CommitInfo) -> Iterator[Finding]:
    handmade.check_untouched(repo, managed, head)
    yield from ()


def results(
    repo: Repository, timeout: float, exists: Callable[[str | None], bool | None]
) -> Iterator[Finding]:
    """Yield the results that are no file where a flow says; nothing is changed (R-TF-07)."""
    for item in Store(repo, timeout=timeout).flows(archived=True):
        if isinstance(item, Flow):
            named = [(item.id, item.result_ref), *((t.id, t.result_ref) for t in item.children)]
            for name, reference in named:
                if exists(reference) is False:
                    where = item.id if name == item.id else f"{item.id}/{name}"
                    yield Finding(
                        "result",
                        f"the result of {where} is not there",
                        str(reference),
                        "look for it where the work was done; a move of the repository moves none",
                        note=True,
                    )


def journal(repo: Repository, timeout: float) -> Iterator[Finding]:
    """Yield the processes that cannot be read: nothing is started in their sessions (C-11)."""
    for item in processes.listing(Store(repo, timeout=timeout)):
        if isinstance(item, Broken):
            yield Finding("process", item.error.message, item.path, item.error.hint)


# ── channels ────────────────────────────────────────────────────────────────────────────────────


def cursors(repo: Repository, head: Oid) -> Iterator[Finding]:
    """Yield cursors that cannot be read whole, or that have seen more than main holds."""
    for name in repo.refs(CURSORS.rstrip("/")):
        if name == INBOX_REF:
            continue  # marks of sessions, which no watcher keeps
        channel = name.removeprefix(CURSORS)
        store = CursorStore(repo, channel)
        cursor = store.load()
        for problem in store.problems:
            yield Finding(
                "cursor", problem, name, "the next gfs watch goes on from what it can read"
            )
        seen = cursor.head if cursor else None
        if seen is not None and not _keeps(repo, head, seen):
            head = repo.ref(MAIN) or head  # somebody may write while we look
        if seen is not None and not _keeps(repo, head, seen):
            yield Finding(
                "behind-cursor",
                f"channel {channel} has seen a commit that is not in main",
                f"{seen[:12]} is not behind {head[:12]}",
                f"main was moved back or rewritten: git reflog show {MAIN}; ask who did it",
            )


def _keeps(repo: Repository, head: Oid, seen: Oid) -> bool:
    """Tell whether a head is built on a commit, and not merely a merge that dropped it."""
    if not repo.is_within(seen, head):
        return False
    with suppress(Corrupt):  # a hole, which the audit tells
        return not ancestry.taken_back(repo, seen, head)
    return True
