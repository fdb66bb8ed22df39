"""Law: the codec, pydantic and the JSON Schemas accept and refuse the same documents.

Excluded, here and nowhere else:
* what the loader refuses before any judge sees it: floats, -0, duplicate keys, depth, size;
* two children with one id, which a schema cannot say (`beyond`); the other two agree on it;
* a newer schema version, which the codec alone accepts: it reads what others wrote (E8);
* whether a reference in an op is among the files of its commit: the message's question.
"""

import json

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gitflowstate import boundary, codec, message, schemata
from gitflowstate.boundary import EVERY as OPS
from gitflowstate.cursors import Acknowledged, Cursor, Delivery
from gitflowstate.errors import Invalid
from gitflowstate.inbox import Reader
from gitflowstate.kinds import KINDS, MAX_INT
from gitflowstate.model import Flow, Plan, Receipt
from gitflowstate.ops import Op
from gitflowstate.processmodel import Process
from gitflowstate.union import class_of

NAMES = {
    Flow: "flow",
    Receipt: "key",
    Plan: "plan",
    Op: "op",
    Cursor: "cursor",
    Delivery: "receipt",
    Acknowledged: "acknowledged",
    Process: "process",
    Reader: "reader",
}
SCHEMA = {cls: Draft202012Validator(schemata.json_schema(name)) for cls, name in NAMES.items()}
AT = "2026-09-06T10:00:00Z"

TEXTS = [
    *("x", "two\nlines", "tab\there", "é", "😀", "x" * 128, "x" * 129, "x" * 1000, "x" * 1001),
    *("x" * 2048, "x" * 2049, "😀" * 128, "", " ", "\n", "\xa0", "\u3000", "\ufeff", "\u200b"),
    *(
        "x ",
        "\u2028",
        "a\u2028b",
        "\0",
        "\x1b[0m",
        "\x7f",
        "\x85",
        "\r",
        "a\x1f",
        "\ud800",
        "x\udfff",
    ),
    *("pending", "running", "waiting", "done", "failed", "done\n", "Done", "complete", "canceled"),
    *("human", "agent", "external", "completed", "lost", "rerun", "hold", "lock", "time", "retry"),
    *("on_exit", "manual", "starting", "timed_out"),
]
IDS = [
    *("a", "task-001", "0", "a.b", "a_b-c", "conx", "com", "com1x", "x.con", "a.locks", "a.json.x"),
    *(
        "",
        "a..b",
        "a.",
        "a.lock",
        "a.json",
        ".lock",
        "con",
        "con.x",
        "aux",
        "nul",
        "com1",
        "lpt0.a",
    ),
    *("-a", ".a", "_a", "A", "aA", "a b", "a\n", "é", "a/b", "a\\b", "a" * 64, "a" * 65, "\uff41"),
]
TIMES = [
    *(AT, "2026-09-06T10:00:00.123456Z", "2024-02-29T00:00:00Z", "2000-02-29T23:59:59Z"),
    *(
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
    ),
    *(
        "2026-04-31T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
    ),
    *("2026-01-01T00:00:60Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00+00:00", f"{AT}\n"),
    *("2026-01-01 00:00:00Z", "2026-01-01t00:00:00z", "2026-01-01", "٢٠٢٦-01-01T00:00:00Z"),
]
OTHER = [
    *("0" * 64, "f" * 64, "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n", "a/b.md", "1", "true"),
    *("0" * 40, "f" * 40, "0" * 39, "0" * 41, "F" * 40, "status", "final"),
    *(0, 1, -1, 2, 3, MAX_INT, MAX_INT - 1, -MAX_INT, True, False, None),
    *([], [[]], [None], ["a"], ["a", "a"], ["a", "b"], ["a", 1], [True, 1]),
    *({}, {"a": None}, {"a": [{"b": "\0"}]}, {"\0": 1}, {"": ""}, {"\ud800": 1}, {"a": {"a": []}}),
    *({"sha256": "x", "bytes": 1}, {"sha256": [], "bytes": 1}, {"sha256": "0" * 64, "bytes": -1}),
    *({"sha256": "0" * 64, "bytes": True}, {"sha256": "0" * 64}, {"bytes": 1, "a": 1}),
]
ODD = [*TEXTS, *IDS, *TIMES, *OTHER]
# What a reference in an op stands for, by the kind or class of its field.
LARGE = {
    "Text": ("1" * 64, "long text"),
    "Words": ("1" * 64, "long text"),
    "Argument": ("1" * 64, "long text"),
    "Json": ("2" * 64, {"long": "text"}),
    "Acknowledged": ("5" * 64, {"schema_version": 1, "flows": {"f": 1}}),
    "Plan": ("3" * 64, {"schema_version": 1, "flow": "f", "tasks": []}),
    "Flow": (
        "4" * 64,
        {
            "schema_version": 1, "id": "f", "goal": "g", "status": "failed", "revision": 1,
            "owner": "o", "updated_at": AT, "failure": {"reason": "r", "recoverable": "none"},
            "children": [],
        },
    ),
}  # fmt: skip


# ── the judges ──────────────────────────────────────────────────────────────────────────────────


def by_codec(cls, raw):
    if cls is Op:
        value = message.decode_op(json.dumps(raw), dict(referred(raw)))
    else:
        value = codec.from_json(cls, raw)
    if newer(value):
        raise Invalid("a newer schema version")
    return value


def newer(value):
    nested = [
        getattr(value, name) for name in ("document", "plan", "ended") if hasattr(value, name)
    ]
    versioned = [each for each in (value, *nested) if getattr(each, "VERSION", 0)]
    return any(each.schema_version > each.VERSION for each in versioned)


def referred(raw):
    """Return what every reference of an op stands for: pairs of digest and content."""
    cls = class_of(raw["op"]) if isinstance(raw.get("op"), str) else None
    known = codec.fields(cls) if cls else {}
    return [
        (item["sha256"], LARGE.get(field.kind, LARGE["Text"])[1])
        for name, field in known.items()
        for item in (raw.get(name) if isinstance(raw.get(name), list) else [raw.get(name)])
        if isinstance(item, dict) and isinstance(item.get("sha256"), str)
    ]


def ambiguous(raw):
    """Tell whether one digest would have to stand for two contents."""
    pairs = referred(raw)
    return any(dict(pairs)[digest] != content for digest, content in pairs)


def by_pydantic(cls, raw):
    if cls is not Op:
        return boundary.validate(cls, raw)
    found = boundary.faults(cls, raw)
    if found:
        raise boundary.refusal(found)
    return None


def by_schema(cls, raw):
    if not SCHEMA[cls].is_valid(raw) or beyond(raw):
        raise Invalid("the schema")


def beyond(raw):
    if isinstance(raw, list):
        ids = [item["id"] for item in raw if isinstance(item, dict) and "id" in item]
        return any(ids.count(one) > 1 for one in ids) or any(map(beyond, raw))
    if isinstance(raw, dict):
        return any(
            beyond(value) for name, value in raw.items() if name not in ("data", "flows", "events")
        )
    return False


def verdicts(cls, raw):
    found = {}
    for judge in (by_codec, by_pydantic, by_schema):
        try:
            found[judge.__name__] = judge(cls, raw) or True
        except Invalid:
            found[judge.__name__] = False
    return found


def agreed(cls, raw):
    """Return whether all judges accept; fail where they differ, or read different values."""
    raw = codec.load(json.dumps(raw).encode())
    found = verdicts(cls, raw)
    assert len({bool(value) for value in found.values()}) == 1, found
    if found["by_codec"] and cls is not Op:
        assert found["by_codec"] == found["by_pydantic"]
        assert codec.encode(found["by_codec"]) == codec.encode(found["by_pydantic"])
    return bool(found["by_codec"])


# ── documents ───────────────────────────────────────────────────────────────────────────────────

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | st.sampled_from(["", "x", "a\tb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["", "id", "a.b", "sha256"]), inner, max_size=3)
    ),
    max_leaves=6,
)
DATA = st.dictionaries(st.sampled_from(["a", "sha256", "bytes", "status"]), PLAIN, max_size=2)


def scalars(kind):
    if kind == "Json":
        return DATA.filter(lambda data: data.keys() != {"sha256", "bytes"})
    return st.sampled_from([value for value in ODD if KINDS[kind].accepts(value)])


def one(cls, field):
    plain = documents(field.nested) if field.nested else scalars(field.kind)
    if issubclass(cls, Op) and field.kind in LARGE:
        digest = LARGE[field.kind][0]
        return plain | st.just({"sha256": digest, "bytes": 5000})
    return plain


@st.composite
def documents(draw, cls):
    """Return a valid document of a class; for Op one of any operation."""
    if cls is Op:
        cls = draw(st.sampled_from(OPS))
    raw = {"op": cls.TAG} if issubclass(cls, Op) else {}
    status = draw(st.sampled_from(KINDS["Status"].values))
    needed = cls.NEEDS.get(status, ())
    for name, field in codec.fields(cls).items():
        foreign = name in cls.OWN and name not in needed
        optional = not field.required and name not in needed
        if foreign or (optional and draw(st.booleans())):
            raw |= draw(st.sampled_from([{}, {name: None}]))
        elif name == "schema_version":
            raw[name] = 1
        elif name == "status" and cls.NEEDS:
            raw[name] = status
        elif field.many:
            raw[name] = draw(st.lists(one(cls, field), max_size=3, unique_by=identity))
        else:
            raw[name] = draw(one(cls, field))
    return raw


def identity(item):
    return item.get("id", json.dumps(item)) if isinstance(item, dict) else item


def places(raw):
    """Return every (container, key) in a document, at any depth."""
    pending, found = [raw], []
    for node in pending:
        keys = node if isinstance(node, dict) else range(len(node))
        found += [(node, key) for key in keys]
        pending += [node[key] for key in keys if isinstance(node[key], dict | list)]
    return found


NAMED = ["result_ref", "waiting", "failure", "status", "data", "extra", "Status", "", "\ud800"]


@st.composite
def mutated(draw, cls):
    """Return a valid document in which one or two things were changed."""
    raw = json.loads(json.dumps(draw(documents(cls))))
    for _ in range(draw(st.integers(1, 2))):
        container, key = draw(st.sampled_from(places(raw)))
        odd = json.loads(json.dumps(draw(st.sampled_from([*ODD, *KINDS["Status"].values]))))
        change = draw(st.sampled_from(["set", "null", "delete", "add", "move"]))
        if change == "set":
            container[key] = odd
        elif change == "null":
            container[key] = None
        elif isinstance(container, list):
            container.append(container[key])
        elif change == "add":
            container[draw(st.sampled_from(NAMED))] = odd
        else:
            moved = container.pop(key)
            container |= {draw(st.sampled_from(NAMED)): moved} if change == "move" else {}
        if not raw:
            break
    return raw


# ── the law ─────────────────────────────────────────────────────────────────────────────────────

EVERY = pytest.mark.parametrize("cls", NAMES, ids=NAMES.values())


@EVERY
@given(data=st.data())
def test_all_accept_a_valid_document(cls, data):
    assert agreed(cls, data.draw(documents(cls)))


@EVERY
@given(data=st.data())
def test_all_agree_on_a_changed_document(cls, data):
    raw = data.draw(mutated(cls))
    assume(not ambiguous(raw))
    event(f"accepted: {agreed(cls, raw)}")


def carriers():
    """Yield an op with a field of each kind, alone and in a list; ops have them all."""
    seen = set()
    for cls in OPS:
        known = codec.fields(cls)
        raw = {"op": cls.TAG}
        raw |= {name: sample(field) for name, field in known.items() if field.required}
        for name, field in known.items():
            if field.nested is None and (field.kind, field.many) not in seen:
                seen.add((field.kind, field.many))
                yield pytest.param(raw, name, id=f"{field.kind} {'list' * field.many}")
    assert {kind for kind, _ in seen} == {*KINDS, "Json"}


def sample(field):
    if field.many:
        return []
    if field.nested or field.kind in LARGE:
        return LARGE[field.kind][1]
    return next(value for value in ODD if KINDS[field.kind].accepts(value))


@pytest.mark.req("F12", "E2", "E3", "E4", "E9", "R-TF-03", "R-TF-04")
@pytest.mark.parametrize(("raw", "name"), list(carriers()))
def test_all_agree_on_every_odd_value_of_every_kind(raw, name):
    many = codec.fields(class_of(raw["op"]))[name].many
    values = (
        [*ODD, *([value] for value in ODD), *([value, value] for value in ODD)] if many else ODD
    )
    found = [agreed(Op, raw | {name: value}) for value in values]
    assert {*found} == {True, False}


FLOW = LARGE["Flow"][1]
TASK = {"id": "t", "goal": "g", "status": "pending"}
WAITING = {"reason": "r", "condition": "c", "on": "human"}


@pytest.mark.req("E8", "R-TF-02", "R-TF-17", "R-TF-18", "R-TF-19", "R-TF-20")
@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({}, True),
        ({"failure": None}, False),
        ({"extra": None}, False),
        ({"schema_version": 2}, False),
        ({"schema_version": 2, "new": {"a": 1}}, False),
        ({"goal": None}, False),
        ({"children": None}, False),
        ({"children": [None]}, False),
        ({"labels": None, "progress": None, "data": None}, True),
        ({"next_action": "kept"}, True),
        ({"result_ref": "a.md"}, False),
        ({"waiting": WAITING}, False),
        ({"status": "done", "failure": None, "result_ref": "a.md"}, True),
        ({"status": "done", "failure": None}, False),
        ({"status": "done", "result_ref": "a.md"}, False),
        ({"status": "running", "failure": None, "next_action": "n"}, True),
        ({"status": "running", "failure": None}, False),
        ({"status": "running", "failure": None, "next_action": " "}, False),
        ({"status": "waiting", "failure": None, "next_action": "n", "waiting": WAITING}, True),
        ({"status": "waiting", "failure": None, "waiting": WAITING}, False),
        ({"status": "waiting", "failure": None, "next_action": "n"}, False),
        ({"status": "complete"}, False),
        ({"children": [TASK]}, True),
        ({"children": [TASK, TASK]}, False),
        ({"children": [TASK, TASK | {"id": "u"}]}, True),
        ({"children": [TASK | {"status": "done"}]}, False),
        ({"children": [TASK | {"status": "done", "result_ref": None}]}, False),
        ({"children": [TASK | {"status": "done", "result_ref": "a.md"}]}, True),
        ({"children": [TASK | {"status": "waiting"}]}, False),
        ({"children": [TASK | {"status": "waiting", "waiting": WAITING}]}, True),
        ({"children": [TASK | {"result_ref": "early.md"}]}, True),
        ({"children": [TASK | {"deps": ["a", "a"]}]}, False),
        ({"labels": ["a", "b"]}, True),
        ({"labels": ["a", "a"]}, False),
        ({"links": [{"rel": "r", "href": "h"}] * 2}, True),
        ({"data": {"a": [None, {"b": True}], "id": 1}}, True),
        ({"data": {"tasks": [{"id": "x"}, {"id": "x"}]}}, True),
        ({"data": []}, False),
    ],
)
def test_what_a_flow_may_be(change, accepted):
    assert agreed(Flow, FLOW | change) is accepted


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"progress": {"sha256": "1" * 64, "bytes": 5000}}, True),
        ({"progress": {"sha256": "1" * 64, "bytes": "5000"}}, False),
        ({"progress": {"sha256": "1" * 63, "bytes": 5000}}, False),
        ({"progress": {"sha256": "1" * 64, "bytes": 5000, "more": 1}}, False),
        ({"data": {"sha256": "2" * 64, "bytes": 5000}}, True),
        ({"data": {"sha256": ["x"], "bytes": 5000}}, False),
        ({"data": {"sha256": ["x"], "bytes": 5000, "more": 1}}, True),
        ({"labels": {"sha256": "1" * 64, "bytes": 5000}}, False),
        ({"flow": {"sha256": "1" * 64, "bytes": 5000}}, False),
        ({"op": "upgrade"}, False),
        ({"op": None}, False),
        ({"op": ["update"]}, False),
        ({"op": "note"}, False),
        ({"op": "note", "text": "x"}, True),
    ],
)
def test_what_a_trailer_may_hold(change, accepted):
    assert agreed(Op, {"op": "update", "at": AT, "by": "ann", "flow": "f"} | change) is accepted
