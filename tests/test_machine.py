"""The table is the one that people were promised, and an op is judged in the promised order."""

from __future__ import annotations

import itertools

import pytest
from samples import (
    AT,
    CHANGES,
    FLOW_TAGS,
    KEY,
    LATER,
    REQUEST,
    STATUSES,
    after,
    fallen,
    flow,
    op,
    receipts,
    state,
    stored,
)

from gitflowstate import machine, taskrules
from gitflowstate.errors import Corrupt, NotFound, Rejected, Stale
from gitflowstate.model import (
    FORMAT_PATH,
    Format,
    Receipt,
    archive_path,
    flow_path,
    key_path,
    plan_path,
)
from gitflowstate.union import BY_TAG

# What one op of each kind makes of a flow in each status: "-" is refused, "=" nothing to do.
# The ops are those of `samples.op`; `done` and `fail` report the end that the flow has.
PROMISED = """
             pending   running   waiting   done      failed
    update   running   running   waiting   -         -
    note     pending   running   waiting   -         -
    wait     waiting   waiting   waiting   -         -
    resume   -         =         running   -         -
    done     done      done      done      =         -
    fail     failed    failed    failed    -         =
    reopen   -         -         -         running   running
    handoff  pending   running   waiting   -         -
    take     pending   running   waiting   -         -
    adopt    =         =         =         =         =
"""
CELLS = [
    (tag, status, outcome)
    for tag, *row in (line.split() for line in PROMISED.strip().splitlines()[1:])
    for status, outcome in zip(STATUSES, row, strict=True)
]


@pytest.mark.req("R-TF-03", "R-TF-15", "R-TF-22")
@pytest.mark.parametrize(("tag", "status", "outcome"), CELLS)
def test_every_op_in_every_status(tag, status, outcome):
    before = flow(status)
    wanted = op(tag)
    there = state(wanted, before)
    bytes_before = stored(there)
    if outcome == "-":
        with pytest.raises(Rejected, match=f"f-1 is {status}") as refused:
            machine.apply(wanted, there)
        assert refused.value.details["revision"] == 3
        assert refused.value.details["status"] == status
    elif outcome == "=":
        assert machine.apply(wanted, there) is there
    else:
        left = machine.find("f-1", machine.apply(wanted, there))
        assert (left.status, left.revision) == (outcome, 4)
    assert stored(there) == bytes_before


def test_the_table_knows_every_op_on_an_existing_flow():
    asked = {tag for tag, _, _ in CELLS}
    assert asked == set(CHANGES) == set(machine.TABLE) - {*taskrules.TABLE, "plan", "task add"}
    assert set(machine.TABLE) < set(BY_TAG)


def test_the_table_allows_what_was_promised_and_nothing_else():
    seen = {(tag, s, s if to == "=" else to) for tag, s, to in CELLS if to != "-"}
    by_hand = {("update", "pending", "pending"), ("update", "running", "pending")}
    allowed = {
        (tag, status, left)
        for tag in CHANGES
        for status, leaves in machine.TABLE[tag].items()
        for left in leaves
    }
    assert allowed == seen | by_hand


@pytest.mark.parametrize(
    ("status", "asked", "left"),
    [
        ("pending", {"next": "write"}, "pending"),
        ("pending", {"progress": "begun", "status": "pending"}, "pending"),
        ("pending", {"status": "running"}, "running"),
        ("running", {"status": "pending"}, "pending"),
    ],
)
def test_an_update_may_name_the_status(status, asked, left):
    wanted = op("update", progress=None).replace(**asked)
    assert after(wanted, flow(status)).status == left


# ── what is true of every op ────────────────────────────────────────────────────────────────────

CHANGING = [(tag, status) for tag, status, outcome in CELLS if outcome not in "-="]


@pytest.mark.req("R-TF-04", "R-TF-17")
@pytest.mark.parametrize(("tag", "status"), CHANGING)
def test_a_change_is_one_revision_and_stamped_with_the_time_of_the_op(tag, status):
    left = after(op(tag), flow(status))
    assert (left.revision, left.updated_at) == (4, LATER)


@pytest.mark.req("R-TF-04")
@pytest.mark.parametrize(
    ("last", "now", "stamp"),
    [
        (LATER, AT, LATER),  # a clock that went back
        ("2026-09-06T10:00:00.500000Z", AT, "2026-09-06T10:00:00.500000Z"),
        (AT, "2026-09-06T10:00:00.000001Z", "2026-09-06T10:00:00.000001Z"),
    ],
)
def test_the_time_of_the_last_change_never_goes_back(last, now, stamp):
    assert after(op("note", at=now), flow(updated_at=last)).updated_at == stamp


@pytest.mark.req("R-TF-21")
@pytest.mark.parametrize(("tag", "status"), CHANGING)
def test_a_flow_stands_in_one_folder_by_its_status(tag, status):
    wanted = op(tag)
    left = machine.apply(wanted, state(wanted, flow(status)))
    ended = left[archive_path("f-1")] is not None
    assert ended == (machine.find("f-1", left).status in ("done", "failed"))
    assert (left[flow_path("f-1")] is None) == ended


def test_a_flow_in_both_folders_is_used_by_no_op():
    wanted = op("note")
    there = {**state(wanted, flow()), archive_path("f-1"): flow("done")}
    with pytest.raises(Corrupt, match="in flows/ and in archive/"):
        machine.apply(wanted, there)


@pytest.mark.parametrize("tag", CHANGES)
def test_an_op_on_a_flow_that_is_not_there_is_not_found(tag):
    wanted = op(tag)
    with pytest.raises(NotFound, match="no flow f-1"):
        machine.apply(wanted, state(wanted))


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_refusal_names_the_end_and_the_ways_on(status):
    wanted = op("update")
    with pytest.raises(Rejected, match="r3") as refused:
        machine.apply(wanted, state(wanted, flow(status)))
    assert "gfs reopen f-1" in refused.value.hint
    assert "gfs retry f-1" in refused.value.hint
    assert ("out/report.md" in refused.value.message) == (status == "done")


@pytest.mark.req("R-TF-22")
@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ("done", op("done", result="out/other.md")),
        ("done", op("done", result="out/other.md", cancel_children=True)),
        ("failed", op("fail", reason="another")),
        ("failed", op("fail", recoverable="nothing")),
    ],
)
def test_an_end_is_not_replaced_by_another(status, wanted):
    with pytest.raises(Rejected, match="is refused"):
        machine.apply(wanted, state(wanted, flow(status)))


# ── the order: receipt, usable, expect, owner, table ────────────────────────────────────────────


def keyed(tag, **changes):
    return op(tag, key=KEY, request=REQUEST, **changes)


def with_receipt(wanted, *documents, request=REQUEST):
    receipt = Receipt(schema_version=1, request=request, flow="f-1", revision=2)
    return {**state(wanted, *documents), key_path(KEY): receipt}


@pytest.mark.req("R-TF-24")
@pytest.mark.parametrize(("tag", "status"), [*itertools.product(FLOW_TAGS, STATUSES)])
def test_a_repeat_is_answered_before_anything_else_is_looked_at(tag, status):
    """Even where all else refuses: unusable, old expectation, another's flow, ended."""
    wanted = keyed(tag, by="mallory", expect=1)
    there = with_receipt(wanted, flow(status), fallen())
    assert machine.apply(wanted, there) is there
    assert machine.answered(wanted, there).revision == 2


def test_a_repeat_is_answered_although_the_flow_is_gone():
    wanted = keyed("update")
    there = with_receipt(wanted)
    assert machine.apply(wanted, there) is there


@pytest.mark.parametrize("tag", FLOW_TAGS)
def test_a_key_used_for_another_request_is_refused_before_anything_else(tag):
    wanted = keyed(tag, by="mallory", expect=1)
    with pytest.raises(Stale, match="another request, on f-1 r2") as refused:
        machine.apply(wanted, with_receipt(wanted, flow("done"), fallen(), request="e" * 64))
    assert refused.value.details == {"flow": "f-1", "revision": 2}


@pytest.mark.parametrize(("tag", "status"), CHANGING)
def test_a_change_leaves_the_receipt_of_its_key(tag, status):
    wanted = keyed(tag, made=("f-1",))
    left = machine.apply(wanted, state(wanted, flow(status)))
    assert left[key_path(KEY)] == Receipt(
        schema_version=1, request=REQUEST, flow="f-1", revision=4, made=("f-1",)
    )


@pytest.mark.parametrize("tag", ["create", "import"])
def test_a_birth_leaves_the_receipt_of_its_key(tag):
    wanted = keyed(tag)
    left = machine.apply(wanted, state(wanted))
    born = machine.find("f-1", left)
    assert left[key_path(KEY)].revision == born.revision


def test_a_change_without_a_key_leaves_no_receipt():
    wanted = op("update")
    assert receipts(machine.apply(wanted, state(wanted, flow()))) == []


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (keyed("resume"), flow()),
        (keyed("take", by="ann"), flow()),
        (keyed("done"), flow("done")),
        (keyed("update", progress=None, next="read"), flow()),
    ],
)
def test_an_op_that_changed_nothing_uses_up_no_key(wanted, there):
    documents = state(wanted, there)
    assert machine.apply(wanted, documents) is documents
    assert receipts(documents) == []
    elsewhere = op("note", key=KEY, request="e" * 64)
    assert after(elsewhere, there if there.status == "running" else flow()).notes


def test_a_refused_op_uses_up_no_key():
    wanted = keyed("update", expect=1)
    documents = state(wanted, flow())
    with pytest.raises(Stale):
        machine.apply(wanted, documents)
    assert receipts(documents) == []
    assert after(wanted.replace(expect=3), flow()).revision == 4


@pytest.mark.req("R-TF-24")
@pytest.mark.parametrize("expect", [1, 2, 4, 1000])
def test_another_revision_than_expected_is_refused_and_told(expect):
    wanted = op("update", expect=expect)
    with pytest.raises(Stale, match=f"at r3, not r{expect}") as refused:
        machine.apply(wanted, state(wanted, flow()))
    assert refused.value.details["revision"] == 3


@pytest.mark.req("R-TF-24")
@pytest.mark.parametrize("tag", CHANGES)
def test_expect_is_looked_at_before_owner_and_table(tag):
    wanted = op(tag, expect=2, by="mallory")
    with pytest.raises(Stale, match="at r3, not r2"):
        machine.apply(wanted, state(wanted, flow("done")))


def test_the_owner_is_looked_at_before_the_table():
    wanted = op("update", by="mallory")
    with pytest.raises(Stale, match="is owned by ann"):
        machine.apply(wanted, state(wanted, flow("done")))


def test_the_expected_revision_is_accepted():
    assert after(op("update", expect=3), flow()).revision == 4


@pytest.mark.req("R-TF-24")
@pytest.mark.parametrize("tag", ["create", "import"])
def test_a_birth_is_refused_where_a_revision_was_expected(tag):
    wanted = op(tag, expect=1)
    with pytest.raises(Stale, match="f-1 is not there, at r1"):
        machine.apply(wanted, state(wanted))
    with pytest.raises(Stale, match="f-1 is at r3, not r1"):
        machine.apply(wanted, state(wanted, flow()))
    again = wanted.replace(expect=3)
    there = state(again, flow())
    assert machine.apply(again, there) is there


# ── a repository's first commit ─────────────────────────────────────────────────────────────────


def test_init_marks_the_repository_once():
    wanted = op("init")
    left = machine.apply(wanted, state(wanted))
    assert stored(left) == {FORMAT_PATH: b'{\n  "format": 1\n}\n'}
    again = state(wanted, Format(format=1))
    assert machine.apply(wanted, again) is again


def test_what_an_op_reads_is_what_it_changes_at_most():
    for tag in BY_TAG.keys() - {*taskrules.TABLE}:
        wanted = op(tag)
        there = state(wanted, flow("done" if tag == "reopen" else "running"), fallen(name="f-9"))
        if tag in ("create", "import"):
            there = state(wanted)
        kept = {plan_path("f-1", 1)} if tag == "plan" else set()  # a new version of its own
        assert set(machine.apply(wanted, there)) == {*machine.reads(wanted)} | kept, tag
