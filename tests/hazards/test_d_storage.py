"""Hazards D8 to D10 and D13: damaged history, odd repositories, a checked-out branch, odd refs."""

from __future__ import annotations

import os
import shutil

import clirun
import pytest
from aftermath import ageless, check
from gitrepo import git, overwrite

READING = (("show", "plan"), ("list",), ("brief", "plan"), ("next", "plan"), ("export", "plan"))


@pytest.fixture
def past(tmp_path):
    """Return the command line on a repository with a flow of six revisions; it may be damaged."""
    found = clirun.made(tmp_path / "past")
    found("create", "Compare options", "--id", "plan", "--next", "Read the docs")
    for number in range(2, 7):
        found("note", "plan", f"note {number}")
    return found


# ── D8: damage behind the head ──────────────────────────────────────────────────────────────────


def _lost(cli, oid):
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()


def _torn(cli, oid):
    overwrite(cli.gitdir / "objects" / oid[:2] / oid[2:], b"")


def _packed_and_flipped(cli, oid):
    cli("gc")
    (pack,) = cli.gitdir.glob("objects/pack/*.pack")
    listed = cli.git("verify-pack", "-v", pack.with_suffix(".idx")).splitlines()
    (offset,) = (int(line.split()[4]) for line in listed if line.startswith(oid))
    data = bytearray(pack.read_bytes())
    data[offset + 20] ^= 0xFF
    overwrite(pack, bytes(data))


@pytest.mark.req("D8", "C-11")
@pytest.mark.parametrize("damage", [_lost, _torn, _packed_and_flipped])
def test_d8_damage_in_the_middle_stops_nobody_and_is_told_where_it_is(past, damage):
    oid, after = past.git("rev-parse", "main~3", "main~2").split()
    damage(past, oid)
    for words in READING:
        assert past.run(*words).code == 0, words
    assert past("note", "plan", "goes on") == "plan r7 pending\n"
    for words in (("log", "plan"), ("changes", "plan", "--since", "1")):
        message = past.refuses(6, *words)["message"]
        # Within a pack the flipped byte may be another's, that this one is made from.
        assert oid in message or "objects/pack/" in message
    assert "goes on" in past("log", "plan", "-n", "2")
    (problem,) = past.run("verify", "--json").error["details"]["problems"]
    assert problem["commit"] == after
    assert oid in problem["problem"]
    findings = past.run("doctor", "--json").error["details"]["findings"]
    damages = [each for each in findings if each["kind"] == "damage"]
    assert [each["evidence"] for each in damages] == [f"commit {after[:12]}, plan r4"]
    assert oid in damages[0]["problem"]
    assert past.run("doctor", "--fix").code == 1
    assert past("show", "plan").startswith("plan r7 ")


@pytest.mark.req("D8")
def test_d8_what_a_clone_has_mends_it(past, tmp_path):
    git(tmp_path, "clone", "-q", "--no-local", past.gitdir, "clone")
    _torn(past, past.git("rev-parse", "main~3"))
    past.run("doctor", "--fix")
    script = f"git -C {tmp_path}/clone pack-objects --all --stdout </dev/null 2>/dev/null"
    assert os.system(f"{script} | git -C {past.folder} unpack-objects -q -r") == 0
    assert past("doctor") == "nothing is wrong\n"
    check(past, *(("plan", number) for number in range(1, 7)))


# ── D9: repositories of other kinds ─────────────────────────────────────────────────────────────


def _shallow(cli, folder):
    git(folder, "clone", "-q", "--depth=1", f"file://{cli.gitdir}", "odd")


def _worktree(cli, folder):
    git(folder, "clone", "-q", cli.gitdir, "first")
    git(folder / "first", "worktree", "add", "-q", folder / "odd")


def _noop(cli, folder):
    shutil.copytree(cli.folder, folder / "odd")
    git(folder / "odd", "config", "core.repositoryFormatVersion", "1")
    git(folder / "odd", "config", "extensions.noop", "1")


def _partial(cli, folder):
    cli.git("config", "uploadpack.allowFilter", "true")
    git(folder, "clone", "-q", "--filter=blob:none", f"file://{cli.gitdir}", "odd")


def _borrowing(cli, folder):
    git(folder, "clone", "-q", "--shared", cli.gitdir, "odd")


def _reftable(cli, folder):
    _noop(cli, folder)
    git(folder / "odd", "config", "extensions.refStorage", "reftable")


def _sha256(cli, folder):
    git(folder, "init", "-q", "--object-format=sha256", "odd")


def _strange(cli, folder):
    _noop(cli, folder)
    git(folder / "odd", "config", "extensions.strange", "1")


def _foreign(cli, folder):
    _noop(cli, folder)
    os.chown(folder / "odd/.git", 65534, 65534)


@pytest.mark.req("D9", "L11")
@pytest.mark.parametrize("make", [_shallow, _worktree, _noop])
def test_d9_what_works_shows_what_is_there(past, tmp_path, make):
    make(past, tmp_path)
    odd = clirun.Cli(tmp_path / "odd")
    for words in READING:
        assert ageless(odd.run(*words).out) == ageless(past.run(*words).out)
    wrote = odd.run("note", "plan", "x")
    if make is _noop:
        assert wrote.out == "plan r7 pending\n"
        check(odd, ("plan", 7))
    else:
        assert (wrote.code, wrote.out) == (77, "")
        assert "is an ordinary clone" in wrote.err
    check(past, ("plan", 6))


@pytest.mark.req("D9")
@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (_partial, 3, "partial"),
        (_borrowing, 3, "borrows"),
        (_reftable, 3, "reftable"),
        (_sha256, 3, "sha256"),
        (_strange, 3, "extensions.strange"),
        (_foreign, 77, "belongs to another user"),
    ],
)
def test_d9_what_would_be_misread_is_refused_with_the_reason(past, tmp_path, make, code, says):
    if make is _foreign and os.geteuid() != 0:
        pytest.skip("only root gives a folder away")
    make(past, tmp_path)
    odd = clirun.Cli(tmp_path / "odd")
    for words in (*READING, ("note", "plan", "x"), ("watch", "console", "--once")):
        result = odd.run(*words)
        assert (result.code, result.out) == (code, ""), (words, result)
        assert says in result.err
        assert clirun.HARMFUL.search(result.err.splitlines()[-1]) is None
    check(past, ("plan", 6))


# ── D10: main checked out ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("D10", "F9")
@pytest.mark.parametrize("linked", [False, True])
def test_d10_while_main_is_checked_out_it_is_read_and_not_written(past, tmp_path, linked):
    if linked:
        past.git("worktree", "add", "-q", "--force", tmp_path / "tree", "main")
    else:
        past.git("config", "core.bare", "false")
    head = past.head
    for words in READING:
        assert past.run(*words).code == 0
    for words in (("note", "plan", "x"), ("create", "Another"), ("done", "plan", "--result", "r")):
        error = past.refuses(3, *words)
        assert "checked out" in error["message"]
    assert past.head == head
    if linked:
        past.git("worktree", "remove", tmp_path / "tree")
    else:
        past.git("config", "core.bare", "true")
    past("note", "plan", "x")
    check(past, ("plan", 7))


# ── D13: a ref that is none ─────────────────────────────────────────────────────────────────────

SHORT = b"0123456789abcdef0123\n"


@pytest.mark.req("D13")
@pytest.mark.parametrize(
    ("content", "packed"),
    [(None, False), (None, True), (SHORT, True), (b"not a sha\n", True), (b"ref: x\n", True)],
)
def test_d13_a_ref_that_is_none_is_corrupt_and_no_older_value_is_taken(past, content, packed):
    if packed:
        past.git("pack-refs", "--all")
        past("note", "plan", "newer than what is packed")
    ref, head = past.gitdir / "refs/heads/main", past.head
    ref.unlink()
    if content is None:
        ref.symlink_to("/etc/hostname")
    else:
        ref.write_bytes(content)
    others = (("note", "plan", "x"), ("verify",), ("watch", "console", "--once"))
    for words in (*READING[:2], *others):
        result = past.run(*words)
        assert (result.code, result.out) == (6, ""), words
    assert ref.is_symlink() if content is None else ref.read_bytes() == content
    past("doctor", "--fix")
    assert past.head == head
    check(past, ("plan", 7 if packed else 6), heads={head})
