"""Hazards E1 to E4, E6 to E13: documents that must not get in, or must not get lost."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time

import clirun
import pytest
from clirun import FOUNDING
from gitrepo import git

EXAMPLE = FOUNDING.read_text()
NAME = "flow-example-001"


def with_text(old, new):
    """Return the founding example with some of its text replaced."""
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new, 1).encode("utf-8", "surrogatepass")


def refused(cli, data):
    """Both judges refuse the bytes: `check` says all, `import` says the first; return them."""
    told = cli.refuses(3, "check", "-", stdin=data)
    error = cli.refuses(3, "import", "-", stdin=data)
    assert error["name"] == told["name"] == "invalid"
    return error["details"]["violations"], told["details"]["violations"]


@pytest.mark.req("E1")
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"schema_version": 1,', '"id": "other", "schema_version": 1,', "id"),
        ('"id": "task-002",', '"id": "task-002", "goal": "x",', "goal"),
    ],
)
def test_e1_a_key_that_stands_twice(cli, old, new, key):
    data = with_text(old, new)
    (first, *_), everything = refused(cli, data)
    assert first["path"].endswith(key)
    assert "twice" in first["message"]
    quoted = f'"{key}"'.encode()
    assert data[first["offset"] :].startswith(quoted)
    assert data.index(quoted) < first["offset"]
    assert any("twice" in violation["message"] for violation in everything)


NUMBERS = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-0", "1.0", '"1"', "true", "1e3", "0", "-1"),
    *(str(2**53), str(2**53 + 1), str(2**63), "9" * 4400, "null", "[1]"),
]


PLAIN = ('"1"', "true", "0", "-1", "null", "[1]")  # what data may hold


@pytest.mark.req("E2")
def test_e2_a_revision_is_a_safe_integer(cli, subtests):
    for number in NUMBERS:
        with subtests.test(number=number[:20]):
            (first, *_), _ = refused(cli, with_text('"revision": 4', f'"revision": {number}'))
            assert "revision" in first["path"]


@pytest.mark.req("E2")
def test_e2_data_holds_safe_integers(flow, subtests):
    for number in (n for n in NUMBERS if n not in PLAIN):
        with subtests.test(number=number[:20]):
            data = f'{{"n": {number}}}'.encode()
            flow.refuses(3, "update", "plan", "--data", "-", stdin=data)


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Compare three", r"\ud800"),
        ("flow-example-001", r"flow\udfff"),
        ("artifacts/constraints.md", r"a\ud800b"),
        ('"children": [', r'"data": {"\ud800": 1}, "children": ['),
    ],
)
def test_e3_a_lone_surrogate(cli, old, new):
    refused(cli, with_text(old, new))


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "words",
    [
        ("create", b"a\xffb"),
        ("create", "Goal", "--id", b"a\xff"),
        ("create", "Goal", "--label", b"\xff"),
        ("create", "Goal", "--owner", b"\xff"),
        ("note", "plan", b"\xff"),
        ("note", "plan", "x", "--as", b"\xff"),
        ("note", "plan", "x", "--key", b"\xff"),
        ("done", "plan", "--result", b"\xff"),
        ("handoff", "plan", "--to", b"\xff", "--reason", "r"),
    ],
    ids=str,
)
def test_e3_an_argument_that_is_no_text(flow, words):
    flow.refuses(3, *words)


@pytest.mark.req("E3")
def test_e3_in_a_process_of_its_own(flow):
    result = flow.process("note", "plan", b"\xff", "--json")
    assert result.error["message"] == "TEXT: character 0 is not UTF-8"


@pytest.mark.req("E4")
def test_e4_controls_are_in_no_text(cli, subtests):
    for char in (r"\u0000", r"\u001b", r"\u007f", r"\r", r"\u009b", r"\b"):
        with subtests.test(char=char):
            for old in (
                "Compare three",
                "Requirements captured",
                "artifacts/con",
                "architecture-s",
                NAME,
            ):
                refused(cli, with_text(old, f"{old}{char}"))


@pytest.mark.req("E4")
def test_e4_what_is_unseen_is_in_no_id(cli, subtests):
    for char in ("\u2028", "\u202e", "\u200b", "\ufeff", " ", "é"):
        with subtests.test(char=ascii(char)):
            (first, *_), _ = refused(cli, with_text(f'"id": "{NAME}"', f'"id": "{NAME}{char}"'))
            assert first["path"] == "id"


@pytest.mark.req("E4")
@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + EXAMPLE.encode(),
        EXAMPLE.encode("utf-16"),
        EXAMPLE.encode() + b"x",
        EXAMPLE.encode() * 2,
        b"// a comment\n" + EXAMPLE.encode(),
        with_text('"running"\n    }', '"running",\n    }'),
        EXAMPLE.encode()[:-3],
        EXAMPLE.encode() + b"\0",
        b"\xff",
        b"",
    ],
    ids=["bom", "utf-16", "trailing", "two", "comment", "comma", "torn", "nul", "byte", "empty"],
)
def test_e4_what_is_not_one_json_document(cli, data):
    refused(cli, data)


@pytest.mark.req("E6")
@pytest.mark.parametrize("depth", [33, 400, 100_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_e6_nesting_has_an_end(flow, depth, left, right):
    deep = (left * depth + "1" + right * depth).encode()
    error = flow.refuses(3, "update", "plan", "--data", "-", stdin=b'{"x": %s}' % deep)
    assert "32 levels" in error["message"]
    refused(flow, deep)


@pytest.mark.req("E7")
def test_e7_more_than_is_read_is_refused(flow):
    huge = b'{"x": "' + b"a" * (4 * 2**20) + b'"}'
    for words in (("import", "-"), ("check", "-"), ("update", "plan", "--data", "-")):
        assert "4,194,304 bytes" in flow.refuses(3, *words, stdin=huge)["message"]
    assert "4,194,304 bytes" in flow.refuses(3, "note", "plan", "-", stdin=huge)["message"]


@pytest.mark.req("E7")
def test_e7_input_without_end_is_not_read_to_its_end(flow):
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123  a device
        done = subprocess.run(
            [clirun.SCRIPT, "note", "plan", "-", "--json"],
            stdin=endless,
            env=env,
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (3, b"")
    assert "4,194,304 bytes" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.req("E7")
def test_e7_what_adds_is_refused_and_what_ends_is_not(flow):
    flow("note", "plan", "-", stdin=b"a" * 1_040_000)
    for words in (("note", "plan", "-"), ("update", "plan", "--progress", "-")):
        error = flow.refuses(3, *words, stdin=b"b" * 10_000)
        assert "1,048,576" in error["message"]
        assert "file of their own" in error["hint"]
    said = flow("wait", "plan", "--reason", "-", "--until", "u", stdin=b"c" * 20_000)
    assert said == "plan r3 waiting\n"
    assert flow("resume", "plan") == "plan r4 running\n"
    fail = ("fail", "plan", "--reason", "-", "--recoverable", "none")
    assert flow(*fail, stdin=b"d" * 20_000) == "plan r5 failed\n"


@pytest.mark.req("E7")
def test_e7_two_thousand_children(cli):
    tasks = [{"id": f"t{n}", "goal": "g", "status": "pending"} for n in range(2001)]
    document = json.loads(EXAMPLE) | {"children": tasks}
    error = cli.refuses(3, "import", "-", stdin=json.dumps(document).encode())
    assert "2,0" in error["message"]
    document["children"].pop()
    assert cli("import", "-", stdin=json.dumps(document).encode()) == f"{NAME} r4 running\n"


@pytest.mark.req("E8")
def test_e8_a_newer_document_is_kept_and_not_written(flow, tmp_path):
    newer = with_text('"schema_version": 1', '"schema_version": 2, "invented": {"x": [1, "ü"]}')
    flow("import", FOUNDING)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", flow.gitdir, clone)
    (file,) = clone.glob(f"flows/*/{NAME}.json")
    file.write_bytes(newer.replace(b'"revision": 4', b'"revision": 5'))
    git(clone, "commit", "-qam", "by a newer gfs")
    git(clone, "push", "-q", "origin", "HEAD:main")
    before = flow.git("show", f"main:{file.relative_to(clone)}")
    shown = flow.json("show", NAME)["flow"]
    assert (shown["schema_version"], shown["invented"]) == (2, {"x": [1, "ü"]})
    assert json.loads(flow("export", NAME))["invented"] == {"x": [1, "ü"]}
    owner = ("--as", "architecture-session")
    for words in (("update", NAME, "--progress", "x"), ("note", NAME, "x")):
        error = flow.refuses(3, *words, *owner)
        assert "schema version 2" in error["message"]
        assert error["hint"] == "upgrade gitflowstate"
    assert flow.git("show", f"main:{file.relative_to(clone)}") == before
    other = json.loads(newer) | {"id": "another"}
    error = flow.refuses(3, "import", "-", stdin=json.dumps(other).encode())
    assert error["details"]["violations"][0]["path"] == "schema_version"


@pytest.mark.req("E8")
def test_e8_an_unknown_field_of_this_version(cli):
    (first, *_), _ = refused(cli, with_text('"goal"', '"invented": 1, "goal"'))
    assert first["path"] == "invented"


BAD_IDS = [
    *("../x", "a/b", "a\\b", "", ".", "..", ".git", "a.lock", "a.json", "CON", "con", "aux.txt"),
    *("a.", "a ", " a", "-rf", "a\n", "A", "café", "cafe\u0301", "ﬁ", "x" * 65, "%2e%2e", "a:b"),
    *("a..b", "a\u200bb", "$(id)", "`id`", "a;b", "x" * 260, "com1", "lpt9.txt", "nul"),
]


@pytest.mark.req("E9", "L18")
def test_e9_an_id_that_is_no_id(cli, tmp_path, subtests):
    for name in BAD_IDS:
        with subtests.test(name=ascii(name)):
            (tmp_path / "x.json").write_bytes(EXAMPLE.encode())
            before = sorted(tmp_path.rglob("*"))
            error = cli.refuses(3, "create", "Goal", f"--id={name}")
            assert "1 to 64 of a-z 0-9 . _ -" in error["message"]
            (first, *_), _ = refused(cli, json.dumps(json.loads(EXAMPLE) | {"id": name}).encode())
            assert first["path"] == "id"
            for words in (("show", "--", name), ("note", "--", name, "x"), ("export", "--", name)):
                result = cli.run(*words)
                assert result.code == 5 or (name == "" and result.code in (2, 5))
                assert "Compare" not in result.out
            assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.req("E10")
@pytest.mark.parametrize(
    "reference",
    ["/etc/passwd", "../../x", "file:///etc/passwd", "javascript:alert(1)", "http://127.0.0.1/"],
)
def test_e10_a_reference_is_text(flow, reference):
    flow("done", "plan", "--result", reference)
    assert flow.flow("plan")["result_ref"] == reference
    shown = flow("show", "plan")
    assert f"result:      {reference}\n" in shown
    assert "root:" not in shown


@pytest.mark.req("E10")
def test_e10_a_reference_is_never_opened(flow, tmp_path):
    os.mkfifo(tmp_path / "pipe")  # whoever opens it waits for ever
    flow("update", "plan", "--link", f"doc={tmp_path}/pipe")
    flow("done", "plan", "--result", f"{tmp_path}/pipe")
    for words in (("show", "plan"), ("brief", "plan"), ("log", "plan"), ("verify",)):
        flow(*words)
    assert len(flow.refuses(3, "reopen", "plan", "--reason", "x" * 5000, "--next", "n"))


@pytest.mark.req("E10")
def test_e10_a_reference_has_a_length(flow):
    error = flow.refuses(3, "done", "plan", "--result", "x" * 5000)
    assert "2,048" in error["message"]


def with_schema(cli, tmp_path, schema):
    """Push a schema for the type `study`, as a person does."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", cli.gitdir, clone)
    (clone / "types").mkdir()
    (clone / "types" / "study.schema.json").write_text(json.dumps(schema))
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", "types: study")
    git(clone, "push", "-q", "origin", "HEAD:main")


STUDY = ("create", "Goal", "--type", "study", "--data", "-")


@pytest.mark.req("E11")
def test_e11_a_schema_asks_nobody(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.json"
        with_schema(cli, tmp_path, {"properties": {"x": {"$ref": address}}})
        error = cli.refuses(3, *STUDY, stdin=b'{"x": 1}')
        assert "a reference must begin with #" in error["message"]
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.req("E11")
def test_e11_a_pattern_that_never_ends_is_stopped(cli, tmp_path):
    with_schema(cli, tmp_path, {"properties": {"x": {"pattern": "^(a+)+$"}}})
    before = time.process_time()
    result = cli.run(*STUDY, "--json", stdin=json.dumps({"x": "a" * 60 + "!"}).encode())
    assert result.code == 3
    assert "of CPU to check" in result.error["message"]
    assert time.process_time() - before < 30  # it would take years
    assert cli.run(*STUDY, stdin=b'{"x": "aaaa"}').code == 0


@pytest.mark.req("E12")
def test_e12_what_is_not_touched_stays_byte_for_byte(flow):
    data = {
        "z": 2**53 - 1,
        "a": -(2**53) + 1,
        "ü": ["\u2028", "", [], {}],
        "m": {"b": None, "a": True},
    }
    flow("update", "plan", "--data", "-", stdin=json.dumps(data).encode())
    before = _lines_of(flow, "data")
    flow("update", "plan", "--progress", "x")
    flow("done", "plan", "--result", "r")
    assert _lines_of(flow, "data") == before
    assert json.dumps(flow.flow("plan")["data"]) == json.dumps(data)


def _lines_of(cli, field):
    text = cli("export", "plan")
    return text[text.index(f'  "{field}": ') : text.index('  "children"')]


# ── E13: graphs ─────────────────────────────────────────────────────────────────────────────────


def plan_of(edges):
    tasks = [{"id": name, "goal": "g", "deps": deps} for name, deps in edges]
    return json.dumps(tasks).encode()


@pytest.mark.req("E13", "L21")
@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ([("a", ["a"])], "a"),
        ([("a", ["b"]), ("b", ["a"])], "a"),
        ([("a", []), ("a", [])], "a"),
        ([("a", ["nobody"])], "nobody"),
        ([(f"t{n}", [f"t{(n + 1) % 1999}"]) for n in range(1999)], "t0"),
    ],
    ids=["itself", "two", "twice", "nobody", "a cycle of 1,999"],
)
def test_e13_a_graph_that_is_none_is_refused_and_named(flow, edges, says):
    error = flow.refuses(3, "plan", "plan", "-", stdin=plan_of(edges))
    assert says in json.dumps(error)


@pytest.mark.req("E13")
def test_e13_a_chain_of_2000_is_taken_and_ready_at_one_end(flow):
    edges = [(f"t{n}", [f"t{n - 1}"] if n else []) for n in range(2000)]
    flow("plan", "plan", "-", stdin=plan_of(edges))
    assert [task["id"] for task in flow.json("next", "plan")["ready"]] == ["t0"]
    flow("task", "fail", "plan", "t0", "--reason", "broken")
    assert flow.json("next", "plan")["ready"] == []
    assert "t0 is failed" in flow("why", "plan", "t1")
    assert len(flow("graph", "plan").encode()) < 20_000
