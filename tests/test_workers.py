"""Proof of death: what a worker's lock file says, and what it does not."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from gitrepo import child, code_of

from gitflowstate import workers
from gitflowstate.workers import FOLDER, WorkerLock, Workers

NAME = "ann.12345678"


def lock_of(folder, **changes):
    """Leave the lock file of a worker that has gone, with another identity if wanted."""
    path = folder / FOLDER / f"{NAME}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(workers.identity() | changes))
    return path


@pytest.mark.req("C-12")
def test_a_worker_lives_while_it_holds_its_lock_and_leaves_nothing(tmp_path):
    known = Workers(tmp_path)
    with WorkerLock(tmp_path, NAME, "f-1") as lock:
        assert not known.is_dead(NAME)
        told = json.loads(lock.path.read_text())
        assert (told["pid"], told["host"]) == (os.getpid(), socket.gethostname())
        assert told["started"].isdigit()
    assert not known.is_dead(NAME)
    assert [*(tmp_path / FOLDER).iterdir()] == []


@pytest.mark.req("C-12")
def test_a_worker_that_was_killed_is_dead_at_once_and_can_be_forgotten(tmp_path):
    known = Workers(tmp_path)
    reading, writing = os.pipe()

    def live():
        with WorkerLock(tmp_path, NAME, "f-1"):
            os.write(writing, b"!")
            signal.pause()

    pid = child(live)
    assert os.read(reading, 1) == b"!"
    assert not known.is_dead(NAME)
    os.kill(pid, signal.SIGKILL)
    assert code_of(pid) == -signal.SIGKILL
    assert known.is_dead(NAME)
    assert known.is_dead(NAME)  # asking does not change it
    known.forget(NAME)
    known.forget(NAME)
    assert not known.is_dead(NAME)
    os.close(reading)
    os.close(writing)


def test_a_worker_that_left_claims_behind_leaves_its_lock_as_proof(tmp_path):
    with WorkerLock(tmp_path, NAME, "f-1") as lock:
        lock.keep = True
    assert Workers(tmp_path).is_dead(NAME)


def test_the_dead_of_a_flow_are_found_and_no_others(tmp_path):
    known = Workers(tmp_path)
    assert known.left("f-1") == []
    with WorkerLock(tmp_path, NAME, "f-1") as lock:
        lock.keep = True
        assert known.left("f-1") == []
    with WorkerLock(tmp_path, "bob.12345678", "f-2") as other:
        other.keep = True
    (tmp_path / FOLDER / "odd.lock").write_text("?")
    assert known.left("f-1") == [NAME]
    known.forget(NAME)
    assert known.left("f-1") == []


@pytest.mark.req("C-12")
def test_no_lock_file_proves_nothing(tmp_path):
    known = Workers(tmp_path)
    assert not known.is_dead(NAME)
    assert not known.is_dead("../../etc/passwd")
    (tmp_path / "outside.lock").write_text("{}")
    assert not known.is_dead("../../outside")


@pytest.mark.req("C-12")
@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({}, True),
        ({"boot_id": "another"}, True),
        ({"boot_id": "another", "host": "elsewhere"}, False),
        ({"boot_id": "another", "host": None}, False),
        ({"host": "a container on this very kernel"}, True),
    ],
)
def test_another_boot_of_this_host_is_death_and_another_host_decides_by_time(
    tmp_path, changes, dead
):
    lock_of(tmp_path, **changes)
    assert Workers(tmp_path).is_dead(NAME) == dead


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "\xff"])
def test_a_lock_without_an_identity_is_decided_by_the_lock_alone(tmp_path, text):
    lock_of(tmp_path).write_bytes(text.encode("latin-1"))
    assert Workers(tmp_path).is_dead(NAME)


def test_a_lock_that_cannot_be_opened_proves_nothing(tmp_path):
    path = lock_of(tmp_path)
    path.unlink()
    path.mkdir()
    assert not Workers(tmp_path).is_dead(NAME)


def test_two_runs_cannot_have_one_name(tmp_path):
    with WorkerLock(tmp_path, NAME, "f-1"), pytest.raises(BlockingIOError):
        WorkerLock(tmp_path, NAME, "f-1").__enter__()
