"""Where the ref of a store is read and moved: the interface, and the repository itself.

Rule: whoever moves a ref decides every race about it; a store only applies its op again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gitflowstate.git import Oid, Repository, Staged


class Refs(Protocol):
    """Where a ref is read and moved: the repository itself, or its origin."""

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref names, which can be read; None where there is none."""

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects and move the ref; False if the race was lost."""

    def alone(self, timeout: float) -> AbstractContextManager[object]:
        """Keep other writers of this repository out for as long as one op takes.

        Raises Unavailable after `timeout` seconds.
        """

    def renewed(self, name: str) -> bool:
        """Tell whether a ref is another once it was asked for where it is decided.

        What was worked out from the old value, a refusal above all, is then worked out again.
        """

    def version(self, name: str) -> Oid | None:
        """Return what changes when anything does, cheaply; it may lag behind by seconds."""


class Local:
    """The refs of the repository itself, where a value that was read is as new as can be."""

    def __init__(self, repo: Repository) -> None:
        self.repo = repo

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref names; None where there is none."""
        return self.repo.ref(name)

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects and move the ref; False if the race was lost."""
        return self.repo.publish(ref, old, staged, log)

    def alone(self, timeout: float) -> AbstractContextManager[object]:
        """Take the lock of the repository."""
        from gitflowstate.locks import repository_lock  # noqa: PLC0415  start-up: readers lock nothing

        return repository_lock(self.repo.gitdir, timeout)

    def renewed(self, name: str) -> bool:
        """Tell that nothing is newer: the swap itself finds out what moved meanwhile."""
        del name
        return False

    def version(self, name: str) -> Oid | None:
        """Return the commit that a ref names."""
        return self.repo.ref(name)


class Chain(Local):
    """Main as it grows on the head of the remote, in objects alone, until all of it is pushed."""

    def __init__(self, repo: Repository, head: Oid) -> None:
        super().__init__(repo)
        self.head = head

    def ref(self, name: str) -> Oid | None:
        """Return the newest commit."""
        del name
        return self.head

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects; no ref moves."""
        del ref, log
        assert old == self.head
        self.repo.write(staged)
        self.head = staged.commit
        return True

    def alone(self, timeout: float) -> AbstractContextManager[object]:
        """Keep nobody out: whoever has this holds the lock."""
        del timeout
        return nullcontext()
