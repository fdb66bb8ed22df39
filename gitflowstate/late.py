"""What a supervisor records itself, when the client that should have done so has gone.

Rules: imported by a supervisor only then, with the client's own search path; what cannot be
recorded now is on the disk, and recorded by whoever comes next. Where a remote decides it is
recorded there; where that does not answer it is queued here, and the next writer publishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from gitflowstate import processes, runfiles, settling, syncing
from gitflowstate.errors import GfsError
from gitflowstate.git import Repository
from gitflowstate.movers import Local, Refs
from gitflowstate.processes import Identity
from gitflowstate.processmodel import Process
from gitflowstate.publishing import PublishedRefs, QueuedRefs
from gitflowstate.runfiles import Exit
from gitflowstate.store import Store
from gitflowstate.view import View

Request = dict[str, Any]


def started(request: Request, pid: int, ticks: int, at: str) -> bool:
    """Record that the command runs; tell whether that is durable."""

    def record(store: Store, process: Process) -> None:
        processes.started(store, process, Identity(pid, ticks, at), at=at, by=request["by"])

    return _recorded(request, record)


def settled(request: Request, end: Exit) -> bool:
    """Record how the command ended; tell whether that is durable."""
    at = runfiles.now()

    def record(store: Store, process: Process) -> None:
        told = settling.end(end, process.id)
        processes.settled(store, process, told, at=at, by=request["by"])

    return _recorded(request, record)


def _recorded(request: Request, record: Callable[[Store, Process], None]) -> bool:
    """Record a fact at the remote, if there is one to be asked, or else here."""
    ways = [_published] * bool(request["remote"] and not request["offline"])
    for way in (*ways, _queued if request["remote"] else _own):
        try:
            with _opened(request, way) as (store, process):
                record(store, process)
        except GfsError:
            continue
        return True
    return False


def _published(request: Request, repo: Repository) -> Refs:
    """Return main as the remote decides it; the client names the adapter that leads there."""
    wait = request["remote_timeout"]
    adapter = import_module(request["transport"])
    way = adapter.Transport(repo.gitdir, request["remote"], os.environ, timeout_s=wait)
    refs = PublishedRefs(repo, way, patience_s=wait)
    refs.catch_up = lambda: syncing.publish_ends(repo, refs, at=runfiles.now())
    return refs


def _queued(request: Request, repo: Repository) -> Refs:
    del request
    return QueuedRefs(repo)


def _own(request: Request, repo: Repository) -> Refs:
    del request
    return Local(repo)


@contextmanager
def _opened(
    request: Request, way: Callable[[Request, Repository], Refs]
) -> Iterator[tuple[Store, Process]]:
    """Open the repository as the client had it, and give the process as it is recorded."""
    gitdir = Path(request["gitdir"])
    repo = Repository.open(gitdir, trust=frozenset(request["trust"]), writing=True)
    view = View(Path(request["view"]), gitdir) if request["view"] else None

    def published(old: str, new: str, changes: Mapping[str, bytes | None]) -> None:
        if view is not None:
            view.refresh(repo, old, new, changes)

    try:
        store = Store(
            repo,
            ref=request["ref"],
            timeout=request["lock_timeout"],
            published=published,
            refs=way(request, repo),
        )
        process = processes.find_by_id(store, request["session"], request["process"])
        if process is None:
            raise GfsError(f"there is no record of {request['process']}")
        yield store, process
    finally:
        repo.close()
