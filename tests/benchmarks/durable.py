"""Durable updates inside one process, beside a bare loop that stores the same bytes the same way.

Run by the interpreter under test: `python durable.py FOLDER`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from table import Row, cpu, interleaved, rounds, send, wall
from workbench import Desk, founded

_MEMORY = Path("/dev/shm")  # tmpfs, if it is there
_SLOW_MS = 4.0
FEW_FLOWS, MANY_FLOWS = 10, 10_000
FEW_COMMITS, MANY_COMMITS = 50, 5_000


class Bare:
    """Writes, syncs and renames what a commit consists of, and thinks nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refs = folder / "refs"
        self.refs.mkdir(parents=True)
        self._names = itertools.count()
        for number in range(256):
            (folder / f"{number:02x}").mkdir()

    def store(self, objects: dict[str, bytes], head: str) -> None:
        """Store objects (id to bytes as they lie on disk) and then the ref."""
        folders = {str(self.folder / oid[:2]) for oid in objects}
        for oid, data in objects.items():
            self._replace(f"{self.folder}/{oid[:2]}", oid[2:], data)
        for folder in folders:
            _sync(folder)
        self._replace(str(self.refs), "main", head.encode())
        _sync(str(self.refs))

    def _replace(self, folder: str, name: str, data: bytes) -> None:
        path = f"{folder}/tmp{next(self._names)}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(path, f"{folder}/{name}")  # noqa: PTH104  as bare as it gets


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def against_bare(folder: Path) -> list[Row]:
    """Return the rows of updates with and without the view."""
    plain, viewed = founded(folder / "plain", view=False), founded(folder / "viewed", view=True)
    for desk in (plain, viewed):
        desk.create("f-1")
        desk.make_folders()
    bare = Bare(folder / "bare")
    names = ("bare", "plain", "viewed")
    pending: list[tuple[dict[str, bytes], str]] = []

    def stored() -> float:
        pending[:] = [plain.last_objects()]
        return wall(lambda: bare.store(*pending[0]))

    cases = (stored, lambda: wall(plain.update), lambda: wall(viewed.update))
    found = interleaved(dict(zip(names, cases, strict=True)), rounds(150))
    loop, bound = "bare loop: write, fsync, rename", _SLOW_MS
    return [
        Row("durable update", loop, 1.6, found["plain"], found["bare"], judged_from=bound),
        Row("the same with the view", loop, 2.0, found["viewed"], found["bare"], judged_from=bound),
    ]


def in_memory(folder: Path) -> list[Row]:
    """Return the rows that leave the disk out: CPU of one update, and what it grows with."""
    one = founded(folder / "one", view=False)
    one.create("f-1")
    few, many = _with_flows(folder / "few", FEW_FLOWS), _with_flows(folder / "many", MANY_FLOWS)
    young = _with_commits(folder / "young", FEW_COMMITS)
    old = _with_commits(folder / "old", MANY_COMMITS)
    desks = {"one": one, "few": few, "many": many, "young": young, "old": old}
    cases = {name: partial(cpu, desk.update) for name, desk in desks.items()}
    found = interleaved(cases, rounds(150))
    return [
        Row("durable update on tmpfs, CPU", "", 3.0, found["one"], []),
        Row(f"{MANY_FLOWS:,} flows", f"{FEW_FLOWS} flows", 1.5, found["many"], found["few"]),
        Row(
            f"after {MANY_COMMITS:,} commits",
            f"after {FEW_COMMITS}",
            1.15,
            found["old"],
            found["young"],
        ),
    ]


def _with_flows(folder: Path, count: int) -> Desk:
    desk = founded(folder, view=False)
    desk.add_flows(count)
    return desk


def _with_commits(folder: Path, count: int) -> Desk:
    desk = founded(folder, view=False)
    desk.create("f-1")
    for _ in range(count):
        desk.update()
    return desk


@contextmanager
def _tmpfs(instead: Path) -> Iterator[Path]:
    """Give a folder in memory; the other one where this system has none."""
    if not _MEMORY.is_dir():
        yield instead
        return
    folder = Path(tempfile.mkdtemp(prefix="gfs-bench-", dir=_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    found_rows = against_bare(here)
    with _tmpfs(here) as there:
        found_rows += in_memory(there)
    send(found_rows)
