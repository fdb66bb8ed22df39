"""A ref that lives at the origin of a clone: read there, and moved there by compare-and-swap.

Rules: objects are written into this repository alone, and no ref of it is ever touched. What a push
answered is believed only once the ref was read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

from gitflowstate.delivery import Unknown
from gitflowstate.errors import Denied, Unavailable
from gitflowstate.git import Oid, Repository, Staged
from gitflowstate.ports import Remote

_ATTEMPTS = 10


class SharedRefs:
    """The refs at an origin, for a store that keeps its objects here."""

    def __init__(
        self, repo: Repository, remote: Remote, known: Mapping[str, Oid | None] | None = None
    ) -> None:
        self.repo = repo
        self.remote = remote
        self._known = dict(known or {})

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref names, once it is here; None where there is none.

        It is asked for once, and again after a race was lost. Raises Unavailable.
        """
        for _ in range(_ATTEMPTS):
            if name not in self._known:
                self._known[name] = self.remote.refs(name).get(name)
            oid = self._known[name]
            if oid is None or self.repo.has(oid):
                return oid
            self.remote.fetch(name, shallow=True)
            if not self.repo.has(oid):
                del self._known[name]  # it moved on between the look and the fetch
        raise Unavailable(f"{name} moves too often at the origin", hint="run it again")

    def ask(self, names: Iterable[str]) -> None:
        """Ask for many refs at once, so that none is asked for by itself. Raises Unavailable."""
        wanted = [name for name in names if name not in self._known]
        found = self.remote.refs(*wanted) if wanted else {}
        self._known |= {name: found.get(name) for name in wanted}

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects here and move the ref at the origin; False if a race was lost.

        Raises Denied where the origin refuses, Unavailable where it cannot be reached.
        """
        del log  # the origin keeps its own
        self.repo.write(staged)
        refusal: str | None = None
        with suppress(Unknown):
            refusal = self.remote.push(ref, old, staged.commit)
        self._known.pop(ref, None)
        there = self.ref(ref)
        if there == staged.commit:
            return True
        if there == old:
            raise _refused(ref, refusal)
        return there is not None and self.repo.is_within(staged.commit, there)

    def alone(self, timeout: float) -> AbstractContextManager[object]:
        """Keep nobody out: at an origin the swap decides."""
        del timeout
        return nullcontext()

    def renewed(self, name: str) -> bool:
        """Tell that nothing is newer: a pass works with what it saw when it began."""
        del name
        return False

    def version(self, name: str) -> Oid | None:
        """Return the commit that a ref names."""
        return self.ref(name)


def _refused(ref: str, refusal: str | None) -> Denied | Unavailable:
    if refusal:
        return Denied(
            f"the origin refuses to move {ref}: {refusal}",
            hint="a rule or a hook there decides: ask who keeps it",
        )
    return Unavailable(f"the origin did not move {ref}", hint="run the same command again")
