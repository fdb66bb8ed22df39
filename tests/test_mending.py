"""`gfs doctor --fix`: it looks again under the lock, and moves nothing that is still needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from examining import damaged, examined, made, torn, watched
from gitrepo import before, child, code_of

from gitflowstate.leftovers import PRIVATE
from gitflowstate.model import flow_path
from gitflowstate.swap import Swap
from gitflowstate.syscalls import calls


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with three flows, one of them archived."""
    return made(tmp_path)


@pytest.mark.req("A6", "C-11")
@pytest.mark.parametrize("how", ["objects", "ref"])
def test_a6_where_the_head_is_not_mended_nothing_else_is_and_the_next_run_mends_it(
    cli, monkeypatch, how
):
    monkeypatch.setattr(Swap, "patience_s", 0.05)
    good, _ = torn(cli)
    stray = cli.git("hash-object", "-w", "--stdin", data=b"x")
    damaged(cli, stray)
    if how == "ref":
        (cli.gitdir / "refs/heads/main").write_bytes(b"")
    held = cli.gitdir / "refs/heads/main.lock"
    held.write_text("a push of somebody else")
    found = examined(cli, "--fix")
    assert "not mended: refs/heads/main is locked" in found["torn-head"]["evidence"]
    assert [f["fixed"] for f in found.values()] == [""] * len(found)
    assert "left alone: what comes first was not mended" in found["empty-object"]["evidence"]
    assert not (cli.gitdir / "gfs/stale").exists()
    held.unlink()
    assert examined(cli, "--fix")["torn-head"]["fixed"]
    assert cli.head == good
    cli.sound(("f-1", 1))


@pytest.mark.req("A6", "C-11")
def test_a6_the_reflog_stays_while_the_head_hangs_on_it(cli):
    _, oid = torn(cli)
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    assert not examined(cli)["reflog"]["fixable"]
    (cli.gitdir / "refs/heads/main").unlink()
    log = (cli.gitdir / "logs/refs/heads/main").read_bytes()
    assert examined(cli, "--fix")["reflog"]["fixed"] == ""
    assert (cli.gitdir / "logs/refs/heads/main").read_bytes() == log


@pytest.mark.req("A6", "C-11")
@pytest.mark.parametrize("name", ["main", "main^{tree}", "nobody", "ref", "log"])
def test_a6_what_is_whole_again_under_the_lock_stays_where_it_is(cli, name):
    cli("note", "f-1", "kept")
    head = cli.head
    if name == "ref":
        path = cli.gitdir / "refs/heads/main"
    else:
        other = cli.git("commit-tree", "-m", "x", "main^{tree}")
        if name == "log":  # it begins with a commit that nobody has any more
            log = cli.gitdir / "logs/refs/heads/main"
            log.write_text(f"{'0' * 40} {other} x <x> 0 +0000\tx\n{log.read_text()}")
        oid = other if name in ("nobody", "log") else cli.git("rev-parse", name)
        path = cli.gitdir / "objects" / oid[:2] / oid[2:]
    good = path.read_bytes()
    path.chmod(0o644)
    path.unlink() if name == "log" else path.write_bytes(b"")
    with before("link", "gc.pid.lock", lambda: path.write_bytes(good)):
        found = examined(cli, "--fix")
    assert found
    assert all("nothing was moved" in f["fixed"] for f in found.values())
    assert (path.read_bytes(), cli.head) == (good, head)
    assert not (cli.gitdir / "gfs/stale").exists()
    assert cli.git("for-each-ref", "refs/gfs/rescued") == ""
    assert examined(cli) == {}
    cli.sound(("f-1", 2))


@pytest.mark.req("A6", "C-11")
def test_a6_a_head_that_is_torn_otherwise_by_then_is_looked_at_again(cli):
    good, _ = torn(cli)
    other = cli.git("rev-parse", f"{good}:{flow_path('f-1')}")
    with before("link", "gc.pid.lock", lambda: damaged(cli, other)):
        found = examined(cli, "--fix")
    assert "not as it was seen" in found["torn-head"]["evidence"]
    assert cli.git("for-each-ref", "refs/gfs/rescued") == ""


@pytest.mark.req("A7")
@pytest.mark.parametrize("appears", ["other", "same"])
def test_a7_a_ref_that_holds_a_value_again_is_not_written_over(cli, appears):
    head, ref = cli.head, cli.gitdir / "refs/heads/main"
    value = cli.git("rev-parse", "main~1") if appears == "other" else head
    ref.write_bytes(b"")
    with before("open", "refs/heads/main.lock", lambda: ref.write_text(f"{value}\n")):
        found = examined(cli, "--fix")
    assert "not as it was seen" in found["torn-head"]["evidence"]
    assert cli.head == value
    cli.sound()


@pytest.mark.req("A7", "C-11")
@pytest.mark.parametrize("how", ["plain files", "cursor"])
def test_a7_where_ref_and_reflog_end_early_what_has_seen_main_is_its_newest_commit(cli, how):
    if how == "cursor":
        watched(cli)
        cli("done", "f-1", "--result", "https://example.org/r")
    cli("note", "f-2", "acknowledged")
    if how == "cursor":
        assert cli.run("watch", "team", "--once").code == 0
        (cli.gitdir / "gfs/view").unlink()
    head, log = cli.head, cli.gitdir / "logs/refs/heads/main"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + b"\0" * len(lines[-1]))
    (cli.gitdir / "refs/heads/main").write_bytes(b"")
    assert head[:12] in examined(cli)["torn-head"]["evidence"]
    assert examined(cli, "--fix")["torn-head"]["fixed"]
    assert cli.head == head
    cli.sound(("f-2", 2))


@pytest.mark.req("A7", "C-11")
def test_a7_where_they_know_different_commits_a_person_decides(cli):
    other = cli.git("commit-tree", "-m", "elsewhere", "-p", "main~1", "main^{tree}")
    (cli.gitdir / "gfs/view").write_text(f"{other}\n")
    (cli.gitdir / "refs/heads/main").write_bytes(b"")
    found = examined(cli, "--fix")["torn-head"]
    assert (found["fixable"], "has seen it elsewhere" in found["evidence"]) == (False, True)
    assert (cli.gitdir / "refs/heads/main").read_bytes() == b""


def test_an_object_that_a_process_has_open_is_left_alone(cli):
    oid = cli.git("hash-object", "-w", "--stdin", data=b"x")
    damaged(cli, oid)
    path = cli.gitdir / "objects" / oid[:2] / oid[2:]
    with path.open("rb"):
        assert f"a process has {path} open" in examined(cli, "--fix")["empty-object"]["evidence"]
        assert path.exists()
    assert examined(cli, "--fix")["empty-object"]["fixed"]


WAYS = ["refs/heads/main.lock", "gc.pid", "gc.pid.lock", "gfs.gc.pid", "gfs.lock", "HEAD.lock"]


@pytest.mark.req("L5", "L22")
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("what", ["folder", "link"])
def test_l5_what_is_no_lock_file_and_stands_in_its_place_is_moved_aside(
    cli, tmp_path, monkeypatch, name, what
):
    monkeypatch.setattr(Swap, "patience_s", 0.05)
    path = cli.gitdir / name
    path.unlink(missing_ok=True)
    if what == "folder":
        path.mkdir()
        (path / "note").write_text("whose is this?")
    else:
        path.symlink_to(tmp_path)
    if name == "refs/heads/main.lock":
        refused = cli.run("note", "f-1", "x")
        assert (refused.code, str(path) in refused.err) == (77, True)
    found = examined(cli)["in-the-way"]
    assert str(path) in found["problem"]
    assert "gfs/stale" in examined(cli, "--fix")["in-the-way"]["fixed"]
    (kept,) = (each for each in cli.gitdir.glob("gfs/stale/*"))
    assert kept.is_symlink() if what == "link" else (kept / "note").exists()
    assert tmp_path.exists()
    assert examined(cli) == {}
    cli.sound()


@pytest.mark.req("L5")
def test_l5_a_lock_that_took_such_a_place_meanwhile_stays(cli):
    path = cli.gitdir / "refs/heads/main.lock"
    path.mkdir()

    def taken():
        path.rmdir()
        path.write_text("a push")

    with before("link", "gc.pid.lock", taken):
        assert "nothing was moved" in examined(cli, "--fix")["in-the-way"]["fixed"]
    assert path.read_text() == "a push"
    path.unlink()


# ── the reflog ──────────────────────────────────────────────────────────────────────────────────

LOG = "logs/refs/heads/main"


@pytest.fixture
def kept(cli):
    """Return a commit that the reflog alone keeps, of a reflog that names one which is lost."""
    cli("note", "f-1", "acknowledged")
    was = cli.head
    cli.git("update-ref", "refs/heads/main", "main~1")
    cli("note", "f-2", "went on")
    (cli.gitdir / "gfs/view").unlink()
    head, lost = cli.head, "1" * 40
    with (cli.gitdir / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{head} {lost} x <x> 0 +0000\tx\n{lost} {head} x <x> 0 +0000\tx\n\0\0\n")
    return was


@pytest.mark.req("A6", "G9")
def test_a_reflog_that_is_renewed_goes_on_keeping_what_it_names(cli, kept):
    before_it = (cli.gitdir / LOG).read_bytes()
    found = examined(cli, "--fix")
    assert kept[:12] in found["moved-back"]["evidence"]
    aside = found["reflog"]["fixed"].rpartition(" ")[2]
    assert Path(aside).read_bytes() == before_it
    told = cli.git("reflog", "show", "--format=%H", "refs/heads/main").split()
    assert (told[0], kept in told) == (cli.head, True)
    assert examined(cli).keys() - {"view"} == {"moved-back"}
    cli("gc")
    cli.git("prune", "--expire=now")
    assert cli.git("cat-file", "-t", kept) == "commit"
    cli.sound()


@pytest.mark.req("A6", "A14")
@pytest.mark.parametrize("step", ["open", "write", "fsync", "link", "rename"])
def test_a_reflog_is_there_though_the_one_who_renews_it_is_killed(cli, kept, step):
    def killed():
        act = getattr(calls, step)

        def through(*given, **more):
            at = [f"/proc/self/fd/{given[0]}"] if isinstance(given[0], int) else []
            if any(PRIVATE in str(each) for each in (*given, *map(os.path.realpath, at))) or (
                step == "link" and LOG in str(given[0])
            ):
                os._exit(9)
            return act(*given, **more)

        setattr(calls, step, through)
        cli.run("doctor", "--fix")

    assert code_of(child(killed)) == 9
    assert kept in (cli.gitdir / LOG).read_text()
    examined(cli, "--fix")
    assert examined(cli).keys() - {"view"} == {"moved-back"}
    assert kept in (cli.gitdir / LOG).read_text()


@pytest.mark.req("A6", "G9")
def test_a_head_that_is_cut_leaves_the_rest_of_its_reflog(cli):
    cli("note", "f-1", "acknowledged")
    was = cli.head
    cli.git("update-ref", "refs/heads/main", "main~1")
    good, gone = torn(cli)
    found = examined(cli, "--fix")
    assert (cli.head, found["torn-head"]["fixed"] != "") == (good, True)
    log = (cli.gitdir / LOG).read_text()
    named = {oid for line in log.splitlines() for oid in line.split()[:2]}
    assert (was in named, gone in named) == (True, False)
    assert was[:12] in examined(cli)["moved-back"]["evidence"]


@pytest.mark.req("A6", "G9")
@pytest.mark.parametrize("odd", [b"\0" * 300, b"7" * 55])
def test_a_reflog_with_a_line_that_is_none_is_told_and_loses_no_other(cli, odd):
    """As a power cut leaves one: what was never written is zero, and Git appends to that."""
    cli("note", "f-1", "acknowledged")
    was, log = cli.head, cli.gitdir / LOG
    good = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*good[:-1], odd, b"\n" * (odd[0] != 0), good[-1]]))
    cli.git("update-ref", "refs/heads/main", "main~1")
    cli("note", "f-2", "went on")
    assert "does not parse" in examined(cli)["reflog"]["problem"]
    assert examined(cli, "--fix")["reflog"]["fixed"]
    assert good[-1] in log.read_bytes()
    assert was[:12] in examined(cli)["moved-back"]["evidence"]
    assert "reflog" not in examined(cli)
    cli.git("gc", "-q", "--prune=now")
    assert cli.git("cat-file", "-t", was) == "commit"


@pytest.mark.req("A6")
@pytest.mark.parametrize("content", [b"\0" * 300, b"x" * 60, b"\n"])
def test_a_reflog_of_which_nothing_is_left_is_told_and_one_is_begun_anew(cli, content):
    log = cli.gitdir / LOG
    log.write_bytes(content)
    assert "does not parse" in examined(cli)["reflog"]["problem"]
    assert examined(cli, "--fix")["reflog"]["fixed"]
    assert (examined(cli), log.exists()) == ({}, False)
    cli("gc")
    assert log.read_text().split()[1] == cli.head


@pytest.mark.req("A6")
@pytest.mark.parametrize("begun", [b"", b"0123", b"1" * 40, b"1" * 40 + b" 22"])
def test_a_line_that_a_writer_has_only_begun_is_none_that_does_not_parse(cli, begun):
    with (cli.gitdir / LOG).open("ab") as log:
        log.write(begun)
    assert examined(cli) == {}


@pytest.mark.req("A6", "C-11")
@pytest.mark.parametrize("what", ["main", "main^{tree}", "main:archive"])
def test_a6_a_document_below_what_is_torn_is_kept_though_nothing_names_it(cli, what):
    cli("done", "f-1", "--result", "https://example.org/last")
    path = flow_path("f-1").replace("flows/", "archive/")
    document, oid = cli.git("show", f"main:{path}"), cli.git("rev-parse", f"main:{path}")
    damaged(cli, what)
    assert examined(cli, "--fix")["torn-head"]["fixed"]
    (rescued,) = cli.git("for-each-ref", "--format=%(refname)", "refs/gfs/rescued").splitlines()
    assert cli.git("show", f"{rescued}:loose/{oid}") == document
    cli.git("gc", "-q", "--prune=now")
    assert cli.git("cat-file", "-t", oid) == "blob"
    cli.sound()
