"""A managed process whose client, supervisor or both are killed at each step of the protocol.

Outcome each time: its command ran once or not at all; the same call again runs nothing, and gives
the end that the rules give; one intent and one end are recorded, and the history replays.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import clirun
import pytest
from flowrepo import AT, Lab
from gitrepo import child, code_of, fsck
from processbench import CALL, ID
from runlab import eventually

from gitflowstate import processes, runlocks, settling
from gitflowstate.adapters import process
from gitflowstate.adapters.process import Supervised
from gitflowstate.cli.launch import Launch
from gitflowstate.syscalls import calls

pytestmark = pytest.mark.usefixtures("on_paper")

COMMAND = ("--", "sh", "-c", "echo ran >> ran")
# A supervisor that is killed, and its client first where that is wanted, at the end of a step; one
# that is killed slowly has its files closed one after another, as the kernel may do.
DYING = """
import os, sys, time
sys.path.append({root!r})
from gitflowstate import running, spawning, supervisor
steps = dict(
    begin=(supervisor.Supervisor, "__init__"), fork=(spawning.Command, "__init__"),
    told_to_go=(supervisor.Supervisor, "_refused"), go=(spawning.Command, "go"),
    ended=(supervisor.Supervisor, "_watched"), told=(supervisor.Supervisor, "_tell"),
    written=(supervisor, "_write"), settled=(supervisor.Supervisor, "_is_settled"),
)
where, victims = {where!r}, {victims!r}
holder, name = steps[where]
real = getattr(holder, name)
client = os.getppid()
def step(*given, **named):
    found = real(*given, **named)
    if where != "told" or given[1].startswith(supervisor.ENDED):
        if victims == "both":
            os.kill(client, 9)
        if victims == "slowly" and os.fork() == 0:
            os.close(int(sys.argv[2]))  # its report ends here, and its lock a while later
            time.sleep(0.3)
            os._exit(0)
        os.kill(os.getpid(), 9)
    return found
setattr(holder, name, step)
supervisor.main()
"""


@pytest.fixture
def cli(tmp_path, monkeypatch):
    made = clirun.made(tmp_path / "work", "--no-view")
    monkeypatch.chdir(tmp_path)
    return made


def dying(monkeypatch, where, victims):
    code = DYING.format(root=process.ROOT, where=where, victims=victims)
    monkeypatch.setattr(process, "_CODE", lambda **_: code)


def begun(cli, *options) -> int:
    """Run the call in a process of its own; return how that ended."""
    return code_of(child(lambda: os._exit(cli.run(*CALL, *options, *COMMAND).code)))


def settled(cli, monkeypatch, states, runs):
    """Check what is there, once whoever is left has done its part, and a later call too."""
    monkeypatch.undo()
    monkeypatch.setattr(calls, "fsync", lambda _: None)
    monkeypatch.chdir(cli.folder.parent)
    again = cli.run(*CALL, "--json", *COMMAND)
    eventually(lambda: runlocks.is_held(runlocks.lock_path(cli.gitdir, ID)) is not True)
    if again.code == 7:
        state = "lost"
        assert again.error["details"]["process"] == ID
    else:
        assert (again.code, again.data["id"]) == (0, ID)
        state = again.data["state"]
    assert state in states
    assert _ran() in runs
    assert cli.run(*CALL, *COMMAND).code == again.code
    assert _ran() in runs
    lab = Lab(cli.folder, made=False)
    subjects = [subject.partition(":")[0] for subject in lab.messages()]
    ends = [s for s in subjects if s in (f"{ID} run settle", f"{ID} run lose")]
    assert subjects.count(f"{ID} run intend") == len(ends) == 1
    assert subjects.count(f"{ID} run start") <= 1
    assert processes.find_by_id(lab.store, "s", ID).state == state
    assert settling.settle_left(lab.store, at=AT, by="ann") == []
    assert not Path(runlocks.lock_path(cli.gitdir, ID)).exists()
    assert lab.verify().problems == []
    lab.repo.close()
    fsck(cli.gitdir)


def _ran() -> int:
    with suppress(FileNotFoundError):
        return len(Path("ran").read_text().splitlines())
    return 0


class Step(NamedTuple):
    """A step of the protocol, what it may lead to, and how often the command has run then."""

    name: str
    states: set[str]
    runs: set[int]


LOST, DONE = {"lost"}, {"completed"}


# ── its supervisor ──────────────────────────────────────────────────────────────────────────────

SUPERVISOR = (
    Step("begin", LOST, {0}),
    Step("fork", LOST, {0}),
    Step("told_to_go", LOST, {0}),
    Step("go", LOST, {0, 1}),
    Step("ended", LOST, {1}),
    Step("told", DONE, {1}),
    Step("written", DONE, {1}),
    Step("settled", DONE, {1}),
)


@pytest.mark.req("J1", "J11", "R-TJ-07", "R-TJ-09", "R-TJ-10")
@pytest.mark.parametrize("step", SUPERVISOR, ids=lambda step: step.name)
def test_a_supervisor_is_killed_after_a_step(cli, monkeypatch, step):
    dying(monkeypatch, step.name, "supervisor")
    assert begun(cli) == (7 if step.states == LOST else 0)
    settled(cli, monkeypatch, step.states, step.runs)


@pytest.mark.req("J1", "R-TJ-07")
def test_a_client_waits_until_the_lock_proves_the_death(cli, monkeypatch):
    dying(monkeypatch, "ended", "slowly")
    assert begun(cli) == 7
    settled(cli, monkeypatch, LOST, {1})


BOTH = (
    Step("begin", LOST, {0}),
    Step("fork", LOST, {0}),
    Step("told_to_go", LOST, {0}),
    Step("go", LOST, {0, 1}),
    Step("ended", LOST, {1}),
    Step("told", LOST | DONE, {1}),
    Step("written", DONE, {1}),
    Step("settled", DONE, {1}),
)


@pytest.mark.req("J1", "J11", "R-TJ-07", "R-TJ-09")
@pytest.mark.parametrize("step", BOTH, ids=lambda step: step.name)
def test_both_are_killed_after_a_step(cli, monkeypatch, step):
    dying(monkeypatch, step.name, "both")
    was_told = step.name in ("told", "written", "settled")  # then the client may be the quicker one
    assert begun(cli) in ((-signal.SIGKILL, 0) if was_told else (-signal.SIGKILL,))
    settled(cli, monkeypatch, step.states, step.runs)


# ── its client ──────────────────────────────────────────────────────────────────────────────────

CLIENT = (
    (Launch, "_has_taken", DONE, {1}),  # nothing was recorded: the next call is the first
    (process, "_spawned", DONE, {1}),
    (Supervised, "__init__", DONE, {1}),
    (Launch, "_intended", LOST, {0}),
    (Launch, "_request", LOST, {0}),
    (Supervised, "ask", DONE, {1}),
    (Supervised, "blocked", DONE, {1}),
    (processes, "started", DONE, {1}),
    (Supervised, "go", DONE, {1}),
    (Supervised, "end", DONE, {1}),
    (processes, "settled", DONE, {1}),
    (Supervised, "settled", DONE, {1}),
)


@pytest.mark.req("J1", "J11", "R-TJ-09")
@pytest.mark.parametrize("step", CLIENT, ids=lambda step: step[1])
def test_a_client_is_killed_after_a_step(cli, monkeypatch, step):
    holder, name, states, runs = step
    real = getattr(holder, name)

    def dies(*given, **named):
        real(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(holder, name, dies)
    assert begun(cli) == -signal.SIGKILL
    settled(cli, monkeypatch, states, runs)


@pytest.mark.req("J11")
@pytest.mark.parametrize(
    "step", [s for s in SUPERVISOR if s.name not in ("begin", "fork")], ids=lambda s: s.name
)
def test_a_client_that_has_left_and_its_supervisor_is_killed(cli, monkeypatch, step):
    dying(monkeypatch, step.name, "supervisor")
    assert begun(cli, "--detach") == 0
    states = LOST if step.name == "told" else step.states
    settled(cli, monkeypatch, states, step.runs)
