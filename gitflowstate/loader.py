"""Bytes to JSON: the strict loader, and what JSON may hold that no field describes.

Rules: hazards, strict input rules. What is refused is named: by its field where there is one, else
by line and byte.
"""

from __future__ import annotations

import json
from typing import Any

from gitflowstate import positions
from gitflowstate.errors import Invalid
from gitflowstate.kinds import MAX_DEPTH, MAX_DOCUMENT, MAX_INT, check


def refuse(field: str, rule: str, **details: Any) -> Invalid:  # noqa: ANN401  JSON values
    """Return the error for one violation, at a field or of the document as a whole."""
    violation = {"path": field, "message": rule, **details}
    return Invalid(f"{field or 'the document'}: {rule}", violations=[violation])


def load(data: bytes, limit: int = MAX_DOCUMENT, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401  any JSON
    """Return the JSON value that the bytes hold.

    Raises Invalid, with the place where it can, for more than `limit` bytes, a byte that is not
    UTF-8, a byte order mark, a duplicate key, a number that is no safe integer, or more than
    `depth` levels (hazards, strict input rules).
    """
    text = _text(data, limit)
    try:
        return _parse(text, _strict, depth)
    except _RepeatedError:
        raise repeated(text) or refuse("", "holds a key twice") from None
    except _NumberError as error:
        raise refuse(_path_of_float(text), str(error)) from None


def lenient(data: bytes, limit: int = MAX_DOCUMENT) -> Any:  # noqa: ANN401  any JSON
    """Return the JSON value, though `load` would refuse a number or a duplicate key in it.

    Such a number is a float, which no field allows; of two equal keys the last one counts. It is
    there to find what else is wrong. Raises Invalid for all else that `load` refuses.
    """
    return _parse(_text(data, limit), _lenient)


def record(data: bytes, limit: int = MAX_DOCUMENT) -> Any:  # noqa: ANN401  any JSON
    """Return the JSON value of a line that others may have written, with floats in it.

    Raises Ambiguous for a key that stands twice or a constant such as NaN, which JSON has not;
    Invalid for all else that `load` refuses.
    """
    text = _text(data, limit)
    try:
        return _parse(text, _foreign)
    except _RepeatedError:
        raise Ambiguous("holds a key twice in one object") from None
    except _NumberError as error:
        raise Ambiguous(str(error)) from None


def repeated(text: str) -> Invalid | None:
    """Return the error for the first key that stands twice in one object, or None."""
    found = positions.duplicates(text)
    if found is None:
        return None
    pointer, offset = found
    line = text.encode()[:offset].count(b"\n") + 1
    said = f"the key stands twice, again at byte {offset}"
    return refuse(_dotted(pointer), said, offset=offset, line=line)


def _text(data: bytes, limit: int) -> str:
    if len(data) > limit:
        raise refuse("", f"has {len(data):,} bytes; the limit is {limit:,}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        said = f"byte {error.start} is not UTF-8"
        raise refuse("", said, offset=error.start, line=line) from None
    if text.startswith("\ufeff"):
        raise refuse("", "begins with a byte order mark", offset=0, line=1)
    return text


def _parse(text: str, decoder: json.JSONDecoder, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401  any JSON
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise refuse("", "is not JSON: it is empty", offset=0, line=1) from None
        offset = len(text[: error.pos].encode("utf-8", "surrogatepass"))
        rule = f"is not JSON: {error.msg} at line {error.lineno}, byte {offset}"
        raise refuse("", rule, offset=offset, line=error.lineno) from None
    except RecursionError:
        raise refuse("", f"is nested deeper than {depth} levels") from None
    bound_depth(value, depth)
    return value


def bound_depth(value: Any, depth: int, field: str = "") -> None:  # noqa: ANN401  any JSON
    """Refuse lists and objects within each other on more than `depth` levels. Raises Invalid."""
    level = [value]
    for _ in range(depth):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise refuse(field, f"is nested deeper than {depth} levels")


# ── free-form data ──────────────────────────────────────────────────────────────────────────────


def check_data(value: Any, at: str) -> None:  # noqa: ANN401  any JSON
    """Refuse free-form data that is no object or holds what a document may not.

    Raises Invalid with the path of the first value that is a float or no plain text, or for more
    levels than fit into a document, which is one level itself.
    """
    if not isinstance(value, dict):
        raise refuse(at, "must be an object")
    bound_depth(value, MAX_DEPTH - 1, at)
    check_plain(value, at)


def check_plain(value: Any, at: str) -> None:  # noqa: ANN401  any JSON
    """Refuse JSON with a text or number in it that no field could hold. Raises Invalid."""
    pending: list[tuple[str, Any]] = [(at, value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict):
            for key in node:
                check("Text", key, f"{path}.<key>")
            pending.extend((f"{path}.{key}", child) for key, child in node.items())
        elif isinstance(node, list):
            pending.extend((f"{path}.{number}", child) for number, child in enumerate(node))
        elif isinstance(node, str):
            check("Text", node, path)
        elif node is not None and type(node) is not bool:
            check("Int", node, path)


# ── what the decoder hands out ──────────────────────────────────────────────────────────────────


class Ambiguous(Invalid):
    """JSON of which two readers make two things."""


class _RepeatedError(ValueError):
    pass


class _NumberError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedError
    return found


def _no_float(number: str) -> Any:  # noqa: ANN401  never returns
    raise _NumberError(f"{number[:20]} is not an integer")


def _no_constant(name: str) -> Any:  # noqa: ANN401  never returns
    raise _NumberError(f"{name} is no number of JSON")


def _integer(number: str) -> int:
    value = _safe(number)
    if value is None:
        raise _NumberError(f"the integer {number[:20]} is not within 2^53-1 of zero")
    return value


def _safe(number: str) -> int | None:
    """Return an integer, or None for -0 and for what a reader of doubles would change."""
    if number == "-0" or len(number) > len(str(-MAX_INT)):
        return None
    value = int(number)
    return value if abs(value) <= MAX_INT else None


def _integer_or_float(number: str) -> int | float:
    value = _safe(number)
    return float(number) if value is None else value


_strict = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_no_float, parse_constant=_no_float, parse_int=_integer
)
_lenient = json.JSONDecoder(parse_int=_integer_or_float)
_foreign = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer_or_float, parse_constant=_no_constant
)


def _path_of_float(text: str) -> str:
    """Return where the first number stands that is no safe integer, if the text is JSON at all."""
    try:
        pending: list[tuple[str, Any]] = [("", _lenient.decode(text))]
    except (ValueError, RecursionError):
        return ""
    while pending:
        path, node = pending.pop()
        if isinstance(node, float):
            return path.removeprefix(".")
        if isinstance(node, (dict, list)):
            items = node.items() if isinstance(node, dict) else enumerate(node)
            pending.extend(reversed([(f"{path}.{key}", child) for key, child in items]))
    return ""


def _dotted(pointer: str) -> str:
    steps = pointer.removeprefix("/").split("/")
    return ".".join(step.replace("~1", "/").replace("~0", "~") for step in steps)
