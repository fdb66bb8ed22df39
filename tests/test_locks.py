"""The repository lock: one writer, no `git gc` beside it, and every wait ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import threading
import time

import pytest
from gitrepo import MAIN, become_nobody, child, code_of, gc, let_others_in, publish

from gitflowstate.errors import Denied, GfsError, NotFound, Unavailable
from gitflowstate.git import Repository
from gitflowstate.locks import RepositoryLock, repository_lock

HOST = socket.gethostname()


@pytest.fixture
def gitdir(tmp_path):
    path = tmp_path / "r.git"
    Repository.init(path).close()
    return path


def stopped_holder(gitdir) -> int:
    def hold():
        with RepositoryLock(gitdir):
            os.kill(os.getpid(), signal.SIGSTOP)

    pid = child(hold)
    os.waitpid(pid, os.WUNTRACED)
    return pid


# -- the lock itself --------------------------------------------------------------------------


def test_it_is_free_again_and_leaves_no_gc_pid(gitdir):
    for _ in range(2):
        with RepositoryLock(gitdir, timeout=0.1):
            assert (gitdir / "gc.pid").read_text() == f"{os.getpid()} {HOST} gfs"
        assert not (gitdir / "gc.pid").exists()
    assert {p.name for p in gitdir.glob("g*")} == {"gfs.lock", "gfs.lock.holder"}


@pytest.mark.req("C14")
def test_it_is_re_entrant_on_its_object(gitdir):
    lock = repository_lock(gitdir, timeout=0.1)
    assert repository_lock(gitdir / "." / "", timeout=0.1) is lock
    with lock:
        with lock, lock:
            pass
        assert (gitdir / "gc.pid").exists()
        assert gc(gitdir) == 128
    assert not (gitdir / "gc.pid").exists()
    assert gc(gitdir) == 0


def test_it_is_given_back_when_the_block_raises(gitdir):
    with pytest.raises(KeyError), RepositoryLock(gitdir, timeout=0.1):
        raise KeyError
    with RepositoryLock(gitdir, timeout=0.1):
        pass


@pytest.mark.req("C11")
def test_a_stopped_holder_is_named_with_its_pid_and_command(gitdir, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/gfs", "task", "done", "a secret result"])
    pid = stopped_holder(gitdir)
    try:
        with pytest.raises(Unavailable, match=rf"pid {pid} \(gfs task done\)") as caught:
            RepositoryLock(gitdir, timeout=0.1).__enter__()
        assert caught.value.details["pid"] == pid
        assert "secret" not in (gitdir / "gfs.lock.holder").read_text()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    with RepositoryLock(gitdir, timeout=0.1):
        pass


def test_nothing_of_a_longer_command_is_left(gitdir, monkeypatch):
    sizes = set()
    for program in ("x" * 200, "gfs"):
        monkeypatch.setattr("sys.argv", [program, "note"])
        with RepositoryLock(gitdir):
            pass
        sizes.add((gitdir / "gfs.lock.holder").stat().st_size)
    assert (gitdir / "gfs.lock.holder").read_text().split() == [str(os.getpid()), "gfs", "note"]
    assert len(sizes) == 1


@pytest.mark.req("A1", "F3")
def test_a_killed_holder_hinders_nobody(gitdir):
    pid = stopped_holder(gitdir)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (gitdir / "gc.pid").read_text() == f"{pid} {HOST} gfs"
    with RepositoryLock(gitdir, timeout=0.1) as lock:
        assert (gitdir / "gc.pid").read_text() == f"{os.getpid()} {HOST} gfs"
    assert lock.warnings == []


def test_threads_of_one_process_wait_for_each_other(gitdir):
    inside = []
    most = []

    def work():
        for _ in range(5):
            with repository_lock(gitdir):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20


def test_a_thread_gives_up_at_its_timeout_too(gitdir):
    lock = repository_lock(gitdir, timeout=0.1)
    caught = []

    def work():
        try:
            with lock:
                pass
        except Unavailable as error:
            caught.append(error.details["pid"])

    with lock:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert caught == [os.getpid()]


@pytest.mark.req("C13")
def test_a_fork_does_not_share_the_lock(gitdir):
    lock = repository_lock(gitdir, timeout=0.2)

    def work():
        assert repository_lock(gitdir, timeout=0.2) is not lock
        with pytest.raises(Unavailable, match=str(os.getppid())):
            lock.__enter__()
        lock.__exit__(None, None, None)  # a block that the parent entered

    with lock:
        assert code_of(child(work)) == 0
        assert (gitdir / "gc.pid").exists()
        assert code_of(child(work)) == 0

    def free():
        with lock:
            pass

    assert code_of(child(free)) == 0


def test_processes_take_turns(gitdir):
    def work():
        with Repository.open(gitdir) as repo:
            for number in range(10):
                with repository_lock(gitdir):
                    publish(repo, {f"flows/{os.getpid()}-{number}": b"1"})

    pids = [child(work) for _ in range(4)]
    assert [code_of(pid) for pid in pids] == [0] * 4
    with Repository.open(gitdir) as repo:
        assert len(list(repo.lineage(repo.ref(MAIN), []))) == 40


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.req("B5")
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "socket"])
def test_a_lock_that_is_no_regular_file_is_refused(gitdir, kind, monkeypatch):
    path = gitdir / "gfs.lock"
    if kind == "link":
        path.symlink_to(gitdir / "HEAD")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.chdir(gitdir)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("gfs.lock")
    with pytest.raises(Denied, match=r"gfs\.lock is not a regular file"):
        RepositoryLock(gitdir, timeout=0.1).__enter__()
    assert path.lstat()


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(NotFound):
        RepositoryLock(tmp_path / "none", timeout=0.1).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("C12")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_refused_and_no_marker_is_left(gitdir, number, monkeypatch):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(GfsError, match=r"gfs\.lock"):
        RepositoryLock(gitdir, timeout=0.1).__enter__()
    monkeypatch.undo()
    with RepositoryLock(gitdir, timeout=0.1):
        pass


@pytest.mark.req("B4", "B5")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_no_permission_is_denied_and_names_the_path(gitdir):
    import filelock  # noqa: F401  which nobody may not read where root has installed it

    def work():
        become_nobody()
        with pytest.raises(Denied, match=r"gfs\.lock"):
            RepositoryLock(gitdir, timeout=0.1).__enter__()

    let_others_in(gitdir)
    assert code_of(child(work)) == 0
