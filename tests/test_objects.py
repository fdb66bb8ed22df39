"""Objects on disk: broken ones, packs under a repack, and bombs."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from gitrepo import MAIN, before, commit_on, fsck, git, loose, overwrite, publish

from gitflowstate.errors import Corrupt, GfsError
from gitflowstate.git import Repository
from gitflowstate.objects import object_id


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        yield made


def pack(repo):
    git(repo.gitdir, "gc", "-q", "--prune=now")


@pytest.mark.req("A6", "D8")
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: overwrite(path, b""), "empty"),
        (lambda path: overwrite(path, b"rubbish"), "does not decode"),
        (lambda path: overwrite(path, path.read_bytes()[:-3]), "not the declared one"),
        (lambda path: overwrite(path, path.read_bytes() + b"x"), "not the declared one"),
        (lambda path: overwrite(path, zlib.compress(b"blob 1\0x")), "another id"),
        (lambda path: overwrite(path, zlib.compress(b"blob 9\0x")), "not the declared one"),
        (lambda path: overwrite(path, zlib.compress(b"blob")), "does not decode"),
        (lambda path: overwrite(path, zlib.compress(b"tree 0\0")), "is a tree, not a blob"),
        (Path.unlink, "is missing"),
    ],
)
def test_a_broken_object_is_named_and_heals_when_written_again(repo, damage, says):
    publish(repo, {"a": b"content"})
    oid = repo.lookup(repo.commit(repo.ref(MAIN)).tree, "a").oid
    damage(loose(repo, oid))
    with pytest.raises(Corrupt, match=says) as caught:
        repo.blob(oid)
    assert oid in caught.value.message
    publish(repo, {"a": b"content"})
    assert repo.blob(oid) == b"content"
    fsck(repo.gitdir)


@pytest.mark.req("A5", "F3")
def test_lock_files_of_objects_by_others_hinder_nothing(repo):
    staged = commit_on(repo, None, {"a/b": b"1"})
    for oid in staged.objects:
        loose(repo, oid).parent.mkdir(exist_ok=True)
        loose(repo, oid).with_suffix(".lock").touch()
    assert repo.publish(MAIN, None, staged, "first")
    assert git(repo.gitdir, "show", "main:a/b") == "1"


@pytest.mark.req("A6")
@pytest.mark.parametrize("what", ["tree", "commit"])
def test_an_empty_tree_or_commit_of_the_head_is_corrupt(repo, what):
    oid = publish(repo, {"a/b": b"1"})
    tree = repo.commit(oid).tree
    overwrite(loose(repo, tree if what == "tree" else oid), b"")
    with Repository.open(repo.gitdir) as again, pytest.raises(Corrupt, match="empty"):
        again.tree(again.commit(oid).tree)


def test_a_broken_loose_object_is_read_from_a_pack(repo):
    oid = publish(repo, {"a": b"1"})
    pack(repo)
    assert not loose(repo, oid).exists()
    loose(repo, oid).parent.mkdir(exist_ok=True)
    loose(repo, oid).write_bytes(b"")
    assert repo.commit(oid).message == b"change"


def test_objects_are_read_wherever_a_repack_puts_them(repo):
    text = "\n".join(f"line {n} of a text long enough for a delta" for n in range(200))
    oids = []
    for number in range(60):
        content = f"{text}\n{number}\n".encode()
        publish(repo, {"a/doc": content, f"a/{number}": b"%d" % number})
        oids.append((repo.lookup(repo.commit(repo.ref(MAIN)).tree, "a/doc").oid, content))
        if number % 20 == 10:
            git(repo.gitdir, "repack", "-dq")  # one more pack, then another
    assert len(list((repo.gitdir / "objects/pack").glob("*.pack"))) == 3
    with Repository.open(repo.gitdir) as again:
        assert [again.blob(oid) for oid, _ in oids] == [content for _, content in oids]
        git(repo.gitdir, "repack", "-adfq", "--depth=50")
        assert [again.blob(oid) for oid, _ in oids] == [content for _, content in oids]
        again.close()
        assert [again.blob(oid) for oid, _ in oids] == [content for _, content in oids]
        deltas = git(
            repo.gitdir, "verify-pack", "-v", *(repo.gitdir / "objects/pack").glob("*.idx")
        )
        assert "chain length = 2" in deltas
        git(repo.gitdir, "repack", "-adfq", "--window=10")
        (pack_file,) = (repo.gitdir / "objects/pack").glob("*.pack")
        content = pack_file.read_bytes()
        for path in (repo.gitdir / "objects/pack").iterdir():
            path.unlink()
        again.close()
        git(repo.gitdir, "unpack-objects", "-q", data=content)
        assert [again.blob(oid) for oid, _ in oids] == [content for _, content in oids]
        assert again.has(oids[0][0])
        assert not again.has("1" * 40)


def test_an_object_that_is_unpacked_between_our_two_looks_is_found(repo):
    oid = publish(repo, {"a": b"1"})
    pack(repo)
    folder = repo.gitdir / "objects/pack"

    def unpack():
        content = next(folder.glob("*.pack")).read_bytes()
        for path in folder.iterdir():
            path.unlink()
        git(repo.gitdir, "unpack-objects", "-q", data=content)

    with Repository.open(repo.gitdir) as again, before("listdir", "pack", unpack):
        assert again.commit(oid).message == b"change"


@pytest.mark.req("C5")
def test_an_object_that_git_packs_before_its_folder_is_synced_is_kept(repo):
    oid = object_id("blob", b"x")

    def upkeep():
        git(repo.gitdir, "maintenance", "run", "--quiet", "--task=loose-objects")
        git(repo.gitdir, "prune-packed")
        assert not (repo.gitdir / "objects" / oid[:2]).exists()

    with before("open", f"objects/{oid[:2]}", upkeep):
        publish(repo, {"a": b"x"})
    with Repository.open(repo.gitdir) as again:
        assert again.blob(oid) == b"x"


@pytest.mark.req("C5", "F8")
def test_an_object_whose_folder_is_taken_away_is_not_held_for_stored(repo):
    oid = object_id("blob", b"x")

    def take_away():
        shutil.rmtree(repo.gitdir / "objects" / oid[:2])

    head = publish(repo, {"b": b"y"})
    with (
        before("open", f"objects/{oid[:2]}", take_away),
        pytest.raises(GfsError, match="cannot sync"),
    ):
        publish(repo, {"a": b"x"})
    assert repo.ref(MAIN) == head


def test_reading_goes_on_while_git_repacks_and_unpacks(repo):
    expected = {}
    for number in range(20):
        oid = publish(repo, {f"a/{number}": b"%d" % number})
        expected[oid] = b"change"
    loop = (
        "while :; do git repack -adq; git repack -adqA; git gc -q --prune=now; echo >>rounds; done"
    )
    rounds = repo.gitdir / "rounds"
    with subprocess.Popen(
        ["sh", "-c", loop], cwd=repo.gitdir, stderr=subprocess.DEVNULL, start_new_session=True
    ) as packer:
        try:
            while not rounds.exists() or rounds.stat().st_size < 4:
                with Repository.open(repo.gitdir) as again:
                    assert len(list(again.lineage(again.ref(MAIN), []))) == 20
                assert {oid: repo.commit(oid).message for oid in expected} == expected
        finally:
            os.killpg(packer.pid, signal.SIGKILL)


@pytest.mark.req("D8")
def test_a_corrupted_pack_is_named_and_the_rest_stays_readable(repo):
    first = publish(repo, {"a": bytes(range(256)) * 20})
    blob = repo.lookup(repo.commit(first).tree, "a").oid
    pack(repo)
    (path,) = (repo.gitdir / "objects/pack").glob("*.pack")
    last = publish(repo, {"b": b"2"})
    content = bytearray(path.read_bytes())
    content[60:-30] = b"\xff" * (len(content) - 90)
    overwrite(path, bytes(content))
    assert repo.blob(repo.lookup(repo.commit(last).tree, "b").oid) == b"2"
    with Repository.open(repo.gitdir) as again, pytest.raises(Corrupt):
        again.blob(blob)
    overwrite(path.with_suffix(".idx"), b"rubbish")
    with Repository.open(repo.gitdir) as again, pytest.raises(Corrupt, match="is missing"):
        again.blob(blob)


# -- bombs ------------------------------------------------------------------------------------


@pytest.mark.req("G7")
def test_a_blob_is_not_inflated_past_the_limit(repo):
    publish(repo, {"a": b"0" * 1000, "b": b"1" * 5_000_000})
    tree = repo.commit(repo.ref(MAIN)).tree
    small, large = (repo.lookup(tree, name).oid for name in "ab")
    for _ in range(2):
        assert len(repo.blob(small, limit=1000)) == 1000
        with pytest.raises(Corrupt, match="more than 999"):
            repo.blob(small, limit=999)
        with pytest.raises(Corrupt, match="more than 4194305") as caught:
            repo.blob(large)
        assert "revert the commit that added it" in caught.value.hint
        assert len(repo.blob(large, limit=5_000_000)) == 5_000_000
        pack(repo)


def size_of(number) -> bytes:
    """Write a size as packs and deltas do: seven bits a byte, lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def entry(kind, length, data) -> bytes:
    """Write one object of a pack, with the size it declares."""
    first = kind << 4 | length & 15
    rest = length >> 4
    return (bytes([first | 128]) + size_of(rest) if rest else bytes([first])) + data


def write_pack(repo, named: dict[str, bytes]) -> None:
    """Store a pack of entries by the names given, however wrong, and its index."""
    body = b"PACK" + struct.pack(">II", 2, len(named))
    places = []
    for name, data in named.items():
        places.append((bytes.fromhex(name), len(body)))
        body += data
    body += hashlib.sha1(body, usedforsecurity=False).digest()
    places.sort()
    fan = [sum(name[0] <= n for name, _ in places) for n in range(256)]
    index = b"\377tOc" + struct.pack(">257I", 2, *fan) + b"".join(name for name, _ in places)
    index += bytes(4 * len(places)) + b"".join(struct.pack(">I", at) for _, at in places)
    index += body[-20:]
    index += hashlib.sha1(index, usedforsecurity=False).digest()
    stem = repo.gitdir / "objects/pack/pack-1"
    stem.with_suffix(".pack").write_bytes(body)
    stem.with_suffix(".idx").write_bytes(index)


def zeros(start: bytes, megabytes) -> bytes:
    """Compress many zeros without holding them."""
    engine = zlib.compressobj()
    parts = [engine.compress(start)]
    parts += [engine.compress(bytes(1 << 20)) for _ in range(megabytes)]
    return b"".join(parts) + engine.flush()


@pytest.mark.req("G7")
def test_bombs_in_loose_objects_packs_and_trees_cost_no_memory(repo):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = loose(repo, "2" * 40)
    path.parent.mkdir()
    for declared in (1000, 300 << 20):
        path.write_bytes(zeros(b"blob %d\0" % declared, 300))
        with pytest.raises(Corrupt, match="2222"):
            repo.blob("2" * 40)
    base, full = 0xFFFFFF, 0xFFFFFF * 128
    copies = b"\xf0\xff\xff\xff" * 128  # each copies 0xffffff bytes from 0
    delta = size_of(base) + size_of(full) + copies
    whole = entry(3, base, zlib.compress(bytes(base)))
    named = {
        "3" * 40: whole,
        "4" * 40: entry(7, len(delta), b"\x33" * 20 + zlib.compress(delta)),  # 2 GB
        "5" * 40: entry(3, 300 << 20, zeros(b"", 300)),
        "6" * 40: entry(3, 1000, zeros(b"", 300)),
        "7" * 40: entry(7, len(delta), b"\x77" * 20 + zlib.compress(delta)),  # its own base
    }
    write_pack(repo, named)
    for name in named:
        with pytest.raises(Corrupt):
            repo.blob(name)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100_000  # kB
