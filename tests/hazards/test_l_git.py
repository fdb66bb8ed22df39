"""Hazards L5 to L11: locks, signing, hooks, identity, variables and settings of Git."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import ExitStack

import clirun
import pytest
from aftermath import ageless, check
from clirun import SCRIPT
from gitrepo import child, code_of, git, let_others_in

OLD = 1_700_000_000
WRITES = (
    ("note", "plan", "words"),
    ("update", "plan", "--progress", "half"),
    ("create", "Another", "--id", "another", "--next", "n"),
    ("done", "plan", "--result", "r"),
)


def written(cli, run=None, **how):
    """Write in every way; each answer is one document with the commit that was made."""
    for words in WRITES:
        done = (run or cli.run)(*words, "--json", **how)
        assert (done.code, done.err) == (0, ""), (words, done)
        assert done.data["changed"]
        assert done.data["commit"] == cli.git("rev-parse", "main")


# ── L5: lock files ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("L5")
@pytest.mark.parametrize("held", [False, True])
def test_l5_locks_of_what_we_do_not_write_hinder_nobody_and_stay(flow, held):
    names = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock")
    paths = [flow.gitdir / name for name in names]
    with ExitStack() as stack:
        for path in paths:
            file = stack.enter_context(path.open("w"))
            if not held:
                file.close()
                os.utime(path, (OLD, OLD))
        written(flow)
    for path in paths:
        path.unlink()


@pytest.mark.req("L5", "A4")
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_l5_the_lock_of_main_is_waited_for_named_or_moved_aside(flow, held, old):
    path, before = flow.gitdir / "refs/heads/main.lock", flow.head
    with path.open("w") as file:
        if not held:
            file.close()
        if old:
            os.utime(path, (OLD, OLD))
        done = flow.run("note", "plan", "x", env={"GFS_LOCK_TIMEOUT": "0.2"})
        if old and not held:
            assert (done.code, flow.head != before) == (0, True)
            assert f"{path} was" in done.err
            assert "no process had it open" in done.err
            assert not path.exists()
        else:
            assert (done.code, done.out, flow.head) == (75, "", before)
            assert str(path) in done.err
            assert "s old" in done.err
            assert path.exists()
            path.unlink()
    assert flow.run("note", "plan", "y").code == 0


@pytest.mark.req("L5")
def test_l5_a_lock_that_goes_away_in_time_is_only_waited_for(flow):
    path = flow.gitdir / "refs/heads/main.lock"
    path.write_text("")
    later = threading.Timer(0.3, path.unlink)
    later.start()
    assert flow("note", "plan", "x") == "plan r2 pending\n"
    later.join()


# ── L6, L7: signing and hooks ───────────────────────────────────────────────────────────────────


@pytest.mark.req("L6")
@pytest.mark.parametrize("form", ["openpgp", "ssh", "x509"])
def test_l6_signing_that_cannot_work_is_not_asked_for(flow, home, form):
    told = {"commit.gpgSign": "true", "tag.gpgSign": "true", "gpg.format": form}
    told |= {"gpg.program": "/nonexistent", "gpg.ssh.program": "false", "user.signingKey": "none"}
    for name, value in told.items():
        git(flow.gitdir, "config", "--global", name, value)
        flow.git("config", name, value)
    written(flow)
    assert "gpgsig" not in flow.git("cat-file", "commit", "main")


@pytest.mark.req("L7")
@pytest.mark.parametrize("where", ["repository", "global"])
def test_l7_hooks_that_fail_are_neither_run_nor_changed(flow, home, tmp_path, where):
    folder = flow.gitdir / "hooks" if where == "repository" else tmp_path / "hooks"
    folder.mkdir()
    if where == "global":
        git(flow.gitdir, "config", "--global", "core.hooksPath", folder)
    names = ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "pre-push")
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (folder / name).chmod(0o755)
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in folder.iterdir()}
    written(flow)
    assert flow.run("backup", tmp_path / "copy.bundle").code == 0
    assert not (tmp_path / "ran").exists()
    after = {path.name: (path.read_bytes(), path.stat().st_mode) for path in folder.iterdir()}
    assert after == before


# ── L8, L9: identity and variables ──────────────────────────────────────────────────────────────


@pytest.mark.req("L8")
def test_l8_without_any_identity_the_author_is_the_actor(flow, tmp_path):
    nameless = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    nameless.pop("HOME", None)
    flow.git("config", "user.useConfigOnly", "true")
    words = [SCRIPT, "note", "plan", "x", "--as", "ann", "--json", "--repo", flow.folder]
    done = subprocess.run(words, env=nameless, capture_output=True, check=True)
    assert json.loads(done.stdout)["data"]["revision"] == 2
    assert flow.git("log", "-1", "--format=%an <%ae>, %cn", "main") == (
        "ann <gfs@localhost>, gitflowstate"
    )


@pytest.mark.req("L8")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a name")
def test_l8_a_user_without_a_name_writes_all_the_same(flow):
    let_others_in(flow.folder / "x")
    for path in (flow.folder, *flow.folder.rglob("*")):
        os.chown(path, 54321, 54321)

    def work():
        os.setgroups([])
        os.setresgid(54321, 54321, 54321)
        os.setresuid(54321, 54321, 54321)
        env = {"GFS_REPO": str(flow.folder), "HOME": "/nonexistent"}
        assert clirun.here("note", "plan", "x", env=env).out == "plan r2 pending\n"

    assert code_of(child(work)) == 0
    for path in (flow.folder, *flow.folder.rglob("*")):
        os.chown(path, 0, 0)
    assert flow.flow("plan")["revision"] == 2


def photograph(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("L9")
def test_l9_the_variables_of_another_repository_lead_nowhere(flow, tmp_path):
    git(tmp_path, "init", "-q", "other")
    other = tmp_path / "other/.git"
    git(other.parent, "commit", "-q", "--allow-empty", "-m", "theirs")
    before = photograph(other)
    env = {
        "GIT_DIR": str(other),
        "GIT_WORK_TREE": str(other.parent),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(other / "objects"),
        "GIT_COMMON_DIR": str(other),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_QUARANTINE_PATH": str(other / "objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "false",
    }
    written(flow, flow.process, env=env, cwd=other.parent)
    for words in (("gc",), ("backup", tmp_path / "copy.bundle"), ("verify",), ("doctor",)):
        assert flow.run(*words, env=env, cwd=other.parent).code == 0
    assert photograph(other) == before


# ── L10, L11: line ends, and repositories of every kind ─────────────────────────────────────────


@pytest.mark.req("L10")
@pytest.mark.parametrize("value", ["true", "input"])
def test_l10_line_ends_and_filters_change_no_stored_byte(flow, home, value):
    told = {"core.autocrlf": value, "core.eol": "crlf", "filter.x.clean": "rev"}
    told |= {"core.attributesFile": str(home / "attributes"), "core.safecrlf": "true"}
    (home / "attributes").write_text("*.json text eol=crlf filter=x ident\n")
    for name, setting in told.items():
        git(flow.gitdir, "config", "--global", name, setting)
        flow.git("config", name, setting)
    flow("note", "plan", "one\ntwo $Id$")
    path = flow.json("show", "plan", "--path")["path"]
    stored = flow.git("show", f"main:{path}").encode() + b"\n"
    assert b"\r" not in stored
    assert stored == (flow.folder / path).read_bytes()
    canonical = flow("export", "plan").encode()
    assert json.loads(stored) == json.loads(canonical)
    flow("verify", "--strict")


def _submodule(flow, folder):
    git(folder, "init", "-q", "outer")
    git(folder / "outer", "submodule", "--quiet", "add", f"file://{flow.gitdir}", "odd")
    return folder / "outer/odd"


def _shallow(flow, folder):
    git(folder, "clone", "-q", "--depth=1", f"file://{flow.gitdir}", "odd")
    return folder / "odd"


def _bare(flow, folder):
    git(folder, "clone", "-q", "--mirror", flow.gitdir, "odd")
    return folder / "odd"


def _with_worktrees(flow, folder):
    flow.git("branch", "side", "main")
    flow.git("worktree", "add", "-q", folder / "odd", "side")
    return folder / "odd"


@pytest.mark.req("L11", "R-TF-47")
@pytest.mark.parametrize("make", [_submodule, _shallow, _bare, _with_worktrees])
def test_l11_it_reads_the_same_everywhere_and_says_where_it_does_not_write(flow, tmp_path, make):
    flow("note", "plan", "before")
    folder = make(flow, tmp_path)
    env = {"GFS_REPO": str(folder)}
    for words in (("show", "plan"), ("list",), ("brief",)):
        assert ageless(clirun.here(*words, env=env).out) == ageless(flow(*words))
    done = clirun.here("note", "plan", "x", env=env)
    assert (done.code, done.out) in {(77, ""), (3, ""), (0, "plan r3 pending\n")}
    assert done.code == 0 or done.err.startswith("error: ")
    if make is _with_worktrees:
        written(flow)
        flow.git("worktree", "remove", folder)


@pytest.mark.req("L11", "R-TF-47")
def test_l11_in_a_shallow_clone_the_watcher_neither_repeats_nor_misses_an_end(flow, tmp_path):
    """As in a run of CI: a fresh clone of depth 1 each time, the cursor at the origin."""
    flow("create", "Second", "--id", "second", "--next", "n")
    sent = []
    for number, flow_ in enumerate(("plan", None, "second", None)):
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{flow.gitdir}", f"run-{number}")
        env = {"GFS_REPO": str(tmp_path / f"run-{number}")}
        done = clirun.here("watch", "console", "--once", "--json", env=env)
        assert done.code == 0, done
        told = done.data["sent"]
        sent += [(each["flow"], each["revision"]) for each in told if each["kind"] == "final"]
        if flow_:
            flow("done", flow_, "--result", "r")
    assert sent == [("plan", 2), ("second", 2)]
    check(flow, ("plan", 2), ("second", 2))
