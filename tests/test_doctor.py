"""`gfs doctor`: what is wrong is found, nothing is changed unasked, and no step loses anything."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import zlib

import clirun
import pytest
import time_machine
from clirun import here
from examining import damaged, examined, made, torn, watched
from flowrepo import Change, imported, put
from gitrepo import child, code_of, fsck, git, overwrite

from gitflowstate.model import flow_path
from gitflowstate.syscalls import calls

OLD = 1_700_000_000


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with three flows, one of them archived."""
    return made(tmp_path)


def test_a_sound_repository_has_no_findings(cli):
    assert examined(cli) == {}
    assert cli("doctor") == "nothing is wrong\n"
    cli("gc")
    assert examined(cli) == {}
    assert cli("doctor", "--fix") == "nothing is wrong\n"
    cli.sound()


# ── a torn head ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("A6", "C-11")
@pytest.mark.parametrize("what", ["main", "main^{tree}", f"main:{flow_path('f-1')}"])
@pytest.mark.parametrize("gone", [False, True])
def test_a6_a_torn_head_goes_back_and_what_can_be_read_is_kept(cli, what, gone):
    good = cli.head
    cli("note", "f-1", "lost words")
    head = cli.head
    oid = damaged(cli, what)
    if gone:
        (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    found = examined(cli)["torn-head"]
    assert oid in found["evidence"]
    assert good[:12] in found["evidence"]
    fixed = examined(cli, "--fix")
    assert cli.head == good
    assert fixed["torn-head"]["fixed"]
    (rescued,) = cli.git("for-each-ref", "--format=%(refname)", "refs/gfs/rescued").splitlines()
    assert head in cli.git("log", "-1", "--format=%B", rescued)
    assert cli.git("rev-parse", f"{rescued}^") == good
    kept = cli.git("ls-tree", "-r", "--name-only", rescued)
    assert kept.startswith(f"000-{head[:12]}/")
    if what != "main":
        assert "lost words" in cli.git("show", f"{rescued}:000-{head[:12]}/message")
    fsck(cli.gitdir)
    cli("gc")
    assert examined(cli) == {}
    cli.sound(("f-1", 1))
    assert len(cli.flow("f-1").get("notes", [])) == 0


@pytest.mark.req("A6")
def test_a6_several_torn_commits_are_one_cut(cli):
    good = cli.head
    for number in range(3):
        cli("note", "f-2", f"lost {number}")
    for name in (f"main~2:{flow_path('f-2')}", "main~1^{tree}", "main"):
        damaged(cli, name)
    assert examined(cli, "--fix")["torn-head"]["problem"].startswith("3 commits")
    assert cli.head == good
    cli.sound(("f-2", 1))


@pytest.mark.req("A7", "D13")
@pytest.mark.parametrize("content", [b"", b"not a commit\n", b"\0" * 41])
def test_a7_a_torn_ref_is_read_from_the_reflog_never_from_packed_refs(cli, content):
    cli.git("pack-refs", "--all")
    cli("note", "f-1", "newer than what is packed")
    head = cli.head
    (cli.gitdir / "refs/heads/main").write_bytes(content)
    assert head[:12] in examined(cli)["torn-head"]["evidence"]
    examined(cli, "--fix")
    assert cli.head == head
    rescued = cli.git("for-each-ref", "--format=%(refname)", "refs/gfs/rescued")
    assert cli.git("cat-file", "-s", f"{rescued}:ref") == str(len(content))
    cli.sound(("f-1", 2))


def test_without_a_whole_commit_nothing_is_moved(cli):
    torn(cli)
    shutil.rmtree(cli.gitdir / "logs")
    found = examined(cli, "--fix")["torn-head"]
    assert (found["fixable"], found["fixed"]) == (False, "")


@pytest.mark.req("D8", "C-11")
def test_d8_damage_behind_a_whole_head_is_named_and_nothing_is_cut(cli):
    cli("note", "f-1", "one")
    cli("note", "f-2", "two")
    oid = damaged(cli, f"main~1:{flow_path('f-1')}")
    head = cli.head
    found = examined(cli, "--fix")
    assert "f-1 r2" in found["damage"]["evidence"]
    assert oid in found["damage"]["problem"]
    assert oid in found["flow"]["problem"]
    assert cli.head == head
    assert "torn-head" not in found
    cli("note", "f-2", "goes on")


@pytest.mark.req("D8")
def test_d8_a_commit_missing_in_the_middle_is_named(cli):
    oid = cli.git("rev-parse", "main~2")
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    found = examined(cli)
    assert oid in found["damage"]["problem"]
    assert "torn-head" not in found
    cli("note", "f-1", "goes on")


def test_an_old_tree_that_is_lost_does_not_cost_the_head(cli):
    damaged(cli, "main~1^{tree}")
    head = cli.head
    examined(cli, "--fix")
    assert cli.head == head


def test_an_empty_object_of_nobody_is_set_aside(cli):
    oid = cli.git("hash-object", "-w", "--stdin", data=b"x")
    damaged(cli, oid)
    assert examined(cli)["empty-object"]["fixable"]
    assert "gfs/stale" in examined(cli, "--fix")["empty-object"]["fixed"]
    cli.sound()


# ── locks ───────────────────────────────────────────────────────────────────────────────────────

LOCKS = ["HEAD.lock", "index.lock", "packed-refs.lock", "refs/heads/main.lock", "config.lock"]


@pytest.mark.req("A4", "L5", "F3")
def test_stale_locks_are_moved_aside_and_kept(cli):
    names = [*LOCKS, f"objects/{cli.head[:2]}/{'0' * 38}.lock"]
    for name in names:
        (cli.gitdir / name).write_text(f"held by {name}")
        os.utime(cli.gitdir / name, (OLD, OLD))
    told = cli.run("doctor").out
    assert all(name in told for name in names)
    examined(cli, "--fix")
    kept = {path.read_text() for path in (cli.gitdir / "gfs/stale").iterdir()}
    assert kept == {f"held by {name}" for name in names}
    assert examined(cli) == {}
    cli.sound()


@pytest.mark.req("A4", "L5")
@pytest.mark.parametrize("held", [False, True])
def test_locks_that_may_be_in_use_are_left_alone(cli, held):
    path = cli.gitdir / "refs/heads/main.lock"
    with path.open("w"):
        if held:
            os.utime(path, (OLD, OLD))
            assert examined(cli, "--fix") == {}
    if not held:
        assert examined(cli, "--fix") == {}
    assert path.exists()
    path.unlink()


# ── what cannot be opened, or not be written ────────────────────────────────────────────────────


@pytest.mark.req("G6", "D9")
@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda cli: os.chown(cli.gitdir, 65534, 65534), "belongs to another user"),
        (lambda cli: cli.git("config", "extensions.strange", "1"), "extensions.strange"),
        (lambda cli: (cli.gitdir / "HEAD").unlink(), "missing: HEAD"),
        (lambda cli: (cli.gitdir / "config").write_text("[core\n"), "does not parse"),
        (lambda cli: (cli.gitdir / "reftable").mkdir(), "reftable"),
    ],
    ids=["owner", "extension", "no-head", "config", "reftable"],
)
def test_a_repository_that_cannot_be_opened_is_a_finding(cli, act, says):
    if os.geteuid() != 0 and says.startswith("belongs"):
        pytest.skip("only root gives a file away")
    act(cli)
    found = examined(cli)
    assert says in found["repository"]["problem"]
    assert examined(cli, "--fix").keys() == found.keys()


def test_where_there_is_no_repository_it_says_so(tmp_path):
    done = clirun.here("doctor", "--repo", tmp_path)
    assert done.code == 5


@pytest.mark.req("F9", "D10")
@pytest.mark.parametrize("linked", [False, True])
def test_a_checked_out_branch_is_a_finding(cli, tmp_path, linked):
    if linked:
        cli.git("worktree", "add", "-q", "-f", tmp_path / "tree", "main")
    else:
        cli.git("config", "core.bare", "false")
    assert "checked out" in examined(cli)["checked-out"]["problem"]


@pytest.mark.req("D6")
def test_d6_a_head_elsewhere_a_branch_that_is_gone_and_replaced_objects(cli):
    cli.git("symbolic-ref", "HEAD", "refs/heads/other")
    cli.git("replace", "main", "main~1")
    found = examined(cli)
    assert "refs/heads/other" in found["head"]["evidence"]
    assert "refs/replace/" in found["replace-ref"]["evidence"]
    cli.git("update-ref", "-d", "refs/heads/main")
    assert "has no refs/heads/main" in examined(cli)["refs"]["problem"]


@pytest.mark.req("D6", "L22")
@pytest.mark.parametrize("said", [b"", b"\0" * 23, b"ref: \n", b"garbage\n"])
def test_d6_a_head_that_no_git_accepts_is_written_again_and_the_file_kept(cli, said):
    path = cli.gitdir / "HEAD"
    path.write_bytes(said)
    found = examined(cli)["head"]
    assert (found["fixable"], "gfs doctor --fix" in found["next"]) == (True, True)
    fixed = examined(cli, "--fix")["head"]["fixed"]
    (kept,) = (cli.gitdir / "gfs/stale").glob("HEAD-*")
    assert str(kept) in fixed
    assert kept.read_bytes() == said
    assert cli.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert examined(cli) == {}
    assert not [*cli.gitdir.glob("gfs-ref-*")]
    cli.sound()


# ── documents, people and channels ──────────────────────────────────────────────────────────────


@pytest.mark.req("D2", "D4")
def test_documents_that_cannot_be_used_and_edits_by_hand(cli):
    document = cli.flow("f-1")
    imported(cli.gitdir, put(flow_path("f-2"), {**cli.flow("f-2"), "goal": "same revision"}))
    imported(cli.gitdir, put("flows/00/odd.json", document))
    told = cli.run("doctor", "--json").error["details"]["findings"]
    flows = [found for found in told if found["kind"] == "flow"]
    assert len(flows) == 2
    assert any("gfs adopt f-2" in found["next"] for found in flows)
    assert [found["note"] for found in told if found["kind"] == "hand-made"] == [True]


def test_a_commit_that_breaks_the_law_is_named(cli):
    cli("note", "f-1", "true words")
    text = cli.message().replace("true words", "other words").encode()
    cli.git("update-ref", "refs/heads/main", "main~1")
    imported(cli.gitdir, put(flow_path("f-1"), {"id": "f-1"}), text=text + b"\n")
    assert "f-1 r2" in examined(cli)["damage"]["evidence"]


@pytest.mark.req("R-TF-07")
def test_results_that_are_not_there_are_listed_and_left_as_they_are(cli, tmp_path):
    (tmp_path / "r").unlink()
    cli("create", "Elsewhere", "--id", "f-4", "--next", "x")
    cli("done", "f-4", "--result", "https://example.org/report")
    stored = cli.flow("f-3")
    found = examined(cli)["result"]
    assert (found["note"], found["evidence"]) == (True, str(tmp_path / "r"))
    assert "f-3" in found["problem"]
    assert cli.flow("f-3") == stored
    cli.sound()


@pytest.fixture(name="watched")
def _watched(cli):
    """Return a repository whose channel `team` has looked at everything."""
    return watched(cli)


@pytest.mark.req("D3", "L12")
def test_a_head_behind_a_cursor_is_found(watched):
    cli = watched
    cli("done", "f-1", "--result", "https://example.org/r")
    assert cli.run("watch", "team", "--once").code == 0
    assert "behind-cursor" not in examined(cli)
    cli.git("update-ref", "refs/heads/main", "main~1")
    found = examined(cli)
    assert "channel team" in found["behind-cursor"]["problem"]


def test_a_notice_that_is_owed_for_an_hour_is_found(watched):
    cli = watched
    cli("done", "f-1", "--result", "https://example.org/r")
    assert "notice" not in examined(cli)
    written = json.loads(cli.git("show", f"main:{flow_path('f-1').replace('flows/', 'archive/')}"))
    with time_machine.travel(written["updated_at"].replace("Z", "+00:00"), tick=False) as clock:
        clock.shift(7200)
        found = examined(cli)["notice"]
    assert "f-1" in found["evidence"]
    assert "gfs watch team" in found["next"]
    assert cli.run("watch", "team", "--once").code == 0
    assert "notice" not in examined(cli)


# ── storage and view ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("L24")
def test_plain_files_that_lag_are_renewed(cli):
    (cli.gitdir / "gfs/view").unlink()
    shutil.rmtree(cli.folder / "flows")
    assert examined(cli)["view"]["fixable"]
    assert examined(cli, "--fix")["view"]["fixed"]
    assert cli.flow("f-1")["goal"] == "Goal 1"
    assert examined(cli) == {}


@pytest.mark.req("L24")
def test_plain_files_lag_only_where_what_they_show_changed(cli, tmp_path):
    fresh = clirun.made(tmp_path / "fresh")
    assert examined(fresh) == {}
    imported(cli.gitdir, Change("README.md", b"hello\n"))
    assert examined(cli) == {}
    imported(cli.gitdir, put(flow_path("f-1"), {**cli.flow("f-1"), "next_action": "Rest"}))
    assert examined(cli)["view"]["fixable"]


@pytest.mark.req("L24")
def test_plain_files_that_were_renewed_are_mended_though_an_edited_one_was_kept(cli):
    (cli.gitdir / "gfs/view").unlink()
    edited = cli.folder / flow_path("f-1")
    edited.write_text("my own words")
    fixed = examined(cli, "--fix")["view"]["fixed"]
    assert "they show the head again; " in fixed
    assert "it is kept beside it as" in fixed
    assert cli.flow("f-1")["goal"] == "Goal 1"
    (kept,) = (path for path in edited.parent.iterdir() if path.read_bytes() == b"my own words")
    assert kept.name in fixed
    assert examined(cli) == {}


@pytest.mark.req("L24")
def test_plain_files_that_cannot_be_renewed_are_not_said_to_be(cli):
    (cli.gitdir / "gfs/view").unlink()
    shutil.rmtree(cli.folder / "flows")
    (cli.folder / "flows").write_text("in the way")
    found = examined(cli, "--fix")["view"]
    assert (found["fixed"], "not mended" in found["evidence"]) == ("", True)


@pytest.mark.req("D8")
@pytest.mark.parametrize("how", ["flipped", "short", "another"])
def test_a_corrupt_object_of_nobody_is_found_and_set_aside(cli, how):
    oid = cli.git("hash-object", "-w", "--stdin", data=b"some words " * 50)
    path = cli.gitdir / "objects" / oid[:2] / oid[2:]
    data = path.read_bytes()
    other = zlib.compress(b"blob 5\0words")
    overwrite(path, {"flipped": data[:9] + b"?" + data[10:], "short": data[:-3]}.get(how, other))
    found = examined(cli)["corrupt-object"]
    assert oid in found["problem"]
    assert found["fixable"]
    assert "gfs/stale" in examined(cli, "--fix")["corrupt-object"]["fixed"]
    assert examined(cli) == {}
    cli.sound()


@pytest.mark.req("D8")
def test_d8_a_corrupt_pack_is_found_and_what_it_holds_is_named(cli):
    cli("note", "f-1", "one")
    cli("note", "f-2", "two")
    cli("gc")
    cli("note", "f-2", "three")
    (pack,) = cli.gitdir.glob("objects/pack/*.pack")
    oid = cli.git("rev-parse", "main~2")
    lines = cli.git("verify-pack", "-v", pack.with_suffix(".idx")).splitlines()
    (offset,) = (int(line.split()[4]) for line in lines if line.startswith(oid))
    data = pack.read_bytes()
    overwrite(pack, data[: offset + 20] + bytes([data[offset + 20] ^ 255]) + data[offset + 21 :])
    found = examined(cli)
    assert str(pack) in found["corrupt-pack"]["evidence"]
    assert oid in found["damage"]["problem"]
    assert "f-2 r2" in found["damage"]["evidence"]
    assert examined(cli, "--fix").keys() == found.keys()
    cli("note", "f-2", "goes on")


def test_how_much_it_takes_is_told_and_much_is_worth_a_note(cli, monkeypatch):
    disk = cli.json("doctor")["disk"]
    assert disk["loose"] == len([*cli.gitdir.glob("objects/??/*")])
    assert 0 < disk["bytes"] < 1 << 20
    assert disk["free"] > 0
    monkeypatch.setattr("gitflowstate.storage.MUCH", 100)
    found = examined(cli)["disk-use"]
    assert (found["note"], "loose objects" in found["evidence"]) == (True, True)


def test_many_loose_objects_are_worth_a_note(cli, monkeypatch):
    from gitflowstate import upkeep

    monkeypatch.setattr(upkeep, "MANY_LOOSE", 5)
    found = examined(cli)["upkeep"]
    assert (found["note"], found["next"]) == (True, "gfs gc")


def test_a_clone_is_examined_too(cli, tmp_path):
    git(tmp_path, "clone", "-q", f"file://{cli.gitdir}", "clone")
    copy = clirun.Cli(tmp_path / "clone")
    assert examined(copy) == {}
    for path in copy.gitdir.glob("objects/pack/*"):
        path.unlink()
    assert "is missing" in examined(copy, "--fix")["repository"]["problem"]


# ── killed on the way ───────────────────────────────────────────────────────────────────────────


def killed_at(number, folder):
    """Run `doctor --fix` in a child that dies at a call of the operating system; return if so."""

    def work():
        real, count = dict(vars(calls)), itertools.count()

        def through(call):
            def called(*arguments):
                if next(count) == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments)

            return called

        for name, call in real.items():
            setattr(calls, name, through(call))
        here("doctor", "--fix", "--repo", folder)

    code = code_of(child(work))
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.req("A1", "A14")
@pytest.mark.parametrize("how", ["objects", "ref"])
def test_a14_killed_at_any_call_the_next_one_goes_on(cli, tmp_path, how):
    good, _ = torn(cli)
    if how == "ref":
        (cli.gitdir / "refs/heads/main").write_bytes(b"")
    number, dead = 0, True
    while dead:
        work = tmp_path / f"copy-{number}"
        shutil.copytree(cli.folder, work)
        dead = killed_at(number, work)
        for path in [*work.rglob("*.lock"), *work.rglob("gfs-ref-*"), *work.rglob("tmp_obj_*")]:
            os.utime(path, (OLD, OLD))  # so that nobody need wait ten minutes
        copy = clirun.Cli(work)
        assert copy.run("doctor", "--fix").code in (0, 1)
        assert copy.run("doctor").code == 0
        assert copy.head == good
        assert "lost" not in copy.git("log", "--format=%s", "main")
        assert copy.git("for-each-ref", "refs/gfs/rescued")
        copy.sound(("f-1", 1))
        number += 62
    assert number > 200
