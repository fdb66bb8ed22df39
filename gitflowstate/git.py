"""One repository: its refs, commits, trees and files; the public face of everything Git.

Rules: nothing is written but objects and the one ref that is published; the index, the work tree,
hooks and the environment are never used; warnings are collected, never printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from gitflowstate import commits, layout, leftovers
from gitflowstate.commits import CommitInfo
from gitflowstate.errors import Corrupt
from gitflowstate.objects import Incoming, Objects, Oid
from gitflowstate.refs import Refs
from gitflowstate.staging import Staged, stage
from gitflowstate.swap import Reflog, Swap
from gitflowstate.trees import Change, Entry, Tree, Trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["CommitInfo", "Entry", "Oid", "Repository", "Staged"]

MAX_BLOB_BYTES = (4 << 20) + 1
# How far the search for our own commit goes when another writer built on it at once.
_LOOK_BACK = 10_000


class Repository:
    """An open repository. Close it, or use it as a context manager."""

    def __init__(self, found: layout.Layout, incoming: str | None = None) -> None:
        self.gitdir = Path(found.common)
        self.config = found.config
        self.shallow = found.shallow
        self.warnings: list[str] = []
        folder = f"{found.common}/objects"
        self._objects = (
            Incoming(folder, found.modes, incoming) if incoming else Objects(folder, found.modes)
        )
        self._trees = Trees(self._objects)
        self._refs = Refs(found.common)
        self._modes = found.modes

    @classmethod
    def open(
        cls, gitdir: Path, *, trust: frozenset[str] = frozenset(), writing: bool = False
    ) -> Repository:
        """Open a repository, the `.git` file of a worktree, or the folder that holds either.

        `trust` holds absolute paths of repositories whose foreign owner is accepted. NotFound,
        Denied (foreign owner) or Rejected (a feature we do not support; or, for `writing`, main
        is checked out).
        """
        return cls(layout.locate(str(gitdir), trust, writing=writing))

    @classmethod
    def receiving(
        cls, gitdir: Path, incoming: Path, *, trust: frozenset[str] = frozenset()
    ) -> Repository:
        """Open a repository with the objects of a push that is not accepted yet, to judge them."""
        return cls(layout.locate(str(gitdir), trust, writing=False), str(incoming))

    @classmethod
    def init(cls, gitdir: Path) -> Repository:
        """Make a durable repository without a work tree, all or nothing; open it.

        The parent folder must exist; Rejected if `gitdir` is there and not empty.
        """
        layout.make(str(gitdir))
        return cls.open(gitdir, writing=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every pack; the repository may still be used and closed again."""
        self._objects.close()

    # -- reading ------------------------------------------------------------------------------

    def ref(self, name: str) -> Oid | None:
        """Return the id a ref holds, None if there is no such ref; anything odd is Corrupt."""
        return self._refs.read(name)

    def refs(self, prefix: str) -> dict[str, Oid]:
        """Return what each ref below a prefix such as `refs/gfs` holds; anything odd is Corrupt."""
        found = ((name, self.ref(name)) for name in self._refs.names(prefix))
        return {name: oid for name, oid in found if oid is not None}

    def has(self, oid: Oid) -> bool:
        """Return whether an object is stored (its content is not checked)."""
        return self._objects.contains(oid)

    def kind(self, oid: Oid) -> str:
        """Return what an object is, such as `commit`; missing, broken or too large is Corrupt."""
        return self._objects.kind(oid, MAX_BLOB_BYTES)

    def commit(self, oid: Oid) -> CommitInfo:
        """Return a commit; missing or broken is Corrupt."""
        return commits.decode(oid, self._objects.read(oid, "commit", commits.MAX_COMMIT_BYTES))

    def tree(self, oid: Oid) -> Tree:
        """Return name to entry of a tree, which the caller must not change."""
        return self._trees.read(oid)

    def blob(self, oid: Oid, limit: int = MAX_BLOB_BYTES) -> bytes:
        """Return a file's content; more than `limit` bytes is Corrupt, before it is inflated."""
        return self._objects.read(oid, "blob", limit)

    def lookup(self, tree: Oid, path: str) -> Entry | None:
        """Return the file or folder at a path; a link or submodule on the way is Corrupt."""
        return self._trees.lookup(tree, path)

    def walk(self, tree: Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        """Yield path and entry of every file below a prefix, or of the file at it, in order.

        Links, submodules and folders that are too deep come with their mode: corrupt for us.
        """
        return self._trees.walk(tree, prefix)

    def diff(self, old: Oid | None, new: Oid, prefixes: Sequence[str]) -> Iterator[Change]:
        """Yield path, old and new entry of what differs below top-level names of two trees."""
        return self._trees.diff(old, new, prefixes)

    def lineage(self, oid: Oid, governed: Sequence[str]) -> Iterator[CommitInfo]:
        """Yield a commit and its first parents, newest first.

        At a merge whose governed top-level entries equal those of one parent, that parent is
        followed. Ends at a root and where the clone was cut (`shallow`).
        """
        while True:
            commit = self.commit(oid)
            yield commit
            if not commit.parents or commit.oid in self.shallow:
                return
            oid = self._followed(commit, governed)

    def _followed(self, commit: CommitInfo, governed: Sequence[str]) -> Oid:
        if len(commit.parents) > 1:
            own = self._governed(commit.tree, governed)
            for parent in commit.parents:
                if self._governed(self.commit(parent).tree, governed) == own:
                    return parent
        return commit.parents[0]

    def _governed(self, tree: Oid, names: Sequence[str]) -> list[Entry | None]:
        entries = self.tree(tree)
        return [entries.get(name) for name in names]

    # -- writing ------------------------------------------------------------------------------

    def stage(self, tree: Oid | None, changes: Mapping[str, bytes | None]) -> Staged:
        """Return a tree with the changes (path to content, None deletes); nothing is written."""
        return stage(self._trees.read, tree, changes)

    def commit_object(
        self, staged: Staged, parents: Sequence[Oid], message: bytes, author: str, time: int
    ) -> Staged:
        """Return the staged tree with a commit of it; nothing is written.

        `author` is an actor, `time` seconds since 1970, clamped to what every Git reads.
        """
        return commits.encode(staged, parents, message, author, time)

    def write(self, staged: Staged) -> None:
        """Store the staged objects durably; no ref moves."""
        self._objects.write(staged.objects)
        for oid, tree in staged.trees.items():
            self._trees.remember(oid, tree, 40 * len(tree))

    def set_aside(self, ref: str) -> bool:
        """Move the file of a ref that holds no commit id aside; return whether that was done.

        The caller holds the repository lock. What packed-refs says of the ref counts from then on.
        """
        try:
            self.ref(ref)
        except Corrupt:
            moved = leftovers.set_aside(str(self.gitdir), f"{self.gitdir}/{ref}")
            if moved:
                self.warnings.append(f"{ref} held no commit id; its file is now {moved}")
            return moved is not None
        return False

    def is_within(self, wanted: Oid, head: Oid, stop: Oid | None = None) -> bool:
        """Return whether a commit is the head or one of its ancestors, as far as they are here.

        What lies behind `stop` is not looked at.
        """
        return self._within(head, wanted, stop)

    def publish(self, ref: str, old: Oid | None, staged: Staged, log: str) -> bool:
        """Store the staged objects and move a ref from `old` to the commit, durably.

        Returns False if the race was lost. Uncertain if the ref is moved but may not survive a
        power cut; Unavailable, Denied or GfsError, naming the path, if it is not moved.
        """
        if not staged.commit:
            raise AssertionError("publish needs a commit")
        self.write(staged)
        return self.move(ref, old, staged.commit, log, staged.time)

    def move(self, ref: str, old: Oid | None, new: Oid, log: str, time: int) -> bool:
        """Move a ref from `old` to a commit that is stored, as `publish` does; `time` is seconds.

        Nothing asks whether `new` is built on `old`.
        """
        with Swap(self._refs, self._modes, ref, self._within) as swap:
            try:
                return swap.run(old, new, Reflog(log, time))
            finally:
                self.warnings += swap.warnings

    def begin_log(self, ref: str, value: Oid, log: str, time: int) -> None:
        """Begin the reflog of a ref that has none, with the value that it holds; seconds.

        It is what is left to know the ref by, should that be lost. What fails is a warning.
        """
        with Swap(self._refs, self._modes, ref, self._within) as swap:
            swap.begin_log(value, Reflog(log, time))
            self.warnings += swap.warnings

    def _within(self, head: Oid, wanted: Oid, stop: Oid | None) -> bool:
        """Return whether a commit is the head or one of its ancestors, not looking past `stop`."""
        seen = {head}
        queue = [head]
        for oid in queue:
            if oid == wanted:
                return True
            if oid == stop or oid in self.shallow or len(seen) > _LOOK_BACK:
                continue
            try:
                parents = self.commit(oid).parents
            except Corrupt:
                continue  # a hole in others' history says nothing about ours
            queue += [parent for parent in parents if parent not in seen]
            seen.update(parents)
        return False
