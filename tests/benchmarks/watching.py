"""A watcher: a pass that owes nothing beside a look at one ref; what changed among many; one ack.

Run by the interpreter under test: `python watching.py FOLDER`.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from table import Row, interleaved, rounds, send, wall
from workbench import AT, BY, MAIN, founded

from gitflowstate import codec
from gitflowstate.adapters.memory import MemoryChannel
from gitflowstate.cursors import CURSOR_PATH, Cursor, Delivery, cursor_ref, receipt_path
from gitflowstate.cursorstore import CursorStore
from gitflowstate.due import Rules
from gitflowstate.git import Repository
from gitflowstate.reports import Settings
from gitflowstate.snapshot import Snapshot
from gitflowstate.watcher import Watcher
from gitflowstate.watchops import Ack

NAME = "team"
REF = cursor_ref(NAME)
MANY, FEW, CHANGED = 10_000, 100, 10
RULES = Rules(interval_s=0)


class Clock:
    """The time at which everything here happens."""

    def now(self) -> str:
        """Return it."""
        return AT

    def later(self, seconds: int) -> str:
        """Return a time so many seconds later."""
        return f"{datetime.fromisoformat(AT).astimezone(UTC) + timedelta(seconds=seconds):%FT%TZ}"


class Watched:
    """A repository with so many flows, each of which was told."""

    def __init__(self, folder: Path, count: int) -> None:
        self.desk = founded(folder, view=False)
        self.desk.add_flows(count)
        self.desk.make_folders()
        self.channel = MemoryChannel()
        self.rounds = 0
        self._tell_all()

    def _tell_all(self) -> None:
        """Leave one receipt for each flow, by one commit."""
        repo, head = self.desk.repo, self.desk.store.head().oid
        documents = {CURSOR_PATH: codec.encode(Cursor(schema_version=1, head=head))}
        for flow in self.desk.store.flows():
            assert not isinstance(flow, tuple)
            told = Delivery(schema_version=1, revision=flow.revision, message="m0", sent_at=AT)
            documents[receipt_path(flow.id)] = codec.encode(told)
        staged = repo.stage(None, dict(documents))
        staged = repo.commit_object(staged, [], b"all told\n", BY, 1_800_000_000)
        assert repo.publish(REF, None, staged, "all told")

    def watch(self, repo: Repository) -> int:
        """Make a pass; return how many messages it sent."""
        head = repo.ref(MAIN)
        assert head
        settings = Settings(NAME, BY, "w1", rules=RULES)
        cursors = CursorStore(repo, NAME)
        watcher = Watcher(settings, Snapshot(repo, head), cursors, lambda _: self.channel, Clock())
        return len(watcher.run().told)

    def quiet(self) -> float:
        """Measure a pass that owes nothing, the opening of the repository included."""
        self.desk.forget()
        return wall(self._quiet)

    def _quiet(self) -> None:
        with Repository.open(self.desk.repo.gitdir) as repo:
            assert self.watch(repo) == 0

    def look(self) -> float:
        """Measure the opening of the repository and the reading of one ref."""
        return wall(self._look)

    def _look(self) -> None:
        with Repository.open(self.desk.repo.gitdir) as repo:
            assert repo.ref(MAIN)

    def change(self) -> float:
        """Change a few flows, and measure the pass that tells it."""
        self.rounds += 1
        for number in range(CHANGED):
            self.desk.update(f"g-{(self.rounds * CHANGED + number) % (FEW - 1)}")
        self.desk.forget()
        return wall(self._changed)

    def _changed(self) -> None:
        with Repository.open(self.desk.repo.gitdir) as repo:
            assert self.watch(repo) == CHANGED

    def ack(self) -> float:
        """Measure one acknowledgement."""
        self.rounds += 1
        op = Ack(
            at=AT, by=BY, channel=NAME, flow="f-1", revision=self.rounds + 5, kind="status",
            message="m1", digest="d" * 64, edits=True,
        )  # fmt: skip
        return wall(lambda: CursorStore(self.desk.repo, NAME).commit(op))


class Editable(MemoryChannel):
    """A channel that takes every edit, whatever was there."""

    def edit(self, id: str, notice: object) -> str:  # noqa: A002  the word of the protocol
        """Accept it."""
        del notice
        return id


def measured(folder: Path) -> list[Row]:
    """Return the rows."""
    many, few, tiny = (
        Watched(folder / name, count)
        for name, count in (("many", MANY), ("few", FEW), ("tiny", 10))
    )
    for watched in (many, few, tiny):
        watched.channel = Editable()
    found = interleaved({"quiet": many.quiet, "look": many.look}, rounds(100))
    found |= interleaved({"many": many.change, "few": few.change}, rounds(20))
    found |= interleaved({"acks": many.ack, "ack": tiny.ack}, rounds(100))
    return [
        Row(f"pass that owes nothing, {MANY:,} flows", "open it and read one ref", 3.0,
            found["quiet"], found["look"]),
        Row(f"{CHANGED} changed of {MANY:,}", f"{CHANGED} changed of {FEW}", 1.5,
            found["many"], found["few"]),
        Row(f"ack beside {MANY:,} receipts", "ack beside 10", 1.5, found["acks"], found["ack"]),
    ]  # fmt: skip


if __name__ == "__main__":
    send(measured(Path(sys.argv[1])))
