"""`gfs work`, killed again and again: every task is completed once, and never out of order."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections import Counter

import pytest
from clirun import SCRIPT
from flowrepo import Lab, created
from gitrepo import git

from gitflowstate.model import Plan, Step

SMALL = (25, 3)
LARGE = (200, 20)


def graph(count: int, chance: random.Random) -> dict[str, tuple[str, ...]]:
    """Return a random graph: each task needs up to three of the twelve before it."""
    edges: dict[str, tuple[str, ...]] = {}
    for number in range(count):
        before = [*edges][-12:]
        edges[f"t{number}"] = tuple(chance.sample(before, min(len(before), chance.randrange(4))))
    return edges


def killed(words, env, lab, chance: random.Random) -> bool:
    """Start a worker and kill it some time after its first commit; tell whether it was too late."""
    head = lab.head
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while lab.head == head and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(chance.random() * 0.4)
    process.kill()
    process.wait()
    process.stderr.close()
    return process.returncode == 0


def history(lab) -> list[tuple[str, str]]:
    """Return (op, task) of every commit on a task, oldest first, as C git reads them."""
    subjects = git(lab.gitdir, "log", "--reverse", "--first-parent", "--format=%s", "main")
    return re.findall(r"^f-1 r\d+ (task \w+): (t\d+)", subjects, re.MULTILINE)


@pytest.mark.req("R-TS-03", "R-TS-11", "R-TS-17", "R-TS-27", "C-12", "C3")
@pytest.mark.parametrize(
    ("count", "kills"),
    [SMALL, pytest.param(*LARGE, marks=[pytest.mark.long, pytest.mark.timeout(1200)])],
)
def test_a_graph_survives_the_death_of_its_workers(tmp_path, count, kills):
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lab, edges = Lab(tmp_path / "work"), graph(count, chance)
    steps = tuple(Step(id=name, goal="g", deps=deps) for name, deps in edges.items())
    plan = Plan(schema_version=1, flow="f-1", tasks=steps)
    lab.store.commit(created(owner="local", plan=plan))
    # A lease of a day: only the proof of death frees the claims of the killed.
    words = [SCRIPT, "work", "f-1", "--jobs", "4", "--lease", "1d", "--no-wait", "--", "true"]
    env = os.environ | {"GFS_REPO": str(lab.folder)}
    for _ in range(kills):
        if killed(words, env, lab, chance):
            break
    last = subprocess.run(
        [*words[:2], "--json", *words[2:]], env=env, capture_output=True, check=False
    )
    assert last.returncode == 0, (seed, json.loads(last.stdout))

    done: Counter[str] = Counter()
    started: Counter[str] = Counter()
    for op, name in history(lab):
        if op == "task claim":
            assert set(edges[name]) <= done.keys(), (seed, name)
            assert name not in done, (seed, name)
            started[name] += 1
        elif op == "task done":
            done[name] += 1
    assert done == Counter(dict.fromkeys(edges, 1)), seed
    tasks = lab.store.flow("f-1").children
    assert {task.id: task.interruptions + 1 for task in tasks} == started, seed
    assert {task.status for task in tasks} == {"done"}
    assert lab.verify().problems == []
    lab.sound(killed=True)
    lab.repo.close()
