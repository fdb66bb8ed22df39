"""Lock files: which are dead, and what is done with them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from gitrepo import MAIN, before, child, code_of, fsck, git, publish_on, texts

from gitflowstate import leftovers
from gitflowstate.errors import Denied, Unavailable
from gitflowstate.git import Repository
from gitflowstate.swap import Swap


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        assert publish_on(made, None, "first")
        yield made


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(Swap, "patience_s", 0.05)


def stale(repo) -> list[Path]:
    return list((repo.gitdir / "gfs/stale").glob("*"))


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.req("F3", "A1")
def test_a_dead_writers_lock_is_moved_aside_at_once(repo, impatient):
    def dying():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            publish_on(repo, repo.ref(MAIN), "dead")

    assert code_of(child(dying)) == -signal.SIGKILL
    lock = repo.gitdir / f"{MAIN}.lock"
    assert lock.exists()
    assert publish_on(repo, repo.ref(MAIN), "alive")
    assert texts(repo) == ["first", "alive"]
    assert len(stale(repo)) == 1
    assert not lock.exists()
    assert not list(repo.gitdir.glob("gfs-ref-*"))
    assert repo.warnings == []


@pytest.mark.req("C6")
def test_a_living_writers_lock_is_left_alone_however_old(repo, impatient):
    def stopped():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            os._exit(0 if publish_on(repo, repo.ref(MAIN), "slow") else 4)

    pid = child(stopped)
    os.waitpid(pid, os.WUNTRACED)
    lock = repo.gitdir / f"{MAIN}.lock"
    aged(lock, 3600)
    with Repository.open(repo.gitdir) as other, pytest.raises(Unavailable) as caught:
        publish_on(other, other.ref(MAIN), "other")
    assert str(lock) in caught.value.message
    assert "3600 s" in caught.value.message
    os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    assert texts(repo) == ["first", "slow"]


@pytest.mark.req("C15")
def test_a_living_writer_in_another_process_name_space_is_seen_by_its_lock(
    repo, impatient, monkeypatch
):
    monkeypatch.setattr(leftovers, "is_open_elsewhere", lambda _: False)

    def stopped():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            os._exit(0 if publish_on(repo, repo.ref(MAIN), "slow") else 4)

    pid = child(stopped)
    os.waitpid(pid, os.WUNTRACED)
    with Repository.open(repo.gitdir) as other, pytest.raises(Unavailable):
        publish_on(other, other.ref(MAIN), "other")
    os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0


@pytest.mark.parametrize(("call", "ending"), [("open", "main.lock"), ("mkdir", "gfs/stale")])
def test_a_lock_that_is_replaced_while_it_is_judged_is_not_taken(repo, impatient, call, ending):
    lock = repo.gitdir / f"{MAIN}.lock"

    def replace():
        lock.rename(f"{lock}ed")
        lock.write_text("new")

    lock.write_text("old")
    aged(lock, 3600)
    with before(call, ending, replace), pytest.raises(Unavailable):
        publish_on(repo, repo.ref(MAIN), "second")
    assert lock.read_text() == "new"
    assert stale(repo) == []


@pytest.mark.req("A4", "L5")
def test_a_foreign_lock_is_waited_for_and_named_while_it_is_young(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("")
    aged(lock, 500)
    with pytest.raises(Unavailable, match=r"main\.lock, 500 s old"):
        publish_on(repo, repo.ref(MAIN), "second")
    assert lock.exists()
    assert texts(repo) == ["first"]
    assert stale(repo) == []


@pytest.mark.req("A4", "L5")
def test_a_foreign_lock_that_is_old_and_not_open_is_moved_aside_with_a_warning(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("theirs")
    aged(lock, 3600)
    assert publish_on(repo, repo.ref(MAIN), "second")
    assert [path.read_text() for path in stale(repo)] == ["theirs"]
    assert len(repo.warnings) == 1
    assert "60 minutes" in repo.warnings[0]
    assert str(stale(repo)[0]) in repo.warnings[0]
    assert git(repo.gitdir, "for-each-ref", "--format=%(refname)") == MAIN


@pytest.mark.req("A4")
def test_a_foreign_lock_that_is_old_but_open_is_not_touched(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("theirs")
    aged(lock, 3600)
    with lock.open() as opened:
        holder = subprocess.Popen(["sleep", "60"], stdin=opened)
    with holder:
        try:
            with pytest.raises(Unavailable):
                publish_on(repo, repo.ref(MAIN), "second")
        finally:
            holder.kill()
    assert lock.read_text() == "theirs"
    assert publish_on(repo, repo.ref(MAIN), "second")


def test_a_lock_that_is_no_file_is_never_moved(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.mkdir()
    aged(lock, 3600)
    with pytest.raises(Denied, match=r"main\.lock"):
        publish_on(repo, repo.ref(MAIN), "second")
    assert lock.is_dir()


def test_a_lock_given_back_while_we_wait_is_no_hindrance(repo):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("")
    with subprocess.Popen(["sh", "-c", f"sleep 0.2; rm {lock}"]):
        assert publish_on(repo, repo.ref(MAIN), "second")


def test_a_leftover_private_file_is_swept_once_it_is_old_and_not_open(repo):
    dead, young, held = (repo.gitdir / f"gfs-ref-{name}" for name in ("dead", "young", "held"))
    for path in (dead, young, held):
        path.write_text("x")
    aged(dead, 120)
    aged(held, 120)
    with held.open():
        assert publish_on(repo, repo.ref(MAIN), "second")
        assert [dead.exists(), young.exists(), held.exists()] == [False, True, True]


@pytest.mark.req("C5")
def test_git_may_pack_refs_and_gc_between_all_our_writes(repo):
    loop = "while :; do git pack-refs --all; git gc -q; git repack -adq; echo >> rounds; done"
    rounds = repo.gitdir / "rounds"
    expected = ["first"]
    with subprocess.Popen(
        ["sh", "-c", loop], cwd=repo.gitdir, stderr=subprocess.DEVNULL, start_new_session=True
    ) as packer:
        try:
            while len(expected) < 40 or not rounds.exists() or rounds.stat().st_size < 3:
                expected.append(f"n{len(expected)}")
                assert publish_on(repo, repo.ref(MAIN), expected[-1])
        finally:
            os.killpg(packer.pid, signal.SIGKILL)
    assert texts(repo) == expected
    fsck(repo.gitdir)
