"""What is a repository, what is refused when one is opened, and how one is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gitrepo import MAIN, become_nobody, child, code_of, git, let_others_in, publish

from gitflowstate.errors import Corrupt, Denied, NotFound, Rejected
from gitflowstate.git import Repository


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        yield made


def clone(repo, path, *options) -> Path:
    git(path.parent, "clone", "-q", *options, f"file://{repo.gitdir}", path)
    return path


@pytest.fixture
def filled(repo):
    publish(repo, {"flows/a": b"1"}, "first")
    return repo


def test_what_is_no_repository_is_not_found(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "half/objects").mkdir(parents=True)
    for name in ("none", "file", "half", "file/below"):
        with pytest.raises(NotFound):
            Repository.open(tmp_path / name)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/.git").write_text("gitdir: ../none\n")
    with pytest.raises((NotFound, Rejected)):
        Repository.open(tmp_path / "bad")


@pytest.mark.req("D10", "F9")
def test_a_checked_out_main_is_read_but_not_written(filled, tmp_path):
    work = clone(filled, tmp_path / "work")
    for path in (work, work / ".git"):
        with Repository.open(path) as repo:
            assert repo.gitdir == work / ".git"
            assert repo.ref("refs/remotes/origin/main") == filled.ref(MAIN)
        with pytest.raises(Rejected, match="checked out"):
            Repository.open(path, writing=True)
    git(work, "checkout", "-q", "-b", "other")
    Repository.open(work, writing=True).close()
    git(work, "checkout", "-q", "--detach")
    Repository.open(work, writing=True).close()


@pytest.mark.req("D10", "L11")
def test_main_in_a_linked_worktree_is_not_written(filled, tmp_path):
    linked = tmp_path / "linked"
    git(filled.gitdir, "worktree", "add", "-q", linked, "main")
    with Repository.open(linked) as repo:
        assert repo.gitdir == filled.gitdir
    for path in (linked, filled.gitdir):
        with pytest.raises(Rejected, match="checked out"):
            Repository.open(path, writing=True)
    git(linked, "checkout", "-q", "-b", "other")
    with Repository.open(linked, writing=True) as repo:
        publish(repo, {"flows/b": b"1"})
    git(linked, "config", "extensions.worktreeConfig", "true")
    Repository.open(linked, writing=True).close()


@pytest.mark.req("L11", "G8")
def test_the_git_file_of_a_submodule_is_followed_if_it_is_named_in_turn(filled, tmp_path):
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", outer)
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", filled.gitdir, "sub")
    with Repository.open(outer / "sub") as repo:
        assert repo.gitdir == outer / ".git/modules/sub"
        assert repo.ref(MAIN) == filled.ref(MAIN)
    git(tmp_path, "init", "-q", "--separate-git-dir", tmp_path / "apart", tmp_path / "tree")
    evil = tmp_path / "evil"
    evil.mkdir()
    for target in (filled.gitdir, outer / ".git", "../", "../../"):
        (evil / ".git").write_text(f"gitdir: {target}\n")
        with pytest.raises(Rejected, match="does not name it"):
            Repository.open(evil)


@pytest.mark.req("D9")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"core.repositoryFormatVersion": "2"}, "format version is 2"),
        ({"core.repositoryFormatVersion": "1", "extensions.strange": "x"}, "strange"),
        ({"core.repositoryFormatVersion": "1", "extensions.refStorage": "reftable"}, "reftable"),
        ({"core.repositoryFormatVersion": "1", "extensions.objectFormat": "sha256"}, "sha256"),
        ({"extensions.partialClone": "origin"}, "partialclone"),
        ({"remote.origin.promisor": "true"}, "partial clone"),
    ],
)
def test_what_we_would_misread_is_refused_with_the_reason(filled, settings, says):
    for key, value in settings.items():
        git(filled.gitdir, "config", key, value)
    for writing in (False, True):
        with pytest.raises(Rejected, match=says):
            Repository.open(filled.gitdir, writing=writing)


@pytest.mark.req("D9")
def test_extensions_that_change_nothing_for_us_are_accepted(filled):
    git(filled.gitdir, "config", "core.repositoryFormatVersion", "1")
    for key, value in [("noop", "1"), ("preciousObjects", "true"), ("objectFormat", "sha1")]:
        git(filled.gitdir, "config", f"extensions.{key}", value)
    Repository.open(filled.gitdir, writing=True).close()


@pytest.mark.req("D9")
def test_real_odd_clones_are_refused(filled, tmp_path):
    git(filled.gitdir, "config", "uploadpack.allowFilter", "true")
    partial = clone(filled, tmp_path / "partial", "--filter=blob:none", "--bare")
    git(tmp_path, "clone", "-q", "--bare", "--shared", filled.gitdir, "shared")
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "long")
    for path, says in [
        (partial, "partial"),
        (tmp_path / "shared", "borrows"),
        (tmp_path / "long", "sha256"),
    ]:
        with pytest.raises(Rejected, match=says):
            Repository.open(path)


@pytest.mark.req("G6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_foreign_owner_is_denied_unless_trusted_by_its_path(filled):
    os.chown(filled.gitdir, 12345, -1)
    with pytest.raises(Denied, match="12345") as caught:
        Repository.open(filled.gitdir)
    assert f"GFS_TRUST={filled.gitdir}" in caught.value.hint
    with pytest.raises(Denied):
        Repository.open(filled.gitdir, trust=frozenset({"/elsewhere"}))
    Repository.open(filled.gitdir, trust=frozenset({str(filled.gitdir)})).close()


@pytest.mark.req("G6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_and_the_git_folder_in_it_are_trusted_as_one(filled, tmp_path):
    work = clone(filled, tmp_path / "work")
    os.chown(work / ".git", 12345, -1)
    for path in (work, work / ".git"):
        for trusted in (work, work / ".git"):
            Repository.open(path, trust=frozenset({str(trusted)})).close()
        for other in (tmp_path, f"{work}x"):
            with pytest.raises(Denied):
                Repository.open(path, trust=frozenset({str(other)}))


@pytest.mark.req("G5")
def test_a_config_by_others_runs_nothing_and_hangs_nowhere(filled, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    config = filled.gitdir / "config"
    with config.open("a") as file:
        file.write(f'[include]\n\tpath = {pipe}\n[includeIf "gitdir:/"]\n\tpath = {pipe}\n')
        file.write("[alias]\n\tx = !touch /nowhere\n")
    Repository.open(filled.gitdir, writing=True).close()
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(Corrupt, match="not a regular file"):
        Repository.open(filled.gitdir)


@pytest.mark.req("B4")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_a_repository_without_write_permission_is_read_and_denied(filled):
    let_others_in(filled.gitdir)

    def work():
        become_nobody()
        with Repository.open(filled.gitdir, trust=frozenset({str(filled.gitdir)})) as repo:
            assert repo.commit(repo.ref(MAIN)).message == b"first"
            with pytest.raises(Denied, match=str(filled.gitdir)):
                publish(repo, {"flows/b": b"1"})

    assert code_of(child(work)) == 0


@pytest.mark.req("R-TF-10")
def test_a_new_repository_has_the_promised_configuration(repo):
    lines = git(repo.gitdir, "config", "--local", "--list").splitlines()
    assert set(lines) == {
        "core.repositoryformatversion=0",
        "core.bare=true",
        "core.fsync=committed,reference",
        "gc.auto=0",
        "receive.denynonfastforwards=true",
        "receive.denydeletes=true",
    }
    assert git(repo.gitdir, "symbolic-ref", "HEAD") == MAIN
    assert repo.ref(MAIN) is None
    assert not list(repo.gitdir.parent.glob(".gfs-init-*"))


def test_making_one_over_something_else_is_refused_and_leaves_it(tmp_path):
    (tmp_path / "empty").mkdir()
    Repository.init(tmp_path / "empty").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("x")
    for name in ("full", "empty", "full/file"):
        with pytest.raises(Rejected, match="is not empty"):
            Repository.init(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "full"]
    assert (tmp_path / "full/file").read_text() == "x"
