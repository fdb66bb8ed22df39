"""The verb `gfs board`: three sections for people, and the same as JSON."""

from __future__ import annotations

import json

import pytest
from clirun import FOUNDING


@pytest.fixture
def many(cli):
    """Return the command line on a repository with a flow of each kind."""
    cli("create", "Red", "--id", "red", "--next", "Mix it")
    cli("create", "Blue", "--id", "blue", "--owner", "ann", "--next", "Ask Ana")
    cli("update", "blue", "--progress", "Half", "--as", "ann")
    cli("create", "Held", "--id", "held")
    cli("wait", "held", "--reason", "No budget", "--until", "Ana agrees")
    cli("create", "Ended", "--id", "ended")
    cli("done", "ended", "--result", "out/r.md")
    cli("create", "Bad", "--id", "bad")
    cli("fail", "bad", "--reason", "No host", "--recoverable", "none")
    return cli


def heads(page: str) -> list[list[str]]:
    """Return state and id of each flow, or the heading of each section, in their order."""
    lines = [line for line in page.splitlines() if line and not line.startswith("   ")]
    return [line.split()[:2] for line in lines]


@pytest.mark.req("R-TF-51")
def test_the_board_has_what_runs_waits_and_is_finished(many):
    page = many("board")
    found = heads(page)
    assert [found[0], found[3], found[5]] == [
        ["Running", "(2)"],
        ["Waiting", "(1)"],
        ["Finished", "(2)"],
    ]
    assert sorted(found[1:3]) == [["pending", "red"], ["running", "blue"]]
    assert found[4] == ["waiting", "held"]
    assert sorted(found[6:]) == [["done", "ended"], ["failed", "bad"]]
    for line in ("next: Ask Ana", "because: No budget", "reason: No host", "result: out/r.md"):
        assert f"        {line}\n" in page
    assert "        needs a person, " in page
    assert ": Ana agrees\n" in page


@pytest.mark.req("R-TF-37", "R-TF-51")
def test_what_is_stale_is_marked(cli):
    cli("import", FOUNDING)
    assert heads(cli("board"))[1] == ["stale", "flow-example-001"]


@pytest.mark.req("R-TF-51")
def test_the_board_as_json(many):
    data = many.json("board")
    ids = {
        name: sorted(row["id"] for row in data[name]) for name in ("running", "waiting", "finished")
    }
    assert ids == {"running": ["blue", "red"], "waiting": ["held"], "finished": ["bad", "ended"]}
    assert data["left"] == {"running": 0, "waiting": 0, "finished": 0}
    assert data["unusable"] == []
    (held,) = data["waiting"]
    assert held.pop("updated_at") == held["waiting"].pop("since")
    assert held == {
        "id": "held",
        "goal": "Held",
        "status": "waiting",
        "state": "waiting",
        "revision": 2,
        "owner": "local",
        "progress": "",
        "next_action": "Plan the work",
        "result_ref": None,
        "waiting": {"reason": "No budget", "condition": "Ana agrees", "on": "human"},
        "failure": None,
        "needed_for": [],
        "unmanaged": False,
    }


@pytest.mark.req("L23")
def test_limits_leave_the_rest_to_the_lists(many):
    lines = many("board", "--limit", 1, "--finished", 0).splitlines()
    assert "  1 more: gfs list" in lines
    assert lines[-1] == "  2 more: gfs list --all"
    data = many.json("board", "--limit", 0, "--finished", 1)
    assert (data["running"], len(data["finished"])) == ([], 1)
    assert data["left"] == {"running": 2, "waiting": 1, "finished": 1}
    many.refuses(2, "board", "--limit", "-1")
    many.refuses(2, "board", "--finished", "-1")


def test_the_command_for_the_rest_reaches_the_same_repository(many):
    lines = many("board", "--finished", 0, "--repo", many.folder).splitlines()
    assert lines[-1] == f"  2 more: gfs list --all --repo {many.folder}"


def test_an_empty_repository_says_how_to_begin(cli):
    assert cli("board") == "no flows; gfs create begins one\n"
    assert cli.json("board")["left"] == {"running": 0, "waiting": 0, "finished": 0}


def test_the_board_keeps_to_the_width_of_the_terminal(many):
    many("update", "red", "--next", "many words " * 30)
    for width in (40, 80, 200):
        page = many("board", env={"COLUMNS": str(width)})
        assert max(map(len, page.splitlines())) <= width
        assert ("many words " * 4 in page) is (width > 40)


@pytest.mark.req("R-TF-33")
def test_the_board_writes_nothing(many):
    before = {path: path.read_bytes() for path in many.folder.rglob("*") if path.is_file()}
    many("board")
    after = {path: path.read_bytes() for path in many.folder.rglob("*") if path.is_file()}
    assert after == before
    many.refuses(2, "board", "--dry-run")


@pytest.mark.req("D4")
def test_one_unusable_flow_is_named_and_the_others_are_shown(many, tmp_path):
    path = many.git("ls-tree", "-r", "--name-only", "main", "flows").split()[0]
    many.git("clone", "--quiet", many.gitdir, tmp_path / "clone")
    (tmp_path / "clone" / path).write_text("<<<<<<< ours\n")
    work = ("-C", tmp_path / "clone")
    many.git(*work, "commit", "--quiet", "-am", "by hand")
    many.git(*work, "push", "--quiet", "origin", "HEAD:main")
    result = many.run("board")
    assert result.code == 0
    assert path in result.err
    assert len(heads(result.out)) == 3 + 4
    told = many.run("board", "--json")
    assert [item["path"] for item in told.data["unusable"]] == [path]
    assert json.loads(told.out)["data"]["left"] == {"running": 0, "waiting": 0, "finished": 0}
