"""What tests of processes share: a repository with processes in it, recorded as a client does.

No process of the system is started: a record is what these tests are about.
"""

from __future__ import annotations

from typing import Any

from flowrepo import AT, Lab

from gitflowstate import processes
from gitflowstate.processes import End, Identity, Intended, Wanted
from gitflowstate.processmodel import Process

HOST, BOOT = "h", "b"
STAMP = {"at": AT, "by": "ann"}


class ProcessLab(Lab):
    """A flow repository whose processes are facts alone."""

    def intend(self, call: str | None = "c-1", session: str = "s-1", **wanted: Any) -> Intended:
        """Record the intent of a call."""
        asked = Wanted(session, **{"argv": ["make"], "cwd": "/src", "call_id": call} | wanted)
        here = {"host": HOST, "boot_id": BOOT}
        return processes.intend(self.store, asked, asked.mint(), **here, **STAMP)

    def start(self, call: str = "c-1", session: str = "s-1", **wanted: Any) -> Process:
        """Record the intent of a call, and that it runs."""
        process = self.intend(call, session, **wanted).process
        return processes.started(self.store, process, Identity(7, 9, AT), **STAMP)

    def end(self, process: Process, state: str = "completed", **told: Any) -> Process:
        """Record the end of a process."""
        end = End(**{"state": state, "finished_at": AT, "exit_code": 0} | told)
        return processes.settled(self.store, process, end, **STAMP)

    def ended(self, call: str = "c-1", session: str = "s-1", **wanted: Any) -> Process:
        """Record a process from its intent to its end."""
        return self.end(self.start(call, session, **wanted))
