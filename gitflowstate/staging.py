"""Changes staged as new objects in memory: blobs, the trees above them, and a commit.

Rules: staging writes nothing; what is not named in a change keeps its exact bytes; empty folders
vanish, as Git has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitflowstate.errors import Corrupt, Rejected
from gitflowstate.objects import header, object_id
from gitflowstate.trees import FILE, FOLDER, MAX_DEPTH, NOT_OURS, Entry, encode, is_file, is_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gitflowstate.objects import Oid
    from gitflowstate.trees import Tree


class Staged:
    """A new tree, and perhaps a commit of it, with every object they need; nothing is written."""

    __slots__ = ("commit", "objects", "parents", "time", "tree", "trees")

    def __init__(self) -> None:
        self.tree: Oid = ""
        self.commit: Oid = ""
        self.parents: tuple[Oid, ...] = ()
        self.time = 0
        self.objects: dict[Oid, bytes] = {}
        self.trees: dict[Oid, Tree] = {}

    @property
    def parent(self) -> Oid | None:
        """The first parent: the value that a ref must still have when this is published."""
        return self.parents[0] if self.parents else None

    def add(self, kind: str, body: bytes) -> Oid:
        """Take in an object; return its id."""
        oid = object_id(kind, body)
        self.objects[oid] = header(kind, body) + body
        return oid

    def copy(self) -> Staged:
        """Return an equal value that may be added to."""
        other = Staged()
        other.tree, other.time, other.parents = self.tree, self.time, self.parents
        other.objects, other.trees = dict(self.objects), self.trees
        return other


_Nested = dict[str, "bytes | _Nested | None"]


def stage(
    read: Callable[[Oid], Tree], tree: Oid | None, changes: Mapping[str, bytes | None]
) -> Staged:
    """Apply changes (path to new content, None to delete) to a tree; empty folders vanish.

    Content that is already there is staged all the same, so that a broken copy heals.
    """
    staged = Staged()
    nested: _Nested = {}
    for path, content in changes.items():
        _nest(nested, path, content)
    staged.tree = _rewrite(read, staged, "", Entry(FOLDER, tree) if tree else None, nested) or ""
    if not staged.tree:
        staged.tree = staged.add("tree", b"")
        staged.trees[staged.tree] = {}
    return staged


def _nest(nested: _Nested, path: str, content: bytes | None) -> None:
    *folders, last = path.split("/")
    if len(folders) > MAX_DEPTH or any(map(_is_bad_name, (*folders, last))):
        raise Rejected(f"{path!r} is no path for a repository", hint="Use plain names.")
    here = nested
    for name in folders:
        below = here.setdefault(name, {})
        if not isinstance(below, dict):
            raise Rejected(f"{path!r} is below a file", hint="Use plain names.")
        here = below
    if isinstance(here.get(last), dict):
        raise Rejected(f"{path!r} is a folder", hint="Use plain names.")
    here[last] = content


def _is_bad_name(name: str) -> bool:
    """Return whether Git, or a file system it is checked out on, would misread a name."""
    plain = name.casefold().rstrip(". ")
    return plain in {"", ".git", "git~1"} or any(ord(c) < 32 or c in "\\\x7f:" for c in name)  # noqa: PLR2004  control characters


def _rewrite(
    read: Callable[[Oid], Tree], staged: Staged, path: str, old: Entry | None, changes: _Nested
) -> Oid | None:
    """Return the id of the folder after the changes, None if nothing is left in it."""
    if old is not None and not is_folder(old):
        raise Corrupt(f"{path} is not a folder", hint=NOT_OURS, path=path)
    before = read(old.oid) if old else {}
    after = dict(before)
    for name, change in changes.items():
        where = f"{path}/{name}" if path else name
        entry = before.get(name)
        if isinstance(change, dict):
            oid = _rewrite(read, staged, where, entry, change)
            mode = FOLDER
        else:
            if entry is not None and not is_file(entry):
                raise Corrupt(f"{where} is not a file", hint=NOT_OURS, path=where)
            oid = None if change is None else staged.add("blob", change)
            mode = FILE
        if oid is None:
            after.pop(name, None)
        else:
            after[name] = Entry(mode, oid)
    if old is not None and after == before:
        return old.oid
    if not after:
        return None
    oid = staged.add("tree", encode(after))
    staged.trees[oid] = after
    return oid
