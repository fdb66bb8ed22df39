"""What was recorded here alone is brought to the remote: one push, however many operations.

Rules: where the remote has gone on, each operation is applied again to its head, as after any lost
race. The old tip keeps a ref of its own, set before anything moves, and so does every commit whose
operation is refused now, set before main here moves off it. Killed at any moment, the next run does
the rest and nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

from gitflowstate import fates, publishing, reconcile
from gitflowstate.ancestry import standing
from gitflowstate.definitions import MAIN
from gitflowstate.errors import NotFound, Rejected, Unavailable
from gitflowstate.fates import Fate
from gitflowstate.git import Oid, Repository
from gitflowstate.joining import check_flows
from gitflowstate.kinds import Time
from gitflowstate.location import TRACKED
from gitflowstate.locks import repository_lock
from gitflowstate.movers import Chain
from gitflowstate.processops import FACTS
from gitflowstate.publishing import PublishedRefs
from gitflowstate.reconcile import Standing

OFFLINE, REJECTED = "refs/gfs/offline", "refs/gfs/rejected"
_ATTEMPTS = 1000


class Synced(NamedTuple):
    """What one run did; `kept` is the ref of the old tip, where that is not in history now."""

    head: Oid
    fates: list[Fate]
    kept: str | None = None
    fetched: int = 0


def sync(
    repo: Repository, refs: PublishedRefs, *, at: Time, timeout: float, republish: bool = False
) -> Synced:
    """Bring what is queued here to the remote, and what is new there here.

    With `republish` the remote gets back what it once had and took back. Raises Unavailable, Denied
    or Uncertain as publishing does; Corrupt where the remote took history back, and Rejected where
    the two histories have nothing in common.
    """
    with repository_lock(repo.gitdir, timeout):
        began = repo.ref(TRACKED)
        _fetch(repo, refs, republish=republish)
        done = _brought_together(repo, refs, at)
        return done._replace(fetched=_between(repo, began, done))


def follow(repo: Repository, refs: PublishedRefs, *, at: Time, timeout: float) -> Synced:
    """Go on with the history that the remote has now, although it took back what it once had.

    What was never published is applied again; all else that only we have keeps a ref of its own.
    """
    with repository_lock(repo.gitdir, timeout):
        there = _brought(repo, refs)
        done = _rebased(repo, at, there)
        # From here on what is left of the queue is one like any other, killed or not.
        _track(repo, there)
        pushed = _brought_together(repo, refs, at)
        return pushed._replace(fates=done.fates or pushed.fates, kept=done.kept)


def _rebased(repo: Repository, at: Time, there: Oid) -> Synced:
    """Move main here onto what the remote has: what was never published is applied to that."""
    ours, theirs = _main(repo), repo.ref(TRACKED)
    alone = standing(repo, ours, there).queued
    fresh = {*(standing(repo, ours, theirs).queued if theirs else alone)}
    queue = [oid for oid in alone if oid in fresh]
    if len(queue) == len(alone):
        return Synced(ours, [])
    kept = _keep(repo, f"{OFFLINE}/{reconcile.stamp(at)}", ours)
    chain = Chain(repo, there)
    told = [*_kept(repo, fates.replayed(repo, chain, queue, ()), at)]
    if not repo.move(MAIN, ours, chain.head, "taken back", int(time.time())):
        raise Unavailable("main moved meanwhile", hint="run the same command again")
    return Synced(chain.head, told, kept)


def _apart(hint: str) -> Rejected:
    return Rejected(
        "this repository and the remote have nothing in common: they began apart", hint=hint
    )


def _brought(repo: Repository, refs: PublishedRefs) -> Oid:
    """Bring what the remote has now, whatever flows it had before; return it. Raises Rejected."""
    there = refs.remote.refs(MAIN).get(MAIN)
    refs.asked = True
    if there is None:
        raise NotFound(
            "the remote has no main: there is nothing to go on with",
            hint="gfs sync --republish puts ours there",
        )
    if not repo.has(there):
        refs.remote.fetch(MAIN)
    check_flows(repo, there)
    return there


def _track(repo: Repository, there: Oid) -> None:
    """Remember what the remote has, although that is not built on what it had."""
    known = repo.ref(TRACKED)
    if known != there and not repo.move(TRACKED, known, there, "taken back", int(time.time())):
        raise Unavailable("another process looks at the remote", hint="run it again")


def _main(repo: Repository) -> Oid:
    ours = repo.ref(MAIN)
    if ours is None:
        raise NotFound(f"{repo.gitdir} has no {MAIN}: it holds no flows", next=["gfs", "where"])
    return ours


def _fetch(repo: Repository, refs: PublishedRefs, *, republish: bool) -> None:
    if not republish:
        refs.ask()
        return
    publishing.follow(repo)  # what was brought before is put back as well
    found = refs.remote.track(MAIN, TRACKED)
    refs.asked = True
    if found == "absent":
        refs.land(MAIN, None, repo.ref(TRACKED) or _main(repo))  # the queue follows, and is told
    elif found == "replaced":
        there = _brought(repo, refs)
        if standing(repo, _main(repo), there).met is None:
            raise _apart("gfs sync --follow goes on with what is there and keeps ours aside")
        _track(repo, there)


def _between(repo: Repository, began: Oid | None, done: Synced) -> int:
    """Return how many commits of others this run brought here."""
    if began is None or began == done.head:
        return 0
    own = sum(fate.commit is not None for fate in done.fates)
    return max(0, len(standing(repo, began, done.head).newer) - own)


def publish_ends(repo: Repository, refs: PublishedRefs, *, at: Time) -> None:
    """Publish a queue of what became of processes, which nobody has to decide; leave any other.

    For who holds the lock. What is refused by now is kept, with a warning. Raises as `sync` does.
    """
    theirs = repo.ref(TRACKED)
    queue = theirs and standing(repo, _main(repo), theirs).queued
    if queue and all(fates.queued(repo, oid).op in FACTS for oid in queue):
        done = _brought_together(repo, refs, at)
        repo.warnings += [f"{f.op} is refused, kept: {f.kept}" for f in done.fates if f.refused]


# ── one round: until the remote stands still for one push ───────────────────────────────────────


def _brought_together(repo: Repository, refs: PublishedRefs, at: Time) -> Synced:
    """Publish what is queued, round by round; who loses one has asked what the remote has now."""
    for _ in range(_ATTEMPTS):
        done = _round(repo, refs, at)
        if done is not None:
            return done
    raise Unavailable("main moves too often at the remote", hint="run the same command again")


def _round(repo: Repository, refs: PublishedRefs, at: Time) -> Synced | None:
    """Publish what is queued on what the remote has now; None where it moved meanwhile."""
    ours, theirs = _main(repo), repo.ref(TRACKED)
    if theirs is None:
        return _pushed(refs, None, ours, [])
    if ours == theirs:
        return Synced(ours, [])
    found = standing(repo, ours, theirs)
    if found.met is None:
        raise _apart("name another remote, or export the flows of one and import them in the other")
    if not found.queued:
        moved = repo.move(MAIN, ours, theirs, "from the remote", int(time.time()))
        return Synced(theirs, []) if moved else None
    if not found.newer:
        taken = [fates.queued(repo, oid).as_it_was() for oid in found.queued]
        return _pushed(refs, theirs, ours, taken)
    kept = _keep(repo, f"{OFFLINE}/{reconcile.stamp(at)}", ours)
    done = _replayed(repo, refs, at, ours, theirs, found)
    return done._replace(kept=kept) if done else None


def _pushed(refs: PublishedRefs, old: Oid | None, new: Oid, taken: list[Fate]) -> Synced | None:
    return Synced(new, taken) if refs.land(MAIN, old, new) else None


def _replayed(  # noqa: PLR0917  two heads, and what lies between
    repo: Repository,
    refs: PublishedRefs,
    at: Time,
    ours: Oid,
    theirs: Oid,
    found: Standing,
) -> Synced | None:
    """Apply a queue to the head of the remote, push once, and move main here."""
    chain = Chain(repo, theirs)
    told = [*fates.replayed(repo, chain, found.queued, found.newer)]
    if chain.head != theirs and not refs.land(MAIN, theirs, chain.head):
        return None
    told = [*_kept(repo, told, at)]
    if not repo.move(MAIN, ours, chain.head, "sync", int(time.time())):
        return None  # somebody pushed here meanwhile: that is queued, and the rest is published
    return Synced(chain.head, told)


# ── what is kept ────────────────────────────────────────────────────────────────────────────────


def _kept(repo: Repository, told: Iterable[Fate], at: Time) -> Iterator[Fate]:
    """Give a ref to each commit that was refused."""
    for number, fate in enumerate(told, 1):
        if fate.refused is None:
            yield fate
        else:
            name = f"{REJECTED}/{reconcile.stamp(at)}/{number}"
            yield fate._replace(kept=_keep(repo, name, fate.old))


def _keep(repo: Repository, name: str, oid: Oid) -> str:
    """Set a new ref, under the next free name; return that."""
    for number in count(1):
        free = name if number == 1 else f"{name}-{number}"
        if repo.ref(free) == oid or repo.move(free, None, oid, "kept", int(time.time())):
            return free
    raise AssertionError
