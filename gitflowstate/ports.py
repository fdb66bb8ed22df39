"""The outside, as Protocols: what a worker needs of a clock, a store and an executor."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gitflowstate.kinds import Outcome as TaskOutcome
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Task
from gitflowstate.ops import FlowOp


class Committed(Protocol):
    """What is known of an op that was committed."""

    @property
    def flow(self) -> Flow | None:
        """Return the flow as it is afterwards."""


class FlowStore(Protocol):
    """Where flows are read and ops are committed; a repository, or memory."""

    def flow(self, flow: str) -> Flow:
        """Return a flow. Raises NotFound."""

    def commit(self, op: FlowOp) -> Committed:
        """Apply an op durably. Raises what `machine.apply` raises."""

    def version(self) -> str | None:
        """Return what changes when anything does, cheaply."""


class Clock(Protocol):
    """The time."""

    def now(self) -> Time:
        """Return the time in UTC."""

    def later(self, seconds: int) -> Time:
        """Return the time that is so many seconds from now."""


class Job(NamedTuple):
    """One claimed task, and where results of its dependencies are."""

    flow: str
    task: Task
    attempt: int
    results: dict[str, str]


class Result(NamedTuple):
    """What came of a job: its result reference, or why it failed."""

    ok: bool
    text: str
    outcome: TaskOutcome = "completed"


class Executor(Protocol):
    """What carries out a job."""

    def run(self, job: Job) -> Result:
        """Carry out a job to its end; called in a thread of its own."""

    def stop(self) -> None:
        """End whatever runs, soon: its results will not be recorded."""


class Liveness(Protocol):
    """What is known of workers on this machine."""

    def is_dead(self, worker: str) -> bool:
        """Tell whether a worker's lock proves that it is dead; absence proves nothing."""

    def forget(self, worker: str) -> None:
        """Drop what was kept of a dead worker."""
