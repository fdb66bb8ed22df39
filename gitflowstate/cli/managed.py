"""What verbs say of a managed process: its record, its output, and the exit code it leaves with."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitflowstate import codec, outputs, runfiles, settling
from gitflowstate.cli import output
from gitflowstate.family import Family
from gitflowstate.outputs import Piece
from gitflowstate.processmodel import Process

SHOWN_BYTES = 65_536  # of the output, in a document
POLL_S = 0.1
_ENDED_BY = 128  # and the number of the signal, as shells have it
_BY_US = {"timed_out": 124, "cancelled": 143}  # as timeout(1) has it, and as a shell has SIGTERM
_NO_CODE = 1


def data(process: Process, **more: Any) -> dict[str, Any]:  # noqa: ANN401  JSON values
    """Return the record of a process as JSON."""
    return codec.to_json(process) | more


def line(process: Process) -> str:
    """Return what became of a process, on one line."""
    said = f"{process.id} {process.state}"
    if process.signal is not None:
        said += f" by {process.signal}"
    elif process.exit_code is not None:
        said += f", exit code {process.exit_code}"
    return f"{said}: {process.reason}" if process.reason else said


def code(process: Process) -> int:
    """Return the exit code that a process leaves: its own, or 128 and the number of a signal.

    What we ended has a code of ours, whatever the command made of it: 0 says that it completed.
    """
    if process.state in _BY_US:
        return _BY_US[process.state]
    if process.exit_code is not None:
        return process.exit_code
    try:
        return _ENDED_BY + signal.Signals[process.signal or ""]
    except KeyError:
        return _NO_CODE


def family(gitdir: Path, process: Process) -> Family:
    """Return what may be left of a process on this machine: its start or environment says so."""
    folder = runfiles.run_folder(gitdir, process.id)
    return Family(folder, process.pid or 0, process.ticks or 0, process.boot_id)


def orphans(gitdir: Path, process: Process) -> int:
    """Return how many processes a supervisor that died has left running on this machine."""
    return len(family(gitdir, process).members()) if process.state == "lost" else 0


def warning_of(process: Process, left: int) -> str:
    """Return what to know of so many orphans, on one line."""
    told = f"{left:,} of its processes still run on this machine"
    return f"{told}: gfs cancel {process.id} ends them"


def follow(gitdir: Path, process: Process, since: int = 0) -> Iterator[Piece]:
    """Yield what a process writes until it has ended, or nothing here knows of it."""
    over = False
    while True:
        for piece in outputs.pieces(gitdir, process.id, since):
            yield piece
            since = piece.offset + len(piece.data)
        if over:
            return
        over = not settling.lives(gitdir, process)
        if not over:
            time.sleep(POLL_S)


def whole(code: int, process: Process, *passed: Passed) -> int:
    """Return an exit code that does not say that all went well where some output was lost."""
    lost = [each.lost for each in passed if each.lost is not None]
    if not lost:
        return code
    output.warn(
        f"output of {process.id} could not be passed on: {lost[0].strerror}; gfs logs has it"
    )
    return code or _NO_CODE


class Passed:
    """Passes bytes on to `stdout` or `stderr`, until nobody reads them.

    `lost` is what else kept them from being written.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost: OSError | None = None

    def __call__(self, data: bytes) -> bool:
        """Tell whether they were written; the process goes on all the same."""
        stream = getattr(sys, self.name)
        try:
            stream.buffer.write(data)
            stream.buffer.flush()
        except OSError as error:
            output.discard(stream)
            self.lost = None if error.errno in output.GONE else error
            return False
        except (ValueError, AttributeError):  # closed, or not there
            return False
        return True
