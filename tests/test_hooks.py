"""`gfs hooks`: what a push may do to main, and the hooks of others that stay and are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import clirun
import pytest
from gitrepo import child, code_of, git

from gitflowstate.model import flow_path
from gitflowstate.syscalls import calls

ROOT = Path(__file__).parents[1]
HOOKS = ["pre-receive", "pre-push"]


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a flow repository."""
    found = clirun.made(tmp_path / "work")
    found("create", "Compare", "--id", "f-1", "--next", "Read")
    yield found
    found.sound()


@pytest.fixture
def clone(cli, tmp_path):
    """Return an ordinary clone."""
    git(tmp_path, "clone", "-q", f"file://{cli.gitdir}", "clone")
    return tmp_path / "clone"


@pytest.fixture
def guarded(cli, clone, request):
    """Return (flow repository, clone) with the hook on one of the two sides."""
    side = cli.folder if request.param == "pre-receive" else clone
    assert (cli if side is cli.folder else clirun.Cli(clone)).run("hooks", "install").code == 0
    if request.param == "pre-push":  # nothing else is in the way
        cli.git("config", "receive.denyNonFastForwards", "false")
        cli.git("config", "receive.denyDeletes", "false")
    return cli, clone


def push(clone, *words):
    """Push from a clone; return (whether it was taken, what was said)."""
    done = subprocess.run(
        ["git", "-C", clone, "push", "-q", "origin", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stderr


def committed(clone, name, content):
    path = clone / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", f"edit {name}")


@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_what_people_may_edit_goes_through(guarded):
    cli, clone = guarded
    committed(clone, "README.md", "ours")
    assert push(clone, "main")[0]
    assert cli.head == git(clone, "rev-parse", "main")
    committed(clone, "flows/odd", "elsewhere")
    assert push(clone, "HEAD:refs/heads/proposal")[0]


@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_edits_of_flows_by_hand_are_refused_and_nothing_moves(guarded):
    cli, clone = guarded
    head = cli.head
    committed(clone, "README.md", "fine")
    committed(clone, flow_path("f-1"), '{"id": "f-1"}\n')
    taken, said = push(clone, "main")
    assert not taken
    assert "1 commit was made by hand" in said
    assert cli.head == head


@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_a_commit_that_lies_about_its_operation_is_refused(guarded, tmp_path):
    cli, clone = guarded
    cli("note", "f-1", "true words")
    text = cli.message()
    cli.git("update-ref", "refs/heads/main", "main~1")
    git(clone, "fetch", "-q")
    path = clone / flow_path("f-1")
    path.write_text(path.read_text().replace("Compare", "Another"))
    git(clone, "commit", "-q", "-a", "-m", text)
    taken, said = push(clone, "main")
    assert not taken
    assert "differs from what its operation gives" in said


@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_main_is_neither_rewritten_nor_taken_away(guarded):
    cli, clone = guarded
    cli("note", "f-1", "more")
    git(clone, "pull", "-q")
    git(clone, "reset", "-q", "--hard", "HEAD~1")
    head = cli.head
    for words in (("+main",), (":main",)):
        assert not push(clone, *words)[0]
        assert cli.head == head
    assert "would lose commits" in push(clone, "+main")[1]
    assert "not removed" in push(clone, ":main")[1]


@pytest.mark.req("D3", "D5")
@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_a_merge_that_takes_acknowledged_revisions_back_is_refused(guarded):
    cli, clone = guarded
    committed(clone, "README.md", "ours")
    cli("note", "f-1", "acknowledged")
    cli("done", "f-1", "--result", "https://example.org/r")
    head = cli.head
    git(clone, "pull", "-q", "--no-rebase", "--no-edit", "-s", "ours")
    taken, said = push(clone, "main")
    assert not taken
    assert f"takes back what main had at {head[:12]}: 2 commits that changed flows" in said
    assert "git pull --rebase" in said
    assert cli.head == head
    git(clone, "reset", "-q", "--hard", "HEAD~1")
    git(clone, "pull", "-q", "--no-rebase", "--no-edit")  # the same, and what others did is kept
    committed(clone, "types/note.md", "more")
    assert push(clone, "main")[0]
    assert cli.json("show", "f-1")["flow"]["revision"] == 3


@pytest.mark.req("D5")
@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_what_two_people_wrote_is_merged_whichever_side_comes_first(guarded):
    cli, clone = guarded
    start = git(clone, "rev-parse", "main")
    committed(clone, "README.md", "one")
    assert push(clone, "main")[0]
    git(clone, "checkout", "-q", "-b", "mine", start)
    committed(clone, "gfs.toml", "# mine")
    git(clone, "merge", "-q", "--no-edit", "main")
    assert push(clone, "mine:main")[0]
    cli("note", "f-1", "after that")


@pytest.mark.parametrize("guarded", HOOKS, indirect=True)
def test_operations_of_another_writer_go_through(guarded, tmp_path):
    cli, clone = guarded
    cli("backup", tmp_path / "b")
    assert clirun.here("restore", tmp_path / "b", tmp_path / "other").code == 0
    other = clirun.Cli(tmp_path / "other")
    for number in range(3):
        other("note", "f-1", f"elsewhere {number}")
    git(clone, "fetch", "-q", other.gitdir, "main:incoming")
    assert push(clone, "incoming:main")[0]
    assert cli.head == other.head


@pytest.mark.parametrize("packed", [False, True])
def test_an_empty_server_takes_a_first_push_that_replays(cli, clone, tmp_path, packed):
    git(tmp_path, "init", "-q", "--bare", "server.git")
    server = tmp_path / "server.git"
    assert clirun.here("hooks", "install", "--repo", server).code == 0
    git(server, "config", "receive.unpackLimit", "1" if packed else "1000")
    git(clone, "remote", "set-url", "origin", server)
    committed(clone, flow_path("f-9"), "{}")
    assert not push(clone, "main")[0]
    assert push(clone, "main~1:refs/heads/main")[0]
    assert git(server, "rev-parse", "main") == cli.head
    assert not (server / "gfs").exists()


# ── hooks of others ─────────────────────────────────────────────────────────────────────────────


def other_hook(cli, text="exit 0", name="pre-receive"):
    path = cli.gitdir / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.req("L7")
def test_a_hook_that_was_there_is_called_first_and_comes_back(cli, clone, tmp_path):
    path = other_hook(cli, f"cat >> {tmp_path}/told; test ! -e {tmp_path}/closed")
    kept = path.read_bytes()
    assert cli.json("hooks", "install") == {
        "hook": str(path), "changed": True, "chained": True, "kept": None,
    }  # fmt: skip
    committed(clone, "README.md", "one")
    old, new = cli.head, git(clone, "rev-parse", "main")
    assert push(clone, "main")[0]
    assert (tmp_path / "told").read_text() == f"{old} {new} refs/heads/main\n"
    (tmp_path / "closed").touch()
    committed(clone, "README.md", "two")
    assert not push(clone, "main")[0]
    assert cli.head == new
    assert cli.json("hooks", "remove")["restored"]
    assert path.read_bytes() == kept
    assert [found.name for found in path.parent.glob("pre-receive*")] == ["pre-receive"]


def test_install_is_repeatable_and_check_says_what_is_there(cli):
    path = cli.gitdir / "hooks/pre-receive"
    state = lambda: cli.refuses(1, "hooks", "check")["details"]["state"]  # noqa: E731
    assert state() == "absent"
    cli("hooks", "install")
    assert cli("hooks", "check").endswith("is installed\n")
    assert not cli.json("hooks", "install")["changed"]
    path.chmod(0o644)
    if os.geteuid() != 0 or not os.access(path, os.X_OK):
        assert state() == "disabled"
    cli("hooks", "install")
    path.write_text(path.read_text() + "# older\n")
    assert state() == "outdated"
    cli("hooks", "install")
    assert not (path.parent / "pre-receive.before-gfs").exists()
    cli("hooks", "remove")
    assert not path.exists()
    other_hook(cli)
    assert state() == "another"
    cli.refuses(5, "hooks", "remove")
    cli("hooks", "install")
    shutil.copy(path.parent / "pre-receive.before-gfs", path)
    assert "is there as well" in cli.refuses(3, "hooks", "install")["message"]


def test_a_link_to_a_hook_manager_is_kept_as_a_link(cli, tmp_path):
    manager = tmp_path / "manager"
    manager.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    manager.chmod(0o755)
    (cli.gitdir / "hooks").mkdir(exist_ok=True)
    (cli.gitdir / "hooks/pre-receive").symlink_to(manager)
    cli("hooks", "install")
    assert manager.read_text().startswith("#!/bin/sh\ntouch")
    assert (cli.gitdir / "hooks/pre-receive.before-gfs").readlink() == manager


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_where_git_looks_elsewhere_nothing_is_installed(cli, home, tmp_path, scope):
    git(cli.gitdir, "config", scope, "core.hooksPath", tmp_path / "shared")
    error = cli.refuses(3, "hooks", "install")
    assert str(tmp_path / "shared") in error["message"]
    assert not (tmp_path / "shared").exists()
    assert not (cli.gitdir / "hooks").exists()
    git(cli.gitdir, "config", scope, "--unset", "core.hooksPath")


@pytest.mark.req("L7")
def test_a_hook_that_git_no_longer_looks_at_is_told_and_can_be_removed(cli, tmp_path):
    path = other_hook(cli)
    kept = path.read_bytes()
    cli("hooks", "install")
    git(cli.gitdir, "config", "core.hooksPath", tmp_path / "shared")
    error = cli.refuses(1, "hooks", "check")
    assert str(tmp_path / "shared") in error["message"]
    assert "call" in error["hint"]
    assert error["details"]["state"] == "installed"
    assert cli.json("hooks", "remove")["restored"]
    assert path.read_bytes() == kept
    cli.refuses(1, "hooks", "check")


def test_without_gfs_nothing_is_taken(cli, clone):
    cli("hooks", "install")
    path = cli.gitdir / "hooks/pre-receive"
    lines = path.read_text().split("\n")
    lines = ["gfs() { /nowhere/gfs; }" if line.startswith("gfs() ") else line for line in lines]
    path.write_text("\n".join(lines))
    committed(clone, "README.md", "one")
    head = cli.head
    assert not push(clone, "main")[0]
    assert cli.head == head


def test_a_folder_in_the_repository_is_never_imported(cli, clone, tmp_path):
    cli("hooks", "install")
    for folder in (cli.gitdir, cli.gitdir / "objects"):
        (folder / "gitflowstate").mkdir()
        (folder / "gitflowstate/__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    committed(clone, "README.md", "one")
    assert push(clone, "main")[0]
    assert not (tmp_path / "ran").exists()
    for folder in (cli.gitdir, cli.gitdir / "objects"):
        shutil.rmtree(folder / "gitflowstate")


@pytest.mark.req("A1")
@pytest.mark.parametrize("link", [False, True])
def test_killed_when_the_other_hook_has_two_names_it_is_installed_by_the_next(cli, tmp_path, link):
    path = other_hook(cli, f"touch {tmp_path}/ran")
    if link:
        path.rename(tmp_path / "manager")
        path.symlink_to(tmp_path / "manager")
    kept = path.read_bytes()

    def work():
        def die(*_):
            os.kill(os.getpid(), 9)

        calls.rename = die
        cli.run("hooks", "install")

    assert code_of(child(work)) == -9
    (half,) = path.parent.glob(".pre-receive-*")
    os.utime(half, (1_700_000_000,) * 2)
    assert cli.refuses(1, "hooks", "check")["details"]["state"] == "another"
    assert cli.json("hooks", "install")["chained"]
    names = {found.name for found in path.parent.iterdir()}
    assert names == {"pre-receive", "pre-receive.before-gfs"}
    cli("hooks", "remove")
    assert path.read_bytes() == kept
    assert path.is_symlink() == link


@pytest.mark.req("L7")
@pytest.mark.parametrize("verb", ["install", "remove"])
@pytest.mark.parametrize("enabled", [True, False])
def test_what_somebody_wrote_into_our_hook_is_kept_beside_it(cli, verb, enabled):
    cli("hooks", "install")
    path = cli.gitdir / "hooks/pre-receive"
    ours = path.read_bytes()
    path.write_bytes(ours + b"exec ./own-check\n")
    path.chmod(0o755 if enabled else 0o644)
    kept = Path(cli.json("hooks", verb)["kept"])
    assert kept.read_bytes() == ours + b"exec ./own-check\n"
    assert kept.name.startswith("pre-receive.replaced-")
    assert path.exists() == (verb == "install")
    cli("hooks", "install")
    path.write_bytes(kept.read_bytes())
    assert f"kept as {kept.name}" in cli("hooks", verb)  # the same once more
    assert [*path.parent.glob("*.replaced-*")] == [kept]
    cli("hooks", "install")
    path.chmod(0o644)
    path.write_bytes(ours.replace(b"gfs() { ", b"gfs() { GFS_DEBUG=1 "))
    assert cli.json("hooks", "install")["kept"] is None  # only how gfs is started


# ── as shipped ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", HOOKS)
def test_the_scripts_are_plain_shell(name):
    path = ROOT / "hooks" / name
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", path], check=True)
    assert path.read_text().count("\ngfs() {") == 1
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "sh", path], check=True)


def test_pre_commit_finds_the_check(cli):
    import re

    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    pattern = re.search(r"^  files: (.+)$", text, re.MULTILINE)[1]
    entry = re.search(r"^  entry: gfs (.+)$", text, re.MULTILINE)[1]
    names = [flow_path("f-1"), "gfs.toml", "README.md", "flows/a/b/c.json"]
    assert [name for name in names if re.search(pattern, name)] == names[:2]
    assert cli(entry, cli.folder / flow_path("f-1")) == "1 valid\n"
