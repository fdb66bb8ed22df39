"""The audit of history, a commit, beside decoding and encoding the document it changed.

Run by the interpreter under test: `python audit.py FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from table import Row, cpu, interleaved, rounds, send
from workbench import Desk, founded

from gitflowstate import codec, history
from gitflowstate.model import Flow, flow_path

COMMITS = 200
TASKS = 20


def measured(folder: Path) -> list[Row]:
    """Return the row of `verify`: milliseconds a commit."""
    desk = founded(folder / "repo", view=False)
    desk.plan("f-1", TASKS)
    for _ in range(COMMITS):
        desk.update()
    stored = _stored(desk)
    start = desk.store.head().oid
    count = len(stored)

    def verify() -> float:
        desk.forget()
        return cpu(lambda: _clean(desk, start)) / (count + 3)  # init, create and plan come first

    def convert() -> float:
        return cpu(lambda: [codec.encode(codec.decode(Flow, data)) for data in stored]) / count

    found = interleaved({"verify": verify, "convert": convert}, rounds(15))
    what = "verify, a commit, CPU"
    return [Row(what, "decode and encode the same", 4.0, found["verify"], found["convert"])]


def _clean(desk: Desk, head: str) -> None:
    report = history.verify(desk.repo, head)
    assert not report.problems, report.problems


def _stored(desk: Desk) -> list[bytes]:
    """Return the bytes of the document at each commit that changed it by an update."""
    found = []
    for step in history.of_flow(desk.repo, desk.store.head().oid, "f-1"):
        entry = desk.repo.lookup(step.commit.tree, flow_path("f-1"))
        assert entry is not None
        found.append(desk.repo.blob(entry.oid))
    return found[:COMMITS]


if __name__ == "__main__":
    send(measured(Path(sys.argv[1])))
