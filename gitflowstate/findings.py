"""What an examination finds: a problem, its evidence, and a safe next step.

Rules: looking changes nothing; a finding that can be mended without losing anything carries how; no
next step takes anything away or goes round a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gitflowstate.errors import GfsError

# What keeps the head from being read: while one of these is open, nothing else is moved.
HEAD_KINDS = frozenset({"torn-head", "damaged-head", "pack-index"})
FROM_A_CLONE = "fetch the object from a clone or a backup that has it; a person should look"


class Finding(NamedTuple):
    """One thing that is wrong, or, as a `note`, one that is only worth knowing.

    `fix` mends it and returns what it did, under the lock of the repository; `free` is for what
    keeps that lock from being taken. A `bare` one is no more than an error that ended a part of
    the examination: it says nothing where another says as much.
    """

    kind: str
    problem: str
    evidence: str
    next: str
    note: bool = False
    fix: Callable[[], str] | None = None
    free: bool = False
    bare: bool = False


def of(kind: str, error: GfsError) -> Finding:
    """Return the finding that an error is."""
    return Finding(kind, error.message, error.name, error.hint, bare=True)


def guarded(kind: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield findings; an error on the way is the last of them."""
    try:
        yield from findings()
    except GfsError as error:
        yield of(kind, error)
