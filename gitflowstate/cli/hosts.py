"""The remote of this run: the way to it, and what every answer says about it.

Rules: a verb that only reads asks the remote first, and says how old its answer is where it did not
or could not; what is queued here is said with every answer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitflowstate import cgit, prose
from gitflowstate.adapters.transport import Transport
from gitflowstate.ancestry import standing
from gitflowstate.cli import config, output
from gitflowstate.errors import Denied, GfsError, NotFound, Rejected, Unavailable
from gitflowstate.git import Repository
from gitflowstate.location import TRACKED, Location
from gitflowstate.movers import Refs
from gitflowstate.publishing import PublishedRefs, QueuedRefs
from gitflowstate.queueing import QUEUED
from gitflowstate.reconcile import Standing

_LONG_S = 600.0  # for what moves whole histories
_READING_S = 10.0  # for an answer that can be had without the remote


def transport(gitdir: Path, url: str, *, long: bool = False, reading: bool = False) -> Transport:
    """Return the way to the remote of a repository; `long` for whole histories."""
    wait = config.remote_timeout()
    if long:
        wait = max(wait, _LONG_S)
    elif reading:
        wait = min(wait, _READING_S)
    return Transport(gitdir, url, config.environment(), timeout_s=wait)


def published(
    repo: Repository, place: Location, *, long: bool = False, reading: bool = False
) -> PublishedRefs:
    """Return main as the remote decides it; who only reads waits less long."""
    assert place.remote is not None
    way = transport(place.gitdir, place.remote, long=long, reading=reading)
    refs = PublishedRefs(repo, way, patience_s=config.remote_timeout())
    refs.catch_up = lambda: _publish_ends(repo, refs)
    output.about = About(repo, place, way, refs)
    return refs


def _publish_ends(repo: Repository, refs: PublishedRefs) -> None:
    from gitflowstate import syncing  # start-up: hardly ever

    syncing.publish_ends(repo, refs, at=config.now())


def queued(repo: Repository, place: Location) -> QueuedRefs:
    """Return main as it is recorded here, to be published later."""
    assert place.remote is not None
    output.about = About(repo, place, transport(place.gitdir, place.remote), None)
    return QueuedRefs(repo)


def joined(repo: Repository, place: Location, *, writing: bool, offline: bool) -> dict[str, Any]:
    """Return what makes a store one of a repository with a remote.

    For a verb that only reads the remote is asked now, if it answers.
    """
    if offline:
        return {"refs": queued(repo, place), "definition": QUEUED}
    refs = published(repo, place, reading=not writing)
    if not writing:
        ask(refs)
    return {"refs": refs}


def ask(refs: Refs) -> None:
    """Bring what is new at the remote, if one decides; warn where it does not answer."""
    if not isinstance(refs, PublishedRefs) or refs.asked:
        return
    try:
        refs.ask()
    except (Unavailable, Denied, NotFound) as error:
        output.warn(f"{error.message}; this is what was known here")
    except GfsError as error:
        output.warn(f"{error.message}; {error.hint}")


def needed(place: Location, what: str, *, offline: bool) -> None:
    """Refuse to do offline what the remote has to decide. Raises Rejected."""
    if offline and place.remote is not None:
        raise Rejected(
            f"{what} needs the remote, which is not asked now",
            hint="leave --offline out, and unset GFS_OFFLINE",
        )


def standing_of(repo: Repository, place: Location) -> dict[str, Any]:
    """Return the remote, its head, and how far main here is ahead of it and behind."""
    assert place.remote is not None
    ours, theirs = repo.ref(place.ref), repo.ref(TRACKED)
    found = Standing((), (), None)
    if ours and theirs and ours != theirs:
        found = standing(repo, ours, theirs)
    return {
        "remote": cgit.plain(place.remote),
        "remote_head": theirs,
        "ahead": len(found.queued),
        "behind": len(found.newer),
    }


class About:
    """What is known of the remote when an answer is given."""

    def __init__(
        self, repo: Repository, place: Location, way: Transport, refs: PublishedRefs | None
    ) -> None:
        self._repo = repo
        self._place = place
        self._way = way
        self._refs = refs

    def data(self) -> dict[str, Any]:
        """Return it as JSON: whether the remote was asked, when it last answered, what is queued.

        `queued` is null where that cannot be told.
        """
        when = self._way.asked()
        at = None if when is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
        found: dict[str, Any] = {"asked": bool(self._refs and self._refs.asked), "as_of": at}
        return found | {"queued": self.queued()}

    def queued(self) -> int | None:
        """Return how many commits are here alone."""
        with suppress(GfsError):
            ours, theirs = self._repo.ref(self._place.ref), self._repo.ref(TRACKED)
            if ours is None or ours == theirs:
                return 0
            if theirs is None:
                return sum(1 for _ in self._repo.lineage(ours, ()))
            return len(standing(self._repo, ours, theirs).queued)
        return None

    def text(self, *, failed: bool) -> str:
        """Return it for a person: a line where something is queued or was not asked.

        Beside a refusal: what is queued is not what was refused.
        """
        known, lines = self.data(), []
        if known["queued"]:
            count = known["queued"]
            them = "one is" if count == 1 else f"{count} are"
            what = f"recorded here, not yet at the remote: {them} queued"
            if failed:
                what = f"{prose.count(count, 'earlier operation')} queued here, not at the remote"
            lines.append(f"note: {what}; gfs sync")
        if not known["asked"]:
            when = self._way.asked()
            age = "never" if when is None else f"{_span(time.time() - when)} ago"
            tried = self._refs is not None and self._refs.tried
            how = f"the remote was not {'heard' if tried else 'asked'}"
            lines.append(f"note: {how}; it last answered {age}")
        return "\n".join(lines)


def _span(seconds: float) -> str:
    whole = max(0, int(seconds))
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if whole >= 2 * unit:
            return f"{whole // unit} {name}"
    return f"{whole} s"
