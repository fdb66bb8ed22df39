"""Part B: storage that is full, read-only, out of reach, or short of descriptors; and odd clocks.

The error at every call is in `test_b_matrix`, and `tests/faults` strikes the store below the verbs.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import aftermath
import clirun
import mounts
import pytest
import strangers
import time_machine
import tracing
from clirun import Cli, here, made
from gitrepo import MAIN, child, code_of, git, intercepted
from scaling import scale
from strangers import as_nobody, mode, theirs

READINGS = (("show", "plan"), ("log", "plan"), ("next", "plan"), ("list",), ("verify",))


def left_behind(cli):
    """Return the lock files there are, but for the one that stays."""
    return [path for path in cli.gitdir.rglob("*.lock") if path.name != "gfs.lock"]


def opened(descriptor) -> str:
    """Return the path of an open file."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


# ── B1: an error after the change is in place ───────────────────────────────────────────────────


@pytest.mark.req("B1", "R-TF-14")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_b1_an_error_after_the_ref_has_moved_is_told_as_committed(flow, number):
    moved = []

    def act(_number, name, real, arguments):
        if name == "fsync" and moved:
            raise OSError(number, os.strerror(number))
        result = real(*arguments)
        if name == "rename" and str(arguments[1]).endswith(MAIN):
            moved.append(1)
        return result

    with intercepted(act):
        done = flow.run("note", "plan", "x", "--key", "k")
    assert (done.code, done.out) == (7, "")
    assert done.err.startswith(f"error: committed, durability unknown: {MAIN} is {flow.head}, ")
    assert flow.json("note", "plan", "x", "--key", "k")["repeated"]
    assert [note["text"] for note in flow.flow("plan")["notes"]] == ["x"]


# ── B2, B3: no room ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("B2", "F4", "R-TF-14")
def test_b2_on_a_full_disk_the_head_is_what_was_acknowledged_and_no_lock_is_left(tmp_path):
    with mounts.in_memory(tmp_path / "small", "256k") as folder:
        cli = made(folder / "work", "--no-view")
        cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
        acked, refused = 1, 0
        while refused < 6:
            done = cli.run("note", "plan", os.urandom(300).hex())
            if done.code == 0:
                acked += 1
            else:
                refused += 1
                assert done.code == 75, done
                assert "No space left on device" in done.err
                assert "Make room, then run the same command again." in done.err
            assert cli.json("show", "plan")["flow"]["revision"] == acked
            assert left_behind(cli) == []
        assert acked > 5
        mounts.remounted(folder, "size=8m")
        cli("note", "plan", "there is room again")
        aftermath.check(cli, *[("plan", revision) for revision in range(1, acked + 2)])


@pytest.mark.req("B3")
def test_b3_where_a_quota_ends_at_the_commit_the_head_stays(flow):
    head, objects = flow.head, []

    def act(_number, name, real, arguments):
        if name == "write" and "/tmp_obj_" in opened(arguments[0]):
            objects.append(arguments)
            if len(objects) == 4:  # the document, two folders up, and then the commit
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return real(*arguments)

    with intercepted(act):
        done = flow.run("note", "plan", "x")
    assert (done.code, len(objects)) == (75, 4)
    assert "Make room" in done.err
    assert flow.head == head
    flow("note", "plan", "x")


# ── B4, B5: no permission ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("B4")
def test_b4_a_read_only_mount_is_read_and_writing_is_denied(flow, tmp_path):
    with mounts.mounted(tmp_path / "other", "--bind", flow.folder) as folder:
        mounts.remounted(folder, "bind,ro")
        other, head = Cli(folder), flow.head
        for words in READINGS:
            assert other.run(*words).code == 0, words
        for words in (("note", "plan", "x"), ("create", "Another"), ("task", "add", "plan", "x")):
            error = other.refuses(77, *words)
            assert "Read-only file system" in error["message"]
            assert str(folder) in error["message"]
        aftermath.check(flow, heads={head})


@pytest.mark.req("B5")
@strangers.NEEDED
@pytest.mark.parametrize(
    ("place", "without"),
    [
        ("", 0o222),
        ("objects", 0o222),
        ("objects", 0o777),
        ("refs", 0o777),
        ("refs/heads", 0o222),
        ("refs/heads/main", 0o777),
        ("gfs.lock", 0o777),
    ],
)
def test_b5_without_permission_it_is_denied_and_the_path_is_named(flow, place, without):
    closed, head = flow.gitdir / place, flow.head
    with theirs(flow.folder), mode(closed, closed.stat().st_mode & ~without):
        result = as_nobody(flow, "note", "plan", "x", "--json")
    assert result.code == 77, result
    assert str(closed) in result.error["message"]
    assert not clirun.HARMFUL.search(result.error["hint"])
    aftermath.check(flow, heads={head})


# ── B6, B7: what cannot be read is not absent ───────────────────────────────────────────────────


def short_of_descriptors(cli, most, *words):
    """Run a command in a child that may have so many files open; return what it said."""
    told = cli.folder.parent / "told"

    def work():
        log = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 100)
        os.closerange(3, 100)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, 200))
        result = here(*words, env={"GFS_REPO": str(cli.folder)})
        os.write(100, json.dumps(result).encode())

    assert code_of(child(work)) == 0
    return clirun.Result(*json.loads(told.read_text()))


@pytest.mark.req("B6", "F5")
def test_b6_short_of_descriptors_nothing_is_read_from_the_past_and_nothing_is_lost(flow):
    git(flow.gitdir, "pack-refs", "--all")  # an older value of main
    flow("note", "plan", "newer")
    codes = set()
    for most in range(3, 41, max(1, round(2 / scale(1)))):
        before = flow.head
        shown = short_of_descriptors(flow, most, "show", "plan", "--json")
        revision = flow.json("show", "plan")["flow"]["revision"]
        assert shown.code in (0, 75), (most, shown)
        assert shown.code == 75 or shown.data["flow"]["revision"] == revision, (most, shown)
        noted = short_of_descriptors(flow, most, "note", "plan", f"with {most}")
        assert noted.code in (0, 75), (most, noted)
        assert (flow.head != before) == (noted.code == 0), (most, noted)
        codes |= {noted.code}
    assert {0, 75} <= codes


@pytest.mark.req("B7", "F5")
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE, errno.EMFILE])
def test_b7_a_ref_that_cannot_be_read_is_never_its_packed_value(flow, number):
    git(flow.gitdir, "pack-refs", "--all")
    flow("note", "plan", "newer")
    head = flow.head

    def act(_number, name, real, arguments):
        if name == "open" and str(arguments[0]).endswith(MAIN) and "/logs/" not in arguments[0]:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    for words in (("show", "plan"), ("log", "plan"), ("note", "plan", "x"), ("create", "Another")):
        with intercepted(act):
            done = flow.run(*words)
        assert done.code in (1, 75, 77), (words, done)
        assert (done.out, f"refs/heads/main: {os.strerror(number)}" in done.err) == ("", True)
        assert flow.head == head


# ── B8: writes cut short, calls interrupted ─────────────────────────────────────────────────────


@pytest.mark.req("B8")
def test_b8_short_writes_and_interrupted_calls_store_everything(flow):
    def one_byte(_number, name, real, arguments):
        if name == "write":
            return real(arguments[0], bytes(arguments[1][:1]))
        return real(*arguments)

    fired = []
    before = signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for number in range(3):
            with intercepted(one_byte):
                flow("note", "plan", f"note {number}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(fired) > 3
    assert [note["text"] for note in flow.flow("plan")["notes"]] == ["note 0", "note 1", "note 2"]


@pytest.mark.req("B8")
def test_b8_calls_that_the_kernel_interrupts_are_made_again(flow):
    tracing.needs_strace()
    every_second = "inject=write,fsync,flock:error=EINTR:when=1+2"
    under = ["strace", "-f", "-o", os.devnull, "-e", "trace=write,fsync,flock", "-e", every_second]
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    words = [*under, clirun.SCRIPT, "note", "plan", "x"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "plan r2 pending\n"), done


# ── B9: clocks ──────────────────────────────────────────────────────────────────────────────────

CLOCKS = {
    "a day back": lambda now: now - 86_400,
    "a year ahead": lambda now: now + 365 * 86_400,
    "1970": lambda _: 0,
    "2**31": lambda _: 2**31,
    "after 2**32": lambda _: 2**32 + 5,
}


@pytest.mark.req("B9", "C-12")
@pytest.mark.parametrize("clock", CLOCKS)
def test_b9_whatever_the_clock_says_revisions_rise_by_one_and_a_lost_claim_settles_nothing(
    flow, clock
):
    flow("task", "add", "plan", "Do it", "--id", "t1")
    first = flow.json("task", "claim", "plan", "t1", "--worker", "a", "--lease", "1h")
    env = {"SOURCE_DATE_EPOCH": "-5"}
    with time_machine.travel(CLOCKS[clock](time.time())):
        note = flow.json("note", "plan", "x", env=env)
        assert note["revision"] == first["revision"] + 1
        second = flow.run("task", "claim", "plan", "t1", "--worker", "b", "--json", env=env)
        if second.code == 0:
            done = ("task", "done", "plan", "t1", "--attempt", str(first["attempt"]))
            assert flow.run(*done, "--result", "late").code == 4
        else:
            assert second.code == 4
            assert second.error["details"]["holder"].startswith("a.")
        again = flow.json("note", "plan", "y", env=env)
    times = flow.git("log", "--format=%at %ct", "main").split()
    assert all(int(each) >= 0 for each in times)
    last = first if second.code else second.data
    flow("task", "done", "plan", "t1", "--attempt", str(last["attempt"]), "--result", "r")
    assert flow.run("task", "done", "plan", "t1", "--result", "other").code in (3, 4)
    assert flow.json("show", "plan")["flow"]["revision"] == again["revision"] + 1
