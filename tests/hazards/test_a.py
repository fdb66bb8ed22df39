"""Hazard A3: killed after the commit is in place and before anybody is told."""

from __future__ import annotations

import itertools
import os
import signal

import pytest
from clirun import here
from gitrepo import child, code_of

from gitflowstate.syscalls import calls


def killed_after_publishing(cli, number, *words):
    """Run a command in a child that dies at call `number` after the ref moved.

    Returns whether it died; it has printed nothing then.
    """

    def work():
        real = dict(vars(calls))
        after = itertools.count()
        moved = []

        def through(name, call):
            def called(*arguments):
                if moved and next(after) == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = call(*arguments)
                if name == "rename" and str(arguments[-1]).endswith("refs/heads/main"):
                    moved.append(1)
                return result

            return called

        for name, call in real.items():
            setattr(calls, name, through(name, call))
        assert here(*words, env={"GFS_REPO": str(cli.folder)}).code == 0
        assert moved

    code = code_of(child(work))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def check_repeat(cli, number, *words):
    """Kill a command at a call after the ref moved; the repeat must find its one commit."""
    before = int(cli.git("rev-list", "--count", "main"))
    died = killed_after_publishing(cli, number, *words)
    for file in cli.gitdir.glob("gfs-ref-*"):
        os.utime(file, (0, 0))  # so that the next writer need not wait to sweep it
    told = cli.json(*words)
    assert told["repeated"]
    cli.flow(told["id"])  # the plain file shows it
    assert int(cli.git("rev-list", "--count", "main")) == before + 1
    trailers = "%(trailers:key=Flow,valueonly,separator=)%(trailers:key=Revision,valueonly)"
    assert f"{told['id']}{told['revision']}" == cli.git("log", "-1", f"--format={trailers}", "main")
    return died


@pytest.mark.req("A3", "R-TF-14")
def test_a3_at_every_call_the_repeat_under_its_key_finds_the_one_commit(flow):
    number = 0
    while check_repeat(flow, number, "note", "plan", f"x{number}", "--key", f"k{number}"):
        number += 1
    assert number >= 10
    notes = [note["text"] for note in flow.flow("plan")["notes"]]
    assert notes == [f"x{each}" for each in range(number + 1)]


@pytest.mark.req("A3", "R-TF-14")
@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize(
    "words",
    [
        ("update", "plan", "--progress", "x", "--expect", "1"),
        ("done", "plan", "--result", "r", "--expect", "1"),
        ("create", "Another goal"),
    ],
    ids=lambda words: words[0],
)
def test_a3_so_does_the_repeat_of_any_verb(flow, words, number):
    assert check_repeat(flow, number, *words, "--key", "k")
    assert flow.run("note", "plan", "more").code == (3 if words[0] == "done" else 0)
    assert flow.json(*words, "--key", "k")["repeated"]


@pytest.mark.req("A3")
def test_a3_without_a_key_the_repeat_of_a_state_changes_nothing(flow):
    assert killed_after_publishing(flow, 0, "update", "plan", "--progress", "x")
    assert flow("update", "plan", "--progress", "x") == "plan r2 running (unchanged)\n"
