"""Owns the Markdown that is ours in a message: code, tables, what folds away, and what fits.

Rules: sizes are bytes of UTF-8, since a text has never fewer of them than characters. A text is
cut where it was written, between whole characters, and made inert afterwards, so that no cut can
leave half an escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitflowstate import prose
from gitflowstate.phrases import clip, inline

_SHORT = 400  # characters that stand beside their label
_LONG = 1500  # characters, and lines, above which a text folds away behind its beginning
_LINES = 20
_BEGINNING = 200
_FOLDED = 1000  # bytes below which nothing folds away: the text is cut where it stands

# Chat services read these, and every host reads a comment, wherever a careless one finds them.
_ACTIVE = re.compile(r"<(?=[!@#])|(?<![A-Za-z0-9])@(?=\w)")
# What would end a link in Markdown, or is no part of an address.
_UNSAFE = re.compile(r"[^!#$%&*+,\-./0-9:;=?@A-Z_a-z~]")


class Fitted(NamedTuple):
    """As much of something as fits, and whether that is all of it."""

    text: str
    whole: bool = True


def size(text: str) -> int:
    """Return how many bytes a text takes."""
    return len(text.encode())


def code(text: str, *, cell: bool = False) -> str:
    """Return a reference as inline code, exact but for what chat services act on even there.

    `cell` says that it stands in a table. Returns "" for a blank text.
    """
    plain = _ACTIVE.sub(r"\g<0> ", inline(text)).strip()
    if not plain:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    shown = plain.replace("|", r"\|") if cell else plain
    return f"{fence}{pad}{shown}{pad}{fence}"


def words(text: str) -> str:
    """Return words of users as one line of Markdown, as `prose.markdown` does, without a `<!`."""
    return _broken(prose.markdown(text))


def block(text: str) -> str:
    """Return words of users as a Markdown quotation, without a `<!`."""
    return _broken(prose.markdown_block(text))


def _broken(shown: str) -> str:
    # Harmless in Markdown, yet a chat service may be given it as plain text again.
    return shown.replace(r"&lt;\!", r"&lt; \!")


def row(cells: Sequence[str]) -> str:
    """Return one row of a table; the cells are Markdown already."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table with rows as `row` gives them."""
    return "\n".join([row(head), row(["---"] * len(head)), *rows])


def details(summary: str, inside: str) -> str:
    """Return what a host folds away behind its summary, which holds no text of users."""
    return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def link(label: str, address: str) -> str:
    """Return a link that is ours, or "" where the address is none of the web."""
    if not re.match(r"https?://\w", address):
        return ""
    quoted = _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), address)
    return f"[{label}]({quoted})"


def fitted(make: Callable[[str], str], text: str, room: int) -> Fitted:
    """Return what `make` makes of a text, or of its beginning and dots, in at most `room` bytes.

    Where nothing fits the text is "".
    """
    shown = make(text) if len(text) <= 4 * room else ""
    if shown and size(shown) <= room:
        return Fitted(shown)
    width = room
    while width > 0:
        kept = prose.cut(text, width)
        shown = make(kept)
        if not kept or size(shown) <= room:
            return Fitted(shown if kept else "", whole=False)
        width = min(width - 1, width * room // size(shown))
    return Fitted("", whole=False)


def field(label: str, text: str, room: int) -> Fitted:
    """Return a labelled text in at most `room` bytes; a long one folds away behind its beginning.

    The label is ours, the text a user's. A blank text gives "".
    """
    text = text.strip()
    if not prose.fold(text):
        return Fitted("")
    start = f"**{label}:**"
    lines = text.count("\n") + 1
    if lines == 1 and len(text) <= _SHORT:
        return fitted(lambda kept: f"{start} {words(kept)}", text, room)
    if lines <= _LINES and len(text) <= _LONG:
        return fitted(lambda kept: f"{start}\n\n{block(kept)}", text, room)
    return _folded(label, text, room)


def _folded(label: str, text: str, room: int) -> Fitted:
    start = f"**{label}:**"
    beginning = f"{start} {words(clip(text, _BEGINNING))}"
    left = room - size(beginning) - 2
    if left < _FOLDED:
        return fitted(lambda kept: f"{start} {words(kept)}", text, room)
    summary = f"{label}, {len(text):,} characters"
    rest = fitted(lambda kept: details(summary, block(kept)), text, left)
    return rest._replace(text=f"{beginning}\n\n{rest.text}")
