"""Why a command of C git stopped, as one of our errors: no room, no access, a lock, or damage.

Rules: Git tells it in words alone, and the system's own words outrank Git's: a full disk is no
damage. What Git calls damage is looked at once more, since a file that may not be read is corrupt
to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gitflowstate.cgit import Ended, Git, plain
from gitflowstate.errors import Corrupt, Denied, GfsError, Unavailable

_NO_ROOM = re.compile(r"No space left|quota exceeded|Out of diskspace", re.IGNORECASE)
_CLOSED = re.compile(
    r"insufficient permission|Permission denied|Read-only file system|Operation not permitted"
    r"|dubious ownership",
    re.IGNORECASE,
)
_LOCKED = re.compile(r"\.lock': File exists|cannot lock ref", re.IGNORECASE)
_PASSING = re.compile(
    r"Too many open files|Cannot allocate memory|out of memory|Resource temporarily unavailable"
    r"|Stale file handle|died of signal",
    re.IGNORECASE,
)
# Git does not always say why; mostly it is a full disk.
_WRITE = re.compile(
    r"(?:could ?n[o']t|unable to|cannot|failed to) write|write error", re.IGNORECASE
)
_DISK = re.compile(r"Input/output error", re.IGNORECASE)
_AGAIN = "run the same command again"
_WAIT = (
    "another git is at work there, or died there: run the same command again; if it says the same, "
    "ask who keeps that repository"
)
_ASK = "ask the owner of those files for access"
# What only passes by, and to whom it should be told; the first that is found in any line counts.
_HINDRANCES: tuple[tuple[re.Pattern[str], type[GfsError], str], ...] = (
    (_NO_ROOM, Unavailable, "make room, then run the same command again"),
    (_CLOSED, Denied, _ASK),
    (_LOCKED, Unavailable, _WAIT),
    (_PASSING, Unavailable, _AGAIN),
    (_DISK, GfsError, "look at the disk and its mount"),
    (_WRITE, Unavailable, "see whether the disk has room, then run the same command again"),
)
_DAMAGE = re.compile(
    r"corrupt|is empty|bad (?:\w+ )?object|inflate|garbage|unexpected line|mismatch"
    r"|(?:unable to|could not|cannot|failed to) (?:read|unpack|parse|load|traverse)"
    r"|does not (?:match|point to)|non-monotonic|too (?:small|short)|not a valid"
    r"|(?:invalid|broken|missing|unresolved|premature|early|bad) ",
    re.IGNORECASE,
)
_SOMETHING = re.compile(r"\S")
# What Git says after the reason, and what it only passes on.
_BESIDE = re.compile(
    r"^error: (?:(?:pack-objects|index-pack|unpack-objects) died$|failed to push some refs"
    r"|remote unpack failed)|^(?:remote|hint):"
)


def run(git: Git, *arguments: str) -> str:
    """Run one command of Git to its success; return what it printed. Raises what `failure` says."""
    ended = git.attempt(*arguments)
    if ended.code:
        verb = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        error = failure(ended, f"git {verb} stopped", git.gitdir)
        error.details["stopped"] = verb
        raise error
    return ended.out


def failure(ended: Ended, what: str, gitdir: Path) -> GfsError:
    """Return the error for a command that only worked on a repository here.

    Corrupt where that is damaged, Denied where it may not be read, Unavailable for what passes.
    """
    return at_home(ended, what, gitdir) or GfsError(
        f"{what}: {reason(ended.err)}", hint="gfs doctor looks for what is wrong there"
    )


def at_home(ended: Ended, what: str, gitdir: Path) -> GfsError | None:
    """Return the same, None where nothing says that the reason is to be looked for here."""
    found = hindrance(ended, what)
    line = None if found else _line(ended.err, _DAMAGE)
    if line is None:
        return found
    return unreadable(gitdir, what) or Corrupt(
        f"{what}: {plain(line)}", hint="gfs doctor names what is wrong; the refs are as they were"
    )


def hindrance(ended: Ended, what: str) -> GfsError | None:
    """Return the error where the system hindered a command, None where something else did."""
    found = hindered(ended.err, what)
    if found is not None:
        return found
    if ended.code < 0 and not ended.err.strip():
        return Unavailable(f"{what}: signal {-ended.code} ended it", hint=_AGAIN)
    return None


def hindered(said: str, what: str) -> GfsError | None:
    """Return the error where lines have the system's words for no room, no access or a lock."""
    for pattern, kind, hint in _HINDRANCES:
        line = _line(said, pattern)
        if line is not None:
            return kind(f"{what}: {plain(line)}", hint=hint)
    return None


def no_room(line: str) -> bool:
    """Tell whether a line has the system's words for a full disk, or for a quota."""
    return _NO_ROOM.search(line) is not None


def no_access(line: str) -> bool:
    """Tell whether a line has the system's words for what may not be read or written."""
    return _CLOSED.search(line) is not None


def reason(err: str) -> str:
    """Return the line that says most about what went wrong."""
    return plain(_line(err, _DAMAGE) or _line(err, _SOMETHING) or "no reason given")


def unreadable(gitdir: Path, what: str) -> Denied | None:
    """Return the error that names what may not be read of a repository, None if all may be."""
    for path in _closed(gitdir):
        return Denied(f"{what}: {path} may not be read", hint=_ASK, path=path)
    return None


def _closed(gitdir: Path) -> Iterator[str]:
    """Yield the objects and refs that we may not read."""
    for place in ("objects", "refs", "packed-refs"):
        top = f"{gitdir}/{place}"
        yield from _unless_open(top)
        for folder, folders, files in os.walk(top):
            for name in sorted(folders + files):
                yield from _unless_open(f"{folder}/{name}")


def _unless_open(path: str) -> Iterator[str]:
    if os.path.lexists(path) and not os.access(path, os.R_OK | os.X_OK * os.path.isdir(path)):  # noqa: PTH112  text
        yield path


def _line(err: str, pattern: re.Pattern[str]) -> str | None:
    """Return the last line of what Git said here in which a pattern is found."""
    lines = (line for line in reversed(err.splitlines()) if not _BESIDE.search(line))
    return next(filter(pattern.search, lines), None)
