"""Which process is which: by its boot, its pid and its start, and by the run it belongs to."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from runlab import eventually, is_alive

from gitflowstate import identity, signals
from gitflowstate.family import Family


@pytest.fixture
def started():
    """Start commands, each leading a session of its own; end what is left of them."""
    made = []

    def start(*argv, **env) -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(argv, start_new_session=True, env=os.environ | env))
        return made[-1]

    yield start
    for each in made:
        each.kill()
        each.wait()


def test_an_identity_is_that_of_one_process(started):
    one = started("sleep", "60")
    ticks, boot = identity.start_ticks(one.pid), identity.boot_id()
    assert identity.is_same(one.pid, ticks, boot)
    assert not identity.is_same(one.pid, ticks + 1, boot)
    assert not identity.is_same(one.pid, ticks, "another boot")
    assert not identity.is_same(one.pid, 0, boot)
    assert not identity.is_same(one.pid, ticks, "")
    assert identity.group_and_session(one.pid) == (one.pid, one.pid)
    assert identity.start_ticks() == identity.start_ticks(os.getpid()) > 0


@pytest.mark.req("J2")
def test_a_signal_goes_to_the_process_that_was_recorded_or_to_nobody(started):
    one = started("sleep", "60")
    ticks, boot = identity.start_ticks(one.pid), identity.boot_id()
    assert not identity.send(one.pid, ticks + 1, boot, signals.KILL)
    assert not identity.send(one.pid, ticks, "another", signals.KILL)
    assert one.poll() is None
    assert identity.send(one.pid, ticks, boot, signals.TERM)
    assert one.wait() == -signal.SIGTERM
    assert not identity.send(one.pid, ticks, boot, signals.KILL)


@pytest.mark.req("J3")
def test_a_process_may_be_called_anything(tmp_path, started):
    name = tmp_path / "a) R 1 (x"
    name.symlink_to("/bin/sleep")
    one = started(str(name), "60")
    eventually(lambda: "a) R 1 (x" in Path(f"/proc/{one.pid}/stat").read_text())
    assert identity.group_and_session(one.pid) == (one.pid, one.pid)
    assert identity.is_same(one.pid, identity.start_ticks(one.pid), identity.boot_id())
    other = started("sleep", "60")
    assert 0 <= identity.start_ticks(other.pid) - identity.start_ticks(one.pid) < 6000


@pytest.mark.req("J4")
def test_a_zombie_has_ended(started):
    one = started("true")
    eventually(lambda: not is_alive(one.pid))
    assert identity.start_ticks(one.pid) > 0  # it is still there
    assert not identity.is_same(one.pid, identity.start_ticks(one.pid), identity.boot_id())
    assert identity.group_and_session(one.pid) == (0, 0)


def test_what_is_not_there_has_no_identity():
    assert identity.start_ticks(2**22 + 1) == 0
    assert identity.group_and_session(2**22 + 1) == (0, 0)
    assert identity.environment(2**22 + 1) == b""


@pytest.mark.req("J5")
def test_a_family_is_the_session_and_whatever_has_its_mark(tmp_path, started):
    folder = str(tmp_path / "run")
    leader = started("sh", "-c", "sleep 60 & wait")
    eventually(lambda: len(Family(folder, leader.pid).members()) == 2)
    marked = started("sleep", "60", GFS_RUN=folder)
    strangers = [started("sleep", "60", GFS_RUN=f"{folder}2"), started("sleep", "60", X=folder)]
    family = Family(folder, leader.pid)
    eventually(lambda: marked.pid in family.members())
    assert leader.pid in family.members()
    assert len(family.members()) == 3
    family.send(signals.KILL)
    assert (leader.wait(), marked.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
    assert [each.poll() for each in strangers] == [None, None]
    assert family.members() == []


@pytest.mark.req("J2")
@pytest.mark.parametrize("wrong", ["ticks", "boot"])
def test_a_leader_whose_number_is_anothers_leads_nobody(tmp_path, started, wrong):
    stranger = started("sh", "-c", "sleep 60 & wait")
    ticks, boot = identity.start_ticks(stranger.pid), identity.boot_id()
    told = {"ticks": ticks, "boot": boot} | (
        {"ticks": ticks + 1} if wrong == "ticks" else {"boot": "x"}
    )
    family = Family(str(tmp_path), stranger.pid, **told)
    assert family.members() == []
    family.send(signals.KILL)
    assert stranger.poll() is None
    own = Family(str(tmp_path), stranger.pid, ticks, boot)
    eventually(lambda: len(own.members()) == 2)
    assert own.send(signals.KILL) == 2
    assert stranger.wait() == -signal.SIGKILL


def test_signals_are_those_of_the_standard_module():
    for name in ("HUP", "INT", "QUIT", "KILL", "PIPE", "TERM", "CHLD"):
        assert getattr(signals, name) == getattr(signal, f"SIG{name}")
    assert signals.SENT == {signal.SIGTERM: "SIGTERM", signal.SIGKILL: "SIGKILL"}
