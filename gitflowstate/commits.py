"""Git commits: reading anybody's, writing ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dulwich.objects import Commit, ObjectID

from gitflowstate.errors import Corrupt, Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gitflowstate.objects import Oid
    from gitflowstate.staging import Staged

COMMITTER = b"gitflowstate <gitflowstate@localhost>"
MAX_COMMIT_BYTES = 4 << 20
# Git's commit-graph keeps 34 bits; this is the year 2242, and fsck is content.
MAX_TIME = 1 << 33

_OID = re.compile(rb"[0-9a-f]{40}")
_TIME = re.compile(rb"> (-?[0-9]{1,18}) [^ ]*\Z")
_NOT_IN_A_NAME = re.compile(r"[\x00-\x1f\x7f<>]+")


class CommitInfo(NamedTuple):
    """What is read of a commit; `time` is the committer's, 0 where it does not parse."""

    oid: Oid
    tree: Oid
    parents: tuple[Oid, ...]
    message: bytes
    author: bytes
    time: int


def decode(oid: Oid, body: bytes) -> CommitInfo:
    """Return a commit; only its tree and parents must parse.

    dulwich's parser refuses commits that Git shows (a strange time zone, no e-mail address), and
    people's history must stay readable, so the few header lines are read here.
    """
    head, _, message = body.partition(b"\n\n")
    lines = head.split(b"\n")
    tree = _field(oid, lines, 0, b"tree ")
    parents: list[Oid] = []
    while len(lines) > len(parents) + 1 and lines[len(parents) + 1].startswith(b"parent "):
        parents.append(_field(oid, lines, len(parents) + 1, b"parent "))
    people = {line.partition(b" ")[0]: line for line in reversed(lines)}
    author = people.get(b"author", b"author ")[len(b"author ") :]
    time = _TIME.search(people.get(b"committer", b""))
    return CommitInfo(
        oid, tree, tuple(parents), message, _person(author), int(time[1]) if time else 0
    )


def _field(oid: Oid, lines: list[bytes], at: int, name: bytes) -> Oid:
    value = lines[at].removeprefix(name)
    if not lines[at].startswith(name) or not _OID.fullmatch(value):
        raise Corrupt(
            f"commit {oid} is corrupt: it does not decode", hint="Call a person.", oid=oid
        )
    return value.decode("ascii")


def _person(line: bytes) -> bytes:
    """Cut the time off an author line."""
    end = line.rfind(b">")
    return line[: end + 1] if end >= 0 else line


def encode(
    staged: Staged, parents: Sequence[Oid], message: bytes, author: str, time: int
) -> Staged:
    """Return the staged tree with a commit of it, all identities explicit and in UTC.

    `author` is an actor; `time` is in seconds since 1970 and is brought into the range that every
    Git reads. A NUL in the message is Invalid: fsck would refuse the commit.
    """
    if b"\0" in message:
        raise Invalid("a commit message cannot hold a NUL character", hint="Take it out.")
    name = _NOT_IN_A_NAME.sub(" ", author).strip() or "local"
    result = staged.copy()
    result.time = min(max(time, 0), MAX_TIME)
    result.parents = tuple(parents)
    commit = Commit()
    commit.tree = ObjectID(staged.tree.encode("ascii"))
    commit.parents = [ObjectID(parent.encode("ascii")) for parent in parents]
    commit.author = f"{name} <gfs@localhost>".encode("utf-8", "replace")
    commit.committer = COMMITTER
    commit.author_time = commit.commit_time = result.time
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = message
    result.commit = result.add("commit", commit.as_raw_string())
    return result
