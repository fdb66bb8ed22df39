"""The state machine: the tables, and `apply`.

Rule 1: every transition lives here. A table says which status an op may find and which it may
leave; `rules` says what else changes, `guards` what every op must pass, `judgement` which flows
edits by hand have left unusable; twenty lines interpret all four.

`apply(op, state)` is pure and total over the union of ops. `state` maps the paths that `reads(op)`
names to documents, absent ones to None. It returns the very same mapping when there is nothing to
do; else a mapping with other values, of which None removes; or it raises, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitflowstate import guards, plans, rules, taskrules
from gitflowstate.errors import Corrupt, NotFound, Rejected, Stale
from gitflowstate.judgement import entry_of, fallen, listed
from gitflowstate.kinds import TERMINAL, Status
from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Fallen,
    Flow,
    Format,
    Receipt,
    Value,
    archive_path,
    flow_path,
    key_path,
    latest,
    live,
    plan_path,
)
from gitflowstate.ops import Adopt, Create, FlowOp, Import, Init, Observe, Op, ProcessOp, flow_of
from gitflowstate.processmodel import process_path

State = Mapping[str, Value | None]

# The life of a flow
#
#     create ─→ pending ⇄ running ⇄ waiting        kept in flows/
#                  └─────┬────┴─────────┘
#                        ↓     ↑ reopen
#                      done, failed                kept in archive/
#
# `create` makes a flow that is pending; `import` takes one over in whatever state it is. From then
# on the table decides. Its rows are the operations, its columns the five statuses, and an entry
# lists the statuses that the operation may leave behind. A column that a row does not have is a
# refusal: that is how a terminal flow, which stands in the rows of `reopen` and `adopt` only, stays
# as it ended. `done` finds done, and `fail` finds failed, for one reason: the same end reported
# twice is "already so" and succeeds, while another end is refused (`_stepped`).
#
# A few things are true of every row, and are kept out of it. An op that would leave the flow as it
# is makes no revision. One that changes it makes exactly one, stamps `updated_at`, which never goes
# back, and moves the document between the folders when it ends or is reopened. An op on a task has
# a row here for the status of its flow; that of the task has a table of its own, in `taskrules`.
#
# The order in which an op is judged is part of the contract, for it decides what the repeat of a
# lost answer gets: first the receipt of its key (this request was carried out: nothing to do), then
# whether the flow can be used at all, then `expect`, then the owner, then the table, then the rule.

_ANY_LIVE: dict[Status, tuple[Status, ...]] = {
    "pending": ("pending",),
    "running": ("running",),
    "waiting": ("waiting",),
}

# The first claim or progress makes a pending flow run (architecture, section 3).
_PROGRESS: dict[Status, tuple[Status, ...]] = {**_ANY_LIVE, "pending": ("running", "pending")}

# op -> the status it finds -> the statuses it may leave.
TABLE: dict[str, dict[Status, tuple[Status, ...]]] = {
    "update": {
        "pending": ("pending", "running"),
        "running": ("running", "pending"),
        "waiting": ("waiting",),
    },
    "note": _ANY_LIVE,
    "wait": {"pending": ("waiting",), "running": ("waiting",), "waiting": ("waiting",)},
    "resume": {"waiting": ("running",), "running": ("running",)},
    "done": {"pending": ("done",), "running": ("done",), "waiting": ("done",), "done": ("done",)},
    "fail": {
        "pending": ("failed",),
        "running": ("failed",),
        "waiting": ("failed",),
        "failed": ("failed",),
    },
    "reopen": {"done": ("running",), "failed": ("running",)},
    "handoff": _ANY_LIVE,
    "take": _ANY_LIVE,
    "adopt": {status: (status,) for status in (*_ANY_LIVE, *TERMINAL)},
    "plan": _ANY_LIVE,
    "task add": _ANY_LIVE,
    "task claim": _PROGRESS,
    "task renew": _ANY_LIVE,
    "task release": _ANY_LIVE,
    "task done": _PROGRESS,
    "task fail": _PROGRESS,
    "task wait": _PROGRESS,
    "task resume": _ANY_LIVE,
    "task retry": _ANY_LIVE,
    "task expire": _ANY_LIVE,
    "recover": _ANY_LIVE,
}


def reads(op: Op) -> tuple[str, ...]:
    """Return the paths of the documents that an op names, its key's receipt included."""
    paths: list[str] = [] if op.key is None else [key_path(op.key)]
    if isinstance(op, Init):
        paths.append(FORMAT_PATH)
    else:
        paths.append(UNUSABLE_PATH)
    flow = flow_of(op)
    if flow is not None:
        paths += places(flow)
    if isinstance(op, ProcessOp):
        paths.append(process_path(op.session_id, op.process))
    if isinstance(op, Create) and op.attempt_of:
        paths.append(archive_path(op.attempt_of))
    return tuple(paths)


def apply(op: Op, state: State) -> State:
    """Return the documents after the op, or `state` itself when there is nothing to do.

    Raises Rejected (3), Stale (4), NotFound (5) or Corrupt (6); then nothing has changed.
    """
    if answered(op, state):
        return state
    if isinstance(op, Init):
        return {**state, FORMAT_PATH: Format(format=1)} if state[FORMAT_PATH] is None else state
    if isinstance(op, Observe):
        unusable = listed(state[UNUSABLE_PATH], op.fallen, op.mended)
        return state if unusable == state[UNUSABLE_PATH] else {**state, UNUSABLE_PATH: unusable}
    if isinstance(op, ProcessOp):
        from gitflowstate.processrules import run  # noqa: PLC0415  start-up: of processes alone

        return run(op, state, usable, _changed)
    assert isinstance(op, FlowOp)
    if isinstance(op, (Create, Import)):
        return _born(op, state)
    return _changed(op, state)


def answered(op: Op, state: State) -> Receipt | None:
    """Return the receipt of the op's key, if this very request was carried out before.

    Raises Stale when the key was used for another request.
    """
    receipt = state[key_path(op.key)] if op.key else None
    if not isinstance(receipt, Receipt):
        return None
    if receipt.request != op.request:
        raise Stale(
            f"the key was first used for another request, on {receipt.flow} r{receipt.revision}",
            hint="use a new key for a new request",
            flow=receipt.flow,
            revision=receipt.revision,
        )
    return receipt


# ── one flow ────────────────────────────────────────────────────────────────────────────────────


def places(flow: str) -> tuple[str, str]:
    """Return where a flow may stand: while it lives, and once it has ended."""
    return flow_path(flow), archive_path(flow)


def find(flow: str, state: State) -> Flow | None:
    """Return the flow among the documents, wherever it is kept.

    Raises Corrupt when it stands in both folders.
    """
    kept = [found for path in places(flow) if isinstance(found := state[path], Flow)]
    if len(kept) > 1:
        raise Corrupt(
            f"{flow} stands in flows/ and in archive/; both were left alone",
            hint="ask a person to revert the commit that added the second one",
        )
    return kept[0] if kept else None


def _born(op: Create | Import, state: State) -> State:
    existing = find(op.flow, state)
    entry = entry_of(state[UNUSABLE_PATH], op.flow)
    if entry is not None:
        raise fallen(entry, stands=existing is not None)
    guards.check_expected(op, existing)
    if isinstance(op, Create):
        flow = rules.create(op, _parent(op, state) if existing is None else None, existing)
    else:
        flow = rules.import_(op, existing)
    if flow is existing:
        return state
    return _written(op, state, None, flow)


def _parent(op: Create, state: State) -> Flow | None:
    """Return the ended flow that a create tries again, if there is one that may be used."""
    if op.attempt_of is None:
        return None
    entry = entry_of(state[UNUSABLE_PATH], op.attempt_of)
    if entry is not None:
        raise fallen(entry, stands=state[archive_path(op.attempt_of)] is not None)
    parent = state[archive_path(op.attempt_of)]
    if not isinstance(parent, Flow):
        return None
    guards.check_version(parent)
    return parent


def _changed(op: FlowOp, state: State) -> State:
    entry = entry_of(state[UNUSABLE_PATH], op.flow)
    flow = usable(op.flow, state, adopting=isinstance(op, Adopt))
    guards.check_version(flow)
    guards.check_expected(op, flow)
    guards.check_owner(op, flow)
    after = _stepped(op, flow, entry)
    if after is flow:
        return state
    last = max(flow.revision, entry.revision if entry else 0)
    revision = guards.next_revision(flow.id, last)
    after = after.replace(revision=revision, updated_at=latest(op.at, flow.updated_at))
    return _written(op, state, flow, after)


def usable(flow: str, state: State, *, adopting: bool = False) -> Flow:
    """Return a flow that an op may look at. Raises NotFound or Corrupt."""
    found, entry = find(flow, state), entry_of(state[UNUSABLE_PATH], flow)
    if entry is not None and (found is None or not adopting):
        raise fallen(entry, stands=found is not None)
    if found is None:
        raise NotFound(f"there is no flow {flow}", next=["gfs", "list", "--all"])
    return found


def _stepped(op: FlowOp, flow: Flow, entry: Fallen | None) -> Flow:
    """Interpret the table: find the row, apply the rule, see that the status it left is allowed."""
    allowed = TABLE[op.TAG].get(flow.status)
    if allowed is None:
        raise guards.refused(op, flow)
    if isinstance(op, Adopt):  # the same document, but as another object: a change
        return flow if entry is None else Flow(**flow.__dict__)
    after = RULES[op.TAG](op, flow)
    if after is not flow and (flow.status in TERMINAL and after.status in TERMINAL):
        raise guards.refused(op, flow)
    if after.status not in allowed:
        raise Rejected(f"{flow.id} is {flow.status}: {op.TAG} may not make it {after.status}")
    return after


RULES: dict[str, Callable[[Any, Flow], Flow]] = {
    "update": rules.update,
    "note": rules.note,
    "wait": rules.wait,
    "resume": rules.resume,
    "done": rules.done,
    "fail": rules.fail,
    "reopen": rules.reopen,
    "handoff": rules.handoff,
    "take": rules.take,
    "plan": plans.plan,
    "task add": plans.add,
    "task claim": taskrules.claim,
    **{tag: taskrules.settle for tag in taskrules.TABLE if tag != "task claim"},
}


def _written(op: FlowOp, state: State, before: Flow | None, after: Flow) -> State:
    """Return the state with the flow in its place, the receipt of the key, and no entry left."""
    guards.check_readable(after)
    if op.ADDS:
        guards.check_size(after)
    active, archived = places(after.id)
    result: dict[str, Value | None] = {**state, active: None, archived: None}
    result[active if live(after) else archived] = after
    if after.plan is not None and after.plan != (before.plan if before else None):
        result[plan_path(after.id, after.plan)] = plans.plan_of(after)
    if isinstance(op, Adopt):
        result[UNUSABLE_PATH] = listed(state[UNUSABLE_PATH], (), (op.flow,))
    if op.key and op.request and op.fulfilled_in(after):
        result[key_path(op.key)] = Receipt(
            schema_version=1,
            request=op.request,
            flow=after.id,
            revision=after.revision,
            made=op.made_in(after),
        )
    assert before is None or after.revision > before.revision
    return result
