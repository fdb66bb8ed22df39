"""The executor that runs commands: real ones, in groups of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gitflowstate.adapters import command
from gitflowstate.adapters.command import MAX_ENVIRONMENT_BYTES, TAIL_BYTES, CommandExecutor
from gitflowstate.model import Task
from gitflowstate.ports import Job, Result

GONE = 30  # seconds in which what was killed has surely gone


def job(name: str = "t1", **fields) -> Job:
    """Return a claimed task as a worker hands it over."""
    task = Task(**{"id": name, "goal": "do it", "status": "pending"} | fields)
    return Job("f-1", task, 7, {"t0": "out/t0.md"})


def sh(script: str, template: str | None = None, **fields) -> Result:
    """Return what came of a shell script."""
    return CommandExecutor(["sh", "-c", script], template).run(job(**fields))


def python(script: str, *arguments, **fields) -> Result:
    """Return what came of a Python script."""
    return CommandExecutor([sys.executable, "-c", script, *map(str, arguments)]).run(job(**fields))


def done(text: str) -> Result:
    return Result(ok=True, text=text, outcome="completed")


def failed(text: str, outcome: str = "errored") -> Result:
    return Result(ok=False, text=text, outcome=outcome)


def wait_until_gone(pid: int) -> None:
    """Wait until a process that is no child of ours has gone; fail if it stays."""
    deadline = time.monotonic() + GONE
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return  # nobody here reaps it
        except FileNotFoundError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} still runs")


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("echo out/a.md", done("out/a.md")),
        ("echo first; echo; echo '  last  one '; echo; echo ' '", done("last one")),
        ("printf no-newline", done("no-newline")),
        ("printf 'a\\r\\nb\\r\\n'", done("b")),
        ("true", done("none")),
        ("echo; echo ' '", done("none")),
        ("printf 'a\\033[31mb\\n'", done("none")),
        ("printf '\\377\\n'", done("\ufffd")),
        ("echo seen >&2; echo out", done("out")),
        ("echo out; exit 3", failed("exit code 3")),
        ("exit 255", failed("exit code 255")),
        ("kill -KILL $$", failed("killed by signal 9")),
        ("kill -TERM $$", failed("killed by signal 15")),
    ],
)
def test_the_exit_code_decides_and_the_last_line_names_the_result(script, result):
    assert sh(script) == result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-command-anywhere"], "cannot be started: No such file or directory"),
        (["/etc/passwd"], "cannot be started: Permission denied"),
        (["/"], "cannot be started: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_has_failed(words, said):
    assert CommandExecutor(words).run(job()) == failed(said)


def test_a_very_long_line_is_cut_to_a_reference():
    assert sh("head -c 5000 /dev/zero | tr '\\0' x") == done("x" * 2048)


@pytest.mark.req("X-04")
def test_a_secret_in_the_last_line_is_not_recorded():
    assert sh("echo token ghp_" + "a1B2" * 9) == done("none")


@pytest.mark.req("X-04")
def test_the_output_of_a_failure_is_not_recorded():
    assert sh("echo the password is hunter2; exit 1") == failed("exit code 1")


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("out/{flow}/{id}.{attempt}.md", "out/f-1/t1.7.md"),
        ("fixed", "fixed"),
        ("{unknown} {id}", "{unknown} t1"),
        (" ", "none"),
    ],
)
def test_a_template_names_the_result_instead(template, result):
    assert sh("echo ignored", template) == done(result)


# ── what goes in ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-25")
def test_the_task_is_on_standard_input_and_in_the_environment():
    script = (
        "import json, os, sys\n"
        "told = json.load(sys.stdin)\n"
        "assert json.loads(os.environ['GFS_TASK']) == told\n"
        "env = [os.environ[n] for n in ('GFS_FLOW', 'GFS_TASK_ID', 'GFS_ATTEMPT')]\n"
        "assert env == [told['flow'], told['task']['id'], str(told['attempt'])]\n"
        "print(json.dumps(told))\n"
    )
    result = python(script, goal="Grüße 😀\nzwei", deps=("t0",), priority=2)
    assert json.loads(result.text) == {
        "flow": "f-1",
        "attempt": 7,
        "results": {"t0": "out/t0.md"},
        "task": {
            "id": "t1",
            "goal": "Grüße 😀\nzwei",
            "status": "pending",
            "deps": ["t0"],
            "priority": 2,
        },
    }


@pytest.mark.parametrize(("size", "there"), [(1000, True), (MAX_ENVIRONMENT_BYTES, False)])
def test_a_huge_task_is_on_standard_input_alone(size, there, monkeypatch):
    monkeypatch.setenv("GFS_TASK", "of somebody else")
    script = (
        "import json, os, sys\n"
        "told = json.load(sys.stdin)\n"
        "print(len(told['task']['goal']), 'GFS_TASK' in os.environ)\n"
    )
    assert python(script, goal="g" * size) == done(f"{size} {there}")


def test_a_command_that_reads_nothing_is_not_held_up_by_a_large_task():
    assert sh("echo out", goal="g" * 1_000_000) == done("out")


def test_the_locale_has_no_say_in_what_a_task_may_hold():
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_command_executor import sh\n"
        "print(ascii(sh('printf %s \"$GFS_TASK\"', goal='\\u00fc \\U0001f600').text))\n"
    )
    env = os.environ | {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", script, *sys.path],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "\\xfc \\U0001f600" in ran.stdout


# ── output ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("X-36")
def test_output_past_the_tail_is_drained_and_dropped():
    """A pipe holds 64 KiB: a command whose output nobody read would never end."""
    assert sh("yes line | head -c 20000000; echo; echo out") == done("out")


def test_only_the_tail_is_kept():
    script = f"import sys; sys.stdout.write('first\\n' + 'x' * {2 * TAIL_BYTES} + '\\nlast\\n')"
    assert python(script) == done("last")


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_result(monkeypatch):
    monkeypatch.setattr(command, "AFTER_EXIT_S", 0.2)
    result = sh("sleep 1000 & echo $! ; exit 0")
    os.kill(int(result.text), signal.SIGKILL)
    assert result.ok


# ── groups ──────────────────────────────────────────────────────────────────────────────────────

# Writes its own pid and that of a grandchild to a file; both ignore TERM if they are to.
STUBBORN = {
    "obey": "sleep 1000 & echo $$ $! > $1.new; mv $1.new $1; wait",
    "ignore": "trap '' TERM; sleep 1000 & echo $$ $! > $1.new; mv $1.new $1; wait; wait",
}


def stubborn(how: str, path) -> list[str]:
    return ["sh", "-c", STUBBORN[how], "sh", str(path)]


@pytest.mark.req("R-TS-27", "X-37")
@pytest.mark.parametrize("how", ["obey", "ignore"])
def test_a_task_that_takes_too_long_ends_with_all_its_children(tmp_path, how, monkeypatch):
    monkeypatch.setattr(command, "GRACE_S", 0.2)
    told = tmp_path / "pids"
    executor = CommandExecutor(stubborn(how, told))
    assert executor.run(job(timeout_s=2)) == failed("timed out after 2 s", "timed_out")
    for pid in map(int, told.read_text().split()):
        wait_until_gone(pid)


@pytest.mark.req("X-37")
@pytest.mark.parametrize("how", ["obey", "ignore"])
def test_stop_ends_every_group_and_starts_no_more(tmp_path, how, monkeypatch):
    monkeypatch.setattr(command, "GRACE_S", 0.2)
    files = [tmp_path / str(number) for number in range(3)]
    # One command for every job: which file a job writes is in its id.
    executor = CommandExecutor(["sh", "-c", f"set -- {tmp_path}/$GFS_TASK_ID; {STUBBORN[how]}"])
    results = []

    def run(name):
        results.append(executor.run(job(name)))

    threads = [threading.Thread(target=run, args=(path.name,)) for path in files]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + GONE
    while not all(path.exists() for path in files):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    executor.stop()
    for thread in threads:
        thread.join(GONE)
    assert [result.ok for result in results] == [False] * 3
    for path in files:
        for pid in map(int, path.read_text().split()):
            wait_until_gone(pid)
    assert executor._running == set()
    assert executor.run(job()) == failed("cannot be started: stopping")


def test_a_signal_to_our_own_group_does_not_reach_a_task():
    """So that Ctrl-C ends a worker in order, and not its tasks under it."""
    assert int(sh("ps -o pgid= -p $$").text) != os.getpgid(0)


def test_nothing_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for script in ("echo out", "exit 1", "yes | head -c 1000000"):
        sh(script)
    deadline = time.monotonic() + GONE
    while len(os.listdir("/proc/self/fd")) > before:  # noqa: PTH208
        assert time.monotonic() < deadline
        time.sleep(0.01)
