"""Laws of `codec`: whatever it accepts has one form of bytes, and comes back."""

from __future__ import annotations

import json

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling import scale

from gitflowstate import codec
from gitflowstate.errors import Invalid
from gitflowstate.model import Flow
from gitflowstate.union import UNION


def plainly(raw) -> bytes:
    """Return JSON in the documented form, as the standard library writes it."""
    return (json.dumps(raw, ensure_ascii=False, indent=2) + "\n").encode()


many = settings(max_examples=scale(60))


@pytest.mark.req("R-TF-05", "R-TF-06", "E12")
@many
@given(strategies.documents)
def test_any_document_comes_back_byte_for_byte(document):
    there = codec.encode(document)
    assert there == plainly(codec.to_json(document))
    read = codec.decode(type(document), there)
    assert read == document
    assert codec.encode(codec.checked(read)) == there


@pytest.mark.req("R-TF-05")
@many
@given(strategies.documents, st.randoms(use_true_random=False), st.booleans())
def test_the_form_in_which_a_document_was_written_does_not_matter(document, random, escaped):
    """Order of fields, white space, escapes, nulls for what is absent: the bytes are the same."""

    def shuffled(value, cls):
        known = codec.fields(cls)
        pairs = list(value.items())
        pairs += [
            (name, None) for name, field in known.items() if not (field.required or name in value)
        ]
        random.shuffle(pairs)
        return {name: inner(item, known[name].nested) for name, item in pairs}

    def inner(item, cls):
        if cls is None or item is None:
            return item
        return (
            [shuffled(one, cls) for one in item] if isinstance(item, list) else shuffled(item, cls)
        )

    cls = type(document)
    written = json.dumps(
        shuffled(codec.to_json(document), cls),
        ensure_ascii=escaped,
        indent=random.choice([None, 0, 7]),
    )
    assert codec.encode(codec.decode(cls, written.encode())) == codec.encode(document)


@pytest.mark.req("E8")
@many
@given(strategies.newer_documents())
def test_nothing_of_a_newer_document_is_lost(raw):
    read = codec.decode(Flow, json.dumps(raw).encode())
    assert json.loads(codec.encode(read)) == raw
    assert codec.encode(read) == plainly(codec.to_json(read))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | strategies.texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*codec.fields(Flow), "x"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.req("E1", "E2", "E4")
@many
@given(st.binary(max_size=60) | junk.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_document_or_refused_with_a_place(data):
    for cls in (Flow, *UNION[:4]):
        try:
            codec.decode(cls, data)
        except Invalid as error:
            (violation,) = error.details["violations"]
            assert {"path", "message"} <= violation.keys()
