"""An op that is published, and a queue that is: killed or failed at call k of the system.

Outcome each time: what was acknowledged is at the remote, what was said is true, nothing is there
twice, and the next op goes through. The suite takes every
eleventh call, or fewer; at scale 11 every one.
"""

from __future__ import annotations

import errno
import os
import signal

import pytest
from flowrepo import made
from gitrepo import child, code_of, fsck, intercepted
from hostbench import Host, main_of, remote, sound, subjects
from scaling import SCALE

from gitflowstate.errors import GfsError, Uncertain
from gitflowstate.ops import Note

STEP = max(1, round(17 / SCALE))


@pytest.fixture
def bare(tmp_path):
    return remote(tmp_path)


@pytest.fixture
def one(tmp_path, bare):
    host = Host(tmp_path / "one", bare)
    host.create()
    yield host
    host.repo.close()


def publish(host):
    host.note("it")


def bring(host):
    host.offline.commit(made(Note, text="it"))
    host.sync()


def calls_of(host, act):
    names = []
    with intercepted(lambda _, name, real, given: (names.append(name), real(*given))[1]):
        act(host)
    return len(names)


def swept(host):
    """Let what a dead writer left be old enough for the next writer to sweep it."""
    for path in [*host.gitdir.glob("gfs-ref-*"), *host.gitdir.glob("objects/*/tmp_obj_*")]:
        os.utime(path, (0, 0))


@pytest.mark.req("A2", "A11")
@pytest.mark.parametrize(("act", "step"), [(publish, STEP), (bring, 3 * STEP)])
def test_killed_at_any_call(bare, one, act, step):
    count = calls_of(one, act)
    died = 0
    for k in range(0, count, step):

        def dying(number, _name, real, given, k=k):
            if number == k:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given)

        def work(dying=dying):
            with intercepted(dying):
                act(one)

        before = len(subjects(bare))
        died += code_of(child(work)) != 0
        assert len(subjects(bare)) in (before, before + 1)
        swept(one)
        if one.refs.ask() is None and one.head != main_of(bare):
            one.sync()
        assert one.head == main_of(bare)
        one.note("next")
    assert died > count // step // 2
    swept(one)
    one.note("last")
    fsck(one.gitdir)
    told = subjects(bare)
    assert len(told) == len(set(told))  # each revision once
    sound(bare, one)


@pytest.mark.req("A2")
@pytest.mark.parametrize("number", [errno.EIO, pytest.param(errno.ENOSPC, marks=pytest.mark.long)])
def test_failed_at_any_call(bare, one, number):
    for k in range(0, calls_of(one, publish), STEP):

        def failing(at, _name, real, given, k=k):
            if at == k:
                raise OSError(number, os.strerror(number))
            return real(*given)

        before = len(subjects(bare))
        said = "done"
        with intercepted(failing):
            try:
                publish(one)
            except Uncertain:
                said = "unknown"
            except GfsError:
                said = "failed"
        there = len(subjects(bare)) - before
        assert there == {"done": 1, "failed": 0}.get(said, there), (k, said)
        one.refs.ask()
        one.note("next")
        assert one.head == main_of(bare)
    swept(one)  # an unlink may have failed, too
    one.note("last")
    sound(bare, one)
