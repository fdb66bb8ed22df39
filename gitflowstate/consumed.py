"""Which output of processes may go: that of one which ended long ago and was told of.

Rules: whichever session has seen the end, the output has done its work: the session that started
the process may be gone. Only output on this machine goes. Facts, state and identity are in the
repository and stay, so the same call is never run again (R-TJ-16).
"""

from __future__ import annotations

from typing import NamedTuple

from gitflowstate import due, outputs, processes, runlocks
from gitflowstate.documents import Broken
from gitflowstate.inbox import is_notice
from gitflowstate.inboxstore import InboxStore, Marks
from gitflowstate.kinds import Time
from gitflowstate.processmodel import Process, has_ended
from gitflowstate.store import Store

KEPT_S = 86_400  # after the end


class Removed(NamedTuple):
    """The processes whose output went, and how many bytes that were; `kept` counts the others."""

    processes: list[str]
    size: int
    kept: int


def expire(store: Store, now: Time) -> Removed:
    """Remove the output of every process that ended a day ago and whose end was seen."""
    gitdir = store.repo.gitdir
    here = {*outputs.every(gitdir)}
    paths = [path for path in processes.paths(store) if processes.name_of(path) in here]
    marks = InboxStore(store.repo, store.timeout).everyone()
    gone: list[str] = []
    size = 0
    for item in processes.read(store, paths):
        if isinstance(item, Broken) or not is_consumed(item, marks, now):
            continue
        size += outputs.expire(gitdir, item.id)
        runlocks.forget(gitdir, item.id)
        gone.append(item.id)
    return Removed(gone, size, len(here) - len(gone))


def is_consumed(process: Process, marks: Marks, now: Time) -> bool:
    """Tell whether nobody waits for the output of a process any more."""
    if not has_ended(process) or process.finished_at is None:
        return False
    if due.elapsed(process.finished_at, now) < KEPT_S:
        return False
    return "seen" in marks.get(process.id, {}) or not is_notice(process)
