"""Which repository is meant: named, found from here, led to; and ordinary clones, to read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gitrepo import git

from gitflowstate import founding, location
from gitflowstate.cli import config
from gitflowstate.definitions import MAIN
from gitflowstate.errors import Corrupt, Denied, NotFound, Rejected, Usage

ORIGIN = "refs/remotes/origin/main"


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def place(folder):
    return location.Location(folder, folder / ".git", MAIN, writable=True, view=True)


def test_the_argument_comes_before_the_variable_and_both_before_the_folder(monkeypatch, tmp_path):
    for name in ("named", "variable", "here"):
        founding.init(tmp_path / name)
    monkeypatch.chdir(tmp_path / "here")
    assert config.find() == place(tmp_path / "here")
    monkeypatch.setenv("GFS_REPO", "../variable")
    assert config.find() == place(tmp_path / "variable")
    assert config.find("../named") == place(tmp_path / "named")


@pytest.mark.parametrize("inside", ["", "flows/ab", ".git", ".git/refs/heads"])
def test_it_is_found_from_anywhere_inside(monkeypatch, tmp_path, inside):
    founding.init(tmp_path / "desk")
    (tmp_path / "desk" / inside).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / "desk" / inside)
    assert config.find() == place(tmp_path / "desk")


def test_a_hidden_folder_is_found_from_the_code_beside_it(monkeypatch, tmp_path):
    git("/", "init", "--quiet", tmp_path / "code")
    founding.init(tmp_path / "code" / ".gfs")
    (tmp_path / "code" / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "code" / "src" / "deep")
    assert config.find() == place(tmp_path / "code" / ".gfs")
    assert config.find(str(tmp_path / "code")) == place(tmp_path / "code" / ".gfs")


@pytest.mark.parametrize("relative", [True, False])
def test_a_pointer_leads_to_it(tmp_path, relative):
    founding.init(tmp_path / "elsewhere" / "flows")
    (tmp_path / "code").mkdir()
    target = "../elsewhere/flows" if relative else str(tmp_path / "elsewhere" / "flows")
    (tmp_path / "code" / ".gfs").write_text(f"{target}\n")
    found = config.find("code")
    assert found.writable
    assert found.folder.samefile(tmp_path / "elsewhere" / "flows")


def test_the_repository_itself_may_be_named(tmp_path):
    founding.init(tmp_path / "desk")
    assert config.find("desk/.git") == place(tmp_path / "desk")


def _dangling(pointer):
    pointer.write_text("/nowhere/at/all\n")


def _to_code(pointer):
    git("/", "init", "--quiet", pointer.parent / "other")
    pointer.write_text("other")


def _empty_folder(pointer):
    pointer.mkdir()


def _broken_link(pointer):
    pointer.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize("prepare", [_dangling, _to_code, _empty_folder, _broken_link])
def test_a_pointer_that_leads_nowhere_ends_the_search(monkeypatch, tmp_path, prepare):
    founding.init(tmp_path / ".gfs")
    (tmp_path / "code").mkdir()
    prepare(tmp_path / "code" / ".gfs")
    monkeypatch.chdir(tmp_path / "code")
    with pytest.raises(NotFound, match=re.escape(str(tmp_path / "code" / ".gfs"))) as caught:
        config.find()
    assert "gfs init" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"\n", b"/a\n/b\n", b"/a\0b\n", b"x" * 5000])
def test_a_pointer_that_holds_no_path_is_corrupt(tmp_path, content):
    (tmp_path / ".gfs").write_bytes(content)
    with pytest.raises(Corrupt, match="gfs"):
        config.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.req("G6")
def test_a_pointer_of_another_user_is_not_followed_unless_trusted(monkeypatch, tmp_path):
    founding.init(tmp_path / "flows")
    (tmp_path / ".gfs").write_text("flows")
    os.chown(tmp_path / ".gfs", 12345, 12345)
    with pytest.raises(Denied, match="uid 12345") as caught:
        config.find()
    assert f"GFS_TRUST={tmp_path / '.gfs'}" in caught.value.hint
    monkeypatch.setenv("GFS_TRUST", str(tmp_path / ".gfs"))
    assert config.find().writable


def test_no_repository_is_said_with_the_next_step(tmp_path):
    with pytest.raises(NotFound, match=re.escape(str(tmp_path))) as caught:
        config.find()
    assert "gfs init" in caught.value.hint
    with pytest.raises(NotFound, match="missing") as caught:
        config.find("missing")
    assert f"gfs init {tmp_path / 'missing'}" in caught.value.hint
    with pytest.raises(Usage, match="--repo"):
        config.find("")


def test_a_working_folder_that_is_gone_is_said(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NotFound, match="working folder"):
        config.find()


def test_a_damaged_config_is_said_and_no_other_repository_taken(monkeypatch, tmp_path):
    founding.init(tmp_path / ".gfs")
    founding.init(tmp_path / "desk")
    (tmp_path / "desk" / ".git" / "config").write_text("[core\n")
    monkeypatch.chdir(tmp_path / "desk")
    with pytest.raises(Corrupt, match=r"desk/.git/config"):
        config.find()


def test_a_newer_folder_is_refused(tmp_path):
    founding.init(tmp_path / "desk")
    git(tmp_path / "desk", "config", "gfs.format", "2")
    with pytest.raises(Rejected, match="format 2"):
        config.find("desk")


@pytest.mark.req("L9")
def test_gits_own_variables_do_not_choose_the_repository(monkeypatch, tmp_path):
    founding.init(tmp_path / "desk")
    founding.init(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert config.find("desk") == place(tmp_path / "desk")


# ── ordinary clones ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D9", "L11")
@pytest.mark.parametrize(
    ("options", "ref"),
    [((), ORIGIN), (("--bare",), MAIN), (("--depth=1",), ORIGIN), (("--no-checkout",), ORIGIN)],
)
def test_an_ordinary_clone_is_read_only(tmp_path, options, ref):
    founding.init(tmp_path / "desk")
    git("/", "clone", "--quiet", *options, f"file://{tmp_path / 'desk'}", tmp_path / "clone")
    found = config.find("clone")
    assert (found.folder, found.ref) == (tmp_path / "clone", ref)
    assert (found.writable, found.view) == (False, False)
    assert found.gitdir.samefile(tmp_path / "clone" / ("" if "--bare" in options else ".git"))


def test_a_clone_is_found_from_inside_and_read_at_its_origin(monkeypatch, tmp_path):
    founding.init(tmp_path / "desk")
    git("/", "clone", "--quiet", tmp_path / "desk", tmp_path / "clone")
    (tmp_path / "clone" / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "clone" / "docs")
    assert (config.find().folder, config.find().ref) == (tmp_path / "clone", ORIGIN)
    git(".", "remote", "remove", "origin")
    assert config.find().ref == MAIN


@pytest.mark.req("L11")
def test_a_linked_worktree_of_a_clone_is_read(tmp_path):
    founding.init(tmp_path / "desk")
    git("/", "clone", "--quiet", tmp_path / "desk", tmp_path / "clone")
    git(tmp_path / "clone", "worktree", "add", "--quiet", "--detach", tmp_path / "tree")
    found = config.find("tree")
    assert found.gitdir.samefile(tmp_path / "clone" / ".git")
    assert found.ref == ORIGIN


def test_code_without_flows_is_passed(monkeypatch, tmp_path):
    founding.init(tmp_path / ".gfs")
    git("/", "init", "--quiet", "-b", "main", tmp_path / "code")
    monkeypatch.chdir(tmp_path / "code")
    assert config.find() == place(tmp_path / ".gfs")
    git(".", "commit", "--quiet", "--allow-empty", "-m", "x")
    assert config.find() == place(tmp_path / ".gfs")
    with pytest.raises(NotFound, match="code holds no flow repository"):
        config.find(str(Path.cwd()))


def test_a_repository_that_cannot_be_opened_is_passed_but_named(monkeypatch, tmp_path):
    git("/", "init", "--quiet", "--object-format=sha256", tmp_path / "code")
    monkeypatch.chdir(tmp_path / "code")
    with pytest.raises(NotFound, match=r"not looked into: .*objectformat"):
        config.find()
    with pytest.raises(Rejected, match="objectformat"):
        config.find(".")
    founding.init(tmp_path / ".gfs")
    assert config.find() == place(tmp_path / ".gfs")
