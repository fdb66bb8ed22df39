"""Part B and A6 for what C git does for us: copies, what is brought back, and upkeep.

A full disk is no damage, damage is no want of access, and a lock is neither.
"""

from __future__ import annotations

import os
from contextlib import suppress

import clirun
import mounts
import pytest
from gitrepo import git, in_front, overwrite
from strangers import NEEDED, as_nobody, mode, theirs

PAGE = 4096
ROOM = "make room, then run the same command again"


def fill(folder, leave: int = 0):
    """Fill a file system, but for some bytes; return the file that does."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(PAGE))
    os.truncate(ballast, max(0, ballast.stat().st_size - leave))
    return ballast


@pytest.fixture
def rich(flow):
    """Return the command line on a repository whose objects take some room, however packed."""
    flow("note", "plan", os.urandom(8000).hex())
    return flow


def refused(cli, code, *words):
    """Return the error of a command; Git may leave what it had begun to write."""
    done = cli.run(*words, "--json")
    assert done.code == code, done
    assert not clirun.HARMFUL.search(done.error["hint"])
    return done.error


def second(cli, folder):
    """Make an empty bare repository."""
    git(folder, "init", "-q", "--bare", "--template=", "second.git")
    return folder / "second.git"


# ── no room ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("B2", "A14")
def test_b2_without_room_upkeep_says_so_and_nothing_is_lost(tmp_path):
    with mounts.in_memory(tmp_path / "small", "600k") as small:
        cli = clirun.made(small / "work", "--no-view")
        cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
        cli("note", "plan", os.urandom(8000).hex())
        before, ballast = cli.state(), fill(small, leave=2 * PAGE)
        error = refused(cli, 75, "gc")
        assert error["message"].startswith("git repack stopped: ")
        assert error["hint"] == ROOM
        assert before.items() <= cli.state().items()
        ballast.unlink()
        assert cli.json("gc")["after"]["loose"] == 0
        cli.sound(("plan", 2))


@pytest.mark.req("B2", "R-TF-11")
@pytest.mark.parametrize("size", ["8k", "16k", "28k"])
def test_b2_without_room_there_is_no_backup_and_the_repository_is_not_blamed(rich, tmp_path, size):
    with mounts.in_memory(tmp_path / "small", size) as small:
        assert "room, then run" in refused(rich, 75, "backup", small / "copy.bundle")["hint"]
        assert [*small.iterdir()] == []
        mounts.remounted(small, "size=2m")
        rich("backup", small / "copy.bundle")


@pytest.mark.req("B2", "R-TF-11")
def test_b2_without_room_in_the_second_repository_it_is_not_called_another_history(rich, tmp_path):
    with mounts.in_memory(tmp_path / "small", "600k") as small:
        place, ballast = second(rich, small), fill(small)
        error = rich.refuses(75, "backup", place)
        assert "No space left on device" in error["message"]
        assert error["hint"] == ROOM
        ballast.unlink()
        rich("backup", place)


@pytest.mark.req("B2", "R-TF-11")
@pytest.mark.parametrize("url", [False, True])
@pytest.mark.parametrize("size", ["12k", "16k", "20k", "24k"])
def test_b2_without_room_here_a_good_copy_is_not_called_damaged(rich, tmp_path, url, size):
    place = second(rich, tmp_path) if url else tmp_path / "copy.bundle"
    rich("backup", place)
    source = f"file://{place}" if url else place
    with mounts.in_memory(tmp_path / "small", size) as small:
        error = refused(rich, 75, "restore", source, small / "new")
        assert "room" in error["hint"]
        assert "out of reach" not in error["message"]
        mounts.remounted(small, "size=2m")
        rich("restore", source, small / "new")


# ── no access, and locks ────────────────────────────────────────────────────────────────────────


@pytest.mark.req("B4")
def test_b4_a_second_repository_that_is_read_only_is_one(flow, tmp_path):
    place = second(flow, tmp_path)
    with mounts.mounted(tmp_path / "view", "--bind", place) as view:
        mounts.remounted(view, "bind,ro")
        assert "cannot be written" in flow.refuses(77, "backup", view)["message"]


@pytest.mark.req("L5")
def test_l5_a_second_repository_whose_main_is_locked_is_not_another_history(flow, tmp_path):
    place = second(flow, tmp_path)
    lock = place / "refs/heads/main.lock"
    lock.touch()
    error = flow.refuses(75, "backup", place)
    assert str(lock) in error["message"].replace("/./", "/")
    lock.unlink()
    flow("backup", place)


def test_what_a_rule_of_the_second_repository_refuses_is_told_as_that(flow, tmp_path):
    place = second(flow, tmp_path)
    (place / "hooks").mkdir()
    hook = place / "hooks/pre-receive"
    rule = "cannot write: no space left on Mondays"
    hook.write_text(f"#!/bin/sh\necho '{rule}' >&2\nexit 1\n")
    hook.chmod(0o755)
    error = flow.refuses(77, "backup", place)
    assert rule in error["message"]
    assert "a rule or a hook there" in error["hint"]


@NEEDED
@pytest.mark.req("B5", "R-TF-11")
@pytest.mark.parametrize("rev", ["main", "main~1", "folder", "packed"])
def test_b5_an_object_that_may_not_be_read_is_not_called_corrupt(flow, tmp_path, rev):
    place, public = second(flow, tmp_path), tmp_path / "public"
    public.mkdir()
    if rev == "packed":
        flow("gc")
        (closed,) = flow.gitdir.glob("objects/pack/*.pack")
    else:
        oid = flow.git("rev-parse", "main" if rev == "folder" else rev)
        closed = flow.gitdir / "objects" / oid[:2] / ("" if rev == "folder" else oid[2:])
    with theirs(tmp_path), mode(closed, 0):
        for words in (("backup", public / "b"), ("backup", place), ("gc",)):
            done = as_nobody(flow, *words, "--json")
            assert done.code == 77, (words, done)
            assert str(closed) in done.error["message"] or "denied" in done.error["message"]
            assert not clirun.HARMFUL.search(done.error["hint"])
    assert [*public.iterdir()] == []


@NEEDED
@pytest.mark.req("B5", "G6", "R-TF-11")
def test_b5_a_copy_that_may_not_be_read_is_there_all_the_same(flow, tmp_path):
    flow("backup", tmp_path / "copy.bundle")
    folder = tmp_path / "place"
    folder.mkdir()
    with theirs(folder):
        with mode(tmp_path / "copy.bundle", 0o600):
            done = as_nobody(flow, "restore", tmp_path / "copy.bundle", folder / "new", "--json")
            assert done.code == 77, done
            assert "copy.bundle: Permission denied" in done.error["message"]
        for source in (flow.folder, flow.gitdir, f"file://{flow.gitdir}"):
            done = as_nobody(flow, "restore", source, folder / "new", "--json")
            assert done.code == 77, done
            assert "belongs to another user" in done.error["message"]
        with mode(flow.folder, 0o700):
            assert as_nobody(flow, "restore", flow.folder, folder / "new", "--json").code == 77
        assert as_nobody(flow, "backup", tmp_path / "b", "--repo", folder).code == 5


# ── damage ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("A6", "D8", "R-TF-11")
@pytest.mark.parametrize(
    ("rev", "content"),
    [
        ("main", b""),
        ("main~1", None),
        ("main^{tree}", b"\x78\x01 garbage"),
        ("main^{tree}", None),
        ("main:gitflowstate.json", b""),
        ("main:gitflowstate.json", None),
    ],
)
def test_a6_what_is_damaged_is_called_that_and_not_copied(flow, tmp_path, rev, content):
    place = second(flow, tmp_path)
    oid = flow.git("rev-parse", rev)
    path = flow.gitdir / "objects" / oid[:2] / oid[2:]
    kept = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        overwrite(path, content)
    head = flow.head
    for words in (("backup", tmp_path / "copy.bundle"), ("backup", place), ("gc",)):
        error = refused(flow, 6, *words)
        assert any(name in error["message"] for name in (oid, head, "refs/heads/main")), error
        assert "doctor" in error["hint"]
    assert not (tmp_path / "copy.bundle").exists()
    path.unlink(missing_ok=True)
    path.write_bytes(kept)


@pytest.mark.req("A6", "R-TF-11")
def test_a6_a_pack_that_is_damaged_is_not_put_down_to_the_copy(flow, tmp_path):
    flow("gc")
    (pack,) = flow.gitdir.glob("objects/pack/*.pack")
    kept = pack.read_bytes()
    overwrite(pack, kept[:20] + bytes(4) + kept[24:])
    error = flow.refuses(6, "backup", tmp_path / "copy.bundle")
    assert error["message"].startswith(f"{flow.gitdir} is damaged: ")
    assert "doctor" in error["hint"]
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
    overwrite(pack, kept)


# ── words that are hard to come by ──────────────────────────────────────────────────────────────


@pytest.mark.req("B1", "B3", "B6")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (75, "fatal: unable to write file x: Disk quota exceeded"),
        (75, "fatal: failed to read object 00: Too many open files"),
        (75, "fatal: Out of memory, malloc failed"),
        (75, "error: pack-objects died of signal 9"),
        (77, "fatal: cannot open objects/x: Read-only file system"),
        (1, "fatal: failed to read object 00: Input/output error"),
        (1, "error: unknown option `n'"),
        (6, "fatal: packed object 00 (stored in x/Input/output) is corrupt"),
    ],
)
def test_what_git_says_decides_and_the_words_of_the_system_come_first(flow, tmp_path, code, said):
    (tmp_path / "said").write_text(f"{said}\nerror: pack-objects died\n")
    script = (
        f'case " $* " in *" repack "*) cat {tmp_path}/said >&2; exit 128;; esac; exec $REAL "$@"'
    )
    error = flow.refuses(code, "gc", env=in_front(tmp_path, script))
    assert error["message"] == f"git repack stopped: {said}"


@pytest.mark.req("C11")
def test_a_git_that_was_killed_is_no_damage(flow, tmp_path):
    script = 'case " $* " in *" repack "*) kill -9 $$;; esac; exec $REAL "$@"'
    error = flow.refuses(75, "gc", env=in_front(tmp_path, script))
    assert error["message"] == "git repack stopped: signal 9 ended it"
