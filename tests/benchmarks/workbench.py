"""One repository and one open store, as a process that stays would use them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path

from gitflowstate import codec, documents, founding, ops, taskops
from gitflowstate.definitions import MAIN
from gitflowstate.git import Repository
from gitflowstate.model import Flow, Plan, Step, flow_path
from gitflowstate.outcomes import Outcome
from gitflowstate.store import Store
from gitflowstate.view import View

BY = "bench"
AT = "2026-09-06T10:00:00Z"


class Desk:
    """Carries out operations on the flows of one repository, one commit each."""

    def __init__(self, repo: Repository, view: View | None) -> None:
        self.repo = repo
        self._numbers = itertools.count()
        self._last: Outcome | None = None

        def published(old: str, new: str, changes: Mapping[str, bytes | None]) -> None:
            if view is not None:
                view.refresh(repo, old, new, changes)

        self.store = Store(repo, published=published)

    def commit(self, op: ops.Op) -> Outcome:
        """Commit an operation."""
        self._last = self.store.commit(op)
        return self._last

    def create(self, flow: str) -> None:
        """Create a flow."""
        made = ops.Create(
            at=AT, by=BY, flow=flow, goal="Compare three options", owner=BY, next="Go"
        )
        self.commit(made)

    def plan(self, flow: str, count: int) -> None:
        """Create a flow with so many tasks, none of which waits for another."""
        self.create(flow)
        steps = tuple(Step(id=f"t{n}", goal=f"Read source {n}") for n in range(1, count + 1))
        document = Plan(schema_version=1, flow=flow, tasks=steps)
        self.commit(taskops.Plan(at=AT, by=BY, flow=flow, document=document))

    def update(self, flow: str = "f-1") -> None:
        """Record some progress that was not there before."""
        progress = f"Half of it is read, says number {next(self._numbers)}"
        self.commit(ops.Update(at=AT, by=BY, flow=flow, progress=progress))

    def settle(self, flow: str, task: str) -> None:
        """Record that a task is done."""
        self.commit(taskops.TaskDone(at=AT, by=BY, flow=flow, task=task, result="notes/a.md"))

    def claim(self, flow: str, task: str) -> None:
        """Claim a task for an hour."""
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        self.commit(
            taskops.TaskClaim(
                at=AT, by=BY, flow=flow, task=task, worker="bench.1", until=until, skew_s=0
            )
        )

    def forget(self) -> None:
        """Drop what this process remembers of documents, as if it had just begun."""
        documents._memo.clear()

    def add_flows(self, count: int) -> None:
        """Add flows by one commit, as a person may; then one of gfs that takes them in."""
        self.create("f-1")
        head = self.store.head()
        flow = self.store.flow("f-1")
        copies = (flow.replace(id=f"g-{number}") for number in range(count - 1))
        changes = {flow_path(copy.id): codec.encode(_fresh(copy)) for copy in copies}
        staged = self.repo.stage(head.tree, changes)
        staged = self.repo.commit_object(staged, [head.oid], b"many flows\n", BY, 1_800_000_000)
        self.repo.publish(MAIN, head.oid, staged, "many flows")
        self.update()

    def make_folders(self) -> None:
        """Make every folder of loose objects, so that no round pays for one."""
        for number in range(256):
            (self.repo.gitdir / "objects" / f"{number:02x}").mkdir(exist_ok=True)

    def last_objects(self) -> tuple[dict[str, bytes], str]:
        """Return the objects of the last commit as they lie on disk, and that commit."""
        assert self._last is not None
        assert self._last.commit is not None
        commit = self.repo.commit(self._last.commit)
        oids = [commit.oid, commit.tree]
        for path in (path for path, content in self._last.changes.items() if content is not None):
            parts = path.split("/")
            found = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
            oids += [entry.oid for p in found if (entry := self.repo.lookup(commit.tree, p))]
        return {oid: self._loose(oid) for oid in oids}, commit.oid

    def _loose(self, oid: str) -> bytes:
        return (self.repo.gitdir / "objects" / oid[:2] / oid[2:]).read_bytes()


def _fresh(flow: Flow) -> Flow:
    return Flow(**flow.__dict__)


def founded(folder: Path, *, view: bool) -> Desk:
    """Make a flow repository in a folder, and open it for writing."""
    place = founding.init(folder, view=view).location
    repo = Repository.open(place.gitdir, writing=True)
    return Desk(repo, View(place.folder, place.gitdir) if view else None)
