"""Part C: writers that are stopped, killed, or robbed of their lock (C6, C7, C10)."""

from __future__ import annotations

import os
import signal
import time

import pytest
from flowrepo import made, revisions
from gitrepo import MAIN, child, code_of
from scaling import scale
from together import (
    acknowledged_once,
    clean,
    flat,
    opened,
    together,
    updating,
)

from gitflowstate.errors import Unavailable
from gitflowstate.locks import RepositoryLock
from gitflowstate.ops import Note, Update
from gitflowstate.store import Store
from gitflowstate.syscalls import calls


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
