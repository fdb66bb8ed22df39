"""What tests of processes share: records of processes, as a client makes them and C git reads them.

A `ProcessLab` holds facts alone, and starts nothing. `CALL` is a call of `gfs run` that does: its
process is `ID`, and the fixtures `here` and `waiting` are where it is made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clirun import Cli
from flowrepo import AT, Lab

from gitflowstate import processes
from gitflowstate.processes import End, Identity, Intended, Wanted
from gitflowstate.processmodel import Process, process_id, process_path

HOST, BOOT = "h", "b"
STAMP = {"at": AT, "by": "ann"}
CALL = ("run", "--session", "s", "--call-id", "c")
ID = process_id("s", "c")
WAITS = ("--", "sh", "-c", "echo ran >> ran; cat fifo; exit 7")


def record(cli: Cli, process: str = ID, session: str = "s") -> dict[str, Any]:
    """Return the document of a process, as C git reads it."""
    return json.loads(cli.git("show", f"main:{process_path(session, process)}"))


def runs() -> int:
    """Return how often a command here has said in `ran` that it runs."""
    path = Path("ran")
    return len(path.read_text().splitlines()) if path.exists() else 0


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
