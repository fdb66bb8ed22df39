"""What all verbs share: envelope, --expect, --key, --dry-run, secrets, standard input, prefixes."""

from __future__ import annotations

import json

import clirun
import jsonschema
import pytest
from clirun import FOUNDING
from referencing import Registry

from gitflowstate import schemata
from gitflowstate.cli.app import NOUNS, VERBS

# A call of every verb of a flow that succeeds on the fixture `flow`, and one that is refused.
SUCCEED = [
    ("create", "Goal", "--id", "new"),
    ("update", "plan", "--progress", "x"),
    ("note", "plan", "x"),
    ("wait", "plan", "--reason", "r", "--until", "u"),
    ("done", "plan", "--result", "r"),
    ("fail", "plan", "--reason", "r", "--recoverable", "none"),
    ("handoff", "plan", "--to", "ann", "--reason", "r"),
    ("take", "plan", "--reason", "r", "--as", "ann"),
    ("import", FOUNDING),
]
READ = [
    ("show", "plan"),
    ("list",),
    ("log", "plan"),
    ("diff", "plan"),
    ("changes", "plan", "--since", "0"),
    ("brief",),
    ("check", FOUNDING),
    ("schema",),
    ("export", "--all"),
    ("where",),
    ("verify",),
]
ABSENT = [
    ("update", "nope", "--progress", "x"),
    ("note", "nope", "x"),
    ("wait", "nope", "--reason", "r", "--until", "u"),
    ("resume", "nope"),
    ("done", "nope", "--result", "r"),
    ("fail", "nope", "--reason", "r", "--recoverable", "none"),
    ("reopen", "nope", "--reason", "r", "--next", "n"),
    ("retry", "nope"),
    ("handoff", "nope", "--to", "ann", "--reason", "r"),
    ("take", "nope", "--reason", "r"),
    ("adopt", "nope", "--reason", "r"),
    ("show", "nope"),
    ("log", "nope"),
    ("diff", "nope"),
    ("changes", "nope", "--since", "1"),
    ("brief", "nope"),
    ("export", "nope"),
]


def verb(words):
    return words[0]


@pytest.fixture(scope="module")
def envelope():
    """Return the judge of the published schema of the envelope."""
    schema = schemata.json_schema("envelope")
    return jsonschema.Draft202012Validator(schema, registry=Registry())


@pytest.mark.parametrize("words", SUCCEED + READ, ids=verb)
def test_json_is_one_document_that_obeys_its_schema(flow, envelope, words):
    result = flow.run(*words, "--json")
    assert (result.code, result.err) == (0, "")
    envelope.validate(result.envelope)


@pytest.mark.parametrize("words", ABSENT, ids=verb)
def test_what_is_not_there_is_named(flow, envelope, words):
    error = flow.refuses(5, *words)
    assert error["name"] == "not-found"
    assert "nope" in error["message"]
    envelope.validate(flow.run(*words, "--json").envelope)


@pytest.mark.req("R-TF-33")
@pytest.mark.parametrize("words", READ, ids=verb)
def test_reading_writes_nothing(flow, words):
    before = {path: path.read_bytes() for path in flow.folder.rglob("*") if path.is_file()}
    flow(*words)
    after = {path: path.read_bytes() for path in flow.folder.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("words", READ, ids=verb)
def test_reading_verbs_take_no_option_of_writing(flow, words):
    error = flow.refuses(2, *words, "--dry-run")
    assert "--dry-run" in error["message"]


def test_every_verb_has_help_with_an_example(cli):
    for name in VERBS:
        said = cli(name, "--help")
        assert said.startswith(f"Usage: gfs {name} ")
        assert name in NOUNS or f"gfs {name}" in said.split("Example:")[1]


PEM = f"-----BEGIN OPENSSH {'PRIVATE'} KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA"
TOKEN = f"ghp_{'a1B2c3D4e5' * 4}"[:40]


@pytest.mark.req("G1")
@pytest.mark.parametrize(
    "words",
    [("create", PEM), ("note", "plan", PEM), (TOKEN,), ("list", TOKEN), ("list", "--limit", TOKEN)],
    ids=["goal", "note", "verb", "too many", "no number"],
)
def test_g1_a_secret_that_went_astray_is_not_said_again(flow, words):
    error = flow.refuses(2, *words)
    for secret in (PEM, TOKEN):
        assert secret[5:15] not in error["message"]
        assert secret[-15:] not in error["message"]


def test_a_text_that_begins_with_a_dash_is_not_said_to_the_end(cli):
    error = cli.refuses(2, "create", "--a goal that begins with two dashes")
    assert error["message"].startswith("No such option: --a goal that begins...")
    assert cli.refuses(2, "list", "--colour")["message"].startswith("No such option: --colour")


def test_a_wrong_verb_is_usage_with_the_nearest(cli):
    assert cli.refuses(2, "updat")["hint"] == "did you mean: gfs update"
    assert cli.refuses(2, "xyzzy")["hint"] == "gfs --help lists the commands"


# ── expect ──────────────────────────────────────────────────────────────────────────────────────

ON_A_FLOW = [words for words in SUCCEED if words[0] not in ("create", "import")]


@pytest.mark.req("R-TF-24")
@pytest.mark.parametrize("words", ON_A_FLOW, ids=verb)
def test_an_old_revision_is_refused_and_told(flow, words):
    flow("note", "plan", "meanwhile")
    error = flow.refuses(4, *words, "--expect", "1")
    assert error["message"] == "plan is at r2, not r1"
    assert error["hint"] == "gfs show plan, then decide"
    assert error["details"] == {"revision": 2, "next": ["gfs", "show", "plan"]}
    assert flow(*words, "--expect", "2").startswith("plan r3 ")


@pytest.mark.req("R-TF-24", "R-TF-27")
def test_what_is_not_there_has_no_revision(flow):
    for words in (("create", "Goal", "--id", "new"), ("import", FOUNDING)):
        error = flow.refuses(4, *words, "--expect", "3")
        assert "is not there, at r3" in error["message"]
    error = flow.refuses(4, "create", "Compare options", "--id", "plan", "--expect", "3")
    assert error["message"] == "plan is at r1, not r3"


# ── keys ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", SUCCEED, ids=verb)
def test_a_repeat_under_the_same_key_is_answered_and_not_done(flow, words):
    first = flow.json(*words, "--key", "k")
    made = (first["flows"][0] if "flows" in first else first)["id"]
    revision = (first["flows"][0] if "flows" in first else first)["revision"]
    before = flow.state()
    again = flow.json(*words, "--key", "k")
    told = again["flows"][0] if "flows" in again else again
    assert {"id": made, "revision": revision, "changed": False, "repeated": True}.items() <= (
        told.items()
    )
    said = flow(*words, "--key", "k")
    assert said.splitlines()[0] == f"{made} r{revision} (already done under this key)"
    assert flow.state() == before


def test_a_repeat_succeeds_although_the_expected_revision_is_old(flow):
    words = ("update", "plan", "--progress", "x", "--expect", "1", "--key", "k")
    assert flow(*words) == "plan r2 running\n"
    flow("note", "plan", "meanwhile")
    assert flow(*words) == "plan r2 (already done under this key)\n"
    assert flow.json("show", "plan")["flow"]["revision"] == 3


@pytest.mark.req("R-TF-22")
def test_a_repeat_succeeds_although_the_flow_is_archived(flow):
    words = ("update", "plan", "--progress", "x", "--key", "k")
    flow(*words)
    flow("done", "plan", "--result", "r")
    assert flow(*words) == "plan r2 (already done under this key)\n"


@pytest.mark.req("R-TF-27")
def test_a_repeated_create_returns_the_id_that_was_minted(cli):
    words = ("create", "Goal", "--key", "k")
    first = cli.json(*words)
    again = cli.json(*words)
    assert again["id"] == first["id"]
    assert again["made"] == [first["id"]]
    assert again["next"] == first["next"]
    assert len(cli.json("list")["flows"]) == 1


def test_what_was_not_given_is_no_part_of_the_request(cli):
    create = ("create", "Goal", "--id", "one", "--key", "c")
    cli(*create, "--as", "ann")
    cli("update", "one", "--next", "Other", "--as", "ann")
    assert "already done" in cli(*create, "--as", "bob")
    cli("fail", "one", "--reason", "r", "--recoverable", "none", "--as", "ann")
    retry = ("retry", "one", "--key", "r")
    made = cli.json(*retry)["id"]
    cli("reopen", "one", "--reason", "r", "--next", "n", "--as", "ann")
    assert cli.json(*retry)["id"] == made
    cli("update", "one", "--next", "m", "--as", "ann")
    assert cli.json(*retry, "--expect", "3")["id"] == made


@pytest.mark.parametrize(
    "other",
    [
        ("update", "plan", "--progress", "y"),
        ("update", "plan", "--progress", "x", "--next", "n"),
        ("note", "plan", "x"),
        ("update", "other", "--progress", "x"),
        ("create", "x"),
    ],
)
def test_a_key_is_for_one_request(flow, other):
    flow("create", "Other", "--id", "other")
    flow("update", "plan", "--progress", "x", "--key", "k")
    error = flow.refuses(4, *other, "--key", "k")
    assert error["message"] == "the key was first used for another request, on plan r2"
    assert error["details"] == {"flow": "plan", "revision": 2}


def test_a_refusal_uses_up_no_key(flow):
    flow.refuses(3, "update", "plan", "--status", "done", "--key", "k")
    flow.refuses(4, "note", "plan", "x", "--expect", "7", "--key", "k")
    assert flow("update", "plan", "--progress", "x", "--key", "k") == "plan r2 running\n"


def test_nothing_changed_uses_up_no_key(flow):
    flow("update", "plan", "--label", "a")
    flow("update", "plan", "--label", "a", "--key", "k")
    assert flow("note", "plan", "x", "--key", "k") == "plan r3 pending\n"


def test_a_key_is_kept_by_its_digest_alone(flow):
    flow("note", "plan", "x", "--key", "the words of the key")
    assert b"the words of the key" not in flow.every_object()


@pytest.mark.parametrize("key", ["", " ", "a\nb", "k" * 256])
def test_a_key_is_one_line(flow, key):
    error = flow.refuses(3, "note", "plan", "x", "--key", key)
    assert error["details"]["violations"][0]["path"] == "key"


# ── dry run ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", SUCCEED, ids=verb)
def test_a_dry_run_shows_difference_and_message_and_writes_nothing(flow, words):
    before = flow.state()
    said = flow(*words, "--dry-run", "--key", "k")
    told = flow.json(*words, "--dry-run")
    told = told["flows"][0] if "flows" in told else told
    assert flow.state() == before
    assert told["dry_run"]
    assert told["changed"] is False or told["commit"] is None
    assert told["diff"].splitlines()[0].startswith(told["id"])
    assert f"Flow: {told['id']}" in told["message"].splitlines()
    assert told["diff"].splitlines()[0] in said
    assert "Gfs-Op: {" in said
    assert said.endswith("(nothing was written)\n")
    flow(*words, "--key", "k")


@pytest.mark.parametrize("words", ABSENT[:11], ids=verb)
def test_a_dry_run_is_refused_as_the_real_one(flow, words):
    flow.refuses(5, *words, "--dry-run")


def test_a_dry_run_of_nothing_says_so(flow):
    flow("update", "plan", "--label", "a")
    said = flow("update", "plan", "--label", "a", "--dry-run")
    assert said == "plan r2 pending (unchanged); nothing to do\n"


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────

SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1bC2"


@pytest.mark.req("G1")
def test_a_false_alarm_is_allowed_and_recorded(flow):
    flow.refuses(3, "note", "plan", f"token {SECRET}")
    said = flow("note", "plan", f"token {SECRET}", "--allow-secret", "made up for a test")
    assert said == "plan r2 pending\n"
    assert flow.op()["allow_secret"] == "made up for a test"


def test_a_reason_to_allow_a_secret_is_no_part_of_the_request(flow):
    flow("note", "plan", "x", "--key", "k", "--allow-secret", "one")
    assert "already done" in flow("note", "plan", "x", "--key", "k")


# ── standard input ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("create", "-", "--id", "new"), ("new", "goal")),
        (("create", "G", "--next", "-", "--id", "new"), ("new", "next_action")),
        (("update", "plan", "--progress", "-"), ("plan", "progress")),
        (("update", "plan", "--next", "-"), ("plan", "next_action")),
        (("note", "plan", "-"), ("plan", "notes", 0, "text")),
        (("wait", "plan", "--reason", "-", "--until", "u"), ("plan", "waiting", "reason")),
        (("wait", "plan", "--reason", "r", "--until", "-"), ("plan", "waiting", "condition")),
        (("done", "plan", "--result", "-"), ("plan", "result_ref")),
        (("fail", "plan", "--reason", "-", "--recoverable", "x"), ("plan", "failure", "reason")),
    ],
    ids=lambda value: "-".join(map(str, value)) if value[0] == "plan" else None,
)
def test_a_dash_reads_standard_input(flow, words, place):
    flow(*words, stdin="ein Text, länger\n".encode())
    name, *path = place
    found = flow.flow(name)
    for step in path:
        found = found[step]
    assert found == "ein Text, länger"


def test_nothing_else_reads_standard_input(flow):
    assert flow("note", "plan", "x", stdin=b"not read") == "plan r2 pending\n"
    flow("update", "plan", "--label", "-", stdin=b"not read")
    assert flow.flow("plan")["labels"] == ["-"]


def test_standard_input_is_for_one_argument(flow):
    words = ("wait", "plan", "--reason", "-", "--until", "-")
    error = flow.refuses(2, *words, stdin=b"x")
    assert "--until: standard input was read for --reason" in error["message"]


def test_standard_input_must_be_utf8(flow):
    error = flow.refuses(3, "note", "plan", "-", stdin=b"a\xff")
    assert error["message"] == "TEXT: byte 1 of standard input is not UTF-8"


# ── prefixes ────────────────────────────────────────────────────────────────────────────────────


def test_a_unique_prefix_is_resolved_and_the_answer_says_to_what(flow):
    assert flow("note", "pl", "x") == "plan r2 pending\n"
    assert flow.op()["flow"] == "plan"
    assert flow.json("show", "p")["flow"]["id"] == "plan"


def test_an_exact_id_wins_and_an_ambiguous_prefix_is_refused(flow):
    flow("create", "Other", "--id", "planets")
    assert flow("note", "plan", "x") == "plan r2 pending\n"
    error = flow.refuses(5, "note", "pla", "x")
    assert error["message"] == "2 flows begin with 'pla'"
    assert error["hint"] == "plan, planets"


def test_a_prefix_finds_what_has_ended(flow):
    flow("done", "plan", "--result", "r")
    assert flow.json("show", "pl")["flow"]["status"] == "done"


# ── which repository ────────────────────────────────────────────────────────────────────────────


def test_repo_then_variable_then_the_folder_above(flow, tmp_path):
    other = clirun.made(tmp_path / "other")
    inside = flow.folder / "flows"
    assert flow.json("where", "--repo", other.folder)["folder"] == str(other.folder)
    assert flow.json("where", cwd=other.folder)["folder"] == str(flow.folder)
    nowhere = {"GFS_REPO": ""}
    assert other.json("where", cwd=inside, env=nowhere)["folder"] == str(flow.folder)
    assert other.refuses(5, "where", cwd=tmp_path, env=nowhere)["name"] == "not-found"
    assert "/nope" in flow.refuses(5, "where", "--repo", tmp_path / "nope")["message"]
    flow.refuses(2, "where", "--repo", "")


@pytest.mark.req("R-TF-06")
def test_an_ordinary_clone_is_read_and_not_written(flow, tmp_path):
    clone = tmp_path / "clone"
    flow.git("clone", "-q", flow.gitdir, clone)
    mine = {"GFS_REPO": str(clone)}
    assert flow("export", "plan", env=mine) == flow("export", "plan")
    assert flow.json("show", "plan", env=mine) == flow.json("show", "plan")
    assert flow("log", "plan", env=mine) == flow("log", "plan")
    error = flow.refuses(77, "note", "plan", "x", env=mine)
    assert "an ordinary clone" in error["message"]
    assert "GFS_REPO" in error["hint"]
    assert json.loads(flow.run("where", "--json", env=mine).out)["data"]["writable"] is False


def test_an_error_has_the_next_command_as_an_argument_list(cli):
    cli("create", "x", "--id", "a")
    for argv in (
        ["show", "nope"],
        ["log", "nope"],
        ["task", "done", "a", "t9", "--result", "r"],
        ["update", "a", "--expect", "9", "--progress", "p"],
        ["wait", "a", "--reason", "r", "--until", "u", "--on", "nobody"],
        ["show", "a", "--rev", "7"],
        ["plan", "a", "/nonexistent"],
        ["updaet"],
        ["update", "a", "--bogus"],
    ):
        error = json.loads(cli.run(*argv, "--json").out)["error"]
        assert error["details"]["next"][0] == "gfs", argv
