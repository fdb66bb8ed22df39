"""A flow repository that shares its flows with others through a remote: how it comes to be.

Rules: what the remote has is adopted, and only where it has nothing does a first commit go there,
which is the same object everywhere; a repository is made aside, and is there whole or not at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gitflowstate import founding, location, restoring
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, NotFound, Rejected, Unavailable
from gitflowstate.founding import FIRST, Founded
from gitflowstate.git import Oid, Repository
from gitflowstate.location import TRACKED
from gitflowstate.model import FORMAT_PATH
from gitflowstate.ports import Remote
from gitflowstate.publishing import PublishedRefs
from gitflowstate.store import Store

# Names the remote of a repository that has none, and returns the way to it.
Attach = Callable[[Path], Remote]


def clone(folder: Path, attach: Attach, *, view: bool, timeout: float) -> Founded:
    """Make a flow repository in a new or empty folder from what its remote has.

    Raises NotFound where the remote has no main, Rejected where that holds no flows or the folder
    holds anything.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  links stay as the person wrote them
    founding.place(folder, partial(_make, attach=attach, view=view, begin=False))
    return _shown(Founded(location.at(folder), made=True, warnings=[]), timeout)


def init(folder: Path, attach: Attach, *, view: bool, timeout: float) -> Founded:
    """Make a flow repository from what its remote has, or begin there where that has nothing.

    A flow repository that the folder holds is left as it is. Raises Rejected where main of the
    remote holds no flows.
    """
    make = partial(_make, attach=attach, view=view, begin=True)
    done = founding.init(folder, view=view, begin=make)
    if not done.made:
        return done
    return _shown(done._replace(location=location.at(done.location.folder)), timeout)


def _shown(done: Founded, timeout: float) -> Founded:
    return done._replace(warnings=[*done.warnings, *restoring.shown(done.location, timeout)])


def _make(gitdir: Path, *, attach: Attach, view: bool, begin: bool) -> None:
    Repository.init(gitdir).close()
    remote = attach(gitdir)
    with Repository.open(gitdir, writing=True) as repo:
        _adopt(repo, remote, begin=begin)
    location.mark(gitdir, view=view)
    restoring.sync_folders(gitdir)


def _adopt(repo: Repository, remote: Remote, *, begin: bool) -> None:
    """Bring main to what the remote has, after a first commit there where that is asked for."""
    _decisive(remote)
    refs = PublishedRefs(repo, remote)
    refs.ask()
    if repo.ref(TRACKED) is None:
        if not begin:
            raise NotFound(
                "the remote has no main: it holds no flows",
                next=["gfs", "init", "DIR", "--remote", "URL"],
            )
        Store(repo).commit(FIRST)
        first = repo.ref(MAIN)
        assert first is not None
        refs.land(MAIN, None, first)  # if another was faster, it is the same commit, or before main
        refs.ask()
    head = repo.ref(TRACKED)
    if head is None:
        raise Unavailable("main moves too often at the remote", hint="run it again")
    check_flows(repo, head)
    if repo.ref(MAIN) != head:
        repo.move(MAIN, repo.ref(MAIN), head, "from the remote", int(time.time()))


def consider(repo: Repository, there: Remote, before: Remote | None) -> Oid | None:
    """Return main of a remote that a repository is to share its flows through from now on.

    Raises Unavailable or Denied where it does not answer; Rejected where main holds no flows, or
    where the remote so far, `before`, still has what is shared there.
    """
    if before is not None and repo.ref(TRACKED) is not None and _has_main(before):
        raise Rejected(
            "this repository has a remote already, which answers: others may go on there",
            hint="gfs where says which; see to it that nobody reaches that any more, then run it "
            "again, or share a folder of its own",
        )
    head = _decisive(there)
    if head is not None:
        if not repo.has(head):
            there.fetch(MAIN)
        check_flows(repo, head)
    return head


def _decisive(remote: Remote) -> Oid | None:
    """Return main of a remote. Raises Rejected where that is a copy, and another one decides."""
    found = remote.refs(MAIN, TRACKED)
    if TRACKED in found:
        raise Rejected(
            "that repository shares its own flows through a remote: what is pushed to it is not "
            "published",
            hint="name the remote that gfs where says there",
        )
    return found.get(MAIN)


def _has_main(remote: Remote) -> bool:
    try:
        return MAIN in remote.refs(MAIN)
    except (Unavailable, NotFound):
        return False


def check_flows(repo: Repository, head: str) -> None:
    """Refuse a main of the remote that gfs did not begin. Raises Rejected."""
    try:
        found = repo.lookup(repo.commit(head).tree, FORMAT_PATH)
    except Corrupt:
        found = None
    if found is None:
        raise Rejected(
            "main of the remote holds something else than flows, and stays as it is",
            hint="name another repository for the flows, an empty one perhaps",
        )
