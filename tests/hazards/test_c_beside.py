"""Part C: beside git's own upkeep (C5), stopped holders, odd file systems, and two mounts of one.

The lock by itself is in `tests/test_locks`, what git may do between two of our calls in
`tests/test_leftovers` and `tests/test_gcpid`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess

import aftermath
import clirun
import mounts
import pytest
import tracing
from clirun import Cli, here
from gitrepo import before, child, code_of, git
from scaling import scale

from gitflowstate.git import Repository
from gitflowstate.locks import repository_lock
from gitflowstate.ops import Note
from gitflowstate.store import Store

UPKEEP = {
    "gc": ("gc", "-q"),
    "gc --prune=now": ("gc", "-q", "--prune=now"),
    "pack-refs": ("pack-refs", "--all"),
    "repack -ad": ("repack", "-a", "-d", "-q"),
    "maintenance": (
        *("maintenance", "run", "--quiet"),
        *(f"--task={task}" for task in ("gc", "commit-graph", "loose-objects")),
    ),
}
PATIENT = {"GFS_LOCK_TIMEOUT": "60"}


# ── C5: git's own upkeep ────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C5", "F8")
@pytest.mark.parametrize(
    "rounds",
    [scale(6), pytest.param(scale(60), marks=[pytest.mark.long, pytest.mark.timeout(900)])],
)
@pytest.mark.parametrize("upkeep", UPKEEP)
def test_c5_beside_the_upkeep_of_git_nothing_is_lost(flow, upkeep, rounds):
    env = PATIENT | {"GFS_REPO": str(flow.folder)}

    def work(writer):
        for number in range(rounds):
            told = here("note", "plan", f"{writer}: {number}", env=env)
            assert told.code == 0, told.err

    pids = [child(lambda writer=writer: work(writer)) for writer in range(2)]
    times = 0
    while any(
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for pid in pids
    ):
        git(flow.gitdir, *UPKEEP[upkeep], check=False)
        times += 1
    assert [code_of(pid) for pid in pids] == [0, 0]
    assert times
    told = {note["text"] for note in flow.json("show", "plan")["flow"]["notes"]}
    assert told == {f"{writer}: {number}" for writer in range(2) for number in range(rounds)}
    aftermath.check(flow, *[("plan", revision) for revision in range(1, 2 * rounds + 2)])


@pytest.mark.req("C5", "F8")
def test_c5_a_prune_that_asks_nobody_is_detected_and_named(flow):
    """`git prune --expire=now` heeds no lock: of what it takes away under us, a reader tells."""
    flow("note", "plan", "kept")
    head = flow.head

    def prune():
        git(flow.gitdir, "prune", "--expire=now")

    with before("link", "main.lock", prune):
        flow.run("note", "plan", "taken away")
    gone = flow.head
    assert gone != head
    assert gone in flow.refuses(6, "show", "plan")["message"]
    assert gone in flow.refuses(6, "note", "plan", "x")["message"]
    found = flow.run("doctor")
    assert (found.code, gone in found.out) == (1, True)
    flow.run("doctor", "--fix")
    assert flow.head == head
    flow.acked = [("plan", 1), ("plan", 2)]


# ── C11, C12, C14: the lock ─────────────────────────────────────────────────────────────────────


@pytest.mark.req("C11")
def test_c11_a_holder_that_is_stopped_is_named_by_pid_and_command(flow):
    def hold():
        with repository_lock(flow.gitdir):
            os.kill(os.getpid(), signal.SIGSTOP)

    pid = child(hold)
    os.waitpid(pid, os.WUNTRACED)
    try:
        error = flow.refuses(75, "note", "plan", "x", env={"GFS_LOCK_TIMEOUT": "0.1"})
        assert f"locked by pid {pid} (" in error["message"]
        assert error["details"]["pid"] == pid
        assert flow.run("show", "plan").code == 0
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    flow("note", "plan", "x")


@pytest.mark.req("C12")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_c12_where_the_file_system_has_no_locks_writing_is_refused(flow, monkeypatch, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        error = flow.refuses(1, "note", "plan", "x")
        assert "gfs.lock" in error["message"]
        assert flow.run("show", "plan").code == 0


@pytest.mark.req("C12")
def test_c12_the_same_from_the_kernel(flow):
    tracing.needs_strace()
    words = ["strace", "-f", "-o", os.devnull, "-e", "inject=flock:error=ENOSYS", clirun.SCRIPT]
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    done = subprocess.run(
        [*words, "note", "plan", "x"], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "gfs.lock" in done.stderr) == (1, True), done
    assert "local file system" in done.stderr


@pytest.mark.req("C14")
def test_c14_a_call_within_a_call_does_not_wait_for_itself(flow):
    with Repository.open(flow.gitdir, writing=True) as repo, repository_lock(flow.gitdir, 0.5):
        op = Note(at="2026-09-06T10:00:00Z", by="local", flow="plan", text="within")
        assert Store(repo, timeout=0.5).commit(op).flow.revision == 2
        flow("note", "plan", "within the same process", env={"GFS_LOCK_TIMEOUT": "0.5"})
    flow.acked.append(("plan", 2))


# ── C15: two mounts ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C15")
@pytest.mark.parametrize("locked", [True, False], ids=["with the lock", "without"])
def test_c15_through_two_mounts_of_one_folder_nothing_is_lost(flow, tmp_path, monkeypatch, locked):
    """Without the lock it is as on a network file system where locks do not reach the other."""
    rounds = scale(5)
    with mounts.mounted(tmp_path / "other", "--bind", flow.folder) as folder:
        if not locked:
            monkeypatch.setattr("gitflowstate.locks.RepositoryLock.__enter__", lambda lock: lock)
            monkeypatch.setattr("gitflowstate.locks.RepositoryLock.__exit__", lambda *_: None)

        def work(writer):
            env = PATIENT | {"GFS_REPO": str((flow.folder, folder)[writer % 2])}
            for number in range(rounds):
                while (code := here("note", "plan", f"{writer}: {number}", env=env).code) == 75:
                    pass
                assert code == 0

        pids = [child(lambda writer=writer: work(writer)) for writer in range(4)]
        assert [code_of(pid) for pid in pids] == [0] * 4
        monkeypatch.undo()
        told = [note["text"] for note in Cli(folder).json("show", "plan")["flow"]["notes"]]
    assert len(told) == len({*told}) == 4 * rounds
    aftermath.check(flow, *[("plan", revision) for revision in range(1, 4 * rounds + 2)])
