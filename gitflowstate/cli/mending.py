"""How doctor goes through its findings: each is told once, and mended under the lock if asked.

Rule: where the head was not mended, nothing else is: what is moved aside afterwards could be what
the head is found by.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitflowstate.cli import config
from gitflowstate.errors import GfsError
from gitflowstate.findings import HEAD_KINDS, Finding
from gitflowstate.locks import repository_lock


def row(found: Finding, fixed: str = "") -> dict[str, Any]:
    """Return a finding as it is told, and what was done about it."""
    told = found._asdict()
    return {name: told[name] for name in ("kind", "problem", "evidence", "next", "note")} | {
        "fixable": found.fix is not None,
        "fixed": fixed,
    }


class Mender:
    """One run over the findings of a repository; with `fix` they are mended."""

    def __init__(self, gitdir: Path, *, fix: bool) -> None:
        self._gitdir = gitdir
        self._fix = fix

    def rows(self, findings: Iterator[Finding]) -> Iterator[dict[str, Any]]:
        """Yield each finding, mended where that is asked for and can be."""
        for found in findings:
            yield self._mended(found) if self._fix and found.fix else row(found)

    def _mended(self, found: Finding) -> dict[str, Any]:
        assert found.fix is not None
        try:
            with repository_lock(self._gitdir, config.lock_timeout()):
                return row(found, found.fix())
        except (GfsError, OSError) as error:
            if found.kind in HEAD_KINDS:
                self._fix = False
            return row(found._replace(evidence=f"{found.evidence}; not mended: {error}"))
