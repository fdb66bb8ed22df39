"""Laws of `machine.apply`: they hold for every operation and every small repository."""

from __future__ import annotations

from typing import Any

import pytest
import strategies
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scaling import scale

from gitflowstate import codec, machine, message
from gitflowstate.errors import Blocked, Corrupt, Invalid, NotFound, Rejected, Stale
from gitflowstate.kinds import TERMINAL
from gitflowstate.model import Claim, Flow, key_path
from gitflowstate.ops import Adopt, Create, FlowOp, Import, Init, Observe, Reopen
from gitflowstate.outcomes import changed_flow
from gitflowstate.processmodel import has_ended, process_path
from gitflowstate.processops import UNION as PROCESS_UNION
from gitflowstate.rules import normalised
from gitflowstate.union import UNION

DOCUMENTED = (Rejected, Invalid, Stale, NotFound, Corrupt, Blocked)
many = settings(max_examples=scale(60))
on_flows = [kind for kind in UNION[::-1] if issubclass(kind, FlowOp)]
any_op = st.tuples(strategies.operations(), strategies.worlds())
cases = st.tuples(strategies.operations(*on_flows), strategies.worlds())


def read(op, world):
    return {path: world.get(path) for path in machine.reads(op)}


def applied(op, world) -> tuple[Any, Any]:
    """Return the state that an op read and the one it made; the same one when it is refused."""
    state = read(op, world)
    try:
        after = machine.apply(op, state)
    except DOCUMENTED as error:
        event(f"{op.TAG}: {type(error).__name__}")
        return state, state
    event(f"{op.TAG}: {'nothing to do' if after is state else 'changed'}")
    return state, after


def as_bytes(documents):
    return {path: codec.encode(codec.checked(value)) for path, value in documents.items() if value}


def flows_in(state):
    return {value.id: value for value in state.values() if isinstance(value, Flow)}


@many
@given(any_op)
def test_apply_is_total_and_pure(case):
    """Only documented errors; the same answer twice; neither the op nor the state is touched."""
    op, world = case
    state = read(op, world)
    before, asked = as_bytes(state), codec.to_json(op)
    answers: list[Any] = []
    for _ in range(2):
        try:
            answers.append(as_bytes(machine.apply(op, state)))
        except DOCUMENTED as error:
            answers.append((type(error), error.message, error.hint, error.details))
        assert as_bytes(state) == before
        assert codec.to_json(op) == asked
    assert answers[0] == answers[1]


@many
@given(any_op)
def test_the_same_mapping_comes_back_exactly_when_nothing_changes(case):
    state, after = applied(*case)
    assert (after is state) == (as_bytes(after) == as_bytes(state))


@pytest.mark.req("R-TF-17", "R-TF-27")
@many
@given(cases)
def test_a_change_is_one_flow_and_one_revision(case):
    op, world = case
    state, after = applied(op, world)
    before, now = flows_in(state), flows_in(after)
    changed = [name for name in now if now[name] != before.get(name)]
    assert before.keys() <= now.keys()
    if after is state or isinstance(op, (Init, Observe)):
        assert changed == []
        return
    assert changed == [op.flow]
    old, new = before.get(op.flow), now[op.flow]
    if isinstance(op, Import):
        assert (old, new.revision) == (None, op.document.revision)
    elif isinstance(op, Create):
        assert (old, new.revision) == (None, 1)
    elif isinstance(op, Adopt):
        assert new.replace(revision=1, updated_at=op.at) == old.replace(
            revision=1, updated_at=op.at
        )
        assert new.revision > old.revision
    else:
        assert new.revision == old.revision + 1
    if old is not None:
        assert new.updated_at == max(op.at, old.updated_at)


ONE = {"session_id": st.just("s-1"), "process": st.just("p-1")}


@st.composite
def served(draw) -> tuple[Any, dict[str, Any]]:
    """Draw an op on a process, and a world where that is mostly there and serves a task."""
    op, world = draw(strategies.operations(*PROCESS_UNION, **ONE)), draw(strategies.worlds())
    process = draw(strategies.processes).replace(id="p-1", session_id="s-1")
    there = [world.get(path) for path in machine.places("f-1")]
    flow = next(filter(None, there), None)
    if draw(st.integers(0, 4)) == 0 or flow is None:
        return op, world
    process = process.replace(flow=flow.id, task=flow.children[0].id)
    if op.TAG != "run intend":
        world[process_path("s-1", "p-1")] = process
        held = Claim(worker="p-1", by="ann", attempt=2, until=flow.updated_at)
        first = flow.children[0].replace(claim=held, process="p-1")
        flow = flow.replace(children=(first, *flow.children[1:]))
        world[strategies.place(flow)] = flow
    if op.TAG != "run start":
        op = op.replace(flow=process.flow, task=process.task)
    return op, world


@pytest.mark.req("R-TJ-04", "R-TF-27")
@many
@given(served())
def test_an_op_on_a_process_changes_that_and_one_flow_at_most(case):
    """One revision of the flow that it names, if any; and what has ended stays as it ended."""
    op, world = case
    state, after = applied(op, world)
    own = process_path(op.session_id, op.process)
    changed = {path for path in after if after[path] is not state[path]}
    if after is state:
        assert not changed
        return
    assert own in changed
    assert state[own] is None or not has_ended(state[own])
    before, now = flows_in(state), flows_in(after)
    touched = [name for name in now if now[name] != before.get(name)]
    assert changed == {own, *(strategies.place(now[name]) for name in touched)}
    assert touched in ([], [getattr(op, "flow", None)])
    for name in touched:
        assert now[name].revision == before[name].revision + 1


@pytest.mark.req("R-TF-22")
@many
@given(strategies.operations(*on_flows), strategies.worlds(status=st.sampled_from(TERMINAL)))
def test_a_terminal_flow_never_changes_except_by_reopen(op, world):
    """`adopt` alone may touch one beside it, and then only its revision."""
    state, after = applied(op, world)
    for name, old in flows_in(state).items():
        new = flows_in(after)[name]
        if old.status not in TERMINAL or new is old:
            continue
        assert isinstance(op, (Reopen, Adopt))
        if isinstance(op, Adopt):
            assert new.replace(revision=1, updated_at=op.at) == old.replace(
                revision=1, updated_at=op.at
            )


@pytest.mark.req("R-TF-15", "R-TF-21")
@many
@given(any_op)
def test_what_apply_makes_is_read_again_from_where_it_stands(case):
    _, after = applied(*case)
    for path, value in after.items():
        if value is not None:
            assert codec.decode_at(path, codec.encode(value)) == value


@many
@given(
    strategies.operations(*on_flows, key=strategies.keys),
    strategies.worlds(),
    strategies.times,
    st.booleans(),
)
def test_a_repeated_key_never_makes_a_second_change(op, world, later, expecting):
    """The repeat comes later, from a caller who may expect a revision that is long gone."""
    state, after = applied(op, world)
    if after is state:
        return
    receipt = after[key_path(op.key)]
    if not op.fulfilled_in(flows_in(after)[op.flow]):
        assert receipt is None
        return
    assert (receipt.flow, receipt.revision) == (op.flow, flows_in(after)[op.flow].revision)
    again = op.replace(at=later, expect=99 if expecting else None)
    assert machine.apply(again, after) is after
    other = again.replace(request="7" * 64)
    with pytest.raises(Stale):
        machine.apply(other, after)


@pytest.mark.req("F1", "F2")
@many
@given(any_op)
def test_a_commit_can_be_replayed_from_its_message(case):
    """The law: what the message says, applied to the parent, gives the same documents."""
    op, world = case
    state, after = applied(op, world)
    if after is state:
        return
    flow = changed_flow(op, state, after)
    text = message.encode_message(op, flow)
    changed = [
        codec.encode(value)
        for path, value in after.items()
        if value is not None and value is not state.get(path)
    ]
    record = message.decode_message(text, message.large_parts(changed))
    if isinstance(op, Import):
        assert normalised(record.op.document) == normalised(op.document)
    else:
        assert record.op == op
    assert as_bytes(machine.apply(record.op, state)) == as_bytes(after)
    if flow:
        stated = (record.flow, record.revision, record.status)
        assert stated == (flow.id, flow.revision, flow.status)
