"""`gfs run`: the end of a process counts as told when somebody got it, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clirun import SCRIPT
from processbench import CALL, ID, record
from runlab import eventually

from gitflowstate import runlocks

pytestmark = pytest.mark.usefixtures("on_paper")


def due(cli, *words) -> list[str]:
    """Return the ends that the session has to be told of."""
    events = cli.json("inbox", "--peek", "--session", "s", *words)["events"]
    return [event["event"] for event in events]


@pytest.mark.req("X-32", "R-TJ-12")
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_end_that_was_the_answer_is_not_told_again(here, words):
    done = here.run(*CALL, *words, "--", "sh", "-c", "exit 3")
    assert done.code == 3
    assert due(here) == due(here, "--all") == []
    (told,) = here.json("ps", "--all")["processes"]
    assert told["told"]["seen"]


@pytest.mark.req("R-TJ-12", "C-10")
def test_an_end_whose_caller_was_killed_is_told(here):
    os.mkfifo("fifo")
    words = [str(SCRIPT), *CALL, "--", "sh", "-c", "echo begun; cat fifo; exit 3"]
    code = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *words], **pipes) as caller:
        assert caller.stdout.readline() == b"begun\n"
        caller.send_signal(signal.SIGKILL)
        caller.wait()
        Path("fifo").write_text("x")
        assert caller.stdout.read() == b"x"  # until the client has gone
    eventually(lambda: record(here)["state"] == "failed")
    assert record(here)["exit_code"] == 3
    assert due(here) == due(here, "--all") == [ID]


@pytest.mark.req("R-TJ-12", "C-10")
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_end_whose_reader_has_gone_is_told(here, words):
    reading, writing = os.pipe()
    client = subprocess.Popen([SCRIPT, *CALL, *words, "--", "sh", "-c", "exit 3"], stdout=writing)
    os.close(writing)
    os.close(reading)
    assert client.wait() == 3
    assert due(here) == [ID]


@pytest.mark.req("R-TJ-12", "C-10")
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_end_that_the_disk_does_not_take_is_told(here, words):
    with Path("/dev/full").open("wb") as full:
        script = "echo out; exit 3"
        subprocess.run(
            [SCRIPT, *CALL, *words, "--", "sh", "-c", script],
            stdout=full, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    eventually(lambda: not runlocks.is_held(runlocks.lock_path(here.gitdir, ID)))
    assert record(here)["exit_code"] == 3
    assert due(here) == [ID]
