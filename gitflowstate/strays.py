"""Loose files of a torn end that no readable folder names: found by when they were written.

Rule: they are only read; one too many is better than one too few.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from gitflowstate.errors import Corrupt
from gitflowstate.git import Oid, Repository
from gitflowstate.kinds import MAX_DOCUMENT
from gitflowstate.syscalls import calls, lstat_or_none, reported

_MOST = 1000  # of the newest
_FIRST, _REST = 2, 38  # digits of an id in the name of its folder, and of its file
_SLACK_S = 2.0  # a commit has whole seconds


def since(repo: Repository, moment: float) -> Iterator[tuple[Oid, bytes]]:
    """Yield the loose documents that were written since a moment (seconds since 1970)."""
    found: list[tuple[float, Oid]] = []
    top = f"{repo.gitdir}/objects"
    with reported("list", top):
        for first in (name for name in calls.listdir(top) if len(name) == _FIRST):
            for rest in calls.listdir(f"{top}/{first}"):
                info = lstat_or_none(os.path.join(top, first, rest))  # noqa: PTH118  text
                if info and len(rest) == _REST and info.st_mtime >= moment - _SLACK_S:
                    found.append((info.st_mtime, f"{first}{rest}"))
    for _, oid in sorted(found, reverse=True)[:_MOST]:
        with suppress(Corrupt):  # broken, large, or no file
            yield oid, repo.blob(oid, MAX_DOCUMENT)
