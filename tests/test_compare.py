"""Two versions of a flow: what differs, nothing else, and nothing of it hidden."""

from __future__ import annotations

import pytest
from anyflow import ATTACKS, EXAMPLE, UNSAFE, WAITING, dirtied, flows
from hypothesis import given, settings

from gitflowstate.codec import to_json
from gitflowstate.compare import diff
from gitflowstate.model import Note, Task


def _diff(a, b):
    return diff(a, b).splitlines()


@pytest.mark.req("R-TF-05")
def test_a_change_of_progress_is_told_in_two_lines():
    after = EXAMPLE.replace(revision=5, updated_at="2026-09-06T11:00:00Z", progress="Compared")
    assert _diff(EXAMPLE, after) == [
        "flow-example-001 r4 -> r5",
        "updated_at: 2026-09-06T10:00:00Z -> 2026-09-06T11:00:00Z",
        "progress: Requirements captured; comparison in progress -> Compared",
    ]


def test_fields_that_come_and_go_are_told_one_by_one():
    assert _diff(EXAMPLE, WAITING) == [
        "flow-example-001 r4 -> r5",
        "status: running -> waiting",
        "waiting.reason: (none) -> Two options cost the same",
        "waiting.condition: (none) -> A person picks one",
        "waiting.on: (none) -> human",
        "waiting.since: (none) -> 2026-09-06T12:00:00Z",
    ]
    assert "waiting.on: human -> (none)" in _diff(WAITING, EXAMPLE)


def test_tasks_are_told_apart_by_id():
    first, second = EXAMPLE.children
    finished = second.replace(status="done", result_ref="out.md")
    third = Task(id="t3", goal="Write it", status="pending", deps=("task-002",))
    assert _diff(EXAMPLE, EXAMPLE.replace(children=(finished, third)))[1:] == [
        (
            "children: - id: task-001, goal: Compare operating constraints, status: done, "
            "result_ref: artifacts/constraints.md"
        ),
        "children[task-002].status: running -> done",
        "children[task-002].result_ref: (none) -> out.md",
        'children: + id: t3, goal: Write it, status: pending, deps: ["task-002"]',
    ]
    assert _diff(EXAMPLE, EXAMPLE.replace(children=(second, first)))[1:] == [
        "children: the order changed"
    ]


def test_a_long_text_is_told_by_its_lines():
    old = "\n".join(f"line {number}" for number in range(9))
    new = old.replace("line 4", "line four\x1b")
    assert _diff(EXAMPLE.replace(progress=old), EXAMPLE.replace(progress=new))[1:] == [
        "progress:",
        "    line 3",
        "  - line 4",
        "  + line four\\x1b",
        "    line 5",
    ]
    huge = EXAMPLE.replace(progress="x\n" * 5000)
    assert _diff(EXAMPLE, huge)[1:] == ["progress:", "  1 lines -> 5,001 lines"]


def test_lists_tell_what_was_added_and_taken_out():
    note = Note(at="2026-09-06T10:00:00Z", by="jo", text="See\nthis")
    a = EXAMPLE.replace(labels=("x", "y"), notes=(note,), data={"k": [1, 1, True]})
    b = EXAMPLE.replace(labels=("y", "z"), notes=(note, note), data={"k": [1, 1, 1]})
    assert _diff(a, b)[1:] == [
        "notes: + at: 2026-09-06T10:00:00Z, by: jo, text: See\\nthis",
        "labels: - x",
        "labels: + z",
        "data.k: - true",
        "data.k: + 1",
    ]
    assert _diff(EXAMPLE, EXAMPLE.replace(data={}))[1:] == ["data: (none) -> {}"]
    assert _diff(EXAMPLE.replace(data={"k": 1}), EXAMPLE.replace(data={"k": True}))[1:] == [
        "data.k: 1 -> true"
    ]


def test_a_new_flow_differs_from_none_in_all_it_has():
    lines = _diff(None, EXAMPLE)
    assert lines[0] == "flow-example-001 (none) -> r4"
    assert "status: (none) -> running" in lines
    assert sum(line.startswith("children: + ") for line in lines) == 2


def test_what_a_newer_version_added_is_compared_too():
    a, b = EXAMPLE.replace(schema_version=2, zeal=1), EXAMPLE.replace(schema_version=2, zeal=2)
    assert _diff(a, b)[1:] == ["zeal: 1 -> 2"]


@pytest.mark.req("F5")
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_unseen_is_made_visible_and_harmless(attack):
    text = diff(dirtied("x"), dirtied(attack))
    assert not UNSAFE.search(text)
    seen = attack.encode("unicode_escape").decode().replace("\\\\", "\\")
    assert f"owner: x -> {seen}" in text


@pytest.mark.req("R-TF-33")
@settings(deadline=None)
@given(flows, flows)
def test_any_two_flows_are_compared_harmlessly(a, b):
    text = diff(a, b)
    assert not UNSAFE.search(text)
    assert text == diff(a, b)
    same = {**to_json(a), "revision": 0} == {**to_json(b), "revision": 0}
    assert ("\n" in text) == (not same)
    assert diff(a, a).endswith(": no difference")
