"""Packs that nobody can look into: named, given their index again, and nothing is cut for them."""

from __future__ import annotations

import time

import pytest
from examining import examined, made, photograph
from gitrepo import overwrite

from gitflowstate import packindex


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with three flows, one of them archived."""
    return made(tmp_path)


@pytest.fixture
def twice(cli):
    """Return a repository packed twice, the newest three revisions in the second pack."""
    cli("gc")
    (first,) = cli.gitdir.glob("objects/pack/*.idx")
    for number in range(3):
        cli("note", "f-1", f"acknowledged {number}")
    cli("gc")
    (second,) = {*cli.gitdir.glob("objects/pack/*.idx")} - {first}
    cli.first, cli.second, cli.last = first, second, cli.head
    return cli


def spoiled(cli, how):
    """Take the index of the second pack away, or put something else in its place."""
    index = cli.second
    if how == "gone":
        index.unlink()
    elif how == "folder":
        index.unlink()
        index.mkdir()
    else:
        data = index.read_bytes()
        other = {"empty": b"", "flipped": data[:1040] + b"?" + data[1041:], "short": data[:-1]}
        overwrite(index, other.get(how, cli.first.read_bytes()))


@pytest.mark.req("D8", "A6", "C-11")
@pytest.mark.parametrize("how", ["gone", "empty", "flipped", "short", "another", "folder"])
def test_d8_a_pack_without_its_index_is_named_and_gets_it_back(twice, how):
    cli, pack = twice, twice.second.with_suffix(".pack")
    spoiled(cli, how)
    found = examined(cli)
    assert pack.name in found["pack-index"]["problem"]
    assert str(cli.second) in found["pack-index"]["evidence"].replace(
        f"{cli.second.name} is not there", f"{cli.second}"
    )
    fixed = examined(cli, "--fix")
    assert str(cli.second) in fixed["pack-index"]["fixed"]
    assert "torn-head" not in fixed
    assert cli.head == cli.last
    assert examined(cli) == {}
    kept = [path.name for path in cli.gitdir.glob("gfs/stale/*")]
    assert len(kept) == (how != "gone")
    cli.git("verify-pack", cli.second)
    cli.sound(("f-1", 4))


@pytest.mark.req("D8", "A6", "C-11")
@pytest.mark.parametrize("how", ["gone", "empty"])
def test_d8_nothing_is_cut_for_what_may_be_in_such_a_pack(twice, tmp_path, how):
    cli = twice
    spoiled(cli, how)
    before = photograph(cli.gitdir)
    for env in ({"PATH": str(tmp_path)}, None):
        found = examined(cli, env=env)
        assert not found["torn-head"]["fixable"]
        assert cli.second.with_suffix(".pack").name in found["torn-head"]["evidence"]
    fixed = examined(cli, "--fix", env={"PATH": str(tmp_path)})
    assert "git is not installed" in fixed["pack-index"]["evidence"]
    after = photograph(cli.gitdir)
    assert {name for name in after if after[name] != before.get(name)} <= {"gfs"}
    # The next step that it tells is enough.
    step = found["pack-index"]["next"].partition(" (")[0].split()
    cli.git(*step[1:])
    assert examined(cli) == {}
    assert cli.head == cli.last
    cli.sound(("f-1", 4))


@pytest.mark.req("D8", "C-11")
def test_d8_a_broken_pack_is_moved_only_where_nothing_is_missing_without_it(twice):
    cli, pack = twice, twice.second.with_suffix(".pack")
    spoiled(cli, "gone")
    good = pack.read_bytes()
    overwrite(pack, good[:-30])
    found = examined(cli, "--fix")
    assert "and git index-pack stopped: " in found["pack-index"]["evidence"]
    assert (found["torn-head"]["fixed"], cli.head, pack.exists()) == ("", cli.last, True)
    overwrite(pack, good)
    cli.git("index-pack", pack)
    cli.git("pack-objects", "-q", "--all", cli.gitdir / "objects/pack/pack", data=b"")
    cli.second.unlink()
    overwrite(pack, good[:-30])
    fixed = examined(cli, "--fix")["pack-index"]["fixed"]
    assert "nothing that a ref names is missing" in fixed
    (kept,) = cli.gitdir.glob("gfs/stale/*")
    assert kept.read_bytes() == good[:-30]
    assert examined(cli) == {}
    cli.sound(("f-1", 4))


@pytest.mark.req("D8")
def test_d8_git_is_given_its_head_back_first(twice):
    spoiled(twice, "gone")
    (twice.gitdir / "HEAD").write_bytes(b"")
    fixed = examined(twice, "--fix")
    assert all(fixed[kind]["fixed"] for kind in ("head", "pack-index"))
    assert examined(twice) == {}
    twice.sound(("f-1", 4))


def test_an_index_whose_pack_is_gone_is_a_note(cli):
    oid = cli.git("hash-object", "-w", "--stdin", data=b"x")
    name = cli.git("pack-objects", "-q", cli.gitdir / "objects/pack/pack", data=oid.encode())
    (cli.gitdir / f"objects/pack/pack-{name}.pack").unlink()
    found = examined(cli)["lost-pack"]
    assert (found["note"], name in found["problem"]) == (True, True)


@pytest.mark.req("C5")
def test_a_repack_that_was_killed_between_its_renames_is_told_by_the_pack_alone(twice):
    pack = twice.second.with_suffix(".pack")
    twice.second.rename(twice.second.with_name(f".tmp-77-{twice.second.name}"))
    assert "lost-pack" not in examined(twice)
    assert pack.name in examined(twice, "--fix")["pack-index"]["problem"]
    assert examined(twice) == {}
    twice.sound()


@pytest.mark.req("C5")
def test_a_pack_that_a_repack_has_not_named_yet_is_none_without_an_index(twice):
    """Beside a repack of others, and after one that was killed: the rest holds it all."""
    pack = twice.second.with_suffix(".pack")
    pack.with_name(f".tmp-77-{pack.name}").write_bytes(pack.read_bytes())
    assert examined(twice) == {}
    twice("gc")
    twice.sound()


@pytest.mark.req("C5")
def test_a_pack_that_gets_its_index_meanwhile_is_none_without(twice, monkeypatch):
    index, data = twice.second, twice.second.read_bytes()
    index.unlink()
    monkeypatch.setattr(time, "sleep", lambda _: index.write_bytes(data))
    assert packindex.unindexed(str(index.parent)) == []
    index.unlink()
    monkeypatch.undo()
    assert [found.path for found in packindex.unindexed(str(index.parent))] == [
        str(index.with_suffix(".pack"))
    ]
    index.write_bytes(data)
