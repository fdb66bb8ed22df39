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
from contextlib import suppress
from typing import IO

from gitflowstate import codec
from gitflowstate.ports import Job, Result
from gitflowstate.worker import reference

GRACE_S = 1.0
AFTER_EXIT_S = 2.0
TAIL_BYTES = 65_536
MAX_ENVIRONMENT_BYTES = 100_000  # one variable may have 128 KiB
NO_RESULT = "none"


class CommandExecutor:
    """Runs one command for every job."""

    def __init__(self, command: list[str], template: str | None = None) -> None:
        self.command = command
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
                return Result(False, f"cannot be started: {error.strerror}", "errored")  # noqa: FBT003
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
            end_group(process)
            return Result(False, f"timed out after {job.task.timeout_s} s", "timed_out")  # noqa: FBT003
        if code < 0:
            return Result(False, f"killed by signal {-code}", "errored")  # noqa: FBT003
        if code > 0:
            return Result(False, f"exit code {code}", "errored")  # noqa: FBT003
        return Result(True, self._reference(job, tail.last_line()))  # noqa: FBT003

    def _reference(self, job: Job, line: str) -> str:
        if self.template is not None:
            line = self.template.replace("{id}", job.task.id).replace("{flow}", job.flow)
            line = line.replace("{attempt}", str(job.attempt))
        return reference(line) or NO_RESULT

    def stop(self) -> None:
        """End every group that runs, with the grace of a second."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for process in running:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process group: TERM, a second of grace, KILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # what its leader left behind
        return


def _document(job: Job) -> bytes:
    task = codec.to_json(job.task)
    whole = {"flow": job.flow, "attempt": job.attempt, "results": job.results, "task": task}
    return json.dumps(whole, ensure_ascii=False).encode()


def _environment(job: Job, document: bytes) -> dict[str, str]:
    own = {"GFS_FLOW": job.flow, "GFS_TASK_ID": job.task.id, "GFS_ATTEMPT": str(job.attempt)}
    if len(document) <= MAX_ENVIRONMENT_BYTES:
        own["GFS_TASK"] = document.decode()
    return {**os.environ, **own}


class _Tail:
    """The end of a process's output, read in a thread so that the process never blocks."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._data = b""
        self._process = process
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            while chunk := os.read(self._process.stdout.fileno(), TAIL_BYTES):
                self._data = (self._data + chunk)[-TAIL_BYTES:]

    def last_line(self) -> str:
        """Return the last line that is not blank; a grandchild may hold the pipe open."""
        self._thread.join(timeout=AFTER_EXIT_S)
        if not self._thread.is_alive() and self._process.stdout is not None:
            self._process.stdout.close()
        lines = [
            line for line in self._data.decode("utf-8", "replace").splitlines() if line.strip()
        ]
        return lines[-1] if lines else ""
