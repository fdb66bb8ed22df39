"""Texts of the outside as a document can hold them: arguments of commands, and reasons of ends.

Rule: no two texts become one, and what is shown of a reason can be read by a person.
"""

from __future__ import annotations

from gitflowstate import prose, secrets
from gitflowstate.kinds import KINDS

_REASON = 1000  # characters


def quoted(text: str) -> str:
    """Return text as a document can hold it: as it is, else as a shell's `$'…'` with escapes.

    What is written like that already is quoted too, so no two texts become one.
    """
    if KINDS["Text"].accepts(text) and not text.startswith("$'"):
        return text
    raw = text.encode("utf-8", "surrogateescape")
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b"\\'" else f"\\x{c:02x}" for c in raw)  # noqa: PLR2004  printable ASCII
    return f"$'{escaped}'"


def reason(told: str | None) -> str | None:
    """Return a reason as a document can hold it: seen, short, and without a secret."""
    if not told or not told.strip():
        return None
    kind = secrets.find(told)
    if kind:
        return f"for a reason that is left out, since it seems to hold a secret ({kind})"
    return prose.terminal(told, lines=False)[:_REASON]
