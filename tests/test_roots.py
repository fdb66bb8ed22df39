"""Before anything is removed: a ref that is lost, or shows an older value, is found and refused."""

from __future__ import annotations

import json
import os
import re
import signal

import clirun
import pytest
from flowrepo import Change, imported
from gitrepo import become_nobody, before, child, code_of, let_others_in, overwrite

OLD = 1_700_000_000
SETTINGS = b"[channels.team]\nkind = 'console'\n"
KEPT = "refs/gfs/rescued/20260101T000000Z"


def old(cli):
    """Let every object be older than what upkeep keeps of what no ref names."""
    for path in cli.gitdir.glob("objects/??/*"):
        os.utime(path, (OLD, OLD))
    for path in cli.gitdir.glob("objects/pack/*"):
        os.utime(path, (OLD, OLD))
    return cli


def built(folder, *options):
    """Return a repository with flows, and with a ref of ours that alone leads to a commit."""
    cli = clirun.made(folder, *options)
    for number in range(3):
        cli("create", f"Goal {number}", "--id", f"f-{number}", "--next", "Read")
    only = cli.git("commit-tree", "-m", "only here", "-p", "main~1", "main^{tree}")
    cli.git("update-ref", "--create-reflog", KEPT, only)
    return cli


@pytest.fixture
def cli(tmp_path):
    """Return such a repository without marks of time."""
    return old(built(tmp_path / "work"))


def lose(cli, name, *, log=False):
    """Take a ref away, as a disk does; with `log` its reflog as well."""
    (cli.gitdir / name).unlink()
    if log:
        (cli.gitdir / "logs" / name).unlink()


def packed(cli, data):
    """Pack the refs, then let a disk keep something else; return what is left to know them by."""
    cli.git("pack-refs", "--all")
    file = cli.gitdir / "packed-refs"
    file.write_bytes(data(file.read_bytes()))


def older(cli, *, log):
    """Let main show what was packed before two more revisions."""
    cli.git("pack-refs", "--all")
    cli("note", "f-1", "acknowledged")
    cli("note", "f-1", "and again")
    lose(cli, "refs/heads/main", log=log)
    old(cli)


def linked(cli):
    """Let the refs of ours be in a folder that is not there."""
    (cli.gitdir / "refs/gfs").rename(cli.gitdir / "elsewhere")
    (cli.gitdir / "refs/gfs").symlink_to(cli.gitdir / "nowhere")


def lost_tip(cli):
    oid = cli.head
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()


LOST = {
    "main": (lambda c: lose(c, "refs/heads/main", log=True), "missing: refs/heads/main"),
    "main, not its log": (lambda c: lose(c, "refs/heads/main"), "missing: refs/heads/main"),
    "main is empty": (lambda c: (c.gitdir / "refs/heads/main").write_bytes(b""), "commit id"),
    "the commit of main": (lost_tip, "is missing"),
    "packed, empty": (lambda c: packed(c, lambda _: b""), "packed-refs is an empty file"),
    "packed, cut": (lambda c: packed(c, lambda d: d[:-9]), "packed-refs ends within a line"),
    "packed, zeroes": (
        lambda c: packed(c, lambda d: d + b"\0" * 40 + b"\n"),
        "packed-refs does not parse",
    ),
    "packed, one gone": (
        lambda c: packed(c, lambda d: b"".join(d.splitlines(keepends=True)[0::2])),
        f"{KEPT} is not there",
    ),
    "a ref of ours": (lambda c: lose(c, KEPT), f"{KEPT} is not there"),
    "an empty ref": (lambda c: (c.gitdir / KEPT).write_bytes(b""), "commit id but"),
    "zeroes in a ref": (lambda c: (c.gitdir / KEPT).write_bytes(b"\0" * 41), "commit id but"),
    "the id of nothing": (lambda c: (c.gitdir / KEPT).write_text("0" * 40), "commit id but"),
    "a symbolic ref of ours": (
        lambda c: c.git("symbolic-ref", KEPT, "refs/heads/main"),
        "is symbolic",
    ),
    "a ref that leads nowhere": (
        lambda c: c.git("symbolic-ref", "refs/heads/other", "refs/heads/nowhere"),
        "leads to refs/heads/nowhere, which is not there",
    ),
    "a ref of another name": (
        lambda c: (c.gitdir / KEPT).rename(c.gitdir / f"{KEPT}~"),
        "is no name for a ref",
    ),
    "a folder of refs": (linked, "refs/gfs is no file"),
    "a pipe": (lambda c: os.mkfifo(c.gitdir / "refs/heads/pipe"), "refs/heads/pipe is no file"),
    "an older main": (lambda c: older(c, log=False), "its reflog ends there"),
    "an older main without a log": (lambda c: older(c, log=True), "the plain files show it"),
    "history": (
        lambda c: (c.gitdir / "shallow").write_text(f"{c.head}\n"),
        "the file shallow says",
    ),
}


@pytest.mark.req("A14", "A7", "D6", "F7")
@pytest.mark.parametrize("what", LOST)
def test_a14_where_a_ref_is_lost_nothing_is_removed(cli, what):
    act, says = LOST[what]
    left = cli.gitdir / "objects/aa" / f"tmp_obj_{'1' * 16}"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    act(cli)
    os.utime(left, (OLD, OLD))
    assert says in cli.refuses(6, "gc")["message"]


@pytest.mark.req("A14", "D6")
def test_a14_nor_is_what_dead_writers_left_where_git_is_not_installed(cli, tmp_path):
    left = cli.gitdir / "objects/aa" / f"tmp_obj_{'1' * 16}"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    os.utime(left, (OLD, OLD))
    lose(cli, "refs/heads/main")
    assert "missing: " in cli.refuses(6, "gc", env={"PATH": str(tmp_path)})["message"]


@pytest.mark.req("A14", "D3")
def test_a14_what_a_channel_has_seen_speaks_for_main(tmp_path):
    cli = built(tmp_path / "work", "--no-view")
    imported(cli.gitdir, Change("gfs.toml", SETTINGS), text=b"settings\n")
    cli.git("pack-refs", "--all")
    cli("note", "f-1", "acknowledged")
    assert cli.run("watch", "team", "--once").code == 0
    lose(cli, "refs/heads/main", log=True)
    old(cli)
    assert "refs/gfs/cursors/team has seen it" in cli.refuses(6, "gc")["message"]


@pytest.mark.req("A14", "B5")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who is refused")
@pytest.mark.parametrize("name", ["refs/gfs", "logs/refs/heads", "logs/refs/heads/main"])
def test_b5_where_a_ref_may_not_be_read_nothing_is_removed(cli, name):
    closed = cli.gitdir / name
    for path in (cli.folder, *cli.folder.rglob("*")):
        os.chown(path, 65534, 65534)
    let_others_in(cli.folder / "x")
    mode, before = closed.stat().st_mode, cli.state()
    closed.chmod(0)
    told = cli.folder.parent / "told"
    told.mkdir(mode=0o777)
    told.chmod(0o777)

    def work():
        become_nobody()
        env = {"GFS_REPO": str(cli.folder), "HOME": "/nonexistent"}
        result = clirun.here("gc", "--json", env=env)
        (told / "result").write_text(json.dumps(result))

    assert code_of(child(work)) == 0
    closed.chmod(mode)
    for path in (cli.folder, *cli.folder.rglob("*")):
        os.chown(path, 0, 0)
    result = clirun.Result(*json.loads((told / "result").read_text()))
    assert (result.code, str(closed) in result.error["message"]) == (77, True), result
    assert cli.state() == before


# ── what the message says is enough, and what is in order goes on ───────────────────────────────


@pytest.mark.req("A14", "L22")
@pytest.mark.parametrize("log", [False, True])
def test_l22_a_branch_keeps_what_was_lost_as_the_message_says(cli, log):
    lost = cli.git("rev-parse", KEPT)
    lose(cli, KEPT)
    older(cli, log=log)
    for _ in range(2):
        step = re.search(r"git branch NAME ([0-9a-f]{40})", cli.refuses(6, "gc")["hint"])
        cli.git("branch", f"kept-{step[1][:8]}", step[1])
    old(cli)
    cli("gc")
    assert cli.git("cat-file", "-t", lost) == "commit"
    assert "and again" in cli.git("log", "--format=%B", "--branches")
    cli.sound()


@pytest.mark.req("G9", "A14")
def test_g9_main_that_a_person_moved_back_is_no_loss_and_git_keeps_the_rest(cli):
    cli("note", "f-1", "taken back")
    head = cli.head
    cli.git("update-ref", "refs/heads/main", "main~1")
    old(cli)
    cli("gc")
    assert cli.git("cat-file", "-t", head) == "commit"
    cli.sound()


def test_what_git_itself_does_to_refs_is_in_order(cli):
    cli.git("branch", "other", "main~1")
    cli.git("branch", "-q", "-D", "other")
    cli.git("symbolic-ref", "refs/heads/same", "refs/heads/main")
    cli.git("tag", "-a", "-m", "annotated", "heavy")
    cli.git(
        "update-ref", "refs/stash", cli.git("commit-tree", "-p", "main", "-m", "x", "main^{tree}")
    )
    cli.git("tag", "large", cli.git("hash-object", "-w", "--stdin", data=b"\0" * (5 << 20)))
    cli("gc")
    cli.git("gc", "-q")
    cli("gc")
    assert cli("doctor").startswith(("nothing is wrong", "note:"))
    cli("note", "f-1", "goes on")
    cli("gc")
    cli.sound()


@pytest.mark.req("A1", "A14")
def test_a14_a_writer_that_died_before_main_moved_stops_no_upkeep(cli):
    def work():
        with before("rename", "refs/heads/main", lambda: os.kill(os.getpid(), signal.SIGKILL)):
            clirun.here("note", "f-1", "never acknowledged", "--repo", cli.folder)

    head = cli.head
    assert code_of(child(work)) == -signal.SIGKILL
    assert cli.head == head
    (cli.gitdir / "refs/heads/main.lock").unlink()
    cli("gc")
    cli.sound()


@pytest.mark.req("A14", "F6")
def test_a14_a_ref_that_came_from_a_copy_is_missed_once_it_was_seen(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")
    clirun.here("restore", tmp_path / "copy.bundle", tmp_path / "back")
    copy = clirun.Cli(tmp_path / "back")
    refs = copy.git("for-each-ref")
    assert not (copy.gitdir / "logs" / KEPT).exists()
    copy("gc")
    assert copy.git("for-each-ref") == refs
    for name in ("refs/heads/main", KEPT):
        assert copy.git("reflog", "exists", name) == ""
        log = copy.gitdir / "logs" / name
        value = copy.git("rev-parse", name)
        assert log.read_text().startswith(f"{'0' * 40} {value} gitflowstate <")
    logs = {path: path.read_bytes() for path in copy.gitdir.glob("logs/**/*") if path.is_file()}
    copy("gc")
    assert {path: path.read_bytes() for path in logs} == logs
    copy.git("pack-refs", "--all")
    packed(copy, lambda data: b"".join(x for x in data.splitlines(True) if b"rescued" not in x))
    assert f"{KEPT} is not there" in old(copy).refuses(6, "gc")["message"]


# ── packs without an index ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("A14", "D8")
def test_a14_a_pack_that_a_killed_git_left_without_an_index_gets_one(cli):
    cli("gc")
    (index,) = cli.gitdir.glob("objects/pack/*.idx")
    index.unlink()
    done = cli.run("gc")
    assert (done.code, f"git has written {index}" in done.err) == (0, True)
    cli.sound()


@pytest.mark.req("A14", "D8")
def test_a14_beside_a_pack_that_git_cannot_read_nothing_is_removed(cli):
    cli("gc")
    (index,) = cli.gitdir.glob("objects/pack/*.idx")
    index.unlink()
    pack = index.with_suffix(".pack")
    data = pack.read_bytes()
    overwrite(pack, data[:-30])
    assert f"{pack} has no usable index" in cli.refuses(6, "gc")["message"]
    overwrite(pack, data)
    assert cli.run("gc").code == 0
    cli.sound()
