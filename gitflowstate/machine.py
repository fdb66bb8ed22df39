"""The state machine: the tables, and `apply`.

Rule 1: every transition lives here. A table says which status an op may find and which it may
leave; a rule says what else changes; twenty lines interpret both.

`apply(op, state)` is pure and total over the union of ops. `state` maps the paths that `reads(op)`
names to documents, absent ones to None. It returns the very same mapping when there is nothing to
do; else a mapping with other values, of which None removes; or it raises, and nothing has changed.
The order is fixed: the receipt of the key, then `expect`, then the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitflowstate import codec, rules
from gitflowstate.errors import Corrupt, NotFound, Rejected, Stale
from gitflowstate.kinds import MAX_CHILDREN, MAX_GROWN, TERMINAL, Status
from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Fallen,
    Flow,
    Format,
    Receipt,
    Unusable,
    Value,
    archive_path,
    flow_path,
    key_path,
    latest,
    live,
)
from gitflowstate.ops import Adopt, Create, FlowOp, Import, Init, Observe, Op

State = Mapping[str, Value | None]

_ANY_LIVE: dict[Status, tuple[Status, ...]] = {
    "pending": ("pending",),
    "running": ("running",),
    "waiting": ("waiting",),
}

# op -> the status it finds -> the statuses it may leave. What is not here is refused.
# A terminal flow in a row is "already so": the rule leaves it as it is, or refuses.
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
    "adopt": {status: (status,) for status in (*_ANY_LIVE, *TERMINAL)},  # type: ignore[misc]
}


def reads(op: Op) -> tuple[str, ...]:
    """Return the paths of the documents that an op names, its key's receipt included."""
    paths: list[str] = [] if op.key is None else [key_path(op.key)]
    if isinstance(op, Init):
        paths.append(FORMAT_PATH)
    else:
        paths.append(UNUSABLE_PATH)
    if isinstance(op, FlowOp):
        paths += places(op.flow)
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
        return _observe(op, state)
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
    kept = [state[path] for path in places(flow) if state[path]]
    if len(kept) > 1:
        raise Corrupt(
            f"{flow} stands in flows/ and in archive/; both were left alone",
            hint="ask a person to revert the commit that added the second one",
        )
    return kept[0] if kept else None  # type: ignore[return-value]


def _entry(flow: str, state: State) -> Fallen | None:
    unusable = state[UNUSABLE_PATH]
    entries = unusable.flows if isinstance(unusable, Unusable) else ()
    return next((entry for entry in entries if entry.flow == flow), None)


def fallen(entry: Fallen) -> Corrupt:
    """Return the error for a flow that was edited by hand against the rules."""
    return Corrupt(
        f"{entry.flow} was edited by hand: its last managed revision is {entry.revision}, and what "
        "stands there now is not a later one",
        hint=f"gfs adopt {entry.flow} --reason REASON, or revert that commit",
        next=["gfs", "adopt", entry.flow, "--reason", "REASON"],
    )


def _born(op: Create | Import, state: State) -> State:
    existing = find(op.flow, state)
    entry = _entry(op.flow, state)
    if entry is not None:
        raise fallen(entry)
    if isinstance(op, Create):
        parent = state[archive_path(op.attempt_of)] if op.attempt_of else None
        flow = rules.create(op, parent if isinstance(parent, Flow) else None, existing)
    else:
        flow = rules.import_(op, existing)
    if flow is existing:
        return state
    return _written(op, state, None, flow)


def _changed(op: FlowOp, state: State) -> State:
    flow, entry = find(op.flow, state), _entry(op.flow, state)
    if entry is not None and (flow is None or not isinstance(op, Adopt)):
        raise fallen(entry)
    if flow is None:
        raise NotFound(f"there is no flow {op.flow}", hint="gfs list --all")
    _check_version(flow)
    _check_expected(op, flow)
    _check_owner(op, flow)
    after = _stepped(op, flow, entry)
    if after is flow:
        return state
    last = entry.revision if entry else flow.revision
    after = after.replace(revision=last + 1, updated_at=latest(op.at, flow.updated_at))
    return _written(op, state, flow, after)


def _stepped(op: FlowOp, flow: Flow, entry: Fallen | None) -> Flow:
    """Interpret the table: find the row, apply the rule, see that the status it left is allowed."""
    allowed = TABLE[op.TAG].get(flow.status)
    if allowed is None:
        raise _refused(op, flow)
    if isinstance(op, Adopt):
        return flow if entry is None else Flow(**flow.__dict__)
    after = RULES[op.TAG](op, flow)
    if after is not flow and (flow.status in TERMINAL and after.status in TERMINAL):
        raise _refused(op, flow)
    if after.status not in allowed:
        raise Rejected(f"{flow.id} is {flow.status}: {op.TAG} may not make it {after.status}")
    return after


def _refused(op: FlowOp, flow: Flow) -> Rejected:
    ended = not live(flow)
    return Rejected(
        f"{flow.id} is {flow.status} at r{flow.revision}: {op.TAG} is refused"
        + (f"; it ended with {flow.result_ref}" if flow.result_ref else ""),
        hint=f"gfs reopen {flow.id} --reason REASON --next TEXT, or gfs retry {flow.id}"
        if ended
        else f"gfs show {flow.id}",
        revision=flow.revision,
        status=flow.status,
        next=["gfs", "show", flow.id],
    )


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
}


def _check_version(flow: Flow) -> None:
    if flow.schema_version > Flow.VERSION:
        raise Rejected(
            f"{flow.id} has schema version {flow.schema_version}; this gfs writes {Flow.VERSION}",
            hint="upgrade gitflowstate",
        )


def _check_expected(op: FlowOp, flow: Flow) -> None:
    if op.expect is not None and op.expect != flow.revision:
        raise Stale(
            f"{flow.id} is at r{flow.revision}, not r{op.expect}",
            hint=f"gfs show {flow.id}, then decide",
            revision=flow.revision,
            next=["gfs", "show", flow.id],
        )


def _check_owner(op: FlowOp, flow: Flow) -> None:
    """Refuse a named actor what belongs to another named owner (architecture, section 9)."""
    if op.OWNERS and op.by != flow.owner and "local" not in (op.by, flow.owner):
        raise Stale(
            f"{flow.id} is owned by {flow.owner}; {op.by} may not {op.TAG} it",
            hint=f"gfs take {flow.id} --reason REASON, or ask {flow.owner} for gfs handoff",
            owner=flow.owner,
            next=["gfs", "take", flow.id, "--reason", "REASON"],
        )


def _written(op: FlowOp, state: State, before: Flow | None, after: Flow) -> State:
    """Return the state with the flow in its place, the receipt of the key, and no entry left."""
    if op.ADDS:
        check_size(after)
    active, archived = places(after.id)
    result: dict[str, Value | None] = {**state, active: None, archived: None}
    result[active if live(after) else archived] = after
    if isinstance(op, Adopt):
        result[UNUSABLE_PATH] = _unusable(state, (), (op.flow,))
    if op.key and op.request:
        result[key_path(op.key)] = Receipt(
            schema_version=1,
            request=op.request,
            flow=after.id,
            revision=after.revision,
            made=op.made,
        )
    assert before is None or after.revision > before.revision
    return result


def check_size(flow: Flow) -> None:
    """Refuse a flow that has grown past its limits. Raises Rejected (architecture, Limits)."""
    if len(flow.children) > MAX_CHILDREN:
        raise Rejected(f"{flow.id} would have {len(flow.children):,} tasks, of {MAX_CHILDREN:,}")
    size = len(codec.encode(flow))
    if size > MAX_GROWN:
        raise Rejected(
            f"{flow.id} would have {size:,} bytes; an addition may leave {MAX_GROWN:,}",
            hint="keep large texts in a file of their own and refer to it",
        )


# ── edits by hand ───────────────────────────────────────────────────────────────────────────────


def judge(
    entry: Fallen | None,
    before: tuple[Flow, str] | None,
    after: tuple[Flow, str] | None,
    flow: str,
) -> Fallen | None:
    """Return the entry a flow deserves after edits by hand, or None when it may be used.

    `before` and `after` are the document and the digest of its bytes, at the last managed commit
    and now; None where it is absent or does not decode (architecture, section 1, Hand-made).
    """
    last = entry
    if last is None and before is not None:
        last = Fallen(flow=flow, revision=before[0].revision, digest=before[1])
    if last is None or after is None:
        return last
    mended = after[0].revision > last.revision or after[1] == last.digest
    return None if mended else last


def _observe(op: Observe, state: State) -> State:
    after = _unusable(state, op.fallen, op.mended)
    return state if after == state[UNUSABLE_PATH] else {**state, UNUSABLE_PATH: after}


def _unusable(state: State, fallen: tuple[Fallen, ...], mended: tuple[str, ...]) -> Unusable | None:
    present = state[UNUSABLE_PATH]
    entries = {e.flow: e for e in present.flows} if isinstance(present, Unusable) else {}
    entries |= {entry.flow: entry for entry in fallen}
    kept = tuple(entries[flow] for flow in sorted(entries) if flow not in mended)
    return Unusable(schema_version=1, flows=kept) if kept else None
