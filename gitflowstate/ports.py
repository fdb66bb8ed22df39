"""The outside, as Protocols: clock, store, executor and channel, as worker and watcher use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from gitflowstate.cursors import Cursor, Delivery
from gitflowstate.history import Changes
from gitflowstate.kinds import Outcome as TaskOutcome
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Task
from gitflowstate.ops import FlowOp
from gitflowstate.watchops import CursorOp


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


class Flows(Protocol):
    """The flows as they stand at one commit of main, `head`; `broken` names the unusable ones."""

    head: str
    broken: list[str]

    @property
    def shallow(self) -> bool:
        """Tell whether history was cut, so that an unknown commit is nothing to wonder at."""

    def is_behind(self, commit: str) -> bool:
        """Tell whether a commit was built on the one that the flows are seen at."""

    def changes(self, since: str | None) -> Changes:
        """Return the flows that changed after a commit, every flow where it is not known."""

    def flow(self, flow: str) -> Flow | None:
        """Return a flow, None where it is absent or cannot be used."""

    def flows(self) -> Iterator[Flow]:
        """Yield every flow that can be used."""


class Cursors(Protocol):
    """The cursor of one channel; `problems` collects what of it could not be read."""

    problems: list[str]

    def load(self) -> Cursor | None:
        """Return the cursor, None where there is none yet."""

    def delivery(self, flow: str) -> Delivery | None:
        """Return what the channel was last told of a flow."""

    def acknowledged(self, chunks: int) -> dict[str, int]:
        """Return the flows that count as acknowledged, and the revision of each."""

    def commit(self, op: CursorOp) -> None:
        """Apply an op durably. Raises Stale where another watcher came first."""


# What became of bringing a ref of the remote here: it is here; there is none; or what it holds is
# not built on what it was when it was last brought.
Tracked = Literal["here", "absent", "replaced"]


IS_THERE = "up to date"  # why a push moved nothing: the ref held the very commit


class Remote(Protocol):
    """The origin of a repository: its refs, read and moved one at a time."""

    def refs(self, *names: str) -> dict[str, str]:
        """Return what each ref holds there; absent ones are left out."""

    def fetch(self, name: str, *, shallow: bool = False) -> None:
        """Bring the commit of a ref, and what it needs, into the repository's objects alone.

        `shallow` leaves out what came before it, where the repository's history is cut already.
        """

    def track(self, name: str, into: str) -> Tracked:
        """Bring a ref and what it needs to a private ref here, which only ever moves forward.

        Raises Unavailable, Denied, or NotFound where there is no repository.
        """

    def push(self, name: str, old: str | None, new: str) -> str | None:
        """Move a ref there from a value to a commit; return why it was refused, None if it moved.

        That is IS_THERE where it held the commit. Raises NotSent where nothing left this machine,
        Unknown where no answer came after something did: the ref has to be looked at.
        """

    def try_push(self, name: str, commit: str) -> None:
        """Ask whether a ref could be moved there, and move none. Raises Unavailable or Denied."""


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

    def left(self, flow: str) -> list[str]:
        """Return the dead workers on a flow of whom something is still kept."""

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
    """What a channel can do; `limit` bounds one message, in characters and in bytes.

    `idempotent` says that its receiver knows a message that comes twice, so that one whose fate is
    unknown may be sent again at once.
    """

    edits: bool
    searches: bool
    limit: int
    idempotent: bool = False


class Found(NamedTuple):
    """A message of our own on a channel, and what its marker says.

    `digest` is the sha256 of its whole text in UTF-8, empty where the channel does not tell.
    """

    id: str
    flow: str
    kind: str
    revision: int
    digest: str = ""


class Channel(Protocol):
    """Where people are told; raises the errors of `delivery`, and nothing else on purpose."""

    name: str
    capabilities: Capabilities

    def post(self, notice: Notice) -> str:
        """Send a new message and return its id."""

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Bring a message to the text of the notice and return its id. Raises Gone."""

    def digest(self, id: str) -> str | None:  # noqa: A002  as above
        """Return the sha256 of a message's text as it is there now.

        None where that cannot be told, or the message is not there any more.
        """

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return own messages with the marker of the notice's flow, the oldest first.

        `since` bounds how far back to look; empty where the channel cannot search.
        """

    def close(self) -> None:
        """Let go of what the channel holds."""
