import json
import signal
import socket
import threading

import psutil
import pytest

from gitflowstate import usertypes
from gitflowstate.errors import Invalid

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def check(schema, data):
    raw = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    usertypes.check_data(raw, data, "report")


def refused(schema, data):
    with pytest.raises(Invalid) as caught:
        check(schema, data)
    return caught.value


def violations(schema, data):
    return [(v["path"], v["message"]) for v in refused(schema, data).details["violations"]]


SCHEMA = {
    "$schema": DRAFT,
    "$id": "https://example.org/report",
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string"},
        "pages": {"type": "array", "items": {"$ref": "#/$defs/page"}},
    },
    "$defs": {"page": {"$anchor": "page", "type": "object", "properties": {"n": {"minimum": 1}}}},
}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (SCHEMA, {"title": "x", "pages": [{"n": 1}, {}]}),
        ({"properties": {"a": {"$ref": "#page"}}, **SCHEMA}, {"title": "x"}),
        ({"properties": {"$ref": {"type": "integer"}}}, {"$ref": 1}),
        ({}, {"anything": [None, True, {"goes": 1}]}),
        (True, {}),
        ({"format": "email", "properties": {"a": {"pattern": "[$]$"}}}, {"a": "5$"}),
    ],
)
def test_data_that_the_schema_accepts_passes(schema, data):
    check(schema, data)


def test_every_violation_is_listed_with_its_path():
    data = {"pages": [{"n": 1}, {"n": 0}, 7]}
    assert violations(SCHEMA, data) == [
        ("data", "'title' is a required property"),
        ("data.pages.1.n", "0 is less than the minimum of 1"),
        ("data.pages.2", "7 is not of type 'object'"),
    ]
    error = refused(SCHEMA, data)
    assert error.code == 3
    assert error.message == "data: 'title' is a required property (and 2 more)"
    assert "types/report.schema.json" in error.hint


def test_violations_are_bounded_in_number_and_length():
    found = violations(
        {"items": False, "additionalProperties": {"type": "integer"}},
        {f"k{n}": "secret " * 1000 for n in range(300)},
    )
    assert len(found) == 100
    assert found[0] == ("data.k0", "does not obey 'type' of the schema")


@pytest.mark.req("F12")
def test_a_pattern_does_not_let_a_final_newline_pass():
    schema = {"properties": {"a": {"pattern": "^[a-z]+$"}}}
    check(schema, {"a": "abc"})
    assert violations(schema, {"a": "abc\n"}) == [("data.a", "does not match '^[a-z]+$'")]


@pytest.mark.req("E11")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("where", ["/x", "/x#/$defs/y"])
def test_e11_a_schema_elsewhere_is_refused_without_a_request(keyword, where):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}{where}"
        for schema in (
            {keyword: url},
            {"properties": {"a": {"items": [{keyword: url}]}}},
            {"$id": url, keyword: "other.json"},
            {"$ref": "#/unknown/x", "unknown": {"x": {"$id": url, keyword: "#/y"}}},
        ):
            error = refused(schema, {"a": [1]})
            assert error.message.startswith("types/report.schema.json refers to ")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.req("E11")
@pytest.mark.parametrize("ref", ["file:///etc/passwd", "/etc/passwd", "passwd.json", ""])
def test_e11_a_file_is_not_read(ref):
    assert "refers to" in refused({"$ref": ref}, {}).message


@pytest.mark.req("E11")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {"patternProperties": {"^(b+)+$": {}}, "additionalProperties": True},
    ],
    ids=["pattern", "patternProperties"],
)
def test_e11_a_pattern_that_takes_for_ever_is_stopped(schema):
    data = {"a": "a" * 30 + "!", "b" * 30 + "!": 1}
    assert refused(schema, data).message == (
        "types/report.schema.json takes more than 0.75 s of CPU to check this data"
    )


def test_it_is_stopped_in_a_thread_as_well_and_leaves_no_process_behind():
    found, before = [], {*psutil.Process().children(recursive=True)}
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    thread = threading.Thread(target=lambda: found.append(refused(schema, {"a": "a" * 30 + "!"})))
    thread.start()
    thread.join()
    assert "takes more than" in found[0].message
    assert {*psutil.Process().children(recursive=True)} <= before


def test_the_callers_own_timer_stays_as_it_was():
    before = signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)
    check({}, {})
    assert (signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)) == before


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (b"{", "cannot be read: the document: is not JSON"),
        (b'{"a": 1, "a": 2}', "cannot be read: a: the key stands twice"),
        (b"\xff", "cannot be read: the document: byte 0 is not UTF-8"),
        (b'{"x": "' + b"x" * 256 * 1024 + b'"}', "the limit is 262,144"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "is not draft 2020-12"),
        ({"$schema": 5}, "is not draft 2020-12"),
        ([], "is no JSON Schema: the document: [] is not of type"),
        ({"properties": {"a": {"type": "int"}}}, "is no JSON Schema: properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "is no JSON Schema: properties.a.pattern"),
        ({"$ref": "#/$defs/none"}, "which is not in it"),
        ({"$ref": "#none"}, "which is not in it"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"$ref": "#"}}}, "itself without end"),
        ({"$ref": "#/title", "title": "no schema"}, "cannot be used: "),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(schema, said):
    error = refused(schema, {"a": "x"})
    assert error.message.startswith("types/report.schema.json ")
    assert said in error.message
    assert [v["path"] for v in error.details["violations"]] == ["types/report.schema.json"]
    assert error.code == 3
