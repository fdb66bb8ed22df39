"""A pass over the view that dies or fails at any of its calls."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest
from desk import Desk, kept_beside
from gitrepo import child, code_of

from gitflowstate import ops, plainfiles
from gitflowstate.model import archive_path, flow_path


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path / "desk")
    with made.repo:
        yield made


class Calls:
    """The operating system as `plainfiles` sees it, with one call that goes wrong."""

    def __init__(self, doomed, wrong):
        self._numbers = itertools.count()
        self._doomed = doomed
        self._wrong = wrong
        self.happened = False

    def __getattr__(self, name):
        real = getattr(os, name)
        if name == "close" or not callable(real):
            return real

        def call(*arguments, **options):
            if next(self._numbers) == self._doomed:
                self.happened = True
                self._wrong()
            return real(*arguments, **options)

        return call


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_any_call_the_next_write_heals_it_without_noise(desk, monkeypatch, every):
    desk.create("one")
    desk.create("two")
    for doomed in itertools.count(0, every):
        desk.update("two", f"before {doomed}", shown=doomed % 2 == 0)  # also while it lags

        def dying(doomed=doomed):
            monkeypatch.setattr(plainfiles, "os", Calls(doomed, lambda: os._exit(9)))
            desk.do(ops.Done if doomed % 4 < 2 else ops.Fail, "one", **ending(doomed))

        code = code_of(child(dying))
        assert code in (0, 9)
        assert desk.file("one").exists() or desk.file("one", archive_path).exists(), doomed
        reopened = desk.do(ops.Reopen, "one", reason="again", next="go on")
        assert reopened == []
        assert desk.is_whole(), doomed
        if code == 0:
            break
    assert doomed > 10


def ending(number):
    if number % 4 < 2:
        return {"result": f"out/{number}"}
    return {"reason": f"no {number}", "recoverable": "all"}


@pytest.mark.req("B1", "B2", "B4")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_an_error_at_any_call_is_a_warning_and_the_next_write_heals_it(desk, monkeypatch, number):
    desk.create("one")
    desk.create("two")

    def wrong():
        raise OSError(number, os.strerror(number))

    for doomed in itertools.count():
        failing = Calls(doomed, wrong)
        with monkeypatch.context() as patched:
            patched.setattr(plainfiles, "os", failing)
            desk.update("one", f"step {doomed}")  # never raises: the commit stands
        assert all(desk.folder.name in warning for warning in desk.warnings)
        desk.update("two", f"after {doomed}")
        for kept in kept_beside(desk.file("one")):
            kept.unlink()  # a file that could not be read counts as a person's
        assert desk.is_whole(), doomed
        if not failing.happened:
            break
    assert doomed > 10


def test_a_full_disk_is_not_met_once_for_every_flow(desk, monkeypatch):
    for number in range(30):
        desk.create(f"flow-{number}", shown=False)
    met = []

    def full(*_arguments, **_options):
        met.append(1)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(plainfiles.os, "rename", full)
    [warning] = desk.repair()
    assert os.strerror(errno.ENOSPC) in warning
    assert len(met) < 10


def test_a_broken_object_is_a_warning(desk):
    desk.create("one")
    desk.update("one", "half", shown=False)
    blob = desk.stored()[flow_path("one")]
    loose = desk.gitdir / "objects" / blob[:2] / blob[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"")
    [warning] = desk.repair()
    assert blob in warning


def test_a_folder_that_was_moved_away_is_a_warning(desk):
    desk.create("one")
    desk.view.folder = Path("/nowhere/at/all")
    [warning] = desk.update("one", "half")
    assert "/nowhere/at/all" in warning
