"""A supervisor and its client, and the processes between them: real ones, and no store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runlab import ID, SHELL, Run, ended, eventually, is_alive

from gitflowstate import capture, outputs, relay, runfiles, runlocks, supervisor
from gitflowstate.adapters import process
from gitflowstate.adapters.process import MAX_LIVE, Reserved
from gitflowstate.errors import Unavailable


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-04", "J9")
@pytest.mark.parametrize(
    ("script", "state", "code", "number"),
    [
        ("exit 0", "completed", 0, None),
        ("exit 7", "failed", 7, None),
        ("exit 137", "failed", 137, None),
        ("kill -9 $$", "failed", None, 9),
        ("kill -15 $$", "failed", None, 15),
    ],
)
def test_an_end_is_told_as_the_system_tells_it(tmp_path, script, state, code, number):
    end, run = ended(tmp_path, *SHELL, script)
    assert (end.state, end.exit_code, end.signal, end.sent) == (state, code, number, ())
    assert (end.pid, end.ticks) == (run.pid, run.ticks)
    assert end.started_at
    assert end.reason is None
    assert not run.folder.with_name("exit.new").exists()


@pytest.mark.req("J10")
@pytest.mark.parametrize(
    ("argv", "given", "code", "said"),
    [
        (["no-such-command"], {}, 127, "the command was not found"),
        (["./missing/command"], {}, 127, "the command was not found"),
        ([__file__], {}, 126, "the command cannot be executed: Permission denied"),
        (["/"], {}, 126, "the command cannot be executed: Permission denied"),
        (
            ["true", "x" * 200_000],
            {},
            126,
            "the command cannot be executed: Argument list too long",
        ),
        (["true", b"a\0b"], {}, 126, "the command cannot be executed: Invalid argument"),
        ([""], {}, 126, "the command cannot be executed: Invalid argument"),
        (
            ["true"],
            {"cwd": b"/no/such"},
            126,
            "its folder cannot be entered: No such file or directory",
        ),
    ],
)
def test_a_command_that_cannot_be_executed_has_failed(tmp_path, argv, given, code, said):
    end, _ = ended(tmp_path, *argv, **given)
    assert (end.state, end.exit_code, end.reason) == ("failed", code, said)


def test_a_command_is_searched_in_the_path_of_its_client(tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "a-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    end, run = ended(tmp_path, "a-tool")
    assert (end.state, run.out) == ("completed", b"found\n")


def test_a_command_has_nothing_of_its_supervisor(tmp_path):
    signals = "grep -E 'SigIgn|SigBlk|SigCgt' /proc/self/status"
    script = f"ls /proc/self/fd; {signals}; cat; ps -o sid= -p $$"
    _, run = ended(tmp_path, *SHELL, script)
    *descriptors, blocked, ignored, caught, session = run.out.decode().splitlines()
    assert descriptors == ["0", "1", "2", "3"]  # the last is that of ls itself
    ours = subprocess.run([*SHELL, signals], capture_output=True, text=True, check=True).stdout
    assert blocked == ours.splitlines()[0]
    # The C library keeps two for its threads, and ignores them in what it spawns.
    assert int(ignored.split()[1], 16) & ~(3 << 31) == 0
    assert caught == ours.splitlines()[2]
    assert int(session) == run.pid


@pytest.mark.req("C-12")
def test_its_environment_names_the_run_and_not_that_of_another(tmp_path, monkeypatch):
    monkeypatch.setenv("GFS_RUN", "/another")
    monkeypatch.setenv("GFS_PROCESS", "p-another")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    _, run = ended(tmp_path, *SHELL, 'echo "$GFS_PROCESS $GFS_RUN $PYTHONPATH"')
    assert run.out.decode().split() == [ID, str(run.folder), "/mine"]


# ── what must be had first ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("J12")
def test_one_holds_the_lock_until_its_supervisor_has_gone(tmp_path):
    run = Run(tmp_path, *SHELL, "exec cat fifo")
    os.mkfifo(tmp_path / "fifo")
    run.go()
    assert runfiles.fate(tmp_path, ID) is True
    with Reserved(tmp_path, ID, "s") as other:
        assert not other.take()
    told = runlocks.holder(tmp_path, ID)
    assert (told["session"], told["pid"]) == ("s", run.client.pid)
    (tmp_path / "fifo").write_bytes(b"x")
    assert run.end().state == "completed"
    assert runfiles.fate(tmp_path, ID).state == "completed"
    assert runlocks.is_held(runlocks.lock_path(tmp_path, ID)) is None


@pytest.mark.req("X-39")
def test_a_slot_is_had_before_anything_is_started_and_freed_by_the_kernel(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    runs = []
    for number in range(MAX_LIVE):
        run = Run(tmp_path, "cat", "fifo")
        with Reserved(tmp_path, f"p-{number}", "s") as reserved:
            assert reserved.take()
            run.folder.mkdir(parents=True, exist_ok=True)
            run.client = process.Supervised(reserved, passing=False)
            run.client.ask(run.request | {"holder": reserved.told})
        runs.append(run)
    with Reserved(tmp_path, "p-more", "s") as more, pytest.raises(Unavailable, match="the most"):
        more.take()
    os.kill(runs[3].client.pid, signal.SIGKILL)
    os.waitpid(runs[3].client.pid, 0)
    slot = f"{tmp_path}/{runfiles.SLOTS}/3"
    eventually(lambda: not runlocks.is_held(slot))  # its command, which was held back, has it too
    with Reserved(tmp_path, "p-more", "s") as more:
        assert more.take()
    for run in runs:
        run.client.close()


@pytest.mark.req("R-TJ-02", "R-TJ-09")
def test_nothing_runs_before_its_client_says_so(tmp_path):
    run = Run(tmp_path, "touch", "ran")
    pid, ticks = run.start()
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[19]) == ticks
    run.client.abort()
    end = run.end()
    assert (end.state, end.reason) == ("failed", supervisor.UNRECORDED)
    assert end.started_at is None
    assert not (tmp_path / "ran").exists()
    assert not is_alive(pid)


@pytest.mark.req("R-TJ-02")
def test_a_supervisor_that_is_asked_for_nothing_has_done_nothing(tmp_path):
    with Reserved(tmp_path, ID, "s") as reserved:
        assert reserved.take()
        client = process.Supervised(reserved, passing=True)
    assert runfiles.fate(tmp_path, ID) is True
    client.discard()
    assert runfiles.fate(tmp_path, ID) is False
    assert not (tmp_path / runfiles.RUNS).exists()


@pytest.mark.req("R-TJ-07", "R-TJ-09")
def test_a_supervisor_killed_before_go_takes_the_blocked_command_with_it(tmp_path):
    run = Run(tmp_path, "touch", "ran")
    pid, _ = run.start()
    os.kill(run.client.pid, signal.SIGKILL)
    assert run.end() is None
    eventually(lambda: not is_alive(pid))
    assert not (tmp_path / "ran").exists()
    assert runfiles.fate(tmp_path, ID) is False


def test_a_client_that_dies_before_it_has_said_what_to_do_leaves_nothing_behind(tmp_path):
    words = [sys.executable, "-I", "-S", "-c", process._CODE(root=process.ROOT)]
    reading, writing = os.pipe()
    told = [str(number) for number in (reading, -1, -1, -1, -1, -1)]
    child = subprocess.Popen([*words, *told], pass_fds=(reading,), cwd=tmp_path)
    os.close(reading)
    os.write(writing, b"\0\0\0")
    os.close(writing)
    assert child.wait() == 1
    assert [*tmp_path.iterdir()] == []


# ── being stopped ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-04")
def test_one_that_takes_too_long_is_ended_and_that_is_recorded(tmp_path):
    end, _ = ended(tmp_path, "sleep", "60", timeout_s=1)
    assert (end.state, end.signal, end.sent) == ("timed_out", 15, ("SIGTERM",))
    assert end.reason == "it ran for longer than 1 s"


@pytest.mark.req("J5", "J8", "X-37")
def test_what_ignores_term_is_killed_with_its_group_and_what_escaped_from_it(tmp_path):
    script = """
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ > escaped; while :; do sleep 1; done' &
sh -c 'trap "" TERM; echo $$ > grouped; while :; do sleep 1; done' &
echo $$ > leader; while :; do sleep 1; done
"""
    run = Run(tmp_path, *SHELL, script).go()
    names = ("escaped", "grouped", "leader")
    eventually(lambda: all(lines(tmp_path / name) for name in names))
    runfiles.cancel(str(run.folder), "cancelled by ann")
    end = run.end()
    assert (end.state, end.signal, end.sent) == ("cancelled", 9, ("SIGTERM", "SIGKILL"))
    assert end.reason == "cancelled by ann"
    assert not any(is_alive(int(*lines(tmp_path / name))) for name in names)


def test_one_that_ends_well_when_asked_to_is_cancelled_all_the_same(tmp_path):
    script = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    run = Run(tmp_path, *SHELL, script).go()
    eventually(lambda: outputs.tail(tmp_path, ID, 100) == "ready\n")
    runfiles.cancel(str(run.folder), "first\nreason")
    runfiles.cancel(str(run.folder), "second")
    end = run.end()
    assert (end.state, end.exit_code, end.signal) == ("cancelled", 0, None)
    assert (end.sent, end.reason) == (("SIGTERM",), "first reason")
    assert run.out == b"ready\ntidied\n"


@pytest.mark.req("X-38")
def test_one_that_is_cancelled_before_it_was_started_never_is(tmp_path):
    run = Run(tmp_path, "touch", "ran")
    run.folder.mkdir(parents=True)
    runfiles.cancel(str(run.folder), "cancelled by ann")
    assert run.start() is None
    end = run.end()
    assert (end.state, end.reason, end.started_at) == ("cancelled", "cancelled by ann", None)
    late = Run(tmp_path / "other", "touch", "ran", cwd=os.fsencode(tmp_path))
    late.start()
    runfiles.cancel(str(late.folder), "cancelled by bob")
    assert late.end().reason == "cancelled by bob"
    assert not (tmp_path / "ran").exists()


def test_a_supervisor_that_is_told_to_end_ends_its_command(tmp_path):
    run = Run(tmp_path, *SHELL, "echo ready; exec sleep 60").go()
    eventually(lambda: outputs.kept(tmp_path, ID).total)
    os.kill(run.client.pid, signal.SIGTERM)
    end = run.end()
    assert (end.state, end.signal) == ("cancelled", 15)
    assert end.reason == "its supervisor was told to end"


def test_a_supervisor_whose_folder_was_removed_does_not_stay(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    run = Run(tmp_path, "cat", "fifo").go()
    with (tmp_path / "fifo").open("wb") as fifo:  # which the command has opened: it runs
        outputs.expire(tmp_path, ID)
        fifo.write(b"x")
    end = run.end()
    assert (end.state, end.output_bytes) == ("completed", 1)
    assert runfiles.fate(tmp_path, ID) is None


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_terminal_that_goes_is_nothing_to_a_supervisor(tmp_path, number):
    run = Run(tmp_path, *SHELL, "echo $$ > pid; exec cat fifo")
    os.mkfifo(tmp_path / "fifo")
    run.go()
    assert os.getsid(run.client.pid) == run.client.pid
    os.kill(run.client.pid, number)
    (tmp_path / "fifo").write_bytes(b"x")
    assert run.end().state == "completed"


@pytest.mark.req("X-37")
def test_an_end_that_cannot_be_brought_about_is_said_not_to_be_confirmed(tmp_path, monkeypatch):
    code = f"import sys; sys.path.append({process.ROOT!r}); "
    code += "from gitflowstate import family, running, supervisor; "
    code += "running.GRACE_S = running.CONFIRM_S = 0.05; "
    code += "family.Family.send = lambda self, number: 0; supervisor.main()"
    monkeypatch.setattr(process, "_CODE", lambda **_: code)
    end, run = ended(tmp_path, "sleep", "60", timeout_s=1)
    assert (end.state, end.sent, end.exit_code, end.signal) == (
        "timed_out", ("SIGTERM", "SIGKILL"), None, None,
    )  # fmt: skip
    assert end.reason == "it ran for longer than 1 s; its termination is not confirmed"
    assert is_alive(run.pid)
    os.kill(run.pid, signal.SIGKILL)


# ── output ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-03", "X-35")
def test_output_is_passed_on_apart_and_kept_together(tmp_path):
    end, run = ended(tmp_path, *SHELL, "echo one; echo two >&2; printf '\\000\\377'")
    assert (run.out, run.err) == (b"one\n\0\xff", b"two\n")
    kept = b"".join(piece.data for piece in outputs.pieces(tmp_path, ID))
    assert sorted(kept) == sorted(run.out + run.err)
    assert (end.output_bytes, end.output_truncated) == (10, False)
    again = b"".join(piece.data for piece in outputs.pieces(tmp_path, ID))
    assert again == kept  # reading takes nothing away


@pytest.mark.req("J6")
def test_a_grandchild_that_holds_the_output_open_delays_the_end_shortly(tmp_path):
    script = "(while :; do echo more; sleep 0.1; done) & echo $! > child; echo main"
    end, run = ended(tmp_path, *SHELL, script)
    (pid,) = lines(tmp_path / "child")
    assert end.state == "completed"
    assert b"main\n" in run.out
    eventually(lambda: not is_alive(int(pid)))  # it writes to nobody now


@pytest.mark.req("J4")
def test_a_zombie_has_ended(tmp_path):
    run = Run(tmp_path, "true").go()
    eventually(lambda: not is_alive(run.pid))
    assert run.end().state == "completed"


def test_a_client_that_reads_slowly_holds_the_command_back_and_loses_nothing(tmp_path):
    run = Run(tmp_path, "head", "-c", "3000000", "/dev/zero").go()
    eventually(lambda: outputs.kept(tmp_path, ID).total > 0)
    end = run.end()
    assert (end.state, len(run.out)) == ("completed", 3_000_000)


@pytest.mark.req("J11")
def test_a_client_that_reads_no_more_holds_nothing_back(tmp_path):
    run = Run(tmp_path, "head", "-c", "3000000", "/dev/zero").go()
    end = run.client.end(lambda _: False, lambda _: False)
    assert (end.state, end.output_bytes) == ("completed", 3_000_000)
    run.client.settled()
    run.client.close()
    assert outputs.kept(tmp_path, ID).total == 3_000_000


@pytest.mark.req("J7", "X-36")
def test_output_beyond_the_cap_is_drained_and_counted(tmp_path):
    size = 5 * capture.SEGMENT + 12_345
    script = f"echo first; head -c {size} /dev/zero; echo last"
    end, run = ended(tmp_path, *SHELL, script, passing=False)
    assert (end.state, end.output_bytes) == ("completed", size + 11)
    assert end.output_truncated
    found = [*outputs.pieces(tmp_path, ID)]
    assert found[0].data.startswith(b"first\n")
    assert b"".join(piece.data for piece in found).endswith(b"\0last\n")  # however it came
    assert found[-1].offset + len(found[-1].data) == end.output_bytes
    on_disk = sum(path.stat().st_size for path in run.folder.glob("output.*"))
    assert 2 * capture.SEGMENT - relay.CHUNK <= on_disk < 4 * capture.SEGMENT


# ── what it is made of ──────────────────────────────────────────────────────────────────────────


OWN = {
    *("capture", "family", "identity", "relay", "runfiles", "runlocks", "running", "signals"),
    "spawning",
}
CHEAP = {"__future__", "errno", "fcntl", "marshal", "posix", "select", "sys", "time"}


def test_a_supervisor_imports_little_of_the_standard_library_and_nothing_else():
    code = f"import sys; before = {{*sys.modules}}; sys.path.append({process.ROOT!r}); "
    code += (
        "import gitflowstate.supervisor, gitflowstate.running; print(*({*sys.modules} - before))"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    own = {name.rpartition(".")[2] for name in told if name.startswith("gitflowstate.")}
    assert own == OWN | {"supervisor"}
    assert {name for name in told if not name.startswith("gitflowstate")} <= CHEAP


@pytest.mark.req("R-TJ-03")
def test_a_time_that_is_longer_than_the_system_can_wait_is_waited_for(tmp_path):
    found, run = ended(tmp_path, "sh", "-c", "sleep 0.1; echo out", timeout_s=2**31)
    assert (found.state, run.out) == ("completed", b"out\n")


@pytest.mark.req("J11")
def test_signals_that_the_caller_has_blocked_reach_supervisor_and_command(tmp_path):
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    try:
        run = Run(tmp_path, "sh", "-c", "grep SigBlk /proc/self/status; exec >&- 2>&-; exit 3")
        found = run.go().end()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert (found.exit_code, int(run.out.split()[1], 16)) == (3, 0)


# ── a disk that takes nothing ───────────────────────────────────────────────────────────────────

FULL = """
import os, sys
sys.path.append({root!r})
from gitflowstate import runfiles, supervisor
real, left = getattr(runfiles, {step!r}), {times!r}
def full(*given):
    global left
    left -= 1
    if left >= 0:
        raise OSError(28, os.strerror(28))
    return real(*given)
setattr(runfiles, {step!r}, full)
supervisor._RETRY_S = 0.001
supervisor.main()
"""


def fill(monkeypatch, step: str, times: int) -> None:
    """Have the disk of supervisors be full for so many times."""
    code = FULL.format(root=process.ROOT, step=step, times=times)
    monkeypatch.setattr(process, "_CODE", lambda **_: code)


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_without_room_for_the_record_of_its_end_a_command_is_not_started(tmp_path, monkeypatch):
    fill(monkeypatch, "reserve_exit", 1)
    run = Run(tmp_path, *SHELL, "echo ran")
    assert run.start() is None
    end = run.end()
    assert (end.state, end.exit_code, run.out) == ("failed", None, b"")
    assert end.reason == "there is no room for the record of its end: No space left on device"


@pytest.mark.req("R-TJ-12", "R-TJ-22")
def test_an_end_is_written_however_long_the_disk_is_full(tmp_path, monkeypatch):
    fill(monkeypatch, "write_exit", 200)
    nowhere = {"session": "s", "by": "ann", "trust": [], "view": "", "ref": "", "lock_timeout": 1}
    nowhere |= {"remote": "", "offline": False}
    run = Run(tmp_path, *SHELL, "exit 7", **nowhere).go()
    run.client.close()  # nobody says that it is recorded
    os.waitpid(run.client.pid, 0)
    assert runfiles.read_exit(tmp_path, ID).exit_code == 7


def test_a_supervisor_whose_folder_has_gone_goes_too(tmp_path):
    run = Run(tmp_path, *SHELL, 'rm -r "$GFS_RUN"').go()
    assert run.client.end(run._out, run._err).state == "completed"
    run.client.close()
    os.waitpid(run.client.pid, 0)  # at once, or the test takes too long
    assert not run.folder.exists()
