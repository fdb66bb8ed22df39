"""The verbs of the repository: init, where, demo, verify, adopt."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import clirun
import pytest
from clirun import here
from gitrepo import git


def cloned(cli, tmp_path):
    """Return an ordinary clone of a person's."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", cli.gitdir, clone)
    return clone


def pushed(clone, subject="by hand"):
    """Commit everything in a clone and push it, as a person does; return the commit."""
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", subject)
    git(clone, "push", "-q", "origin", "HEAD:main")
    return git(clone, "rev-parse", "HEAD")


def edited(clone, name, **fields):
    """Change fields of a flow in a clone, in an editor."""
    (file,) = clone.glob(f"flows/*/{name}.json")
    document = json.loads(file.read_text()) | fields
    file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return file


# ── init and where ──────────────────────────────────────────────────────────────────────────────


def test_init_makes_a_repository_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "with space"
    result = here("init", folder)
    assert result.out == (
        f"{folder}: a new flow repository\n"
        f"next: export GFS_REPO='{folder}'; gfs create 'GOAL' --next 'FIRST STEP'\n"
    )
    told = here("init", tmp_path / "other", "--json").data
    assert told["made"] is True
    assert here(*told["next"][1:]).code == 0


def _stamps(folder) -> dict:
    """Return what a change of any file would change; that a folder was read is none."""
    found = ((path, path.stat()) for path in folder.rglob("*"))
    return {
        path: (s.st_ino, s.st_size, s.st_mode, s.st_mtime_ns, s.st_ctime_ns) for path, s in found
    }


def test_init_again_touches_nothing(flow):
    before = _stamps(flow.folder)
    result = flow.run("init", flow.folder)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{flow.folder}: already a flow repository\n")
    assert _stamps(flow.folder) == before
    assert flow.json("init", flow.folder)["made"] is False


def test_init_has_no_force_and_leaves_other_repositories_alone(tmp_path):
    git(tmp_path, "init", "-q", "code")
    result = here("init", tmp_path / "code", "--json")
    assert (result.code, result.error["name"]) == (3, "rejected")
    assert not (tmp_path / "code" / "flows").exists()
    assert here("init", tmp_path / "new", "--force").code == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert here("init", cwd=tmp_path / "full").code == 3


def test_init_inside_a_work_tree_is_a_folder_it_ignores(tmp_path):
    git(tmp_path, "init", "-q", "code")
    code = tmp_path / "code"
    assert here("init", cwd=code).out.startswith(f"{code}/.gfs: a new flow repository\n")
    assert git(code, "status", "--porcelain") == ""
    assert here("create", "G", "--id", "x", cwd=code).code == 0
    assert here("where", "--json", cwd=code).data["folder"] == f"{code}/.gfs"


def test_where_says_everything_about_this_place(flow):
    told = flow.json("where", "--as", "ann")
    assert told == {
        "folder": str(flow.folder),
        "gitdir": str(flow.gitdir),
        "ref": "refs/heads/main",
        "head": flow.head,
        "writable": True,
        "view": True,
        "actor": "ann",
        "version": told["version"],
    }
    said = flow("where")
    assert f"folder:   {flow.folder}\n" in said


# ── demo ────────────────────────────────────────────────────────────────────────────────────────


def test_the_tour_is_a_real_repository(tmp_path):
    result = here("demo", tmp_path / "tour")
    assert result.code == 0
    assert "10 commits replayed" in result.out
    assert "tour r9 reopen: A fourth option appeared" in result.out
    tour = clirun.Cli(tmp_path / "tour")
    assert tour.flow("tour")["revision"] == 9
    for line in re.findall("^  gfs (.*)$", result.out, re.MULTILINE):
        assert tour.run(*shlex.split(line)).code == 0, line
    tour.sound(("tour", 9))


def test_the_tour_does_not_walk_into_somebodys_work(flow):
    error = flow.refuses(3, "demo", flow.folder)
    assert "is a flow repository already" in error["message"]


# ── verify ──────────────────────────────────────────────────────────────────────────────────────


def test_verify_replays_everything(flow):
    flow("update", "plan", "--progress", "x")
    assert flow("verify") == "3 commits replayed, all as their operations say\n"
    assert flow.json("verify") == {
        "commits": 3,
        "unmanaged": [],
        "problems": [],
        "shallow": False,
        "unusable": [],
    }


def test_verify_of_a_range(flow):
    first = flow.head
    for number in range(3):
        flow("update", "plan", "--progress", str(number))
    second = flow.git("rev-parse", "main~1")
    assert flow.json("verify", f"{first}..")["commits"] == 3
    assert flow.json("verify", f"{first[:8]}..{second[:8]}")["commits"] == 2
    assert flow.json("verify", second)["commits"] == 4
    assert flow.refuses(5, "verify", "abcdef12..")["message"].startswith("there is no commit")
    assert flow.json("verify", "main~2..main~")["commits"] == 1
    assert flow("verify", "HEAD~1..HEAD") == "1 commit replayed, as its operation says\n"
    for odd in ("main~9", "main^", "other", "ma"):
        assert "full or short id" in flow.refuses(5, "verify", f"{odd}..main")["hint"]


@pytest.mark.req("D3")
def test_verify_of_a_range_that_goes_back_says_what_is_lost(flow):
    flow("update", "plan", "--progress", "one")
    kept, lost = flow.git("rev-parse", "main~1"), flow.head
    error = flow.refuses(6, "verify", f"{lost}..{kept}")
    assert error["message"].startswith(f"{kept[:12]} takes back what main had at {lost[:12]}")
    assert error["details"]["lost"] == [lost]
    assert f"{kept[:12]}..{lost[:12]}" in error["hint"]


def test_verify_finds_a_document_that_no_operation_gives(flow, tmp_path):
    clone = cloned(flow, tmp_path)
    edited(clone, "plan", goal="Forged")
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", flow.message())
    git(clone, "push", "-q", "origin", "HEAD:main")
    error = flow.refuses(6, "verify")
    assert flow.head[:12] in error["message"]
    assert error["details"]["problems"][0]["commit"] == flow.head


@pytest.mark.req("D1")
def test_verify_lists_edits_by_hand_and_with_strict_refuses_them(flow, tmp_path):
    clone = cloned(flow, tmp_path)
    edited(clone, "plan", revision=2, progress="by hand")
    commit = pushed(clone)
    assert flow("verify") == (
        f"3 commits replayed, all as their operations say\nunmanaged: {commit[:12]}\n"
    )
    assert flow.json("verify")["unmanaged"] == [commit]
    error = flow.refuses(6, "verify", "--strict")
    assert error["message"] == f"1 commit was made by hand: {commit}"


def test_verify_finds_no_commit_by_an_id_of_another_history(flow):
    assert flow.json("verify", flow.head[:4])["commits"] == 2
    assert flow.refuses(5, "verify", flow.head[:3])["message"].startswith("there is no commit")


def _garbled(document):
    document.write_text("{")


@pytest.mark.req("D4", "D2")
@pytest.mark.parametrize(
    ("damage", "said"),
    [(_garbled, "does not decode"), (Path.unlink, "plan was removed by hand: it was at r1")],
)
def test_verify_names_the_flows_that_cannot_be_used(flow, tmp_path, damage, said):
    flow("create", "Other", "--id", "other")
    clone = cloned(flow, tmp_path)
    damage(next(clone.glob("flows/*/plan.json")))
    pushed(clone)
    (line,) = [line for line in flow("verify").splitlines() if line.startswith("unusable: ")]
    assert said in line
    assert line.count("plan.json") <= 1
    (item,) = flow.json("verify")["unusable"]
    assert said in item["message"]
    assert flow.json("verify", flow.git("rev-parse", "main~1"))["unusable"] == []
    assert flow.refuses(6, "verify", "--strict")["details"]["unusable"] == [item]
    flow("note", "other", "x")
    since = f"{flow.head}.."
    assert flow.json("verify", since)["unusable"] == [item]
    assert said in flow.refuses(6, "verify", since, "--strict")["message"]
    told = flow.run("list").err
    assert told.startswith("warning: ")
    assert said in told
    assert told.count("plan.json") <= 1


# ── edits by hand ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D1")
def test_a_valid_edit_is_used_and_shown_as_unmanaged(flow, tmp_path):
    clone = cloned(flow, tmp_path)
    edited(clone, "plan", revision=2, progress="by hand", status="running")
    pushed(clone)
    assert "unmanaged" in flow("show", "plan")
    assert flow.json("show", "plan")["unmanaged"] is True
    assert "r2 unmanaged" in flow("list")
    assert flow.json("list")["flows"][0]["unmanaged"] is True
    assert "unmanaged" in flow("brief")
    assert "unmanaged by A Tester: by hand" in flow("log", "plan")
    assert flow.json("log", "plan")["log"][0]["unmanaged"] is True
    assert flow("update", "plan", "--progress", "ours") == "plan r3 running\n"
    assert flow.json("show", "plan")["unmanaged"] is False
    flow.json("verify")


UNUSABLE = [
    ("update", "plan", "--progress", "x"),
    ("note", "plan", "x"),
    ("done", "plan", "--result", "r"),
    ("show", "plan"),
    ("log", "plan"),
    ("diff", "plan"),
    ("brief", "plan"),
    ("export", "plan"),
    ("create", "Compare options", "--id", "plan"),
]


@pytest.fixture
def fallen(flow, tmp_path):
    """Return the command line where a person changed `plan` and left its revision."""
    flow("create", "Other", "--id", "other")
    clone = cloned(flow, tmp_path)
    edited(clone, "plan", goal="Changed by hand")
    pushed(clone)
    return flow


@pytest.mark.req("D2")
def test_a_write_after_an_edit_first_records_what_it_found(fallen):
    before = fallen.head
    assert fallen.run("note", "plan", "x").code == 6
    assert fallen.git("rev-parse", "main~1") == before
    assert fallen.op()["op"] == "observe"
    assert [entry["flow"] for entry in fallen.op()["fallen"]] == ["plan"]
    assert fallen.git("diff", "--name-only", "main~1", "main") == "unusable.json"


@pytest.mark.req("D2", "R-TF-12")
@pytest.mark.parametrize("words", UNUSABLE, ids=lambda words: words[0])
def test_an_edit_against_the_rules_makes_that_flow_alone_unusable(fallen, words):
    assert fallen("note", "other", "x") == "other r2 pending\n"
    error = fallen.refuses(6, *words)
    assert error["name"] == "corrupt"
    assert "plan was edited by hand: its last managed revision is 1" in error["message"]
    assert error["details"]["next"] == ["gfs", "adopt", "plan", "--reason", "REASON"]
    assert [row["id"] for row in fallen.json("list")["flows"]] == ["other"]
    assert fallen.json("list")["unusable"][0]["path"] == "plan"


@pytest.mark.req("D2")
def test_adopt_accepts_it_at_the_next_free_revision(fallen):
    assert fallen("adopt", "plan", "--reason", "The edit is right") == "plan r2 pending\n"
    assert fallen.flow("plan")["goal"] == "Changed by hand"
    assert fallen("update", "plan", "--progress", "x") == "plan r3 running\n"
    assert fallen("verify").startswith("7 commits replayed")


def test_a_revert_by_a_person_mends_it(fallen, tmp_path):
    fallen("note", "other", "x")
    clone = tmp_path / "clone"
    git(clone, "pull", "-q", "--rebase")
    git(clone, "revert", "--no-edit", "HEAD~2")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert fallen("update", "plan", "--progress", "x") == "plan r2 running\n"
    assert fallen.flow("plan")["goal"] == "Compare options"


def test_adopting_what_is_in_order_changes_nothing(flow):
    before = flow.state()
    assert flow("adopt", "plan", "--reason", "r") == "plan r1 pending (unchanged)\n"
    assert flow.state() == before
    flow.refuses(2, "adopt", "plan")
    flow.refuses(3, "adopt", "plan", "--reason", "")


@pytest.mark.req("R-TF-12", "D4")
def test_bytes_that_do_not_decode_are_named_and_left_alone(flow, tmp_path):
    flow("create", "Other", "--id", "other")
    clone = cloned(flow, tmp_path)
    (file,) = clone.glob("flows/*/plan.json")
    file.write_text("<<<<<<< ours\n=======\n>>>>>>> theirs\n")
    pushed(clone)
    assert flow("note", "other", "x") == "other r2 pending\n"
    for words in UNUSABLE[:5]:
        error = flow.refuses(6, *words)
        assert "plan" in error["message"]
    assert flow.git("show", f"main:{file.relative_to(clone)}").startswith("<<<<<<<")
    assert flow.json("list")["unusable"]
    assert "cannot be used" in flow().splitlines()[0]


def test_a_repository_of_one_commit_is_counted_as_one(tmp_path):
    cli = clirun.made(tmp_path / "new", "--no-view")
    assert cli("gc").startswith("3 loose objects before, 0 now; 1 KiB before, ")
    assert cli("verify") == "1 commit replayed, as its operation says\n"
    cli("backup", tmp_path / "b")
    told = clirun.here("restore", tmp_path / "b", tmp_path / "again").out
    assert "1 commit replayed\n" in told
