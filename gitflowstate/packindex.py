"""Which packs nobody can look into: their index is missing, or is not the one that Git wrote.

Rules: nothing is changed here; a pack that is being put in place, or taken away, by a repack of
others is none, so that what looks odd is looked at twice. One whose name is hidden is such a one,
or what a killed repack left: until it has its name, what is in it is stored elsewhere as well.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from gitflowstate.syscalls import READ_FLAGS, calls, lstat_or_none, reported

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUM = 20  # bytes of a checksum: an index ends with that of its pack, and with its own
_CHUNK = 1 << 20
_PAUSE_S = 0.1  # in which a pack that has its name gets its index


class Unindexed(NamedTuple):
    """A pack whose objects cannot be found, and why."""

    path: str
    why: str


def unindexed(folder: str) -> list[Unindexed]:
    """Return the packs in a folder that have no usable index. Raises what reading them raises."""
    first = {found.path for found in _looked(folder)}
    if not first:
        return []
    time.sleep(_PAUSE_S)
    return [found for found in _looked(folder) if found.path in first]


def without_pack(folder: str) -> list[str]:
    """Return the paths of the indexes in a folder whose pack is not there."""
    names = set(_names(folder))
    stems = (name.removesuffix(".idx") for name in sorted(names) if name.endswith(".idx"))
    lost = [f"{folder}/{stem}" for stem in stems if f"{stem}.pack" not in names]
    return [f"{stem}.idx" for stem in lost if not _is_there(f"{stem}.pack", f"{stem}.idx")]


def index_of(pack: str) -> str:
    """Return the path of the index of a pack."""
    return f"{pack.removesuffix('.pack')}.idx"


def checksum(path: str) -> tuple[bytes, bytes]:
    """Return the checksum of all but the last twenty bytes of a file, and its last forty."""
    total = hashlib.sha1(usedforsecurity=False)
    descriptor = calls.open(path, READ_FLAGS)
    try:
        size, at = calls.fstat(descriptor).st_size, 0
        while part := calls.pread(descriptor, min(_CHUNK, max(0, size - _SUM - at)), at):
            total.update(part)
            at += len(part)
        return total.digest(), calls.pread(descriptor, 2 * _SUM, max(0, size - 2 * _SUM))
    finally:
        calls.close(descriptor)


def _looked(folder: str) -> Iterator[Unindexed]:
    for name in _names(folder):
        if name.endswith(".pack"):
            path = f"{folder}/{name}"
            with reported("read", path):
                why = _flaw(path) if lstat_or_none(path) is not None else None
            if why is not None:
                yield Unindexed(path, why)


def _names(folder: str) -> list[str]:
    with reported("list", folder):
        try:
            return sorted(name for name in calls.listdir(folder) if not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []


def _is_there(pack: str, index: str) -> bool:
    """Tell whether a pack appeared meanwhile, or its index went as well."""
    return lstat_or_none(pack) is not None or lstat_or_none(index) is None


def _flaw(pack: str) -> str | None:
    """Return why the index of a pack is of no use, None where it is as Git wrote it."""
    index = index_of(pack)
    info = lstat_or_none(index)
    if info is None:
        return f"{os.path.basename(index)} is not there"  # noqa: PTH119  plain text paths
    if not stat.S_ISREG(info.st_mode):
        return f"{index} is not a regular file"
    try:
        digest, end = checksum(index)
        if len(end) < 2 * _SUM or digest != end[_SUM:]:
            return f"the checksum of {index} is wrong"
        packed, last = checksum(pack) if _tail(pack) != end[:_SUM] else (b"", b"")
    except FileNotFoundError:
        return f"{index} is not there"
    # A pack that is broken itself is another matter: what is whole in it is found and read.
    return f"{index} is that of another pack" if packed and packed == last[-_SUM:] else None


def _tail(path: str) -> bytes:
    descriptor = calls.open(path, READ_FLAGS)
    try:
        return calls.pread(descriptor, _SUM, max(0, calls.fstat(descriptor).st_size - _SUM))
    finally:
        calls.close(descriptor)
