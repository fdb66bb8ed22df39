"""What can become of a message that is sent: one error for each decision it calls for.

Rules: an adapter turns every failure of its channel into one of these; their texts are fixed texts
of our own, since what a remote says may hold anything and would be kept in Git for ever.
"""

from __future__ import annotations

from gitflowstate.errors import Denied, GfsError, Unavailable, Uncertain
from gitflowstate.kinds import Time


class NotSent(Unavailable):
    """Nothing left this machine; it is tried again in a later pass."""


class Unknown(Uncertain):
    """It may have happened: look for the marker now and again >= 30 s later, only then send."""


class Refused(GfsError):
    """The channel will not take this notice: it is parked, and the others go on."""

    name = "refused"

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(f"the channel refused the message: {reason}", hint=hint, reason=reason)
        self.reason = reason


class Gone(GfsError):
    """The message to edit is not there any more."""

    name = "gone"


class HoldOff(Unavailable):
    """The channel wants silence until a time, whatever is owed; the next run also waits.

    `guessed` says that it did not say for how long.
    """

    def __init__(self, until: Time, reason: str, *, guessed: bool = False) -> None:
        super().__init__(
            f"the channel wants silence until {until}: {reason}",
            hint="what is owed is sent by a run after that time",
            until=until,
            reason=reason,
        )
        self.until = until
        self.reason = reason
        self.guessed = guessed


class Unauthorised(Denied):
    """The credentials are missing or wrong: the run stops, and its cursor is not touched."""

    def __init__(self, variable: str, *, missing: bool = False) -> None:
        super().__init__(
            f"{variable} is not set"
            if missing
            else f"the channel does not accept what {variable} holds",
            hint=f"set {variable} to a token that may write there",
            variable=variable,
        )
        self.variable = variable
