"""What a remote and the way to it can do wrong: nothing acknowledged is lost, all else is said."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import clirun
import pytest
import wires
from fakes.githttp import PASSWORD
from fakes.gitservers import hook, refuse
from fakes.listening import free_port
from fakes.proxy import Proxy
from gitrepo import MAIN, fsck, git

UPDATE = ("update", "f-1", "--progress", "Half of it", "--key", "k1")
BRIEF, LONGER = {"GFS_REMOTE_TIMEOUT": "0.5"}, {"GFS_REMOTE_TIMEOUT": "4"}


@pytest.fixture
def serve(tmp_path):
    """Return what opens a wire of a kind until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda kind: stack.enter_context(wires.opened(kind, tmp_path))


def founded(tmp_path, wire):
    host = wires.founded(tmp_path / "a", wire)
    host("create", "Do it", "--id", "f-1", "--next", "begin")
    return host


# ── the network ─────────────────────────────────────────────────────────────────────────────────

CODES = {"cut": (0,), "late": (7,), "hang": (75,), "reset": (75,), "drop": (75,)}
WAIT = {"hang": BRIEF, "late": LONGER}  # what else is there ends by itself


@pytest.mark.req("F10")
@pytest.mark.parametrize("kind", ["http", pytest.param("git", marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", CODES)
def test_a_push_that_breaks_is_made_once_by_running_it_again(serve, tmp_path, kind, mode):
    wire = serve(kind)
    proxy = Proxy(wire.server.port)
    try:
        through = wire._replace(url=wire.url.replace(str(wire.server.port), str(proxy.port)))
        host = founded(tmp_path, through)
        proxy.mode = mode
        result = host.run(*UPDATE, env=WAIT.get(mode))
        assert result.code in CODES[mode], result
        assert proxy.broken
        assert not clirun.HARMFUL.search(result.err)
        assert "Traceback" not in result.err
        read = host.run("show", "f-1", env=WAIT.get(mode))  # what is known here is still to be had
        assert read.out.startswith("f-1 r2" if mode == "cut" else "f-1 r1")
        proxy.mode = "pass"
        assert host.run(*UPDATE).code == 0
    finally:
        proxy.stop()
    wires.sound(wire, founded_elsewhere(tmp_path, wire), flows={"f-1": 2})


def founded_elsewhere(tmp_path, wire):
    """Return another host, which sees what the remote has."""
    return wires.cloned(tmp_path / "b", wire)


def test_nobody_answers(serve, tmp_path):
    wire = serve("http")
    host = founded(tmp_path, wire)
    port = free_port()
    there = (host.gitdir / "gfs/remote/config").read_text()
    gone = there.replace(str(wire.server.port), str(port))
    (host.gitdir / "gfs/remote/config").write_text(gone)
    error = host.refuses(75, *UPDATE)
    assert str(port) in error["message"]
    told = host.run("show", "f-1")
    assert (told.code, told.out.splitlines()[0]) == (0, "f-1 r1 pending")
    assert "known here" in told.err
    (host.gitdir / "gfs/remote/config").write_text(there)
    wires.sound(wire, host, flows={"f-1": 1})


def test_a_working_folder_that_is_gone_is_no_matter(serve, tmp_path):
    wire = serve("path")
    host = founded(tmp_path, wire)
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os, sys; os.rmdir({str(gone)!r}); os.execvp(sys.argv[1], sys.argv[1:])"
    words = [sys.executable, "-c", code, clirun.SCRIPT, *UPDATE]
    env = os.environ | {"GFS_REPO": str(host.folder)}
    done = subprocess.run(words, cwd=gone, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "f-1 r2 running\n"), done
    wires.sound(wire, host, flows={"f-1": 2})


# ── who may come in ─────────────────────────────────────────────────────────────────────────────


def everywhere(*folders):
    """Return every byte of the files below some folders, and of the objects of repositories."""
    found = b""
    for folder in folders:
        for path in folder.rglob("*"):
            found += path.read_bytes() if path.is_file() else b""
        for gitdir in (folder, folder / ".git"):
            if (gitdir / "objects").is_dir():
                words = ["git", "-C", gitdir, "cat-file", "--batch-all-objects", "--batch"]
                found += subprocess.run(words, capture_output=True, check=True).stdout
    return found


@pytest.mark.parametrize("token", [None, "wr0ng-s3cret"])
def test_over_http_without_the_right_token(serve, tmp_path, token):
    wire = serve("password")
    host = founded(tmp_path, wire)
    wire.env["GFS_GIT_TOKEN"] = token or ""
    error = host.refuses(77, *UPDATE)
    assert "GFS_GIT_TOKEN" in error["hint"]
    clone = clirun.here("clone", wire.url, tmp_path / "no", "--json", env=wire.env)
    assert (clone.code, "GFS_GIT_TOKEN" in clone.error["hint"]) == (77, True)
    assert not (tmp_path / "no").exists()
    said = repr(error) + clone.out + clone.err
    wire.env["GFS_GIT_TOKEN"] = PASSWORD
    host(*UPDATE)
    wires.sound(wire, host, flows={"f-1": 2})
    kept = everywhere(host.folder, wire.bare)
    for secret in filter(None, (token, PASSWORD)):
        assert secret not in said
        assert secret.encode() not in kept


def test_what_a_web_server_does_not_know_is_no_matter_of_running_it_again(serve, tmp_path):
    """It says the same to those who may not see it."""
    wire = serve("http")
    host = founded(tmp_path, wire)
    away = wire.bare.rename(wire.bare.with_name("away.git"))
    error = host.refuses(5, *UPDATE)
    assert "GFS_GIT_TOKEN" in error["hint"]
    told = host.run("show", "f-1")
    assert (told.code, "known here" in told.err) == (0, True)
    away.rename(wire.bare)
    host(*UPDATE)
    wires.sound(wire, host, flows={"f-1": 2})


def test_over_ssh_without_the_right_key_and_with_another_host(serve, tmp_path):
    wire = serve("ssh")
    host = founded(tmp_path, wire)
    wire.env["GFS_SSH_COMMAND"] = wire.server.client("stranger")
    error = host.refuses(77, *UPDATE)
    assert "GFS_SSH_COMMAND" in error["hint"]
    wire.env["GFS_SSH_COMMAND"] = wire.server.command
    known = wire.server.folder / "known"
    right = known.read_text()
    known.write_text(f"{right.split(' ')[0]} {(wire.server.folder / 'stranger.pub').read_text()}")
    assert "see whether it is the host" in host.refuses(77, *UPDATE)["hint"]
    known.write_text(right)
    host(*UPDATE)
    wires.sound(wire, host, flows={"f-1": 2})


@pytest.mark.req("C8", "C9")
@pytest.mark.parametrize("kind", ["http", "git"])
def test_a_hook_of_the_server_decides(serve, tmp_path, kind):
    wire = serve(kind)
    host = founded(tmp_path, wire)
    closed = refuse(wire.bare)
    error = host.refuses(77, *UPDATE)
    assert "pre-receive hook declined" in error["message"]
    closed.unlink()
    host(*UPDATE)
    wires.sound(wire, host, flows={"f-1": 2})


OVERTAKING = """\
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
old=$(git rev-parse refs/heads/main)
git update-ref refs/heads/main "$(git commit-tree -p "$old" -m faster "$old^{tree}")" "$old"
"""


@pytest.mark.req("C8")
def test_others_who_are_always_faster_are_given_up_on(serve, tmp_path):
    wire = serve("path")
    host = founded(tmp_path, wire)
    overtaking = hook(wire.bare, "pre-receive", OVERTAKING)
    result = host.run(*UPDATE, env=LONGER)
    assert (result.code, "faster" in result.err) == (75, True)
    overtaking.unlink()
    host(*UPDATE)
    wires.sound(wire, host, flows={"f-1": 2})


# ── disks ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small(tmp_path):
    """Return a folder on a file system of its own that holds very little."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", folder]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def filled(folder):
    """Use up what is left of a file system; return the file that did it."""
    path = folder / "filling"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return path


@pytest.mark.req("F4")
@pytest.mark.parametrize("kind", ["path", "http"])
def test_a_remote_whose_disk_is_full(small, kind):
    with wires.opened(kind, small) as wire:
        host = founded(small.parent, wire)
        filling = filled(small)
        result = host.run(*UPDATE, env=LONGER)
        assert result.code in (7, 75), result
        assert git(wire.bare, "rev-parse", MAIN) == host.head
        filling.unlink()
        host(*UPDATE)
        wires.sound(wire, host, flows={"f-1": 2})


@pytest.mark.req("F4")
def test_a_host_whose_disk_is_full(serve, small, tmp_path):
    wire = serve("path")
    other = founded(tmp_path, wire)
    host = wires.cloned(small / "host", wire)
    other("note", "f-1", "meanwhile")
    filling = filled(small)
    assert host.run(*UPDATE).code in (1, 75)
    assert git(wire.bare, "rev-parse", MAIN) == other.head
    filling.unlink()
    host(*UPDATE)
    fsck(host.gitdir)
    wires.sound(wire, host, other, flows={"f-1": 3})
