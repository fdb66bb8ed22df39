"""Refs: what counts as a value."""

from __future__ import annotations

import os

import pytest
from gitrepo import MAIN, git, publish_on

from gitflowstate.errors import Corrupt, GfsError, Rejected
from gitflowstate.git import Repository
from gitflowstate.syscalls import calls


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        assert publish_on(made, None, "first")
        yield made


@pytest.mark.req("D13", "A7")
@pytest.mark.parametrize(
    "content", [b"", b"not a sha\n", b"a" * 20, b"A" * 40, b"ref: refs/heads/x\n", b"\0" * 41]
)
def test_a_ref_of_other_content_is_corrupt_and_never_the_packed_value(repo, content):
    git(repo.gitdir, "pack-refs", "--all")
    (repo.gitdir / MAIN).write_bytes(content)
    with pytest.raises(Corrupt, match="refs/heads/main") as caught:
        repo.ref(MAIN)
    shown = content.decode().rstrip().encode("unicode_escape").decode()
    assert caught.value.message.endswith(f' but "{shown}"')
    with pytest.raises(Corrupt):
        publish_on(repo, None, "second")
    assert (repo.gitdir / MAIN).read_bytes() == content
    assert not (repo.gitdir / f"{MAIN}.lock").exists()


@pytest.mark.req("D13")
@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder"])
def test_a_ref_that_is_no_regular_file_is_corrupt(repo, kind, tmp_path):
    git(repo.gitdir, "pack-refs", "--all")
    path = repo.gitdir / MAIN
    if kind == "link":
        (tmp_path / "elsewhere").write_text(f"{repo.ref(MAIN)}\n")
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder link":
        (repo.gitdir / "refs/heads").rename(tmp_path / "elsewhere")
        (repo.gitdir / "refs/heads").symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(Corrupt):
        repo.ref(MAIN)


def test_a_packed_ref_is_found_beside_others_and_peeled_tags(repo):
    wanted = repo.ref(MAIN)
    git(repo.gitdir, "branch", "x/refs/heads/main", MAIN)
    git(repo.gitdir, "tag", "-a", "-m", "t", "t1", MAIN)
    git(repo.gitdir, "pack-refs", "--all")
    assert not (repo.gitdir / MAIN).exists()
    assert repo.ref(MAIN) == wanted
    assert repo.ref("refs/heads/x/refs/heads/main") == wanted
    assert repo.ref("refs/heads/absent") is None
    assert repo.ref("refs/heads/main/below") is None


def test_a_broken_packed_ref_is_corrupt(repo):
    git(repo.gitdir, "pack-refs", "--all")
    packed = repo.gitdir / "packed-refs"
    packed.write_text(packed.read_text().replace(repo.ref(MAIN), "g" * 40))
    with pytest.raises(Corrupt, match="packed-refs"):
        repo.ref(MAIN)


@pytest.mark.req("B7", "F5")
@pytest.mark.parametrize("number", [5, 13, 24, 116], ids=["EIO", "EACCES", "EMFILE", "ESTALE"])
def test_an_error_on_the_loose_ref_is_never_the_packed_value(repo, number, monkeypatch):
    old = repo.ref(MAIN)
    git(repo.gitdir, "pack-refs", "--all")
    assert publish_on(repo, old, "second")
    newer = repo.ref(MAIN)
    real = calls.open

    def failing(path, *rest):
        if str(path).endswith(MAIN):
            raise OSError(number, os.strerror(number), path)
        return real(path, *rest)

    monkeypatch.setattr(calls, "open", failing)
    with pytest.raises(GfsError, match="refs/heads/main"):
        repo.ref(MAIN)
    with pytest.raises(GfsError, match="refs/heads/main"):
        publish_on(repo, old, "third")
    monkeypatch.undo()
    assert repo.ref(MAIN) == newer


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    "name",
    [
        "main",
        "refs/heads",
        "refs/heads/a b",
        "refs/heads/@{u}",
        "refs/heads/x.lock",
        "refs/../x/y",
        "refs/heads/-d",
        "refs/heads//x",
        "refs/heads/.x",
        "refs/heads/x.",
        "refs/heads/a\nb",
        "HEAD",
    ],
)
def test_a_name_that_git_would_misread_is_refused(repo, name):
    with pytest.raises(Rejected):
        repo.ref(name)
    with pytest.raises(Rejected):
        publish_on(repo, None, "x", ref=name)
