"""What doctor can mend with the help of the remote: objects that were lost or broken here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitflowstate import checkup, prose, torn
from gitflowstate.ancestry import keeps, meeting, standing
from gitflowstate.cli import config
from gitflowstate.definitions import MAIN
from gitflowstate.errors import GfsError
from gitflowstate.findings import Finding
from gitflowstate.git import Oid, Repository
from gitflowstate.kinds import Time
from gitflowstate.location import TRACKED, Location
from gitflowstate.syncing import OFFLINE, REJECTED

_LONG_S = 600.0
_SHOWN = 3


class Healer:
    """Brings the objects of main from the remote, once in a run."""

    def __init__(self, repo: Repository, place: Location) -> None:
        self._repo = repo
        self._place = place
        self._told = ""
        self.done = False

    def __call__(self) -> str:
        """Bring them; return what was done. Raises GfsError where the remote is out of reach."""
        from gitflowstate.adapters.regain import regain

        assert self._place.remote is not None
        if not self._told:
            wait = max(config.remote_timeout(), _LONG_S)
            environ = config.environment()
            count = regain(self._place.gitdir, self._place.remote, environ, timeout_s=wait)
            self.done = True
            self._repo.close()  # its packs are listed anew
            self._told = f"main was brought from the remote again, {count:,} bytes"
        return self._told


def heads(repo: Repository, place: Location, *, at: Time) -> Iterator[Finding]:
    """Yield what is wrong with main and its objects; what the remote has comes from there.

    Nothing is cut off that the remote may have: it must have been looked at first.
    """
    if place.remote is not None and torn.find(repo) is not None:
        heal = Healer(repo, place)
        yield Finding(
            "damaged-head",
            "the head cannot be read whole",
            _flaw(repo),
            "gfs doctor --fix brings what is missing from the remote",
            fix=heal,
        )
        if not heal.done:
            return
    yield from checkup.heads(repo, at)


def sharing(repo: Repository, place: Location) -> Iterator[Finding]:
    """Yield how this repository stands to its remote, where that is for somebody to decide."""
    ours, theirs = repo.ref(place.ref), repo.ref(TRACKED)
    if place.remote is None or ours is None or theirs is None:
        return
    if not config.offline():
        yield from _remote(repo, place.gitdir, place.remote, theirs)
    queued = standing(repo, ours, theirs).queued if ours != theirs else ()
    if queued:
        them = prose.count(len(queued), "operation")
        evidence = f"the last of them is {queued[-1][:12]}"
        yield Finding("queued", f"{them} not yet at the remote", evidence, "gfs sync", note=True)
    yield from _kept(repo, REJECTED, "that a sync refused", "decide what is still to be done")
    yield from _kept(repo, OFFLINE, "from before a sync", "")


def _kept(repo: Repository, prefix: str, what: str, step: str) -> Iterator[Finding]:
    kept = sorted(repo.refs(prefix))
    if kept:
        evidence = ", ".join([*kept[:_SHOWN], *["…"] * (len(kept) > _SHOWN)])
        are = "is" if len(kept) == 1 else "are"
        told = f"{prose.count(len(kept), 'tip')} {what} {are} kept"
        yield Finding("kept", told, evidence, step and f"git log shows it: {step}", note=True)


def _remote(repo: Repository, gitdir: Path, url: str, theirs: Oid) -> Iterator[Finding]:
    from gitflowstate.cli import hosts

    try:
        there = hosts.transport(gitdir, url, reading=True).refs(MAIN).get(MAIN)
    except GfsError as error:
        yield Finding("remote", "the remote was not heard", error.message, error.hint, note=True)
        return
    if there is not None and not repo.has(there):
        told = "what the remote has now is not here: it is newer, or history was taken back there"
        step = "gfs sync brings it, and says which"
        yield Finding("remote", told, f"its main is {there[:12]}", step, note=True)
    elif there is None or not keeps(repo, meeting(repo, theirs, there)):
        yield Finding(
            "remote",
            "the remote took history back",
            f"its main was at {theirs[:12]}, and is {'gone' if there is None else there[:12]}",
            "gfs sync says what can be decided; ask who keeps the remote first",
        )


def past(findings: Iterator[Finding], repo: Repository, place: Location) -> Iterator[Finding]:
    """Yield findings about history, those about objects with how the remote mends them."""
    heal = Healer(repo, place)
    for found in findings:
        if place.remote is not None and found.kind == "damage" and "object " in found.problem:
            step = "gfs doctor --fix brings it from the remote"
            yield found._replace(next=step, fix=heal)
        else:
            yield found


def _flaw(repo: Repository) -> str:
    try:
        found = torn.find(repo)
    except GfsError as error:
        return error.message
    if isinstance(found, torn.Cut):
        return found.torn[0].problem if found.torn else "the ref holds no commit id"
    return found or ""
