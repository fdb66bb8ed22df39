"""`gfs init` that dies or fails at any of its calls, or is not alone."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from desk import FIRST
from gitrepo import child, code_of, git, intercepted

from gitflowstate import founding
from gitflowstate.errors import GfsError, Unavailable, Uncertain
from gitflowstate.git import Repository
from gitflowstate.store import Store

MAIN = "refs/heads/main"
EVERY = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])


@pytest.fixture
def quick(tmp_path):
    """Return a folder in memory where there is one: hundreds of repositories are made in it."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def _count_calls(folder):
    seen = []

    def act(number, name, real, arguments):
        seen.append(number)
        return real(*arguments)

    with intercepted(act):
        founding.init(folder)
    return len(seen)


@pytest.mark.req("A1")
@EVERY
def test_killed_at_any_call_it_succeeds_when_run_again(quick, every):
    for doomed in range(0, _count_calls(quick / "whole"), every):
        folder = quick / f"killed-{doomed}"

        def act(number, name, real, arguments, doomed=doomed):
            if number == doomed:
                os._exit(9)
            return real(*arguments)

        with intercepted(act):
            assert code_of(child(lambda folder=folder: founding.init(folder))) == 9
        founding.init(folder)
        assert [path.name for path in folder.iterdir()] == [".git"], doomed
        assert git(folder, "rev-parse", MAIN) == FIRST


@pytest.mark.req("B1", "B2")
@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, GfsError), (errno.ENOSPC, Unavailable)])
@EVERY
def test_an_error_at_any_call_leaves_all_or_nothing(quick, number, kind, every):
    for doomed in range(0, _count_calls(quick / "whole"), every):
        folder = quick / f"failed-{doomed}"

        def act(at, name, real, arguments, doomed=doomed):
            if at == doomed:
                raise OSError(number, os.strerror(number), "somewhere")
            return real(*arguments)

        failure = None
        with intercepted(act):
            try:
                founding.init(folder)
            except GfsError as error:
                failure = error
        expected = Uncertain if (folder / ".git").exists() else kind
        assert failure is None or isinstance(failure, expected), (doomed, failure)
        with Repository.open(founding.init(folder).location.gitdir) as repo:
            assert Store(repo).head().oid == FIRST
        left = {path.name for path in folder.iterdir()}
        assert left == {".git"}, doomed


@pytest.mark.req("C2")
def test_of_several_at_once_one_makes_it_and_all_have_it(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        founded = list(pool.map(lambda _: founding.init(tmp_path / "flows"), range(8)))
    assert [one.made for one in founded].count(True) == 1
    assert len({one.location for one in founded}) == 1
    assert [path.name for path in (tmp_path / "flows").iterdir()] == [".git"]


def test_without_locks_on_the_file_system_the_rename_lets_one_in(tmp_path):
    def act(_number, name, real, arguments):
        if name == "flock" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode):
            raise OSError(errno.ENOTSUP, "no locks here")
        if name == "rename" and arguments[1].endswith("/late/.git"):
            founding.init(tmp_path / "early")
            (tmp_path / "early" / ".git").rename(tmp_path / "late" / ".git")
        return real(*arguments)

    with intercepted(act):
        founded = founding.init(tmp_path / "late")
    assert not founded.made
    assert [path.name for path in (tmp_path / "late").iterdir()] == [".git"]
    assert git(tmp_path / "late", "rev-parse", MAIN) == FIRST
