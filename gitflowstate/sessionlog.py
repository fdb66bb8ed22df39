"""The journal of a session: every fact that was recorded of its processes, from its history.

Rules: the history of the session's folder is the journal, the oldest first (C-11). An edit by hand
is a fact without an op.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitflowstate import documents, history, message
from gitflowstate.errors import Corrupt
from gitflowstate.history import Step
from gitflowstate.journal import Fact
from gitflowstate.processes import FOLDER, name_of
from gitflowstate.processmodel import Process, session_folder
from gitflowstate.store import Store


def facts(store: Store, session: str) -> list[Fact]:
    """Return the facts of a session, the oldest first. Raises Corrupt for a hole in the history."""
    folder = session_folder(session)
    found: list[Fact] = []
    for step in history.steps(store.repo, store.head().oid):
        if step.trailers is None or "Process" in step.trailers:
            found += reversed([*_of(store, step, folder)])
    return found[::-1]


def _of(store: Store, step: Step, folder: str) -> Iterator[Fact]:
    before = step.parent.tree if step.parent else None
    for path, _, entry in store.repo.diff(before, step.commit.tree, (FOLDER,)):
        if not path.startswith(f"{folder}/"):
            continue
        process = None
        if entry is not None:
            try:
                process = documents.decode(store.repo, path, entry)
            except Corrupt:
                process = None  # it is told of as damage, by `verify`
        assert process is None or isinstance(process, Process)
        op, by, at = _told(step)
        yield Fact(name_of(path), step.commit.oid, op, by, at, process)


def _told(step: Step) -> tuple[str | None, str | None, str | None]:
    """Return the op of a commit, its actor and its time; nothing for an edit by hand."""
    if step.trailers is None:
        return None, None, None
    raw = message.raw_op(step.trailers["Gfs-Op"])
    return raw["op"], raw["by"], raw["at"]
