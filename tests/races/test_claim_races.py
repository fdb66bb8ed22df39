"""Races for a claim: from the command line, for one that is over, and with its late holder.

That many claimers of a free task leave one holder is in `test_races` (C3, L1).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest
from clirun import SCRIPT
from flowrepo import made
from scaling import scale
from together import clean, opened, together

from gitflowstate.errors import GfsError
from gitflowstate.model import Task
from gitflowstate.taskops import TaskAdd, TaskClaim, TaskDone, TaskExpire

OVER, LATER = "2026-09-06T09:00:00Z", "2026-09-06T12:00:00Z"  # before and after `flowrepo.AT`


def task_of(lab, name: str) -> Task:
    return next(task for task in lab.store.flow("f-1").children if task.id == name)


def doing(lab, op):
    """Return work that commits what `op(number)` makes; it tells the exit code, and the holder."""

    def work(number):
        with opened(lab) as store:
            try:
                store.commit(op(number))
            except GfsError as error:
                return error.code, error.details.get("holder")
        return 0, None

    return work


@pytest.mark.req("L1", "C3")
@pytest.mark.parametrize("rounds", [1, pytest.param(scale(10), marks=pytest.mark.long)])
@pytest.mark.parametrize("tasks", [1, 3])
def test_of_eight_commands_at_once_each_task_has_one_winner(lab, rounds, tasks):
    """Losers leave with 4 and the holder's name; where none was named, with 8."""
    env = os.environ | {"GFS_REPO": str(lab.folder), "GFS_LOCK_TIMEOUT": "60"}
    for round_ in range(rounds):
        names = [f"r{round_}-t{number}" for number in range(tasks)]
        for name in names:
            lab.commit(TaskAdd, task=name, goal="one")
        which = names[0] if tasks == 1 else "--next"
        words = [SCRIPT, "task", "claim", "f-1", which, "--json", "--as", "ann"]
        running = [subprocess.Popen(words, env=env, stdout=subprocess.PIPE) for _ in range(8)]
        told = [json.loads(process.communicate(timeout=90)[0]) for process in running]
        codes = Counter(process.returncode for process in running)
        assert codes == {0: tasks, 4 if tasks == 1 else 8: 8 - tasks}
        won = {one["data"]["task"]: one["data"]["worker"] for one in told if one["ok"]}
        assert won == {name: task_of(lab, name).claim.worker for name in names}
        named = (
            {one["error"]["details"]["holder"] for one in told if not one["ok"]}
            if tasks == 1
            else set()
        )
        assert named <= {*won.values()}
        assert named or tasks > 1
    clean(lab)


@pytest.mark.req("L1", "C-12")
@pytest.mark.parametrize("rounds", [scale(3)])
def test_of_many_who_take_over_a_claim_that_is_over_one_does_and_it_counts_once(lab, rounds):
    for round_ in range(rounds):
        name = f"t{round_}"
        lab.commit(TaskAdd, task=name, goal="one")
        lab.commit(TaskClaim, task=name, worker="dead.1", until=OVER)

        def claim(number, name=name):
            return made(TaskClaim, task=name, worker=f"w.{number}", until=LATER)

        told = together(lab, 8, doing(lab, claim))
        assert Counter(code for code, _ in told) == {0: 1, 4: 7}
        held = task_of(lab, name)
        assert {holder for code, holder in told if code} == {held.claim.worker}
        assert held.interruptions == 1
    clean(lab)


@pytest.mark.req("L3", "X-01")
@pytest.mark.parametrize("rounds", [scale(6)])
def test_a_late_holder_and_those_who_end_its_claim_leave_one_outcome(lab, rounds):
    """Either its result is there, or its claim has ended and it was told so; never both."""
    outcomes = Counter()
    for round_ in range(rounds):
        name = f"t{round_}"
        lab.commit(TaskAdd, task=name, goal="one")
        attempt = lab.commit(TaskClaim, task=name, worker="w.1", until=OVER).flow.revision
        fields = {"task": name, "attempt": attempt}

        def act(number, fields=fields):
            if number == 0:
                return made(TaskDone, **fields, result="late.md")
            return made(TaskExpire, **fields, proof="time", by=f"b{number}")

        (late, _), *others = together(lab, 4, doing(lab, act))
        left = task_of(lab, name)
        expired = [code for code, _ in others].count(0)
        assert (late == 0) == (left.status == "done") == (expired == 0)
        assert {late, *(code for code, _ in others)} <= {0, 4}
        assert (expired, left.interruptions) in ((0, 0), (1, 1))
        outcomes[left.status] += 1
    assert sum(outcomes.values()) == rounds
    clean(lab)
