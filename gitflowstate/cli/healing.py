"""What doctor can mend with the help of the remote: objects that were lost or broken here."""

from __future__ import annotations

from collections.abc import Iterator

from gitflowstate import checkup, torn
from gitflowstate.cli import config
from gitflowstate.errors import GfsError
from gitflowstate.findings import Finding
from gitflowstate.git import Repository
from gitflowstate.kinds import Time
from gitflowstate.location import Location

_LONG_S = 600.0


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
    """Yield what is wrong with HEAD, main and its objects; what the remote has comes from there.

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
    yield from checkup.heads(repo, made_by_gfs=place.writable, at=at)


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
