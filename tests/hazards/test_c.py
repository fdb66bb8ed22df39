"""Part C: many processes and threads at once on one repository.

What is acknowledged is in the history once, at the revision that was answered; history is linear.
At scale 1 the numbers are small; `-m long` runs the numbers that the hazards name.
"""

from __future__ import annotations

import threading

import pytest
from flowrepo import created, made, revisions
from gitrepo import git
from scaling import scale
from together import (
    PATIENCE_S,
    acknowledged_once,
    claiming,
    clean,
    flat,
    opened,
    together,
    updating,
)

from gitflowstate.errors import Stale
from gitflowstate.git import Repository
from gitflowstate.ops import Update
from gitflowstate.store import Store
from gitflowstate.taskops import TaskAdd


@pytest.mark.req("R-TF-23", "R-TF-29", "C1")
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (8, scale(15)),
        pytest.param(20, 50, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
        pytest.param(100, 1, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_c1_of_many_writers_on_one_flow_none_is_lost(lab, processes, rounds):
    answers = flat(together(lab, processes, updating(lab, rounds)))
    assert len(answers) == processes * rounds
    acknowledged_once(lab, answers)


@pytest.mark.req("R-TF-24", "C2")
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (8, scale(5)),
        pytest.param(8, 25, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_c2_increments_that_expect_a_revision_are_each_made_once(lab, processes, rounds):
    def work(_number):
        told, refused = [], 0
        with opened(lab) as store:
            while len(told) < rounds:
                seen = store.flow("f-1")
                text = str(int(seen.progress or "0") + 1)
                try:
                    outcome = store.commit(made(Update, progress=text, expect=seen.revision))
                except Stale:
                    assert store.flow("f-1").revision > seen.revision
                    refused += 1
                else:
                    assert outcome.flow.revision == seen.revision + 1
                    told.append((outcome.flow.revision, text))
        return told, refused

    answers = together(lab, processes, work)
    told = flat(told for told, _ in answers)
    acknowledged_once(lab, told)
    assert lab.store.flow("f-1").progress == str(processes * rounds)
    assert sorted(told) == [(n + 1, str(n)) for n in range(1, processes * rounds + 1)]


@pytest.mark.req("C3", "L1")
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (12, scale(2)),
        pytest.param(100, 50, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_c3_of_many_who_claim_one_task_one_has_it_and_all_know_who(lab, processes, rounds):
    for round_ in range(rounds):
        lab.commit(TaskAdd, task=f"t{round_}", goal="one")
        holder = {*together(lab, processes, claiming(lab, f"t{round_}"))}
        held = [t.claim.worker for t in lab.store.flow("f-1").children if t.id == f"t{round_}"]
        assert list(holder) == held
    clean(lab)


@pytest.mark.req("C4")
def test_c4_writers_of_different_flows_all_succeed(lab):
    count, rounds = 20, scale(2)

    def work(number):
        with opened(lab) as store:
            store.commit(created(f"g-{number}"))
            found = [
                store.commit(made(Update, f"g-{number}", progress=str(round_)))
                for round_ in range(rounds)
            ]
            return [outcome.flow.revision for outcome in found]

    answers = together(lab, count, work)
    assert answers == [list(range(2, rounds + 2))] * count
    for number in range(count):
        assert revisions(lab.gitdir, f"g-{number}") == list(range(1, rounds + 2))
    assert len(list(lab.store.flows())) == count + 1
    clean(lab)


# ── one process ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C13")
@pytest.mark.parametrize("shared", [True, False], ids=["one store", "a store each"])
def test_c13_threads_of_one_process_lose_nothing(lab, shared):
    rounds, told, failed = scale(6), [], []
    gate = threading.Barrier(8)

    def work(number):
        try:
            gate.wait()
            own = Repository.open(lab.gitdir, writing=True)
            store = Store(lab.repo if shared else own, timeout=PATIENCE_S)
            for round_ in range(rounds):
                text = f"{number}: {round_}"
                outcome = store.commit(made(Update, progress=text))
                told.append((outcome.flow.revision, text))
                assert store.flow("f-1").revision >= outcome.flow.revision
            own.close()
        except Exception as error:  # noqa: BLE001  shown by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    acknowledged_once(lab, told)


@pytest.mark.req("C13")
def test_c13_workers_that_are_forked_with_an_open_repository_lose_nothing(lab):
    git(lab.gitdir, "repack", "-adq")  # packs are open, and their offsets shared, before the fork
    lab.update("0: 0")
    store, rounds = Store(lab.repo, timeout=PATIENCE_S), scale(6)

    def work(number):
        texts = [f"{number + 1}: {round_}" for round_ in range(rounds)]
        return [(store.commit(made(Update, progress=text)).flow.revision, text) for text in texts]

    acknowledged_once(lab, [(2, "0: 0"), *flat(together(lab, 4, work))])
