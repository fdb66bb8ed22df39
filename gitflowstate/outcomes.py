"""What becomes of an operation: the commit it makes, and what is checked before one is made.

Rule: nothing is written here; `store` publishes what is staged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gitflowstate import codec, documents, machine
from gitflowstate.errors import Rejected
from gitflowstate.git import CommitInfo, Oid, Repository, Staged
from gitflowstate.machine import State
from gitflowstate.message import RULES, decode_trailers, encode_message
from gitflowstate.model import Flow, Receipt, seconds
from gitflowstate.ops import Op, ProcessOp, flow_of
from gitflowstate.processmodel import Process, process_path


class Base(NamedTuple):
    """What the next commit is built on: the ref's value, its commit, and what `observe` changed."""

    old: Oid | None
    head: CommitInfo | None
    observed: State


class Outcome(NamedTuple):
    """What became of an op: the commit it made, if any, and the documents before and after.

    `old` is what the ref held.
    """

    op: Op
    commit: str | None
    before: State
    after: State
    message: bytes = b""
    changes: Mapping[str, bytes | None] = {}
    old: Oid | None = None

    @property
    def flow(self) -> Flow | None:
        """Return the flow of the op as it is afterwards."""
        flow = flow_of(self.op)
        return machine.find(flow, self.after) if flow else None

    @property
    def process(self) -> Process | None:
        """Return the process of the op as it is afterwards."""
        if not isinstance(self.op, ProcessOp):
            return None
        found = self.after[process_path(self.op.session_id, self.op.process)]
        return found if isinstance(found, Process) else None

    @property
    def receipt(self) -> Receipt | None:
        """Return the receipt of the op's key where this very request was carried out before."""
        return machine.answered(self.op, self.before)


def staged(
    repo: Repository, op: Op, head: CommitInfo | None, before: State, after: State
) -> tuple[Outcome, Staged]:
    """Return the commit of an op on a head, and its objects; nothing is written."""
    changes = {
        path: None if value is None else codec.encode(value)
        for path, value in after.items()
        if value is not before.get(path)
    }
    flow = changed_flow(op, before, after)
    message = encode_message(op, flow)
    objects = repo.commit_object(
        repo.stage(head.tree if head else None, changes),
        [head.oid] if head else [],
        message,
        op.by,
        seconds(op.at),
    )
    old = head.oid if head else None
    return Outcome(op, objects.commit, before, after, message, changes, old), objects


def changed_flow(op: Op, before: State, after: State) -> Flow | None:
    """Return the flow that an op changed, as it is afterwards; a process op may change none."""
    flow = flow_of(op)
    if flow is None or all(after[path] is before[path] for path in machine.places(flow)):
        return None
    return machine.find(flow, after)


def check_type(repo: Repository, op: Op, tree: str, before: State, after: State) -> None:
    """Refuse data that the user's own schema for its type does not accept. Raises Invalid."""
    flow = changed_flow(op, before, after)
    old = machine.find(flow.id, before) if flow else None
    if flow is None or flow.type is None or flow.data is None:
        return
    if old is not None and (old.type, old.data) == (flow.type, flow.data):
        return
    schema = documents.blob_at(repo, tree, f"types/{flow.type}.schema.json")
    if schema is not None:
        from gitflowstate import usertypes  # noqa: PLC0415  jsonschema is slow to import

        usertypes.check_data(schema, flow.data, flow.type)


def check_rules(managed: CommitInfo) -> None:
    """Refuse to write after a newer rule set. Raises Rejected."""
    trailers = decode_trailers(managed.message) or {}
    number = int(trailers.get("Gfs-Rules", RULES))
    if number > RULES:
        raise Rejected(
            f"the head was written under rule set {number}; this gfs knows {RULES}",
            hint="upgrade gitflowstate; reading works meanwhile",
        )
