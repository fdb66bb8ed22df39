"""A record of an end that the supervisor of a process did not write is believed by nobody."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from processbench import CALL, ID, WAITS, record
from runlab import eventually, is_alive

from gitflowstate import runfiles, runlocks
from gitflowstate.runfiles import Exit

pytestmark = pytest.mark.usefixtures("on_paper")


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
    assert waiting.run(*CALL, "--detach", *WAITS).out.startswith(f"{ID} running")
    assert record(waiting)["state"] == "running"
    Path("fifo").write_text("x")
    assert waiting.run(*CALL, *WAITS) == (7, "x", "")
    assert (record(waiting)["state"], record(waiting)["exit_code"]) == ("failed", 7)


@pytest.mark.req("C-12", "R-TJ-07", "R-TJ-22")
@pytest.mark.parametrize("changed", [{"ticks": 1}, {"pid": 1}, {"pid": None, "ticks": None}])
def test_a_record_of_another_command_is_none(waiting, changed):
    holder, pid = runlocks.holder(waiting.gitdir, ID)["pid"], record(waiting)["pid"]
    os.kill(holder, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(holder))
    plant(waiting, **changed)
    assert waiting.run(*CALL, *WAITS).code == 7
    assert record(waiting)["state"] == "lost"
