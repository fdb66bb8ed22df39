"""One repository: what C git says of it, staging, commits and histories by anybody."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gitrepo import MAIN, fsck, git, loose, publish, store, tree_of

from gitflowstate.errors import Corrupt, Invalid, Rejected
from gitflowstate.git import Entry, Repository

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        yield made


# -- what C git says of it --------------------------------------------------------------------


def test_git_accepts_and_reads_what_was_published(repo):
    publish(repo, {"gitflowstate.json": b"{}\n", "flows/ab/x.json": b"1\n", "flows/ab.json": b"2"})
    publish(repo, {"flows/ab/y.json": b"3\n"}, "second\n\nBody\n")
    fsck(repo.gitdir)
    assert git(repo.gitdir, "show", "main:flows/ab/y.json") == "3"
    names = git(repo.gitdir, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert names == ["flows/ab.json", "flows/ab/x.json", "flows/ab/y.json", "gitflowstate.json"]
    assert git(repo.gitdir, "log", "--format=%an %ae %cn %ce %ad|%B", "-1") == (
        "t gfs@localhost gitflowstate gitflowstate@localhost Fri Jan 15 08:00:00 2027 +0000"
        "|second\n\nBody"
    )


def test_git_clones_and_pushes_to_it_but_not_by_force(repo, tmp_path):
    publish(repo, {"flows/a": b"1"})
    first = publish(repo, {"flows/a": b"2"})
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", repo.gitdir, work)
    git(work, "commit", "-qm", "theirs", "--allow-empty")
    git(work, "push", "-q", "origin", "main")
    assert repo.commit(repo.ref(MAIN)).parents == (first,)
    git(work, "reset", "-q", "--hard", "HEAD~2")
    git(work, "push", "-q", "--force", "origin", "main", check=False)
    assert repo.commit(repo.ref(MAIN)).parents == (first,)
    assert publish(repo, {"flows/a": b"3"})


@pytest.mark.req("L9", "G4", "L6")
def test_the_environment_hooks_and_signing_of_git_are_not_used(repo, tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    hooks = repo.gitdir / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "update"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {canary}\nexit 1\n")
        (hooks / name).chmod(0o755)
    git(repo.gitdir, "config", "commit.gpgsign", "true")
    git(repo.gitdir, "config", "core.fsmonitor", f"touch {canary}")
    other = tmp_path / "other"
    Repository.init(other).close()
    before = sorted(other.rglob("*"))
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(other))
    with Repository.open(repo.gitdir, writing=True) as again:
        publish(again, {"flows/a": b"1"})
    assert not canary.exists()
    assert sorted(other.rglob("*")) == before


def test_the_hot_path_imports_no_pack_reader_and_no_process_module():
    code = (
        "import sys, gitflowstate.git, gitflowstate.locks\n"
        "bad = {'dulwich.pack', 'dulwich.object_store', 'dulwich.repo', 'filelock', 'pydantic',"
        " 'subprocess', 'asyncio'}\n"
        "print(sorted(bad & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- staging ----------------------------------------------------------------------------------


def test_staging_writes_nothing(repo):
    before = sorted(repo.gitdir.rglob("*"))
    staged = repo.stage(None, {"a/b": b"x"})
    repo.commit_object(staged, [], b"m", "t", 0)
    assert sorted(repo.gitdir.rglob("*")) == before


def test_a_change_keeps_all_else_and_empty_folders_vanish(repo):
    odd = tree_of(
        repo,
        (0o100755, "run", store(repo, "blob", b"#!")),
        (0o120000, "link", store(repo, "blob", b"run")),
        (0o160000, "sub", "1" * 40),
        (0o100644, b"caf\xe9".decode("latin-1"), store(repo, "blob", b"2")),
    )
    before = repo.commit(publish(repo, {"a/b/c": b"1", "a/d": b"2"})).tree
    more = repo.stage(odd, {"a/b/c": b"1", "a/b/e": b"1"})
    gone = repo.stage(before, {"a/b/c": None})
    repo._objects.write({**more.objects, **gone.objects})
    assert {k: v for k, v in repo.tree(more.tree).items() if k != "a"} == repo.tree(odd)
    assert list(repo.walk(gone.tree, "")) == [
        ("a/d", Entry(0o100644, repo.lookup(gone.tree, "a/d").oid))
    ]
    assert repo.stage(gone.tree, {"a/d": None}).tree == EMPTY_TREE
    assert repo.stage(gone.tree, {"none/there": None}).tree == gone.tree


def test_trees_are_in_the_order_of_git(repo):
    paths = ["a", "a.b", "a-b", "ab", "b/c", "b.c", "b0", "é", "z/z", "z0"]
    tree = publish(repo, dict.fromkeys(paths, b"x"))
    index = "".join(f"100644 {repo.lookup(repo.commit(tree).tree, p).oid}\t{p}\n" for p in paths)
    git(repo.gitdir, "update-index", "--index-info", data=index.encode())
    assert git(repo.gitdir, "write-tree") == repo.commit(tree).tree


@pytest.mark.req("E9", "F12")
@pytest.mark.parametrize(
    "path",
    [
        *["", "/a", "a/", "a//b", ".", "..", "a/../b", ".git", "a/.GIT/b", "a/.git.", "git~1"],
        *["a\0b", "a\nb", "a\\b", "C:x", "/".join("abcdefghijklmnopqrst")],
    ],
)
def test_a_path_that_could_leave_the_repository_is_refused(repo, path):
    with pytest.raises(Rejected):
        repo.stage(None, {path: b"x"})


def test_a_file_and_a_folder_of_one_name_are_refused(repo):
    for paths in (["a", "a/b"], ["a/b", "a"]):
        with pytest.raises(Rejected):
            repo.stage(None, dict.fromkeys(paths, b"x"))


@pytest.mark.req("D11")
def test_a_change_through_a_file_link_or_submodule_is_corrupt(repo):
    blob = store(repo, "blob", b"x")
    tree = tree_of(repo, (0o100644, "flows", blob), (0o120000, "link", blob))
    publish(repo, {"a/b": b"1"})
    for path in ("flows/ab/x.json", "link", "link/x"):
        with pytest.raises(Corrupt):
            repo.stage(tree, {path: b"1"})
    with pytest.raises(Corrupt):
        repo.stage(repo.commit(repo.ref(MAIN)).tree, {"a": b"1"})


# -- commits ----------------------------------------------------------------------------------


@pytest.mark.req("F7", "B9")
@pytest.mark.parametrize(
    "author", ["", "a <b>", "x\nparent 1", "\0", "<>", "é", "\ud800", "a" * 5000, " . "]
)
@pytest.mark.parametrize("time", [-1, 0, 2**31, 2**63, -(2**70)])
def test_any_author_and_time_make_a_commit_that_fsck_accepts(repo, author, time):
    staged = repo.stage(None, {"a": b"1"})
    commit = repo.commit_object(staged, [], b"m\n", author, time)
    assert repo.publish(MAIN, None, commit, "m")
    fsck(repo.gitdir)
    assert 0 <= repo.commit(commit.commit).time <= 2**33
    assert repo.commit(commit.commit).author.endswith(b" <gfs@localhost>")


def test_a_nul_in_a_message_is_invalid(repo):
    with pytest.raises(Invalid):
        repo.commit_object(repo.stage(None, {"a": b"1"}), [], b"a\0b", "t", 0)


@pytest.mark.req("D7")
@pytest.mark.parametrize(
    ("tail", "time"),
    [
        (
            b"author A <a@x> 1 +0000\ncommitter C <c@x> 99999999999 +9999\n\nm\0\xe9"
            + b"x" * 200_000,
            99999999999,
        ),
        (b"author A 1 +0000\ncommitter C 1 +0000\n\nm", 0),
        (b"committer <> -5 +0000\n\nm", -5),
        (b"author A <a> b <c> 1 +0000\ncommitter C <c@x> now\n\nm", 0),
        (b"", 0),
        (b"author A <a@x> 1 +0000\ncommitter C <c@x> 7 +0000\ngpgsig -----\n x\n author E\n\nm", 7),
    ],
)
def test_a_strange_commit_by_others_is_read(repo, tail, time):
    tree = tree_of(repo)
    parent = "1" * 40
    oid = store(repo, "commit", f"tree {tree}\nparent {parent}\n".encode() + tail)
    commit = repo.commit(oid)
    assert (commit.tree, commit.parents, commit.time) == (tree, (parent,), time)
    assert commit.message == tail.partition(b"\n\n")[2]
    assert b"E" not in commit.author


@pytest.mark.parametrize(
    "body", [b"", b"tree x\n", b"parent " + b"1" * 40, b"tree " + b"1" * 40 + b"\nparent 2\n\n"]
)
def test_a_commit_without_tree_or_with_a_broken_parent_is_corrupt(repo, body):
    with pytest.raises(Corrupt, match="does not decode"):
        repo.commit(store(repo, "commit", body))


# -- histories --------------------------------------------------------------------------------


def made(repo, parents, changes, text):
    base = repo.commit(parents[0]).tree if parents else None
    staged = repo.commit_object(repo.stage(base, changes), parents, text.encode(), "t", 1)
    repo._objects.write(staged.objects)
    return staged.commit


def messages(repo, oid, governed=("flows",)):
    return [c.message.decode() for c in repo.lineage(oid, governed)]


@pytest.mark.req("D5")
def test_a_lineage_follows_the_parent_with_the_same_governed_entries(repo):
    root = made(repo, [], {"flows/a": b"1"}, "root")
    theirs = made(repo, [root], {"README": b"1"}, "theirs")
    ours = made(repo, [root], {"flows/a": b"2"}, "ours")
    pulled = made(repo, [theirs, ours], {"flows/a": b"2"}, "pulled")
    same = made(repo, [theirs, root], {"README": b"2"}, "same")
    new = made(repo, [theirs, ours], {"flows/a": b"3"}, "new")
    assert messages(repo, pulled) == ["pulled", "ours", "root"]
    assert messages(repo, same) == ["same", "theirs", "root"]
    assert messages(repo, new) == ["new", "theirs", "root"]
    assert messages(repo, pulled, ("README",)) == ["pulled", "theirs", "root"]


@pytest.mark.req("D9", "D8")
def test_a_shallow_clone_ends_where_it_was_cut_and_a_hole_is_corrupt(repo, tmp_path):
    for number in range(4):
        publish(repo, {"flows/a": b"%d" % number}, f"n{number}")
    git(tmp_path, "clone", "-q", "--bare", "--depth=2", f"file://{repo.gitdir}", "cut.git")
    with Repository.open(tmp_path / "cut.git", writing=True) as cut:
        assert messages(cut, cut.ref(MAIN)) == ["n3", "n2"]
        publish(cut, {"flows/a": b"4"}, "n4")
        assert messages(cut, cut.ref(MAIN)) == ["n4", "n3", "n2"]
        fsck(cut.gitdir)
    hole = repo.commit(repo.ref(MAIN)).parents[0]
    loose(repo, hole).unlink()
    with pytest.raises(Corrupt, match=hole):
        messages(repo, repo.ref(MAIN))
