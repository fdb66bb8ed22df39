"""What users give as arguments: texts, files, standard input, and the command behind `--`.

Rules: what is refused is named by its argument; standard input is read once, and only for an
argument that is `-`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import overload

from gitflowstate.errors import Invalid, Usage
from gitflowstate.kinds import MAX_DOCUMENT


@overload
def text(value: str, name: str) -> str: ...
@overload
def text(value: None, name: str) -> None: ...
@overload
def text(value: str | None, name: str) -> str | None: ...


def text(value: str | None, name: str) -> str | None:
    """Return a text argument; `-` is standard input, without one final newline.

    Raises Invalid, naming the argument, for bytes that are not UTF-8 or more than 4 MiB.
    """
    if value is None:
        return None
    if value != "-":
        return plain(value, name)
    raw = _standard_input(name)
    try:
        return raw.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(name, f"byte {error.start} of standard input") from None


def plain(value: str, name: str) -> str:
    """Return an argument or variable as text; under a foreign locale its bytes still count."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        try:
            return os.fsencode(value).decode()
        except UnicodeError:
            raise _not_utf8(name, f"character {error.start}") from None
    return value


def _not_utf8(name: str, where: str) -> Invalid:
    rule = f"{where} is not UTF-8"
    return Invalid(f"{name}: {rule}", violations=[{"path": name, "message": rule}])


def command(words: list[str]) -> list[str]:
    """Return the words of a command, all of which must stand behind the first `--`.

    Before it a word is an option of ours if it looks like one, and would be missing. Raises Usage.
    """
    said = sys.argv[1:]
    if "--" in said and said[said.index("--") + 1 :] == words:
        return words
    raise Usage(
        "the command, and all of it, must stand behind --",
        hint=f"gfs {said[0]} ... -- COMMAND: what stands before it are options of gfs",
    )


def read_file(path: str, name: str) -> bytes:
    """Return the bytes of a file argument, or of standard input for `-`.

    Raises Usage if it cannot be read, Invalid for more than 4 MiB.
    """
    if path == "-":
        return _standard_input(name)
    try:
        with Path(path).open("rb") as file:  # a pipe is as good as a file
            return _bounded(file.read(MAX_DOCUMENT + 1), name)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise Usage(f"{name}: cannot read {path!r}: {reason}") from error


_taken_by: list[str] = []


def _standard_input(name: str) -> bytes:
    if _taken_by:
        raise Usage(f"{name}: standard input was read for {_taken_by[0]}; only one argument is -")
    if sys.stdin is None:
        raise Usage(f"{name}: standard input is closed")
    _taken_by.append(name)
    try:
        return _bounded(sys.stdin.buffer.read(MAX_DOCUMENT + 1), name)
    except OSError as error:
        raise Usage(f"{name}: cannot read standard input: {error.strerror}") from error


def _bounded(raw: bytes, name: str) -> bytes:
    if len(raw) > MAX_DOCUMENT:
        rule = f"has more than {MAX_DOCUMENT:,} bytes"
        raise Invalid(f"{name}: {rule}", violations=[{"path": name, "message": rule}])
    return raw
