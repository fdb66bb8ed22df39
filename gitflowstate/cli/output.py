"""What is printed: one line or one JSON document on stdout, messages on stderr.

Rules: `--json` prints exactly one document, for success and for error, in ASCII; user text reaches
a terminal only through `prose.terminal`; bytes are UTF-8 whatever the locale says.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from typing import Any, Protocol, TextIO

from gitflowstate import prose
from gitflowstate.errors import GfsError

GONE = (errno.EPIPE, errno.EBADF)  # a reader that left, a closed descriptor: the caller's choice
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


class About(Protocol):
    """What every answer of this run says beside its own data."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON."""

    def text(self, *, failed: bool) -> str:
        """Return it for a person, empty where there is nothing to say."""


about: About | None = None  # the remote, once a verb has one


class Unwritten(GfsError):
    """Standard output takes no answer, so that this is told on standard error alone."""


def success(data: Any, text: str, *, as_json: bool) -> bool:  # noqa: ANN401  any JSON
    """Print the answer: text for a person, or the envelope; tell whether somebody took it.

    Raises GfsError when it does not fit on the disk: half a document must not look like a whole.
    """
    if as_json:
        text = json.dumps({"schema_version": 1, "ok": True, "data": data} | _remote())
    lost = _write(sys.stdout, text) if text else None
    if lost is not None and lost.errno not in GONE:
        raise Unwritten(
            f"the answer could not be written to standard output: {lost.strerror}",
            hint="a change is recorded all the same: gfs log ID shows it",
        )
    if not as_json:
        _say_about()
    return lost is None


def _remote() -> dict[str, Any]:
    """Return what the envelope says of the remote, where there is one."""
    return {} if about is None else {"remote": about.data()}


def _say_about(*, failed: bool = False) -> None:
    text = "" if about is None else about.text(failed=failed)
    if text:
        _write(sys.stderr, prose.terminal(text))


def failure(error: GfsError, *, as_json: bool) -> None:
    """Print an error: what was refused and what is there now, then the safe next step."""
    if as_json and not isinstance(error, Unwritten):
        body = {
            "code": error.code,
            "name": error.name,
            "message": error.message,
            "hint": error.hint,
            "details": error.details,
        }
        envelope = {"schema_version": 1, "ok": False, "error": body} | _remote()
        lost = _write(sys.stdout, json.dumps(envelope, default=str))
        if lost is None or lost.errno in GONE:
            return
    _write(sys.stderr, f"error: {prose.terminal(error.message, lines=False)}")
    for violation in error.details.get("violations", []):
        if violation["message"] not in error.message:
            line = f"{violation['path'] or 'the document'}: {violation['message']}"
            _write(sys.stderr, f"  {prose.terminal(line, lines=False)}")
    _say_about(failed=True)
    if error.hint:
        _write(sys.stderr, f"hint: {prose.terminal(error.hint, lines=False)}")


def safe(text: str) -> str:
    """Return text of users, made safe for a terminal."""
    return prose.terminal(text)


def line(text: str) -> str:
    """Return text of users as one line, made safe for a terminal."""
    return prose.terminal(prose.fold(text), lines=False)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _write(sys.stderr, f"warning: {prose.terminal(text, lines=False)}")


def aside(text: str) -> None:
    """Print a text on stderr, beside the one answer."""
    _write(sys.stderr, prose.terminal(text))


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


def _write(stream: TextIO | None, text: str) -> OSError | None:
    """Write a text and its newline; return what went wrong."""
    if stream is None:
        return OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        stream.flush()
        raw = getattr(stream, "buffer", None)
        data = (text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace")
        if raw is None:
            stream.write(data.decode())
        else:
            raw.write(data)
        stream.flush()
    except OSError as error:
        discard(stream)
        return error
    except ValueError:  # closed
        return OSError(errno.EBADF, os.strerror(errno.EBADF))
    return None


def discard(stream: TextIO) -> None:
    """Let what could not be written go, so that Python does not try again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
