"""Every deliberate error and its exit code (architecture, section 8).

Rule: an error says what was refused (`message`) and the safe next step (`hint`); no hint ever
names a command that deletes, overwrites or forces. Where that step is one command, `next` has its
words and the hint need not repeat them.
"""

from __future__ import annotations

from typing import Any

# What ends a command and is no deliberate error.
INTERNAL, INTERRUPTED, TERMINATED = 70, 130, 143


class GfsError(Exception):
    """The outside failed in a way that has no code of its own."""

    code = 1
    name = "error"

    def __init__(self, message: str, *, hint: str = "", **details: Any) -> None:  # noqa: ANN401  details are JSON values
        super().__init__(message)
        self.message = message
        self.hint = hint or " ".join(details.get("next", ()))
        self.details = details


class Usage(GfsError):
    """The arguments are wrong."""

    code = 2
    name = "usage"


class Rejected(GfsError):
    """The state machine refused; nothing was written."""

    code = 3
    name = "rejected"


class Invalid(GfsError):
    """A document or value does not obey its schema; nothing was written.

    `violations` lists every violation as `{"path", "message", "line"?}`.
    """

    code = 3
    name = "invalid"


class Stale(GfsError):
    """An old revision, a lost claim, something taken by someone else, or a reused key."""

    code = 4
    name = "stale"


class NotFound(GfsError):
    """No such flow, task, process or repository."""

    code = 5
    name = "not-found"


class Corrupt(GfsError):
    """Stored bytes do not decode or a commit does not replay; the bytes are left alone."""

    code = 6
    name = "corrupt"


class Uncertain(GfsError):
    """An outcome is unknown: a remote one, or whether a commit in place survives a power cut."""

    code = 7
    name = "uncertain"


class Blocked(GfsError):
    """Nothing is ready and not everything is done."""

    code = 8
    name = "blocked"


class Unavailable(GfsError):
    """A lock, a remote or a channel is out of reach; the same command may be run again."""

    code = 75
    name = "unavailable"


class Denied(GfsError):
    """Read-only, no permission, foreign owner, or credentials missing or wrong."""

    code = 77
    name = "denied"
