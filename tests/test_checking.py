"""`gfs check` says everything that is wrong with a file, and where."""

import json
from pathlib import Path

import pytest

from gitflowstate import checking

EXAMPLE = Path(__file__).parent.joinpath("data", "flow-example-001.json").read_text()
RECEIPT = {"schema_version": 1, "request": "0" * 64, "flow": "f", "revision": 1}
OP = {"op": "note", "at": "2026-09-06T10:00:00Z", "by": "ann", "flow": "f", "text": "t"}


def check(content):
    data = content if isinstance(content, bytes) else content.encode()
    return checking.check_file("file.json", data)


def found(content):
    return [(v.get("line"), v["path"], v["message"]) for v in check(content)]


@pytest.mark.req("R-TF-01")
@pytest.mark.parametrize(
    "content",
    [
        EXAMPLE,
        f"[{EXAMPLE}, {EXAMPLE.replace('flow-example-001', 'other')}]",
        "[]",
        json.dumps(RECEIPT),
        json.dumps(OP),
        json.dumps([RECEIPT, OP, json.loads(EXAMPLE)]),
    ],
    ids=["flow", "flows", "no flows", "key", "op", "mixed"],
)
def test_a_valid_file_has_no_violations(content):
    assert check(content) == []


@pytest.mark.req("R-TF-03", "R-TF-12")
def test_every_violation_has_its_line_and_they_stand_in_order():
    text = EXAMPLE.replace('"revision": 4', '"revision": "4"')
    text = text.replace('"status": "running"\n    }', '"status": "complete"\n    }')
    text = text.replace('"owner": "architecture-session",\n', "")
    assert found(text) == [
        (1, "owner", "is missing"),
        (6, "revision", "must be an integer from 1 to 2^53-1"),
        (20, "children.1.status", "must be one of pending, running, waiting, done, failed"),
    ]


@pytest.mark.req("E1", "E2")
def test_e1_e2_a_key_twice_and_bad_numbers_are_told_with_all_else():
    lines = [
        '{"schema_version": 1.0,',
        '"id": "f", "id": "g",',
        '"goal": "",',
        '"data": {"a": [NaN,',
        "1e999, -0,",
        "9007199254740993, 0]},",
        '"revision": 1' + "0" * 4400 + "}",
    ]
    text = "\n".join(lines)
    told = found(text)
    assert [(line, path) for line, path, _ in told] == [
        (1, "schema_version"),
        *((1, name) for name in ("status", "owner", "updated_at", "children")),
        (2, "id"),
        (3, "goal"),
        (4, "data.a.0"),
        (5, "data.a.1"),
        (5, "data.a.2"),
        (6, "data.a.3"),
        (7, "revision"),
    ]
    assert told[5][2] == "the key stands twice, again at byte 35"


@pytest.mark.req("E4", "E6", "E7")
@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        (b"", 1, "is not JSON: it is empty"),
        (b" \n", 1, "is not JSON: it is empty"),
        (b"{}\n\n{}", 3, "is not JSON: Extra data"),
        (b'{"a": 1,\n}', 2, "is not JSON"),
        (b'{\n// no\n"a": 1}', 2, "is not JSON"),
        (b"\xef\xbb\xbf{}", 1, "begins with a byte order mark"),
        (b'{"a":\n"\xff"}', 2, "byte 7 is not UTF-8"),
        (EXAMPLE.encode("utf-16"), 1, "is not UTF-8"),
        (b'{"a": "\x00"}', 1, "is not JSON"),
        (b"[" * 33 + b"]" * 33, None, "is nested deeper than 32 levels"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, None, "is nested deeper than 32 levels"),
        (b" " * (4 * 2**20 + 1), None, "the limit is 4,194,304"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_e4_e6_e7_what_is_no_document_at_all_is_one_violation(content, line, said):
    ((at, path, message),) = found(content)
    assert (at, path) == (line, "")
    assert said in message


@pytest.mark.req("E3", "E4")
def test_e3_e4_text_that_no_document_may_hold():
    raw = json.loads(EXAMPLE)
    raw |= {"goal": "\ud800", "progress": "a\x1bb", "owner": "two\nlines", "data": {"\x7f": 1}}
    paths = [path for _, path, _ in found(json.dumps(raw, indent=2))]
    assert paths == ["goal", "owner", "progress", "data.<key>"]


@pytest.mark.req("E8")
def test_e8_a_newer_document_is_said_to_be_one():
    text = EXAMPLE.replace('"schema_version": 1', '"schema_version": 2')
    assert found(text) == [(2, "schema_version", "must be 1")]


def test_in_a_list_each_document_has_its_number():
    twice = EXAMPLE.replace("task-002", "task-001")
    assert found(f"[\n{EXAMPLE},\n{twice},\n5]") == [
        (45, "1.children.1.id", "stands twice, first at children.0"),
        (52, "2", "must be an object"),
    ]


def test_what_has_a_key_of_another_document_is_judged_as_that():
    assert {path for _, path, _ in found('{"op": "done"}')} == {"at", "by", "flow", "result"}
    assert {path for _, path, _ in found('{"request": "x"}')} == {
        *("schema_version", "request", "flow", "revision")
    }


PLAN = {"schema_version": 1, "flow": "f", "tasks": [{"id": "t", "goal": "g"}]}
PROCESS = {
    "schema_version": 1, "id": "p-1", "state": "starting", "session_id": "s", "argv": ["make"],
    "cwd": "/", "host": "h", "boot_id": "b", "created_at": "2026-09-06T10:00:00Z",
}  # fmt: skip
FALLEN = {"flow": "f", "revision": 1, "digest": "0" * 64}


@pytest.mark.req("R-TF-01")
@pytest.mark.parametrize(
    ("raw", "wrong", "path"),
    [
        (PLAN, {"tasks": [{"id": "t"}]}, "tasks.0.goal"),
        ({"tasks": PLAN["tasks"]}, {"goals": 1}, "goals"),
        ({"schema_version": 1, "owed": ["f"]}, {"head": "x"}, "head"),
        ({"schema_version": 1, "message": "m", "revision": 2}, {"digest": "x"}, "digest"),
        ({"schema_version": 1, "flows": [FALLEN]}, {"flows": [{}]}, "flows.0.flow"),
        ({"schema_version": 1, "flows": {"f": 1}}, {"more": 1}, "more"),
        ({"format": 1}, {"format": "1"}, "format"),
        (PROCESS, {"argv": "make"}, "argv"),
        ({"schema_version": 1, "session_id": "s", "events": {}}, {"events": []}, "events"),
    ],
    ids=[
        *("plan", "plan as given", "cursor", "receipt", "unusable", "acknowledged", "format"),
        *("process", "reader"),
    ],
)
def test_a_document_of_another_kind_is_judged_as_that(raw, wrong, path):
    assert check(json.dumps(raw)) == []
    assert path in {told for _, told, _ in found(json.dumps(raw | wrong))}


@pytest.mark.parametrize("name", ["gitflowstate.json", "unusable.json", "cursor.json"])
def test_a_file_that_its_keys_leave_open_goes_by_its_name(name):
    told = checking.check_file(f"some/{name}", b'{"schema_version": 1}')
    needed = {"gitflowstate.json": {"format", "schema_version"}, "unusable.json": {"flows"}}
    assert {violation["path"] for violation in told} == needed.get(name, set())


def test_a_file_full_of_violations_is_not_told_to_the_end():
    told = found(json.dumps([0] * 5000))
    assert len(told) == checking.MOST + 1
    assert told[-1] == (None, "", "and 4,000 more violations")
