"""J: processes whose holder sleeps, whose clock jumps, whose output goes away under a reader."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from gitrepo import child, code_of
from processbench import CALL, ID, WAITS, record, runs
from runlab import eventually

from gitflowstate import outputs, runfiles, runlocks
from gitflowstate.cli import config, managed
from gitflowstate.processmodel import Process

pytestmark = pytest.mark.usefixtures("on_paper")


@pytest.mark.req("J13", "X-40", "R-TJ-08")
def test_a_holder_that_sleeps_is_not_dead_however_long(waiting):
    holder = runlocks.holder(waiting.gitdir, ID)["pid"]
    os.kill(holder, signal.SIGSTOP)
    try:
        assert waiting.run(*CALL, "--detach", *WAITS).out.startswith(f"{ID} running")
        assert waiting.json("inbox", "--session", "s")["events"] == []
        waiting.refuses(4, "recover", ID, "--decide", "lost", "--reason", "it seems dead")
    finally:
        os.kill(holder, signal.SIGCONT)
    Path("fifo").write_text("x")
    assert waiting.run(*CALL, *WAITS) == (7, "x", "")
    assert runs() == 1


@pytest.mark.req("J14")
@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_ends_nothing_and_runs_nothing_twice(waiting, monkeypatch, days):
    now = config.time.time
    monkeypatch.setattr(config.time, "time", lambda: now() + days * 86_400)
    assert waiting.run(*CALL, "--detach", *WAITS).out.startswith(f"{ID} running")
    assert waiting.json("inbox", "--session", "s")["events"] == []
    Path("fifo").write_text("x")
    assert waiting.run("logs", ID, "-f").code == 0
    assert [event["event"] for event in waiting.json("inbox", "--session", "s")["events"]] == [ID]
    assert waiting.run(*CALL, *WAITS).code == 7
    assert runs() == 1
    assert waiting.run("verify").code == 0


@pytest.mark.req("R-TJ-23")
@pytest.mark.parametrize("change", ["truncated", "replaced", "removed"])
def test_what_becomes_of_an_output_under_a_reader_does_no_harm(waiting, change):
    output = Path(runfiles.run_folder(waiting.gitdir, ID)) / "output.000000000000000"
    Path("fifo").write_text("first\n")
    assert waiting.run(*CALL, *WAITS) == (7, "first\n", "")
    since = len("first\n")
    if change == "truncated":
        output.write_text("f")
        assert [*outputs.pieces(waiting.gitdir, ID, since)] == []
    elif change == "replaced":
        output.unlink()
        output.write_text("FIRST\nsecond\n")
        assert [*outputs.pieces(waiting.gitdir, ID, since)] == [(since, b"second\n")]
    else:
        outputs.expire(waiting.gitdir, ID)
        assert [*outputs.pieces(waiting.gitdir, ID, since)] == []
    assert record(waiting)["output_bytes"] == since


@pytest.mark.req("R-TJ-16", "R-TJ-17", "J17")
def test_output_that_is_removed_leaves_the_facts_also_when_that_is_killed(waiting):
    Path("fifo").write_text("x")
    assert waiting.run(*CALL, *WAITS).code == 7
    before = record(waiting)

    def dies():
        real, left = os.unlink, [2]

        def unlink(*given, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        os.unlink = unlink
        outputs.expire(waiting.gitdir, ID)

    assert code_of(child(dies)) == -signal.SIGKILL
    assert record(waiting) == before
    outputs.expire(waiting.gitdir, ID)
    assert not outputs.is_kept(waiting.gitdir, ID)
    assert waiting.run(*CALL, *WAITS) == (7, "", "")
    assert runs() == 1


def test_who_follows_ends_when_there_is_nothing_to_follow(waiting):
    Path("fifo").write_text("x")
    eventually(lambda: not runlocks.is_held(runlocks.lock_path(waiting.gitdir, ID)))
    outputs.expire(waiting.gitdir, ID)
    assert [*managed.follow(waiting.gitdir, Process(id=ID))] == []
