"""Owns where things stand in JSON text: which key is there twice, on which line a value begins.

Rules: one pass, no recursion, and any text will do; what is not JSON is stepped over, since these
answers go into the message about a document that was already refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

_Key = str | int | None

# A string that is never closed reaches to the end of the text.
_WORD = r'[{}\[\],:]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^\s{}\[\],:"]+'


def duplicates(text: str) -> tuple[str, int] | None:
    """Return the first key that stands twice in one object, as JSON pointer and byte offset.

    The offset is that of the second one's opening quote, in UTF-8. Keys are compared as they are
    read: an escape is the character it stands for.
    """
    path: list[_Key] = []
    names: dict[int, set[_Key]] = {}  # by depth, of the object that is open there
    for is_key, depth, key, start in _events(text):
        if depth:
            path[depth - 1 :] = [key]
        if not is_key:
            names.pop(depth + 1, None)
        elif key in names.setdefault(depth, set()):
            return _pointer(path), len(text[:start].encode("utf-8", "surrogatepass"))
        else:
            names[depth].add(key)
    return None


def lines(text: str, paths: Container[tuple[str | int, ...]]) -> dict[tuple[str | int, ...], int]:
    """Return the line, from 1, of each value that stands at one of `paths`, in one pass."""
    found: dict[tuple[str | int, ...], int] = {}
    path: list[Any] = []
    line, counted = 1, 0
    for is_key, depth, key, start in _events(text):
        path[max(depth - 1, 0) :] = [key] if depth else []
        if not is_key and (place := tuple(path)) in paths:
            line += text.count("\n", counted, start)
            counted = start
            found[place] = line
    return found


def _events(text: str) -> Iterator[tuple[bool, int, _Key, int]]:
    """Yield each key and each value in order: whether it is a key, depth, name or index, start.

    The depth of a key is that of its value; the document itself has depth 0 and no name.
    """
    open_at: list[_Key] = []  # in each open container: an array's index, an object's key or None
    for found in re.finditer(_WORD, text, re.DOTALL):
        word, start = found[0], found.start()
        here = open_at[-1] if open_at else None
        if word in "}]":
            del open_at[-1:]
        elif word == ",":
            open_at[-1:] = [here + 1 if isinstance(here, int) else None] if open_at else []
        elif open_at and here is None and word[0] == '"':
            open_at[-1] = _name(word)
            yield True, len(open_at), open_at[-1], start
        elif word != ":":
            yield False, len(open_at), here, start
            if word in "{[":
                open_at.append(None if word == "{" else 0)


def _name(word: str) -> str:
    try:
        return str(json.loads(word, strict=False))
    except ValueError:  # an escape that is none, or no closing quote
        return word[1:]


def _pointer(path: Sequence[_Key]) -> str:
    steps = ("" if step is None else str(step) for step in path)
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
