"""A store in memory, through the same code path as the one on disk: for tests and comparisons."""

from __future__ import annotations

from typing import NamedTuple

from gitflowstate import codec, machine
from gitflowstate.errors import NotFound
from gitflowstate.model import Flow, Value
from gitflowstate.ops import FlowOp


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
