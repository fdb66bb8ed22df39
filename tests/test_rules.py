"""What each operation changes in its flow, and what it leaves alone."""

from __future__ import annotations

import pytest
from samples import AT, LATER, after, fallen, flow, op, state, stored, task

from gitflowstate import codec, machine
from gitflowstate.errors import Corrupt, Invalid, Rejected, Stale
from gitflowstate.model import (
    Claim,
    Failure,
    Link,
    Note,
    Plan,
    Step,
    Waiting,
    archive_path,
    flow_path,
)

CLAIM = Claim(worker="w.12345678", by="bob", attempt=2, until=LATER)


def differing(one, other):
    """Return the names of the fields in which two flows differ, the stamps apart."""
    names = {*one.__dict__, *other.__dict__} - {"revision", "updated_at"}
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def nothing_to_do(wanted, *documents):
    there = state(wanted, *documents)
    return machine.apply(wanted, there) is there


def refused(wanted, *documents, error=Rejected):
    there = state(wanted, *documents)
    before = stored(there)
    with pytest.raises(error) as caught:
        machine.apply(wanted, there)
    assert stored(there) == before
    return caught.value


# ── create ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-01", "R-TF-16")
def test_a_flow_begins_pending_at_revision_1_with_its_goal_and_no_task():
    born = after(op("create", at=AT, labels=("a",), type="study", data={"n": 1}))
    assert born == flow("pending", revision=1, labels=("a",), type="study", data={"n": 1})
    assert list(codec.to_json(born)) == [
        "schema_version",
        "id",
        "goal",
        "status",
        "revision",
        "owner",
        "created_at",
        "updated_at",
        "progress",
        "next_action",
        "labels",
        "type",
        "data",
        "children",
    ]


@pytest.mark.req("R-TF-16", "R-TF-17")
@pytest.mark.parametrize("field", ["goal", "next", "owner"])
@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_a_flow_needs_a_goal_a_next_action_and_an_owner(field, text):
    with pytest.raises(Invalid, match=field):
        op("create", **{field: text})


@pytest.mark.req("R-TF-27")
@pytest.mark.parametrize("status", ["pending", "running", "waiting"])
def test_the_same_create_again_is_harmless_while_the_flow_is_open(status):
    assert nothing_to_do(op("create"), flow(status, revision=9, progress="far"))


@pytest.mark.req("R-TF-27")
def test_a_create_asks_for_the_fields_it_gives_and_no_others():
    there = flow(labels=("a",), links=(Link(rel="r", href="h"),), type="study", data={"n": 1})
    assert nothing_to_do(op("create"), there)
    assert nothing_to_do(op("create", labels=("a",), data={"n": 1}), there)


@pytest.mark.req("R-TF-27")
@pytest.mark.parametrize(
    "given",
    [
        {"goal": "another"},
        {"owner": "bob"},
        {"labels": ("x",)},
        {"links": (Link(rel="issue", href="http://x"),)},
        {"type": "study"},
        {"data": {}},
        {"plan": Plan(schema_version=1, flow="f-1", tasks=(Step(id="t1", goal="x"),))},
    ],
)
def test_another_create_of_a_taken_id_is_a_conflict(given):
    error = refused(op("create", **given), flow(), error=Stale)
    assert error.details["revision"] == 3


@pytest.mark.req("L19", "R-TF-22", "R-TF-27")
@pytest.mark.parametrize("status", ["done", "failed"])
def test_an_ended_id_is_never_used_again(status):
    """The very same create is refused too, and the answer names the flow and `retry`."""
    error = refused(op("create"), flow(status), error=Stale)
    assert "archived" in error.message
    assert "gfs retry f-1" in error.hint
    assert error.details["next"] == ["gfs", "show", "f-1"]


@pytest.mark.req("R-TF-22")
def test_a_retry_copies_the_tasks_and_keeps_what_is_done():
    done = task("t1", "done", result_ref="out/1", finished_by="bob", failures=1)
    failed = task(
        "t2",
        "failed",
        deps=("t1",),
        priority=3,
        failures=2,
        interruptions=4,
        outcome="errored",
        reason="broken",
        finished_at=AT,
        finished_by="bob",
        process="p-1",
    )
    ended = flow(
        "failed",
        children=(
            done,
            failed,
            task("t3", "waiting"),
            task("t4", "pending", result_ref="out/old"),
        ),
    )
    wanted = op("create", flow="f-2", attempt_of="f-1")
    there = state(wanted, ended)
    left = machine.apply(wanted, there)
    born = machine.find("f-2", left)
    assert born.children == (
        done,
        task("t2", "pending", deps=("t1",), priority=3),
        task("t3"),
        task("t4"),
    )
    assert (born.status, born.revision, born.attempt_of) == ("pending", 1, "f-1")
    assert left[archive_path("f-1")] is ended


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize("status", ["pending", "running", "waiting"])
def test_a_flow_that_has_not_ended_is_not_retried(status):
    error = refused(op("create", flow="f-2", attempt_of="f-1"), flow(status))
    assert "f-1 has not ended" in error.message


@pytest.mark.req("D2")
def test_a_flow_that_cannot_be_used_is_not_retried():
    wanted = op("create", flow="f-2", attempt_of="f-1")
    refused(wanted, flow("failed"), fallen(9), error=Corrupt)


@pytest.mark.req("E8")
def test_a_flow_of_a_newer_schema_version_is_not_retried():
    """A copy would carry its tasks' new fields into a document that has no room for them."""
    error = refused(
        op("create", flow="f-2", attempt_of="f-1"), flow("failed").replace(schema_version=2)
    )
    assert error.hint == "upgrade gitflowstate"


# ── import ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-06", "R-TF-27")
@pytest.mark.parametrize("status", ["pending", "running", "waiting", "done", "failed"])
def test_an_import_keeps_the_revision_and_lands_where_its_status_belongs(status):
    document = flow(status, revision=41, updated_at=AT)
    wanted = op("import", document=document)
    left = machine.apply(wanted, state(wanted))
    place = archive_path("f-1") if status in ("done", "failed") else flow_path("f-1")
    assert stored(left) == {place: codec.encode(document)}


def test_an_import_drops_claims_and_nothing_else():
    document = flow(children=(task(claim=CLAIM, failures=1), task("t2", "running", claim=CLAIM)))
    born = after(op("import", document=document))
    assert born == flow(children=(task(failures=1), task("t2", "running")))


@pytest.mark.parametrize("status", ["running", "done"])
def test_the_same_import_again_is_harmless(status):
    assert nothing_to_do(op("import", document=flow(status)), flow(status))


@pytest.mark.req("R-TF-27")
@pytest.mark.parametrize("status", ["running", "done"])
def test_an_import_never_replaces_a_flow(status):
    document = flow(status, revision=99)
    assert refused(op("import", document=document), flow(status), error=Stale)


def test_an_import_is_of_the_flow_it_names():
    assert "f-2, not f-1" in refused(op("import", document=flow(id="f-2"))).message


# ── update ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-05")
@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"progress": "half"}, "progress", "half"),
        ({"next": "write"}, "next_action", "write"),
        ({"goal": "compare two"}, "goal", "compare two"),
        ({"labels": ("b", "a")}, "labels", ("b", "a")),
        ({"data": {"b": 1, "a": 2}}, "data", {"b": 1, "a": 2}),
        ({"links": (Link(rel="r", href="h"),)}, "links", (Link(rel="r", href="h"),)),
    ],
)
def test_an_update_changes_what_is_given_and_nothing_else(given, field, value):
    before = flow(progress="begun")
    left = after(op("update", **({"progress": None} | given)), before)
    assert getattr(left, field) == value
    assert differing(before, left) == {field}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"progress": "begun"},
        {"next": "read"},
        {"goal": "compare"},
        {"status": "running"},
        {"labels": ("a",)},
        {"unlabel": ("z",)},
        {"unlink": ("z",)},
        {"links": (Link(rel="r", href="1"),)},
        {"data": {"a": 1, "b": 2}},
    ],
)
@pytest.mark.req("R-TF-17")
def test_an_update_that_says_what_is_there_is_no_revision(given):
    there = flow(
        progress="begun",
        labels=("a", "b"),
        links=(Link(rel="r", href="1"), Link(rel="r", href="2")),
        data={"a": 1, "b": 2},
    )
    assert nothing_to_do(op("update", **({"progress": None} | given)), there)


@pytest.mark.req("E12")
@pytest.mark.parametrize("data", [{"b": 2, "a": 1}, {"a": True, "b": 2}, {"a": 1, "b": [False]}])
def test_free_form_data_differs_in_order_and_in_type(data):
    """Python holds true for 1 and knows no order of keys; whoever reads the file does."""
    left = after(op("update", data=data), flow(data={"a": 1, "b": 2}))
    assert codec.compact(left.data) == codec.compact(data)
    assert left != left.replace(data={"a": 1, "b": 2})


@pytest.mark.req("R-TF-17")
def test_an_update_cannot_empty_the_next_action():
    with pytest.raises(Invalid, match="next"):
        op("update", next=" ")
    assert after(op("update", progress="", next=None), flow(progress="x")).next_action == "read"


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_an_update_is_no_way_to_wait_or_to_end(status):
    error = refused(op("update", status=status), flow())
    assert "gfs wait, gfs done or gfs fail" in error.hint


@pytest.mark.parametrize("status", ["pending", "running"])
def test_an_update_is_no_way_out_of_waiting(status):
    assert refused(op("update", status=status), flow("waiting")).hint == "gfs resume f-1"


def test_empty_progress_does_not_make_a_pending_flow_run():
    assert nothing_to_do(op("update", progress=""), flow("pending"))


def test_labels_are_added_at_the_end_and_removed_by_name():
    there = flow(labels=("a", "b", "c"))
    assert after(op("update", labels=("d", "a"), unlabel=("b",)), there).labels == ("a", "c", "d")


def test_links_are_added_at_the_end_and_removed_by_address():
    one, two, three = (Link(rel="r", href=str(number)) for number in (1, 2, 3))
    left = after(op("update", links=(three, two, three), unlink=("1",)), flow(links=(one, two)))
    assert left.links == (two, three)
    assert after(op("update", links=(one,), unlink=("1",)), left).links == (two, three, one)


# ── note, wait, resume ──────────────────────────────────────────────────────────────────────────


@pytest.mark.req("L4", "R-TF-26")
def test_anybody_appends_a_note():
    first = Note(at=AT, by="ann", text="one")
    left = after(op("note", by="mallory", text="two"), flow(notes=(first,)))
    assert left.notes == (first, Note(at=LATER, by="mallory", text="two"))


@pytest.mark.req("R-TF-20")
@pytest.mark.parametrize("field", ["reason", "until", "on"])
def test_waiting_needs_a_reason_a_condition_and_whom_it_is_on(field):
    with pytest.raises(Invalid, match=field):
        op("wait", **{field: None})
    with pytest.raises(Invalid, match=field):
        op("wait", **{field: " "})


@pytest.mark.req("R-TF-20")
def test_waiting_is_recorded_and_cleared_by_resume():
    waits = after(op("wait"), flow())
    assert waits.waiting == Waiting(reason="no reply", condition="a reply", on="agent", since=LATER)
    assert waits.next_action == "read"
    goes_on = after(op("resume", next="write"), waits)
    assert (goes_on.status, goes_on.waiting, goes_on.next_action) == ("running", None, "write")


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ({}, False),
        ({"reason": "another"}, True),
        ({"until": "another"}, True),
        ({"on": "external"}, True),
    ],
)
def test_only_another_wait_is_a_new_entry_into_waiting(given, entry):
    first = after(op("wait"), flow())
    again = op("wait", at="2026-09-06T12:00:00Z", **given)
    assert nothing_to_do(again, first) == (not entry)
    if entry:
        assert after(again, first).waiting.since == "2026-09-06T12:00:00Z"


def test_resume_is_no_way_to_change_the_next_action_of_a_running_flow():
    assert nothing_to_do(op("resume", next="read"), flow())
    assert "gfs update f-1" in refused(op("resume", next="write"), flow()).hint


# ── done, fail ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-18")
def test_done_needs_a_result_and_records_it():
    for nothing in (None, "", "  "):
        with pytest.raises(Invalid, match="result"):
            op("done", result=nothing)
    left = after(op("done"), flow("waiting"))
    assert (left.result_ref, left.next_action, left.waiting) == ("out/report.md", None, None)


@pytest.mark.req("R-TF-19")
@pytest.mark.parametrize("field", ["reason", "recoverable"])
def test_failed_needs_a_reason_and_what_can_be_recovered(field):
    for nothing in (None, "", "  "):
        with pytest.raises(Invalid, match=field):
            op("fail", **{field: nothing})
    left = after(op("fail"), flow("waiting"))
    assert left.failure == Failure(reason="no budget", recoverable="the notes")
    assert (left.next_action, left.waiting) == (None, None)


BUSY = [task("t2", "running"), task("t2", claim=CLAIM)]


@pytest.mark.parametrize("tag", ["done", "fail"])
@pytest.mark.parametrize("busy", BUSY)
def test_a_flow_with_a_task_in_work_does_not_end(tag, busy):
    error = refused(op(tag), flow(children=(task("t1", "done"), busy)))
    assert error.details["tasks"] == ["t2"]
    assert "--cancel-children" in error.hint


@pytest.mark.parametrize(("tag", "said"), [("done", "f-1 was completed"), ("fail", "f-1 failed")])
@pytest.mark.parametrize("busy", BUSY)
def test_cancelling_ends_every_open_task_and_no_other(tag, said, busy):
    done, failed = task("t1", "done"), task("t3", "failed", reason="broken", outcome="errored")
    there = flow(children=(done, busy, failed, task("t4"), task("t5", "waiting")))
    left = after(op(tag, cancel_children=True), there)

    def ended(name):
        return task(
            name,
            "failed",
            outcome="cancelled",
            reason=said,
            finished_at=LATER,
            finished_by="ann",
        )

    assert left.children == (done, ended("t2"), failed, ended("t4"), ended("t5"))


@pytest.mark.parametrize("tag", ["done", "fail"])
def test_tasks_that_nobody_works_on_stay_as_they_are(tag):
    children = (task("t1"), task("t2", "waiting"), task("t3", "failed"))
    assert after(op(tag), flow(children=children)).children == children


# ── reopen, handoff, take ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("done", "Reopened: a mistake\nIt was done with out/report.md"),
        ("failed", "Reopened: a mistake\nIt had failed: no budget; recoverable: the notes"),
    ],
)
def test_reopening_keeps_how_it_ended_in_a_note(status, text):
    earlier = Note(at=AT, by="bob", text="one")
    ended = flow(status, notes=(earlier,), children=(task("t1", "failed"),))
    left = after(op("reopen"), ended)
    assert left.notes == (earlier, Note(at=LATER, by="ann", text=text))
    assert (left.status, left.next_action) == ("running", "look again")
    assert (left.result_ref, left.failure) == (None, None)
    assert left.children == ended.children


@pytest.mark.req("R-TF-22", "R-TF-17")
@pytest.mark.parametrize("field", ["reason", "next"])
def test_reopening_needs_a_reason_and_a_next_action(field):
    with pytest.raises(Invalid, match=field):
        op("reopen", **{field: ""})


@pytest.mark.req("R-TF-26")
@pytest.mark.parametrize(("tag", "by"), [("handoff", "ann"), ("take", "bob")])
def test_a_new_owner_is_recorded_with_the_old_one_the_reason_and_the_time(tag, by):
    left = after(op(tag, by=by), flow())
    assert left.owner == "bob"
    assert left.notes == (Note(at=LATER, by=by, text="Owner: ann -> bob. holidays"),)
    assert differing(flow(), left) == {"owner", "notes"}


@pytest.mark.parametrize(
    "wanted", [op("take", by="ann"), op("handoff", to="ann"), op("take", by="ann", expect=3)]
)
def test_who_owns_it_already_takes_nothing(wanted):
    assert nothing_to_do(wanted, flow())
