"""Laws of `message`: any operation comes back from its commit, and nothing else comes from it."""

from __future__ import annotations

import json
import re

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from scaling import scale

from gitflowstate import codec, message
from gitflowstate.errors import Invalid
from gitflowstate.model import Flow, Value
from gitflowstate.ops import FlowOp, Import, ProcessOp
from gitflowstate.rules import normalised

many = settings(max_examples=scale(60))
# What hosts act on wherever it stands, and what only as a line of its own.
ANYWHERE = re.compile(
    r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|#\d|\bgh-\d|/(issues|pull)/\d"
    r"|(^|[^a-z0-9_])@[a-z0-9]",
    re.IGNORECASE | re.MULTILINE,
)
AS_A_LINE = re.compile(
    r"^[ \t]*(skip-checks|signed-off-by|co-authored-by)[ \t]*[:=]", re.IGNORECASE | re.MULTILINE
)


def about(op) -> Flow | None:
    """Return a flow that an op might have left behind."""
    if not isinstance(op, FlowOp):
        return None
    child = {"id": "t1", "goal": "g", "status": "pending"}
    raw = {"schema_version": 1, "id": op.flow, "goal": "g", "status": "running", "revision": 12}
    raw |= {"owner": "o", "updated_at": op.at, "next_action": "n", "children": [child]}
    return codec.from_json(Flow, raw)


def parts(op) -> dict[str, object]:
    """Return the large values of an op as a commit would hold them."""
    held = [getattr(op, name, None) for name in ("document", "plan")]
    documents = [normalised(one) if isinstance(one, Flow) else one for one in held]
    files = [codec.encode(one) for one in documents if isinstance(one, Value)]
    return message.large_parts([json.dumps(codec.to_json(op)).encode(), *files])


@pytest.mark.req("R-TF-29", "F1")
@many
@given(strategies.operations())
def test_any_op_comes_back_from_its_message(op):
    flow = about(op)
    text = message.encode_message(op, flow)
    record = message.decode_message(text, parts(op))
    if isinstance(op, Import):
        assert normalised(record.op.document) == normalised(op.document)
        assert record.op.replace(document=op.document) == op
    else:
        assert record.op == op
        assert codec.compact(codec.to_json(record.op)) == codec.compact(codec.to_json(op))
    if flow:
        assert (record.flow, record.revision, record.status) == (op.flow, 12, "running")


@pytest.mark.req("F1", "F2")
@many
@given(strategies.operations())
def test_no_text_of_an_op_acts_on_git_or_on_a_host(op):
    text = message.encode_message(op, about(op)).decode()
    trailers = text.removesuffix("\n").rsplit("\n\n", 1)[1].split("\n")
    names = [line.partition(": ")[0] for line in trailers]
    flow = ["Flow", "Revision", "Status"] if isinstance(op, FlowOp) else []
    process = ["Process"] if isinstance(op, ProcessOp) else []
    assert names == [*flow, *process, "Actor", "Gfs-Rules", "Gfs-Op"]
    assert not ANYWHERE.search(text)
    assert not AS_A_LINE.search(text)
    assert trailers[-1].isascii()
    assert cell_len(text.split("\n", 1)[0]) <= 72  # columns: an accent may be a letter of its own


@st.composite
def damaged(draw) -> bytes:
    """Draw the message of an op with one piece taken out, doubled, or another put in its place."""
    op = draw(strategies.operations())
    text = message.encode_message(op, about(op))
    start, stop = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    other = [b"", text[start:stop] * 2, b"\n", b"\n\n", b'"', b"{", b"\xff", b"9" * 5000]
    return text[:start] + draw(st.sampled_from(other)) + text[stop:]


@many
@given(st.binary(max_size=80) | damaged())
def test_any_message_is_ours_or_somebody_elses_or_refused(text):
    try:
        record = message.decode_message(text, {})
    except Invalid:
        return
    trailers = message.decode_trailers(text)
    assert (record is None) == (trailers is None)
    if record is not None:
        assert message.encode_op(record.op).isascii()
