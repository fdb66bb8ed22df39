"""Upkeep by the way: who stays packs the repository while idle; no command of an agent does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import zlib

import pytest
from clirun import SCRIPT, heeding_signals
from gitrepo import fsck, in_front

from gitflowstate import upkeep
from gitflowstate.objects import header, object_id

LATER = "2099-01-01T00:00:00Z"
SAID = "packed the repository while idle: "
MANY = 10_000


def crowded(cli) -> None:
    """Store so many objects that a repository full of them would be worth packing."""
    folder = cli.gitdir / "objects/17"
    folder.mkdir(exist_ok=True)
    made = 0
    for number in range(MANY):
        body = b"%d" % number
        oid = object_id("blob", body)
        if oid.startswith("17"):
            (folder / oid[2:]).write_bytes(zlib.compress(header("blob", body) + body))
            made += 1
    assert made * 256 > upkeep.MANY_LOOSE


def packs(cli) -> int:
    return len([*cli.gitdir.glob("objects/pack/*.pack")])


@pytest.fixture
def later(flow):
    """Return the command line on a flow with one task for now and one for much later."""
    tasks = [{"id": "t1", "goal": "now"}, {"id": "t2", "goal": "later", "not_before": LATER}]
    flow("plan", "plan", "-", stdin=json.dumps(tasks).encode())
    return flow


class Staying:
    """A process that stays, and what it says on standard error."""

    def __init__(self, cli, *words, **env):
        self.path = cli.folder.parent / "said"
        environ = os.environ | {"GFS_REPO": str(cli.folder)} | env
        with self.path.open("wb") as err, heeding_signals():
            self.process = subprocess.Popen(
                [SCRIPT, *words], env=environ, stdout=subprocess.DEVNULL, stderr=err
            )

    def until(self, met) -> None:
        deadline = time.monotonic() + 60
        while not met():
            assert self.process.poll() is None, self.path.read_text()
            assert time.monotonic() < deadline, self.path.read_text()
            time.sleep(0.02)

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return self.path.read_text()


def is_done(cli, task="t1"):
    return cli.json("show", "plan")["tasks"][task] == "done"


def test_a_worker_that_waits_packs_once_and_goes_on(later):
    crowded(later)
    staying = Staying(later, "work", "plan", "--", "true")
    staying.until(lambda: SAID in staying.path.read_text())
    assert packs(later) == 1
    later("note", "plan", "others go on")
    said = staying.end()
    assert said.count(SAID) == 1
    fsck(later.gitdir)
    later.sound(("plan", 4))


def test_a_worker_that_has_ended_packs_too(later):
    crowded(later)
    said = later.run("work", "plan", "--no-wait", "--", "true")
    assert (said.code, said.err.startswith(SAID)) == (8, True)
    assert packs(later) == 1


def test_a_watcher_that_stays_packs_between_two_passes(later):
    crowded(later)
    staying = Staying(later, "watch", "console", "--every", "1")
    staying.until(lambda: SAID in staying.path.read_text())
    later("done", "plan", "--result", "out.md", "--cancel-children")
    staying.until(lambda: "2 sent" in staying.path.read_text())
    later("create", "Another", "--id", "another", "--next", "n")
    staying.until(lambda: staying.path.read_text().count(" sent") == 3)
    assert staying.end().count(SAID) == 1  # though it is as full as before, of what nothing names
    assert packs(later) == 1


def test_no_command_of_an_agent_does_and_no_single_pass(later):
    crowded(later)
    for words in (
        ("update", "plan", "--progress", "x"),
        ("task", "claim", "plan", "--next"),
        ("task", "done", "plan", "t1", "--result", "r"),
        ("create", "Another"),
        ("show", "plan"),
        ("watch", "console", "--once"),
    ):
        assert SAID not in later.run(*words).err
    assert packs(later) == 0


def test_where_few_objects_lie_about_nothing_happens(later):
    said = later.run("work", "plan", "--no-wait", "--", "true")
    assert said.err.startswith("error: plan: ")
    assert packs(later) == 0


def test_what_goes_wrong_is_a_warning_and_the_lock_of_others_is_respected(later, tmp_path):
    crowded(later)
    (later.gitdir / "gc.pid").write_text(f"{os.getpid()} {os.uname().nodename}\n")
    staying = Staying(later, "work", "plan", "--", "true", GFS_LOCK_TIMEOUT="0")
    staying.process.wait(60)
    assert packs(later) == 0
    assert SAID not in staying.path.read_text()
    (later.gitdir / "gc.pid").unlink()
    said = later.run("work", "plan", "--no-wait", "--", "/bin/true", env={"PATH": str(tmp_path)})
    assert said.code == 8
    assert said.err.startswith("warning: the repository was not packed: git is not installed")
    assert is_done(later)
    assert packs(later) == 0


@pytest.mark.req("B2")
def test_without_room_it_is_said_once_and_not_tried_again_and_again(later, tmp_path):
    crowded(later)
    words = "fatal: sha1 file x write error. Out of diskspace"
    fails = f'case " $* " in *" repack "*) echo "{words}" >&2; exit 128;; esac; exec $REAL "$@"'
    staying = Staying(later, "work", "plan", "--", "true", **in_front(tmp_path, fails))
    staying.until(lambda: "was not packed" in staying.path.read_text())
    later("note", "plan", "others go on")
    time.sleep(1)
    said = staying.end()
    assert f"warning: the repository was not packed: git repack stopped: {words}" in said
    assert said.count("was not packed") == 1
