"""A host without its network goes on, and loses nothing when it is back."""

from __future__ import annotations

import pytest
import wires
from gitrepo import MAIN, git
from hostbench import main_of, moves

PARTED, CONFLICTS = 20, 5


@pytest.fixture
def hosts(tmp_path, wire):
    return wires.sharing(tmp_path, wire, "shared", *[f"c-{n}" for n in range(CONFLICTS)])


def notes(host):
    return [note["text"] for note in host.json("show", "shared")["flow"]["notes"]]


def refs(host, below):
    """Return the refs of a host below a name, and what each holds."""
    told = git(host.gitdir, "for-each-ref", "--format=%(refname) %(objectname)", below)
    return dict(line.split() for line in told.splitlines())


@pytest.mark.req("F10")
def test_after_a_sync_both_have_one_head_and_nothing_acknowledged_is_gone(wire, hosts):
    away, here = hosts
    acknowledged = []
    for number in range(PARTED - CONFLICTS):
        acknowledged += queued(away, "note", "shared", f"away {number}")
        here("note", "shared", f"here {number}")
    for number in range(CONFLICTS):
        acknowledged += queued(away, "update", f"c-{number}", "--progress", "Half of it")
        here("done", f"c-{number}", "--result", f"out/{number}.md")
    tip, head, before = away.head, main_of(wire.bare), moves(wire.bare)
    told = away.run("sync", "--json")
    assert told.code == 4
    assert len(moves(wire.bare)) == len(before) + 1  # one push
    git(wire.bare, "merge-base", "--is-ancestor", head, MAIN)
    here("sync")
    assert away.head == here.head == main_of(wire.bare)
    for host in hosts:
        assert notes(host) == [
            f"{who} {number}" for who in ("here", "away") for number in range(PARTED - CONFLICTS)
        ]
        for number in range(CONFLICTS):
            assert host.json("show", f"c-{number}")["flow"]["status"] == "done"
    details = told.error["details"]
    assert [fate["old"] for fate in details["operations"]] == acknowledged
    refused = {fate["kept"]: fate["old"] for fate in details["operations"] if fate["refused"]}
    assert refs(away, "refs/gfs/rejected") == refused
    assert [*refused.values()] == acknowledged[PARTED - CONFLICTS :]
    assert refs(away, "refs/gfs/offline") == {details["kept"]: tip}
    wires.sound(wire, *hosts, flows={"shared": 1 + 2 * (PARTED - CONFLICTS)})


def queued(host, *argv):
    """Record something offline; return the commit, as a list."""
    result = host.run(*argv, "--offline", "--json")
    assert result.code == 0, result
    assert result.envelope["remote"]["asked"] is False
    assert result.envelope["remote"]["queued"] > 0
    return [host.head]
