"""The plain files beside the repository, brought up to a main that this run did not move itself.

Rule: it is a cache, so that where another process is at work nobody waits for long.
"""

from __future__ import annotations

from gitflowstate.errors import Unavailable
from gitflowstate.git import Repository
from gitflowstate.location import Location
from gitflowstate.locks import repository_lock
from gitflowstate.view import View

_SHARED_S = 1.0  # where others move main all the time, somebody else will do it


def show_head(repo: Repository, place: Location, timeout: float) -> None:
    """Let the view show what others, or a command that was killed, have committed (hazard A3).

    Raises Unavailable where another process holds the lock; with a remote that is no matter.
    """
    view, head = View(place.folder, place.gitdir), repo.ref(place.ref)
    if not place.view or head is None or view.head() == head:
        return
    shared = place.remote is not None
    try:
        with repository_lock(repo.gitdir, min(timeout, _SHARED_S) if shared else timeout):
            head = repo.ref(place.ref)
            if head is not None:
                repo.warnings.extend(view.refresh(repo, None, head, {}))
    except Unavailable:
        if not shared:
            raise
