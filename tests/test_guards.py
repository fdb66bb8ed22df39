"""What every operation must pass: a known version, the owner's word, and the limits of size."""

from __future__ import annotations

import pytest
from samples import CHANGES, after, flow, op, state, task

from gitflowstate import codec, machine
from gitflowstate.errors import Rejected, Stale
from gitflowstate.kinds import MAX_CHILDREN, MAX_DOCUMENT, MAX_GROWN, MAX_INT
from gitflowstate.union import BY_TAG

OWNERS_ALONE = {"update", "wait", "resume", "done", "fail", "reopen", "handoff", "adopt"}


@pytest.mark.req("R-TF-26")
def test_the_ops_of_the_owner_are_all_but_the_open_ones():
    assert {tag for tag in CHANGES if BY_TAG[tag].OWNERS} == OWNERS_ALONE


@pytest.mark.req("R-TF-26", "L4")
@pytest.mark.parametrize("tag", CHANGES)
@pytest.mark.parametrize(
    ("owner", "by", "named_strangers"),
    [
        ("ann", "ann", False),
        ("ann", "mallory", True),
        ("ann", "local", False),
        ("local", "mallory", False),
        ("local", "local", False),
        ("ann", "Ann", True),
    ],
)
def test_a_named_actor_changes_no_flow_of_another_named_owner(tag, owner, by, named_strangers):
    status = {"reopen": "done", "resume": "waiting"}.get(tag, "running")
    wanted = op(tag, by=by)
    there = state(wanted, flow(status, owner=owner))
    if not (named_strangers and tag in OWNERS_ALONE):
        machine.apply(wanted, there)
        return
    with pytest.raises(Stale, match=f"is owned by {owner}; {by} may not {tag} it") as refused:
        machine.apply(wanted, there)
    assert "gfs take f-1" in refused.value.hint
    assert "gfs handoff" in refused.value.hint
    assert refused.value.details["owner"] == owner


@pytest.mark.req("E8")
@pytest.mark.parametrize("tag", CHANGES)
def test_a_document_of_a_newer_schema_version_is_not_written(tag):
    newer = codec.decode(
        type(flow()), codec.encode(flow()).replace(b'_version": 1', b'_version": 2, "new": [1]')
    )
    wanted = op(tag, by="local")
    with pytest.raises(Rejected, match="has schema version 2") as refused:
        machine.apply(wanted, state(wanted, newer))
    assert refused.value.hint == "upgrade gitflowstate"


@pytest.mark.req("E8")
def test_a_document_of_a_newer_schema_version_is_not_imported():
    newer = flow(id="f-1").replace(schema_version=2)
    wanted = op("import", document=newer)
    with pytest.raises(Rejected, match="schema version 2"):
        machine.apply(wanted, state(wanted))


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def padded(size, **changes):
    """Return a running flow of exactly so many bytes, most of them progress."""
    bare = flow(progress="x", **changes)
    text = "x" * (size - len(codec.encode(bare)) + 1)
    full = bare.replace(progress=text)
    assert len(codec.encode(full)) == size
    return full


ADDING = ["create", "import", "update", "note", "plan", "task add"]
SETTLING = ["wait", "done", "fail", "handoff", "take"]


def test_the_ops_that_add_are_known():
    assert [tag for tag, kind in BY_TAG.items() if kind.ADDS] == ADDING


@pytest.mark.req("E7")
def test_an_addition_is_accepted_up_to_the_limit_and_refused_past_it():
    full = padded(MAX_GROWN)
    assert after(op("import", document=full)) == full
    over = op("import", document=padded(MAX_GROWN + 1))
    with pytest.raises(Rejected, match="1,048,577 bytes; an addition may leave 1,048,576"):
        machine.apply(over, state(over))


@pytest.mark.req("E7")
@pytest.mark.parametrize(
    "wanted",
    [
        op("note", text="y"),
        op("update", progress=None, next="a longer next action"),
        op("update", labels=("y",), progress=None),
    ],
)
def test_an_addition_to_a_full_flow_is_refused(wanted):
    with pytest.raises(Rejected, match="an addition may leave"):
        machine.apply(wanted, state(wanted, padded(MAX_GROWN)))


@pytest.mark.req("E7")
def test_a_full_flow_may_still_shrink():
    assert after(op("update", progress="short"), padded(MAX_GROWN + 1000)).progress == "short"


@pytest.mark.req("E7")
@pytest.mark.parametrize("tag", SETTLING)
def test_an_op_that_settles_is_not_refused_for_the_size_of_an_addition(tag):
    left = after(op(tag), padded(MAX_GROWN + 1000))
    assert len(codec.encode(left)) > MAX_GROWN


@pytest.mark.req("E7")
def test_the_number_of_tasks_is_limited_where_something_is_added():
    most = tuple(task(f"t{number}") for number in range(MAX_CHILDREN))
    assert len(after(op("import", document=flow(children=most))).children) == MAX_CHILDREN
    wanted = op("import", document=flow(children=(*most, task("one-more"))))
    with pytest.raises(Rejected, match="2,001 tasks, of 2,000"):
        machine.apply(wanted, state(wanted))


@pytest.mark.req("E7")
def test_a_flow_with_too_many_tasks_can_still_end():
    many = tuple(task(f"t{number}") for number in range(MAX_CHILDREN + 1))
    left = after(op("done", cancel_children=True), flow(children=many))
    assert {child.outcome for child in left.children} == {"cancelled"}


@pytest.mark.req("E7")
@pytest.mark.parametrize("tag", ["wait", "fail"])
def test_nothing_is_written_that_could_not_be_read_again(tag):
    """An op that settles may pass the limit of additions, and not that of reading."""
    size = len(codec.encode(after(op(tag), flow())))
    most = op(tag, reason="x" * (MAX_DOCUMENT - size + len(op(tag).reason)))
    full = after(most, flow())
    assert len(codec.encode(full)) == MAX_DOCUMENT
    assert codec.decode(type(full), codec.encode(full)) == full
    over = most.replace(reason=most.reason + "x")
    with pytest.raises(Rejected, match="4,194,304 can be read again"):
        machine.apply(over, state(over, flow()))


@pytest.mark.req("D2")
def test_the_last_integer_is_the_last_revision():
    last = flow(revision=MAX_INT - 1)
    full = after(op("note"), last)
    assert codec.decode(type(full), codec.encode(full)) == full
    wanted = op("note")
    with pytest.raises(Rejected, match="no revision is left"):
        machine.apply(wanted, state(wanted, full))
