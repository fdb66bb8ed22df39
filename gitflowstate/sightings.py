"""What else than main and its reflog has seen main: the plain files, and the cursors of channels.

Rule: a sighting may be old, and never says that main is there; but what it names was acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitflowstate.cursors import cursor_ref
from gitflowstate.cursorstore import CursorStore
from gitflowstate.git import Oid, Repository
from gitflowstate.inbox import INBOX_REF
from gitflowstate.view import View

CURSORS = cursor_ref("")


def shown(repo: Repository) -> Oid | None:
    """Return the commit that the plain files show, None where that is not known."""
    return View(repo.gitdir, repo.gitdir).head()


def of_main(repo: Repository) -> Iterator[tuple[Oid, str]]:
    """Yield each commit that main was seen at, and what says so. Raises what reading raises."""
    if (at := shown(repo)) is not None:
        yield at, "the plain files show it"
    for name in repo.refs(CURSORS.rstrip("/")):
        if name != INBOX_REF:
            cursor = CursorStore(repo, name.removeprefix(CURSORS)).load()
            if cursor is not None and cursor.head is not None:
                yield cursor.head, f"{name} has seen it"
