"""Hazards G2 to G9: a token that must stay, and repositories whose owner means harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import clirun
import pytest
from aftermath import check
from clirun import SCRIPT
from fakes.github import BOT, FakeClock, GitHub, said
from fakes.loopback import Answer, Loopback
from flowrepo import Change, imported
from gitrepo import git, store, tree_of

from gitflowstate.git import Repository

TOKEN = "token-for-tests-0123456789"
SETTINGS = "[channels.github]\nkind = 'github'\nmin_interval = 0\n"


class Nosy(GitHub):
    """GitHub, which looks at the command line of every process while it answers."""

    def serve(self, request):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert TOKEN.encode() not in path.read_bytes(), path
            except OSError:
                continue
        return super().serve(request)


@pytest.fixture
def server():
    made = Nosy({TOKEN: None}, FakeClock(datetime.now(UTC)))
    yield made
    made.stop()


@pytest.fixture
def linked(cli):
    """Return the command line on a repository with a flow about an issue, and its channel."""
    imported(cli.gitdir, Change("gfs.toml", SETTINGS.encode()), text=b"settings\n")
    cli("create", "Compare", "--id", "plan", "--next", "Read", "--issue", "octo/hello#12")
    return cli


def environment(server, **more):
    return {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN} | more


def below(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


# ── G2, G3: the token ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("G2")
def test_g2_the_token_is_in_no_argument_text_file_object_or_comment(linked, server):
    env = environment(server, GHAPI_DEBUG="1", GFS_DEBUG="1")
    said_ = []
    for steps in ([], [said(401, "Bad credentials")], [500] * 3):
        server.script += steps
        linked("note", "plan", f"after {len(said_)}")
        both = (("watch", "github", "--once"), ("channel", "check", "github"))
        act = linked.run if steps else linked.process
        said_ += [act(*words, "--json", env=env) for words in both]
    assert {result.code for result in said_} >= {0, 75, 77}
    assert {each.headers.get("Authorization") for each in server.requests} == {f"Bearer {TOKEN}"}
    for result in said_:
        assert TOKEN not in result.out + result.err
    assert TOKEN.encode() not in below(linked.folder)
    assert TOKEN.encode() not in linked.every_object()
    assert all(TOKEN not in body for body in server.bodies(BOT))


@pytest.mark.req("G3")
def test_g3_the_token_goes_to_no_other_host(linked, server):
    other = Loopback()
    try:
        address = f"127.0.0.1:{other.port}"
        away = f"http://{address}/repos/octo/hello/issues/12/comments"
        for status in (301, 302, 307, 308):
            server.fail("POST", Answer(status, b"", (("Location", away),)))
            linked.run("watch", "github", "--once", env=environment(server, GH_HOST=address))
        wrong = SETTINGS + f"base_url = 'http://{address}'\n"
        imported(linked.gitdir, Change("gfs.toml", wrong.encode()), text=b"another host\n")
        result = linked.run("channel", "check", "github", env=environment(server))
        assert (result.code, "base_url" in result.err) == (3, True)
        for issue in (
            f"{away}#1",
            f"http://{address}/octo/hello/issues/12",
            "octo/hello/1/../..#1",
        ):
            assert linked.run("create", "Goal", "--issue", issue).code in (2, 3)
        assert other.requests == []
    finally:
        other.stop()


# ── G4, G5: what Git would run ──────────────────────────────────────────────────────────────────

HOOKS = [
    *("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "update", "pre-receive"),
    *("reference-transaction", "post-index-change", "post-rewrite", "pre-push", "post-checkout"),
    *("pre-auto-gc", "post-receive", "proc-receive", "fsmonitor-watchman"),
]


def hooked(folder, canary):
    folder.mkdir(exist_ok=True, parents=True)
    for name in HOOKS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {canary}\nexit 1\n")
        (folder / name).chmod(0o755)


def everything(cli, folder):
    """Run what writes, what reads, and what starts Git."""
    for words in (
        ("note", "plan", "x"),
        ("show", "plan"),
        ("verify",),
        ("watch", "console", "--once"),
        ("doctor",),
        ("gc",),
        ("backup", folder / "copy.bundle"),
        ("restore", folder / "copy.bundle", folder / "copy"),
        ("done", "plan", "--result", "r"),
    ):
        done = cli.run(*words, cwd=folder)
        assert done.code == 0, (words, done)


@pytest.mark.req("G4", "L7")
def test_g4_no_hook_is_run_wherever_it_is(flow, home, tmp_path):
    canary = tmp_path / "ran"
    hooked(flow.gitdir / "hooks", canary)
    hooked(tmp_path / "elsewhere", canary)
    kept = {path.name: path.read_bytes() for path in (flow.gitdir / "hooks").iterdir()}
    git(tmp_path, "config", "--global", "core.hooksPath", tmp_path / "elsewhere")
    flow.git("config", "core.hooksPath", tmp_path / "elsewhere")
    everything(flow, tmp_path)
    assert not canary.exists()
    assert {p.name: p.read_bytes() for p in (flow.gitdir / "hooks").iterdir()} == kept


@pytest.mark.req("G5")
def test_g5_no_setting_of_the_repository_runs_anything(flow, tmp_path):
    canary = tmp_path / "ran"
    runs = f"touch {canary}; false"
    for name in (
        *("core.sshCommand", "core.fsmonitor", "core.pager", "core.editor", "credential.helper"),
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "gpg.program", "diff.external"),
        *("alias.bundle", "alias.fetch", "uploadpack.packObjectsHook", "sequence.editor"),
        *("pager.log", "core.askPass", "merge.x.driver", "trailer.x.command", "man.x.cmd"),
    ):
        flow.git("config", name, f"!{runs}" if name.startswith("alias") else runs)
    flow.git("config", "commit.gpgSign", "true")
    flow.git("config", "url.ext::sh -c 'touch ran'.insteadOf", "/")
    flow.git("config", "filter.x.required", "true")
    imported(flow.gitdir, Change(".gitattributes", b"* filter=x diff=x merge=x\n"))
    everything(flow, tmp_path)
    assert not canary.exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("G5")
@pytest.mark.parametrize("target", ["/etc/passwd", "pipe", "/dev/zero"])
def test_g5_no_include_is_followed_and_nothing_hangs(flow, tmp_path, target):
    os.mkfifo(tmp_path / "pipe")
    with (flow.gitdir / "config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path / target}\n")
    for words in (("note", "plan", target), ("show", "plan"), ("watch", "console", "--once")):
        assert flow.run(*words).code == 0
    kept = (flow.gitdir / "config").read_text().rpartition("[include]")[0]
    (flow.gitdir / "config").write_text(kept)  # so that C git can look at it


# ── G6: another owner ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("G6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_g6_a_repository_of_another_user_is_denied_until_it_is_trusted_by_name(flow):
    os.chown(flow.gitdir, 65534, -1)
    trusting = {"GFS_TRUST": str(flow.gitdir)}
    for words in (("show", "plan"), ("note", "plan", "x"), ("verify",), ("gc",)):
        error = flow.refuses(77, *words)
        assert "belongs to another user" in error["message"]
        assert f"GFS_TRUST={flow.gitdir}" in error["hint"]
        assert flow.run(*words, env={"GFS_TRUST": "/"}).code == 77
    assert flow.run("note", "plan", "x", env=trusting).code == 0
    os.chown(flow.gitdir, os.geteuid(), -1)


# ── G7, G8: bombs, and paths that lead away ─────────────────────────────────────────────────────


# A process begins with the peak of the one that it was forked from: a small one stands between.
MEASURED = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], stdout=-3, stderr=-3).returncode\n"
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)\n"
)


def cost(cli, *words):
    """Run a command as a process; return its exit code and the most memory that it had, in MiB."""
    env = os.environ | {"GFS_REPO": str(cli.folder)}
    command = [sys.executable, "-S", "-c", MEASURED, SCRIPT, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    code, used = done.stdout.split()
    return int(code), int(used)


def _bomb(repo, megabytes=150):
    """Store a blob of a few hundred kilobytes that inflates to many megabytes."""
    engine = zlib.compressobj()
    parts = [engine.compress(b"blob %d\0" % (megabytes << 20))]
    parts += [engine.compress(bytes(1 << 20)) for _ in range(megabytes)]
    oid = "0bad" + "0" * 36
    path = repo.gitdir / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(parts) + engine.flush())
    return oid


def _million(repo):
    """Store a tree that unfolds to a million files."""
    tree = store(repo, "blob", b"{}")
    mode = 0o100644
    for _ in range(3):
        tree, mode = tree_of(repo, *((mode, f"{n:02}", tree) for n in range(100))), 0o40000
    return tree


def _deep(repo):
    """Store 1,024 folders, one in the other."""
    tree = tree_of(repo, (0o100644, "x", store(repo, "blob", b"{}")))
    for _ in range(1024):
        tree = tree_of(repo, (0o40000, "d", tree))
    return tree


def _entry(make):
    return (0o100644, "plan.json", make) if make is _bomb else (0o40000, "xx", make)


@pytest.mark.req("G7", "G8")
@pytest.mark.parametrize("make", [_bomb, _million, _deep])
def test_g7_g8_what_unfolds_without_end_is_refused_with_little_memory(tmp_path, make):
    """A person has pushed it; C git itself would say nothing, or take all the memory there is."""
    cli = clirun.made(tmp_path / "work", "--no-view")
    cli("create", "Goal", "--id", "plan", "--next", "n")
    with Repository.open(cli.gitdir) as repo:
        mode, name, made = _entry(make)
        whole = {path: repo.tree(repo.commit(repo.ref("refs/heads/main")).tree)[path]
                 for path in ("flows", "gitflowstate.json")}  # fmt: skip
        flows = dict(repo.tree(whole["flows"].oid))
        (folder,) = flows
        inner = tree_of(repo, (mode, name, made(repo))) if make is _bomb else made(repo)
        listed = {folder: (0o40000, inner)} if make is _bomb else {"00": (0o40000, inner)}
        kept = {key: (0o40000, entry.oid) for key, entry in flows.items()} | listed
        top = tree_of(
            repo,
            (0o40000, "flows", tree_of(repo, *((m, n, o) for n, (m, o) in sorted(kept.items())))),
            (0o100644, "gitflowstate.json", whole["gitflowstate.json"].oid),
        )
    commit = cli.git("commit-tree", "-p", "main", "-m", "by hand", top)
    cli.git("update-ref", "refs/heads/main", commit)
    every = (("list",), ("watch", "console", "--once"), ("show", "plan"), ("note", "plan", "x"))
    for words in every[-1:] if make is _million else every:
        code, used = cost(cli, *words)
        assert code == 6 or ((make is _deep or words[0] in ("list", "watch")) and code == 0)
        assert used < 300


@pytest.mark.req("G8")
def test_g8_no_link_and_no_gitfile_leads_anywhere(flow, tmp_path):
    shutil.rmtree(flow.folder / "flows")
    (flow.folder / "flows").symlink_to(tmp_path)
    said_ = flow.run("note", "plan", "x")
    assert said_.code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
    (flow.folder / "flows").unlink()
    flow("note", "plan", "y")
    evil = tmp_path / "evil"
    evil.mkdir()
    for target in ("../", "../../", f"../{flow.folder.name}/.git", str(flow.gitdir), "/"):
        (evil / ".git").write_text(f"gitdir: {target}\n")
        for words in (("show", "plan"), ("note", "plan", "x")):
            result = flow.run(*words, env={"GFS_REPO": str(evil)})
            assert (result.code, result.out) in {(3, ""), (5, ""), (6, ""), (77, "")}, result
    shutil.rmtree(evil)


# ── G9: what people undo ────────────────────────────────────────────────────────────────────────


@pytest.mark.req("G9")
def test_g9_what_a_person_moves_back_or_reverts_is_never_done_again(tmp_path):
    cli = clirun.made(tmp_path / "work")
    cli("create", "Goal", "--id", "plan", "--next", "n")
    cli("note", "plan", "one")
    cli("note", "plan", "two")
    cli.git("update-ref", "refs/heads/main", "main~1")
    back = cli.head
    for words in (("show", "plan"), ("list",), ("watch", "console", "--once"), ("verify",)):
        cli.run(*words)
    assert cli.head == back
    assert cli("note", "plan", "three") == "plan r3 pending\n"
    assert [note["text"] for note in cli.flow("plan")["notes"]] == ["one", "three"]
    git(tmp_path, "clone", "-q", cli.gitdir, "clone")
    git(tmp_path / "clone", "revert", "--no-edit", "HEAD")
    git(tmp_path / "clone", "push", "-q", "origin", "main")
    refused = cli.run("note", "plan", "four")
    assert (refused.code, "gfs adopt plan" in refused.err) == (6, True)
    assert cli.run("adopt", "plan", "--reason", "it was wrong").code == 0
    assert [note["text"] for note in cli.flow("plan")["notes"]] == ["one"]
    assert cli.flow("plan")["revision"] == 4
    check(cli, ("plan", 4))
