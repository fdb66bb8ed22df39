"""The operations on a background process: the intent to start it, its start, and its end.

Rules: as in `ops`. The intent is durable before the process exists. Where an op names a flow and a
task, it changes them in the same commit. What nobody knows is `lost`, and is never run again.
"""

from __future__ import annotations

from typing import ClassVar

from gitflowstate import prose
from gitflowstate.kinds import (
    Argument,
    Count,
    Flag,
    Id,
    Int,
    Name,
    Notify,
    ProcessState,
    Reason,
    Ref,
    Text,
    Time,
)
from gitflowstate.model import Flow
from gitflowstate.ops import Op, ProcessOp

_SHOWN = 200  # characters of a command, in the text of a commit


class ServingOp(ProcessOp):
    """An operation that changes what its process serves: a flow, and a task of it."""

    flow: Id | None = None
    task: Id | None = None


class RunIntend(ServingOp):
    """Record that a process is about to be started; it then serves the task, if it names one.

    `until` is that of the claim on the task, which nobody may end while the process runs.
    """

    TAG = "run intend"
    ADDS = True

    call_id: Text | None = None
    argv: tuple[Argument, ...]
    cwd: Text
    host: Name
    boot_id: Name
    notify: Notify = "on_exit"
    timeout_s: Count | None = None
    until: Time | None = None

    def headline(self, flow: Flow | None) -> str:
        """Return the command, and for which task it is."""
        command = prose.cut(prose.fold(" ".join(self.argv)), _SHOWN)
        return f"{self.task} by {self.process}: {command}" if flow else command


class RunStart(ProcessOp):
    """Record that a process runs, and its identity; it is blocked until this is durable."""

    TAG = "run start"

    pid: Count
    ticks: Count
    started_at: Time

    def headline(self, flow: Flow | None) -> str:
        """Return the process id of the system."""
        del flow
        return f"pid {self.pid}"


class RunSettle(ServingOp):
    """Record how a process ended; `result` is what its task gets, if it has one.

    The identity is given where the start was never recorded.
    """

    TAG = "run settle"
    BODY: ClassVar = (("Reason", "reason"),)

    state: ProcessState
    finished_at: Time
    pid: Count | None = None
    ticks: Count | None = None
    started_at: Time | None = None
    exit_code: Int | None = None
    signal: Name | None = None
    sent: tuple[Name, ...] = ()
    reason: Reason | None = None
    output_ref: Ref | None = None
    output_bytes: Count = 0
    output_truncated: Flag = False
    returned: Flag = False
    result: Ref | None = None

    def headline(self, flow: Flow | None) -> str:
        """Return how it ended, and for which task it was."""
        how: str = self.state
        if self.signal is not None:
            how = f"{self.state} by {self.signal}"
        elif self.exit_code is not None:
            how = f"{self.state}, exit code {self.exit_code}"
        return f"{self.task} by {self.process}: {how}" if flow else how


class RunLose(ServingOp):
    """Record that nobody can know what became of a process."""

    TAG = "run lose"
    HEADLINE = ("reason",)

    reason: Reason

    def headline(self, flow: Flow | None) -> str:
        """Return why, and for which task it was."""
        return f"{self.task} by {self.process}: {self.reason}" if flow else self.reason


UNION: tuple[type[ProcessOp], ...] = (RunIntend, RunStart, RunSettle, RunLose)
BY_TAG: dict[str, type[Op]] = {op.TAG: op for op in UNION}

# What became of a process once its start was intended: nobody has to decide about it.
FACTS = (RunStart.TAG, RunSettle.TAG, RunLose.TAG)
