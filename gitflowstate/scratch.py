"""A folder beside a target, for what is made and checked before the target appears.

Rules: whoever works in it holds a lock on it, which the programs that it starts hold too; so what
a killed one left is known to be nobody's, and the next one clears it away. Nothing is touched that
does not look, in every name, like such a folder of our own.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitflowstate.leftovers import age_s
from gitflowstate.syscalls import READ_FLAGS, calls, lstat_or_none, random_name

PREFIX = ".gfs-check-"
BUNDLE, COPY = "bundle", "copy.git"
_NAME = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_FRESH_S = 60  # between making a folder and locking it


@contextmanager
def beside(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield a new folder in a folder, and the descriptor that keeps it; it is gone afterwards."""
    sweep(folder)
    scratch = folder / random_name(PREFIX)
    calls.mkdir(str(scratch), 0o700)
    descriptor = -1
    try:
        descriptor = calls.open(str(scratch), READ_FLAGS)
        with suppress(OSError):  # without locks it is younger than what is swept
            calls.flock(descriptor, fcntl.LOCK_EX)
        yield scratch, descriptor
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if descriptor >= 0:
            calls.close(descriptor)


def sweep(folder: Path) -> list[Path]:
    """Remove what killed ones left in a folder; return what went. What cannot go stays."""
    with suppress(OSError):
        found = [folder / name for name in calls.listdir(str(folder)) if _NAME.fullmatch(name)]
        return [path for path in found if _swept(path)]
    return []


def _swept(path: Path) -> bool:
    with suppress(OSError):
        info = lstat_or_none(str(path))
        if info is None or not stat.S_ISDIR(info.st_mode) or age_s(info) < _FRESH_S:
            return False
        if info.st_uid != os.geteuid() or not _is_ours(path):
            return False
        descriptor = calls.open(str(path), READ_FLAGS)
        try:
            calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        finally:
            calls.close(descriptor)
        return True
    return False


def _is_ours(path: Path) -> bool:
    """Tell whether a folder holds nothing but what we put there."""
    return {*calls.listdir(str(path))} <= {BUNDLE, f"{BUNDLE}.lock", COPY}
