"""How doctor goes through its findings: each is told once, and mended under the lock if asked.

Rule: where the head was not mended, nothing else is: what is moved aside afterwards could be what
the head is found by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gitflowstate.cli import config
from gitflowstate.errors import GfsError
from gitflowstate.findings import HEAD_KINDS, Finding
from gitflowstate.locks import repository_lock

_OID = re.compile(r"\b[0-9a-f]{40}\b")
# An object that a ref names at once, and what is said of the same object from further away.
_CAUSES, _EFFECTS = {"torn-head", "damaged-head", "ref"}, {"damage", "cursor"}
_FIRST = "what comes first was not mended"


def row(found: Finding, fixed: str = "") -> dict[str, Any]:
    """Return a finding as it is told, and what was done about it."""
    told = found._asdict()
    return {name: told[name] for name in ("kind", "problem", "evidence", "next", "note")} | {
        "fixable": found.fix is not None,
        "fixed": fixed,
    }


def _is_told(found: Finding, told: list[Finding]) -> bool:
    """Tell whether a finding only repeats, or follows from, what was told before.

    One that can be mended is told in any case.
    """
    if found.fix is not None:
        return False
    if found.bare and any(found.problem in f"{each.problem} {each.evidence}" for each in told):
        return True
    if found.kind == "reach":  # whatever names the object says more
        oids = _OID.findall(found.evidence)
        said = [f"{each.problem} {each.evidence} {each.next}" for each in told]
        return any(oid[:12] in line for oid in oids for line in said) or bool(told and not oids)
    causes = (each.evidence for each in told if each.kind in _CAUSES)
    lost = {oid for evidence in causes for oid in _OID.findall(evidence)}
    return found.kind in _EFFECTS and not lost.isdisjoint(_OID.findall(found.problem))


class Mender:
    """One run over the findings of a repository; with `fix` they are mended."""

    def __init__(self, gitdir: Path, *, fix: bool) -> None:
        self._gitdir = gitdir
        self._fix = fix
        self._stopped = False
        self._open: list[Finding] = []  # what was told, and stands

    def rows(self, findings: Iterator[Finding]) -> Iterator[dict[str, Any]]:
        """Yield each finding, mended where that is asked for and can be."""
        for found in findings:
            if _is_told(found, self._open):
                continue
            told = self._mended(found) if self._fix and found.fix else row(found)
            if not found.note and not told["fixed"]:
                self._open.append(found)
            yield told

    def _mended(self, found: Finding) -> dict[str, Any]:
        assert found.fix is not None
        if self._stopped:
            return row(found._replace(evidence=f"{found.evidence}; left alone: {_FIRST}"))
        try:
            lock = repository_lock(self._gitdir, config.lock_timeout())
            with nullcontext() if found.free else lock:
                return row(found, found.fix())
        except (GfsError, OSError) as error:
            self._stopped = found.kind in HEAD_KINDS
            return row(found._replace(evidence=f"{found.evidence}; not mended: {error}"))
