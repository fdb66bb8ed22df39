"""Upkeep by the way: a process that stays packs the repository while it has nothing else to do.

Rules: only where many loose objects lie about, only in a repository that gfs made, never while
anybody else holds its lock, and at most once an hour, whatever became of it. What goes wrong is a
warning, and no reason for the process to end.
"""

from __future__ import annotations

import time

from gitflowstate import upkeep
from gitflowstate.cli import config, output
from gitflowstate.errors import GfsError, Unavailable
from gitflowstate.git import Repository
from gitflowstate.location import Location

_PAUSE_S = 3600.0


class Idle:
    """What one process does while it is idle: call it then."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._next = time.monotonic()

    def __call__(self) -> None:
        """Pack the repository if it is time; say so on one line of standard error."""
        try:
            if not self._is_time():
                return
            self._pack()
        except GfsError as error:
            if isinstance(error, Unavailable) and "stopped" not in error.details:
                return  # somebody is at work there: another time
            output.warn(f"the repository was not packed: {error.message}")
        self._next = time.monotonic() + _PAUSE_S

    def _is_time(self) -> bool:
        place = self._place
        return place.writable and time.monotonic() >= self._next and upkeep.is_due(place.gitdir)

    def _pack(self) -> None:
        gitdir = self._place.gitdir
        with Repository.open(gitdir, trust=config.trust(), writing=True) as repo:
            done = upkeep.run(repo, config.environment(), timeout=0)
        for warning in done.warnings:
            output.warn(warning)
        output.aside(
            f"packed the repository while idle: {done.before.loose:,} loose objects before, "
            f"{done.after.loose:,} now"
        )
