"""Two hosts and one flow, over every transport, killed now and then: nothing lost or doubled."""

from __future__ import annotations

import random
import time

import pytest
import wires
from scaling import scale

LONG = (pytest.mark.long, pytest.mark.timeout(7200))


def updates(host: str, flow: str, count: int) -> list[list[str]]:
    """Return commands that record some progress each; a repeat of one is known by its key."""
    return [
        ["update", flow, "--progress", f"{host} {number}", "--key", f"{flow}-{host}-{number}"]
        for number in range(count)
    ]


def disturbed(agents: list[wires.Agent], kills: int, chance: random.Random) -> None:
    """Kill one of the agents now and then, and start it again; then let them finish."""
    for _ in range(kills):
        time.sleep(chance.random() * 0.8)
        agent = chance.choice(agents)
        if agent.running and agent.kill():
            agent.start()


@pytest.mark.req("C8", "C9", "F10")
@pytest.mark.parametrize(
    ("kind", "count", "rounds"),
    [
        *((kind, 3, 1) for kind in ("path", "password")),
        *(pytest.param(kind, 50, scale(1), marks=LONG) for kind in wires.KINDS),
    ],
)
def test_two_hosts_update_one_flow(tmp_path, kind, count, rounds):
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    print("seed", seed)
    with wires.opened(kind, tmp_path) as wire:
        hosts = [wires.founded(tmp_path / "a", wire), wires.cloned(tmp_path / "b", wire)]
        for round_ in range(rounds):
            flow = f"f-{round_}"
            hosts[0]("create", f"Do {flow}", "--id", flow, "--next", "begin")
            agents = [
                host.agent(flow, updates(host.folder.name, flow, count), pause_s=0.05, seed=seed)
                for host in hosts
            ]
            for agent in agents:
                agent.start()
            disturbed(agents, max(1, count // 5), chance)
            told = [answer for agent in agents for answer in agent.finish()]
            assert [answer for answer in told if not answer["ok"]] == []
            acked = sorted(answer["data"]["revision"] for answer in told)
            assert acked == [*range(2, 2 * count + 2)]
        flows = {f"f-{round_}": 2 * count + 1 for round_ in range(rounds)}
        wires.sound(wire, *hosts, flows=flows)
