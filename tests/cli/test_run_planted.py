"""A record of an end that the supervisor of a process did not write is believed by nobody."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from runlab import eventually, is_alive

from gitflowstate import runfiles, runlocks
from gitflowstate.processmodel import process_id, process_path
from gitflowstate.runfiles import Exit
from gitflowstate.syscalls import calls

C = ("run", "--session", "s", "--call-id", "c")
ID = process_id("s", "c")
CAT = ("--", "sh", "-c", "cat fifo; exit 7")


@pytest.fixture(autouse=True)
def _on_paper(monkeypatch):
    """Nothing here is about power cuts, and a disk takes its time."""
    monkeypatch.setattr(calls, "fsync", lambda _: None)


@pytest.fixture
def waiting(cli, tmp_path, monkeypatch):
    """Return the command line, beside a process that waits for a byte in `fifo`."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    cli(*C, "--detach", *CAT)
    return cli


def record(cli) -> dict:
    """Return the document of the process, as C git reads it."""
    return json.loads(cli.git("show", f"main:{process_path('s', ID)}"))


def plant(cli, **changed) -> None:
    """Write a record of an end into the folder of the process, as its command may do."""
    told = record(cli)
    given = {"pid": told["pid"], "ticks": told["ticks"], "exit_code": 0} | changed
    end = Exit("completed", told["started_at"], started_at=told["started_at"], **given)
    runfiles.write_exit(runfiles.run_folder(cli.gitdir, ID), end)


@pytest.mark.req("C-12", "R-TJ-22")
@pytest.mark.parametrize("text", [None, "no record"])
def test_while_a_supervisor_lives_its_own_word_counts(waiting, text):
    plant(waiting)
    if text is not None:
        Path(runfiles.run_folder(waiting.gitdir, ID), runfiles.EXIT).write_text(text)
    assert waiting.json("inbox", "--session", "s")["events"] == []
    assert waiting.run(*C, "--detach", *CAT).out.startswith(f"{ID} running")
    assert record(waiting)["state"] == "running"
    Path("fifo").write_text("x")
    assert waiting.run(*C, *CAT) == (7, "x", "")
    assert (record(waiting)["state"], record(waiting)["exit_code"]) == ("failed", 7)


@pytest.mark.req("C-12", "R-TJ-07", "R-TJ-22")
@pytest.mark.parametrize("changed", [{"ticks": 1}, {"pid": 1}, {"pid": None, "ticks": None}])
def test_a_record_of_another_command_is_none(waiting, changed):
    holder, pid = runlocks.holder(waiting.gitdir, ID)["pid"], record(waiting)["pid"]
    os.kill(holder, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(holder))
    plant(waiting, **changed)
    assert waiting.run(*C, *CAT).code == 7
    assert record(waiting)["state"] == "lost"
