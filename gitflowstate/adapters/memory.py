"""A store and a channel in memory, for tests and comparisons: the same rules, and nothing outside.

Rule: `MemoryChannel` is part of the product, so that a user can test what is sent without a
service and without a mock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gitflowstate import codec, machine, marker
from gitflowstate.delivery import Gone
from gitflowstate.errors import NotFound
from gitflowstate.kinds import Time
from gitflowstate.model import Flow, Value
from gitflowstate.ops import FlowOp
from gitflowstate.ports import Capabilities, Found, Notice


class MemoryOutcome(NamedTuple):
    """What became of an op."""

    flow: Flow | None
    changed: bool


class MemoryStore:
    """Documents by path, changed by ops alone; gone when the process ends."""

    def __init__(self) -> None:
        self.documents: dict[str, Value] = {}
        self.saves = 0
        self.loads = 0

    def flow(self, flow: str) -> Flow:
        """Return a flow. Raises NotFound."""
        self.loads += 1
        state = {path: self.documents.get(path) for path in machine.places(flow)}
        found = machine.find(flow, state)
        if found is None:
            raise NotFound(f"there is no flow {flow}")
        return found

    def commit(self, op: FlowOp) -> MemoryOutcome:
        """Apply an op. Raises what `machine.apply` raises."""
        op = codec.checked(op)
        before = {path: self.documents.get(path) for path in machine.reads(op)}
        after = machine.apply(op, before)
        if after is not before:
            self.saves += 1
            for path, value in after.items():
                if value is None:
                    self.documents.pop(path, None)
                else:
                    self.documents[path] = value
        return MemoryOutcome(machine.find(op.flow, after), after is not before)

    def version(self) -> str:
        """Return what changes when anything does."""
        return str(self.saves)


class Message(NamedTuple):
    """A message as people see it; `edits` counts how often it was changed."""

    id: str
    target: str | None
    title: str
    text: str
    edits: int = 0


class MemoryChannel:
    """Messages in a list, with faults on demand.

    `before` and `after` hold what the next requests that write raise, before they take effect or
    after they have; None lets one pass. `log` holds each request as (verb, id or flow), those that
    failed too. A new message is found only after `lag` searches that do not show it.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        edits: bool = True,
        searches: bool = True,
        idempotent: bool = False,
        limit: int = 60_000,
        before: Iterable[Exception | None] = (),
        after: Iterable[Exception | None] = (),
        lag: int = 0,
    ) -> None:
        self.name = name
        self.capabilities = Capabilities(edits, searches, limit, idempotent)
        self.messages: list[Message] = []
        self.log: list[tuple[str, str]] = []
        self.before = list(before)
        self.after = list(after)
        self.lag = lag
        self.closed = False
        self._hidden: dict[str, int] = {}
        self._made = 0

    def post(self, notice: Notice) -> str:
        """Append a message and return its id."""
        self.log.append(("post", notice.flow))
        _next_fault(self.before)
        self._made += 1
        made = f"m{self._made}"
        self.messages.append(Message(made, notice.target, notice.title, notice.text))
        self._hidden[made] = self.lag
        _next_fault(self.after)
        return made

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Change a message. Raises Gone, always so where messages cannot be edited."""
        self.log.append(("edit", id))
        _next_fault(self.before)
        places = [place for place, each in enumerate(self.messages) if each.id == id]
        if not places or not self.capabilities.edits:
            raise Gone("the message is not there any more")
        known = self.messages[places[0]]
        self.messages[places[0]] = known._replace(
            title=notice.title, text=notice.text, edits=known.edits + 1
        )
        _next_fault(self.after)
        return id

    def digest(self, id: str) -> str | None:  # noqa: A002  as above
        """Return the digest of a message's text, where messages can be looked at."""
        self.log.append(("digest", id))
        texts = [each.text for each in self.messages if each.id == id]
        return codec.digest(texts[0].encode()) if texts and self.capabilities.searches else None

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return the messages that are marked with the flow, whenever they were sent."""
        del since
        self.log.append(("find", notice.flow))
        found = []
        for each in self.messages if self.capabilities.searches else ():
            mark = marker.read(each.text)
            if mark is not None and mark.flow == notice.flow and not self._is_hidden(each.id):
                whole = codec.digest(each.text.encode())
                found.append(Found(each.id, mark.flow, mark.kind, mark.revision, whole))
        return found

    def delete(self, id: str) -> None:  # noqa: A002  as above
        """Remove a message, as a person may."""
        self.messages = [each for each in self.messages if each.id != id]

    def close(self) -> None:
        """Note that nothing more will come."""
        self.closed = True

    def _is_hidden(self, id: str) -> bool:  # noqa: A002  as above
        self._hidden[id] = left = self._hidden.get(id, 0) - 1
        return left >= 0


def _next_fault(faults: list[Exception | None]) -> None:
    fault = faults.pop(0) if faults else None
    if fault is not None:
        raise fault
