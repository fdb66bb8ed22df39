"""Main of a repository that has a remote: moved there first, and here once it is there.

Rules: the remote decides, and the ref here is a cache of it; nothing is acknowledged that was not
read back from there. A push whose answer was lost is looked for; it may be sent again as it is,
since its commit is the same and can land only once. Where another has sent the same commit, of the
same op in the same second, that race is lost all the same. Nothing here is moved over what only we
have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from gitflowstate.ancestry import keeps, meeting, standing, swallowed, taken_back, unpublished
from gitflowstate.attempts import Attempts
from gitflowstate.definitions import MAIN
from gitflowstate.delivery import NotSent, Unknown
from gitflowstate.errors import Corrupt, GfsError, Stale, Unavailable
from gitflowstate.git import Oid, Repository, Staged
from gitflowstate.location import TRACKED
from gitflowstate.locks import repository_lock
from gitflowstate.movers import Local
from gitflowstate.ports import IS_THERE, Remote
from gitflowstate.reconcile import Standing

PATIENCE_S = 30.0  # for one op to get through, races included
LOOK_S = 15.0  # between two looks of one that stays (resolution C-20)


def follow(repo: Repository, *, at_once: bool = False) -> Standing | None:
    """Bring main here to what was last brought from the remote; return how they stand.

    None where they are the same. What is queued here stays as it is. Where a lock of another keeps
    main from moving, the next command does it; `at_once` it is Unavailable, with the lock's name.
    """
    ours, theirs = repo.ref(MAIN), repo.ref(TRACKED)
    if theirs is None or ours == theirs:
        return None
    found = Standing((), (), None) if ours is None else standing(repo, ours, theirs)
    if found.queued:
        return found
    with nullcontext() if at_once else suppress(Unavailable):
        repo.move(MAIN, ours, theirs, "from the remote", int(time.time()))
    return None


class QueuedRefs(Local):
    """Main, for a store whose ops are acknowledged here and published later."""

    @contextmanager
    def alone(self, timeout: float) -> Iterator[None]:
        """Take the lock of the repository, and begin with what is known of the remote."""
        with repository_lock(self.repo.gitdir, timeout):
            follow(self.repo)
            yield


class PublishedRefs:
    """Main, for a store that keeps its objects here and is acknowledged by the remote.

    `patience_s` bounds how long one op may take there, in seconds.
    """

    def __init__(self, repo: Repository, remote: Remote, *, patience_s: float = PATIENCE_S) -> None:
        self.repo = repo
        self.remote = remote
        self.patience_s = patience_s
        self.tried = self.asked = False  # whether the remote was asked, and whether it answered
        self.catch_up: Callable[[], None] | None = None  # publishes what may be at any time
        self._fresh = False  # whether main is as the remote had it a moment ago
        self._looked = time.monotonic()
        self._until: float | None = None  # when the op that is in work is given up
        self._races = 0  # which it has lost

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref names, as it was here last."""
        return self.repo.ref(name)

    def version(self, name: str) -> Oid | None:
        """Return the commit that a ref names; the remote is asked now and then, if it answers."""
        if time.monotonic() - self._looked >= LOOK_S:
            with suppress(GfsError):
                self.ask()
            self._looked = time.monotonic()
        return self.repo.ref(name)

    def renewed(self, name: str) -> bool:
        """Ask the remote, unless that was just done; tell whether the ref moved."""
        if self._fresh:
            return False
        before = self.repo.ref(name)
        self.ask()
        return self.repo.ref(name) != before

    def ask(self) -> None:
        """Bring main here to what it is at the remote, unless something is queued.

        Raises Unavailable or Denied; Corrupt where history was taken back there.
        """
        before = self.repo.ref(TRACKED)
        self.tried = True
        try:
            found = self.remote.track(MAIN, TRACKED)
        except Unavailable as error:
            if before is None or "held" not in error.details:
                raise
            # A lock that a dead process left is cleared, any other is named with its age.
            self.repo.move(TRACKED, before, before, "", int(time.time()))
            found = self.remote.track(MAIN, TRACKED)
        self.asked = True
        if found == "replaced" or (found == "absent" and before is not None):
            there = self.remote.refs(MAIN).get(MAIN)
            if there is None or before is None or not self._restored(before, there):
                raise self._replaced(before, there)
        else:
            self._check_kept(before)
        self._fresh = True
        follow(self.repo)

    def _restored(self, before: Oid, there: Oid) -> bool:
        """Follow a main that was taken back and then got again all that it had, if that is so.

        Main here moves along where it has nothing that is not there under another commit.
        """
        if not self.repo.has(there):
            self.remote.fetch(MAIN)
        found = meeting(self.repo, before, there)
        if not keeps(self.repo, found):
            return False
        now = int(time.time())
        if not self.repo.move(TRACKED, before, there, "restored there", now):
            raise Unavailable("another process looks at the remote", hint="run it again")
        if self.repo.ref(MAIN) == before and not unpublished(self.repo, found.queued, found):
            self.repo.move(MAIN, before, there, "restored at the remote", now)
        return True

    def _check_kept(self, before: Oid | None) -> None:
        """Refuse a main that came from the remote and keeps not all of what was there before.

        A merge can have it among its ancestors, and nothing of what it did. Raises Corrupt.
        """
        there, ours = self.repo.ref(TRACKED), self.repo.ref(MAIN)
        if there is None:
            return
        was = (
            before if before not in (None, there) and taken_back(self.repo, before, there) else None
        )
        if was is None and ours not in (None, there):
            # Another process may have brought it just now, or was killed before it looked.
            was = swallowed(self.repo, ours, there)
        if was is not None:
            # As after a push that forces: what was there stays known until a person decides.
            self.repo.move(TRACKED, there, was, "taken back there", int(time.time()))
            raise self._replaced(was, there)

    def _replaced(self, before: Oid | None, there: Oid | None) -> Corrupt:
        return Corrupt(
            f"the remote took history back: its main was at {str(before)[:12]}, and "
            + (f"{there[:12]} does not keep what that had" if there else "it has none any more"),
            hint="ask who keeps it; gfs sync --follow goes on with what is there and keeps ours "
            "aside, gfs sync --republish puts ours on top of it",
            was=before,
            there=there,
        )

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def alone(self, timeout: float) -> Iterator[None]:
        """Take the lock of this repository, and refuse to begin on what is not published.

        Raises Stale where operations are queued here.
        """
        with repository_lock(self.repo.gitdir, timeout):
            self._fresh = False
            found = follow(self.repo)
            if found is not None or self.repo.ref(TRACKED) is None:
                self.ask()  # it may be there, and we were killed before that was noted
                found = follow(self.repo)
                if found is not None and self.catch_up is not None:
                    self.catch_up()
                    found = follow(self.repo)
                if found is not None or self.repo.ref(TRACKED) is None:
                    raise _unsynced(found)
            self._until, self._races = time.monotonic() + self.patience_s, 0
            try:
                yield
            finally:
                self._until, self._fresh = None, False

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects, move main at the remote and then here; False for a lost race.

        Raises Denied where the remote refuses, Unavailable where it cannot be reached, Uncertain
        where it cannot be told whether the commit is there.
        """
        self.repo.write(staged)
        if not self.land(ref, old, staged.commit):
            return False
        self._settle(ref, old, staged, log)
        return True

    def _settle(self, ref: str, old: Oid | None, staged: Staged, log: str) -> None:
        """Move main here; it is published already, so that what fails now is a warning."""
        try:
            self.repo.move(ref, old, staged.commit, log, staged.time)
        except GfsError as error:
            self.repo.warnings.append(
                f"it is recorded at the remote, and not yet here: {error.message}"
            )

    def land(self, ref: str, old: Oid | None, new: Oid) -> bool:
        """Move a ref at the remote from a value to a commit; False if the race was lost.

        After a lost race main here is what won it; too many of them are Unavailable.
        """
        left = self.patience_s if self._until is None else self._until - time.monotonic()
        attempts = Attempts(left, self._races)
        self.tried = True
        while True:
            try:
                refusal = self.remote.push(ref, old, new)
            except NotSent as error:
                attempts.unsent(error)
                continue
            except Unknown:
                attempts.lost()
                refusal = None
            landed = self._landed(ref, old, new, refusal, attempts)
            if landed is not None:
                return landed

    def _landed(
        self, ref: str, old: Oid | None, new: Oid, refusal: str | None, attempts: Attempts
    ) -> bool | None:
        """Return whether a commit is at the remote; None where it can still get there."""
        try:
            if refusal is None and self.remote.refs(ref).get(ref) == new:
                self._note(old, new)
                return True
            attempts.beaten(refusal)
            self.ask()
            there = self.repo.ref(TRACKED)
            within = (
                there is not None
                and self.repo.is_within(new, there, old)
                and not taken_back(self.repo, new, there)
            )
        except Corrupt:
            raise  # what was taken back there is for a person
        except GfsError as error:  # a disk that fails here hides it as well
            attempts.unseen(error, refused=refusal is not None)
            return None
        # What we never sent is another's, made in the same second of the same op: ours comes after.
        if within and (refusal is None or attempts.is_open):
            return True
        if there != old:
            self._races += 1
            attempts.passed()
            follow(self.repo, at_once=True)  # on what is here it would lose for ever
            return False
        attempts.again(None if refusal == IS_THERE else refusal)
        return None

    def _note(self, old: Oid | None, new: Oid) -> None:
        """Remember what the remote has, unless Git did so, or another process knows more."""
        self.asked = self._fresh = True
        with suppress(GfsError):
            known = self.repo.ref(TRACKED)
            if known == old != new:
                self.repo.move(TRACKED, old, new, "published", int(time.time()))
            elif known != new:
                self.remote.track(MAIN, TRACKED)
                self._check_kept(known)


def _unsynced(found: Standing | None) -> Stale:
    count = len(found.queued) if found else 0
    what = f"{count} operation{'s' * (count != 1)}" if count else "this repository"
    verb = "are" if count > 1 else "is"
    return Stale(
        f"{what} {verb} here and not yet at the remote",
        hint="gfs sync publishes; --offline adds to what is queued",
        next=["gfs", "sync"],
        queued=count,
    )
