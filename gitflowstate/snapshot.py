"""Flows as they stand at one commit of main: what a watcher compares, while main may move on.

Rule: a flow that cannot be used is none to report; it is named, and told of once it is mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gitflowstate import documents, handmade, history
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt
from gitflowstate.git import CommitInfo, Oid, Repository
from gitflowstate.history import Changes
from gitflowstate.model import Fallen, Flow


class Snapshot:
    """The flows of a repository at one commit; `broken` collects those that cannot be used."""

    def __init__(self, repo: Repository, head: Oid) -> None:
        self.repo = repo
        self.head = head
        self.broken: list[str] = []

    @property
    def shallow(self) -> bool:
        """Tell whether history was cut, so that an unknown commit is nothing to wonder at."""
        return bool(self.repo.shallow)

    @cached_property
    def _commit(self) -> CommitInfo:
        return self.repo.commit(self.head)

    @cached_property
    def _fallen(self) -> dict[str, Fallen]:
        """Find what edits by hand left unusable; without history the head itself says it."""
        try:
            managed = handmade.base(self.repo, self.head)
        except Corrupt:
            managed = None
        if managed is None:
            return handmade.entries(self.repo, self._commit.tree)
        return handmade.fallen(self.repo, managed, self._commit)

    def is_behind(self, commit: Oid) -> bool:
        """Tell whether a commit was built on this one, as far as its history is here."""
        return commit != self.head and self.repo.is_within(self.head, commit)

    def changes(self, since: Oid | None) -> Changes:
        """Return the flows that changed after a commit, every flow where it is not known."""
        if since == self.head:
            return Changes([], known=True, commits=0)
        return history.changes(self.repo, self._commit, since)

    def flow(self, flow: str) -> Flow | None:
        """Return a flow, None where it is absent or cannot be used."""
        found = documents.flow_at(self.repo, self._commit.tree, flow)
        if flow in self._fallen or (
            found is None and documents.stands(self.repo, self._commit.tree, flow)
        ):
            self.broken.append(flow)
            return None
        return found[0] if found else None

    def flows(self) -> Iterator[Flow]:
        """Yield every flow that can be used, in the order of ids."""
        for item in documents.flows(self.repo, self._commit.tree, archived=True):
            if isinstance(item, Broken):
                self.broken.append(item.path.rsplit("/", 1)[-1].removesuffix(".json"))
            elif item.id in self._fallen:
                self.broken.append(item.id)
            else:
                yield item
