"""A flow repository made from a copy of one, and its plain files.

Rules: it is made aside, and is there whole or not at all; what an interrupted one left to do is
done by the next; nothing that is there is written over.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gitflowstate import founding, history, location
from gitflowstate.bundles import Copy, refs_of
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, GfsError
from gitflowstate.git import Oid, Repository
from gitflowstate.locks import repository_lock
from gitflowstate.syscalls import fsync_folder, reported
from gitflowstate.view import View


class Restored(NamedTuple):
    """A repository that was brought back, what replaying it found, and what went less than well.

    `made` tells whether it was made just now.
    """

    place: location.Location
    refs: dict[str, Oid]
    report: history.Report
    warnings: list[str]
    made: bool


def restore(
    folder: Path,
    copy: Copy,
    *,
    view: bool,
    timeout: float,
    progress: Callable[[int], None] | None = None,
) -> Restored:
    """Make a repository in a new or empty folder from a copy, whole or not at all.

    Where it is there already with just those refs, what an interrupted one left to do is done.
    Raises Rejected where the folder holds anything else, NotFound where the copy has no main,
    Corrupt where its refs or its head cannot be read back. What replaying finds is no reason to
    refuse.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  links stay as the person wrote them
    found = location.made_by_gfs(folder / ".git")
    if found is not None and found.remote is None:
        refs = copy.refs(found.gitdir)
        if _has(found.gitdir, refs):
            report = _judged(found.gitdir, refs, progress)
            return Restored(found, refs, report, shown(found, timeout), made=False)
    return _restored(folder, copy, view=view, timeout=timeout, progress=progress)


def _restored(
    folder: Path,
    copy: Copy,
    *,
    view: bool,
    timeout: float,
    progress: Callable[[int], None] | None,
) -> Restored:
    refs: dict[str, Oid] = {}
    reports: list[history.Report] = []

    def begin(gitdir: Path) -> None:
        Repository.init(gitdir).close()
        refs.update(copy.refs(gitdir))
        copy.bring(gitdir)
        reports.append(_judged(gitdir, refs, progress))
        location.mark(gitdir, view=view)
        sync_folders(gitdir)

    founding.place(folder, begin)
    place = location.at(folder)
    return Restored(place, refs, reports[0], shown(place, timeout), made=True)


def _has(gitdir: Path, refs: dict[str, Oid]) -> bool:
    """Tell whether a repository has just those refs."""
    with Repository.open(gitdir) as repo:
        return repo.ref(MAIN) is not None and refs_of(repo) == refs


def _judged(
    gitdir: Path, refs: dict[str, Oid], progress: Callable[[int], None] | None
) -> history.Report:
    with Repository.open(gitdir, writing=True) as repo:
        if refs_of(repo) != refs:
            raise Corrupt("the refs that arrived are not those of the copy", hint="run it again")
        return history.verify(repo, refs[MAIN], progress=progress)


def sync_folders(gitdir: Path) -> None:
    """Let the names of what Git wrote survive a power cut; the files themselves it has synced."""
    with reported("sync", str(gitdir)):
        for path, _, _ in os.walk(gitdir, topdown=False):
            fsync_folder(path)


def shown(place: location.Location, timeout: float) -> list[str]:
    """Make the view; what goes wrong is a warning."""
    if not place.view:
        return []
    try:
        with (
            Repository.open(place.gitdir, writing=True) as repo,
            repository_lock(place.gitdir, timeout),
        ):
            head, view = repo.ref(MAIN), View(place.folder, place.gitdir)
            return view.repair(repo, head) if head and head != view.head() else []
    except GfsError as error:
        return [f"the plain files are not there yet: {error.message}"]
