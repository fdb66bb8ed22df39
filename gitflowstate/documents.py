"""Governed documents as they stand at one commit: read, decoded, and named when they are broken.

Rules: bytes that do not decode are reported with commit and path and are left alone; one bad
document makes that one unusable and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from gitflowstate import codec, machine
from gitflowstate.errors import Corrupt, GfsError, Invalid
from gitflowstate.git import Entry, Repository
from gitflowstate.governed import CLASSES
from gitflowstate.kinds import KINDS, MAX_DOCUMENT
from gitflowstate.machine import State
from gitflowstate.model import Flow, Value, archive_path, flow_path, live
from gitflowstate.trees import EXECUTABLE, FILE, FOLDER, is_folder

FLOW_FOLDERS = ("flows", "archive")
Classes = Mapping[str, type[Value]]  # by top-level name

_REVERT = "ask a person to revert the commit that changed it"
_MODES = {
    EXECUTABLE: "an executable",
    FOLDER: "a folder",
    0o120000: "a symbolic link",
    0o160000: "a submodule",
}
_MEMO = 256  # documents
_MEMO_BYTES = 4 << 20  # as they are stored; in memory they take several times that


class _Memo(dict[tuple[str, str], Value]):
    """Documents by path and blob: content has one id, so none is stale. Full, it begins anew."""

    room = _MEMO_BYTES

    def keep(self, path: str, oid: str, value: Value, size: int) -> None:
        if len(self) >= _MEMO or size > self.room:
            self.clear()
            self.room = _MEMO_BYTES
        self.room -= size
        self[path, oid] = value


_memo = _Memo()


class Broken(NamedTuple):
    """A document that cannot be used, and why."""

    path: str
    error: GfsError

    @property
    def said(self) -> str:
        """What is wrong with it; the path stands before what does not name it already."""
        message = self.error.message
        return message if self.path in message else f"{self.path}: {message}"


def blob_at(repo: Repository, tree: str, path: str) -> bytes | None:
    """Return the stored bytes at a path, or None. Raises Corrupt for an unreadable object."""
    entry = repo.lookup(tree, path)
    return None if entry is None else repo.blob(entry.oid, MAX_DOCUMENT + 1)


def read(repo: Repository, tree: str, path: str, classes: Classes = CLASSES) -> Value | None:
    """Return the document at a path of a tree, or None where there is none. Raises Corrupt."""
    entry = repo.lookup(tree, path)
    return None if entry is None else decode(repo, path, entry, classes)


def decode(repo: Repository, path: str, entry: Entry, classes: Classes = CLASSES) -> Value:
    """Return the document of a blob; a memo by content saves decoding it again.

    Raises Corrupt with the path, the object and the first violation; or, without looking at the
    content, for anything but an ordinary file.
    """
    mode, oid = entry
    if mode != FILE:
        kind = _MODES.get(mode, f"of mode {mode:o}")
        raise Corrupt(f"{path} is {kind}, not an ordinary file", hint=_REVERT, path=path)
    found = _memo.get((path, oid))
    if found is None:
        data = _content(repo, path, oid)
        try:
            found = codec.decode_at(path, data, classes)
        except Invalid as error:
            raise Corrupt(
                f"{path} does not decode: {error.message}; its bytes are kept in object {oid}",
                hint=_REVERT,
                path=path,
                object=oid,
                violations=error.details.get("violations", []),
            ) from None
        _memo.keep(path, oid, found, len(data))
    return found


def _content(repo: Repository, path: str, oid: str) -> bytes:
    try:
        return repo.blob(oid, MAX_DOCUMENT + 1)
    except Corrupt as error:
        about = {**error.details, "path": path}
        raise Corrupt(f"{path}: {error.message}", hint=error.hint, **about) from None


def remember(path: str, oid: str, value: Value) -> None:
    """Keep the value whose bytes are those of a blob, so that a later read does not decode it."""
    _memo.keep(path, oid, value, len(codec.encode(value)))


def load(
    repo: Repository, tree: str | None, paths: Iterable[str], classes: Classes = CLASSES
) -> State:
    """Return the documents at the paths of a tree; absent ones are None."""
    return {path: read(repo, tree, path, classes) if tree else None for path in paths}


def salvage(repo: Repository, tree: str | None, paths: Iterable[str], classes: Classes) -> State:
    """Return the documents at the paths of a tree; those that cannot be read are None as well."""
    found: dict[str, Value | None] = {}
    for path in paths:
        with suppress(Corrupt):
            found[path] = read(repo, tree, path, classes) if tree else None
    return {path: found.get(path) for path in paths}


def flow_at(repo: Repository, tree: str, flow: str) -> tuple[Flow, str] | None:
    """Return a flow and the digest of its bytes, where one document can be read and no more.

    None where it is absent, does not decode, or stands in both folders.
    """
    try:
        stands = [(path, repo.lookup(tree, path)) for path in machine.places(flow)]
        found = [(path, entry) for path, entry in stands if entry is not None]
        if len(found) != 1:
            return None
        path, entry = found[0]
        value = decode(repo, path, entry)
        data = repo.blob(entry.oid, MAX_DOCUMENT + 1)
    except Corrupt:
        return None
    assert isinstance(value, Flow)
    return value, codec.digest(data)


def stands(repo: Repository, tree: str, flow: str) -> bool:
    """Tell whether something stands where a flow is kept, or in the way there, usable or not."""
    try:
        return any(repo.lookup(tree, path) for path in machine.places(flow))
    except Corrupt:
        return True


def id_at(path: str) -> str | None:
    """Return the id of the flow that belongs at a path, or None where none does."""
    name = path.rsplit("/", 1)[-1].removesuffix(".json")
    return name if KINDS["Id"].accepts(name) and path in machine.places(name) else None


def flow_ids(repo: Repository, tree: str, *, archived: bool) -> list[str]:
    """Return the ids of the flows that a tree keeps, usable or not, in order."""
    listed = _listed(repo, tree, archived=archived)
    return sorted({flow for _, path, _ in listed if (flow := id_at(path)) is not None})


def flows(repo: Repository, tree: str, *, archived: bool) -> Iterator[Flow | Broken]:
    """Yield every flow of a tree in the order of ids, and what else stands there by its path."""
    for _, path, entry in sorted(_listed(repo, tree, archived=archived)):
        try:
            value = decode(repo, path, entry)
            assert isinstance(value, Flow)
            _check_single(repo, tree, value)
            yield value
        except Corrupt as error:
            yield Broken(path, error)


def _check_single(repo: Repository, tree: str, flow: Flow) -> None:
    """Refuse a flow that stands in both folders. Raises Corrupt."""
    other = archive_path(flow.id) if live(flow) else flow_path(flow.id)
    if repo.lookup(tree, other) is not None:
        machine.find(flow.id, load(repo, tree, machine.places(flow.id)))


def _listed(repo: Repository, tree: str, *, archived: bool) -> Iterator[tuple[str, str, Entry]]:
    """Yield name, path and entry of all that stands in the folders of flows."""
    for folder in FLOW_FOLDERS if archived else FLOW_FOLDERS[:1]:
        top = repo.tree(tree).get(folder)
        if top is None:
            continue
        found = repo.walk(tree, folder) if is_folder(top) else [(folder, top)]
        for path, entry in found:
            yield path.rsplit("/", 1)[-1].removesuffix(".json"), path, entry
