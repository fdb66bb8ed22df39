"""What a disk may hold after a power cut, told from the system calls of a run (hazards A11, A12).

Rules of the model, which are the worst that file systems promise: what was written to a file is
lost unless it was synced since, whole or in part; of the names made, moved and removed in a folder
since it was last synced, any may be lost and any kept, whatever their order; a rename within one
folder is one of these; what was synced stays.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from gitrepo import intercepted

FOLDER = -1  # in place of the inode of a file
State = dict[str, tuple[int, bytes] | None]  # path to inode and content, None for a folder


class Change(NamedTuple):
    """Names that change together: path to inode, FOLDER, or None for a name that goes."""

    names: dict[str, int | None]


class Disk:
    """A folder that calls change, as it is in memory and as it is on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._inodes = itertools.count()
        self.written: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self.names: dict[str, int] = {}  # as every process sees them
        self.durable: dict[str, int] = {}
        self.pending: list[Change] = []
        self._open: dict[int, tuple[str, int, int]] = {}  # descriptor: path, inode, position
        for path in sorted(root.rglob("*")):
            self.names[str(path)] = FOLDER if path.is_dir() else self._made(path.read_bytes())
        self.durable.update(self.names)

    def _made(self, content: bytes) -> int:
        inode = next(self._inodes)
        self.written[inode] = self.synced[inode] = content
        return inode

    # ── the calls ───────────────────────────────────────────────────────────────────────────────

    def open(self, result: int, path: str, flags: int, *_: int) -> None:
        """See a file opened, and perhaps made."""
        path = str(path)
        if path not in self.names and flags & os.O_CREAT and path.startswith(str(self.root)):
            inode = self._made(b"")
            self._change({path: inode})
        inode = self.names.get(path, FOLDER)
        size = len(self.written[inode]) if flags & os.O_APPEND and inode != FOLDER else 0
        self._open[result] = path, inode, size

    def write(self, result: int, descriptor: int, data: bytes) -> None:
        """See bytes written."""
        path, inode, at = self._open[descriptor]
        old = self.written[inode]
        self.written[inode] = old[:at].ljust(at, b"\0") + bytes(data[:result]) + old[at + result :]
        self._open[descriptor] = path, inode, at + result

    def fsync(self, _result: None, descriptor: int) -> None:
        """See a file or a folder synced."""
        path, inode, _ = self._open[descriptor]
        if inode != FOLDER:
            self.synced[inode] = self.written[inode]
            return
        for change in [
            each
            for each in self.pending
            if path in (name.rpartition("/")[0] for name in each.names)
        ]:
            self.pending.remove(change)
            applied(self.durable, change)

    def rename(self, _result: None, old: str, new: str) -> None:
        """See a name moved."""
        self._change({old: None, new: self.names[old]})

    def link(self, _result: None, old: str, new: str) -> None:
        """See a second name given."""
        self._change({new: self.names[old]})

    def unlink(self, _result: None, path: str) -> None:
        """See a name removed."""
        self._change({path: None})

    def mkdir(self, _result: None, path: str, *_: int) -> None:
        """See a folder made."""
        self._change({path: FOLDER})

    def close(self, _result: None, descriptor: int) -> None:
        """See a descriptor closed."""
        self._open.pop(descriptor, None)

    def _change(self, names: dict[str, int | None]) -> None:
        change = Change(names)
        applied(self.names, change)
        self.pending.append(change)

    # ── what may be left ────────────────────────────────────────────────────────────────────────

    def states(self, chance: random.Random, most: int) -> Iterator[State]:
        """Yield what may be on the disk after a power cut now, the worst first."""
        dirty = [inode for inode in self.written if self.written[inode] != self.synced[inode]]
        bits = len(self.pending) + len(dirty)
        for mask in _masks(bits, chance, most):
            names, kept = dict(self.durable), mask >> len(self.pending)
            for number, change in enumerate(self.pending):
                if mask >> number & 1:
                    applied(names, change)
            whole = {inode for number, inode in enumerate(dirty) if kept >> number & 1}
            content = {
                inode: self.written[inode] if inode in whole else self._torn(inode, chance)
                for inode in dirty
            }
            yield self._state(names, self.synced | content)

    def _torn(self, inode: int, chance: random.Random) -> bytes:
        """Return what is left of bytes that were not synced: nothing, a part, or zeros."""
        old, new = self.synced[inode], self.written[inode]
        part = new[: len(old) + max(0, len(new) - len(old)) // 2]
        return chance.choice([old, old, part, old + b"\0" * (len(new) - len(old))])

    def _state(self, names: dict[str, int], content: dict[int, bytes]) -> State:
        root = str(self.root)
        found: State = {}
        for path in sorted(names):
            parent = path.rpartition("/")[0]
            if parent == root or parent in found:  # a folder that is lost takes all with it
                inode = names[path]
                found[path] = None if inode == FOLDER else (inode, content[inode])
        return {path.removeprefix(f"{root}/"): found[path] for path in found}


def applied(names: dict[str, int], change: Change) -> None:
    """Change names; of one that goes, whatever it is by now."""
    for path, inode in change.names.items():
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _masks(bits: int, chance: random.Random, most: int) -> list[int]:
    if 1 << bits <= most:
        return list(range(1 << bits))
    every = (1 << bits) - 1
    ones = [1 << number for number in range(bits)]
    picked = [0, every, *ones, *(every - one for one in ones)]
    return (picked + [chance.randrange(every) for _ in range(most)])[:most]


SEEN = ("open", "write", "fsync", "rename", "link", "unlink", "mkdir", "close")


def recorded(
    root: Path, work: Callable[[Disk], object], at: Callable[[Disk], object], *, syncs: bool = True
) -> None:
    """Run `work(disk)`, and look at the disk with `at(disk)` after every call that changes it.

    Without `syncs` the model is told of none: as if the program had made none.
    """
    disk = Disk(root)

    def act(
        _number: int, name: str, real: Callable[..., object], arguments: tuple[object, ...]
    ) -> object:
        result = real(*arguments)
        if name in SEEN and (syncs or name != "fsync"):
            getattr(disk, name)(result, *arguments)
            if name != "close":
                at(disk)
        return result

    with intercepted(act):
        work(disk)


def laid_out(state: State, folder: Path) -> None:
    """Write a state into a new folder."""
    folder.mkdir(parents=True)
    placed: dict[int, Path] = {}
    for name, file in state.items():
        path = folder / name
        if file is None:
            path.mkdir()
        elif file[0] in placed:
            path.hardlink_to(placed[file[0]])
        else:
            path.write_bytes(file[1])
            path.chmod(0o444 if name.startswith("objects/") else 0o644)
            placed[file[0]] = path
