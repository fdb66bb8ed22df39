"""Signals, for a supervisor: the few calls it needs, without what the module `signal` costs.

Rule: `signal` imports enum and more, a third of the life of a supervisor; `_signal` is the C part
below it, with the same functions and plain numbers.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which costs as much again
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
else:
    import _signal as signal

HUP, INT, QUIT, KILL, PIPE, TERM = 1, 2, 3, 9, 13, 15
CHLD = int(signal.SIGCHLD)
SENT = {TERM: "SIGTERM", KILL: "SIGKILL"}
# What Python or a supervisor ignores; an ignored signal stays so in the command it starts.
_IGNORED = (HUP, INT, QUIT, PIPE, int(signal.SIGXFSZ))


def wake(descriptor: int, *numbers: int) -> None:
    """Write to a descriptor, which must not block, whenever one of the signals comes."""
    signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _nothing)


def _nothing(number: int, frame: object) -> None:
    del number, frame


def ignore(numbers: Iterable[int]) -> None:
    """Ignore the signals."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def unblock() -> None:
    """Let every signal come, whatever the one who started us has blocked."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def restore() -> None:
    """Have every signal do what it does by default, for a command that is about to be run."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, TERM, CHLD):
        signal.signal(number, signal.SIG_DFL)


def send(descriptor: int, number: int) -> None:
    """Send a signal to the process of a descriptor. Raises OSError."""
    signal.pidfd_send_signal(descriptor, number)
