"""A ref that is moved: who wins a race, and what was said is true."""

from __future__ import annotations

import os
import signal
import stat

import pytest
from gitrepo import MAIN, before, child, code_of, fsck, git, publish_on, texts

from gitflowstate.git import Repository
from gitflowstate.syscalls import calls


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        assert publish_on(made, None, "first")
        yield made


def test_a_swap_from_another_value_is_lost_and_changes_nothing(repo):
    first = repo.ref(MAIN)
    assert publish_on(repo, first, "second")
    second = repo.ref(MAIN)
    assert not publish_on(repo, first, "late")
    assert not publish_on(repo, None, "late")
    assert repo.ref(MAIN) == second
    assert git(repo.gitdir, "reflog", "main").count("\n") == 1


def test_a_swap_on_a_packed_ref_compares_with_its_value(repo):
    first = repo.ref(MAIN)
    git(repo.gitdir, "pack-refs", "--all")
    assert not publish_on(repo, None, "late")
    assert publish_on(repo, first, "second")
    assert texts(repo) == ["first", "second"]


def test_any_ref_under_refs_is_made_with_its_folders(repo):
    ref = "refs/gfs/cursors/github"
    assert repo.ref(ref) is None
    assert publish_on(repo, None, "c1", ref=ref)
    assert publish_on(repo, repo.ref(ref), "c2", ref=ref)
    assert git(repo.gitdir, "log", "--format=%s", ref) == "c2\nc1"
    fsck(repo.gitdir)


def test_the_reflog_is_readable_by_git_and_its_loss_is_a_warning(repo):
    assert publish_on(repo, repo.ref(MAIN), "second")
    assert git(repo.gitdir, "reflog", "--format=%gs", "main") == "second\nfirst"
    log = repo.gitdir / "logs/refs/heads/main"
    log.unlink()
    log.mkdir()
    assert publish_on(repo, repo.ref(MAIN), "third")
    assert len(repo.warnings) == 1
    assert "reflog" in repo.warnings[0]


def both(repo, other, at, first_text="a", second_text="b"):
    """Publish `a`; at the point `at` of that, publish `b` on the same old value."""
    old = repo.ref(MAIN)
    results = {}

    def rival():
        # Somebody removed the lock file by hand, as Git's own message advises.
        (repo.gitdir / f"{MAIN}.lock").unlink(missing_ok=True)
        results[second_text] = publish_on(other, old, second_text)

    with before("rename", at, rival):
        results[first_text] = publish_on(repo, old, first_text)
    return results


@pytest.mark.req("C10", "F1")
def test_of_two_without_a_lock_one_stopped_before_its_rename_one_is_told_yes(repo):
    with Repository.open(repo.gitdir) as other:
        results = both(repo, other, MAIN)
    assert results == {"a": False, "b": True}
    assert texts(repo) == ["first", "b"]
    assert not list(repo.gitdir.glob("gfs-ref-*"))


@pytest.mark.req("C10")
def test_whoever_renames_it_the_file_says_who_won(repo):
    """A's rename moves B's lock file into place: B is told yes, A no."""
    old = repo.ref(MAIN)
    results = {}
    with Repository.open(repo.gitdir) as other:
        real = calls.rename

        def rename(source, target):
            if not target.endswith(MAIN):
                return real(source, target)
            if "a" not in results:
                results["a"] = None
                (repo.gitdir / f"{MAIN}.lock").unlink()
                # B links its file and is stopped at its own rename, until A's is over.
                results["b"] = publish_on(other, old, "b")
                return None
            real(source, target)
            raise FileNotFoundError(2, "gone", source)

        calls.rename = rename
        try:
            results["a"] = publish_on(repo, old, "a")
        finally:
            calls.rename = real
    assert results == {"a": False, "b": True}
    assert texts(repo) == ["first", "b"]


@pytest.mark.req("C10")
def test_a_file_of_ours_that_another_put_into_place_is_ours(repo):
    """B, stopped before its rename, moves A's lock file into place before A has compared."""
    old = repo.ref(MAIN)

    def rival():
        (repo.gitdir / f"{MAIN}.lock").rename(repo.gitdir / MAIN)

    with before("open", MAIN, rival):
        assert publish_on(repo, old, "a")
    assert texts(repo) == ["first", "a"]
    assert not list(repo.gitdir.glob("gfs-ref-*"))


@pytest.mark.req("C10", "B1")
def test_a_race_that_was_lost_is_lost_even_if_the_disk_then_fails(repo, monkeypatch):
    old = repo.ref(MAIN)
    real = calls.fsync

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        real(descriptor)

    with Repository.open(repo.gitdir) as other:

        def rival():
            (repo.gitdir / f"{MAIN}.lock").unlink()
            assert publish_on(other, old, "b")
            monkeypatch.setattr(calls, "fsync", failing)

        with before("rename", MAIN, rival):
            assert publish_on(repo, old, "a") is False
    assert texts(repo) == ["first", "b"]


@pytest.mark.req("C10")
def test_a_commit_that_others_built_on_before_we_looked_is_ours(repo):
    with Repository.open(repo.gitdir) as other:

        def rivals():
            for text in ("b", "c"):
                assert publish_on(other, other.ref(MAIN), text)

        folder = (repo.gitdir / "refs/heads").stat().st_ino
        real = calls.fsync
        count = []

        def fsync(descriptor):
            real(descriptor)
            if os.fstat(descriptor).st_ino == folder and not count:
                count.append(1)
                rivals()

        calls.fsync = fsync
        try:
            assert publish_on(repo, repo.ref(MAIN), "a")
        finally:
            calls.fsync = real
    assert count
    assert texts(repo) == ["first", "a", "b", "c"]


@pytest.mark.req("C6", "C10")
def test_a_stopped_process_does_not_overwrite_who_came_after(repo):
    old = repo.ref(MAIN)

    def stopped():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            os._exit(0 if publish_on(repo, old, "a") else 4)

    pid = child(stopped)
    os.waitpid(pid, os.WUNTRACED)
    (repo.gitdir / f"{MAIN}.lock").unlink()
    with Repository.open(repo.gitdir) as other:
        assert publish_on(other, old, "b")
    os.kill(pid, signal.SIGCONT)
    assert code_of(pid) == 4
    assert texts(repo) == ["first", "b"]
