"""The published JSON Schemas, made by pydantic from the core schemas of `boundary`.

Rules: `schemas/` holds exactly what `json_schema` returns, and a test compares the two. After a
change of the model: `python -m gitflowstate.schemata schemas`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as cs

from gitflowstate import boundary, ops, settingforms
from gitflowstate.cursors import Acknowledged, Cursor, Delivery
from gitflowstate.inbox import Reader
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow, Plan, Receipt, Value
from gitflowstate.processmodel import Process

# What the codec and `boundary` refuse, and no JSON Schema can say.
BEYOND_SCHEMA = (
    "Refused as well, though no JSON Schema can say so: two children or steps with one id; a key "
    "that stands twice in an object; an integer written as 1.0, 1e3 or -0; a byte order mark; "
    "more than 32 levels; more than 4 MiB."
)
_LARGE = {
    "title": "Large",
    "description": "Stands for a value of more than 4 KiB, which is in the tree of the commit.",
}
_DOCUMENTS: dict[str, type[Value]] = {
    "flow": Flow,
    "op": ops.Op,
    "key": Receipt,
    "plan": Plan,
    "process": Process,
    "cursor": Cursor,
    "receipt": Delivery,
    "acknowledged": Acknowledged,
    "reader": Reader,
}
NAMES = (*_DOCUMENTS, "settings", "envelope")


def json_schema(name: str) -> dict[str, Any]:
    """Return a published JSON Schema, draft 2020-12, by one of NAMES."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gitflowstate:schema:{name}:1",
    }
    if name == "envelope":
        return head | _ENVELOPE
    if name == "settings":
        return head | settingforms.json_schema()
    cls = _DOCUMENTS[name]
    about = {"title": cls.__name__, "description": _described(cls), "$comment": BEYOND_SCHEMA}
    return head | about | _Generator().generate(boundary.core(cls))


def write(folder: Path) -> None:
    """Write every schema into a folder."""
    for name in NAMES:
        text = json.dumps(json_schema(name), indent=2) + "\n"
        (folder / f"{name}.schema.json").write_text(text, encoding="utf-8")


def _described(cls: type[Value]) -> str:
    return (cls.__doc__ or "").split("\n", 1)[0]


class _Generator(GenerateJsonSchema):
    """What pydantic cannot know: descriptions, and the rules that join fields."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """Keep the order of the file."""
        del parent_key
        return value

    def field_title_should_be_set(self, schema: object) -> bool:
        """Leave fields without titles, which would repeat their names."""
        del schema
        return False

    def custom_error_schema(self, schema: cs.CustomErrorSchema) -> JsonSchemaValue:
        """Describe a kind by its rule."""
        made = super().custom_error_schema(schema)
        kind = KINDS.get(schema.get("ref", ""))
        return made | {"description": kind.rule} if kind else made

    def int_schema(self, schema: cs.IntSchema) -> JsonSchemaValue:
        """Say a single allowed integer as a constant."""
        made = super().int_schema(schema)
        least = made["minimum"]
        return made if least != made["maximum"] else {"type": "integer", "const": least}

    def list_schema(self, schema: cs.ListSchema) -> JsonSchemaValue:
        """Say that no scalar stands twice."""
        made = super().list_schema(schema)
        item = schema["items_schema"]
        named = item["schema_ref"] if item["type"] == "definition-ref" else ""
        scalar = named in KINDS and not KINDS[named].repeats
        return made | {"uniqueItems": True} if scalar else made

    def tagged_union_schema(self, schema: cs.TaggedUnionSchema) -> JsonSchemaValue:
        """Choose by what the tag is made of, so that a validator's message is about one choice."""
        made = super().tagged_union_schema(schema)
        if "ref" in schema:  # free-form data: types tell its choices apart
            return made
        if boundary.LARGE in schema["choices"]:
            large, inline = made["oneOf"]
            reference = {"type": "object", "required": ["sha256", "bytes"], "maxProperties": 2}
            return {"if": reference, "then": large, "else": inline}
        tags = [str(choice).removeprefix(boundary.TAG) for choice in schema["choices"]]
        return {
            "type": "object",
            "required": ["op"],
            "properties": {"op": {"enum": tags}},
            "allOf": [
                {"if": {"required": ["op"], "properties": {"op": {"const": tag}}}, "then": choice}
                for tag, choice in zip(tags, made["oneOf"], strict=True)
            ],
        }

    def typed_dict_schema(self, schema: cs.TypedDictSchema) -> JsonSchemaValue:
        """Describe what stands for a large value; other objects are wrapped, and named there."""
        made = super().typed_dict_schema(schema)
        return _LARGE | made if "ref" in schema else made

    def function_wrap_schema(self, schema: cs.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        """Add what a status needs and what belongs to it alone."""
        made = super().function_wrap_schema(schema)
        cls: type[Value] = schema["metadata"]["class"]
        about = {"title": schema["ref"], "description": _described(cls)}
        rules = [_condition(cls, status) for status in KINDS["Status"].values if cls.NEEDS]
        return about | made | ({"allOf": list(filter(None, rules))} if rules else {})


def _condition(cls: type[Value], status: str) -> dict[str, Any]:
    needed = cls.NEEDS.get(status, ())
    null = {"type": "null"}
    then: dict[str, Any] = {name: {"not": null} for name in needed}
    then |= {name: null for name in cls.OWN if name not in needed}
    if not then:
        return {}
    when = {"properties": {"status": {"const": status}}, "required": ["status"]}
    required = {"required": list(needed)} if needed else {}
    return {"if": when, "then": {**required, "properties": then}}


_ENVELOPE: dict[str, Any] = {
    "title": "Envelope",
    "description": "The one document that every verb prints under --json.",
    "type": "object",
    "required": ["schema_version", "ok"],
    "properties": {
        "schema_version": {"type": "integer", "const": 1},
        "ok": {"type": "boolean"},
        "remote": {"$ref": "#/$defs/Remote"},
    },
    "if": {"properties": {"ok": {"const": True}}},
    "then": {
        "required": ["data"],
        "properties": {"data": {"description": "The answer; the verb says what it is."}},
    },
    "else": {"required": ["error"], "properties": {"error": {"$ref": "#/$defs/Error"}}},
    "unevaluatedProperties": False,
    "$defs": {
        "Remote": {
            "title": "Remote",
            "description": "Where a remote decides: how old the answer is, what is queued here.",
            "type": "object",
            "required": ["asked", "as_of", "queued"],
            "properties": {
                "asked": {"description": "Whether it answered just now.", "type": "boolean"},
                "as_of": {"description": "When it last answered.", "type": ["string", "null"]},
                "queued": {
                    "description": "Commits that are here alone; null where that is unknown.",
                    "type": ["integer", "null"],
                    "minimum": 0,
                },
            },
            "additionalProperties": False,
        },
        "Error": {
            "title": "Error",
            "description": "What was refused, what is there now, and the safe next step.",
            "type": "object",
            "required": ["code", "name", "message", "hint", "details"],
            "properties": {
                "code": {"description": "The exit code.", "type": "integer", "minimum": 1},
                "name": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
                "message": {"type": "string"},
                "hint": {"description": "Empty where there is none.", "type": "string"},
                "details": {"type": "object"},
            },
            "additionalProperties": False,
        },
    },
}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
