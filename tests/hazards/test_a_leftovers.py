"""Part A: what a crash or a power cut left lying about, and whoever comes next (A4 to A7)."""

from __future__ import annotations

import os
import shutil
import time

import aftermath
import clirun
import pytest
import time_machine
from gitrepo import git, overwrite

from gitflowstate import documents
from gitflowstate.swap import Swap

AT = "2026-09-06T10:00:00Z"
UPDATE = ("update", "plan", "--progress", "half of it")


@pytest.fixture
def impatient(monkeypatch):
    """Let nobody wait for the lock file of another for seconds."""
    monkeypatch.setattr(Swap, "patience_s", 0.1)


def to_be_written(cli):
    """Return the objects that the next update will write at `AT`, found on a copy."""
    copy = clirun.Cli(cli.folder.parent / "copy")
    shutil.copytree(cli.folder, copy.folder)
    before = {*cli.gitdir.glob("objects/??/*")}
    with time_machine.travel(AT, tick=False):
        copy(*UPDATE)
    paths = {
        cli.gitdir / path.relative_to(copy.gitdir) for path in copy.gitdir.glob("objects/??/*")
    }
    assert len(paths - before) > 3
    return sorted(paths - before)


@pytest.mark.req("A4", "L5")
def test_a4_a_lock_of_a_ref_that_is_old_and_that_nobody_has_open_is_moved_aside(flow):
    lock = flow.gitdir / "refs/heads/main.lock"
    lock.write_text("")
    os.utime(lock, (time.time() - 3600,) * 2)
    done = flow.run(*UPDATE)
    assert done.code == 0
    assert f"{lock} was 60 minutes old and no process had it open; it is now " in done.err
    assert not lock.exists()
    assert len([*(flow.gitdir / "gfs/stale").glob("refs-heads-main.lock-*")]) == 1


@pytest.mark.req("A4", "L5")
@pytest.mark.usefixtures("impatient")
def test_a4_one_that_a_living_process_has_open_is_waited_for_and_not_touched(flow):
    lock = flow.gitdir / "refs/heads/main.lock"
    lock.write_text("mine")
    os.utime(lock, (time.time() - 3600,) * 2)
    before = flow.head
    with lock.open("rb"):
        refused = flow.run(*UPDATE)
        assert refused.code == 75
        assert f"is locked by {lock}, 36" in refused.err  # and so many seconds old
        assert lock.read_text() == "mine"
    lock.unlink()
    aftermath.check(flow, heads={before})


@pytest.mark.req("A5", "F3")
def test_a5_lock_files_of_objects_that_are_to_be_written_hinder_nothing(flow):
    written = to_be_written(flow)
    for path in written:
        path.parent.mkdir(exist_ok=True)
        path.with_name(f"{path.name}.lock").touch()
    with time_machine.travel(AT, tick=False):
        flow(*UPDATE)
    assert all(path.exists() for path in written)
    for path in written:  # they are another program's: it is for that, or a person, to remove them
        path.with_name(f"{path.name}.lock").unlink()


@pytest.mark.req("A6")
def test_a6_empty_objects_that_a_power_cut_left_heal_when_they_are_written(flow):
    written = to_be_written(flow)
    for path in written:
        path.parent.mkdir(exist_ok=True)
        path.touch(0o444)
    with time_machine.travel(AT, tick=False):
        flow(*UPDATE)
    assert all(path.stat().st_size for path in written)


@pytest.mark.req("A6", "D8")
@pytest.mark.parametrize("what", ["blob", "tree", "commit"])
def test_a6_an_empty_object_of_the_head_is_named_and_never_passed_over(flow, what):
    flow(*UPDATE)
    path = flow.git("ls-tree", "-r", "--name-only", "main", "flows/")
    name = {"blob": f"main:{path}", "tree": "main^{tree}", "commit": "main"}[what]
    oid, head = flow.git("rev-parse", name), flow.head
    file = flow.gitdir / "objects" / oid[:2] / oid[2:]
    whole = file.read_bytes()
    overwrite(file, b"")
    documents._memo.clear()  # as in a process of its own
    for words in (("show", "plan"), UPDATE, ("note", "plan", "x")):
        assert oid in flow.refuses(6, *words)["message"]
    assert (flow.head, file.read_bytes()) == (head, b"")
    found = flow.run("doctor")
    assert (found.code, oid in found.out) == (1, True)
    overwrite(file, whole)  # as from a clone
    aftermath.check(flow, *flow.acked, heads={head})


@pytest.mark.req("A7", "F5")
@pytest.mark.parametrize("content", [b"", b"\0" * 41], ids=["empty", "zeros"])
def test_a7_an_empty_ref_is_never_the_older_value_that_is_packed(flow, content):
    git(flow.gitdir, "pack-refs", "--all")
    flow(*UPDATE)
    ref = flow.gitdir / "refs/heads/main"
    value = ref.read_bytes()
    ref.write_bytes(content)
    for words in (("show", "plan"), ("log", "plan"), UPDATE, ("create", "Another")):
        error = flow.refuses(6, *words)
        assert error["message"].startswith("refs/heads/main does not hold a commit id")
    assert ref.read_bytes() == content
    ref.write_bytes(value)
