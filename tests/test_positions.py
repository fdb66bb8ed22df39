"""A document that is refused is refused with the place: a key's byte, a value's line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import positions

keys = st.text(max_size=4) | st.sampled_from(
    ["a", "b", "~", "/", "0", '"', "\\", "\u00e9", "{", ":"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | keys,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


class Writer:
    """A second way to the same answers: it writes JSON and notes where it put what."""

    def __init__(self, breaks: list[bool]) -> None:
        self.text = ""
        self.breaks = breaks
        self.lines: dict[tuple[str | int, ...], int] = {}

    def gap(self) -> None:
        self.text += "\n " if self.breaks and self.breaks.pop() else " "

    def write(self, value: object, path: tuple[str | int, ...] = ()) -> None:
        self.gap()
        self.lines[path] = self.text.count("\n") + 1
        if isinstance(value, dict):
            self.inside("{}", [(key, child) for key, child in value.items()], path)
        elif isinstance(value, list):
            self.inside("[]", list(enumerate(value)), path)
        else:
            self.text += json.dumps(value)

    def inside(self, ends: str, pairs: list, path: tuple[str | int, ...]) -> None:
        self.text += ends[0]
        for number, (key, child) in enumerate(pairs):
            self.text += "," if number else ""
            if ends == "{}":
                self.gap()
                self.text += json.dumps(key)
                self.gap()
                self.text += ":"
            self.write(child, (*path, key))
            self.gap()
        self.text += ends[1]


@given(values, st.lists(st.booleans(), max_size=60))
def test_every_value_is_found_on_its_line(value, breaks):
    writer = Writer(breaks)
    writer.write(value)
    assert json.loads(writer.text) == value
    assert positions.lines(writer.text, writer.lines) == writer.lines
    assert positions.lines(writer.text, [("nowhere",)]) == {}
    for path, line in writer.lines.items():
        wanted = {path, (*path, "nowhere"), (*path, 99)}
        assert positions.lines(writer.text, wanted) == {path: line}


def line_of(text, path):
    return positions.lines(text, {tuple(path)}).get(tuple(path))


def test_a_line_in_a_document_of_ours():
    text = json.dumps({"id": "f", "children": [{"id": "a"}, {"id": "b", "goal": "x\ny"}]}, indent=2)
    assert line_of(text, []) == 1
    assert line_of(text, ["children"]) == 3
    assert line_of(text, ["children", 1, "goal"]) == 9
    assert line_of(text, ["children", "1", "goal"]) is None
    assert line_of(text, ["children", 2]) is None
    assert line_of(text, ["children", 0, "goal"]) is None
    assert line_of(text, ["id", "id"]) is None
    assert line_of("", []) is None


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("text", "path", "offset"),
    [
        ('{"id":"a","id":"b"}', "/id", 10),
        ('{"a": [{"b": 1}, {"b": 1, "c": {}, "b": 2}]}', "/a/1/b", 35),
        ('{"\u00e9\u4e2d": "\U0001f600", "\u00e9\u4e2d": 1}', "/\u00e9\u4e2d", 18),
        (r'{"a": 1, "\u0061": 2}', "/a", 9),
        ('{"": 1, "": 2}', "/", 8),
        ('{"a/b~": 1, "a/b~": 2}', "/a~1b~0", 12),
        ('{"a": {"x": 1, "a": 2}, "x": 3, "a": 4, "x": 5}', "/a", 32),
        ('[[], {"k": [{}], "k"', "/1/k", 17),
        (r'{"\ud800": 1, "\ud800": 2}', "/\ud800", 14),
    ],
    ids=ascii,
)
def test_a_duplicate_key_is_named_with_its_byte(text, path, offset):
    assert positions.duplicates(text) == (path, offset)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"a": {"a": 1}}, "b": {"a": 1}}',
        '[{"a": 1}, {"a": 1}, "a", "a"]',
        '{"a": "a", "b": "a"}',
        r'{"a": "\",\"a\":", "\"": 1, "\\": 2}',
        '{"a": 1, "A": 1}',
        '{"1": 1, "b": [1, 1, 1]}',
        "",
    ],
)
def test_what_only_looks_like_a_duplicate_is_none(text):
    assert positions.duplicates(text) is None


@pytest.mark.req("E1")
@given(st.lists(st.tuples(keys, values), max_size=6), st.lists(st.tuples(keys, values), max_size=3))
def test_duplicates_agrees_with_the_parser(outer, inner):
    text = _object(
        [
            *((key, json.dumps(value)) for key, value in outer),
            ("in", _object((key, json.dumps(value, ensure_ascii=False)) for key, value in inner)),
        ]
    )
    clashes: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        clashes.extend(name for number, name in enumerate(names) if name in names[:number])
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    found = positions.duplicates(text)
    assert (found is None) == (not clashes)
    if found:
        path, offset = found
        name, _ = json.JSONDecoder().raw_decode(text.encode()[offset:].decode())
        assert name in clashes
        assert path.rpartition("/")[2] == name.replace("~", "~0").replace("/", "~1")


def _object(pairs) -> str:
    return (
        "{"
        + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in pairs)
        + "}"
    )


@given(st.text(alphabet='{}[],:"\\a1 \n\u00e9\ud800', max_size=40))
def test_text_that_is_not_json_is_stepped_over(text):
    found = positions.duplicates(text)
    assert found is None or text.encode("utf-8", "surrogatepass")[found[1] :].startswith(b'"')
    line = line_of(text, ["a", 1])
    assert line is None or 1 <= line <= text.count("\n") + 1


@pytest.mark.req("E6")
@pytest.mark.timeout(30)  # what is quadratic takes minutes
@pytest.mark.parametrize(
    "unit", ["[", '{"a":', '[{"a":[', "]", "{", '"', '\\"', ",", "a ", '{"a":1},']
)
def test_depth_and_length_cost_a_pass_and_no_stack(unit):
    text = unit * max(100_000, 2**20 // len(unit))
    assert positions.duplicates(text) is None


@pytest.mark.req("E6")
def test_the_deepest_key_has_its_place():
    text = '{"a":\n[' * 100_000 + '{"k":1,"k":2}'
    assert positions.duplicates(text) == ("/a/0" * 100_000 + "/k", 7 * 100_000 + 7)
