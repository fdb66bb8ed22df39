"""A watcher between a real repository and a fake GitHub, that can die at any of its effects."""

from __future__ import annotations

from fakes.github import BOT, FakeClock, GitHub
from flowrepo import Lab
from gitrepo import MAIN

from gitflowstate import marker
from gitflowstate.adapters.github import GitHubChannel
from gitflowstate.adapters.githubwire import Wire
from gitflowstate.cursorstore import CursorStore, verify
from gitflowstate.due import Rules
from gitflowstate.reports import Settings
from gitflowstate.snapshot import Snapshot
from gitflowstate.watcher import Watcher

NAME = "github"
TOKEN = "token-for-tests-0123456789"
TARGET = "octo/hello#12"


class KilledError(BaseException):
    """The process is dead; whatever it would still do does not happen either."""


class Life:
    """How many effects are left: requests, and commits of the cursor."""

    def __init__(self, steps=None):
        self.steps = steps

    def spend(self):
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise KilledError


class MortalWire(Wire):
    """A connection whose process may die before a request, and after it."""

    life = Life()

    def call(self, operation, **params):
        self.life.spend()
        answer = super().call(operation, **params)
        self.life.spend()
        return answer


class MortalCursors(CursorStore):
    """A cursor whose watcher may die before a commit, and after it."""

    life = Life()

    def commit(self, op):
        self.life.spend()
        super().commit(op)
        self.life.spend()


class Hub:
    """Flows, an issue, and what stands between them."""

    def __init__(self, folder, author=BOT, lag=0):
        self.lab = Lab(folder / "flows")
        self.clock = FakeClock()
        self.server = GitHub({TOKEN: author}, self.clock, lag=lag)
        self.wires = []
        self.ahead_s = 0
        self.passes = 0

    def watch(self, life=None, target=TARGET, **how):
        """Make one pass; `life` bounds its effects."""
        self.passes += 1
        cursors = MortalCursors(self.lab.repo, NAME)
        cursors.life = life or Life()
        holder = f"w{self.passes}"
        settings = Settings(
            NAME, "watch", holder, rules=Rules(**how), target=lambda flow: targeted(flow, target)
        )
        snapshot = Snapshot(self.lab.repo, self.lab.repo.ref(MAIN))
        watcher = Watcher(
            settings, snapshot, cursors, lambda cursor: self.channel(cursor, life), Ahead(self)
        )
        try:
            return watcher.run()
        finally:
            self.clock.move(1)  # a process takes its time to begin

    def channel(self, cursor=None, life=None, **given):
        wire = MortalWire(
            TOKEN, self.server.url, timeout_s=1.0, pause=self.clock.pause, ticks=self.clock.ticks
        )
        self.wires.append(wire)
        wire.life = life or Life()
        author = cursor.author_id if cursor else None
        return GitHubChannel(NAME, TARGET, wire, Ahead(self), author_id=author, **given)

    def began(self, flow="f-1"):
        """Let the status comment of a flow be there, so that all that comes is new."""
        self.lab.create(flow)
        self.watch()
        self.clock.move(600)

    def killed(self, steps, **how):
        """Make a pass that dies at an effect; tell whether it did."""
        try:
            self.watch(Life(steps), **how)
        except KilledError:
            return True
        return False

    def settle(self, passes=4):
        """Make passes until all is told, far enough apart for every hold and look."""
        for _ in range(passes):
            self.clock.move(310)
            report = self.watch()
        return report

    @property
    def cursor(self):
        return CursorStore(self.lab.repo, NAME).load()

    def receipt(self, flow="f-1"):
        return CursorStore(self.lab.repo, NAME).delivery(flow)

    def kinds(self, flow="f-1", number=12):
        """Return kind and revision of each of our comments about a flow that counts."""
        bodies = self.server.issues[1001, number].comments
        marks = [marker.read(each["body"]) for each in bodies if each["author"] == BOT]
        return [(mark.kind, mark.revision) for mark in marks if mark and mark.flow == flow]

    def asked(self, *methods):
        """Return method and path of each request so far, of some methods or of all."""
        return [
            (each.method, each.path)
            for each in self.server.requests
            if not methods or each.method in methods
        ]

    def sound(self):
        """Check that no rule of GitHub's was broken, that the token stayed, and the history."""
        assert self.server.violations == []
        pairs = zip(self.server.writes, self.server.writes[1:], strict=False)
        assert all(later - earlier >= 1 for earlier, later in pairs)
        tip = self.lab.repo.ref(f"refs/gfs/cursors/{NAME}")
        assert tip is None or verify(self.lab.repo, tip, NAME).problems == []

    def close(self):
        for wire in self.wires:
            wire.close()
        self.server.stop()
        self.lab.repo.close()


class Ahead:
    """The clock of this machine, which may be wrong."""

    def __init__(self, hub):
        self._hub = hub

    def now(self):
        return self.later(0)

    def later(self, seconds):
        return self._hub.clock.later(seconds + self._hub.ahead_s)


def targeted(flow, default):
    """Return the issue that a flow is linked to, as the command line does."""
    return next((link.href for link in flow.links if link.rel == "issue"), default)
