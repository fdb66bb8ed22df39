"""Races: many processes at once on one repository, beside those that `tests/hazards/test_c` names.

What is acknowledged is in the history once, at the revision that was answered; history is linear.
"""

from __future__ import annotations

from collections import Counter

import pytest
from flowrepo import created, made, revisions
from gitrepo import child, code_of
from scaling import scale
from together import acknowledged_once, claiming, clean, flat, opened, together, updating

from gitflowstate.errors import Stale
from gitflowstate.git import Repository
from gitflowstate.ops import Note, Update
from gitflowstate.store import Store
from gitflowstate.taskops import TaskAdd

# ── one flow ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-09", "R-TF-14")
def test_readers_beside_writers_see_whole_flows_and_never_an_older_one(lab):
    def reading():
        seen = [0]
        with Repository.open(lab.gitdir) as repo:
            while seen[-1] < 1 + 4 * rounds:
                flow = Store(repo).flow("f-1")
                assert flow.revision >= seen[-1]
                seen.append(flow.revision)
                assert [item.id for item in Store(repo).flows()] == ["f-1"]

    rounds = scale(10)
    readers = [child(reading) for _ in range(2)]
    acknowledged_once(lab, flat(together(lab, 4, updating(lab, rounds))))
    assert [code_of(pid) for pid in readers] == [0, 0]


@pytest.mark.req("L2")
@pytest.mark.parametrize(
    "rounds", [scale(8), pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_l2_two_updates_of_different_fields_are_both_there(lab, rounds):
    for round_ in range(rounds):
        fields = ({"progress": f"p {round_}"}, {"next": f"n {round_}"})

        def work(number, fields=fields):
            with opened(lab) as store:
                return store.commit(made(Update, **fields[number])).flow.revision

        answers = together(lab, 2, work)
        assert sorted(answers) == [2 * round_ + 2, 2 * round_ + 3]
        found = lab.store.flow("f-1")
        assert (found.progress, found.next_action) == (f"p {round_}", f"n {round_}")
    clean(lab)


@pytest.mark.req("L2", "R-TF-24")
@pytest.mark.parametrize(
    "rounds", [scale(8), pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_l2_of_two_that_expect_the_same_revision_one_wins(lab, rounds):
    for round_ in range(rounds):

        def work(number, round_=round_):
            op = made(Update, progress=f"{round_} by {number}", expect=round_ + 1)
            with opened(lab) as store:
                try:
                    return store.commit(op).flow.revision
                except Stale as error:
                    return -error.details["revision"]

        answers = together(lab, 2, work)
        assert sorted(answers) == [-(round_ + 2), round_ + 2]
        winner = answers.index(round_ + 2)
        assert lab.store.flow("f-1").progress == f"{round_} by {winner}"
    clean(lab)


# ── births, keys, claims ────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-27")
def test_of_many_births_of_one_id_there_is_one(lab):
    def work(number):
        with opened(lab) as store:
            same = store.commit(created("g-1")).commit is not None
            try:
                store.commit(created("g-2", goal=f"goal {number}"))
            except Stale:
                return same, None
            return same, number

    answers = together(lab, 8, work)
    assert Counter(same for same, _ in answers) == {True: 1, False: 7}
    ((winner,)) = [number for _, number in answers if number is not None]
    assert lab.store.flow("g-2").goal == f"goal {winner}"
    assert (revisions(lab.gitdir, "g-1"), revisions(lab.gitdir, "g-2")) == ([1], [1])
    clean(lab)


@pytest.mark.req("A3", "R-TF-23")
def test_one_key_from_many_processes_makes_one_change(lab):
    op = made(Note, text="once", key="a" * 64, request="b" * 64)

    def work(_number):
        with opened(lab) as store:
            outcome = store.commit(op)
            return outcome.receipt.revision if outcome.receipt else outcome.flow.revision

    assert together(lab, 8, work) == [2] * 8
    assert len(lab.store.flow("f-1").notes) == 1
    clean(lab)


@pytest.mark.req("L1")
def test_l1_of_many_who_take_the_next_of_three_tasks_three_have_one_each(lab):
    for number in range(3):
        lab.commit(TaskAdd, task=f"t{number}", goal="one")
    answers = together(lab, 8, claiming(lab, None))
    winners = {answer for answer in answers if answer}
    assert (len(winners), answers.count(None)) == (3, 5)
    assert {task.claim.worker for task in lab.store.flow("f-1").children} == winners
    clean(lab)
