"""The verbs that read the present: show, list, brief, and bare `gfs`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from clirun import FOUNDING, here

from gitflowstate import codec
from gitflowstate.model import Flow


def imported(cli, **fields):
    """Import a flow that the founding example becomes with other fields."""
    document = json.loads(FOUNDING.read_text()) | fields
    kept = {name: value for name, value in document.items() if value is not None}
    data = codec.encode(codec.decode(Flow, json.dumps(kept).encode()))
    cli("import", "-", stdin=data)


# ── show ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-31")
def test_show_has_goal_work_blockers_next_and_results(cli):
    cli("import", FOUNDING)
    name, owner = "flow-example-001", ("--as", "architecture-session")
    cli("wait", name, "--reason", "No budget", "--until", "Ana names one", *owner)
    said = cli("show", name)
    for text in (
        "goal:        Compare three data-platform architecture options",
        "status:      waiting",
        "progress:    Requirements captured; comparison in progress",
        "next:        Review child findings and draft a recommendation",
        "waiting:     No budget",
        "until:       Ana names one",
        "result: artifacts/constraints.md",
        "set to running by hand",
    ):
        assert text in said


def test_show_as_json_has_the_document_and_what_is_derived(cli):
    cli("import", FOUNDING)
    data = cli.json("show", "flow-example-001")
    assert data["flow"] == json.loads(FOUNDING.read_text())
    assert data["tasks"] == {"task-001": "done", "task-002": "stale"}
    assert data["unmanaged"] is False


def test_show_at_a_revision(flow):
    flow("update", "plan", "--progress", "one")
    flow("done", "plan", "--result", "r")
    shown = [flow.json("show", "plan", "--rev", number)["flow"]["status"] for number in (1, 2, 3)]
    assert shown == ["pending", "running", "done"]
    for number in (0, 4, -1):
        error = flow.refuses(5, "show", "plan", "--rev", number)
        assert error["message"] == f"plan has no revision {number}"
        assert error["hint"] == "gfs log plan"
    flow.refuses(2, "show", "plan", "--rev", "one")


def test_show_path_is_the_plain_file(flow):
    path = Path(flow("show", "plan", "--path").rstrip("\n"))
    assert json.loads(path.read_text()) == flow.flow("plan")
    assert flow.json("show", "plan", "--path") == {
        "path": str(path.relative_to(flow.folder)),
        "file": str(path),
    }
    flow("done", "plan", "--result", "r")
    assert "/archive/" in flow("show", "plan", "--path")


def test_without_plain_files_there_is_no_path(tmp_path):
    here("init", tmp_path / "bare", "--no-view")
    repo = ("--repo", tmp_path / "bare")
    here("create", "G", "--id", "plan", *repo)
    result = here("show", "plan", "--path", "--json", *repo)
    assert result.code == 5
    assert re.search("refs/heads/main:flows/../plan.json$", result.error["message"])


# ── list ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def many(cli):
    """Return the command line on a repository with a flow of each kind."""
    old = {"children": [], "result_ref": None}
    imported(cli, id="stale-1", updated_at="2020-01-01T00:00:00Z", owner="ann", **old)
    imported(cli, id="ended-1", status="done", next_action=None, **old | {"result_ref": "r"})
    cli("create", "Red", "--id", "red", "--label", "x", "--label", "y", "--owner", "ann")
    cli("create", "Blue", "--id", "blue", "--label", "x")
    cli("wait", "blue", "--reason", "r", "--until", "u")
    cli("create", "Bad", "--id", "bad")
    cli("fail", "bad", "--reason", "r", "--recoverable", "none")
    return cli


@pytest.mark.req("R-TF-30", "R-TF-37")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "blue red stale-1"),
        (("--all",), "bad blue ended-1 red stale-1"),
        (("--status", "waiting"), "blue"),
        (("--status", "pending"), "red"),
        (("--status", "running"), "stale-1"),
        (("--status", "done"), "ended-1"),
        (("--status", "failed"), "bad"),
        (("--stale",), "stale-1"),
        (("--state", "stale"), "stale-1"),
        (("--state", "running"), ""),
        (("--state", "waiting"), "blue"),
        (("--state", "failed"), "bad"),
        (("--stale", "--state", "waiting"), ""),
        (("--owner", "ann"), "red stale-1"),
        (("--owner", "nobody"), ""),
        (("--label", "x"), "blue red"),
        (("--label", "y", "--owner", "ann"), "red"),
        (("--all", "--owner", "local"), "bad blue"),
    ],
)
def test_list_shows_what_is_asked(many, options, expected):
    found = many.json("list", *options)
    assert [row["id"] for row in found["flows"]] == expected.split()
    text = many("list", *options)
    if not expected:
        assert text == "none to show, of 3\n"  # which is no reason to begin a flow
    else:
        assert [line.split()[1] for line in text.splitlines()] == expected.split()


def test_a_page_after_the_last_is_no_empty_repository(many):
    assert many("list", "--page", "9") == "none to show, of 3\n"


def test_a_line_has_state_id_revision_owner_age_and_goal(many):
    (line,) = many("list", "--stale").splitlines()
    assert re.fullmatch(r"stale  stale-1  r4  ann  \d+ d ago  Compare three .*", line)


def test_list_as_json(many):
    (row,) = many.json("list", "--state", "stale")["flows"]
    assert row == {
        "id": "stale-1",
        "goal": "Compare three data-platform architecture options",
        "status": "running",
        "revision": 4,
        "owner": "ann",
        "updated_at": "2020-01-01T00:00:00Z",
        "progress": "Requirements captured; comparison in progress",
        "next_action": "Review child findings and draft a recommendation",
        "labels": [],
        "state": "stale",
        "unmanaged": False,
        "tasks": {},
    }


@pytest.mark.req("L23")
def test_pages_follow_the_command_that_is_printed(many):
    seen = []
    words = ["list", "--all", "--limit", "2"]
    for left in (3, 1, 0):
        lines = many(*words).splitlines()
        told = many.json(*words)
        seen += [row["id"] for row in told["flows"]]
        assert told["left"] == left
        if left:
            assert lines.pop() == f"{left} more: {' '.join(told['next'])}"
            words = told["next"][1:]
        assert len(lines) == len(told["flows"])
    assert seen == ["bad", "blue", "ended-1", "red", "stale-1"]


def test_the_next_page_keeps_the_filters(many):
    told = many.json("list", "--label", "x", "--limit", "1")
    assert [row["id"] for row in many.json(*told["next"][1:])["flows"]] == ["red"]


@pytest.mark.parametrize(
    "options",
    [
        ("--limit", "0"),
        ("--page", "0"),
        ("--limit", "-1"),
        ("--limit", "x"),
        ("--status", "complete"),
        ("--state", "odd"),
        ("stray",),
    ],
)
def test_a_list_of_nonsense_is_usage(cli, options):
    assert cli.refuses(2, "list", *options)["name"] == "usage"


def test_an_empty_list_says_what_begins_one(cli):
    assert cli("list") == "no flows; gfs create begins one\n"
    assert cli.json("list") == {"flows": [], "unusable": [], "left": 0}


# ── brief ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-32")
@pytest.mark.parametrize("most", [200, 1000])
def test_a_brief_is_short_and_keeps_what_matters(cli, most):
    cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
    cli("update", "plan", "--progress", "many words " * 300)
    said = cli("brief", "plan", "--max-chars", most)
    assert len(said) <= most
    for text in ("plan r2 running", "Compare options", "Read the docs"):
        assert text in said


@pytest.mark.req("R-TF-32")
def test_a_brief_says_what_it_cut(many):
    said = many("brief", "--max-chars", "200")
    assert len(said) <= 200
    assert "cut: " in said


def test_a_brief_of_all_leaves_out_what_has_ended(many):
    data = many.json("brief")
    assert data["flows"] == ["blue", "red", "stale-1"]
    assert data["brief"] + "\n" == many("brief")


def test_a_brief_tells_what_changed_since(flow):
    flow("update", "plan", "--progress", "one")
    flow("note", "plan", "hello", "--as", "ann")
    lines = flow("brief", "plan", "--since", "1").splitlines()
    changed = [line for line in lines if line.startswith("changed: ")]
    assert changed == [
        "changed: r2 update by local: one",
        "changed: r3 note by ann: hello",
    ]
    assert len(re.findall("^changed: ", flow("brief", "plan", "--since", "0"), re.MULTILINE)) == 3
    assert "changed: " not in flow("brief", "plan", "--since", "3")


@pytest.mark.req("R-TF-31")
def test_a_brief_tells_an_actor_what_others_did_since_it_was_here(flow):
    flow("note", "plan", "mine", "--as", "ann")
    flow("create", "Other", "--id", "other", "--as", "ann")
    flow("note", "plan", "yours", "--as", "bob")
    flow("update", "plan", "--progress", "half")

    def changed(actor):
        said = flow("brief", "--as", actor).splitlines()
        return [line.removeprefix("changed: ") for line in said if line.startswith("changed: ")]

    assert changed("ann") == ["r3 note by bob: yours", "r4 update by local: half"]
    assert changed("bob") == ["r4 update by local: half"]
    assert changed("local") == []
    assert changed("somebody-new") == []


def test_a_brief_tells_what_its_reader_has_not_seen(flow):
    flow("create", "Other", "--id", "other", "--as", "bob")
    flow("update", "plan", "--progress", "one", "--as", "ann")
    flow("note", "plan", "hello", "--as", "bob")
    flow("note", "other", "for bob", "--as", "bob")
    flow("update", "plan", "--next", "two")

    def changed(*options):
        lines = flow("brief", *options).splitlines()
        return [line.removeprefix("changed: ") for line in lines if line.startswith("changed: ")]

    assert changed("--as", "ann") == ["r3 note by bob: hello", "r4 update by local: two"]
    assert changed("--as", "ann", "plan") == changed("--as", "ann")
    assert changed("--as", "bob") == ["r4 update by local: two"]
    assert changed("--as", "never-here") == []
    assert changed() == []
    assert changed("--as", "ann", "plan", "--since", "3") == ["r4 update by local: two"]


@pytest.mark.parametrize(
    "options", [("--since", "1"), ("plan", "plan", "--since", "1"), ("--max-chars", "0")]
)
def test_a_brief_of_nonsense_is_usage(flow, options):
    flow.refuses(2, "brief", *options)


# ── bare gfs ────────────────────────────────────────────────────────────────────────────────────


def test_gfs_alone_says_where_this_is_and_what_comes_next(flow):
    said = flow()
    lines = said.splitlines()
    assert lines[0] == f"{flow.folder}: 1 open flow"
    assert "  plan r1 pending: Compare options" in lines
    assert "  gfs brief plan" in lines
    snippet = said[said.index("For AGENTS.md:") :].splitlines()
    assert len(snippet) < 15
    assert any(f"GFS_REPO={flow.folder}" in line for line in snippet)


def test_gfs_alone_in_an_empty_repository(cli):
    lines = cli().splitlines()
    assert lines[0] == f"{cli.folder}: 0 open flows"
    assert "  gfs create 'GOAL' --next 'FIRST STEP'" in lines


def test_gfs_alone_outside_says_what_this_is(tmp_path):
    result = here(cwd=tmp_path)
    assert result.code == 0
    assert "gitflowstate keeps the state" in result.out
    assert "gfs init DIR" in result.out


def test_gfs_alone_where_the_repository_is_gone(cli, tmp_path):
    cli.folder.rename(tmp_path / "moved")
    result = cli.run()
    assert (result.code, result.out) == (5, "")
    assert "holds no flow repository" in result.err
    assert "init" not in result.err
