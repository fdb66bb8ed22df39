"""A Markdown file of messages, one section for each flow, each message edited in its place.

Rules: the file is replaced whole, so a reader finds the old one or the new one; one that something
else wrote is left alone, and no link is followed out of the folder; a message is found again by the
lines around it, which no text can hold (hazard F3).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from gitflowstate import prose
from gitflowstate.codec import digest
from gitflowstate.delivery import Gone, NotSent, Refused
from gitflowstate.marker import parts, read
from gitflowstate.ports import Found, Notice
from gitflowstate.syscalls import READ_FLAGS

_END = "<!-- gfs:1 end -->"
_START = re.compile(r"<!-- gfs:1 message=([a-z]+-[0-9]{1,9}) in ([a-z0-9._-]{1,64}) -->")
_MOST_BYTES = 64 * 2**20


class Entry(NamedTuple):
    """One message in the file."""

    id: str
    flow: str
    text: str


class Board:
    """The file of one channel, at a path below a folder."""

    def __init__(self, channel: str, folder: Path, file: str) -> None:
        self._folder = folder
        self._path = folder / file
        self._head = f"<!-- gfs:1 board of {channel} -->"

    def add(self, notice: Notice) -> str:
        """Add a message behind the others of its flow; return its id."""
        entries = self._entries()
        numbers = [int(each.id.partition("-")[2]) for each in entries if each.flow == notice.flow]
        made = Entry(
            f"{notice.kind}-{max(numbers, default=0) + 1}", notice.flow, _safe(notice.text)
        )
        behind = [place for place, each in enumerate(entries, 1) if each.flow == notice.flow]
        entries.insert(behind[-1] if behind else len(entries), made)
        self._write(entries)
        return f"{made.flow}/{made.id}"

    def change(self, id: str, notice: Notice) -> None:  # noqa: A002  the word of the protocol
        """Bring a message to the text of a notice. Raises Gone."""
        entries = self._entries()
        for place, each in enumerate(entries):
            if f"{each.flow}/{each.id}" == id:
                entries[place] = each._replace(text=_safe(notice.text))
                self._write(entries)
                return
        raise Gone("the message is not in the file any more")

    def digest(self, id: str) -> str | None:  # noqa: A002  as above
        """Return the digest of a message's text, None where it is not there."""
        texts = [each.text for each in self._entries() if f"{each.flow}/{each.id}" == id]
        return digest(texts[0].encode()) if texts else None

    def find(self, flow: str) -> list[Found]:
        """Return the messages that are marked with a flow, the oldest first."""
        marked = [(each, read(each.text)) for each in self._entries()]
        return [
            Found(
                f"{each.flow}/{each.id}", flow, mark.kind, mark.revision, digest(each.text.encode())
            )
            for each, mark in marked
            if mark is not None and mark.flow == flow
        ]

    def examine(self) -> list[str]:
        """Return what the file holds, in words. Raises Refused for one that is not ours."""
        return [f"its file holds {prose.count(len(self._entries()), 'message')}"]

    # ── the file ────────────────────────────────────────────────────────────────────────────────

    def _entries(self) -> list[Entry]:
        try:
            self._check_place()
            data = _read(self._path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NotSent(f"the file of the channel cannot be read: {error.strerror}") from error
        lines = data.decode("utf-8", "replace").split("\n")
        if lines[0] != self._head or len(data) > _MOST_BYTES:
            raise Refused("its file was not written by this channel")
        return list(_parsed(lines))

    def _check_place(self) -> None:
        try:
            inside = self._path.parent.resolve().is_relative_to(self._folder.resolve())
        except RuntimeError:  # how Python 3.11 says that links lead in a circle
            inside = False
        if self._path.is_symlink() or not inside:
            raise Refused("its file is a link, or behind one that leads out of the folder")

    def _write(self, entries: list[Entry]) -> None:
        """Put the new file in the place of the old one, once all of it is on the disk."""
        new = self._path.with_name(f".{self._path.name}.{os.urandom(4).hex()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._check_place()
            with new.open("xb") as file:
                file.write(_rendered(self._head, entries).encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise NotSent(f"the file of the channel cannot be written: {error.strerror}") from error
        finally:
            with suppress(OSError):
                new.unlink()


def _read(path: Path) -> bytes:
    """Return what a file holds, up to a limit. Raises Refused for what is no file, OSError."""
    descriptor = os.open(path, READ_FLAGS)  # which waits for nobody at the other end of a pipe
    with os.fdopen(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise Refused("its file is not a regular file")
        return file.read(_MOST_BYTES + 1)


def _rendered(head: str, entries: list[Entry]) -> str:
    parts = [head, "", "*Kept by gitflowstate, which writes it anew: do not edit it.*"]
    for flow, messages in groupby(entries, key=lambda each: each.flow):
        parts += ["", f"## {flow}"]
        for each in messages:
            parts += ["", f"<!-- gfs:1 message={each.id} in {flow} -->", each.text, _END]
    return "\n".join([*parts, ""])


def _parsed(lines: list[str]) -> Iterator[Entry]:
    started: re.Match[str] | None = None
    text: list[str] = []
    for line in lines:
        if started is not None and line == _END:
            yield Entry(started[1], started[2], "\n".join(text))
            started = None
        elif started is not None:
            text.append(line)
        else:
            started, text = _START.fullmatch(line), []


def _safe(text: str) -> str:
    """Return a text in which no line but the first can be one of ours."""
    first, rest = parts(text)
    return f"{first}\n{rest}" if first else rest
