"""Git's own `gc.pid`: held while we write, honoured by git's rules."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time

import pytest
from gitrepo import MAIN, dead_pid, fsck, gc, publish

from gitflowstate.errors import Unavailable
from gitflowstate.git import Repository
from gitflowstate.locks import RepositoryLock, repository_lock

HOST = socket.gethostname()


@pytest.fixture
def gitdir(tmp_path):
    path = tmp_path / "r.git"
    Repository.init(path).close()
    return path


@pytest.mark.req("F8")
@pytest.mark.parametrize(
    ("content", "age_s", "taken"),
    [
        ("{dead} {host}", 0, True),
        ("{alive} {host}", 0, False),
        ("{alive} {host}", 13 * 3600, True),
        ("{dead} elsewhere", 0, False),
        ("{dead} elsewhere", 13 * 3600, True),
        ("{alive} {host} gfs", 0, True),
        ("1 elsewhere gfs", 0, True),
        ("", 0, True),
        ("rubbish", 0, True),
    ],
)
def test_a_gc_pid_is_honoured_by_gits_rules_but_for_a_dead_writers(gitdir, content, age_s, taken):
    path = gitdir / "gc.pid"
    path.write_text(content.format(dead=dead_pid(), alive=os.getppid(), host=HOST))
    then = time.time() - age_s
    os.utime(path, (then, then))
    lock = RepositoryLock(gitdir, timeout=0.05)
    before = path.read_text()
    if taken:
        with lock:
            assert path.read_text() == f"{os.getpid()} {HOST} gfs"
        assert not path.exists()
    else:
        with pytest.raises(Unavailable, match=r"pid \d+ on \S+") as caught:
            lock.__enter__()
        assert caught.value.details["host"] == before.split()[1]
        assert path.read_text() == before
    assert not (gitdir / "gc.pid.lock").exists()
    assert not (gitdir / "gfs.gc.pid").exists()


def test_a_gc_that_ends_while_we_wait_is_waited_for(gitdir):
    (gitdir / "gc.pid").write_text(f"{os.getppid()} {HOST}")
    with (
        subprocess.Popen(["sh", "-c", f"sleep 0.2; rm {gitdir}/gc.pid"]),
        RepositoryLock(gitdir, timeout=10),
    ):
        assert (gitdir / "gc.pid").read_text().endswith(" gfs")


@pytest.mark.parametrize(("age_s", "taken"), [(0, False), (3600, True)])
def test_a_foreign_gc_pid_lock_is_moved_aside_only_when_it_is_old(gitdir, age_s, taken):
    path = gitdir / "gc.pid.lock"
    path.write_text("")
    then = time.time() - age_s
    os.utime(path, (then, then))
    lock = RepositoryLock(gitdir, timeout=0.05)
    if taken:
        with lock:
            pass
        assert len(lock.warnings) == 1
        assert len(list((gitdir / "gfs/stale").iterdir())) == 1
        assert gc(gitdir) == 0
    else:
        with pytest.raises(Unavailable, match=r"gc\.pid\.lock"):
            lock.__enter__()
        assert path.exists()


def test_a_dead_writers_gc_pid_lock_is_taken_over(gitdir):
    (gitdir / "gc.pid.lock").write_text("1 elsewhere gfs")
    (gitdir / "gfs.gc.pid").write_text("1 elsewhere gfs")
    with RepositoryLock(gitdir, timeout=0.05) as lock:
        pass
    assert lock.warnings == []
    assert not (gitdir / "gc.pid.lock").exists()


@pytest.mark.req("F8", "C5")
def test_git_gc_prune_now_beside_writers_loses_nothing(gitdir):
    loop = "while :; do git gc -q --prune=now && echo >> rounds; done"
    rounds = gitdir / "rounds"
    acknowledged = 0
    with subprocess.Popen(
        ["sh", "-c", loop], cwd=gitdir, stderr=subprocess.DEVNULL, start_new_session=True
    ) as collector:
        try:
            while acknowledged < 20 or not rounds.exists() or rounds.stat().st_size < 3:
                with Repository.open(gitdir) as repo, repository_lock(gitdir, timeout=30):
                    publish(repo, {f"flows/n{acknowledged}": b"%d" % acknowledged})
                acknowledged += 1
                time.sleep(0.01)  # git gc gives up at once: let it in
        finally:
            os.killpg(collector.pid, signal.SIGKILL)
    with Repository.open(gitdir) as repo:
        assert len(list(repo.lineage(repo.ref(MAIN), []))) == acknowledged
    fsck(gitdir)
