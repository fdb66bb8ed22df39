"""The writer of canonical bytes, beside the standard library's, and what it keeps."""

from __future__ import annotations

import json
import re

import pytest
from anyflow import flows
from hypothesis import given
from hypothesis import strategies as st
from samples import EXAMPLE

from gitflowstate import codec
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow

PATTERNED = sorted(name for name, kind in KINDS.items() if kind.pattern)


def standard(value) -> bytes:
    text = json.dumps(codec.to_json(value), ensure_ascii=False, indent=2) + "\n"
    return text.encode("utf-8", "surrogatepass")


def ours(value) -> bytes:
    return (codec._lines(value, "") + "\n").encode("utf-8", "surrogatepass")


@given(flows)
def test_the_lines_are_those_of_the_standard_library(flow):
    assert ours(flow) == standard(flow)


@given(flows, st.data())
def test_a_task_that_stays_keeps_its_lines_and_one_that_changes_does_not(flow, data):
    ours(flow)  # every task has its lines now
    if not flow.children:
        return
    at = data.draw(st.integers(0, len(flow.children) - 1))
    changed = flow.children[at].replace(goal=data.draw(st.text()) + "!", deps=("a", "b"))
    after = flow.replace(children=(*flow.children[:at], changed, *flow.children[at + 1 :]))
    assert ours(after) == standard(after)


@pytest.mark.parametrize(
    "text", ['{"a": []}', '{"a": {}}', '{"a": [1, {"b": [null, "\\n"]}], "c": true}']
)
def test_free_form_data_stands_behind_its_margin(text):
    flow = codec.decode(Flow, EXAMPLE).replace(data=json.loads(text))
    assert codec.encode(flow) == standard(flow)


def test_what_is_not_canonical_is_not_kept():
    """Lines come from values alone: how a person wrote a task says nothing about ours."""
    by_hand = json.dumps(json.loads(EXAMPLE), indent=2).replace(
        '"id": "task-001"', '"id":"task-001"'
    )
    flow = codec.decode(Flow, by_hand.encode())
    assert codec.encode(flow.replace(revision=5)) == EXAMPLE.replace(
        b'"revision": 4', b'"revision": 5'
    )


@pytest.mark.parametrize("name", PATTERNED)
@given(st.data())
def test_a_kind_judges_as_its_pattern_does(name, data):
    """Most text is judged without the pattern, which must make no difference."""
    kind = KINDS[name]
    alphabet = st.characters(max_codepoint=0x2100) | st.sampled_from(" \t\n\x7f\x1f~a\ufeff\ud800")
    text = data.draw(st.text(alphabet, max_size=5))
    assert kind.accepts(text) == (re.match(kind.pattern, text) is not None)
    if kind.longest is not None:
        assert kind.accepts("x" * kind.longest)
        assert not kind.accepts("x" * (kind.longest + 1))
