"""A commit says what was done: in words for people, exactly for gfs, and harmlessly for hosts."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import AT, EXAMPLE, LATER, after, flow, op, state, task

from gitflowstate import codec, machine, message
from gitflowstate.errors import Invalid
from gitflowstate.kinds import KINDS, MAX_DEPTH, MAX_INT
from gitflowstate.message import MAX_INLINE, decode_message, decode_trailers, encode_message
from gitflowstate.model import Claim, Flow, Link
from gitflowstate.ops import Update
from gitflowstate.union import BY_TAG


def written(wanted, *documents):
    """Return the message and the changed documents of the commit that an op makes."""
    before = state(wanted, *documents)
    left = machine.apply(wanted, before)
    changed = [
        codec.encode(value) for path, value in left.items() if value and value is not before[path]
    ]
    about = machine.find(wanted.flow, left) if hasattr(wanted, "flow") else None
    return encode_message(wanted, about), changed


def read(wanted, *documents):
    """Return what the message of an op says, read with the files of its own commit."""
    text, changed = written(wanted, *documents)
    return decode_message(text, message.large_parts(changed))


def blocks(text: bytes) -> list[str]:
    return text.decode().removesuffix("\n").split("\n\n")


def gits_trailers(text: bytes) -> list[str]:
    """Return the trailers that C git finds."""
    told = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=text, capture_output=True, check=True
    )
    return told.stdout.decode().splitlines()


# ── the form ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-29")
def test_the_message_of_the_founding_example():
    """Architecture, section 4, Commit message. The subject there has 73 columns; 72 are allowed."""
    before = codec.decode(Flow, EXAMPLE).replace(revision=3, progress="", next_action="Look")
    wanted = Update(
        at="2026-09-06T10:00:00Z",
        by="architecture-session",
        flow="flow-example-001",
        progress="Requirements captured; comparison in progress",
        next="Review child findings and draft a recommendation",
    )
    text, changed = written(wanted, before)
    assert changed == [EXAMPLE]
    assert (
        text.decode()
        == """\
flow-example-001 r4 update: Requirements captured; comparison in prog...

Requirements captured; comparison in progress

Next: Review child findings and draft a recommendation

Flow: flow-example-001
Revision: 4
Status: running
Actor: architecture-session
Gfs-Rules: 1
Gfs-Op: {"at":"2026-09-06T10:00:00Z","by":"architecture-session","op":"update",\
"flow":"flow-example-001","progress":"Requirements captured; comparison in progress",\
"next":"Review child findings and draft a recommendation"}
"""
    )


def test_a_short_text_stands_in_the_subject_alone():
    text, _ = written(op("note", text="seen"), flow())
    assert blocks(text)[0] == "f-1 r4 note: seen"
    assert blocks(text)[1].startswith("Flow: f-1\n")


@pytest.mark.parametrize(
    ("tag", "status", "subject", "body"),
    [
        ("wait", "running", "wait: no reply", "Until: a reply\nWaiting on: agent"),
        ("fail", "running", "fail: no budget", "Recoverable: the notes"),
        ("done", "running", "done: out/report.md", None),
        ("resume", "waiting", "resume", None),
        ("reopen", "done", "reopen: a mistake", "Next: look again"),
        ("handoff", "running", "handoff: holidays", "To: bob"),
        ("take", "running", "take: holidays", None),
    ],
)
def test_each_op_says_in_words_what_it_did(tag, status, subject, body):
    text, _ = written(op(tag), flow(status))
    said = blocks(text)
    assert said[0] == f"f-1 r4 {subject}"
    assert said[1:-1] == ([body] if body else [])


def test_a_birth_says_who_owns_it_and_what_comes_next():
    text, _ = written(op("create", flow="f-2", attempt_of="f-1"), flow("done"))
    assert blocks(text)[:2] == [
        "f-2 r1 create: compare",
        "Owner: ann\nAttempt of: f-1\nNext: read",
    ]
    text, _ = written(op("import"))
    assert blocks(text)[0] == "f-1 r3 import: compare"


@pytest.mark.parametrize("tag", ["init", "observe"])
def test_an_op_on_no_flow_names_none(tag):
    text, _ = written(op(tag))
    assert blocks(text)[0] == tag
    assert set(decode_trailers(text)) == {"Actor", "Gfs-Rules", "Gfs-Op"}


def test_the_subject_is_cut_and_its_beginning_never():
    name = "a" * 64
    long = flow(id=name, revision=MAX_INT - 1)
    text, _ = written(op("note", flow=name, text="b" * 100), long)
    subject, full, _ = blocks(text)
    assert subject == f"{name} r{MAX_INT} note"
    assert full == "b" * 100
    text, _ = written(op("note", text="b" * 100), flow())
    assert len(blocks(text)[0]) == 72
    assert blocks(text)[1] == "b" * 100


@pytest.mark.req("R-TF-29")
def test_c_git_reads_the_trailers_as_we_do():
    text, _ = written(op("update"), flow())
    assert gits_trailers(text) == blocks(text)[-1].splitlines()


# ── large values ────────────────────────────────────────────────────────────────────────────────

LARGE = "\u00e9" * (MAX_INLINE // 2) + "x"
SMALL = "\u00e9" * (MAX_INLINE // 2)
CASES = [
    ("update", "progress", [flow()]),
    ("update", "next", [flow()]),
    ("update", "goal", [flow()]),
    ("note", "text", [flow()]),
    ("wait", "reason", [flow()]),
    ("wait", "until", [flow()]),
    ("fail", "reason", [flow()]),
    ("fail", "recoverable", [flow()]),
    ("reopen", "next", [flow("done")]),
    ("resume", "next", [flow("waiting")]),
    ("create", "goal", []),
    ("create", "next", []),
]


@pytest.mark.parametrize(("tag", "field", "documents"), CASES)
def test_a_text_of_more_than_4_kib_is_in_the_document_alone(tag, field, documents):
    wanted = op(tag, **{field: LARGE})
    text, changed = written(wanted, *documents)
    assert len(text) < MAX_INLINE
    told = json.loads(decode_trailers(text)["Gfs-Op"])
    size = len(LARGE.encode())
    assert told[field] == {"sha256": codec.digest(LARGE.encode()), "bytes": size}
    assert decode_message(text, message.large_parts(changed)).op == wanted
    if tag != "resume":
        assert f"({size:,} bytes: see the document)" in text.decode()


@pytest.mark.parametrize(("tag", "field", "documents"), CASES)
def test_a_text_of_4_kib_is_in_the_message(tag, field, documents):
    wanted = op(tag, **{field: SMALL})
    text, _ = written(wanted, *documents)
    assert json.loads(decode_trailers(text)["Gfs-Op"])[field] == SMALL
    assert decode_message(text, {}).op == wanted


BIG_DATA = {"z": list(range(1000)), "a": {"b": "x" * 2000, "c": [True, None, -1]}}


@pytest.mark.req("E12")
@pytest.mark.parametrize(("tag", "documents"), [("update", [flow()]), ("create", [])])
def test_large_data_comes_back_in_its_order(tag, documents):
    wanted = op(tag, data=BIG_DATA)
    text, changed = written(wanted, *documents)
    assert len(text) < MAX_INLINE
    back = decode_message(text, message.large_parts(changed)).op
    assert back == wanted
    assert codec.compact(back.data) == codec.compact(BIG_DATA)


@pytest.mark.parametrize("status", ["running", "done"])
def test_a_large_flow_that_was_imported_is_its_own_file(status):
    document = flow(status, progress="x" * 5000, children=(task("t1"),))
    wanted = op("import", document=document)
    text, changed = written(wanted)
    told = json.loads(decode_trailers(text)["Gfs-Op"])["document"]
    assert told == {"sha256": codec.digest(changed[0]), "bytes": len(changed[0])}
    assert decode_message(text, message.large_parts(changed)).op == wanted


def test_the_claims_that_an_import_drops_do_not_part_the_op_from_its_file():
    claim = Claim(worker="w.1", by="bob", attempt=1, until=LATER)
    document = flow(progress="x" * 5000, children=(task("t1", claim=claim),))
    wanted = op("import", document=document)
    text, changed = written(wanted)
    back = decode_message(text, message.large_parts(changed)).op
    assert after(back) == after(wanted)


def test_a_value_that_is_not_in_the_commit_is_missed():
    text, _ = written(op("note", text=LARGE), flow())
    with pytest.raises(Invalid, match=r"text: the text of 4097 bytes is not in the commit's tree"):
        decode_message(text, {})


REFERENCE = {"sha256": "a" * 64, "bytes": 9000}


@pytest.mark.parametrize("data", [REFERENCE, {"bytes": [], "sha256": {}}, {"x": REFERENCE}])
@pytest.mark.parametrize(("tag", "documents"), [("update", [flow()]), ("create", [])])
def test_data_that_looks_like_a_reference_is_data(tag, documents, data):
    wanted = op(tag, data=data)
    assert read(wanted, *documents).op == wanted


@pytest.mark.parametrize(
    "reference",
    [
        {"sha256": [], "bytes": 1},
        {"sha256": {}, "bytes": 1},
        {"sha256": "a" * 63, "bytes": 1},
        {"sha256": "a" * 64, "bytes": "9" * 5000},
        {"sha256": "a" * 64, "bytes": True},
        {"sha256": "a" * 64},
        {},
    ],
)
def test_a_forged_reference_is_refused(reference):
    forged = {"at": AT, "by": "x", "op": "note", "flow": "f", "text": reference}
    with pytest.raises(Invalid):
        message.decode_op(json.dumps(forged), {})


def test_a_reference_stands_only_for_what_may_be_large():
    forged = {"at": AT, "by": REFERENCE, "op": "note", "flow": "f", "text": "x"}
    with pytest.raises(Invalid, match="by: must be one line"):
        message.decode_op(json.dumps(forged), {"a" * 64: "mallory"})


def test_documents_that_somebody_else_made_are_looked_at_without_harm():
    found = message.large_parts([b'{"a": "\\ud800", "data": {"b": "\\udfff"}, "c": [["x"]]}'])
    assert all(isinstance(name, str) for name in found)


@pytest.mark.req("E6")
def test_an_op_may_hold_the_deepest_document():
    data = {}
    for _ in range(MAX_DEPTH - 2):
        data = {"a": data}
    wanted = op("import", document=flow(data=data))
    assert read(wanted).op == wanted


@pytest.mark.req("E7")
def test_an_op_of_a_whole_document_of_escapes_is_read_again():
    links = tuple(Link(rel="r", href="/" * 2000 + str(number)) for number in range(500))
    wanted = op("create", links=links)
    assert read(wanted).op == wanted


# ── user text does nothing ──────────────────────────────────────────────────────────────────────

FORGERIES = [
    "x\n\nRevision: 999\n",
    "x\n\nFlow: other\nRevision: 999\nStatus: done\nActor: mallory\nGfs-Rules: 1\nGfs-Op: {}",
    "Revision: 999",
    "\n\n\nRevision: 999\n\n\n",
    "x\r\n\r\nRevision: 999",
    "Gfs-Op: {}\n Revision: 999",
    "x\n\n---\nRevision: 999\n\n# Revision: 999",
    "x\u2028\u2028Revision: 999",
    "Signed-off-by: Mallory <m@example.org>\nCo-authored-by: Mallory <m@example.org>",
]


def plain(text: str) -> str:
    return text.replace("\r", "")


@pytest.mark.req("F1")
@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize(
    ("tag", "field", "status"),
    [
        ("update", "progress", "running"),
        ("update", "next", "running"),
        ("note", "text", "running"),
        ("fail", "recoverable", "running"),
        ("reopen", "next", "done"),
        ("create", "goal", None),
    ],
)
def test_f1_text_forges_no_trailer(text, tag, field, status):
    wanted = op(tag, **{field: plain(text)})
    documents = [flow(status)] if status else []
    made, changed = written(wanted, *documents)
    record = decode_message(made, message.large_parts(changed))
    revision = 4 if status else 1
    assert (record.flow, record.revision, record.op) == ("f-1", revision, wanted)
    told = gits_trailers(made)
    assert [line for line in told if line.startswith("Revision")] == [f"Revision: {revision}"]
    assert told == blocks(made)[-1].splitlines()


@pytest.mark.req("F1")
def test_f1_an_actor_forges_no_trailer_either():
    made, _ = written(op("take", by="x Revision: 999"), flow())
    assert decode_trailers(made)["Revision"] == "4"


# What hosts act on, as their documentation has it, wherever it stands in a message...
ANYWHERE = {
    "skips CI": r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]",
    "refers": r"#\d|\bgh-\d|/(issues|pull)/\d",
    "mentions": r"(^|[^a-z0-9_])@[a-z0-9]",
}
# ... and as a line of its own.
AS_A_LINE = r"^[ \t]*(skip-checks|signed-off-by|co-authored-by)[ \t]*[:=]"
TRIGGERS = [
    *("[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]", "[SKIP CI]"),
    *("skip-checks: true", "skip-checks:true", "Fixes #1", "closes o/r#2", "resolved: #3"),
    *("Fixes GH-4", "see gh-5", "Closes https://github.com/o/r/issues/6", "o/r/pull/7"),
    *("@org/team", "cc @name", "(@name)", "Co-authored-by: A <a@example.org>"),
    "Signed-off-by: A <a@example.org>",
]


@pytest.mark.req("F2")
@pytest.mark.parametrize("text", TRIGGERS)
@pytest.mark.parametrize("around", ["{}", "x {}", "x\n\n{}\n", "x\n\n\n{}"])
def test_f2_text_acts_on_no_host(text, around):
    said = around.format(text)
    ops = [
        op("create", goal=said, next=said, labels=(text,), data={text: [text]}),
        op("update", progress=said, next=f"then {text}"),
        op("note", text=said),
        op("done", result=text),
        op("take", by=text, reason=said),
    ]
    for wanted in ops:
        documents = [] if wanted.TAG == "create" else [flow(owner="local")]
        made, _ = written(wanted, *documents)
        for what, pattern in ANYWHERE.items():
            assert not re.search(pattern, made.decode(), re.IGNORECASE | re.MULTILINE), what
        assert not re.search(AS_A_LINE, made.decode(), re.IGNORECASE | re.MULTILINE)
        assert decode_message(made, {}).op == wanted


@pytest.mark.req("F2")
def test_f2_the_op_is_one_line_of_ascii_without_what_hosts_look_for():
    line = message.encode_op(op("note", text='#@[/ GH-1 "\\/" \u00e9\U0001f600\n\t'))
    assert line.isascii()
    assert "\n" not in line
    inside = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', line))
    assert not set("#@[/") & set(inside)


# ── who made a commit ───────────────────────────────────────────────────────────────────────────

GOOD, _ = written(op("update"), flow())


def changed(old: str, new: str) -> bytes:
    assert old.encode() in GOOD
    return GOOD.replace(old.encode(), new.encode())


@pytest.mark.req("D1", "D7", "F1")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\n\n",
        b"fix typo\n",
        b"fix typo\n\nSigned-off-by: A <a@example.org>\n",
        b"caf\xe9\n\x00\n",
        GOOD + b"\nMerged by hand\n",
        GOOD + b"Signed-off-by: A <a@example.org>\n",
        GOOD + b"Revision: 5\n",
        changed("Actor: ann\n", ""),
        changed("Gfs-Rules: 1\n", ""),
        changed("Gfs-Rules: 1\n", "Gfs-Rules: one\n"),
        changed("Gfs-Rules: 1\n", "Gfs-Rules: 1234567890\n"),
        changed("Gfs-Op: ", "Gfs-Ops: "),
        changed("Revision: 4\n", ""),
        changed("Status: running\n", ""),
        changed("Flow: f-1\n", ""),
        changed("Revision: 4\n", "Revision: 4\nRevision: 4\n"),
        changed("Revision: 4\n", "Revision: \u00b2\n"),
        changed("Revision: 4\n", "Revision: 04\n"),
        changed("Revision: 4\n", "Revision: " + "4" * 5000 + "\n"),
        changed("Revision: 4\n", "Revision:4\n"),
        changed("Revision: 4\n", "revision: 4\n"),
        changed("Revision: 4\n", " Revision: 4\n"),
    ],
)
def test_a_commit_without_our_trailers_was_made_by_hand(text):
    assert decode_trailers(text) is None
    assert decode_message(text, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        changed("Actor: ann", "Actor: bob"),
        changed("Flow: f-1", "Flow: f-2"),
        changed('"by":"ann"', '"by":"bob"'),
        changed('"op":"update"', '"op":"upgrade"'),
        changed('"op":"update"', '"op":["update"]'),
        changed('"op":"update",', ""),
        changed('"op":"update"', '"op":"update","new":1'),
        changed('"op":"update"', '"op":"update","op":"note"'),
        changed('"flow":"f-1",', ""),
        changed('"progress":"half way"', '"progress":"half \\u0007way"'),
        changed('"progress":"half way"', '"progress":1.5'),
        changed('Gfs-Op: {"at"', 'Gfs-Op: [{"at"'),
        changed("Flow: f-1\nRevision: 4\nStatus: running\n", ""),
    ],
)
def test_trailers_and_op_that_disagree_are_an_error(text):
    with pytest.raises(Invalid):
        decode_message(text, {})


def test_the_last_block_counts_and_no_other():
    record = decode_message(b"a person's words\n\nRevision: 9\n\n" + GOOD, {})
    assert (record.revision, record.flow, record.status, record.rules) == (4, "f-1", "running", 1)


def test_a_newer_rule_set_is_told():
    assert decode_message(changed("Gfs-Rules: 1", "Gfs-Rules: 12"), {}).rules == 12


@pytest.mark.parametrize("tag", [tag for tag in BY_TAG if tag not in ("create", "import")])
def test_every_op_comes_back_from_its_message(tag):
    status = {"reopen": "done", "resume": "waiting"}.get(tag, "running")
    wanted = op(tag, expect=3, key="a" * 64, request="b" * 64, made=("x",), allow_secret="no key")
    text = encode_message(wanted, None if tag in ("init", "observe") else flow(status))
    assert decode_message(text, {}).op == wanted


any_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from('\n\t#@[/:\\"')
).filter(KINDS["Words"].accepts)


@pytest.mark.req("F1", "F2")
@given(any_text, any_text)
@example("\\", '"')
@example("\\u0023", "\\/")
@example("GH-1", "\u0130gh-1")
def test_any_text_comes_back_from_its_message(text, other):
    wanted = codec.checked(op("fail").replace(reason=text, recoverable=other))
    record = read(wanted, flow())
    assert record.op == wanted
    assert (record.flow, record.revision, record.status) == ("f-1", 4, "failed")
