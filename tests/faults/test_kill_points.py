"""A publish that dies, fails or is cut short at operating-system call k, for every k.

Outcome each time: the ref is the old or the new commit, what was said is true, the next publish
succeeds, and `git fsck --strict` is content.
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from gitrepo import MAIN, child, code_of, fsck, intercepted

from gitflowstate.errors import Denied, GfsError, Unavailable, Uncertain
from gitflowstate.git import Repository
from gitflowstate.locks import RepositoryLock

CURSOR = "refs/gfs/cursors/github"
KINDS = {errno.EIO: GfsError, errno.ENOSPC: Unavailable, errno.EACCES: Denied}

Repo = Path
EVERY = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])


@pytest.fixture
def gitdir(tmp_path) -> Repo:
    path = tmp_path / "r.git"
    with Repository.init(path) as repo:
        assert publish(repo, 0)
    return path


def publish(repo: Repository, number: int, ref: str = MAIN) -> bool:
    """Publish one more file on top of what the ref is now; every call adds two folders."""
    old = repo.ref(ref)
    tree = repo.commit(old).tree if old else None
    changes = {f"flows/{number % 256:02x}/{number}.json": b'{"n": %d}\n' % number}
    staged = repo.stage(tree, changes)
    parents = [old] if old else []
    commit = repo.commit_object(staged, parents, b"n %d\n" % number, "tester", 1_800_000_000)
    return repo.publish(ref, old, commit, f"update {number}")


def head(gitdir: Repo, ref: str = MAIN) -> str | None:
    with Repository.open(gitdir) as repo:
        return repo.ref(ref)


def holds(gitdir: Repo, number: int, ref: str = MAIN) -> bool:
    """Return whether what publish `number` wrote is in the tree of the ref."""
    with Repository.open(gitdir) as repo:
        oid = repo.ref(ref)
        path = f"flows/{number % 256:02x}/{number}.json"
        return oid is not None and repo.lookup(repo.commit(oid).tree, path) is not None


def lock_files(gitdir: Repo) -> list[Path]:
    return [path for path in gitdir.rglob("*.lock") if path.name != "gfs.lock"]


def count_calls(work) -> int:
    names = []

    def act(_number, name, real, arguments):
        names.append(name)
        return real(*arguments)

    with intercepted(act):
        work()
    return len(names)


def dying_at(k: int):
    def act(number, _name, real, arguments):
        if number == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    return act


def locked_publish(gitdir: Repo, number: int, ref: str = MAIN) -> None:
    with Repository.open(gitdir, writing=True) as repo, RepositoryLock(gitdir):
        assert publish(repo, number, ref)


@pytest.mark.req("R-TF-14", "A1", "F3")
@pytest.mark.parametrize("ref", [MAIN, CURSOR])
@EVERY
def test_killed_before_any_call_leaves_old_or_new_and_the_next_succeeds(gitdir, ref, every):
    total = count_calls(lambda: locked_publish(gitdir, 1))
    outcomes = set()
    # One run more than there are calls: the last is not killed, so the count was right.
    for k in (*range(0, total, every), total, total + 1, total + 2):
        before = head(gitdir, ref)

        def work(k=k):
            with intercepted(dying_at(k)):
                locked_publish(gitdir, 100 + 2 * k, ref)

        code = code_of(child(work))
        new = holds(gitdir, 100 + 2 * k, ref)
        assert new or head(gitdir, ref) == before
        outcomes.add((code, new))
        locked_publish(gitdir, 100 + 2 * k + 1, ref)
        assert holds(gitdir, 100 + 2 * k + 1, ref)
        assert holds(gitdir, 100 + 2 * k, ref) is new
        assert lock_files(gitdir) == []
        if k % 15 == 0:
            fsck(gitdir)
    fsck(gitdir)
    assert outcomes == {(-signal.SIGKILL, False), (-signal.SIGKILL, True), (0, True)}


@pytest.mark.req("A1")
@EVERY
def test_killed_while_a_repository_is_made_leaves_none_or_all(tmp_path, every):
    total = count_calls(lambda: Repository.init(tmp_path / "counted").close())
    for k in range(0, total, every):
        path = tmp_path / f"r{k}"

        def work(k=k, path=path):
            with intercepted(dying_at(k)):
                Repository.init(path)

        assert code_of(child(work)) == -signal.SIGKILL
        if not path.exists():
            Repository.init(path).close()
        with Repository.open(path, writing=True) as repo:
            assert publish(repo, k)
        if k % 15 == 0:
            fsck(path)


def failing(k: int, number: int, *, late: bool, for_good: bool):
    """Make call k fail; `late` after it has done its work, `for_good` all that follow too."""

    def act(now, name, real, arguments):
        if now == k or (for_good and now > k):
            if late or name == "close":  # a close that fails has closed
                real(*arguments)
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    return act


@pytest.mark.req("B1", "B3")
@pytest.mark.parametrize(
    ("number", "late", "for_good"),
    [
        (errno.EIO, False, False),
        (errno.ENOSPC, False, False),
        pytest.param(errno.EACCES, False, False, marks=pytest.mark.long),
        (errno.EIO, True, False),
        (errno.EIO, False, True),
    ],
    ids=["EIO", "ENOSPC", "EACCES", "EIO-late", "EIO-from-then-on"],
)
def test_error_at_any_call_says_what_the_ref_says(gitdir, number, late, for_good):
    with Repository.open(gitdir, writing=True) as repo:
        total = count_calls(lambda: publish(repo, 1))
    seen = set()
    messages: list[str] = []
    for k in range(total):
        before = head(gitdir)
        with Repository.open(gitdir, writing=True) as repo:
            try:
                with intercepted(failing(k, number, late=late, for_good=for_good)):
                    assert publish(repo, 100 + 2 * k)
                outcome: type[GfsError] | None = None
            except GfsError as error:
                outcome = type(error)
                messages.append(error.message)
        new = holds(gitdir, 100 + 2 * k)
        assert new or head(gitdir) == before
        if outcome is None:
            assert new
        elif outcome is Uncertain:
            # Only where even looking failed, it is not known whether the rename came through.
            assert new or for_good
        else:
            assert not new
            assert outcome is KINDS[number]
        seen.add((outcome, new))
        with Repository.open(gitdir, writing=True) as repo:
            assert publish(repo, 100 + 2 * k + 1)
        assert lock_files(gitdir) == []
    assert {(KINDS[number], False), (Uncertain, True)} <= seen
    assert all(str(gitdir) in message or MAIN in message for message in messages)
    fsck(gitdir)


@pytest.mark.req("B8")
def test_short_writes_store_everything(gitdir):
    def one_byte(_number, name, real, arguments):
        if name == "write":
            descriptor, data = arguments
            return real(descriptor, bytes(data[:1]))
        return real(*arguments)

    with Repository.open(gitdir, writing=True) as repo, intercepted(one_byte):
        assert publish(repo, 1)
    assert holds(gitdir, 1)
    fsck(gitdir)


@pytest.mark.req("R-TF-10", "F2")
def test_one_fsync_an_object_one_a_folder_and_two_for_the_ref_in_order(gitdir):
    synced = []
    order = []

    def act(_number, name, real, arguments):
        if name == "fsync":
            synced.append(str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
        order.append(name)
        return real(*arguments)

    with Repository.open(gitdir, writing=True) as repo:
        assert publish(repo, 1)
        with intercepted(act):
            assert publish(repo, 2)
    objects = [path for path in synced if "/tmp_obj_" in path]
    private = [path for path in synced if "/gfs-ref-" in path]
    folders = [path for path in synced if Path(path).is_dir()]
    assert len(objects) == 5  # blob, folder, flows, root, commit
    assert len(private) == 1
    assert len(synced) == len(objects) + len(private) + len(folders)
    assert len(folders) == len(set(folders))
    assert folders[-1] == str(gitdir / "refs/heads")
    touched = {str(Path(path).parent) for path in objects}
    assert touched <= set(folders[:-1]) <= touched | {str(gitdir / "objects")}
    assert synced.index(private[0]) > max(map(synced.index, [*objects, *folders[:-1]]))
    last_rename = len(order) - 1 - order[::-1].index("rename")
    assert order[last_rename + 1] == "fsync"  # the folder of the ref, right after its rename


@pytest.mark.req("F2")
def test_a_new_folder_of_a_ref_is_synced_too(gitdir):
    synced = []

    def act(_number, name, real, arguments):
        if name == "fsync":
            synced.append(str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
        return real(*arguments)

    with Repository.open(gitdir, writing=True) as repo, intercepted(act):
        assert publish(repo, 1, CURSOR)
    made = [str(gitdir / name) for name in ("refs", "refs/gfs", "refs/gfs/cursors")]
    assert [path for path in synced if "/refs" in path] == made
