"""Edits by hand: which are used, which make a flow unusable, and how `adopt` ends that."""

from __future__ import annotations

import pytest
from samples import AT, FLOW_TAGS, LATER, after, fallen, flow, op, state

from gitflowstate import codec, machine
from gitflowstate.errors import Corrupt
from gitflowstate.judgement import judge
from gitflowstate.model import UNUSABLE_PATH, Fallen, Unusable


def seen(document):
    return document, codec.digest(codec.encode(document))


FIVE = seen(flow(revision=5))
LOST = Fallen(flow="f-1", revision=5, digest=FIVE[1])
ROSE = seen(flow(revision=6, goal="by hand"))
LEPT = seen(flow(revision=90, goal="by hand"))
STAYED = seen(flow(revision=5, goal="by hand"))
FELL = seen(flow(revision=4, goal="by hand"))
ENDED = seen(flow("done", revision=6))


@pytest.mark.req("D1", "D2")
@pytest.mark.parametrize(
    ("entry", "before", "now", "verdict"),
    [
        (None, FIVE, ROSE, None),
        (None, FIVE, LEPT, None),
        (None, FIVE, ENDED, None),
        (None, FIVE, FIVE, None),
        (None, FIVE, STAYED, LOST),
        (None, FIVE, FELL, LOST),
        (None, FIVE, None, LOST),  # removed, or no document any more
        (None, None, FIVE, None),  # new
        (None, None, None, None),
        (LOST, FELL, FELL, LOST),
        (LOST, FELL, FIVE, None),  # reverted: the very bytes
        (LOST, FELL, STAYED, LOST),
        (LOST, FELL, ROSE, None),  # mended by a later revision
        (LOST, None, None, LOST),
        (LOST, None, FELL, LOST),
        # What counts is the last revision that gfs wrote, not what stood there meanwhile.
        (LOST, seen(flow(revision=2)), seen(flow(revision=3)), LOST),
    ],
)
def test_the_verdict(entry, before, now, verdict):
    assert judge(entry, before, now, "f-1") == verdict


@pytest.mark.req("D2")
@pytest.mark.parametrize("tag", FLOW_TAGS)
@pytest.mark.parametrize("there", [flow(), flow("done"), None])
def test_an_unusable_flow_is_changed_by_nothing_but_adopt(tag, there):
    wanted = op(tag)
    documents = state(wanted, *([there] if there else []), fallen(7))
    if tag == "adopt" and there:
        assert machine.apply(wanted, documents) is not documents
        return
    said = "its last managed revision is 7" if there else "was removed by hand: it was at r7"
    with pytest.raises(Corrupt, match=said) as refused:
        machine.apply(wanted, documents)
    # What does not stand there cannot be adopted, so nobody is told to.
    assert refused.value.details.get("next", [])[:3] == (["gfs", "adopt", "f-1"] if there else [])


@pytest.mark.req("D2")
def test_another_flow_is_not_touched_by_it():
    wanted = op("update")
    documents = state(wanted, flow(), fallen(7, name="f-2"))
    left = machine.apply(wanted, documents)
    assert machine.find("f-1", left).revision == 4
    assert left[UNUSABLE_PATH] is documents[UNUSABLE_PATH]


@pytest.mark.req("D2")
@pytest.mark.parametrize("status", ["running", "done"])
@pytest.mark.parametrize("stands_at", [1, 3, 7])
def test_adopt_gives_what_stands_there_the_next_free_revision(status, stands_at):
    document = flow(status, revision=stands_at)
    wanted = op("adopt")
    left = machine.apply(wanted, state(wanted, document, fallen(7)))
    assert machine.find("f-1", left) == document.replace(revision=8, updated_at=LATER)
    assert left[UNUSABLE_PATH] is None


@pytest.mark.req("D2")
def test_adopt_never_goes_below_what_stands_there():
    left = after(op("adopt"), flow(revision=12), fallen(7))
    assert left.revision == 13


def test_adopt_leaves_the_other_entries():
    two = Unusable(schema_version=1, flows=(*fallen(7).flows, *fallen(2, name="f-2").flows))
    wanted = op("adopt")
    left = machine.apply(wanted, state(wanted, flow(), two))
    assert left[UNUSABLE_PATH] == fallen(2, name="f-2")


def test_adopt_has_nothing_to_do_for_a_flow_that_can_be_used():
    wanted = op("adopt")
    documents = state(wanted, flow(), fallen(7, name="f-2"))
    assert machine.apply(wanted, documents) is documents


def test_an_adopted_flow_is_used_again():
    wanted = op("adopt")
    adopted = machine.find("f-1", machine.apply(wanted, state(wanted, flow(), fallen(7))))
    assert after(op("update"), adopted).revision == 9


# ── observe ─────────────────────────────────────────────────────────────────────────────────────


def observed(present, added=(), mended=()):
    wanted = op("observe", fallen=tuple(added), mended=tuple(mended))
    documents = state(wanted, *([present] if present else []))
    left = machine.apply(wanted, documents)
    return left[UNUSABLE_PATH], left is documents


def entry(name, revision=1):
    return Fallen(flow=name, revision=revision, digest="d" * 64)


def listing(*entries):
    return Unusable(schema_version=1, flows=entries)


@pytest.mark.parametrize(
    ("present", "added", "mended", "left"),
    [
        (None, [entry("b"), entry("a")], [], listing(entry("a"), entry("b"))),
        (listing(entry("b")), [entry("a")], [], listing(entry("a"), entry("b"))),
        (listing(entry("a"), entry("b")), [], ["a"], listing(entry("b"))),
        (listing(entry("a")), [], ["a"], None),
        (listing(entry("a", 1)), [entry("a", 4)], [], listing(entry("a", 4))),
        (listing(entry("a")), [entry("b")], ["a"], listing(entry("b"))),
    ],
)
def test_observe_records_who_fell_and_who_was_mended(present, added, mended, left):
    assert observed(present, added, mended) == (left, False)


@pytest.mark.parametrize(
    ("present", "added", "mended"),
    [
        (None, [], []),
        (None, [], ["a"]),
        (listing(entry("a")), [entry("a")], []),
        (listing(entry("a")), [], ["b"]),
    ],
)
def test_observe_has_nothing_to_do_where_nothing_is_new(present, added, mended):
    assert observed(present, added, mended) == (present, True)


def test_the_list_of_the_unusable_is_a_file_of_its_own():
    recorded, _ = observed(None, [entry("f-1", 7)])
    assert codec.decode_at(UNUSABLE_PATH, codec.encode(recorded)) == recorded
    assert AT.encode() not in codec.encode(recorded)
