"""What comes from outside is judged as a whole: every violation, each with its path."""

import json
from pathlib import Path

import pytest

from gitflowstate import boundary, codec
from gitflowstate.errors import Invalid
from gitflowstate.kinds import KINDS, MAX_INT
from gitflowstate.model import Flow, Plan, Receipt
from gitflowstate.ops import Op

EXAMPLE = Path(__file__).parent.joinpath("data", "flow-example-001.json").read_bytes()
SECRET = "gh-not-a-token-but-long"


def example(**changes):
    return json.loads(EXAMPLE) | changes


def violations(cls, raw):
    with pytest.raises(Invalid) as caught:
        boundary.validate(cls, raw)
    return {v["path"]: v["message"] for v in caught.value.details["violations"]}


@pytest.mark.req("R-TF-01", "R-TF-02", "R-TF-05")
def test_the_founding_example_comes_back_byte_for_byte():
    flow = boundary.validate(Flow, codec.load(EXAMPLE))
    assert flow == codec.decode(Flow, EXAMPLE)
    assert codec.encode(flow) == EXAMPLE


@pytest.mark.req("E12")
def test_e12_free_form_data_keeps_its_order_and_its_integers():
    data = {"z": MAX_INT, "a": [-MAX_INT, 0, {"y": None, "b": True}], "": "", "é": "\t\n"}
    flow = boundary.validate(Flow, example(data=data))
    assert json.dumps(flow.data) == json.dumps(data)
    again = boundary.validate(Flow, codec.load(codec.encode(flow)))
    assert codec.encode(again) == codec.encode(flow)


def test_every_violation_is_reported_with_its_path():
    raw = example(
        status="done",
        revision=True,
        owner=None,
        extra=1,
        labels=["a", "a", 5],
        waiting={"reason": " ", "when": "now"},
        data={"a": [1, 1.5, {"b": "\x1b"}], "\x00": 1},
        notes={},
    )
    raw["children"] = [
        {"id": "t1", "goal": "g", "status": "done"},
        {"id": "t1", "goal": "g", "status": "running", "deps": ["Z"], "priority": "high"},
        "t3",
    ]
    text = KINDS["Text"].rule
    assert violations(Flow, raw) == {
        "revision": "must be an integer from 1 to 2^53-1",
        "owner": "is missing",
        "extra": "is no field of flow",
        "labels.1": "stands twice, first at labels.0",
        "labels.2": f"must be {KINDS['Name'].rule}",
        "waiting": "does not belong to status done",
        "waiting.reason": f"must be {KINDS['Words'].rule}",
        "waiting.condition": "is missing",
        "waiting.on": "is missing",
        "waiting.when": "is no field of waiting",
        "data.a.1": "must be an integer within 2^53-1 of zero",
        "data.a.2.b": f"must be {text}",
        "data.<key>": f"must be {text}",
        "notes": "must be a list",
        "result_ref": "is missing: status done needs it",
        "children.0.result_ref": "is missing: status done needs it",
        "children.1.id": "stands twice, first at children.0",
        "children.1.deps.0": f"must be {KINDS['Id'].rule}",
        "children.1.priority": "must be an integer within 2^53-1 of zero",
        "children.2": "must be an object",
    }


def test_the_first_violation_is_said_and_the_others_are_counted():
    with pytest.raises(Invalid) as caught:
        boundary.validate(Flow, example(goal="", owner="", id=""))
    assert caught.value.message == f"id: must be {KINDS['Id'].rule} (and 2 more)"
    with pytest.raises(Invalid) as caught:
        boundary.validate(Flow, [])
    assert caught.value.message == "the document: must be an object"
    assert caught.value.code == 3


def test_no_message_holds_a_value():
    raw = dict.fromkeys(example(), f"\x00{SECRET}") | {"data": {"a": f"\x00{SECRET}"}}
    raw |= {"labels": [SECRET, SECRET], "children": [{"id": SECRET}, {"id": SECRET}]}
    assert SECRET not in str(violations(Flow, raw))


@pytest.mark.req("R-TF-03")
@pytest.mark.parametrize("status", ["complete", "Done", "done ", "", None, 1, ["done"]])
def test_a_status_is_one_of_five(status):
    children = [{"id": "t", "goal": "g", "status": status}]
    found = violations(Flow, example(status=status, children=children))
    said = "is missing" if status is None else f"must be {KINDS['Status'].rule}"
    assert found == {"status": said, "children.0.status": said}


@pytest.mark.req("E8")
def test_e8_a_newer_document_is_read_by_the_codec_and_refused_here():
    raw = example(schema_version=2, colour="red")
    assert codec.from_json(Flow, raw).schema_version == 2
    assert violations(Flow, raw) == {
        "schema_version": "must be 1",
        "colour": "is no field of flow",
    }


@pytest.mark.req("E3")
def test_e3_a_lone_surrogate_in_a_name_hides_no_other_violation():
    raw = example(goal="\ud800", revision=0) | {"\ud800": 1}
    raw["data"] = {"\ud800": 1, "[key]": 1.5, "a": {"\0int": 1}}
    found = violations(Flow, raw)
    assert len(found) == 6
    assert found.keys() > {"goal", "revision", "data.<key>", "data.[key]", "data.a.<key>"}


@pytest.mark.req("E6")
def test_e6_nesting_that_no_loader_saw_is_refused():
    data = {}
    for _ in range(5000):
        data = {"a": data}
    assert "is nested too deeply" in violations(Flow, example(data=data)).values()


def test_other_documents_are_judged_as_well():
    receipt = {"schema_version": 1, "request": "0" * 64, "flow": "f", "revision": 1}
    assert boundary.validate(Receipt, receipt).flow == "f"
    assert violations(Receipt, receipt | {"made": ["a", "a"]}).keys() == {"made.1"}
    plan = {"schema_version": 1, "flow": "f", "tasks": [{"id": "a", "goal": "g"}]}
    assert boundary.validate(Plan, plan).tasks[0].max_attempts == 3
    plan["tasks"] *= 2
    assert violations(Plan, plan).keys() == {"tasks.1.id"}


def test_an_operation_is_judged_in_the_form_of_its_trailer():
    op = {"op": "update", "at": "2026-09-06T10:00:00Z", "by": "ann", "flow": "f"}
    assert boundary.faults(Op, op) == []
    assert boundary.faults(Op, op | {"progress": {"sha256": "0" * 64, "bytes": 5000}}) == []
    found = boundary.faults(Op, op | {"progress": {"sha256": "0", "bytes": -1}, "result": "a"})
    assert [fault.path for fault in found] == ["progress.sha256", "progress.bytes", "result"]
    (fault,) = boundary.faults(Op, op | {"op": "delete"})
    assert fault.path == ""
    assert "op is one of init, observe, create" in fault.message
