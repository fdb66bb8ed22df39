import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate.errors import Invalid
from gitflowstate.request import key_digest, request_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def shuffled(value, rng):
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if isinstance(value, dict):
        return {k: shuffled(v, rng) for k, v in rng.sample(list(value.items()), len(value))}
    return value


def test_a_request_is_the_sha256_of_its_canonical_json():
    canonical = '{"arguments":{"a":[1,null],"ö":"x\\n"},"verb":"update"}'
    expected = sha256(canonical.encode()).hexdigest()
    assert request_digest("update", {"ö": "x\n", "a": [1, None]}) == expected


@given(st.dictionaries(st.text(), JSON, max_size=4), st.integers())
def test_the_order_of_arguments_does_not_matter(arguments, seed):
    other = shuffled(arguments, random.Random(seed))
    assert request_digest("note", other) == request_digest("note", arguments)


def test_the_verb_the_names_and_the_values_matter():
    asked = [
        ("note", {"text": "a"}),
        ("wait", {"text": "a"}),
        ("note", {"texts": "a"}),
        ("note", {"text": "b"}),
        ("note", {"text": ["a"]}),
        ("note", {"text": None}),
        ("note", {"text": 1}),
        ("note", {"text": "1"}),
        ("note", {"text": True}),
        ("note", {}),
    ]
    assert len({request_digest(verb, arguments) for verb, arguments in asked}) == len(asked)


@pytest.mark.req("E2", "E3")
@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), float("nan"), float("inf"), "\ud800", {"\ud800": 1}, b"bytes", {1: 2}],
)
def test_arguments_that_are_no_json_are_refused(value):
    with pytest.raises(Invalid, match="must be plain JSON") as caught:
        request_digest("update", {"data": value})
    assert caught.value.details["violations"][0]["path"] == "arguments"


def test_a_key_is_named_by_its_sha256():
    assert key_digest("deploy 7") == sha256(b"deploy 7").hexdigest()
    assert key_digest("é" * 255) == sha256("é".encode() * 255).hexdigest()


def test_a_document_of_a_list_has_a_key_of_its_own():
    digests = {key_digest("k"), key_digest("k\0flow-a"), key_digest("k\0flow-b")}
    assert digests == {sha256(key).hexdigest() for key in (b"k", b"k\0flow-a", b"k\0flow-b")}


@pytest.mark.req("E3", "E4")
@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        "\t",
        "k" * 256,
        "two\nlines",
        "esc\x1b",
        "\u2028",
        "\ud800",
        "\0a",
        "k\0../x",
        "k\0",
    ],
)
def test_a_key_that_is_not_one_line_is_refused(key):
    with pytest.raises(Invalid) as caught:
        key_digest(key)
    assert caught.value.details["violations"][0]["path"] == "key"
