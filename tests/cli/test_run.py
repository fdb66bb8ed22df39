"""`gfs run`, `gfs logs` and `gfs cancel`: real processes on a real repository."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from clirun import SCRIPT, heeding_signals, process
from flowrepo import put
from gitrepo import MAIN, become_nobody, child, code_of, git, let_others_in
from processbench import CALL, ID, record, runs
from runlab import eventually, is_alive

from gitflowstate import outputs, runfiles, runlocks
from gitflowstate.cli.launch import Launch
from gitflowstate.processmodel import process_id, process_path
from gitflowstate.syscalls import calls

pytestmark = pytest.mark.usefixtures("on_paper")


def steps(cli, process=ID) -> list[str]:
    """Return what was recorded of a process, oldest first."""
    subjects = cli.git("log", "--reverse", "--format=%s", "main").splitlines()
    return [s.split(":")[0].removeprefix(f"{process} run ") for s in subjects if process in s]


# ── in the foreground ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-03", "R-TJ-11", "R-TJ-20", "C-10")
def test_output_and_exit_code_pass_through_and_three_facts_are_recorded(here):
    done = here.run(*CALL, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done == (7, "out\n", "err\n")
    assert steps(here) == ["intend", "start", "settle"]
    told = record(here)
    assert (told["state"], told["exit_code"], told["returned"]) == ("failed", 7, True)
    assert (told["host"], told["cwd"]) == (socket.gethostname(), str(Path.cwd()))
    assert told["output_bytes"] == 8
    assert here.run("verify").code == 0


@pytest.mark.req("J9")
@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 137", 137), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_a_signal_is_128_and_its_number_and_nothing_is_said(here, script, code):
    assert here.run(*CALL, "--", "sh", "-c", script) == (code, "", "")
    told = record(here)
    assert ("exit_code" in told) == script.startswith("exit")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_that_could_not_be_passed_on_is_no_success(here, stream):
    call = [SCRIPT, *CALL, "--", "sh", "-c", "echo hi; echo hi >&2"]

    def done_with(words, **pipes):
        return subprocess.run(words, check=False, **pipes)

    with Path("/dev/full").open("wb") as full:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: full}
        done = done_with(call, **pipes)
        again = done_with(call, **pipes)  # which shows all on standard output
        logs = done_with([SCRIPT, "logs", ID], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert record(here)["state"] == "completed"
    assert logs.returncode == 1
    assert b"could not be written to standard output: No space left" in logs.stderr
    if stream == "stdout":
        said = f"warning: output of {ID} could not be passed on: No space left on device; gfs logs"
        assert done.stderr.decode().startswith("hi\n" + said)
        assert (again.returncode, again.stderr.decode()[: len(said)]) == (1, said)
    reading, writing = os.pipe()
    os.close(reading)
    unread = done_with(call, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (unread.returncode, unread.stderr) == (0, b"")


def test_under_json_there_is_one_document_and_the_exit_code_of_the_command(here):
    done = here.run(*CALL, "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.err) == (3, "")
    told = json.loads(done.out)
    assert told["ok"]
    assert told["data"] | {"state": "failed", "exit_code": 3, "repeated": False} == told["data"]
    assert sorted(told["data"]["output"].split()) == ["err", "out"]


@pytest.mark.req("J10")
def test_what_cannot_be_executed_has_failed_and_says_why(here):
    done = here.run(*CALL, "--", "no-such-command")
    assert (done.code, done.out) == (127, "")
    assert done.err == f"{ID} failed, exit code 127: the command was not found\n"
    assert record(here)["state"] == "failed"
    assert here.run("run", "--", "./run").code == 127
    assert here.run("run", "--", "true", "x" * 200_000).code == 126


def test_a_task_is_claimed_by_its_process_and_settled_with_it(here):
    here("create", "Build it", "--id", "f-1")
    here("task", "add", "f-1", "Compile", "--id", "t1")
    here("task", "add", "f-1", "Test", "--id", "t2")
    looks = f'{SCRIPT} task claim --json f-1 t1; echo "$GFS_FLOW $GFS_TASK_ID"'
    done = here.run("run", "--flow", "f-1", "--task", "t1", "--", "sh", "-c", looks)
    refused, told = done.out.splitlines()
    assert json.loads(refused)["error"]["code"] == 4
    assert told == "f-1 t1"
    one, two = here.flow("f-1")["children"]
    assert (one["status"], two["status"]) == ("done", "pending")
    assert one["result_ref"].startswith("process:p-")
    assert here.run("run", "--flow", "f-1", "--task", "t2", "--", "false").code == 1
    assert here.flow("f-1")["children"][1]["status"] == "failed"
    assert here.run("run", "--flow", "f-1", "--task", "t2", "--", "true").code == 3
    assert here.run("run", "--task", "t2", "--", "true").code == 3


def test_one_that_takes_too_long_is_ended(here):
    done = here.run(*CALL, "--timeout", "1s", "--", "sleep", "60")
    assert (done.code, done.out) == (124, "")
    told = record(here)
    assert (told["state"], told["sent"], told["timeout_s"]) == ("timed_out", ["SIGTERM"], 1)


@pytest.mark.req("J9")
def test_what_we_ended_is_no_success_whatever_it_makes_of_the_signal(here):
    script = "trap 'exit 0' TERM; echo begun; sleep 60 & wait"
    done = here.run(*CALL, "--timeout", "1s", "--", "sh", "-c", script)
    assert (done.code, record(here)["state"], record(here)["exit_code"]) == (124, "timed_out", 0)
    command = ("run", "--session", "s", "--call-id", "d", "--", "sh", "-c", script)
    other = process_id("s", "d")
    here(*command[:5], "--detach", *command[5:])
    eventually(lambda: here.run("logs", other).out)
    here("cancel", other)
    assert (record(here, other)["state"], record(here, other)["exit_code"]) == ("cancelled", 0)
    assert here.run(*command).code == 143


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run"], 2),
        (["run", "echo", "a"], 2),
        (["run", "echo", "a", "--", "b"], 2),
        (["work", "f-1", "true", "--", "b"], 2),
        (["run", "--timeout", "soon", "--", "true"], 2),
        (["run", "--session", "a\nb", "--", "true"], 3),
        (["run", "--flow", "f-none", "--", "true"], 5),
        (["run", "--", "echo", "ghp_" + "a1B2" * 9], 3),
        (["logs", "p-none"], 5),
        (["cancel", "p-none"], 5),
        (["cancel", ""], 2),
        (["logs", ""], 2),
        (["inbox", "--ack", ""], 2),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_started(here, words, code):
    here.refuses(code, *words)
    assert not (here.gitdir / runfiles.RUNS).exists()


def test_a_false_alarm_is_let_through_with_a_reason(here):
    secret = "ghp_" + "a1B2" * 9
    done = here.run("run", "--allow-secret", "a test", "--", "echo", secret)
    assert (done.code, done.out) == (0, f"{secret}\n")


@pytest.mark.req("J16")
def test_arguments_that_are_no_text_reach_the_command_as_they_are(here):
    words = [b"\xff\xfe", "ü", "tab\there", "line\nbreak", "", "$'x'"]
    call = ["run", "--call-id", "a/b\nc" + "x" * 10_000, "--", "printf", "%s|", *words]
    done = subprocess.run([SCRIPT, *call], capture_output=True, check=True)
    told = subprocess.run(["printf", "%s|", *words], capture_output=True, check=True).stdout
    assert done.stdout == told
    (folder,) = (here.gitdir / runfiles.RUNS).iterdir()
    assert b"".join(p.data for p in outputs.pieces(here.gitdir, folder.name)) == told


# ── the same call again ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-05", "R-TJ-10", "J1", "J17")
def test_the_same_call_again_gives_the_same_record_and_runs_nothing(here):
    command = ("--", "sh", "-c", "echo ran | tee -a ran; exit 5")
    first = here.run(*CALL, *command)
    again = here.run(*CALL, *command)
    assert first == again == (5, "ran\n", "")
    assert runs() == 1
    told = json.loads(here.run(*CALL, "--json", *command).out)["data"]
    assert (told["id"], told["repeated"], told["output"]) == (ID, True, "ran\n")
    left = here.run(*CALL, "--detach", *command)
    assert left == (0, f"{ID} failed, exit code 5\n", "")
    assert steps(here) == ["intend", "start", "settle"]


@pytest.mark.req("R-TJ-06")
def test_another_session_or_no_call_id_is_another_process(here):
    command = ("--", "sh", "-c", "echo ran >> ran")
    for words in (CALL, ("run", "--session", "t", "--call-id", "c"), ("run",), ("run",)):
        assert here.run(*words, *command).code == 0
    assert here.run("run", "--call-id", "c", *command, env={"GFS_SESSION": "s"}).code == 0
    assert runs() == 4


@pytest.mark.req("R-TJ-05")
def test_the_same_call_with_another_command_is_refused(here):
    here(*CALL, "--", "true")
    for words in (["false"], ["true", "x"]):
        assert here.refuses(4, *CALL, "--", *words)["details"]["process"] == ID
    assert here.refuses(4, *CALL, "--manual", "--", "true")


@pytest.mark.req("R-TJ-05", "J1", "J12")
def test_many_who_make_one_call_at_once_share_one_process(here):
    words = [SCRIPT, *CALL, "--", "sh", "-c", "echo ran >> ran; sleep 0.3; echo out"]
    started = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    assert [each.communicate() for each in started] == [(b"out\n", b"")] * 4
    assert {each.returncode for each in started} == {0}
    assert runs() == 1
    assert steps(here) == ["intend", "start", "settle"]


# ── left to itself ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-01", "R-TJ-15")
def test_one_that_is_left_runs_on_and_its_supervisor_records_the_end(here):
    os.mkfifo("fifo")
    done = here.run(*CALL, "--detach", "--", "sh", "-c", "cat fifo; exit 7")
    assert done == (0, f"{ID} running\nnext: gfs logs {ID} -f\n", "")
    told = record(here)
    assert (told["state"], is_alive(told["pid"])) == ("running", True)
    assert os.getsid(told["pid"]) == told["pid"]
    Path("fifo").write_text("hello\n")
    eventually(lambda: record(here)["state"] != "running")
    assert (record(here)["exit_code"], "returned" in record(here)) == (7, False)
    eventually(lambda: not [*(here.gitdir / runlocks.LOCKS).iterdir()])
    assert here.run("logs", ID) == (0, "hello\n", "")
    assert here.run("verify").code == 0
    assert not [*here.gitdir.rglob("supervisor.log")]


def test_what_is_left_running_holds_nothing_of_its_caller(here):
    os.mkfifo("fifo")
    reading, writing = os.pipe()
    words = [SCRIPT, *CALL, "--detach", "--", "cat", "fifo"]
    subprocess.run(words, capture_output=True, check=True, pass_fds=(writing,))
    os.close(writing)
    assert os.read(reading, 1) == b""  # and so does standard output, or the run would not return
    os.close(reading)
    Path("fifo").write_text("x")
    assert here.run(*CALL, "--", "cat", "fifo") == (0, "x", "")


def test_files_of_a_run_whose_record_is_gone_are_none_of_the_next(here):
    before = here.head
    command = ("--", "sh", "-c", "echo ran >> ran; wc -l < ran; exit $(wc -l < ran)")
    assert here.run(*CALL, *command) == (1, "1\n", "")
    git(here.gitdir, "update-ref", MAIN, before)  # a person goes back
    assert here.run(*CALL, *command) == (2, "2\n", "")
    assert here.run("logs", ID).out == "2\n"
    assert record(here)["exit_code"] == 2


@pytest.mark.req("X-38")
def test_one_that_is_cancelled_while_it_is_started_never_runs(here, monkeypatch):
    real = Launch._request

    def cancelled(launch, folder):
        process = here.process("ps", "--all")  # what others see now
        assert process.out.startswith(f"{ID} starting")
        runfiles.cancel(folder, "cancelled by ann")
        return real(launch, folder)

    monkeypatch.setattr(Launch, "_request", cancelled)
    done = here.run(*CALL, "--", "sh", "-c", "echo ran >> ran")
    assert done == (143, "", f"{ID} cancelled: cancelled by ann\n")
    assert steps(here) == ["intend", "settle"]
    assert runs() == 0


def test_the_view_shows_what_a_supervisor_has_recorded(here):
    here("create", "Build it", "--id", "f-1")
    here("task", "add", "f-1", "Compile", "--id", "t1")
    here(*CALL, "--detach", "--flow", "f-1", "--task", "t1", "--", "true")
    (file,) = here.folder.glob("flows/*/f-1.json")
    eventually(lambda: json.loads(file.read_text())["children"][0]["status"] == "done")
    assert here.flow("f-1")["children"][0]["status"] == "done"


@pytest.mark.req("J11")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_client_that_is_ended_changes_nothing_for_the_process(here, number):
    os.mkfifo("fifo")
    words = [SCRIPT, *CALL, "--", "sh", "-c", "echo begun; cat fifo; exit 7"]
    with heeding_signals():
        client = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert client.stdout.readline() == b"begun\n"
    client.send_signal(number)
    _, err = client.communicate()
    if number in (signal.SIGINT, signal.SIGTERM):
        code, name = (130, "interrupted") if number == signal.SIGINT else (143, "terminated")
        assert client.returncode == code
        assert err.decode().splitlines()[0] == f"error: {name}; {ID} goes on"
    else:
        assert client.returncode == -number
    assert record(here)["state"] == "running"
    Path("fifo").write_text("more\n")
    again = here.run(*CALL, "--", *words[-3:])
    assert again == (7, "begun\nmore\n", "")


@pytest.mark.req("X-30")
def test_manual_is_recorded(here):
    here(*CALL, "--manual", "--", "true")
    assert record(here)["notify"] == "manual"


# ── when nothing can be recorded ────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_where_the_repository_cannot_be_written_nothing_is_started(here, tmp_path):
    os.mkfifo("fifo")
    let_others_in(tmp_path / "x")
    tmp_path.chmod(0o777)
    here(*CALL, "--detach", "--", "cat", "fifo")
    pid = record(here)["pid"]

    def others():
        become_nobody()
        os.environ["GFS_TRUST"] = str(here.folder)
        assert here.run("run", "--", "sh", "-c", "echo ran >> ran").code == 77
        assert here.run("logs", ID).code == 0
        assert here.run("show", "none").code == 5

    assert code_of(child(others)) == 0
    assert runs() == 0
    assert is_alive(pid)
    assert here.run("cancel", ID).code == 0
    assert not is_alive(pid)


@pytest.mark.req("X-39")
def test_where_eight_run_nothing_more_is_started_and_known_calls_are_answered(here):
    here(*CALL, "--", "true")
    slots = [f"{here.gitdir}/{runfiles.SLOTS}/{number}" for number in range(8)]
    eventually(lambda: not any(runlocks.is_held(slot) for slot in slots))
    held = [runlocks.hold(slot) for slot in slots]
    assert min(held) > 0
    told = here.refuses(75, "run", "--", "sh", "-c", "echo ran >> ran")
    assert told["details"]["next"] == ["gfs", "ps"]
    assert "gfs cancel PROCESS" in told["hint"]
    assert here.run(*CALL, "--", "true").code == 0
    os.close(held.pop())
    assert here.run("run", "--", "true").code == 0
    for descriptor in held:
        os.close(descriptor)
    assert runs() == 0


@pytest.mark.req("R-TJ-02", "R-TJ-21")
@pytest.mark.parametrize(("fails", "recorded"), [(1, []), (2, ["intend", "settle"])])
def test_a_start_that_cannot_be_recorded_is_none(here, monkeypatch, fails, recorded):
    moved = []

    def renamed(source, target):
        if str(target).endswith("refs/heads/main"):
            moved.append(target)
            if len(moved) == fails:
                raise OSError(28, "No space left on device")
        os.rename(source, target)  # noqa: PTH104  what it stands for

    with monkeypatch.context() as full:
        full.setattr(calls, "rename", renamed)
        assert here.run(*CALL, "--", "sh", "-c", "echo ran >> ran").code == 75
    eventually(lambda: not runlocks.is_held(runlocks.lock_path(here.gitdir, ID)))
    assert runs() == 0
    assert steps(here) == recorded
    if recorded:
        told = record(here)
        assert (told["state"], "started_at" in told) == ("failed", False)
        assert told["reason"] == "its start could not be recorded, so it was not started"


@pytest.mark.req("X-42", "R-TJ-12")
def test_an_end_that_cannot_be_recorded_waits_and_so_does_every_new_start(here):
    in_the_way = here.gitdir / "refs/heads/main.lock"
    command = ("--", "sh", "-c", f"echo ran >> ran; touch {in_the_way}; exit 7")
    soon = {"GFS_LOCK_TIMEOUT": "0.1"}
    done = here.run(*CALL, *command, env=soon)
    assert (done.code, done.out) == (75, "")
    assert "its end is not recorded yet" in done.err
    assert here.run("run", "--", "sh", "-c", "echo ran >> ran", env=soon).code == 75
    eventually(lambda: not runlocks.is_held(runlocks.lock_path(here.gitdir, ID)))
    assert here.run("run", "--", "sh", "-c", "echo ran >> ran", env=soon).code == 75
    assert (runs(), record(here)["state"]) == (1, "running")
    in_the_way.unlink()
    assert ID in here.run("inbox", "--session", "s").out
    assert (record(here)["state"], record(here)["exit_code"]) == ("failed", 7)
    assert steps(here) == ["intend", "start", "settle"]
    assert runs() == 1


# ── being ended ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-04", "X-37")
def test_cancel_ends_it_and_says_so_and_again_says_the_same(here):
    here(*CALL, "--detach", "--", "sh", "-c", "echo begun; exec sleep 60")
    pid = record(here)["pid"]
    eventually(lambda: here.run("logs", ID).out)
    done = here.run("cancel", ID[:6], "--as", "ann")
    assert done == (0, f"{ID} cancelled by SIGTERM: cancelled by ann\n", "")
    assert not is_alive(pid)
    assert record(here)["sent"] == ["SIGTERM"]
    again = here.run("cancel", ID)
    assert again.out == f"{ID} cancelled by SIGTERM: cancelled by ann (it had ended before)\n"
    assert steps(here) == ["intend", "start", "settle"]


@pytest.mark.req("R-TJ-04")
def test_cancel_leaves_what_has_completed(here):
    here(*CALL, "--", "true")
    data = here.json("cancel", ID)
    assert (data["state"], data["repeated"]) == ("completed", True)
    assert steps(here) == ["intend", "start", "settle"]


def orphaned(
    cli, script="trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", words=()
) -> int:
    """Leave a command whose supervisor was killed; return its pid."""
    cli(*CALL, *words, "--detach", "--", "sh", "-c", script)
    eventually(lambda: Path("pid").exists() and Path("pid").read_text())
    holder = runlocks.holder(cli.gitdir, ID)
    os.kill(holder["pid"], signal.SIGKILL)
    eventually(lambda: not is_alive(holder["pid"]))
    return record(cli)["pid"]


@pytest.mark.req("R-TJ-07", "J11")
def test_what_a_dead_supervisor_left_is_lost_and_ended_by_cancel(here):
    pid = orphaned(here)
    assert is_alive(pid)
    data = here.json("cancel", ID)
    assert (data["state"], data["orphans"] >= 1) == ("lost", True)
    assert data["reason"] == "its supervisor died before it had recorded an end"
    assert not is_alive(pid)
    assert here.json("cancel", ID)["orphans"] == 0


@pytest.mark.req("R-TJ-07", "J11")
def test_what_a_dead_supervisor_left_running_is_said_wherever_its_end_is(here):
    here("create", "Build it", "--id", "f-1")
    here("task", "add", "f-1", "Compile", "--id", "t1")
    orphaned(here, words=("--flow", "f-1", "--task", "t1"))
    told = f"of its processes still run on this machine: gfs cancel {ID} ends them"
    assert told in here("inbox", "--session", "s")
    (event,) = here.json("inbox", "--session", "s")["events"]
    assert event["orphans"] >= 1
    assert told in here("recover", "f-1")
    assert told in here("recover", ID)
    assert told in here("why", "f-1", "t1")
    here("cancel", ID)
    assert told not in here("inbox", "--session", "s")
    assert told not in here("recover", "f-1")
    assert here.json("recover", ID)["orphans"] == 0


@pytest.mark.req("J2", "C-12", "R-TJ-08")
def test_a_pid_that_is_anothers_by_now_is_never_signalled(here):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    orphan = orphaned(here)
    os.kill(orphan, signal.SIGKILL)
    eventually(lambda: not is_alive(orphan))
    told = record(here) | {"pid": stranger.pid}
    commit(here, put(process_path("s", ID), told))
    assert here.json("cancel", ID)["state"] == "lost"
    assert here.json("cancel", ID)["orphans"] == 0
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def commit(cli, change) -> None:
    """Commit a change by hand."""
    from flowrepo import imported

    imported(cli.gitdir, change)


@pytest.mark.req("R-TJ-08", "C-12")
def test_what_runs_elsewhere_is_as_last_recorded_and_is_not_touched(here, tmp_path):
    os.mkfifo("fifo")
    here(*CALL, "--detach", "--", "cat", "fifo")
    pid = record(here)["pid"]
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "--mirror", here.gitdir, other)
    process("init", tmp_path / "copy")
    copy = type(here)(tmp_path / "copy")
    git(copy.gitdir, "fetch", "-q", here.gitdir, f"+{MAIN}:{MAIN}")
    assert copy.refuses(4, "cancel", ID)["details"]["host"] == socket.gethostname()
    assert copy.refuses(5, "logs", ID)
    assert copy.refuses(8, *CALL, "--", "cat", "fifo")["details"]["process"] == ID
    assert copy.run(*CALL, "--detach", "--", "cat", "fifo").out.startswith(f"{ID} running")
    assert is_alive(pid)
    Path("fifo").write_text("x")
    assert here.run(*CALL, "--", "cat", "fifo").code == 0


@pytest.mark.req("A13", "C-12")
@pytest.mark.parametrize("host", [socket.gethostname(), "another"])
def test_another_boot_of_this_host_is_lost_at_once_and_of_another_is_not(here, host):
    orphan = orphaned(here)
    os.kill(orphan, signal.SIGKILL)
    told = record(here) | {"boot_id": "another", "host": host}
    commit(here, put(process_path("s", ID), told))
    done = here.run(*CALL, "--", *told["argv"])
    if host == "another":
        assert done.code == 8
        assert record(here)["state"] == "running"
    else:
        assert done.code == 7
        assert record(here)["reason"] == "its host was started again before an end was recorded"
    assert len(Path("pid").read_text().splitlines()) == 1


# ── what it wrote ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("X-35")
def test_logs_follow_until_the_end_and_reading_takes_nothing_away(here):
    os.mkfifo("fifo")
    here(*CALL, "--detach", "--", "sh", "-c", "echo one; cat fifo")
    words = [SCRIPT, "logs", ID, "-f"]
    readers = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    assert [reader.stdout.readline() for reader in readers] == [b"one\n"] * 2
    assert here.run("logs", ID) == (0, "one\n", "")
    Path("fifo").write_text("two\n")
    assert [reader.communicate()[0] for reader in readers] == [b"two\n"] * 2
    data = here.json("logs", ID)
    assert (data["output"], data["bytes"]) == ("one\ntwo\n", 8)


def test_logs_say_what_lies_between_the_first_part_and_the_last(here):
    from gitflowstate.capture import SEGMENT

    script = f"echo first; head -c {4 * SEGMENT} /dev/zero; echo last"
    here(*CALL, "--detach", "--", "sh", "-c", script)
    eventually(lambda: record(here)["state"] == "completed")
    told = record(here)
    assert (told["output_bytes"], told["output_truncated"]) == (4 * SEGMENT + 11, True)
    done = here.process("logs", ID)
    assert done.out.startswith("first\n")
    assert done.out.endswith("\0last\n")
    assert done.err.endswith("bytes are not kept ...\n")


def test_logs_of_what_was_removed_says_so(here):
    here(*CALL, "--", "echo", "x")
    assert outputs.expire(here.gitdir, ID) > 0
    assert "was removed" in here.refuses(5, "logs", ID)["message"]
    assert outputs.expire(here.gitdir, ID) == 0
    assert here.run(*CALL, "--", "echo", "x") == (0, "", "")  # its record stays
