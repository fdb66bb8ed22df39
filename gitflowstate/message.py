"""The commit message: an operation to text and back.

Rules: trailers are the last block, each exactly once, and are checked when read; the op is one
line of ASCII JSON that triggers nothing on the host; a value of more than 4 KiB is not in it but
as `{sha256, bytes}`, and comes back from the documents of the commit's own tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gitflowstate import prose
from gitflowstate.codec import Field, compact, digest, encode, fields, from_json, load, to_json
from gitflowstate.errors import Invalid
from gitflowstate.kinds import LARGE, MAX_DEPTH, MAX_GROWN, check
from gitflowstate.model import Flow, Value
from gitflowstate.ops import Op, ProcessOp, flow_of
from gitflowstate.rules import normalised
from gitflowstate.union import class_of

RULES = 1  # the rule set this version writes: the tables of `machine` and the bytes of `codec`
MAX_INLINE = 4096
MAX_LINE = 16 * MAX_GROWN  # what an addition of 1 MiB comes to, once every character is an escape
_ABOUT = {"Flow", "Revision", "Status"}  # all of them where a flow changes, else none
TRAILERS = ("Flow", "Revision", "Status", "Process", "Channel", "Actor", "Gfs-Rules", "Gfs-Op")


class Record(NamedTuple):
    """What one commit says of itself."""

    op: Op
    flow: str | None
    revision: int | None
    status: str | None
    channel: str | None
    rules: int
    process: str | None = None


# ── op to text ──────────────────────────────────────────────────────────────────────────────────


def encode_message(op: Op, flow: Flow | None) -> bytes:
    """Return the whole message for an op that left `flow` behind.

    The subject is at most 72 columns; the full text follows where it was cut.
    """
    text = op.headline(flow)
    about = f"{flow.id} r{flow.revision}" if flow else process_of(op) or channel_of(op)
    start = f"{about} {op.TAG}" if about else op.TAG
    subject = prose.subject(start, text)
    cut = text and subject != f"{start}: {prose.inert(text)}"
    blocks = [subject, prose.body(_shown(text)) if cut else "", _body(op, text)]
    return ("\n\n".join([*filter(None, blocks), _trailers(op, flow)]) + "\n").encode()


def _body(op: Op, headline: str) -> str:
    found = ((label, getattr(op, name)) for label, name in op.BODY)
    return "\n".join(
        f"{label}: {prose.body(_shown(text))}" for label, text in found if text and text != headline
    )


def _shown(text: str) -> str:
    size = len(text.encode())
    return text if size <= MAX_INLINE else f"({size:,} bytes: see the document)"


def _trailers(op: Op, flow: Flow | None) -> str:
    about: dict[str, str | int] = {}
    if flow is not None:
        about = {"Flow": flow.id, "Revision": flow.revision, "Status": flow.status}
    elif channel := channel_of(op):
        about = {"Channel": channel}
    if process := process_of(op):
        about["Process"] = process
    rest = {"Actor": prose.inert(op.by), "Gfs-Rules": RULES, "Gfs-Op": encode_op(op)}
    return "\n".join(f"{name}: {value}" for name, value in (about | rest).items())


def encode_op(op: Op) -> str:
    """Return an op as one line of ASCII JSON without `#`, `@`, `[` or `/` inside strings."""
    raw, known = to_json(op), fields(type(op))
    own = {name: _inline(known[name], getattr(op, name), value) for name, value in raw.items()}
    tagged = {"at": own.pop("at"), "by": own.pop("by"), "op": op.TAG, **own}
    return _STRING.sub(_quiet, json.dumps(tagged, separators=(",", ":")))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# What a host acts on anywhere in a message: `#1`, `@name`, `[skip ci]`, addresses, `GH-1`.
_LOUD = re.compile(r"[#@\[/]|(?<=gh)-(?=\d)", re.IGNORECASE)


def _quiet(match: re.Match[str]) -> str:
    return _LOUD.sub(lambda found: f"\\u{ord(found[0]):04x}", match[0])


def _inline(field: Field, value: Any, raw: Any) -> Any:  # noqa: ANN401  any JSON
    if field.many:
        one = field._replace(many=False)
        return [_inline(one, *pair) for pair in zip(value, raw, strict=True)]
    stored = _stored(field, value)
    if stored is None or (len(stored) <= MAX_INLINE and not _is_reference(raw)):
        return raw
    return {"sha256": digest(stored), "bytes": len(stored)}


def _is_reference(raw: Any) -> bool:  # noqa: ANN401  any JSON
    return isinstance(raw, dict) and raw.keys() == {"sha256", "bytes"}


def _stored(field: Field, value: Any) -> bytes | None:  # noqa: ANN401  any field
    """Return the bytes that stand for a field in a document, if it may be large."""
    if field.kind in LARGE:
        return str(value).encode()
    if field.kind == "Json":
        return compact(value)
    if isinstance(value, Flow):
        return encode(normalised(value))  # as the tree of its commit has it
    if isinstance(value, Value) and value.VERSION:
        return encode(value)
    return None


# ── text to op ──────────────────────────────────────────────────────────────────────────────────


def large_parts(documents: Iterable[bytes]) -> dict[str, Any]:
    """Return the values in the documents of a commit that its op may refer to, by digest."""
    found: dict[str, Any] = {}
    for data in documents:
        raw = load(data)
        found[digest(data)] = raw
        _collect(raw, found)
    return found


def _collect(raw: Any, found: dict[str, Any]) -> None:  # noqa: ANN401  any JSON
    pending = [raw]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            text = node.encode("utf-8", "surrogatepass")  # whoever wrote it, it is only looked at
            if len(text) > MAX_INLINE:
                found[digest(text)] = node
        elif isinstance(node, dict):
            pending.extend(node.values())
            if isinstance(node.get("data"), dict):
                found[digest(compact(node["data"]))] = node["data"]
        elif isinstance(node, list):
            pending.extend(node)


def raw_op(line: str) -> Any:  # noqa: ANN401  any JSON
    """Return what the trailer of an op holds, as JSON. Raises Invalid when it is none."""
    # An op is one level more than the document that it may hold.
    return load(line.encode(), MAX_LINE, MAX_DEPTH + 1)


def decode_op(line: str, files: Mapping[str, Any]) -> Op:
    """Return the op that a trailer holds, completed from the values of its own tree.

    Raises Invalid when it is no op of this version, or when a value is not in `files`.
    """
    raw = raw_op(line)
    tag = raw.pop("op", None) if isinstance(raw, dict) else None
    cls = class_of(tag) if isinstance(tag, str) else None
    if cls is None:
        raise Invalid(f"no operation is called {str(tag)[:40]!r}")
    known = fields(cls)
    whole = {name: _complete(known.get(name), value, files) for name, value in raw.items()}
    return from_json(cls, whole)


def _complete(field: Field | None, raw: Any, files: Mapping[str, Any]) -> Any:  # noqa: ANN401  any JSON
    if field is not None and field.many and isinstance(raw, list):
        return [_complete(field, item, files) for item in raw]
    if field is None or not _is_reference(raw):
        return raw
    if field.nested is None and field.kind not in (*LARGE, "Json"):
        return raw
    check("Sha256", raw["sha256"], f"{field.name}.sha256")
    check("Count", raw["bytes"], f"{field.name}.bytes")
    if raw["sha256"] not in files:
        raise Invalid(f"{field.name}: the text of {raw['bytes']} bytes is not in the commit's tree")
    return files[raw["sha256"]]


def decode_trailers(message: bytes) -> dict[str, str] | None:
    """Return the trailers of a message that gfs wrote, or None for any other.

    They are taken from the last block alone, which must hold each exactly once and nothing else;
    a newer rule set may have others beside them.
    """
    block = message.decode("utf-8", "replace").rstrip("\n").rsplit("\n\n", 1)[-1]
    found: dict[str, str] = {}
    for line in block.split("\n"):
        name, colon, value = line.partition(": ")
        if not colon or name in found:
            return None
        found[name] = value
    return found if _is_whole(found) else None


def _is_whole(found: Mapping[str, str]) -> bool:
    about = _ABOUT & found.keys()
    if about and "Channel" in found:
        return False  # a commit is about one thing
    return (
        {"Actor", "Gfs-Rules", "Gfs-Op"} <= found.keys()
        and re.fullmatch("[0-9]{1,9}", found["Gfs-Rules"]) is not None
        and (int(found["Gfs-Rules"]) > RULES or found.keys() <= {*TRAILERS})
        and (not about or about == _ABOUT)
        and (not about or re.fullmatch("[1-9][0-9]{0,15}", found["Revision"]) is not None)
    )


def decode_message(message: bytes, files: Mapping[str, Any]) -> Record | None:
    """Return what a commit says of itself, or None when it was made by hand.

    Raises Invalid for a message in our form whose op this version cannot read.
    """
    trailers = decode_trailers(message)
    if trailers is None:
        return None
    op = decode_op(trailers["Gfs-Op"], files)
    record = Record(
        op,
        trailers.get("Flow"),
        int(trailers["Revision"]) if "Revision" in trailers else None,
        trailers.get("Status"),
        trailers.get("Channel"),
        int(trailers["Gfs-Rules"]),
        trailers.get("Process"),
    )
    stated = (trailers["Actor"], record.flow, record.channel, record.process)
    # A process may have ended after its flow: then it changed no flow.
    flow = record.flow and flow_of(op) if isinstance(op, ProcessOp) else flow_of(op)
    if stated != (prose.inert(op.by), flow, channel_of(op), process_of(op)):
        raise Invalid("the trailers do not agree with the operation")
    return record


def process_of(op: Op) -> str | None:
    """Return the id of the process that an op changes, if it changes one."""
    return op.process if isinstance(op, ProcessOp) else None


def channel_of(op: Op) -> str | None:
    """Return the name of the channel whose cursor an op changes, if it changes one."""
    channel: str | None = getattr(op, "channel", None)
    return channel
