"""Claims across hosts: one winner whoever asks where, and an end whatever the clocks say."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections import Counter

import pytest
import time_machine
import wires
from clirun import SCRIPT
from flowrepo import revisions
from scaling import scale

START = dt.datetime(2027, 1, 4, 9, 0, tzinfo=dt.UTC)
SKEW_S = 900  # what another host's clock may be wrong by (architecture, section 3)


@pytest.fixture
def hosts(tmp_path, wire):
    """Return two hosts that share the flow f-1."""
    return wires.sharing(tmp_path, wire, "f-1")


def claimer(host, task, number):
    """Start a claim in a process of its own."""
    env = os.environ | host.wire.env | {"GFS_REPO": str(host.folder), "GFS_LOCK_TIMEOUT": "60"}
    words = [SCRIPT, "task", "claim", "f-1", task, "--json", "--as", f"agent-{number}"]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE)


@pytest.mark.req("L1", "C3")
@pytest.mark.parametrize(
    "rounds", [1, pytest.param(scale(10), marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_of_eight_claimers_on_two_hosts_one_wins(wire, hosts, rounds):
    for round_ in range(rounds):
        task = f"t-{round_}"
        hosts[round_ % 2]("task", "add", "f-1", "one", "--id", task)
        running = [claimer(hosts[number % 2], task, number) for number in range(8)]
        told = [json.loads(process.communicate(timeout=90)[0]) for process in running]
        assert Counter(process.returncode for process in running) == {0: 1, 4: 7}, told
        (won,) = [one["data"]["worker"] for one in told if one["ok"]]
        assert {one["error"]["details"]["holder"] for one in told if not one["ok"]} == {won}
        assert {held(host, task) for host in hosts} == {won}
    wires.sound(wire, *hosts, flows={"f-1": 1 + 2 * rounds})


def held(host, task):
    """Return who holds a task, as a host reads it."""
    (found,) = [one for one in host.json("show", "f-1")["flow"]["children"] if one["id"] == task]
    return found["claim"]["worker"]


# ── clocks ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C-12")
@pytest.mark.parametrize("apart_s", [600, -600])
def test_clocks_that_are_apart_neither_share_nor_keep_a_claim(wire, hosts, apart_s):
    here, there = hosts
    lease_s = 600
    here("task", "add", "f-1", "one", "--id", "t1")
    with time_machine.travel(START, tick=False) as clock:

        def after(seconds, shift=0):
            clock.move_to(START + dt.timedelta(seconds=seconds + shift))

        held_by_us = here.json("task", "claim", "f-1", "t1", "--lease", f"{lease_s}s")
        for elapsed in range(0, lease_s + 1, 120):  # while our own clock calls it ours
            after(elapsed, apart_s)
            assert there.run("task", "claim", "f-1", "t1").code == 4
        after(lease_s + SKEW_S + abs(apart_s), apart_s)
        theirs = there.json("task", "claim", "f-1", "t1")
        assert theirs["attempt"] > held_by_us["attempt"]
        after(lease_s + SKEW_S + abs(apart_s))
        late = ("task", "done", "f-1", "t1", "--result", "a.md")
        assert here.run(*late, "--attempt", held_by_us["attempt"]).code == 4
        after(lease_s + SKEW_S + abs(apart_s), apart_s)
        there("task", "done", "f-1", "t1", "--result", "b.md", "--attempt", theirs["attempt"])
    (task,) = here.json("show", "f-1")["flow"]["children"]
    assert (task["status"], task["result_ref"]) == ("done", "b.md")
    wires.sound(wire, *hosts, flows={"f-1": len(revisions(wire.bare, "f-1"))})


@pytest.mark.req("C-12")
@pytest.mark.parametrize("apart_s", [600, -600])
def test_time_of_a_flow_never_goes_back(wire, hosts, apart_s):
    here, there = hosts
    for number, (host, shift) in enumerate([(here, 0), (there, apart_s), (here, 1)]):
        with time_machine.travel(START + dt.timedelta(seconds=shift), tick=False):
            host("note", "f-1", f"note {number}")
    times = [
        host.json("show", "f-1", "--rev", number)["flow"]["updated_at"]
        for number in (1, 2, 3, 4)
        for host in hosts[:1]
    ]
    assert times == sorted(times)
    wires.sound(wire, *hosts, flows={"f-1": 4})
