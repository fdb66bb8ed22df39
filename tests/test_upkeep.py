"""`gfs gc`: packed and indexed by C git, nothing lost, whatever is killed on the way."""

from __future__ import annotations

import os
import time

import clirun
import pytest
from gitrepo import child, code_of, fsck, git

OLD = 1_700_000_000


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with a few flows and a cursor of its own."""
    found = clirun.made(tmp_path / "work")
    for number in range(4):
        found("create", f"Goal {number}", "--id", f"f-{number}", "--next", "Read")
    found("done", "f-3", "--result", "r")
    found.git("update-ref", "refs/gfs/cursors/team", "main~2")
    yield found
    found.sound()


def refs(cli) -> str:
    return cli.git("for-each-ref")


def loose(cli) -> int:
    return len([*cli.gitdir.glob("objects/??/*")])


def test_everything_is_packed_indexed_and_as_it_was(cli):
    before, told = refs(cli), cli("show", "f-3", "--json")
    done = cli.json("gc")
    assert done["before"]["loose"] > 0
    assert (done["after"]["loose"], done["after"]["packs"], loose(cli)) == (0, 1, 0)
    assert refs(cli) == before
    assert cli("show", "f-3", "--json") == told
    assert cli.run("verify").code == 0
    git(cli.gitdir, "commit-graph", "verify")
    assert b"BIDX" in (cli.gitdir / "objects/info/commit-graph").read_bytes()
    assert [*cli.gitdir.glob("objects/pack/*.bitmap")] == []
    assert cli.json("gc")["before"] == done["after"]
    fsck(cli.gitdir)


def test_many_packs_become_one(cli):
    for number in range(50):
        cli.git("hash-object", "-w", "--stdin", data=b"%d" % number)
        oid = cli.git("hash-object", "--stdin", data=b"%d" % number)
        cli.git("pack-objects", "-q", "objects/pack/pack", data=oid.encode())
    assert cli.json("gc")["after"]["packs"] == 1


@pytest.mark.req("F8")
def test_of_what_no_ref_names_only_what_is_old_goes(cli):
    old, new = (cli.git("hash-object", "-w", "--stdin", data=text) for text in (b"old", b"new"))
    os.utime(cli.gitdir / "objects" / old[:2] / old[2:], (OLD, OLD))
    cli("gc")
    kept = cli.git("cat-file", "--batch-check", data=f"{old}\n{new}".encode())
    assert kept == f"{old} missing\n{new} blob 3"


def test_what_dead_writers_left_goes_and_what_is_in_use_stays(cli):
    folder = cli.gitdir / "objects" / "aa"
    folder.mkdir(exist_ok=True)
    dead, fresh, held = (folder / f"tmp_obj_{digit * 16}" for digit in "123")
    for path in (dead, fresh, held):
        path.write_bytes(b"half")
    for path in (dead, held):
        os.utime(path, (time.time() - 900,) * 2)
    (cli.gitdir / "gfs-ref-0000").write_text("x")
    os.utime(cli.gitdir / "gfs-ref-0000", (OLD, OLD))
    with held.open("rb"):
        assert cli.json("gc")["swept"] == 1
        assert {path for path in (dead, fresh, held) if path.exists()} == {fresh, held}
    assert not (cli.gitdir / "gfs-ref-0000").exists()


@pytest.mark.req("F8")
def test_while_another_gc_runs_it_waits_its_turn(cli):
    (cli.gitdir / "gc.pid").write_text(f"{os.getpid()} {os.uname().nodename}\n")
    env = {"GFS_LOCK_TIMEOUT": "0.1"}
    assert "a git gc runs here" in cli.refuses(75, "gc", env=env)["message"]
    (cli.gitdir / "gc.pid").unlink()


def test_without_git_only_what_dead_writers_left_goes(cli, tmp_path):
    left = cli.gitdir / "objects/aa" / f"tmp_obj_{'1' * 16}"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    os.utime(left, (OLD, OLD))
    kept = cli.state().keys() - {str(left)}
    done = cli.run("gc", "--json", env={"PATH": str(tmp_path)})
    assert (done.code, done.error["details"]["swept"]) == (1, 1)
    assert "git is not installed: nothing was packed" in done.error["message"]
    assert cli.state().keys() == kept


def test_without_git_what_the_readme_promises_goes_on_and_the_rest_says_so(cli, tmp_path):
    env = {"PATH": str(tmp_path)}
    for words in (
        ("note", "f-0", "x"),
        ("show", "f-0"),
        ("verify",),
        ("watch", "console", "--once"),
    ):
        assert cli.run(*words, env=env).code == 0, words
    for words in (
        ("backup", tmp_path / "b"),
        ("restore", tmp_path / "b", tmp_path / "new"),
        ("gc",),
        ("hooks", "install"),
        ("hooks", "check"),
        ("hooks", "remove"),
        ("clone", tmp_path / "b", tmp_path / "new"),
        ("init", tmp_path / "new", "--remote", tmp_path / "b"),
    ):
        done = cli.run(*words, "--json", env=env)
        assert (done.code, done.error["message"][:20]) == (1, "git is not installed"), words
        assert not (tmp_path / "new").exists()


def test_a_clone_is_left_to_its_owner(cli, tmp_path):
    git(tmp_path, "clone", "-q", cli.gitdir, "clone")
    assert cli.run("gc", "--repo", tmp_path / "clone").code == 77


def test_where_an_object_is_missing_it_stops_and_removes_nothing(cli):
    blob = cli.git("rev-parse", "main~3^{tree}")
    path = cli.gitdir / "objects" / blob[:2] / blob[2:]
    kept, before = path.read_bytes(), refs(cli)
    path.unlink()
    found = set(cli.gitdir.glob("objects/??/*"))
    assert cli.refuses(6, "gc")["message"].startswith("git repack stopped: ")
    assert found <= set(cli.gitdir.glob("objects/??/*"))
    assert refs(cli) == before
    path.write_bytes(kept)


@pytest.mark.req("C5", "F8")
def test_beside_writers_nothing_is_lost(cli):
    def work():
        for number in range(25):
            assert (
                clirun.here("note", "f-0", str(number), env={"GFS_REPO": str(cli.folder)}).code == 0
            )

    pid = child(work)
    for _ in range(4):
        cli("gc")
    assert code_of(pid) == 0
    assert [note["text"] for note in cli.flow("f-0")["notes"]] == [str(n) for n in range(25)]
