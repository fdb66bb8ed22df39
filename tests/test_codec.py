"""What is stored has one form of bytes, and what is not in order is refused with its place."""

from __future__ import annotations

import itertools
import json
import tracemalloc

import pytest
from samples import AT, EXAMPLE, LATER, STATUSES, fallen, flow, task

from gitflowstate import codec
from gitflowstate.errors import Invalid
from gitflowstate.kinds import MAX_DEPTH, MAX_DOCUMENT, MAX_INT
from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Claim,
    Failure,
    Flow,
    Format,
    Link,
    Note,
    Receipt,
    Waiting,
    archive_path,
    flow_path,
    key_path,
)

FULL = Flow(
    schema_version=1,
    id="f-1",
    goal="Compare",
    status="waiting",
    revision=7,
    owner="ann",
    created_at=AT,
    updated_at="2026-09-06T10:00:00.000001Z",
    progress="",
    next_action="Read",
    waiting=Waiting(reason="r", condition="c", on="human", since=AT),
    notes=(Note(at=AT, by="bob", text="one\n\ttwo"),),
    plan=2,
    links=(Link(rel="issue", href="https://example.org/1"),),
    attempt_of="f-0",
    labels=("b", "a"),
    type="study",
    data={"z": [1, True, None, {}], "a": {"é": "\U0001f600"}},
    children=(
        task(
            "t1",
            "waiting",
            deps=("t0",),
            priority=-2,
            not_before=AT,
            timeout_s=60,
            max_attempts=0,
            on_interrupt="hold",
            claim=Claim(worker="w", by="bob", attempt=7, until=LATER),
            failures=1,
            interruptions=2,
            outcome="lost",
            result_ref="out",
            reason="broken",
            finished_at=AT,
            finished_by="bob",
            process="p-1",
        ),
    ),
)


def raw(**changes):
    """Return the example as JSON with fields changed; None takes one away."""
    value = json.loads(EXAMPLE) | changes
    return {name: item for name, item in value.items() if item is not None}


def encoded(value) -> bytes:
    return json.dumps(value).encode()


def refusal(data, cls=Flow) -> Invalid:
    with pytest.raises(Invalid) as caught:
        codec.decode(cls, data)
    (violation,) = caught.value.details["violations"]
    assert violation["message"] in caught.value.message
    return caught.value


def violated(data) -> str:
    """Return the path of the field for which bytes are refused."""
    return refusal(data).details["violations"][0]["path"]


# ── the form of the bytes ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-01", "R-TF-02", "R-TF-05")
def test_the_founding_example_loads_and_comes_back_byte_for_byte():
    example = codec.decode(Flow, EXAMPLE)
    assert codec.encode(example.replace(revision=4)) == EXAMPLE
    assert codec.encode(Flow(**example.__dict__)) == EXAMPLE
    assert [child.result_ref for child in example.children] == ["artifacts/constraints.md", None]


@pytest.mark.req("R-TF-05")
def test_every_field_stands_in_the_documented_order():
    """Architecture, section 4, The nouns."""
    assert " ".join(codec.to_json(FULL)) == (
        "schema_version id goal status revision owner created_at updated_at progress next_action "
        "waiting notes plan links attempt_of labels type data children"
    )
    order = list(codec.fields(Flow))
    assert order[order.index("waiting") :][:3] == ["waiting", "failure", "result_ref"]
    assert " ".join(codec.to_json(FULL)["children"][0]) == (
        "id goal status deps priority not_before timeout_s max_attempts on_interrupt claim "
        "failures interruptions outcome result_ref reason finished_at finished_by waiting process"
    )
    assert list(codec.to_json(FULL)["children"][0]["claim"]) == ["worker", "by", "attempt", "until"]


@pytest.mark.req("R-TF-05")
def test_the_bytes_are_indented_utf_8_with_one_newline_at_the_end():
    data = codec.encode(FULL)
    assert data == (json.dumps(codec.to_json(FULL), ensure_ascii=False, indent=2) + "\n").encode()
    assert "\U0001f600".encode() in data
    assert data.endswith(b"}\n")
    assert b'\n  "children": [\n    {\n      "id": "t1",\n' in data
    assert b'"text": "one\\n\\ttwo"' in data


def test_what_was_encoded_decodes_to_the_same():
    assert codec.decode(Flow, codec.encode(FULL)) == FULL


@pytest.mark.req("R-TF-05")
def test_a_change_of_progress_changes_three_lines():
    before = codec.decode(Flow, EXAMPLE)
    after = before.replace(progress="Done", revision=5, updated_at=LATER)
    lines = zip(EXAMPLE.splitlines(), codec.encode(after).splitlines(), strict=True)
    changed = [one.split(b":")[0].strip() for one, other in lines if one != other]
    assert changed == [b'"revision"', b'"updated_at"', b'"progress"']


@pytest.mark.req("E12")
def test_the_order_and_the_integers_of_free_form_data_come_back():
    data = {"z": 1, "a": {"y": -MAX_INT, "b": [MAX_INT, 0, -1]}, "m": None, "": ""}
    there = codec.encode(flow(data=data))
    read = codec.decode(Flow, there)
    assert codec.encode(Flow(**read.__dict__)) == there
    assert codec.compact(read.data) == codec.compact(data)
    modified = read.replace(progress="more")
    assert codec.encode(modified).replace(b'"more"', b'""') == there


def test_a_default_is_absent_and_so_is_null():
    defaults = {"deps": [], "priority": 0, "max_attempts": 3, "on_interrupt": "rerun"}
    nothing = {"claim": None, "failures": 0, "interruptions": 0, "waiting": None, "process": None}
    value = raw(notes=[], links=[], labels=[])
    value["children"][0] |= defaults | nothing
    value |= {"waiting": None, "failure": None, "plan": None, "data": None}
    assert codec.encode(codec.decode(Flow, encoded(value))) == EXAMPLE


def test_null_is_no_value_for_a_field_that_must_be_there():
    value = raw()
    value["goal"] = None
    assert refusal(encoded(value)).message == "goal: is missing"


@pytest.mark.parametrize("name", [name for name, f in codec.fields(Flow).items() if f.required])
@pytest.mark.req("R-TF-01")
def test_a_document_without_one_of_its_fields_is_refused(name):
    assert refusal(encoded(raw(**{name: None}))).message == f"{name}: is missing"


def test_the_fields_that_must_be_there_are_those_of_the_founding_document():
    required = {name for name, field in codec.fields(Flow).items() if field.required}
    example = set(json.loads(EXAMPLE))
    assert required == example - {"progress", "next_action"}  # the status asks for the second


# ── statuses and what they need ─────────────────────────────────────────────────────────────────

WAITING = {"reason": "r", "condition": "c", "on": "human"}
FAILURE = {"reason": "r", "recoverable": "none"}


@pytest.mark.req("R-TF-03")
@pytest.mark.parametrize(
    "word", ["complete", "Done", "", "done ", "cancelled", "lost", 1, ["done"]]
)
def test_a_status_is_one_of_five_words(word):
    assert violated(encoded(raw(status=word))) == "status"
    value = raw()
    value["children"][1]["status"] = word
    error = refusal(encoded(value))
    assert "children.1.status" in error.message
    assert "pending, running, waiting, done, failed" in error.message


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"next_action": None}, "next_action"),
        ({"status": "pending", "next_action": None}, "next_action"),
        ({"status": "waiting", "waiting": WAITING, "next_action": None}, "next_action"),
        ({"status": "waiting"}, "waiting"),
        ({"status": "done"}, "result_ref"),
        ({"status": "failed"}, "failure"),
        ({"waiting": WAITING}, "waiting"),
        ({"failure": FAILURE}, "failure"),
        ({"result_ref": "x"}, "result_ref"),
        ({"status": "done", "result_ref": "x", "failure": FAILURE}, "failure"),
        ({"status": "failed", "result_ref": "x", "failure": FAILURE}, "result_ref"),
        ({"status": "done", "result_ref": "x", "waiting": WAITING}, "waiting"),
        ({"status": "waiting", "waiting": {"reason": "r", "on": "human"}}, "waiting.condition"),
        ({"status": "waiting", "waiting": {"condition": "c", "on": "human"}}, "waiting.reason"),
        ({"status": "failed", "failure": {"reason": "r"}}, "failure.recoverable"),
        ({"status": "failed", "failure": {"recoverable": "r"}}, "failure.reason"),
    ],
)
@pytest.mark.req("R-TF-17", "R-TF-18", "R-TF-19", "R-TF-20")
def test_a_status_needs_its_fields_and_has_no_others(changes, where):
    assert violated(encoded(raw(**changes))) == where


@pytest.mark.parametrize("changes", [{"status": "done"}, {"status": "waiting"}])
@pytest.mark.req("R-TF-02", "R-TF-18")
def test_a_task_that_is_done_has_a_result_and_one_that_waits_says_why(changes):
    value = raw()
    value["children"][1] |= changes
    needed = {"done": "result_ref", "waiting": "waiting"}[changes["status"]]
    assert violated(encoded(value)) == f"children.1.{needed}"


# ── hazards E: documents that must be refused ───────────────────────────────────────────────────


def with_text(old: str, new: str) -> bytes:
    assert EXAMPLE.count(old.encode()) == 1, old
    return EXAMPLE.replace(old.encode(), new.encode("utf-8", "surrogatepass"))


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"revision": 4,', '"revision": 4, "revision": 4,', "revision"),
        ('"revision": 4,', '"revision": 4, "re\\u0076ision": 5,', "revision"),
        ('"id": "task-001",', '"id": "task-001", "id": "x",', "children.0.id"),
        ('"revision": 4,', '"revision": 4, "data": {"a": {"b": 1, "b": 1}},', "data.a.b"),
    ],
)
def test_e1_a_key_that_stands_twice_is_named_with_its_offset(old, new, key):
    data = with_text(old, new)
    (violation,) = refusal(data).details["violations"]
    assert violated(data) == key
    second = data.decode().index(new) + new.rindex('"', 0, new.rindex('":'))
    assert violation["offset"] == second


BAD_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "1.0", "1e3", "-0", "4.0e0", "0.1"]
BAD_NUMBERS += [str(2**53), str(-(2**53)), str(2**63), "9" * 4400, "-" + "9" * 4400]


@pytest.mark.req("E2")
@pytest.mark.parametrize("number", BAD_NUMBERS, ids=lambda number: number[:12])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"revision": 4', '"revision": %s'),
        ('"revision": 4', '"revision": 4, "data": {"n": [%s]}'),
        ('"revision": 4', '"revision": 4, "plan": %s'),
    ],
)
def test_e2_a_number_is_an_integer_that_every_reader_keeps(number, old, new):
    error = refusal(with_text(old, new % number))
    assert len(error.message) < 200


@pytest.mark.req("E2")
@pytest.mark.parametrize("value", ["1", True, False, 0, -1, [1], {}])
def test_e2_a_revision_is_an_integer_from_1(value):
    assert violated(encoded(raw(revision=value))) == "revision"
    assert violated(encoded(raw(schema_version=value))) == "schema_version"


@pytest.mark.req("E2")
@pytest.mark.parametrize("number", [1, MAX_INT])
def test_e2_the_first_and_the_last_integer_are_fine(number):
    assert codec.decode(Flow, encoded(raw(revision=number))).revision == number


WHERE = ["goal", "id", "owner", "progress", "next_action"]


@pytest.mark.req("E3", "E4", "F7")
@pytest.mark.parametrize(
    "character",
    ["\ud800", "x\udfff", "\x00", "\x07", "\x1b", "\x7f", "\r", "\x85", "\x9b", "\x0b", "\x0c"],
    ids=ascii,
)
@pytest.mark.parametrize("field", WHERE)
def test_e3_e4_text_holds_no_surrogate_and_no_control(character, field):
    """Escaped in the JSON, since most of them are no JSON at all if they are not."""
    assert violated(encoded(raw(**{field: f"a{character}b"}))) == field


@pytest.mark.req("E3", "E4")
@pytest.mark.parametrize("character", ["\ud800", "\x00", "\x1b", "\r"], ids=ascii)
def test_e3_e4_free_form_data_neither_in_keys_nor_in_values(character):
    assert violated(encoded(raw(data={"a": [{"b": character}]}))) == "data.a.0.b"
    assert violated(encoded(raw(data={"a": [{f"b{character}": 1}]}))) == "data.a.0.<key>"


@pytest.mark.req("F7")
@pytest.mark.parametrize("character", ["\n", "\t", "\u2028", "\u2029"], ids=ascii)
@pytest.mark.parametrize("field", ["owner", "id"])
def test_f7_a_name_is_one_line(character, field):
    assert violated(encoded(raw(**{field: f"a{character}b"}))) == field


def test_newline_and_tab_and_any_other_character_are_text():
    text = "a\n\tb\u2028\u202e\u200b\ufeff\U0001f600\ufffe"
    assert codec.decode(Flow, encoded(raw(progress=text))).progress == text


@pytest.mark.req("E4")
@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"\xef\xbb\xbf" + EXAMPLE, 0),
        (EXAMPLE.decode().encode("utf-16"), 0),
        (EXAMPLE.decode().encode("utf-16-le"), None),
        (EXAMPLE + b"x", len(EXAMPLE)),
        (EXAMPLE + EXAMPLE, len(EXAMPLE)),
        (EXAMPLE + b"// the end", len(EXAMPLE)),
        (b"/* */" + EXAMPLE, 0),
        (EXAMPLE.replace(b"    }\n  ]", b"    },\n  ]"), None),
        (EXAMPLE.replace(b"Compare three", b"Compare\x01three"), None),
        (EXAMPLE.replace(b"Compare three", b"Compare \xff three"), EXAMPLE.index(b"three")),
        (EXAMPLE.replace(b"Compare three", b"Compare \xed\xa0\x80"), EXAMPLE.index(b"three")),
        (EXAMPLE[:-20], None),
        (b"", 0),
        (b"null", None),
        (b"[]", None),
        (b'"flow"', None),
    ],
)
def test_e4_anything_but_one_json_document_in_utf_8_is_refused(data, offset):
    (violation,) = refusal(data).details["violations"]
    if offset is not None:
        assert violation["offset"] == offset


@pytest.mark.req("E6")
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 400, 100_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
def test_e6_what_is_nested_too_deeply_is_refused(depth, start, end):
    text = (start * depth + "1" + end * depth) if start != "[" else "[" * depth + "]" * depth
    for data in (text.encode(), text[: len(text) // 2].encode()):
        with pytest.raises(Invalid):
            codec.load(data)


@pytest.mark.req("E6")
def test_e6_what_is_nested_just_deeply_enough_is_read():
    assert codec.load(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def nested(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.req("E6", "E12")
def test_e6_no_data_is_taken_in_that_its_document_could_not_hold():
    """A document is one level itself: the deepest data has one level less."""
    deepest = flow(data=nested(MAX_DEPTH - 1))
    assert codec.decode(Flow, codec.encode(deepest)) == deepest
    with pytest.raises(Invalid, match="data: is nested deeper than 31 levels"):
        flow(data=nested(MAX_DEPTH))
    with pytest.raises(Invalid, match="data: is nested deeper"):
        codec.check_data(nested(100_000), "data")


@pytest.mark.req("E7")
def test_e7_a_document_past_the_limit_is_refused_before_it_is_read():
    data = EXAMPLE.rstrip() + b" " * (MAX_DOCUMENT - len(EXAMPLE)) + b"\n\n"
    assert len(data) == MAX_DOCUMENT + 1
    tracemalloc.start()
    error = refusal(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "the limit is 4,194,304" in error.message
    assert most < len(data)
    assert codec.decode(Flow, data[:-1]) == codec.decode(Flow, EXAMPLE)


@pytest.mark.req("E9", "L18", "R-TF-27")
@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "a\\b", ".git", "a.lock", "a.json", "a.", "a ", "a..b"),
        *("-rf", "_a", "a\n", "A", "a:b", "$(id)", "%2e%2e", "caf\u00e9", "cafe\u0301", "\ufb01"),
        *("con", "prn", "aux", "nul", "com1", "lpt9", "con.txt", "aux.json", "a\u200bb", "\u0661"),
        *("a" * 65, "a" * 260),
    ],
)
def test_e9_an_id_names_one_file_on_every_system(name):
    error = refusal(encoded(raw(id=name)))
    assert error.message.startswith("id: must be 1 to 64 of a-z 0-9")
    value = raw()
    value["children"][0]["deps"] = [name]
    assert violated(encoded(value)) == "children.0.deps.0"


@pytest.mark.req("E9")
@pytest.mark.parametrize(
    "name", ["a", "0", "a.b", "a_b-c", "console", "com10", "a" * 64, "x.locks"]
)
def test_e9_other_ids_are_fine(name):
    assert codec.decode(Flow, encoded(raw(id=name))).id == name


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("children", [{"id": "a", "goal": "g", "status": "pending"}] * 2, "children"),
        ("labels", ["a", "b", "a"], "labels"),
        ("labels", "abc", "labels"),
        ("labels", {"a": 1}, "labels"),
        ("labels", [None], "labels.0"),
        ("children", {}, "children"),
        ("children", ["t1"], "children.0"),
        ("waiting", "soon", "waiting"),
        ("data", [1], "data"),
        ("data", "text", "data"),
        ("notes", [{"at": AT, "by": "x"}], "notes.0.text"),
        ("notes", [{"at": AT, "by": "x", "text": " \n"}], "notes.0.text"),
        ("colour", "red", "colour"),
        ("goal", "", "goal"),
        ("goal", "\ufeff", "goal"),
        ("owner", "a" * 129, "owner"),
        ("links", [{"rel": "r", "href": "h" * 2049}], "links.0.href"),
    ],
)
def test_a_field_that_is_wrong_is_named(field, value, where):
    assert violated(encoded(raw(**{field: value}))) == where


@pytest.mark.req("R-TF-04")
@pytest.mark.parametrize(
    "moment",
    [
        *("2026-09-06T10:00:00", "2026-09-06T10:00:00+00:00", "2026-09-06 10:00:00Z"),
        *("2026-09-06T10:00:00z", "2026-09-06T10:00:00.5Z", "2026-09-06T24:00:00Z"),
        *("2026-13-06T10:00:00Z", "2026-02-29T10:00:00Z", "2026-09-31T10:00:00Z"),
        *("0000-01-01T00:00:00Z", "2026-09-06T10:00:60Z", "2026-09-06", 1_800_000_000, ""),
        "\u0662026-09-06T10:00:00Z",
    ],
)
def test_a_time_is_utc_to_the_second_or_the_microsecond(moment):
    assert violated(encoded(raw(updated_at=moment))) == "updated_at"


@pytest.mark.req("R-TF-04")
@pytest.mark.parametrize(
    "moment",
    ["2024-02-29T23:59:59Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
)
def test_other_times_are_fine(moment):
    assert codec.decode(Flow, encoded(raw(updated_at=moment))).updated_at == moment


# ── newer schema versions ───────────────────────────────────────────────────────────────────────


def newer(**changes):
    value = raw(schema_version=2, **changes)
    value["children"][0]["weight"] = {"b": 1, "a": [True]}
    return value


@pytest.mark.req("E8")
def test_e8_every_field_of_a_newer_document_is_kept():
    value = newer(colour="red", self=1, cls=2, at="here", extra={"b": 1, "a": None})
    read = codec.decode(Flow, encoded(value))
    assert json.loads(codec.encode(read)) == value
    assert list(codec.to_json(read)["extra"]) == ["b", "a"]
    assert read.children[0].weight == {"b": 1, "a": [True]}


@pytest.mark.req("E8")
@pytest.mark.parametrize("cls", [Flow, Receipt])
def test_e8_only_a_newer_document_may_have_unknown_fields(cls):
    value = newer() | {"schema_version": 1}
    assert violated(encoded(value)) == "children.0.weight"
    receipt = {"schema_version": 1, "request": "a" * 64, "flow": "f", "revision": 1, "new": 1}
    assert "new: is no field" in refusal(encoded(receipt), Receipt).message
    assert codec.decode(Receipt, encoded(receipt | {"schema_version": 9})).new == 1


@pytest.mark.req("E8", "E3")
@pytest.mark.parametrize("value", ["\ud800", "\x00", ["\x1b"], {"\r": 1}])
def test_e8_what_a_newer_document_adds_is_plain_all_the_same(value):
    assert violated(encoded(newer(colour=value))).startswith("colour")


@pytest.mark.req("E8")
def test_e8_known_fields_of_a_newer_document_are_judged_as_ever():
    assert violated(encoded(newer(owner=1))) == "owner"


# ── where a document belongs ────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-21")
@pytest.mark.parametrize("status", STATUSES)
def test_a_flow_is_read_from_the_one_place_where_it_belongs(status):
    data = codec.encode(flow(status))
    right, wrong = flow_path("f-1"), archive_path("f-1")
    if status in ("done", "failed"):
        right, wrong = wrong, right
    assert codec.decode_at(right, data) == flow(status)
    for path in (wrong, flow_path("f-2"), archive_path("f-2"), right.replace("f-1", "f-1.x")):
        with pytest.raises(Invalid, match=f"the flow f-1, {status}, belongs at {right}"):
            codec.decode_at(path, data)


def test_the_other_documents_are_read_from_their_places():
    receipt = Receipt(schema_version=1, request="a" * 64, flow="f-1", revision=1)
    stored = [
        (key_path("b" * 64), receipt),
        (UNUSABLE_PATH, fallen()),
        (FORMAT_PATH, Format(format=1)),
    ]
    for path, value in stored:
        assert codec.decode_at(path, codec.encode(value)) == value
    for (path, _), (_, value) in itertools.permutations(stored, 2):
        with pytest.raises(Invalid):
            codec.decode_at(path, codec.encode(value))


def test_a_flow_is_kept_in_one_of_256_folders_by_the_hash_of_its_id():
    assert flow_path("f-1") == "flows/3d/f-1.json"
    assert archive_path("f-1") == "archive/3d/f-1.json"
    assert key_path("ab" * 32) == f"keys/ab/{'ab' * 32}.json"


# ── values that were built in code ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"goal": None}, "goal"),
        ({"goal": " "}, "goal"),
        ({"revision": True}, "revision"),
        ({"labels": ("a", "a")}, "labels"),
        ({"notes": (Note(at=AT, by="x"),)}, "notes.0.text"),
        ({"failure": Failure(reason="r", recoverable="r")}, "failure"),
    ],
)
def test_a_value_built_in_code_is_judged_like_any_other(changes, where):
    good = flow()
    bad = Flow(**{**good.__dict__, **changes})
    with pytest.raises(Invalid) as caught:
        codec.checked(bad)
    assert caught.value.details["violations"][0]["path"] == where
    assert codec.checked(good) == good


def test_a_value_cannot_be_changed():
    with pytest.raises(AttributeError, match="Flow is immutable: goal"):
        flow().goal = "another"


def test_every_text_in_a_value_is_told_with_its_path():
    told = dict(codec.texts(flow(data={"k": ["v"]}, labels=("x",))))
    assert told["data.k.0"] == "v"
    assert told["data.<key>"] == "k"
    assert told["labels.0"] == "x"
    assert told["goal"] == "compare"
