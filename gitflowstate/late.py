"""What a supervisor records itself, when the client that should have done so has gone.

Rule: imported by a supervisor only then, with the client's own search path; what cannot be recorded
now is on the disk, and recorded by whoever comes next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gitflowstate import processes, settling
from gitflowstate.errors import GfsError
from gitflowstate.git import Repository
from gitflowstate.processes import Identity
from gitflowstate.processmodel import Process
from gitflowstate.runfiles import Exit
from gitflowstate.store import Store
from gitflowstate.view import View

Request = dict[str, Any]


def started(request: Request, pid: int, ticks: int, at: str) -> bool:
    """Record that the command runs; tell whether that is durable."""
    try:
        with _opened(request) as (store, process):
            processes.started(store, process, Identity(pid, ticks, at), at=at, by=request["by"])
    except GfsError:
        return False
    return True


def settled(request: Request, end: Exit) -> bool:
    """Record how the command ended; tell whether that is durable."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        with _opened(request) as (store, process):
            told = settling.end(end, process.id)
            processes.settled(store, process, told, at=at, by=request["by"])
    except GfsError:
        return False
    return True


@contextmanager
def _opened(request: Request) -> Iterator[tuple[Store, Process]]:
    """Open the repository as the client had it, and give the process as it is recorded."""
    gitdir = Path(request["gitdir"])
    repo = Repository.open(gitdir, trust=frozenset(request["trust"]), writing=True)
    view = View(Path(request["view"]), gitdir) if request["view"] else None

    def published(old: str, new: str, changes: Mapping[str, bytes | None]) -> None:
        if view is not None:
            view.refresh(repo, old, new, changes)

    try:
        store = Store(
            repo, ref=request["ref"], timeout=request["lock_timeout"], published=published
        )
        process = processes.find_by_id(store, request["session"], request["process"])
        if process is None:
            raise GfsError(f"there is no record of {request['process']}")
        yield store, process
    finally:
        repo.close()
