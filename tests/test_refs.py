"""Refs: what counts as a value, who wins a race, and which lock files are dead."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitflowstate.errors import Corrupt, GfsError, Rejected, Unavailable
from gitflowstate.git import Repository
from gitflowstate.swap import Swap
from gitflowstate.syscalls import calls

MAIN = "refs/heads/main"


def git(gitdir, *arguments) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(gitdir), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", gitdir, *arguments], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        assert publish(made, None, "first")
        yield made


def commit(repo, old, text):
    tree = repo.commit(old).tree if old else None
    staged = repo.stage(tree, {f"flows/{text}.json": text.encode()})
    return repo.commit_object(staged, [old] if old else [], text.encode(), "tester", 1_800_000_000)


def publish(repo, old, text, ref=MAIN) -> bool:
    return repo.publish(ref, old, commit(repo, old, text), text)


def texts(repo, ref=MAIN) -> list[str]:
    """Return the messages on a ref, oldest first."""
    return [c.message.decode() for c in repo.lineage(repo.ref(ref), [])][::-1]


@contextmanager
def before(name, ending, act):
    """Run `act` once, before the first call `name` whose last path ends so."""
    real = getattr(calls, name)
    done = []

    def through(*arguments):
        if str(arguments[-1]).endswith(ending) and not done:
            done.append(1)
            act()
        return real(*arguments)

    setattr(calls, name, through)
    try:
        yield
    finally:
        setattr(calls, name, real)
    assert done


def child(work) -> int:
    """Fork; the child runs `work` and is killed if that returns. Returns its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner has threads, we use none
        pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(70)
    return pid


# -- reading ----------------------------------------------------------------------------------


@pytest.mark.req("D13", "A7")
@pytest.mark.parametrize(
    "content", [b"", b"not a sha\n", b"a" * 20, b"A" * 40, b"ref: refs/heads/x\n", b"\0" * 41]
)
def test_a_ref_of_other_content_is_corrupt_and_never_the_packed_value(repo, content):
    git(repo.gitdir, "pack-refs", "--all")
    (repo.gitdir / MAIN).write_bytes(content)
    with pytest.raises(Corrupt, match="refs/heads/main"):
        repo.ref(MAIN)
    with pytest.raises(Corrupt):
        publish(repo, None, "second")
    assert (repo.gitdir / MAIN).read_bytes() == content
    assert not (repo.gitdir / f"{MAIN}.lock").exists()


@pytest.mark.req("D13")
@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder"])
def test_a_ref_that_is_no_regular_file_is_corrupt(repo, kind, tmp_path):
    git(repo.gitdir, "pack-refs", "--all")
    path = repo.gitdir / MAIN
    if kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "folder link":
        (repo.gitdir / "refs/heads").rename(tmp_path / "elsewhere")
        (repo.gitdir / "refs/heads").symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(Corrupt):
        repo.ref(MAIN)


def test_a_packed_ref_is_found_beside_others_and_peeled_tags(repo):
    wanted = repo.ref(MAIN)
    git(repo.gitdir, "branch", "x/refs/heads/main", MAIN)
    git(
        repo.gitdir, "-c", "user.name=p", "-c", "user.email=p@x", "tag", "-a", "-m", "t", "t1", MAIN
    )
    git(repo.gitdir, "pack-refs", "--all")
    assert not (repo.gitdir / MAIN).exists()
    assert repo.ref(MAIN) == wanted
    assert repo.ref("refs/heads/x/refs/heads/main") == wanted
    assert repo.ref("refs/heads/absent") is None
    assert repo.ref("refs/heads/main/below") is None


def test_a_broken_packed_ref_is_corrupt(repo):
    git(repo.gitdir, "pack-refs", "--all")
    packed = repo.gitdir / "packed-refs"
    packed.write_text(packed.read_text().replace(repo.ref(MAIN), "g" * 40))
    with pytest.raises(Corrupt, match="packed-refs"):
        repo.ref(MAIN)


@pytest.mark.req("B7", "F5")
@pytest.mark.parametrize("number", [5, 13, 24, 116], ids=["EIO", "EACCES", "EMFILE", "ESTALE"])
def test_an_error_on_the_loose_ref_is_never_the_packed_value(repo, number, monkeypatch):
    old = repo.ref(MAIN)
    git(repo.gitdir, "pack-refs", "--all")
    assert publish(repo, old, "second")
    newer = repo.ref(MAIN)
    real = calls.open

    def failing(path, *rest):
        if str(path).endswith(MAIN):
            raise OSError(number, os.strerror(number), path)
        return real(path, *rest)

    monkeypatch.setattr(calls, "open", failing)
    with pytest.raises(GfsError, match="refs/heads/main"):
        repo.ref(MAIN)
    with pytest.raises(GfsError, match="refs/heads/main"):
        publish(repo, old, "third")
    monkeypatch.undo()
    assert repo.ref(MAIN) == newer


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    "name",
    [
        "main",
        "refs/heads",
        "refs/heads/a b",
        "refs/heads/@{u}",
        "refs/heads/x.lock",
        "refs/../x/y",
        "refs/heads/-d",
        "refs/heads//x",
        "refs/heads/.x",
        "refs/heads/x.",
        "refs/heads/a\nb",
        "HEAD",
    ],
)
def test_a_name_that_git_would_misread_is_refused(repo, name):
    with pytest.raises(Rejected):
        repo.ref(name)
    with pytest.raises(Rejected):
        publish(repo, None, "x", ref=name)


# -- swapping ---------------------------------------------------------------------------------


def test_a_swap_from_another_value_is_lost_and_changes_nothing(repo):
    first = repo.ref(MAIN)
    assert publish(repo, first, "second")
    second = repo.ref(MAIN)
    assert not publish(repo, first, "late")
    assert not publish(repo, None, "late")
    assert repo.ref(MAIN) == second
    assert git(repo.gitdir, "reflog", "main").count("\n") == 1


def test_a_swap_on_a_packed_ref_compares_with_its_value(repo):
    first = repo.ref(MAIN)
    git(repo.gitdir, "pack-refs", "--all")
    assert not publish(repo, None, "late")
    assert publish(repo, first, "second")
    assert texts(repo) == ["first", "second"]


def test_any_ref_under_refs_is_made_with_its_folders(repo):
    ref = "refs/gfs/cursors/github"
    assert repo.ref(ref) is None
    assert publish(repo, None, "c1", ref=ref)
    assert publish(repo, repo.ref(ref), "c2", ref=ref)
    assert git(repo.gitdir, "log", "--format=%s", ref) == "c2\nc1"
    assert git(repo.gitdir, "fsck", "--strict") == ""


def test_the_reflog_is_readable_by_git_and_its_loss_is_a_warning(repo):
    assert publish(repo, repo.ref(MAIN), "second")
    assert git(repo.gitdir, "reflog", "--format=%gs", "main") == "second\nfirst"
    log = repo.gitdir / "logs/refs/heads/main"
    log.unlink()
    log.mkdir()
    assert publish(repo, repo.ref(MAIN), "third")
    assert len(repo.warnings) == 1
    assert "reflog" in repo.warnings[0]


def both(repo, other, at, first_text="a", second_text="b"):
    """Publish `a`; at the point `at` of that, publish `b` on the same old value."""
    old = repo.ref(MAIN)
    results = {}

    def rival():
        # Somebody removed the lock file by hand, as Git's own message advises.
        (repo.gitdir / f"{MAIN}.lock").unlink(missing_ok=True)
        results[second_text] = publish(other, old, second_text)

    with before("rename", at, rival):
        results[first_text] = publish(repo, old, first_text)
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
                results["b"] = publish(other, old, "b")
                return None
            real(source, target)
            raise FileNotFoundError(2, "gone", source)

        calls.rename = rename
        try:
            results["a"] = publish(repo, old, "a")
        finally:
            calls.rename = real
    assert results == {"a": False, "b": True}
    assert texts(repo) == ["first", "b"]


@pytest.mark.req("C10")
def test_a_commit_that_others_built_on_before_we_looked_is_ours(repo):
    with Repository.open(repo.gitdir) as other:

        def rivals():
            for text in ("b", "c"):
                assert publish(other, other.ref(MAIN), text)

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
            assert publish(repo, repo.ref(MAIN), "a")
        finally:
            calls.fsync = real
    assert count
    assert texts(repo) == ["first", "a", "b", "c"]


@pytest.mark.req("C6", "C10")
def test_a_stopped_process_does_not_overwrite_who_came_after(repo):
    old = repo.ref(MAIN)

    def stopped():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            os._exit(0 if publish(repo, old, "a") else 4)

    pid = child(stopped)
    os.waitpid(pid, os.WUNTRACED)
    (repo.gitdir / f"{MAIN}.lock").unlink()
    with Repository.open(repo.gitdir) as other:
        assert publish(other, old, "b")
    os.kill(pid, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    assert texts(repo) == ["first", "b"]


# -- lock files -------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(Swap, "patience_s", 0.05)


def stale(repo) -> list[Path]:
    return list((repo.gitdir / "gfs/stale").glob("*"))


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.req("F3", "A1")
def test_a_dead_writers_lock_is_moved_aside_at_once(repo, impatient):
    def dying():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            publish(repo, repo.ref(MAIN), "dead")

    os.waitpid(child(dying), 0)
    lock = repo.gitdir / f"{MAIN}.lock"
    assert lock.exists()
    assert publish(repo, repo.ref(MAIN), "alive")
    assert texts(repo) == ["first", "alive"]
    assert len(stale(repo)) == 1
    assert not lock.exists()
    assert not list(repo.gitdir.glob("gfs-ref-*"))
    assert repo.warnings == []


@pytest.mark.req("C6")
def test_a_living_writers_lock_is_left_alone_however_old(repo, impatient):
    def stopped():
        with before("rename", MAIN, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
            os._exit(0 if publish(repo, repo.ref(MAIN), "slow") else 4)

    pid = child(stopped)
    os.waitpid(pid, os.WUNTRACED)
    lock = repo.gitdir / f"{MAIN}.lock"
    aged(lock, 3600)
    with Repository.open(repo.gitdir) as other, pytest.raises(Unavailable) as caught:
        publish(other, other.ref(MAIN), "other")
    assert str(lock) in caught.value.message
    assert "3600 s" in caught.value.message
    os.kill(pid, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert texts(repo) == ["first", "slow"]


@pytest.mark.req("A4", "L5")
def test_a_foreign_lock_is_waited_for_and_named_while_it_is_young(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("")
    aged(lock, 500)
    with pytest.raises(Unavailable, match=r"main\.lock, 500 s old"):
        publish(repo, repo.ref(MAIN), "second")
    assert lock.exists()
    assert texts(repo) == ["first"]
    assert stale(repo) == []


@pytest.mark.req("A4", "L5")
def test_a_foreign_lock_that_is_old_and_not_open_is_moved_aside_with_a_warning(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("theirs")
    aged(lock, 3600)
    assert publish(repo, repo.ref(MAIN), "second")
    assert [path.read_text() for path in stale(repo)] == ["theirs"]
    assert len(repo.warnings) == 1
    assert "60 minutes" in repo.warnings[0]
    assert str(stale(repo)[0]) in repo.warnings[0]
    assert git(repo.gitdir, "for-each-ref", "--format=%(refname)") == MAIN


@pytest.mark.req("A4")
def test_a_foreign_lock_that_is_old_but_open_is_not_touched(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("theirs")
    aged(lock, 3600)
    with lock.open() as opened:
        holder = subprocess.Popen(["sleep", "60"], stdin=opened)
    with holder:
        try:
            with pytest.raises(Unavailable):
                publish(repo, repo.ref(MAIN), "second")
        finally:
            holder.kill()
    assert lock.read_text() == "theirs"
    assert publish(repo, repo.ref(MAIN), "second")


def test_a_lock_that_is_no_file_is_never_moved(repo, impatient):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.mkdir()
    aged(lock, 3600)
    with pytest.raises(Unavailable, match=r"main\.lock"):
        publish(repo, repo.ref(MAIN), "second")
    assert lock.is_dir()


def test_a_lock_given_back_while_we_wait_is_no_hindrance(repo):
    lock = repo.gitdir / f"{MAIN}.lock"
    lock.write_text("")
    with subprocess.Popen(["sh", "-c", f"sleep 0.2; rm {lock}"]):
        assert publish(repo, repo.ref(MAIN), "second")


def test_a_leftover_private_file_is_swept_once_it_is_old_and_not_open(repo):
    dead, young, held = (repo.gitdir / f"gfs-ref-{name}" for name in ("dead", "young", "held"))
    for path in (dead, young, held):
        path.write_text("x")
    aged(dead, 120)
    aged(held, 120)
    with held.open():
        assert publish(repo, repo.ref(MAIN), "second")
        assert [dead.exists(), young.exists(), held.exists()] == [False, True, True]


@pytest.mark.req("C5")
def test_git_may_pack_refs_and_gc_between_all_our_writes(repo):
    loop = "while :; do git pack-refs --all; git gc -q; git repack -adq; echo >> rounds; done"
    rounds = repo.gitdir / "rounds"
    expected = ["first"]
    with subprocess.Popen(
        ["sh", "-c", loop], cwd=repo.gitdir, stderr=subprocess.DEVNULL, start_new_session=True
    ) as packer:
        try:
            while len(expected) < 40 or not rounds.exists() or rounds.stat().st_size < 3:
                expected.append(f"n{len(expected)}")
                assert publish(repo, repo.ref(MAIN), expected[-1])
        finally:
            os.killpg(packer.pid, signal.SIGKILL)
    assert texts(repo) == expected
    assert git(repo.gitdir, "fsck", "--strict") == ""
