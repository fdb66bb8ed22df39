"""The executor that runs a command for each task, in a process group of its own.

Rules: the task is JSON on standard input and in the environment; the last line of standard output
names the result; output beyond the tail is drained and dropped; no text of a failing command is
recorded, since Git would keep it for ever: fixed words of our own instead.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from gitflowstate import codec, secrets
from gitflowstate.kinds import KINDS, Outcome
from gitflowstate.ports import Job, Result

GRACE_S = 1.0
AFTER_EXIT_S = 2.0  # for output that is still in the pipe, while something holds it open
TAIL_BYTES = 65_536
MAX_ENVIRONMENT_BYTES = 100_000  # Linux lets one variable have 128 KiB
MAX_REFERENCE = 2048
NO_RESULT = "none"


class CommandExecutor:
    """Runs one command for every job."""

    def __init__(self, command: Sequence[str], template: str | None = None) -> None:
        self.command = list(command)
        self.template = template
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def run(self, job: Job) -> Result:
        """Run the command to its end. A command that cannot be started has failed."""
        document = _document(job)
        with tempfile.TemporaryFile() as stdin:
            stdin.write(document)
            stdin.seek(0)
            try:
                process = self._started(job, document, stdin)
            except OSError as error:
                return _failed(f"cannot be started: {error.strerror}")
        tail = _Tail(process)
        try:
            return self._ended(job, process, tail)
        finally:
            with self._lock:
                self._running.discard(process)

    def _started(self, job: Job, document: bytes, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopping:
                raise OSError(0, "stopping")
            process = subprocess.Popen(  # noqa: S603  the user's own command
                self.command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                env=_environment(job, document),
                start_new_session=True,
            )
            self._running.add(process)
            return process

    def _ended(self, job: Job, process: subprocess.Popen[bytes], tail: _Tail) -> Result:
        try:
            code = process.wait(timeout=job.task.timeout_s)
        except subprocess.TimeoutExpired:
            end_groups([process])
            return _failed(f"timed out after {job.task.timeout_s} s", "timed_out")
        if code:
            return _failed(f"killed by signal {-code}" if code < 0 else f"exit code {code}")
        return Result(ok=True, text=self._reference(job, tail))

    def _reference(self, job: Job, tail: _Tail) -> str:
        if self.template is None:
            return reference(tail.last_line()) or NO_RESULT
        fields = {"{id}": job.task.id, "{flow}": job.flow, "{attempt}": str(job.attempt)}
        line = self.template
        for name, value in fields.items():
            line = line.replace(name, value)
        return reference(line) or NO_RESULT

    def stop(self) -> None:
        """End every group that runs, with the grace of a second for all."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        end_groups(running)


def _failed(text: str, outcome: Outcome = "errored") -> Result:
    return Result(ok=False, text=text, outcome=outcome)


def reference(text: str) -> str:
    """Return a line of output as a result reference: one line, cut; "" where it cannot be one."""
    line = " ".join(text.split())[:MAX_REFERENCE]
    return "" if not KINDS["Ref"].accepts(line) or secrets.find(line) else line


# ── process groups ──────────────────────────────────────────────────────────────────────────────


def end_groups(leaders: Sequence[subprocess.Popen[bytes]]) -> None:
    """End process groups: TERM for all, a second of grace, KILL for what is left of each."""
    for leader in leaders:
        _signal(leader, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for leader in leaders:
        with suppress(subprocess.TimeoutExpired):
            leader.wait(timeout=max(0.0, deadline - time.monotonic()))
    for leader in leaders:
        _signal(leader, signal.SIGKILL)  # also what a leader that has gone left behind
    for leader in leaders:
        with suppress(subprocess.TimeoutExpired):
            leader.wait(timeout=GRACE_S)


def _signal(leader: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader.pid, number)


# ── what goes in and what comes out ─────────────────────────────────────────────────────────────


def _document(job: Job) -> bytes:
    task = codec.to_json(job.task)
    whole = {"flow": job.flow, "attempt": job.attempt, "results": job.results, "task": task}
    return json.dumps(whole, ensure_ascii=False).encode()


def _environment(job: Job, document: bytes) -> dict[bytes, bytes]:
    """Return our own environment and the task's; as bytes, so that no locale can object."""
    own = {
        b"GFS_FLOW": job.flow.encode(),
        b"GFS_TASK_ID": job.task.id.encode(),
        b"GFS_ATTEMPT": b"%d" % job.attempt,
    }
    if len(document) <= MAX_ENVIRONMENT_BYTES:
        own[b"GFS_TASK"] = document
    return {name: value for name, value in os.environb.items() if name != b"GFS_TASK"} | own


class _Tail:
    """The end of a process's output, read in a thread so that the process never blocks."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._data = b""
        self._thread = threading.Thread(target=self._drain, args=(process.stdout,), daemon=True)
        self._thread.start()

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe, suppress(OSError):
            while chunk := os.read(pipe.fileno(), TAIL_BYTES):
                self._data = (self._data + chunk)[-TAIL_BYTES:]

    def last_line(self) -> str:
        """Return the last line that is not blank; a grandchild may hold the pipe open."""
        self._thread.join(timeout=AFTER_EXIT_S)
        lines = self._data.decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")
