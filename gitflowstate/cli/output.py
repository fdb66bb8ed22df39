"""What is printed: one line or one JSON document on stdout, messages on stderr.

Rules: `--json` prints exactly one document, for success and for error, in ASCII; user text reaches
a terminal only through `prose.terminal`; bytes are UTF-8 whatever the locale says.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, TextIO

from gitflowstate import prose
from gitflowstate.errors import GfsError

_COLOURS = {
    "done": "32",
    "running": "36",
    "claimed": "36",
    "ready": "36",
    "waiting": "33",
    "stale": "35",
    "blocked": "33",
    "failed": "31",
}


def success(data: Any, text: str, *, as_json: bool) -> None:  # noqa: ANN401  any JSON
    """Print the answer: text for a person, or the envelope."""
    if as_json:
        _write(sys.stdout, json.dumps({"schema_version": 1, "ok": True, "data": data}))
    elif text:
        _write(sys.stdout, text)


def failure(error: GfsError, *, as_json: bool) -> None:
    """Print an error: what was refused and what is there now, then the safe next step."""
    if as_json:
        body = {
            "code": error.code,
            "name": error.name,
            "message": error.message,
            "hint": error.hint,
            "details": error.details,
        }
        envelope = {"schema_version": 1, "ok": False, "error": body}
        _write(sys.stdout, json.dumps(envelope, default=str))
        return
    _write(sys.stderr, f"error: {prose.terminal(error.message)}")
    for violation in error.details.get("violations", []):
        if violation["message"] not in error.message:
            line = f"{violation['path'] or 'the document'}: {violation['message']}"
            _write(sys.stderr, f"  {prose.terminal(line)}")
    if error.hint:
        _write(sys.stderr, f"hint: {prose.terminal(error.hint)}")


def safe(text: str) -> str:
    """Return text of users, made safe for a terminal."""
    return prose.terminal(text)


def line(text: str) -> str:
    """Return text of users as one line, made safe for a terminal."""
    return prose.terminal(prose.fold(text), lines=False)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _write(sys.stderr, f"warning: {prose.terminal(text, lines=False)}")


def progress(text: str) -> None:
    """Show a line that the next one replaces, on a terminal only."""
    if is_terminal(sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person looks at the stream, and colour is welcome."""
    try:
        return stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    except ValueError:  # closed
        return False


def painted(text: str) -> str:
    """Return text whose state words carry colour, where a person looks at it."""
    if not is_terminal(sys.stdout):
        return text
    import re

    pattern = r"\b(" + "|".join(_COLOURS) + r")\b"
    return re.sub(pattern, lambda m: f"\x1b[{_COLOURS[m[0]]}m{m[0]}\x1b[0m", text, count=1)


def _write(stream: TextIO | None, text: str) -> None:
    """Write a text and its newline; a reader that has gone is no error of ours."""
    if stream is None:
        return
    try:
        stream.flush()
        raw = getattr(stream, "buffer", None)
        data = (text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace")
        if raw is None:
            stream.write(data.decode())
        else:
            raw.write(data)
        stream.flush()
    except BrokenPipeError:
        # What was asked is done; only its answer has no reader. Nothing may be flushed at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # closed by the caller
