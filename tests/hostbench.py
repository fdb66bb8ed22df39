"""Hosts that share flows, in process: a bare remote, repositories with it, and ways that break.

`Way` is the real transport; what a test plans for its calls happens around the real call, so that
everything which is said to have arrived has arrived.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flowrepo import Lab
from gitrepo import MAIN, fsck, git

from gitflowstate import history, joining, location
from gitflowstate.adapters import transport
from gitflowstate.adapters.transport import Transport
from gitflowstate.delivery import Unknown
from gitflowstate.errors import Unavailable
from gitflowstate.publishing import PublishedRefs, QueuedRefs
from gitflowstate.queueing import QUEUED
from gitflowstate.store import Store
from gitflowstate.syncing import Synced, sync

AT = "2026-09-06T12:00:00Z"
Plan = Callable[[Callable[[], Any]], Any]


class Way(Transport):
    """A transport whose calls can be made to fail: plans by name, each used once."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.plans: list[tuple[str, Plan]] = []
        self.calls: list[str] = []

    def plan(self, name: str, *plans: Plan) -> None:
        """Let the next calls of a name go through plans."""
        self.plans += [(name, each) for each in plans]

    def _through(self, name: str, real: Callable[[], Any]) -> Any:
        self.calls.append(name)
        found = next((pair for pair in self.plans if pair[0] == name), None)
        if found is None:
            return real()
        self.plans.remove(found)
        return found[1](real)

    def refs(self, *names: str) -> dict[str, str]:
        return self._through("refs", lambda: Transport.refs(self, *names))

    def track(self, name: str, into: str) -> Any:
        return self._through("track", lambda: Transport.track(self, name, into))

    def push(self, name: str, old: str | None, new: str) -> str | None:
        return self._through("push", lambda: Transport.push(self, name, old, new))


def lost(real: Callable[[], Any]) -> Any:
    """Do it, and lose the answer."""
    real()
    raise Unknown("no answer")


def never(_: Callable[[], Any]) -> Any:
    """Send something that never arrives, and hear nothing."""
    raise Unknown("no answer")


def gone(_: Callable[[], Any]) -> Any:
    """Reach nobody."""
    raise Unavailable("the origin is out of reach")


class Host(Lab):
    """One host: a repository with the remote, and a store whose ops the remote acknowledges."""

    def __init__(self, folder: Path, url: Path | str) -> None:
        self.url = str(url)
        joining.init(folder, self._attached, view=False, timeout=10)
        super().__init__(folder, made=False)
        self.way = self.opened(self.gitdir)
        self.refs = PublishedRefs(self.repo, self.way, patience_s=5)
        self.store = Store(self.repo, refs=self.refs)
        self.offline = Store(self.repo, refs=QueuedRefs(self.repo), definition=QUEUED)

    def _attached(self, gitdir: Path) -> Transport:
        transport.attach(gitdir, self.url)
        return self.opened(gitdir)

    def opened(self, gitdir: Path) -> Way:
        """Return a way to the remote."""
        return Way(gitdir, self.url, dict(os.environ), timeout_s=20)

    def sync(self, **given: Any) -> Synced:
        """Bring both sides together."""
        return sync(self.repo, self.refs, at=AT, timeout=10, **given)

    @property
    def tracked(self) -> str | None:
        """What the remote had when it was last asked."""
        return self.repo.ref(location.TRACKED)

    def kept(self, kind: str) -> dict[str, str]:
        """Return the refs below refs/gfs/KIND."""
        return self.repo.refs(f"refs/gfs/{kind}")


@contextlib.contextmanager
def pair(folder: Path, url: Path | str) -> Iterator[list[Host]]:
    """Yield two hosts that share a remote."""
    hosts = [Host(folder / name, url) for name in ("one", "two")]
    yield hosts
    for host in hosts:
        host.repo.close()


def overtaken(act: Callable[[], Any]) -> Plan:
    """Return a plan by which another host is faster."""

    def plan(real: Callable[[], Any]) -> Any:
        act()
        return real()

    return plan


def remote(folder: Path, name: str = "remote.git") -> Path:
    """Make a bare repository that writes down how its refs move."""
    bare = folder / name
    git(folder, "init", "-q", "--bare", bare)
    git(bare, "config", "core.logAllRefUpdates", "always")
    return bare


def main_of(bare: Path) -> str:
    """Return what main is at the remote, as C git reads it."""
    return git(bare, "rev-parse", MAIN)


def subjects(bare: Path) -> list[str]:
    """Return the subjects of main at the remote, oldest first."""
    return git(bare, "log", "--first-parent", "--reverse", "--format=%s", MAIN).splitlines()


def moves(bare: Path) -> list[tuple[str, str]]:
    """Return how main moved at the remote, oldest first."""
    lines = (bare / "logs" / MAIN).read_text().splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


def only_forward(bare: Path) -> None:
    """Check that main never moved back at the remote, and has no merge."""
    for old, new in moves(bare):
        if int(old, 16):
            assert git(bare, "merge-base", old, new) == old
    assert git(bare, "rev-list", "--count", "--min-parents=2", MAIN) == "0"


def sound(bare: Path, *hosts: Host) -> None:
    """Check what every test ends with: no move back, one head, histories that replay."""
    only_forward(bare)
    fsck(bare)
    for host in hosts:
        host.refs.ask()
        assert host.head == host.tracked == main_of(bare)
        assert history.verify(host.repo, host.head).problems == []
        fsck(host.gitdir)
        assert not [*host.gitdir.glob("gfs-ref-*")]
