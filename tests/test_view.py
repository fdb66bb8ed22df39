"""The plain files beside the repository: what they show, what is kept, and how they catch up."""

from __future__ import annotations

import os
import shutil

import pytest
from desk import Desk, kept_beside
from gitrepo import git

from gitflowstate import ops
from gitflowstate.definitions import MAIN
from gitflowstate.git import Repository
from gitflowstate.model import archive_path, flow_path


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path / "desk")
    with made.repo:
        yield made


# ── following commits ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-05")
def test_a_new_flow_is_a_plain_file_at_its_path_in_the_tree(desk):
    assert desk.create("one") == []
    assert desk.file("one").read_text().startswith('{\n  "schema_version": 1,\n  "id": "one",')
    assert desk.is_whole()


def test_its_mode_says_that_this_is_not_the_place_to_edit(desk):
    desk.create("one")
    assert desk.file("one").stat().st_mode & 0o222 == 0


@pytest.mark.req("R-TF-09")
def test_a_change_replaces_the_file_under_its_readers(desk):
    desk.create("one")
    with desk.file("one").open() as reader:
        desk.update("one", "half")
        assert '"progress": ""' in reader.read()
    assert '"progress": "half"' in desk.file("one").read_text()


def test_only_the_changed_file_is_touched(desk):
    desk.create("one")
    desk.create("two")
    before = desk.file("two").stat()
    desk.update("one", "half")
    assert desk.file("two").stat() == before


@pytest.mark.req("R-TF-21")
def test_an_ended_flow_moves_and_leaves_no_empty_folder(desk):
    desk.create("one")
    desk.done("one")
    assert not desk.file("one").parent.exists()
    assert desk.file("one", archive_path).is_file()
    assert desk.is_whole()


def test_a_reopened_flow_moves_back(desk):
    desk.create("one")
    desk.done("one")
    desk.do(ops.Reopen, "one", reason="more", next="go on")
    assert list(desk.shown()) == [flow_path("one")]
    assert desk.is_whole()


def test_a_folder_that_holds_something_else_stays(desk):
    desk.create("one")
    mine = desk.file("one").parent / "mine.txt"
    mine.write_text("mine")
    desk.done("one")
    assert mine.read_text() == "mine"


def test_receipts_of_keys_are_not_shown(desk):
    desk.create("one", key="0" * 64, request="1" * 64)
    assert "keys/" in git(desk.folder, "ls-tree", "-r", "--name-only", MAIN)
    assert not (desk.folder / "keys").exists()


def test_a_shared_repository_lets_its_group_replace_files(desk):
    git(desk.folder, "config", "core.sharedRepository", "group")
    with Repository.open(desk.gitdir) as desk.repo:
        desk.create("one")
    assert desk.file("one").parent.stat().st_mode & 0o2770 == 0o2770
    assert (desk.gitdir / "gfs" / "view").stat().st_mode & 0o060 == 0o060
    assert desk.file("one").stat().st_mode & 0o222 == 0


# ── what people did ─────────────────────────────────────────────────────────────────────────────


def edit(file, text="mine\n"):
    file.chmod(0o644)
    file.write_text(text)


def test_an_edited_file_is_kept_beside_and_said_once(desk):
    desk.create("one")
    edit(desk.file("one"))
    os.utime(desk.file("one"), (0, 1_788_688_800))
    [warning] = desk.update("one", "half")
    [kept] = kept_beside(desk.file("one"))
    assert kept.name == "one.json.edited-20260906T100000Z"
    assert kept.read_text() == "mine\n"
    assert kept.name in warning
    assert str(desk.file("one")) in warning
    assert '"progress": "half"' in desk.file("one").read_text()
    assert desk.update("one", "whole") == []


def test_an_edited_file_is_kept_when_its_flow_is_archived(desk):
    desk.create("one")
    edit(desk.file("one"))
    assert len(desk.done("one")) == 1
    assert [kept.read_text() for kept in kept_beside(desk.file("one"))] == ["mine\n"]
    assert not desk.file("one").exists()


def test_two_edits_of_one_second_are_both_kept(desk):
    desk.create("one")
    for number in range(3):
        edit(desk.file("one"), f"mine {number}")
        os.utime(desk.file("one"), (0, 0))
        assert len(desk.update("one", f"step {number}")) == 1
    texts = {kept.read_text() for kept in kept_beside(desk.file("one"))}
    assert texts == {"mine 0", "mine 1", "mine 2"}


def test_a_file_in_the_way_of_a_new_flow_is_kept(desk):
    desk.file("one").parent.mkdir(parents=True)
    desk.file("one").write_text("mine")
    assert len(desk.create("one")) == 1
    assert [kept.read_text() for kept in kept_beside(desk.file("one"))] == ["mine"]


def test_a_folder_in_the_way_is_kept_with_what_it_holds(desk):
    desk.create("one")
    desk.file("one").unlink()
    desk.file("one").mkdir()
    (desk.file("one") / "mine.txt").write_text("mine")
    assert len(desk.update("one", "half")) == 1
    [kept] = kept_beside(desk.file("one"))
    assert (kept / "mine.txt").read_text() == "mine"
    assert desk.file("one").is_file()


def test_a_longer_file_than_any_document_is_kept(desk):
    desk.create("one")
    edit(desk.file("one"))
    os.truncate(desk.file("one"), 1 << 40)  # sparse: reading it all would never end
    assert len(desk.update("one", "half")) == 1
    assert [kept.stat().st_size for kept in kept_beside(desk.file("one"))] == [1 << 40]


def test_an_older_version_put_back_by_hand_is_no_loss_and_no_noise(desk):
    desk.create("one")
    older = desk.file("one").read_text()
    desk.update("one", "half")
    edit(desk.file("one"), older)
    assert desk.update("one", "whole") == []
    assert kept_beside(desk.file("one")) == []


def test_a_link_in_place_of_a_file_is_not_followed(desk, tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    desk.create("one")
    desk.file("one").unlink()
    desk.file("one").symlink_to(target)
    assert len(desk.update("one", "half")) == 1
    assert (target.read_text(), target.stat().st_mode & 0o222) == ("mine", 0o200)
    [kept] = kept_beside(desk.file("one"))
    assert kept.is_symlink()
    assert not desk.file("one").is_symlink()


@pytest.mark.req("G8")
@pytest.mark.parametrize("level", ["flows", "shard"])
def test_a_link_in_place_of_a_folder_is_not_followed(desk, tmp_path, level):
    desk.create("one")
    link = desk.file("one").parents[0 if level == "shard" else 1]
    outside = tmp_path / "outside"
    link.rename(outside)
    link.symlink_to(outside)
    before = {path: path.lstat() for path in outside.rglob("*")}
    [warning] = desk.update("one", "half")
    assert str(link) in warning
    assert "link" in warning
    assert len(desk.repair()) == 1
    assert {path: path.lstat() for path in outside.rglob("*")} == before
    link.unlink()
    assert desk.update("one", "whole") == []
    assert desk.is_whole()


# ── lagging, losing, rebuilding ─────────────────────────────────────────────────────────────────


def test_what_was_written_without_the_view_is_caught_up(desk):
    desk.create("one")
    desk.create("two")
    desk.update("one", "half", shown=False)
    desk.done("two", shown=False)
    desk.create("three", shown=False)
    assert desk.create("four") == []
    assert desk.is_whole()


def test_a_push_by_a_person_is_caught_up(desk, tmp_path):
    desk.create("one")
    desk.create("two")
    git(tmp_path, "clone", "--quiet", desk.folder, tmp_path / "clone")
    git(tmp_path / "clone", "rm", "--quiet", flow_path("two"))
    git(tmp_path / "clone", "commit", "--quiet", "-m", "away")
    git(tmp_path / "clone", "push", "--quiet")
    assert desk.repair() == []
    assert list(desk.shown()) == [flow_path("one")]
    assert desk.is_whole()


@pytest.mark.parametrize("marker", [None, "", "0" * 40 + "\n", "nonsense", "x" * 9999, "f" * 41])
def test_with_a_marker_that_says_nothing_all_is_compared(desk, marker):
    desk.create("one")
    desk.create("two")
    desk.done("two", shown=False)
    desk.file("one").unlink()
    if marker is None:
        shutil.rmtree(desk.gitdir / "gfs")
    else:
        (desk.gitdir / "gfs" / "view").write_text(marker)
    assert desk.create("three") == []
    assert desk.is_whole()


def test_after_a_rewritten_history_the_view_follows_the_new_one(desk):
    desk.create("one")
    back = desk.repo.ref(MAIN)
    desk.create("two")
    desk.update("one", "half")
    git(desk.folder, "update-ref", MAIN, back)
    assert desk.create("three") == []
    assert desk.is_whole()


@pytest.mark.req("L24")
def test_repair_brings_back_what_was_lost_or_damaged(desk):
    for flow in ("gone", "empty", "cut", "zeroed", "locked", "fine"):
        desk.create(flow)
    desk.file("gone").unlink()
    edit(desk.file("empty"), "")
    edit(desk.file("cut"), desk.file("cut").read_text()[:20])
    edit(desk.file("zeroed"), "\0" * desk.file("zeroed").stat().st_size)
    desk.file("locked").chmod(0)
    untouched = desk.file("fine").stat()
    head = desk.repo.ref(MAIN)
    told = desk.repair()
    assert len([line for line in told if "by hand" in line]) >= 3
    assert desk.stored().items() <= desk.shown().items()
    assert desk.file("fine").stat() == untouched
    assert desk.repo.ref(MAIN) == head
    assert desk.repair() == []


@pytest.mark.req("L24")
def test_the_view_may_vanish_at_any_time(desk):
    desk.create("one")
    desk.done("one")
    desk.create("two")
    for name in ("flows", "archive"):
        shutil.rmtree(desk.folder / name)
    assert desk.repair() == []
    assert desk.is_whole()


def test_repair_removes_what_git_has_and_leaves_what_only_a_person_has(desk):
    desk.create("one")
    desk.create("two")
    stray = desk.file("two").read_bytes()
    desk.done("two")
    desk.file("two").parent.mkdir(exist_ok=True)
    desk.file("two").write_bytes(stray)
    mine = desk.folder / "flows" / "notes.txt"
    mine.write_text("mine")
    theirs = desk.file("three")
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    assert desk.repair() == []
    assert not desk.file("two").exists()
    assert (mine.read_text(), theirs.read_text()) == ("mine", "mine")


@pytest.mark.req("D11", "E9", "L18")
def test_odd_entries_of_a_tree_are_not_written_out(desk, tmp_path):
    desk.create("one")
    blob = git(desk.folder, "hash-object", "-w", "--stdin", data=b"{}\n")
    escape = f"120000 blob {blob}\tlink.json\n100644 blob {blob}\tCON.json\n"
    escape += f"100644 blob {blob}\t..\n100644 blob {blob}\ta\\b.json\n"
    escape += f"100644 blob {blob}\tone.json\n160000 commit {'1' * 40}\tsub.json\n"
    shard = git(desk.folder, "mktree", "--missing", data=escape.encode())
    flows = git(
        desk.folder, "mktree", data=f"040000 tree {shard}\t..\n040000 tree {shard}\tab\n".encode()
    )
    root = git(desk.folder, "mktree", data=f"040000 tree {flows}\tflows\n".encode())
    commit = git(desk.folder, "commit-tree", root, "-m", "odd")
    git(desk.folder, "update-ref", MAIN, commit)
    desk.view.repair(desk.repo, commit)
    assert desk.shown() == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["desk"]


@pytest.mark.req("D11")
def test_a_flow_that_is_a_link_in_the_tree_is_not_shown(desk):
    desk.create("one")
    blob = git(desk.folder, "hash-object", "-w", "--stdin", data=b"/etc/hostname")
    shard = git(desk.folder, "mktree", data=f"120000 blob {blob}\tone.json\n".encode())
    folder = flow_path("one").split("/")[1]
    flows = git(desk.folder, "mktree", data=f"040000 tree {shard}\t{folder}\n".encode())
    root = git(desk.folder, "mktree", data=f"040000 tree {flows}\tflows\n".encode())
    commit = git(desk.folder, "commit-tree", root, "-m", "odd")
    assert desk.view.repair(desk.repo, commit) == []
    assert desk.shown() == {}
