"""Documents from outside: every violation at once, judged by pydantic from the core's own table.

Rules: pydantic is imported here and in `schemata` alone. Nothing is declared here: `codec.fields`
and `kinds.KINDS` say what is allowed, and this bridges them to pydantic's core schemas. `codec`,
pydantic and the JSON Schemas accept and refuse the same documents (but for what
`schemata.BEYOND_SCHEMA` names); a null is an absent field in all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from gitflowstate.codec import Field, fields
from gitflowstate.coherence import Fault, joined
from gitflowstate.errors import Invalid
from gitflowstate.inbox import UNION as INBOX_UNION
from gitflowstate.kinds import KINDS, Kind
from gitflowstate.kinds import LARGE as LARGE_KINDS
from gitflowstate.model import Value
from gitflowstate.ops import Op
from gitflowstate.processops import UNION as PROCESS_UNION
from gitflowstate.union import UNION
from gitflowstate.watchops import UNION as CURSOR_UNION

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails

V = TypeVar("V", bound=Value)
EVERY = (*UNION, *PROCESS_UNION, *CURSOR_UNION, *INBOX_UNION)  # on main, and on cursors

# Tags are part of pydantic's locations, so they begin as no allowed key does, and are taken out.
TAG = "\0"
LARGE = f"{TAG}large"


def validate(cls: type[V], raw: Any) -> V:  # noqa: ANN401  any JSON
    """Return the document that JSON describes.

    Raises Invalid with every violation. A newer schema version is one of them, since a document
    from outside is there to be written.
    """
    try:
        value: V = _validator(cls).validate_python(raw)
    except ValidationError as error:
        raise refusal([_fault(detail) for detail in error.errors()]) from None
    return value


def faults(cls: type[Value], raw: Any) -> list[Fault]:  # noqa: ANN401  any JSON
    """Return every violation of a class by JSON.

    Op stands for every operation, as the trailer of a commit holds it: with its tag, and with large
    values as `{sha256, bytes}`.
    """
    try:
        _validator(cls).validate_python(raw)
    except ValidationError as error:
        return [_fault(detail) for detail in error.errors()]
    return []


def refusal(found: list[Fault]) -> Invalid:
    """Return the error for violations: the first one in words, all of them in its details."""
    first = found[0]
    more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
    return Invalid(
        f"{first.path or 'the document'}: {first.message}{more}",
        violations=[{"path": fault.path, "message": fault.message} for fault in found],
    )


def core(cls: type[Value]) -> CoreSchema:
    """Return pydantic's core schema for a class; for Op, that of every operation."""
    classes = _reachable(EVERY if cls is Op else (cls,))
    kinds = [_kind(name, kind) for name, kind in KINDS.items() if name != "Json"]
    root = _union() if cls is Op else _ref(name_of(cls))
    return cs.definitions_schema(root, [*kinds, *_json(), _large(), *map(_value, classes)])


def name_of(cls: type[Value]) -> str:
    """Return the name of a class among the definitions; an op goes by its tag."""
    return f"{cls.TAG}-op".replace(" ", "-") if issubclass(cls, Op) else cls.__name__


_validators: dict[type[Value], SchemaValidator] = {}


def _validator(cls: type[Value]) -> SchemaValidator:
    if cls not in _validators:
        _validators[cls] = SchemaValidator(core(cls))
    return _validators[cls]


def _reachable(classes: Iterable[type[Value]]) -> list[type[Value]]:
    found = list(classes)
    for cls in found:  # grows while it is walked
        nested = dict.fromkeys(field.nested for field in fields(cls).values())
        found += [each for each in nested if each and each not in found]
    return found


# ── one object ──────────────────────────────────────────────────────────────────────────────────


def _judge(cls: type[Value], raw: Any, fits: Callable[[Any], Any]) -> Any:  # noqa: ANN401  any JSON
    """Judge the fields of an object by themselves, then by the rules that join them."""
    known = {*fields(cls), *_tag(cls)}
    own: Any = raw
    found: list[Fault] = []
    if isinstance(raw, dict):
        own = {name: item for name, item in raw.items() if name in known and item is not None}
        unknown = sorted(raw.keys() - known)
        found = [Fault((name,), f"is no field of {cls.__name__.lower()}") for name in unknown]
        found += joined(cls, own)
    try:
        value = fits(own)
    except ValidationError as error:
        # The locations stay pydantic's, since this object may stand in another.
        found[:0] = [Fault(detail["loc"], _said(detail)) for detail in error.errors()]
    if found:
        raise ValidationError.from_exception_data(cls.__name__, [_detail(each) for each in found])
    return value if issubclass(cls, Op) else _built(cls, value)


def _built(cls: type[V], value: dict[str, Any]) -> V:
    known = fields(cls)
    return cls(**{name: tuple(item) if known[name].many else item for name, item in value.items()})


_SAYINGS = {
    "missing": "is missing",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "recursion_depth_exceeded": "is nested too deeply",
}


def _fault(detail: ErrorDetails) -> Fault:
    loc = detail["loc"]
    if loc[-1:] == ("[key]",):
        loc = (*loc[:-2], "<key>")
    return Fault(tuple(part for part in loc if not str(part).startswith(TAG)), _said(detail))


def _said(detail: ErrorDetails) -> str:
    return _SAYINGS.get(detail["type"], detail["msg"])


def _detail(fault: Fault) -> InitErrorDetails:
    said = PydanticCustomError("rule", fault.message)
    return {"type": said, "loc": fault.loc, "input": None}


# ── the bridge ──────────────────────────────────────────────────────────────────────────────────


def _ref(name: str) -> CoreSchema:
    return cs.definition_reference_schema(name)


def _kind(name: str, kind: Kind) -> CoreSchema:
    said = f"must be {kind.rule}"
    return cs.custom_error_schema(_scalar(kind), "rule", custom_error_message=said, ref=name)


def _scalar(kind: Kind) -> CoreSchema:
    if kind.values:
        return cs.literal_schema(list(kind.values))
    if kind.base is str:
        return cs.str_schema(
            strict=True,
            pattern=kind.pattern,
            max_length=kind.longest,
            regex_engine="python-re",  # the codec's, and it knows look-ahead
        )
    if kind.base is int:
        return cs.int_schema(strict=True, ge=kind.least, le=kind.most)
    return cs.bool_schema(strict=True)


def _json() -> list[CoreSchema]:
    """Return the definitions of free-form data: an object, and what may stand in it."""
    choices: dict[type, CoreSchema] = {
        dict: _ref("Json"),
        list: cs.list_schema(_ref("JsonValue"), strict=True),
        str: _ref("Text"),
        bool: cs.bool_schema(strict=True),
        type(None): cs.none_schema(),
        int: _ref("Int"),  # and a float, which is refused as no integer
    }
    tagged: dict[Any, CoreSchema] = {TAG + kind.__name__: each for kind, each in choices.items()}

    def tag(raw: object) -> str:
        return TAG + (type(raw) if type(raw) in choices else int).__name__

    value = cs.tagged_union_schema(tagged, tag, ref="JsonValue")
    return [value, cs.dict_schema(_ref("Text"), _ref("JsonValue"), strict=True, ref="Json")]


def _value(cls: type[Value]) -> CoreSchema:
    """Return the definition of a class: its fields, and the rules that join them."""
    members = _tag(cls) | {name: _member(cls, field) for name, field in fields(cls).items()}
    shape = cs.typed_dict_schema(members, extra_behavior="forbid", strict=True)
    return cs.no_info_wrap_validator_function(
        partial(_judge, cls), shape, ref=name_of(cls), metadata={"class": cls}
    )


def _tag(cls: type[Value]) -> dict[str, cs.TypedDictField]:
    if not issubclass(cls, Op):
        return {}
    return {"op": cs.typed_dict_field(cs.literal_schema([cls.TAG]), required=True)}


def _member(cls: type[Value], field: Field) -> cs.TypedDictField:
    if field.name == "schema_version":
        return cs.typed_dict_field(_version(cls.VERSION), required=True)
    one = _ref(name_of(field.nested) if field.nested else field.kind)
    if issubclass(cls, Op) and _may_be_large(field):
        one = _inline_or_large(one)
    if field.many:
        one = cs.list_schema(one, strict=True)
    if field.required:
        return cs.typed_dict_field(one, required=True)
    optional: CoreSchema = cs.nullable_schema(one)
    if field.default:
        optional = cs.with_default_schema(optional, default=field.default)
    return cs.typed_dict_field(optional, required=False)


def _version(version: int) -> CoreSchema:
    exact = cs.int_schema(strict=True, ge=version, le=version)  # a literal 1 would take 1.0
    return cs.custom_error_schema(exact, "rule", custom_error_message=f"must be {version}")


# ── operations in a trailer ─────────────────────────────────────────────────────────────────────


def _may_be_large(field: Field) -> bool:
    return field.kind in (*LARGE_KINDS, "Json") or (
        field.nested is not None and field.nested.VERSION > 0
    )


def _inline_or_large(one: CoreSchema) -> CoreSchema:
    """Choose by the keys alone, as the message does."""
    return cs.tagged_union_schema(
        {LARGE: _ref("Large"), f"{TAG}inline": one},
        lambda raw: (
            LARGE if isinstance(raw, dict) and raw.keys() == {"sha256", "bytes"} else f"{TAG}inline"
        ),
    )


def _large() -> CoreSchema:
    members = {
        "sha256": cs.typed_dict_field(_ref("Sha256"), required=True),
        "bytes": cs.typed_dict_field(_ref("Count"), required=True),
    }
    return cs.typed_dict_schema(members, extra_behavior="forbid", strict=True, ref="Large")


def _union() -> CoreSchema:
    tags = ", ".join(op.TAG for op in EVERY)
    return cs.tagged_union_schema(
        {TAG + op.TAG: _ref(name_of(op)) for op in EVERY},
        lambda raw: f"{TAG}{raw.get('op')}" if isinstance(raw, dict) else None,
        custom_error_type="rule",
        custom_error_message=f"must be an object whose op is one of {tags}",
    )
