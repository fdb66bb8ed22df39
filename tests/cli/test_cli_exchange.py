"""Documents from and to the outside: check, schema, import, export; and the users' own types."""

from __future__ import annotations

import json
import re

import clirun
import jsonschema
import pytest
from clirun import FOUNDING
from gitrepo import git
from referencing import Registry

EXAMPLE = json.loads(FOUNDING.read_text())


def document(**fields):
    """Return the founding example with other fields, as a file holds it."""
    kept = {name: value for name, value in (EXAMPLE | fields).items() if value is not None}
    return (json.dumps(kept, indent=2) + "\n").encode()


# ── check and schema ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-01", "R-TF-02")
def test_the_founding_example_is_valid(cli):
    assert cli("check", FOUNDING) == "1 valid\n"
    assert cli("check", FOUNDING, "-", stdin=FOUNDING.read_bytes()) == "2 valid\n"


@pytest.mark.req("R-TF-03", "R-TF-12")
def test_check_names_every_violation_with_file_field_and_line(cli, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_bytes(document(status="complete", revision=True, stray=1))
    error = cli.refuses(3, "check", FOUNDING, bad)
    assert error["message"] == "3 violations in 1 of 2 files"
    found = error["details"]["violations"]
    assert [violation["path"] for violation in found] == [
        f"{bad}:5: status",
        f"{bad}:6: revision",
        f"{bad}:{len(bad.read_text().splitlines()) - 1}: stray",
    ]
    said = cli.run("check", bad).err
    assert all(violation["message"] in said for violation in found)


def test_check_needs_a_file_that_can_be_read(cli):
    cli.refuses(2, "check")
    cli.refuses(2, "check", "/nowhere.json")


@pytest.mark.parametrize("name", ["flow", "op", "key", "plan", "envelope"])
def test_schemas_are_valid_and_printed_whole(cli, name):
    assert name in cli("schema").split()
    told = cli.json("schema", name)
    jsonschema.Draft202012Validator.check_schema(told)
    assert json.loads(cli("schema", name)) == told


def test_the_flow_schema_accepts_the_founding_example(cli):
    judge = jsonschema.Draft202012Validator(cli.json("schema", "flow"), registry=Registry())
    judge.validate(EXAMPLE)
    assert not judge.is_valid(EXAMPLE | {"status": "complete"})


def test_another_schema_is_not_there(cli):
    names = ", ".join(cli("schema").split())
    assert cli.refuses(5, "schema", "flows")["hint"] == f"one of {names}"


# ── import ──────────────────────────────────────────────────────────────────────────────────────


def test_an_import_keeps_the_revision(cli):
    assert cli("import", FOUNDING) == "flow-example-001 r4 running\n"
    assert cli.op()["op"] == "import"
    owner = ("--as", "architecture-session")
    said = cli("update", "flow-example-001", "--progress", "x", *owner)
    assert said == "flow-example-001 r5 running\n"


def test_an_import_of_an_ended_flow_is_archived(cli):
    ended = document(status="done", result_ref="r.md", next_action=None, children=[])
    assert cli("import", "-", stdin=ended) == "flow-example-001 r4 done\n"
    assert list(cli.folder.glob("archive/*/flow-example-001.json"))


def test_an_import_of_a_claimed_task_leaves_the_claim_behind(cli):
    claim = {"worker": "w", "by": "ann", "attempt": 3, "until": "2026-09-06T10:00:00Z"}
    task = {"id": "t1", "goal": "g", "status": "pending", "claim": claim}
    cli("import", "-", stdin=document(children=[task]))
    del task["claim"]
    assert cli.flow("flow-example-001")["children"] == [task]


@pytest.mark.req("R-TF-27")
def test_an_id_with_other_content_is_a_conflict(cli):
    cli("import", FOUNDING)
    error = cli.refuses(4, "import", "-", stdin=document(progress="Other"))
    assert "flow-example-001 is taken" in error["message"]


@pytest.mark.req("R-TF-12")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        (document(status="complete"), "status"),
        (document(revision="4"), "revision"),
        (document(updated_at="yesterday"), "updated_at"),
        (document(stray=1), "stray"),
        (document(next_action=None), "next_action"),
        (document(children=[{"id": "t", "goal": "g", "status": "done"}]), "children.0.result_ref"),
        (b"{}", "schema_version"),
        (b"3", ""),
        (b"{", ""),
        (b"", ""),
        (b" \n", ""),
    ],
)
def test_what_is_no_valid_flow_is_refused_with_its_field(cli, data, path):
    error = cli.refuses(3, "import", "-", stdin=data)
    assert error["name"] == "invalid"
    assert error["details"]["violations"][0]["path"] == path


def test_a_list_is_imported_whole(cli):
    several = [json.loads(document(id=name)) for name in ("one", "two")]
    data = json.dumps(several).encode()
    assert cli("import", "-", stdin=data) == "one r4 running\ntwo r4 running\n"
    again = cli.json("import", "-", "--key", "k", stdin=data)
    assert [row["changed"] for row in again["flows"]] == [False, False]
    assert cli("import", "-", stdin=b"[]") == "no flows\n"


def test_a_list_under_one_key_is_answered_again(cli):
    data = json.dumps([json.loads(document(id=name)) for name in ("one", "two")]).encode()
    cli("import", "-", "--key", "k", stdin=data)
    for name in ("one", "two"):
        cli("note", name, "later", "--as", "architecture-session")
    said = cli("import", "-", "--key", "k", stdin=data)
    assert said == "".join(f"{n} r4 (already done under this key)\n" for n in ("one", "two"))


def test_a_list_with_a_bad_one_leaves_none_behind(cli):
    cli("import", FOUNDING)
    several = [json.loads(document(id="fresh")), json.loads(document(progress="Other"))]
    cli.refuses(4, "import", "-", stdin=json.dumps(several).encode())
    several[1]["status"] = "complete"
    cli.refuses(3, "import", "-", stdin=json.dumps(several).encode())
    assert len(cli.json("list")["flows"]) == 1
    twice = [json.loads(document(id="fresh", goal=goal)) for goal in ("one", "another")]
    error = cli.refuses(3, "import", "-", stdin=json.dumps(twice).encode())
    assert error["details"]["violations"][0]["path"] == "1.id"
    assert len(cli.json("list")["flows"]) == 1


# ── export ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-06", "R-TF-11")
def test_what_is_exported_can_be_imported_elsewhere(flow, tmp_path):
    flow("import", FOUNDING)
    flow("update", "plan", "--progress", "ünï\u2028", "--data", "-", stdin=b'{"b": 1, "a": {}}')
    flow("create", "Gone", "--id", "gone")
    flow("done", "gone", "--result", "r")
    whole = flow("export", "--all")
    other = clirun.made(tmp_path / "other")
    other("import", "-", stdin=whole.encode())
    assert other("export", "--all") == whole
    for name in ("plan", "gone", "flow-example-001"):
        assert other("export", name) == flow("export", name)
        assert other.git("show", f"main:{_place(other, name)}") == flow.git(
            "show", f"main:{_place(flow, name)}"
        )


def _place(cli, name):
    return cli.json("show", name, "--path")["path"]


def test_one_is_a_document_and_several_are_a_list(flow):
    flow("create", "Other", "--id", "other")
    assert json.loads(flow("export", "plan")) == flow.flow("plan")
    assert json.loads(flow("export", "other", "plan")) == [flow.flow("other"), flow.flow("plan")]
    assert flow.json("export", "plan") == flow.flow("plan")
    assert isinstance(json.loads(flow("export", "--all")), list)


@pytest.mark.req("F6")
def test_f6_what_is_unseen_is_exported_as_an_escape_of_the_same_value(flow):
    words = "ünï \u202egnp.exe\u202c a\u200bb \U000e0041 \u2028 \U0001f469\u200d\U0001f680"
    flow("update", "plan", "--progress", words)
    for option in ("plan", "--all"):
        told = flow("export", option)
        escapes = re.findall(r"(?:\\u[0-9a-f]{4})+", told)
        assert escapes == [f"\\u{code}" for code in ("202e", "202c", "200b", "db40\\udc41", "2028")]
        assert "ünï" in told
        assert not set(told) & set("\u202e\u202c\u200b\U000e0041\u2028")
        (document,) = [json.loads(told)] if option == "plan" else json.loads(told)
        assert document["progress"] == words


def test_export_is_told_what(flow):
    flow.refuses(2, "export")
    flow.refuses(2, "export", "plan", "--all")


@pytest.mark.req("R-TF-12", "D4")
def test_a_flow_that_cannot_be_used_is_left_out_and_named(flow, tmp_path):
    flow("create", "Other", "--id", "other")
    clone = cloned(flow, tmp_path)
    (file,) = clone.glob("flows/*/other.json")
    file.write_text("<<<<<<< ours\n")
    pushed(clone, "break it")
    result = flow.run("export", "--all")
    assert [found["id"] for found in json.loads(result.out)] == ["plan"]
    assert result.code == 0
    assert result.err.startswith("warning: left out: flows/")
    flow.refuses(6, "export", "other")


# ── the users' own types ────────────────────────────────────────────────────────────────────────

STUDY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["options"],
    "properties": {"options": {"type": "integer", "minimum": 2}},
    "additionalProperties": False,
}


def cloned(cli, tmp_path):
    """Return an ordinary clone of a person's."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", cli.gitdir, clone)
    return clone


def pushed(clone, subject):
    """Commit everything in a clone and push it, as a person does."""
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", subject)
    git(clone, "push", "-q", "origin", "HEAD:main")


@pytest.fixture
def typed(cli, tmp_path):
    """Return the command line on a repository to which a person pushed the type `study`."""
    clone = cloned(cli, tmp_path)
    (clone / "types").mkdir()
    (clone / "types" / "study.schema.json").write_text(json.dumps(STUDY))
    pushed(clone, "types: what a study holds")
    return cli


def test_data_of_a_type_obeys_the_users_schema(typed):
    good = ("create", "Goal", "--id", "s", "--type", "study", "--data", "-")
    assert typed(*good, stdin=b'{"options": 3}').startswith("s r1 pending\n")
    for data, path in ((b'{"options": 1}', "data.options"), (b"{}", "data"), (b'{"x": 1}', "data")):
        error = typed.refuses(3, *good[:2], *good[4:], stdin=data)
        assert error["name"] == "invalid"
        assert error["details"]["violations"][0]["path"] == path
        assert "types/study.schema.json" in error["hint"]
    error = typed.refuses(3, "update", "s", "--data", "-", stdin=b'{"options": "3"}')
    assert error["details"]["violations"][0]["path"] == "data.options"
    assert typed("update", "s", "--data", "-", stdin=b'{"options": 4}') == "s r2 pending\n"


def test_an_imported_document_obeys_it_too(typed):
    data = document(type="study", data={"options": 1})
    error = typed.refuses(3, "import", "-", stdin=data)
    assert error["details"]["violations"][0]["path"] == "data.options"


def test_a_type_without_a_schema_takes_any_data(typed):
    words = ("create", "Goal", "--id", "s", "--type", "other", "--data", "-")
    assert typed(*words, stdin=b'{"x": 1}').startswith("s r1 pending\n")


def test_what_people_push_is_no_unmanaged_commit(typed):
    typed("create", "Goal", "--id", "s")
    assert typed.json("verify", "--strict")["unmanaged"] == []
    assert typed.git("log", "--format=%s", "main").splitlines()[1].startswith("types: ")


@pytest.mark.req("E11")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "file:///etc/passwd"}, "a reference must begin with #"),
        ({"type": "nonsense"}, "is no JSON Schema"),
        ([1], "is no JSON Schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(cli, tmp_path, schema, said):
    clone = cloned(cli, tmp_path)
    (clone / "types").mkdir()
    (clone / "types" / "study.schema.json").write_text(json.dumps(schema))
    pushed(clone, "types: odd")
    words = ("create", "Goal", "--type", "study", "--data", "-")
    error = cli.refuses(3, *words, stdin=b"{}")
    assert said in error["message"]
    assert "types/study.schema.json" in error["message"]
