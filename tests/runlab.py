"""A supervisor with its client, without a repository: what the tests of processes share.

`FAULTS` is the code of a supervisor that dies where a test says so: it wraps one of its own steps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gitflowstate import runfiles
from gitflowstate.adapters.process import Reserved, Supervised
from gitflowstate.runfiles import Exit

ID = "p-000000000001"
SHELL = ("sh", "-c")


class Run:
    """One process in a folder that stands for a repository; `out` and `err` are what it wrote."""

    def __init__(self, gitdir: Path, *argv: str | bytes, **given: object) -> None:
        self.gitdir = gitdir
        self.passing = bool(given.pop("passing", True))
        self.request = {
            "process": ID,
            "folder": runfiles.run_folder(gitdir, ID),
            "argv": [os.fsencode(word) for word in argv],
            "cwd": os.fsencode(gitdir),
            "timeout_s": None,
            "env": {"GFS_PROCESS": ID},
            "gitdir": str(gitdir),
            "path": sys.path,
        } | given
        self.folder = Path(runfiles.run_folder(gitdir, ID))
        self.out = b""
        self.err = b""

    def start(self) -> tuple[int, int] | None:
        """Start the supervisor; return what it says of the command that is held back."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with Reserved(self.gitdir, ID, "s") as reserved:
            assert reserved.take()
            self.client = Supervised(reserved, passing=self.passing)
            self.client.ask(self.request | {"holder": reserved.told})
        return self.client.blocked()

    def go(self) -> Run:
        """Start it and let the command go."""
        blocked = self.start()
        assert blocked is not None
        self.pid, self.ticks = blocked
        self.client.go()
        return self

    def end(self) -> Exit | None:
        """Wait for the end, and say that it is recorded."""
        found = self.client.end(self._out, self._err)
        self.client.settled()
        self.client.close()
        os.waitpid(self.client.pid, 0)
        return found

    def _out(self, data: bytes) -> bool:
        self.out += data
        return True

    def _err(self, data: bytes) -> bool:
        self.err += data
        return True


def ended(gitdir: Path, *argv: str | bytes, **given: object) -> tuple[Exit, Run]:
    """Run a command to its end under a supervisor."""
    run = Run(gitdir, *argv, **given).go()
    found = run.end()
    assert found is not None
    assert found.text() == runfiles.read_exit(gitdir, ID).text()
    return found, run


def eventually(holds) -> None:
    """Wait until something holds, which it must within a time no machine needs."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether there is a process with this pid that has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")
