"""Canonical bytes to documents and back: the field table and the schema versions.

Rules: what this accepts, pydantic in `boundary` and the JSON Schemas accept, and nothing else.
A document of a newer schema version keeps every field it has and is refused on write, by `machine`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from gitflowstate import loader
from gitflowstate.governed import CLASSES
from gitflowstate.kinds import KINDS, check
from gitflowstate.loader import refuse
from gitflowstate.model import Flow, Task, Value, archive_path, flow_path, live
from gitflowstate.processmodel import Process, process_path

_REQUIRED = object()
load = loader.load  # bytes to JSON is the first half of decoding
check_data = loader.check_data
V = TypeVar("V", bound=Value)


class Field(NamedTuple):
    """One field of a value: its kind or nested class, and whether it repeats or may be absent."""

    name: str
    kind: str
    nested: type[Value] | None
    many: bool
    default: Any
    required: bool
    accepts: Callable[[object], bool] | None  # of a scalar's kind


_fields: dict[type[Value], dict[str, Field]] = {}
_required: dict[type[Value], tuple[str, ...]] = {}


def fields(cls: type[Value]) -> dict[str, Field]:
    """Return the fields of a class, in the order of the file."""
    if cls not in _fields:
        _fields[cls] = {
            name: _field(cls, name, annotation, base.__module__)
            for base in reversed(cls.__mro__)
            for name, annotation in getattr(base, "__annotations__", {}).items()
            if not annotation.startswith("ClassVar")
        }
        _required[cls] = tuple(name for name, field in _fields[cls].items() if field.required)
    return _fields[cls]


def _field(cls: type[Value], name: str, annotation: str, module: str) -> Field:
    kind = annotation.removesuffix(" | None")
    many = kind.startswith("tuple[")
    kind = kind.removeprefix("tuple[").removesuffix(", ...]")
    default = getattr(cls, name, _REQUIRED)
    accepts = KINDS[kind].accepts if kind in KINDS else None
    nested = None if accepts else _class_of(kind, module)
    kind = kind.rpartition(".")[2]
    return Field(name, kind, nested, many, default, default is _REQUIRED, accepts)


def _class_of(name: str, module: str) -> type[Value] | None:
    """Return the class that an annotation of a module names; free-form data has none."""
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found if isinstance(found, type) and issubclass(found, Value) else None


# ── JSON to values ──────────────────────────────────────────────────────────────────────────────


def from_json(cls: type[V], raw: Any, at: str = "", *, newer: bool = False) -> V:  # noqa: ANN401  any JSON
    """Return the value that checked JSON describes; unknown fields are kept in a newer document.

    Raises Invalid with the path of the first field that is missing, unknown or not of its kind.
    """
    if not isinstance(raw, dict):
        raise refuse(at.removesuffix("."), "must be an object")
    known = fields(cls)
    newer = newer or _newer(cls, raw)
    found: dict[str, Any] = {}
    for name, value in raw.items():
        field = known.get(name)
        if field is None:
            if not newer:
                raise refuse(f"{at}{name}", f"is no field of {cls.__name__.lower()}")
            check("Text", name, f"{at}<key>")
            loader.check_plain(value, f"{at}{name}")
            found[name] = value
        elif value is not None:
            # Nearly all are plain and right: only an error, or more structure, needs the path.
            plain = not field.many and field.accepts is not None and field.accepts(value)
            path = "" if plain else f"{at}{name}"
            found[name] = value if plain else _convert(field, value, path, newer=newer)
    for name in _required[cls]:
        if name not in found:
            raise refuse(f"{at}{name}", "is missing")
    result = cls(**found)
    _check_needs(result, at)
    return result


def _newer(cls: type[Value], raw: dict[str, Any]) -> bool:
    version = raw.get("schema_version")
    return cls.VERSION > 0 and type(version) is int and version > cls.VERSION


def _convert(field: Field, value: Any, at: str, *, newer: bool) -> Any:  # noqa: ANN401  any JSON
    if not field.many:
        return _single(field, value, at, newer=newer)
    if not isinstance(value, list):
        raise refuse(at, "must be a list")
    items = tuple(value)
    if field.accepts is None or not all(map(field.accepts, items)):
        items = tuple(
            _single(field, item, f"{at}.{number}", newer=newer) for number, item in enumerate(value)
        )
    _check_unique(field, items, at)
    return items


def _single(field: Field, value: Any, at: str, *, newer: bool) -> Any:  # noqa: ANN401  any JSON
    if field.nested is not None:
        return from_json(field.nested, value, f"{at}.", newer=newer)
    if field.kind == "Json":
        check_data(value, at)
        return value
    check(field.kind, value, at)
    return value


def _check_unique(field: Field, items: tuple[Any, ...], at: str) -> None:
    """Refuse a list that names one thing twice: children by id, other scalars by themselves."""
    if field.kind in KINDS and KINDS[field.kind].repeats:
        return
    if field.nested is None:
        names = items
    elif "id" in fields(field.nested):
        names = tuple(item.id for item in items)
    else:
        return
    if len(set(names)) != len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise refuse(at, f"holds {twice} twice")


def _check_needs(value: Value, at: str) -> None:
    """Refuse a status without the fields it needs, or with those of another status."""
    status = getattr(value, "status", None)
    if status is None or not value.NEEDS:
        return
    needed = value.NEEDS.get(status, ())
    for name in needed:
        if getattr(value, name) is None:
            raise refuse(f"{at}{name}", f"is missing: status {status} needs it")
    for name in value.OWN:
        if name not in needed and getattr(value, name) is not None:
            raise refuse(f"{at}{name}", f"does not belong to status {status}")


# ── values to bytes ─────────────────────────────────────────────────────────────────────────────


def to_json(value: Value) -> dict[str, Any]:
    """Return the value as JSON, its fields in the order of the file, absent for defaults."""
    own, known = value.__dict__, fields(type(value))
    result: dict[str, Any] = {}
    for name, field in known.items():
        if name in own or field.required:
            result[name] = _plain(field, own.get(name, () if field.many else None))
    newer = {name: item for name, item in own.items() if name not in known}
    return {**result, **newer}  # what a newer schema version added is kept


def _plain(field: Field, value: Any) -> Any:  # noqa: ANN401  any JSON
    if field.nested is None:
        return list(value) if field.many else value
    return [to_json(item) for item in value] if field.many else to_json(value)


def encode(value: Value) -> bytes:
    """Return the canonical bytes of a document (architecture, section 4, Bytes)."""
    cached: bytes | None = getattr(value, "_encoded", None)
    if cached is None:
        cached = (_lines(value, "") + "\n").encode()
        object.__setattr__(value, "_encoded", cached)
    return cached


def _lines(value: Value, margin: str) -> str:
    """Return `to_json` of a value as JSON in lines, all but the first behind the margin.

    A task keeps its lines: an operation changes one of perhaps a thousand.
    """
    kept: str | None = getattr(value, "_lines", None)
    if kept is not None:
        return kept
    own, known, inner = value.__dict__, fields(type(value)), f"{margin}  "
    found = [
        f'{inner}"{name}": {_item(field, own.get(name), inner)}'
        for name, field in known.items()
        if name in own or field.required
    ]
    newer = [name for name in own if name not in known]
    found += [f"{inner}{_scalar(name)}: {_free(own[name], inner)}" for name in newer]
    text = "{\n" + ",\n".join(found) + f"\n{margin}}}" if found else "{}"
    if type(value) is Task:  # it stands in a flow and nowhere else: always behind the same margin
        object.__setattr__(value, "_lines", text)
    return text


def _item(field: Field, value: Any, margin: str) -> str:  # noqa: ANN401  any field
    if field.many:
        inner = f"{margin}  "
        items = [_lines(item, inner) if field.nested else _scalar(item) for item in value or ()]
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}]" if items else "[]"
    if field.accepts is not None:
        return _scalar(value)
    return _free(value, margin) if field.nested is None else _lines(value, margin)


def _free(value: Any, margin: str) -> str:  # noqa: ANN401  any JSON
    return _free_form(value).replace("\n", f"\n{margin}")  # no string holds a bare newline


_scalar = json.JSONEncoder(ensure_ascii=False).encode
_free_form = json.JSONEncoder(ensure_ascii=False, indent=2).encode


def compact(value: Any) -> bytes:  # noqa: ANN401  any JSON
    """Return JSON on one line, in the order given: the bytes that a digest of `data` is over."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")  # somebody else's data may be anything


def decode(cls: type[V], data: bytes) -> V:
    """Return the document that the bytes hold. Raises Invalid."""
    return from_json(cls, load(data))


def decode_at(path: str, data: bytes, classes: Mapping[str, type[Value]] = CLASSES) -> Value:
    """Return the document kept at a governed path; `classes` says by its top-level name what it is.

    Raises Invalid when it does not decode, or is a flow or process that does not belong there.
    """
    value = decode(classes[path.split("/", 1)[0]], data)
    if isinstance(value, Flow):
        right = flow_path(value.id) if live(value) else archive_path(value.id)
        if path != right:
            raise refuse("id", f"the flow {value.id}, {value.status}, belongs at {right}")
    if isinstance(value, Process) and path != process_path(value.session_id, value.id):
        right = process_path(value.session_id, value.id)
        raise refuse("id", f"the process {value.id} belongs at {right}")
    return value


def digest(data: bytes) -> str:
    """Return the sha256 of stored bytes, in hexadecimal."""
    return sha256(data).hexdigest()


def checked(value: V) -> V:
    """Return a value that was built in code, once every field is of its kind. Raises Invalid."""
    return from_json(type(value), to_json(value))


def texts(value: Value) -> Iterator[tuple[str, str]]:
    """Yield every text in a value with the path of its field, keys of free-form data included."""
    pending: list[tuple[str, Any]] = list(to_json(value).items())
    while pending:
        path, node = pending.pop()
        if isinstance(node, str):
            yield path, node
        elif isinstance(node, dict):
            for key, child in node.items():
                yield f"{path}.<key>", key
                pending.append((f"{path}.{key}", child))
        elif isinstance(node, list):
            pending.extend((f"{path}.{number}", child) for number, child in enumerate(node))
