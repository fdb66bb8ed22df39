"""The outside, as Protocols: clock, store, executor and channel, as worker and watcher use them."""

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


class Notice(NamedTuple):
    """One message that a channel owes about a flow; `kind` is `status`, `waiting` or `final`.

    `text` is the whole of it in Markdown, its marker the first line; `target` says where it goes,
    in the channel's own words.
    """

    flow: str
    kind: str
    revision: int
    target: str | None
    title: str
    text: str


class Capabilities(NamedTuple):
    """What a channel can do; `limit` bounds one message, in characters and in bytes."""

    edits: bool
    searches: bool
    limit: int


class Found(NamedTuple):
    """A message of our own on a channel, and what its marker says."""

    id: str
    flow: str
    kind: str
    revision: int


class Channel(Protocol):
    """Where people are told; raises the errors of `delivery`, and nothing else on purpose."""

    name: str
    capabilities: Capabilities

    def post(self, notice: Notice) -> str:
        """Send a new message and return its id."""

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Bring a message to the text of the notice and return its id. Raises Gone."""

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return own messages with the marker of the notice's flow, the oldest first.

        `since` bounds how far back to look; empty where the channel cannot search.
        """

    def close(self) -> None:
        """Let go of what the channel holds."""
