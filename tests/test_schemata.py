"""The published schemas are what the code says, and any validator can use them."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gitflowstate import errors, schemata

FOLDER = Path(__file__).parents[1] / "schemas"
EVERY = pytest.mark.parametrize("name", schemata.NAMES)
# What Python's expressions have and ECMA 262 has not, or means otherwise.
PYTHON_ONLY = re.compile(r"\(\?[^:=!]|\\[AZ]|[+*?}]\+|\$")


def nodes(schema):
    pending = [schema]
    for node in pending:
        inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        pending.extend(inner)
    return [node for node in pending if isinstance(node, dict)]


@EVERY
def test_the_committed_schema_is_the_generated_one(name):
    committed = json.loads(FOLDER.joinpath(f"{name}.schema.json").read_bytes())
    assert committed == schemata.json_schema(name), "python -m gitflowstate.schemata schemas"


def test_the_folder_holds_these_and_no_others(tmp_path):
    schemata.write(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in FOLDER.iterdir())
    assert names == sorted(f"{name}.schema.json" for name in schemata.NAMES)


@EVERY
def test_it_is_draft_2020_12_and_stands_alone(name):
    schema = schemata.json_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:gitflowstate:schema:{name}:1"
    assert schema["title"]
    assert schema["description"]
    targets = {f"#/$defs/{key}" for key in schema["$defs"]}
    assert {node["$ref"] for node in nodes(schema) if "$ref" in node} == targets


@EVERY
def test_it_means_the_same_in_every_language(name):
    patterns = {node["pattern"] for node in nodes(schemata.json_schema(name)) if "pattern" in node}
    patterns = {pattern for pattern in patterns if isinstance(pattern, str)}
    assert [found for found in patterns if PYTHON_ONLY.search(found.removesuffix("$"))] == []


@pytest.mark.parametrize("name", ["flow", "op", "key", "plan"])
def test_every_object_is_closed_and_described(name):
    schema = schemata.json_schema(name)
    shapes = [node for node in nodes(schema) if "properties" in node and "type" in node]
    assert [node for node in shapes if not node.get("description")] == []
    assert [node["title"] for node in shapes if node.get("additionalProperties", True)] == (
        ["Op"] if name == "op" else []  # each of its choices is closed
    )


ERROR = {"code": 4, "name": "stale", "message": "m", "hint": "", "details": {"revision": 4}}


@pytest.mark.parametrize(
    ("envelope", "valid"),
    [
        ({"ok": True, "data": None}, True),
        ({"ok": True, "data": {"id": "f"}}, True),
        ({"ok": True}, False),
        ({"ok": True, "data": 1, "error": ERROR}, False),
        ({"ok": False, "error": ERROR}, True),
        ({"ok": False, "error": ERROR, "data": 1}, False),
        ({"ok": False}, False),
        ({"ok": 1, "data": 1}, False),
        ({"ok": False, "error": ERROR | {"code": 0}}, False),
        ({"ok": False, "error": ERROR | {"traceback": "t"}}, False),
        ({"ok": False, "error": ERROR | {"details": []}}, False),
    ],
)
def test_an_answer_is_data_or_an_error(envelope, valid):
    judge = Draft202012Validator(schemata.json_schema("envelope"))
    assert judge.is_valid({"schema_version": 1} | envelope) is valid
    assert not judge.is_valid(envelope)


def test_every_error_of_ours_fits_the_envelope():
    judge = Draft202012Validator(schemata.json_schema("envelope"))
    for kind in (errors.GfsError, *errors.GfsError.__subclasses__()):
        error = ERROR | {"code": kind.code, "name": kind.name}
        judge.validate({"schema_version": 1, "ok": False, "error": error})
