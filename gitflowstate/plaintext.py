"""Owns our own Markdown as plain text, for channels that show no Markdown.

Rules: it reads what our messages are made of, not all of Markdown. What a user wrote stays inert:
where the reader is a chat, a mention or a command in angle brackets is broken by a visible space
(hazard F3). Pure, total and linear.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator

from gitflowstate import marker

_FENCE = "```"
_DIAGRAM = "```mermaid"
_HEADING = re.compile(r"#{1,6} +")
_CELL = re.compile(r"(?<!\\)\|")
_TAG = re.compile(r"</?[a-z][a-z0-9]{0,9}(?: [^<>]{0,200})?/?>")
# An escape, an entity, emphasis or code, and a link: whatever comes first is taken whole.
_INLINE = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<entity>&(?:[a-z]{2,6}|#[0-9]{1,7});)"
    r"|(?P<mark>\*\*|`+)"
    r"|\[(?P<shown>[^\[\]\n]{0,500})\]\((?P<address>[^()\s]{1,2000})\)"
)


def plain(markdown: str) -> str:
    """Return the text of a message: no marker, no diagram, no markup; blank lines are single."""
    kept: list[str] = []
    for line in _without_diagrams(marker.body(markdown).split("\n")):
        if not _is_rule(line):
            shown = _line(line)
            if shown or (kept and kept[-1]):
                kept.append(shown)
    return "\n".join(kept).strip("\n")


def quiet(text: str) -> str:
    """Return plain text in which no chat finds somebody to notify. Idempotent."""
    return re.sub(r"[@<](?=\S)", r"\g<0> ", text)


def _without_diagrams(lines: list[str]) -> Iterator[str]:
    """Yield the lines that are in no diagram; one that nothing ends is none."""
    ends = [number for number, line in enumerate(lines) if line.strip() == _FENCE]
    after = 0
    for number, line in enumerate(lines):
        if number < after:
            continue
        if line.strip() == _DIAGRAM:
            place = bisect_right(ends, number)
            after = ends[place] + 1 if place < len(ends) else 0
        elif line.strip() != _FENCE:
            yield line


def _is_table(line: str) -> bool:
    return line.lstrip().startswith("|")


def _is_rule(line: str) -> bool:
    """Tell whether a line only divides the head of a table from its rows."""
    return _is_table(line) and "-" in line and not line.strip(" \t:|-")


def _line(line: str) -> str:
    if _is_table(line):
        cells = _CELL.split(line.strip().strip("|"))
        return " | ".join(_inline(cell.strip()) for cell in cells).rstrip()
    return _inline(_HEADING.sub("", line, count=1) if line.startswith("#") else line).rstrip()


def _inline(text: str) -> str:
    return _INLINE.sub(_shown, _TAG.sub(_space, text))


def _space(tag: re.Match[str]) -> str:
    return " " if tag[0].startswith("<br") else ""


def _shown(found: re.Match[str]) -> str:
    if found["escaped"]:
        return found["escaped"]
    if found["entity"]:
        return html.unescape(found["entity"])
    if found["address"]:
        return f"{_inline(found['shown'])} ({found['address']})"
    return ""
