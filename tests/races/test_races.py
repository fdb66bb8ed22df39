"""Races: many processes and threads on one repository, with the lock, without it, and stopped.

What is acknowledged is in the history once, at the revision that was answered; history is linear.
At scale 1 the numbers are small; `-m long` runs the matrices that the hazards name.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter

import pytest
from flowrepo import Lab, created, made, revisions
from gitrepo import MAIN, child, code_of, git
from scaling import scale
from together import PATIENCE_S, clean, opened, together

from gitflowstate.errors import Blocked, GfsError, Stale, Unavailable
from gitflowstate.git import Repository
from gitflowstate.locks import RepositoryLock
from gitflowstate.ops import Note, Update
from gitflowstate.store import Store
from gitflowstate.syscalls import calls
from gitflowstate.taskops import TaskAdd, TaskClaim

LATER = "2026-09-06T12:00:00Z"


@pytest.fixture
def lab(tmp_path):
    found = Lab(tmp_path / "work")
    found.create()
    yield found
    found.repo.close()


def acknowledged_once(lab, answers, flow="f-1"):
    """Check every acknowledged revision and its text against the history that C git reads."""
    told = dict(answers)
    assert len(told) == len(answers)
    assert sorted(told) == list(range(2, len(answers) + 2))
    assert revisions(lab.gitdir, flow) == list(range(1, len(answers) + 2))
    format_ = "%(trailers:key=Gfs-Op,valueonly,unfold)"
    ops = git(lab.gitdir, "log", "--reverse", f"--format={format_}", f"--grep=^Flow: {flow}$", MAIN)
    said = [json.loads(line).get("progress") for line in ops.splitlines() if line]
    assert said[1:] == [told[revision] for revision in sorted(told)]
    assert lab.store.flow(flow).progress == said[-1]
    clean(lab)


def updating(lab, rounds, *, again=()):
    """Return work that records its own progress so often, and tells revision and text of each.

    What was refused with one of the exit codes in `again` is done again.
    """

    def work(number):
        told = []
        with opened(lab) as store:
            for round_ in range(rounds):
                text = f"{number}: {round_}"
                outcome = None
                while outcome is None:
                    try:
                        outcome = store.commit(made(Update, progress=text))
                    except GfsError as error:
                        if error.code not in again:
                            raise
                told.append((outcome.flow.revision, text))
        return told

    return work


def flat(answers):
    return [tuple(pair) for told in answers for pair in told]


# ── one flow ────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.req("R-TF-23", "C10", "F1")
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (6, scale(8)),
        pytest.param(20, 50, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_c10_without_the_lock_of_the_repository_none_is_lost_either(
    lab, monkeypatch, processes, rounds
):
    """The lock is an optimisation, the compare-and-swap is the guarantee."""
    monkeypatch.setattr(RepositoryLock, "__enter__", lambda lock: lock)
    monkeypatch.setattr(RepositoryLock, "__exit__", lambda *_: None)
    work = updating(lab, rounds, again=[75])
    acknowledged_once(lab, flat(together(lab, processes, work)))


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


# ── many flows, births, keys, claims ────────────────────────────────────────────────────────────


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


def claiming(lab, task):
    def work(number):
        with opened(lab) as store:
            try:
                store.commit(made(TaskClaim, task=task, worker=f"w.{number}", until=LATER))
            except Stale as error:
                return error.details["holder"]
            except Blocked:
                return None
        return f"w.{number}"

    return work


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


@pytest.mark.req("L1")
def test_l1_of_many_who_take_the_next_of_three_tasks_three_have_one_each(lab):
    for number in range(3):
        lab.commit(TaskAdd, task=f"t{number}", goal="one")
    answers = together(lab, 8, claiming(lab, None))
    winners = {answer for answer in answers if answer}
    assert (len(winners), answers.count(None)) == (3, 5)
    assert {task.claim.worker for task in lab.store.flow("f-1").children} == winners
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


# ── stopped, and without its lock ───────────────────────────────────────────────────────────────


def stopped_writer(lab, stop):
    """Fork a writer that stops itself in `stop(repo)`; return its pid once it stands still."""

    def work():
        with opened(lab) as store:
            stop(store.repo)
            outcome = store.commit(made(Update, progress="the stopped one's"))
            assert outcome.flow.revision == 3

    pid = child(work)
    os.waitpid(pid, os.WUNTRACED)
    return pid


def before_publishing(repo):
    """Stop once, when the head was read and the op applied."""
    real, done = repo.publish, []

    def publish(*arguments):
        if not done:
            done.append(1)
            os.kill(os.getpid(), signal.SIGSTOP)
        return real(*arguments)

    repo.publish = publish


def at_call(name, ending):
    """Return how to stop once, before a call whose last path ends so."""

    def stop(_repo):
        real, done = getattr(calls, name), []

        def through(*arguments):
            if str(arguments[-1]).endswith(ending) and not done:
                done.append(1)
                os.kill(os.getpid(), signal.SIGSTOP)
            return real(*arguments)

        setattr(calls, name, through)

    return stop


@pytest.mark.req("C6", "C11")
def test_c6_a_stopped_writer_is_waited_for_and_named(lab):
    pid = stopped_writer(lab, before_publishing)
    try:
        with pytest.raises(Unavailable, match=f"locked by pid {pid} ") as refused:
            Store(lab.repo, timeout=0.2).commit(made(Update, progress="mine"))
        assert refused.value.code == 75
        assert lab.store.flow("f-1").revision == 1  # reading does not wait
        lab.by_hand(lab.edited(revision=2, progress="by hand"))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    assert lab.store.flow("f-1").progress == "the stopped one's"
    assert lab.verify().problems == []
    assert lab.messages()[:2] == ["f-1 r3 update: the stopped one's", "by hand"]
    lab.sound()


STOPS = {
    "before publishing": before_publishing,
    "before its first object": at_call("mkdir", ""),
    "before the lock of the ref": at_call("link", f"{MAIN}.lock"),
}


@pytest.mark.req("C6", "C10")
@pytest.mark.parametrize("stop", STOPS)
def test_c10_a_lock_that_is_deleted_while_held_loses_no_update(lab, stop):
    """B gets past a stopped A; A goes on, loses the race, and applies its op to B's head."""
    pid = stopped_writer(lab, STOPS[stop])
    (lab.gitdir / "gfs.lock").unlink()
    try:
        assert lab.commit(Update, next="the rival's").flow.revision == 2
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    found = lab.store.flow("f-1")
    assert (found.progress, found.next_action) == ("the stopped one's", "the rival's")
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3]
    assert not (lab.gitdir / "gc.pid").exists()
    clean(lab)


@pytest.mark.req("C10")
def test_c10_stopped_between_compare_and_rename_it_holds_the_ref_or_loses_the_race(lab):
    pid = stopped_writer(lab, at_call("rename", f"/{MAIN}"))
    (lab.gitdir / "gfs.lock").unlink()
    try:
        with pytest.raises(Unavailable, match=r"main\.lock"):
            lab.update("mine")
        (lab.gitdir / f"{MAIN}.lock").unlink()  # as Git's own message advises
        assert lab.commit(Update, next="the rival's").flow.revision == 2
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 0
    found = lab.store.flow("f-1")
    assert (found.progress, found.next_action) == ("the stopped one's", "the rival's")
    clean(lab)


@pytest.mark.req("C10")
def test_c10_a_lock_that_goes_away_again_and_again_loses_no_update(lab):
    """Somebody cleans up while everybody writes: two who hold the lock meet at its other files."""
    going = lab.folder.parent / "going"
    going.touch()

    def cleaning():
        while going.exists():
            (lab.gitdir / "gfs.lock").unlink(missing_ok=True)
            (lab.gitdir / "gc.pid").unlink(missing_ok=True)
            time.sleep(0.002)

    cleaner = child(cleaning)
    try:
        answers = flat(together(lab, 6, updating(lab, scale(8), again=[1, 75])))
    finally:
        going.unlink()
    assert code_of(cleaner) == 0
    acknowledged_once(lab, answers)


@pytest.mark.req("C7")
def test_c7_killed_writers_lose_nothing_that_was_acknowledged(lab):
    """Each writer notes what was acknowledged, and is killed at some moment; all is in history."""
    folder = lab.folder.parent / "acknowledged"
    folder.mkdir()

    def work(number, start):
        log = os.open(folder / f"{start}-{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        with opened(lab) as store:
            for round_ in range(1000):
                text = f"{start}-{number}: {round_}"
                revision = store.commit(made(Note, text=text)).flow.revision
                os.write(log, f"{revision} {text}\n".encode())

    for start in range(scale(3)):
        pids = [child(lambda n=n, s=start: work(n, s)) for n in range(3)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any(f.stat().st_size for f in folder.iterdir()):
            time.sleep(0.01)
        time.sleep(0.03 * (start % 4))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert [code_of(pid) for pid in pids] == [-signal.SIGKILL] * 3
        told = [line.split(" ", 1) for f in folder.iterdir() for line in f.read_text().splitlines()]
        notes = lab.store.flow("f-1").notes
        assert told
        assert all(notes[int(revision) - 2].text == text for revision, text in told)
        assert len({note.text for note in notes}) == len(notes)
    assert revisions(lab.gitdir, "f-1") == list(range(1, len(notes) + 2))
    assert lab.verify().problems == []
    lab.sound(killed=True)
