"""Whether the end of a process has reached whoever started it: only then it counts as told.

Rule: in doubt it does not. A notice too many is better than an end that nobody hears of (X-32).
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

from gitflowstate import inbox
from gitflowstate.adapters.process import Sink
from gitflowstate.cli import config, managed
from gitflowstate.cli.session import Session
from gitflowstate.errors import GfsError
from gitflowstate.inboxstore import InboxStore
from gitflowstate.processmodel import Process
from gitflowstate.store import Store

_GONE = select.POLLERR | select.POLLNVAL


class Reader:
    """Who started this command, and reads what it says; `passed` is what was passed on to it."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._refused = False
        self.passed: list[managed.Passed] = []

    def sink(self, name: str) -> Sink:
        """Return what passes bytes on to `stdout` or `stderr`, until nobody reads them any more."""
        pass_on = managed.Passed(name)
        self.passed.append(pass_on)

        def write(data: bytes) -> bool:
            taken = pass_on(data)
            self.heed(taken=taken)
            return taken

        return write

    def heed(self, *, taken: bool) -> None:
        """Note whether it took what it was given."""
        self._refused |= not taken

    def is_there(self) -> bool:
        """Tell whether it lives, takes what it is given, and was given all so far."""
        return not self._refused and os.getppid() == self._parent and _is_open()


def _is_open() -> bool:
    """Tell whether standard output is not a pipe that nobody reads."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return sys.stdout is not None  # not a file: a caller in this very process
    poll = select.poll()
    poll.register(descriptor, 0)
    return not any(event & _GONE for _, event in poll.poll(0))


def mark_told(session: Session, store: Store, process: Process) -> None:
    """Record that the session of a process has been told of its end, where that would be news.

    What cannot be recorded is told once more.
    """
    if not inbox.is_notice(process):
        return
    with suppress(GfsError):
        marks = InboxStore(store.repo, store.timeout)
        marks.see(process.session_id, [process.id], at=config.now(), by=session.actor)
