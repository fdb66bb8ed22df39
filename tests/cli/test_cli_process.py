"""What only a process of its own shows: the installed names, signals, and what is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clirun import SCRIPT, heeding_signals

# Slow to import, and no business of a verb that agents call hundreds of times a day.
HEAVY = {
    "asyncio",
    "dulwich.object_store",
    "dulwich.porcelain",
    "ghapi",
    "jsonschema",
    "pydantic",
    "pydantic_core",
    "rich",
}
DAILY = [
    ["update", "plan", "--progress", "x", "--key", "k"],
    ["note", "plan", "x"],
    ["show", "plan"],
    ["list"],
    ["brief"],
]
RUN_ALL = """
import json, sys
from gitflowstate.cli.app import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["gfs", *words]
    try:
        main()
    except SystemExit as leaving:
        codes.append(leaving.code)
print(json.dumps([codes, sorted(sys.modules)]))
"""


def test_the_script_answers_as_the_test_runner_does(flow):
    words = ("show", "plan", "--json")
    assert flow.process(*words) == flow.run(*words)
    words = ("note", "nope", "x")
    assert flow.process(*words) == flow.run(*words)


def test_three_names_are_one_command(gfs, flow):
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    env["PATH"] = f"{SCRIPT.parent}{os.pathsep}{env['PATH']}"
    told = [
        subprocess.run(words, env=env, capture_output=True, check=True).stdout.decode()
        for words in (["gitflowstate", "where"], ["git", "gfs", "where"])
    ]
    assert told == [gfs("where", env=env).out] * 2


def test_daily_verbs_import_nothing_heavy(flow):
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(DAILY)],
        env=os.environ | {"GFS_REPO": str(flow.folder)},
        capture_output=True,
        check=True,
    )
    codes, modules = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * len(DAILY)
    assert HEAVY.isdisjoint(modules)
    # The answers above were given: this is no list of modules of a command that did nothing.
    assert b"plan r2 running" in done.stdout
    assert "gitflowstate.store" in modules


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_with_its_code_and_one_document(flow, number, code, name):
    before = flow.head
    with heeding_signals():
        child = subprocess.Popen(
            [SCRIPT, "note", "plan", "-", "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"GFS_REPO": str(flow.folder)},
        )
    with child:
        try:
            _await_reading(child)
            child.send_signal(number)
            out, err = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == code
    error = json.loads(out)["error"]
    assert (error["code"], error["name"]) == (code, name)
    assert error["hint"] == "run the same command again"
    assert err == b""
    assert flow.head == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be seen")
def test_no_file_of_ours_becomes_a_standard_stream(flow):
    env = os.environ | {"GFS_REPO": str(flow.folder), "GFS": str(SCRIPT)}
    line = 'exec "$GFS" note plan - >&- 2>&-'
    with subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, env=env) as child:
        try:
            _await_reading(child)
            streams = [Path(f"/proc/{child.pid}/fd/{number}").readlink() for number in (1, 2)]
        finally:
            child.kill()
    assert streams == [Path(os.devnull)] * 2


def _await_reading(child):
    """Wait until a process reads its standard input: a pipe does not hold so much unread."""
    child.stdin.write(b"x" * 2**20)
    child.stdin.flush()


def test_a_bug_is_a_line_to_report_and_no_traceback(flow):
    code = (
        "import sys; from gitflowstate.cli import app, reading; "
        "reading.codec = None; sys.argv = ['gfs', 'show', 'plan', '--json']; app.main()"
    )
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=env, capture_output=True, check=False)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["name"], done.stderr) == (70, 70, "internal", b"")
    assert "a bug in gfs" in error["message"]
    assert "reading.py:" in error["message"]
    shown = subprocess.run(words, env=env | {"GFS_DEBUG": "1"}, capture_output=True, check=False)
    assert b"Traceback" in shown.stderr
