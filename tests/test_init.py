"""`gfs init`: the first commit, what is refused, and which folder is meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from desk import FIRST
from gitrepo import fsck, git

from gitflowstate import founding, history, location
from gitflowstate.errors import Corrupt, NotFound, Rejected
from gitflowstate.git import Repository

MAIN = "refs/heads/main"


def photograph(folder):
    """Return everything that a command could have changed below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_ino,
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


# ── what is made ────────────────────────────────────────────────────────────────────────────────


def test_the_first_commit_is_the_same_object_everywhere(tmp_path):
    for name in ("a", "b/c"):
        founded = founding.init(tmp_path / name)
        assert founded.made
        assert founded.warnings == []
        assert git(tmp_path / name, "rev-parse", MAIN) == FIRST


def test_the_first_commit_obeys_the_law(tmp_path):
    found = founding.init(tmp_path).location
    with Repository.open(found.gitdir) as repo:
        report = history.verify(repo, FIRST)
        assert (report.commits, report.unmanaged, report.problems) == (1, [], [])
        assert repo.commit(FIRST).author == b"gitflowstate <gfs@localhost>"


def test_c_git_finds_nothing_wrong_and_reads_it(tmp_path):
    founding.init(tmp_path / "flows")
    fsck(tmp_path / "flows")
    assert git(tmp_path / "flows", "log", "--format=%s") == "init"
    assert git(tmp_path / "flows", "show", f"{MAIN}:gitflowstate.json") == ('{\n  "format": 1\n}')


def test_a_clone_of_it_is_an_ordinary_one(tmp_path):
    founding.init(tmp_path / "flows")
    git("/", "clone", "--quiet", tmp_path / "flows", tmp_path / "clone")
    assert {path.name for path in (tmp_path / "clone").iterdir()} == {".git", "gitflowstate.json"}
    assert git(tmp_path / "clone", "status", "--porcelain") == ""
    assert location.made_by_gfs(tmp_path / "clone" / ".git") is None


@pytest.mark.parametrize(
    "command",
    [
        "commit -a -m x",
        "add .",
        "checkout main",
        "reset --hard",
        "clean -fdx",
        "stash",
        "restore .",
    ],
)
@pytest.mark.req("D10")
def test_git_itself_refuses_to_commit_or_undo_there(tmp_path, command):
    founding.init(tmp_path)
    before = photograph(tmp_path)
    done = subprocess.run(
        ["git", "-C", tmp_path, *command.split()], capture_output=True, text=True, check=False
    )
    assert "must be run in a work tree" in done.stderr
    assert photograph(tmp_path) == before


def test_nothing_else_lies_in_the_folder(tmp_path):
    founding.init(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


@pytest.mark.req("L24")
@pytest.mark.parametrize("view", [True, False])
def test_what_it_is_survives_the_loss_of_all_that_is_not_gits(tmp_path, view):
    found = founding.init(tmp_path, view=view).location
    assert found.view is view
    for path in found.gitdir.iterdir():
        if path.name not in {"objects", "refs", "packed-refs", "HEAD", "config"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert location.at(tmp_path) == found


@pytest.mark.req("L9", "L8")
def test_the_environment_of_a_hook_and_a_missing_identity_change_nothing(tmp_path, monkeypatch):
    git("/", "init", "--quiet", tmp_path / "other")
    before = photograph(tmp_path / "other")
    with monkeypatch.context() as hook:
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            hook.setenv(name, str(tmp_path / "other" / ".git"))
        hook.setenv("GIT_CONFIG_COUNT", "1")
        hook.setenv("GIT_CONFIG_KEY_0", "core.bare")
        hook.setenv("GIT_CONFIG_VALUE_0", "false")
        hook.delenv("HOME", raising=False)
        founding.init(tmp_path / "flows")
    assert git(tmp_path / "flows", "rev-parse", MAIN) == FIRST
    assert photograph(tmp_path / "other") == before


# ── again, and refusals ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("view", [True, False])
def test_a_second_time_touches_nothing(tmp_path, view):
    first = founding.init(tmp_path, view=True)
    before = photograph(tmp_path)
    second = founding.init(tmp_path, view=view)
    assert (second.made, second.location) == (False, first.location)
    assert photograph(tmp_path) == before


def _ordinary(folder):
    git("/", "init", "--quiet", folder)


def _bare(folder):
    git("/", "init", "--quiet", "--bare", folder)


def _linked(folder):
    git("/", "init", "--quiet", folder.parent / "main")
    git(folder.parent / "main", "commit", "--quiet", "--allow-empty", "-m", "x")
    git(folder.parent / "main", "worktree", "add", "--quiet", folder)


def _empty_git(folder):
    (folder / ".git").mkdir(parents=True)


def _file(folder):
    folder.write_text("mine")


@pytest.mark.parametrize("prepare", [_ordinary, _bare, _linked, _empty_git, _file])
def test_what_gfs_did_not_make_is_refused_and_left_alone(tmp_path, prepare):
    prepare(tmp_path / "theirs")
    before = photograph(tmp_path)
    with pytest.raises(Rejected) as caught:
        founding.init(tmp_path / "theirs")
    assert str(tmp_path / "theirs") in caught.value.message
    assert caught.value.hint
    assert photograph(tmp_path) == before


def test_a_newer_folder_is_not_taken_for_an_old_one(tmp_path):
    founding.init(tmp_path)
    git(tmp_path, "config", "gfs.format", "2")
    with pytest.raises(Rejected, match="format 2") as caught:
        founding.init(tmp_path)
    assert "upgrade" in caught.value.hint


@pytest.mark.req("L22")
@pytest.mark.parametrize("gone", [["HEAD"], ["objects"], ["HEAD", "refs"], ["refs/heads/main"]])
def test_l22_a_damaged_repository_is_said_to_be_one_and_left_alone(tmp_path, gone):
    founding.init(tmp_path / "desk")
    for name in gone:
        (tmp_path / "desk/.git" / name).rename(tmp_path / name.replace("/", "-"))
    before = photograph(tmp_path)
    with pytest.raises(Corrupt, match=" and ".join(gone)) as caught:
        founding.init(tmp_path / "desk")
    assert "gfs init" not in caught.value.hint
    assert photograph(tmp_path) == before
    if gone != ["refs/heads/main"]:
        with pytest.raises(Corrupt, match=" and ".join(gone)) as caught:
            Repository.open(tmp_path / "desk")
        assert "gfs init" not in caught.value.hint


# ── without DIR ─────────────────────────────────────────────────────────────────────────────────


def test_without_dir_an_empty_folder_is_used(tmp_path):
    assert founding.choose(tmp_path) == tmp_path


def test_without_dir_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(Rejected) as caught:
        founding.choose(tmp_path)
    assert "gfs init DIR" in caught.value.hint


def test_without_dir_what_a_dead_init_left_does_not_count_as_files(tmp_path):
    (tmp_path / ".gfs-init-0123456789abcdef" / "objects").mkdir(parents=True)
    assert founding.choose(tmp_path) == tmp_path


@pytest.mark.parametrize("prepare", [_ordinary, _linked])
def test_without_dir_another_work_tree_gets_a_hidden_folder(tmp_path, prepare):
    prepare(tmp_path / "code")
    here = tmp_path / "code" / "deep"
    here.mkdir()
    chosen = founding.choose(here)
    assert chosen == here / ".gfs"
    founding.init(chosen)
    founding.init(chosen)
    assert git(here, "status", "--porcelain", "--untracked-files=all") == ""
    common = Path(git(here, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    assert (common / "info" / "exclude").read_text().splitlines().count(".gfs") == 1


def test_in_a_submodule_the_submodule_is_told(tmp_path):
    _linked(tmp_path / "unused")
    _ordinary(tmp_path / "code")
    git(tmp_path / "code", "submodule", "--quiet", "add", tmp_path / "main", "sub")
    founding.init(founding.choose(tmp_path / "code" / "sub"))
    assert git(tmp_path / "code" / "sub", "status", "--porcelain") == ""


def test_without_dir_one_work_tree_keeps_one_repository(tmp_path):
    _ordinary(tmp_path / "code")
    (tmp_path / "code" / "deep").mkdir()
    founding.init(tmp_path / "code" / ".gfs")
    assert founding.choose(tmp_path / "code" / "deep") == tmp_path / "code" / ".gfs"


def test_without_dir_the_repository_one_stands_in_is_meant(tmp_path):
    founding.init(tmp_path)
    (tmp_path / "flows" / "ab").mkdir(parents=True)
    assert founding.choose(tmp_path / "flows" / "ab") == tmp_path


def test_without_dir_a_pointer_is_followed(tmp_path):
    founding.init(tmp_path / "flows")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / ".gfs").write_text("../flows\n")
    assert founding.choose(tmp_path / "code").samefile(tmp_path / "flows")


def test_a_repository_further_up_does_not_stop_a_new_one(tmp_path):
    founding.init(tmp_path / ".gfs")
    (tmp_path / "new").mkdir()
    assert founding.choose(tmp_path / "new") == tmp_path / "new"


def test_nothing_is_made_inside_the_git_folder_of_another(tmp_path):
    _ordinary(tmp_path)
    with pytest.raises(Rejected):
        founding.choose(tmp_path / ".git" / "info")


def test_an_exclude_file_without_a_last_newline_keeps_its_last_line(tmp_path):
    _ordinary(tmp_path)
    exclude = tmp_path / ".git" / "info" / "exclude"
    exclude.write_text("*.log")
    founding.init(tmp_path / ".gfs")
    assert exclude.read_text() == "*.log\n.gfs\n"


def test_an_exclude_file_that_is_missing_is_made(tmp_path):
    _ordinary(tmp_path)
    shutil.rmtree(tmp_path / ".git" / "info")
    founding.init(tmp_path / ".gfs")
    assert git(tmp_path, "status", "--porcelain") == ""


def test_an_exclude_file_that_leads_elsewhere_is_not_followed(tmp_path):
    _ordinary(tmp_path / "code")
    target = tmp_path / "profile"
    target.write_text("mine\n")
    exclude = tmp_path / "code" / ".git" / "info" / "exclude"
    exclude.unlink()
    exclude.symlink_to(target)
    founded = founding.init(tmp_path / "code" / ".gfs")
    assert founded.made
    assert "info/exclude" in founded.warnings[0]
    assert target.read_text() == "mine\n"


def test_a_dangling_pointer_is_named(tmp_path):
    (tmp_path / ".gfs").write_text("/nowhere/at/all\n")
    with pytest.raises(NotFound, match="/nowhere/at/all"):
        founding.choose(tmp_path)
