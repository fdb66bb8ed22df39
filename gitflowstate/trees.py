"""Git trees as values: parsing, looking up, walking and comparing them.

Rules: a cached tree is shared, so nobody changes one; entry names are as stored, and whoever uses
one as a file path checks it first.
"""

from __future__ import annotations

import stat
from binascii import unhexlify
from typing import TYPE_CHECKING, NamedTuple

from dulwich.objects import parse_tree

from gitflowstate.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gitflowstate.objects import Objects, Oid

FILE = 0o100644
EXECUTABLE = 0o100755
FOLDER = 0o040000
MAX_DEPTH = 16  # folders below the root; ours use three
MAX_ENTRIES = 1_000_000  # of one walk: a few small objects can unfold to billions of paths
MAX_TREE_BYTES = 8 << 20
_CACHE_BYTES = 8 << 20
NOT_OURS = "Call a person: the tree was not made by gitflowstate."


class Entry(NamedTuple):
    """A name's mode and object id in a tree."""

    mode: int
    oid: Oid


Tree = dict[str, Entry]
Change = tuple[str, Entry | None, Entry | None]


def is_file(entry: Entry) -> bool:
    """Return whether an entry is an ordinary file, and not a link, folder or submodule."""
    return stat.S_ISREG(entry.mode)


def is_folder(entry: Entry | None) -> bool:
    """Return whether an entry is a folder."""
    return entry is not None and stat.S_ISDIR(entry.mode)


def encode(tree: Mapping[str, Entry]) -> bytes:
    """Return the body of a tree object, in Git's own order: a folder as if it ended in a slash.

    By hand, since it is most of what a commit costs beside many flows: dulwich takes four times
    as long, and the tests compare with what it gives.
    """
    rows = []
    for name, (mode, oid) in tree.items():
        raw = name.encode("utf-8", "surrogateescape")
        row = b"%o %s\0%s" % (mode, raw, unhexlify(oid))
        rows.append((raw + b"/" if stat.S_ISDIR(mode) else raw, row))
    rows.sort()
    return b"".join([row for _, row in rows])


def decode(oid: Oid, body: bytes) -> Tree:
    """Return the entries of a tree object; a name twice, empty or with a slash is Corrupt."""
    entries: list[tuple[str, Entry]] = []
    try:
        for raw, mode, child in parse_tree(body, 20):
            name = raw.decode("utf-8", "surrogateescape")
            entries.append((name, Entry(mode, child.decode("ascii"))))
    except Exception as error:  # dulwich's two parsers raise different kinds
        raise Corrupt(
            f"tree {oid} is corrupt: it does not decode", hint=NOT_OURS, oid=oid
        ) from error
    tree = dict(entries)
    if len(tree) < len(entries) or any(not name or "/" in name for name in tree):
        raise Corrupt(f"tree {oid} holds a name twice or a bad one", hint=NOT_OURS, oid=oid)
    return tree


def _check_count(count: int, path: str) -> None:
    if count > MAX_ENTRIES:
        raise Corrupt(f"{path} unfolds to too many paths", hint=NOT_OURS, path=path)


class Trees:
    """Read trees by id, keeping the last few: they are immutable, so a copy is never stale."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._cache: dict[Oid, tuple[Tree, int]] = {}
        self._bytes = 0

    def read(self, oid: Oid) -> Tree:
        """Return a tree, which the caller must not change."""
        if (known := self._cache.get(oid)) is not None:
            return known[0]
        body = self._objects.read(oid, "tree", MAX_TREE_BYTES)
        return self.remember(oid, decode(oid, body), len(body))

    def remember(self, oid: Oid, tree: Tree, size: int) -> Tree:
        """Keep a tree that is known to be stored."""
        if oid not in self._cache:
            self._bytes += size
            self._cache[oid] = tree, size
        while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
            oldest = next(iter(self._cache))
            self._bytes -= self._cache.pop(oldest)[1]
        return tree

    def lookup(self, tree: Oid, path: str) -> Entry | None:
        """Return the file or folder at a path; a link or submodule on the way is Corrupt."""
        entry = Entry(FOLDER, tree)
        for name in path.split("/"):
            if not is_folder(entry):
                return None
            found = self.read(entry.oid).get(name)
            if found is None:
                return None
            if not (is_folder(found) or is_file(found)):
                raise Corrupt(f"{name} in {path} is a link or submodule", hint=NOT_OURS, path=path)
            entry = found
        return entry

    def walk(self, tree: Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        """Yield every path below a prefix (or the file there) that is no folder, in order.

        Links and submodules are yielded with their mode, and so is a folder that is too deep:
        the caller lists them as corrupt and goes on.
        """
        top = self.lookup(tree, prefix) if prefix else Entry(FOLDER, tree)
        if top is not None:
            yield from self._below(prefix, top)

    def _below(self, path: str, entry: Entry) -> Iterator[tuple[str, Entry]]:
        stack = [(path, entry)]
        count = 0
        while stack:
            here, found = stack.pop()
            count += 1
            _check_count(count, path)
            if not is_folder(found) or here.count("/") >= MAX_DEPTH:
                yield here, found
                continue
            start = f"{here}/" if here else ""
            children = self.read(found.oid)
            stack.extend((start + name, children[name]) for name in sorted(children, reverse=True))

    def diff(self, old: Oid | None, new: Oid, prefixes: Sequence[str]) -> Iterator[Change]:
        """Yield the paths below top-level names that differ, with both entries.

        Equal subtrees are never opened, so the cost is local to the change.
        """
        before = self.read(old) if old else {}
        after = self.read(new)
        for name in prefixes:
            yield from self._changes(name, before.get(name), after.get(name))

    def _changes(self, path: str, old: Entry | None, new: Entry | None) -> Iterator[Change]:
        stack = [(path, old, new)]
        count = 0
        while stack:
            here, before, after = stack.pop()
            count += 1
            _check_count(count, path)
            if before == after:
                continue
            deep = here.count("/") >= MAX_DEPTH
            left = self.read(before.oid) if before and is_folder(before) and not deep else None
            right = self.read(after.oid) if after and is_folder(after) and not deep else None
            if left is None and right is None:
                yield here, before, after
                continue
            if left is None and before:
                yield here, before, None
            if right is None and after:
                yield here, None, after
            left, right = left or {}, right or {}
            names = sorted(left.keys() | right.keys(), reverse=True)
            stack.extend((f"{here}/{name}", left.get(name), right.get(name)) for name in names)
