"""Ended, told, seen: three facts; what is due to whom, and marks that obey the law."""

from __future__ import annotations

import json

import pytest
from flowrepo import AT, imported, put
from gitrepo import fsck, git
from hypothesis import given
from hypothesis import strategies as st
from processbench import STAMP, ProcessLab

from gitflowstate import codec, contents, inbox, processes
from gitflowstate.cursorstore import verify
from gitflowstate.errors import Corrupt, Rejected
from gitflowstate.inbox import Deliver, Event, Reader, Seen, Who
from gitflowstate.inboxstore import InboxStore, gather
from gitflowstate.kinds import KINDS
from gitflowstate.ops import Handoff, Take
from gitflowstate.processmodel import Process, has_ended

LATER = "2026-09-06T11:00:00Z"
S1, S2 = Who("s-1", "s-1"), Who("s-2", "bob")


def process(name="p-1", state="completed", session="s-1", **changes):
    fields = {"argv": ("make",), "cwd": "/", "host": "h", "boot_id": "b", "created_at": AT}
    fields |= {"finished_at": AT} if state in inbox_ends() else {}
    about = {"schema_version": 1, "id": name, "state": state, "session_id": session}
    return codec.checked(Process(**about | fields | changes))


def inbox_ends():
    return ("completed", "failed", "cancelled", "timed_out", "lost")


def due(*found, who=S1, owners=None, marks=None):
    return [event.process.id for event in inbox.due(found, who, owners or {}, marks or {})]


# ── what is due ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-12")
@pytest.mark.parametrize("state", KINDS["ProcessState"].values)
def test_every_end_is_due_and_nothing_else(state):
    assert due(process(state=state)) == (["p-1"] if has_ended(process(state=state)) else [])


@pytest.mark.req("X-30")
def test_a_manual_process_never_notifies():
    assert due(process(notify="manual")) == []
    assert due(process(notify="manual"), who=S1._replace(everyone=True)) == []


@pytest.mark.req("X-32")
def test_an_end_that_was_the_answer_is_not_told_again():
    assert due(process(returned=True)) == []


def test_a_session_is_told_of_its_own_and_an_actor_of_the_flows_it_owns():
    own, foreign = process("p-1"), process("p-2", flow="f-1")
    assert due(own, foreign, who=S2) == []
    assert due(own, foreign, who=S2, owners={"f-1": "ann"}) == []
    assert due(own, foreign, who=S2, owners={"f-1": "bob"}) == ["p-2"]
    assert due(own, foreign, who=S2._replace(everyone=True)) == ["p-1", "p-2"]


@pytest.mark.req("R-TJ-13", "R-TJ-12", "X-34")
def test_what_was_told_and_not_seen_comes_again_with_its_id():
    told = {"s-1": {"p-1": {"delivered": AT}}}
    (event,) = inbox.due([process()], S1, {}, told)
    assert event == Event(process(), again=True)
    seen = {"s-1": {"p-1": {"delivered": AT, "seen": AT}}}
    assert due(process(), marks=seen) == []
    assert due(process(), marks={"s-1": {"p-1": {"seen": AT}}}) == []


def test_what_its_own_session_has_seen_is_told_to_nobody_else():
    owns = {"f-1": "bob"}
    found = process(flow="f-1")
    assert due(found, who=S2, owners=owns, marks={"s-1": {"p-1": {"delivered": AT}}}) == ["p-1"]
    assert due(found, who=S2, owners=owns, marks={"s-1": {"p-1": {"seen": AT}}}) == []
    assert due(found, who=S2, owners=owns, marks={"s-3": {"p-1": {"seen": AT}}}) == ["p-1"]


@pytest.mark.req("X-31")
def test_several_come_in_the_order_of_their_ends():
    late = process("p-1", finished_at=LATER)
    assert due(late, process("p-3"), process("p-2")) == ["p-2", "p-3", "p-1"]


# ── the marks ───────────────────────────────────────────────────────────────────────────────────


def mark(kind, *events, at=AT, reader="s-1"):
    return codec.checked(kind(at=at, by="ann", channel="inbox", reader=reader, events=events))


def applied(op, before=None):
    return inbox.apply(op, {inbox.reader_path(op.reader): before})[inbox.reader_path(op.reader)]


marks = st.lists(
    st.builds(
        mark,
        st.sampled_from([Deliver, Seen]),
        st.sampled_from(["p-1", "p-2", "p-3"]),
        at=st.sampled_from([AT, LATER]),
    ),
    max_size=8,
)


@pytest.mark.req("R-TJ-13")
@given(marks)
def test_a_mark_is_set_once_and_never_taken_back(ops):
    reader, first = None, {}
    for op in ops:
        before = inbox.marks_of(reader)
        state = {inbox.reader_path("s-1"): reader}
        after = inbox.apply(op, state)
        name = "delivered" if isinstance(op, Deliver) else "seen"
        known = (op.events[0], name) in first
        assert (after is state) == known
        first.setdefault((op.events[0], name), op.at)
        reader = after[inbox.reader_path("s-1")]
        now = inbox.marks_of(reader)
        assert all(before[event].items() <= now[event].items() for event in before)
    found = inbox.marks_of(reader)
    assert {(e, name): at for e, mark in found.items() for name, at in mark.items()} == first
    if reader is not None:
        assert codec.decode(Reader, codec.encode(reader)) == reader


def test_marks_of_a_newer_version_are_read_and_not_written():
    newer = Reader(schema_version=2, session_id="s-1", events={"p-1": {"delivered": AT}})
    assert inbox.marks_of(newer) == {"p-1": {"delivered": AT}}
    with pytest.raises(Rejected, match="newer gitflowstate"):
        applied(mark(Seen, "p-1"), newer)


def test_what_was_told_is_bounded_by_what_can_be_read_and_no_mark_is_dropped():
    names = [f"p-{number:012x}" for number in range(inbox.MAX_MARKED)]
    full = applied(mark(Deliver, *names))
    with pytest.raises(Rejected, match="was told of 30,000 events, of 30,000 at most"):
        applied(mark(Deliver, "p-1"), full)
    with pytest.raises(Rejected):
        applied(mark(Seen, "p-1"), full)
    seen = applied(mark(Seen, *names), full)
    assert codec.decode(Reader, codec.encode(seen)) == seen


def test_what_is_no_mark_counts_as_absent():
    odd = Reader(schema_version=1, session_id="s-1", events={"p-1": 3, "p-2": {"seen": AT}})
    assert inbox.marks_of(odd) == {"p-2": {"seen": AT}}
    assert applied(mark(Seen, "p-1"), odd).events == {"p-2": {"seen": AT}, "p-1": {"seen": AT}}


# ── on their ref ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lab(tmp_path):
    made = ProcessLab(tmp_path / "flows")
    yield made
    made.repo.close()


@pytest.fixture
def store(lab):
    return InboxStore(lab.repo)


def told(lab, store, who=S1):
    return [(e.process.id, e.again) for e in gather(lab.store, store, who, lambda p: p).events]


@pytest.mark.req("R-TJ-12", "R-TJ-13")
def test_each_fact_can_be_set_and_read_alone(lab, store):
    ended = lab.ended()
    assert told(lab, store) == [(ended.id, False)]
    store.deliver("s-1", [ended.id], **STAMP)
    assert told(lab, store) == [(ended.id, True)]
    assert store.marks("s-1") == {ended.id: {"delivered": AT}}
    store.see("s-1", [ended.id], **STAMP)
    assert told(lab, store) == []
    assert store.marks("s-1") == {ended.id: {"delivered": AT, "seen": AT}}
    assert processes.get(lab.store, ended.id) == ended  # main says nothing of it


@pytest.mark.req("R-TJ-12")
def test_marks_are_commits_on_one_ref_that_replay(lab, store):
    one, other = lab.ended(), lab.ended("c-1", session="Other Session")
    main = lab.head
    store.deliver("s-1", [one.id], **STAMP)
    store.deliver("s-1", [one.id], **STAMP)
    store.deliver("Other Session", [other.id], **STAMP)
    store.see("s-1", [], **STAMP)
    log = git(lab.gitdir, "log", "--format=%s", inbox.INBOX_REF).splitlines()
    assert log == ["inbox deliver: 1 event to Other Session", "inbox deliver: 1 event to s-1"]
    named = git(lab.gitdir, "ls-tree", "-r", "--name-only", inbox.INBOX_REF).splitlines()
    assert named == sorted(map(inbox.reader_path, ["s-1", "Other Session"]))
    head = git(lab.gitdir, "rev-parse", inbox.INBOX_REF)
    assert verify(lab.repo, head, "inbox").problems == []
    assert [*contents.past(lab.repo, lab.head), *contents.cursors(lab.repo, lab.head)] == []
    assert lab.head == main
    fsck(lab.gitdir)


def test_a_flow_that_is_taken_brings_its_processes_along(lab, store):
    lab.create(owner="ann")
    ended = lab.ended(flow="f-1")
    assert told(lab, store, S2) == []
    lab.commit(Take, by="bob", reason="ann is gone")
    assert told(lab, store, S2) == [(ended.id, False)]
    store.see("s-1", [ended.id], **STAMP)  # whoever started it has read it
    assert told(lab, store, S2) == []
    other = lab.ended("c-2", flow="f-1")
    assert told(lab, store, S2) == [(other.id, False)]
    lab.commit(Handoff, by="bob", to="ann", reason="back")
    assert told(lab, store, S2) == []


def test_a_process_that_has_not_ended_is_given_to_whoever_knows_better(lab, store):
    running = lab.start()
    assert told(lab, store) == []
    found = gather(lab.store, store, S1, lab.end)
    assert [event.process.state for event in found.events] == ["completed"]
    assert processes.get(lab.store, running.id).state == "completed"


@pytest.mark.req("D2")
@pytest.mark.parametrize("content", [b"{}\n", b"\x00", b'{"schema_version": 1}\n'])
def test_marks_that_cannot_be_read_cost_a_notice_too_many(lab, store, content):
    ended = lab.ended()
    store.see("s-1", [ended.id], **STAMP)
    path = inbox.reader_path("s-1")
    imported(lab.gitdir, put(path, {})._replace(content=content), ref=inbox.INBOX_REF,
             parents=(f"{inbox.INBOX_REF}^0",))  # fmt: skip
    assert told(lab, store) == [(ended.id, False)]
    assert len(store.problems) == 1
    store.deliver("s-1", [ended.id], **STAMP)
    assert json.loads(lab.shown(path, inbox.INBOX_REF))["events"] == {ended.id: {"delivered": AT}}


def test_a_process_that_cannot_be_read_is_named_and_hides_no_other(lab, store):
    one, other = lab.ended("c-1"), lab.ended("c-2")
    path = next(p for p in processes.paths(lab.store) if one.id in p)
    lab.by_hand(put(path, {})._replace(content=b"{}\n"))
    found = gather(lab.store, store, S1, lambda p: p)
    assert [event.process.id for event in found.events] == [other.id]
    assert isinstance(found.broken[0].error, Corrupt)
    assert found.broken[0].path == path


def test_what_was_seen_is_not_even_read(lab, store, monkeypatch):
    seen = [lab.ended(f"c-{number}").id for number in range(4)]
    store.see("s-1", seen, **STAMP)
    last = lab.ended("c-9")
    read = []
    real = processes.read
    monkeypatch.setattr(processes, "read", lambda s, paths: read.extend(paths) or real(s, paths))
    assert told(lab, store) == [(last.id, False)]
    assert [processes.name_of(path) for path in read] == [last.id]
