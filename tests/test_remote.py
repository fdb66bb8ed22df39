"""The origin of a clone, reached by C git: one ref read, fetched and moved; nothing else."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes.githttp import PASSWORD, GitHttp
from fakes.gitservers import hook
from flowrepo import imported
from gitrepo import MAIN, git

from gitflowstate.adapters.remote import GitRemote, origin_of
from gitflowstate.delivery import Unknown
from gitflowstate.errors import Denied, NotFound, Unavailable

REF = "refs/gfs/cursors/team"
SECRET = PASSWORD


@pytest.fixture
def clone(lab):
    return lab.clone()


def remote(lab, clone, **how):
    environ = how.pop("environ", dict(os.environ))
    url = how.pop("url", f"file://{lab.gitdir}")
    return GitRemote(clone / ".git", url, environ, **how)


def test_an_origin_that_is_gone_is_told_with_the_reason_and_not_with_advice(lab, clone, tmp_path):
    with pytest.raises(Unavailable, match="does not appear to be a git repository"):
        remote(lab, clone, url=f"file://{tmp_path}/gone").refs(MAIN)


def commit(clone, text="x", parents=()):
    """Make a commit in the clone that no ref of it names."""
    oid = imported(clone / ".git", text=text.encode(), ref="refs/heads/aside", parents=parents)
    git(clone, "update-ref", "-d", "refs/heads/aside")
    return oid


def everything(folder):
    """Return every file of a clone but its objects."""
    found = [path for path in folder.rglob("*") if path.is_file() and "objects" not in path.parts]
    return {str(path): path.read_bytes() for path in found}


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def test_refs_are_read_by_their_exact_names(lab, clone):
    git(lab.gitdir, "update-ref", "refs/heads/refs/heads/main", lab.head)
    origin = remote(lab, clone)
    assert origin.refs(MAIN, REF) == {MAIN: lab.head}
    git(lab.gitdir, "update-ref", REF, lab.head)
    assert origin.refs(MAIN, REF) == {MAIN: lab.head, REF: lab.head}


def test_a_commit_is_fetched_into_the_objects_alone(lab, clone):
    lab.update("one")
    lab.update("two")
    before = everything(clone)
    remote(lab, clone).fetch(MAIN)
    assert git(clone, "cat-file", "-t", lab.head) == "commit"
    assert everything(clone) == before
    assert not (clone / ".git/FETCH_HEAD").exists()
    assert not (clone / ".git/shallow").exists()


def test_where_history_is_cut_a_ref_of_its_own_is_fetched_without_its_past(lab):
    tip = [imported(lab.gitdir, text=b"a", ref=REF, parents=())]
    tip += [imported(lab.gitdir, text=b"b", ref=REF, parents=(f"{REF}^0",)) for _ in range(2)]
    clone = lab.clone("cut", "--depth=1")
    before = set((clone / ".git/shallow").read_text().split())
    origin = remote(lab, clone, cut=True)
    origin.fetch(REF, shallow=True)
    assert set((clone / ".git/shallow").read_text().split()) == {*before, tip[-1]}
    assert git(clone, "rev-list", "--count", "HEAD") == "1"
    assert git(clone, "cat-file", "--batch-check", data=tip[0].encode()).endswith("missing")
    lab.update("one")
    origin.fetch(MAIN)
    assert git(clone, "rev-list", "--count", "origin/main") == "1"


# ── moving ──────────────────────────────────────────────────────────────────────────────────────


def test_a_ref_is_made_and_moved_from_the_value_that_was_seen(lab, clone):
    origin = remote(lab, clone)
    first = commit(clone, "first")
    assert origin.push(REF, None, first) is None
    second = commit(clone, "second", (first,))
    assert origin.push(REF, first, second) is None
    assert origin.refs(REF) == {REF: second}
    assert git(lab.gitdir, "for-each-ref", "--format=%(refname)") == f"{REF}\n{MAIN}"


def test_a_race_that_was_lost_is_a_refusal(lab, clone):
    origin = remote(lab, clone)
    first, second, third = (commit(clone, text) for text in "abc")
    assert origin.push(REF, None, first) is None
    assert origin.push(REF, None, second)
    assert origin.push(REF, third, second)
    assert origin.refs(REF) == {REF: first}


def test_hooks_of_the_origin_count_and_those_of_the_clone_do_not(lab, clone):
    first = commit(clone)
    second = commit(clone, "b", (first,))
    for name in ("pre-push", "reference-transaction", "post-checkout"):
        hook(clone / ".git", name, f"touch {clone}/ran-{name}; exit 1")
    hook(lab.gitdir, "post-update", f"touch {lab.folder}/updated")
    origin = remote(lab, clone)
    assert origin.push(REF, None, first) is None
    lab.update("one")
    origin.fetch(MAIN)
    assert (lab.folder / "updated").exists()
    assert list(clone.glob("ran-*")) == []
    hook(lab.gitdir, "pre-receive", "echo no >&2; exit 1")
    assert "declined" in origin.push(REF, first, second)


def fake_git(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which `git` is a script; `$REAL` is the real one."""
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    (folder / "git").write_text(f"#!/bin/sh\nREAL={real.strip()}\n{script}\n")
    (folder / "git").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("moved", [True, False])
def test_a_push_whose_answer_is_lost_is_unknown(lab, clone, tmp_path, moved, monkeypatch):
    act = '"$REAL" "$@" >/dev/null 2>&1' if moved else ":"
    script = f'case "$*" in *" push "*) {act}; exit 128;; esac\nexec "$REAL" "$@"'
    environ = fake_git(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", environ["PATH"])
    first = commit(clone)
    with pytest.raises(Unknown):
        remote(lab, clone, environ=environ).push(REF, None, first)
    assert bool(remote(lab, clone).refs(REF)) is moved


def test_what_never_answers_is_given_up(lab, clone, tmp_path, monkeypatch):
    environ = fake_git(tmp_path / "bin", "sleep 60")
    monkeypatch.setenv("PATH", environ["PATH"])
    with pytest.raises(Unavailable, match="no answer within 0"):
        remote(lab, clone, environ=environ, timeout_s=0.3).refs(MAIN)


# ── what Git is given ───────────────────────────────────────────────────────────────────────────


def test_git_gets_no_variable_of_ours_and_the_token_in_none_of_its_arguments(
    lab, clone, tmp_path, monkeypatch
):
    told = tmp_path / "told"
    script = f'env > {told}; printf "%s\\n" "$@" > {told}.argv; exec "$REAL" "$@"'
    environ = fake_git(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", environ["PATH"])
    environ |= {"GIT_DIR": "/nowhere", "GIT_SSH_COMMAND": "false", "GFS_GIT_TOKEN": SECRET}
    url = "https://user:pass@127.0.0.1:1/r.git"
    origin = GitRemote(clone / ".git", url, environ, token=SECRET)
    with pytest.raises(Unavailable) as error:
        origin.refs(MAIN)
    assert "pass" not in error.value.message
    env = dict(line.split("=", 1) for line in told.read_text().splitlines() if "=" in line)
    pair = base64.b64encode(f"x-access-token:{SECRET}".encode()).decode()
    assert {name for name in env if name.startswith("GIT_")} == {
        "GIT_TERMINAL_PROMPT", "GIT_ASKPASS", "GIT_ALLOW_PROTOCOL",
        "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0",
        "GIT_CONFIG_KEY_1", "GIT_CONFIG_VALUE_1",
    }  # fmt: skip
    for number, value in enumerate(["", f"Authorization: Basic {pair}"]):
        assert env[f"GIT_CONFIG_KEY_{number}"] == "http.https://127.0.0.1:1/.extraHeader"
        assert env[f"GIT_CONFIG_VALUE_{number}"] == value
    assert "GFS_GIT_TOKEN" not in env
    argv = Path(f"{told}.argv").read_text()
    assert SECRET not in argv
    assert pair not in argv


@pytest.mark.parametrize("url", ["http://example.invalid/r.git", "ssh://h/r", "/srv/r", "h:r.git"])
def test_no_token_leaves_in_plain_text(clone, url):
    origin = GitRemote(clone / ".git", url, {}, token=SECRET)
    assert "GIT_CONFIG_COUNT" not in origin._environment


@pytest.mark.parametrize("url", ["ext::sh -c 'touch ran'", "--upload-pack=touch ran", "fd::3"])
def test_no_url_runs_anything(clone, url, tmp_path):
    with pytest.raises((Unavailable, Denied)):
        GitRemote(clone / ".git", url, dict(os.environ), folder=tmp_path).refs(MAIN)
    assert not (tmp_path / "ran").exists()


def test_an_origin_that_is_not_there(lab, clone, tmp_path):
    origin = remote(lab, clone, url=f"file://{tmp_path}/nowhere")
    with pytest.raises(Unavailable):
        origin.refs(MAIN)
    with pytest.raises(Unavailable):
        origin.fetch(MAIN)


def test_where_the_origin_is_read_and_written(lab, clone, tmp_path):
    environ = dict(os.environ)
    url = f"file://{lab.gitdir}"
    assert origin_of(clone / ".git", environ) == (url, url)
    git(clone, "remote", "set-url", "--push", "origin", "file:///elsewhere")
    assert origin_of(clone / ".git", environ) == (url, "file:///elsewhere")
    git(clone, "remote", "remove", "origin")
    with pytest.raises(NotFound, match="origin"):
        origin_of(clone / ".git", environ)


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def served(lab):
    server = GitHttp(lab.folder, password=SECRET)
    yield server.url(".git"), server
    server.stop()


def test_over_http_with_a_token(lab, clone, served):
    url, server = served
    # What a CI job's checkout leaves in the configuration must not come along.
    host = url.removesuffix(".git")
    git(clone, "config", f"http.{host}.extraHeader", "Authorization: Basic wrong")
    origin = remote(lab, clone, url=url, token=SECRET)
    assert origin.refs(MAIN) == {MAIN: lab.head}
    lab.update("one")
    origin.fetch(MAIN)
    assert git(clone, "cat-file", "-t", lab.head) == "commit"
    first = commit(clone)
    assert origin.push(REF, None, first) is None
    assert origin.refs(REF) == {REF: first}
    assert origin.push(REF, None, commit(clone, "b"))
    asked = [request.headers.get("Authorization", "") for request in server.requests]
    assert {given.partition(" ")[0] for given in asked} == {"Basic"}
    assert not any("wrong" in given for given in asked)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_over_http_without_the_right_token(lab, clone, served, token):
    url, _ = served
    origin = remote(lab, clone, url=url, token=token)
    with pytest.raises(Denied, match="does not let us in") as error:
        origin.refs(MAIN)
    assert "GFS_GIT_TOKEN" in error.value.hint
    with pytest.raises(Denied):
        origin.push(REF, None, commit(clone))
    assert json.dumps(error.value.details) == "{}"
