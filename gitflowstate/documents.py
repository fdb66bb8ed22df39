"""Governed documents as they stand at one commit: read, decoded, and named when they are broken.

Rules: bytes that do not decode are reported with commit and path and are left alone; one bad
document makes that one unusable and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitflowstate import codec
from gitflowstate.errors import Corrupt, GfsError, Invalid
from gitflowstate.git import Repository
from gitflowstate.kinds import MAX_DOCUMENT
from gitflowstate.machine import State
from gitflowstate.model import Flow, Value, archive_path, flow_path

_MEMO = 256
_memo: dict[tuple[str, str], Value] = {}


class Broken(NamedTuple):
    """A document that cannot be used, and why."""

    path: str
    error: GfsError


def blob_at(repo: Repository, tree: str, path: str) -> bytes | None:
    """Return the stored bytes at a path, or None. Raises Corrupt for an unreadable object."""
    entry = repo.lookup(tree, path)
    return None if entry is None else repo.blob(entry.oid, MAX_DOCUMENT + 1)


def read(repo: Repository, tree: str, path: str) -> Value | None:
    """Return the document at a path of a tree, or None where there is none. Raises Corrupt."""
    entry = repo.lookup(tree, path)
    if entry is None:
        return None
    return decode(repo, path, entry.oid)


def decode(repo: Repository, path: str, oid: str) -> Value:
    """Return the document of a blob; a memo by content saves decoding it again.

    Raises Corrupt with the path, the object and the first violation.
    """
    found = _memo.get((path, oid))
    if found is None:
        data = repo.blob(oid, MAX_DOCUMENT + 1)
        try:
            found = codec.decode_at(path, data)
        except Invalid as error:
            raise Corrupt(
                f"{path} does not decode: {error.message}; its bytes are kept in object {oid}",
                hint="ask a person to revert the commit that changed it",
                path=path,
                object=oid,
                violations=error.details.get("violations", []),
            ) from None
        remember(path, oid, found)
    return found


def remember(path: str, oid: str, value: Value) -> None:
    """Keep the value of a blob, so that a later read does not decode it again."""
    if len(_memo) >= _MEMO:
        _memo.clear()
    _memo[path, oid] = value


def load(repo: Repository, tree: str | None, paths: Iterable[str]) -> State:
    """Return the documents at the paths of a tree; absent ones are None."""
    return {path: read(repo, tree, path) if tree else None for path in paths}


def flow_at(repo: Repository, tree: str, flow: str) -> tuple[Flow, str] | None:
    """Return a flow and the digest of its bytes; None where it is absent or does not decode."""
    for path in (flow_path(flow), archive_path(flow)):
        entry = repo.lookup(tree, path)
        if entry is None:
            continue
        try:
            value = decode(repo, path, entry.oid)
        except Corrupt:
            return None
        assert isinstance(value, Flow)
        return value, codec.digest(repo.blob(entry.oid, MAX_DOCUMENT + 1))
    return None


def flow_ids(repo: Repository, tree: str, *, archived: bool) -> list[str]:
    """Return the ids of the flows that a tree keeps, in order."""
    folders = ("flows", "archive") if archived else ("flows",)
    return sorted({name for folder in folders for name, _ in _listed(repo, tree, folder)})


def flows(repo: Repository, tree: str, *, archived: bool) -> Iterator[Flow | Broken]:
    """Yield every flow of a tree in the order of ids, broken ones by name."""
    folders = ("flows", "archive") if archived else ("flows",)
    found = [item for folder in folders for item in _listed(repo, tree, folder)]
    for _, (path, oid) in sorted(found):
        try:
            value = decode(repo, path, oid)
            assert isinstance(value, Flow)
            yield value
        except Corrupt as error:
            yield Broken(path, error)


def _listed(repo: Repository, tree: str, folder: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for path, entry in repo.walk(tree, folder):
        name = path.rsplit("/", 1)[-1].removesuffix(".json")
        yield name, (path, entry.oid)
