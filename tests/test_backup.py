"""`gfs backup` and `gfs restore`: a copy is whole, is read back, and nothing is written over."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal

import clirun
import pytest
from flowrepo import imported, put
from gitrepo import child, code_of, fsck, git, in_front, intercepted, overwrite

from gitflowstate.syscalls import calls

CURSOR = "refs/gfs/cursors/team"
RESCUED = "refs/gfs/rescued/20260906T100000Z"


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with a live and an archived flow, and two refs."""
    found = clirun.made(tmp_path / "work")
    found("create", "Compare", "--id", "live", "--next", "Read")
    found("create", "Old", "--id", "old", "--next", "Read")
    found("done", "old", "--result", "r")
    imported(found.gitdir, text=b"cursor\n", ref=CURSOR, parents=())
    found.git("update-ref", RESCUED, "main~1")
    yield found
    found.sound()


def refs(gitdir) -> dict[str, str]:
    told = git(gitdir, "for-each-ref", "--format=%(refname) %(objectname)")
    return dict(line.split(" ") for line in told.splitlines())


def same(cli, folder) -> None:
    """Check that a folder holds the same repository, and that it goes on from there."""
    copy = clirun.Cli(folder)
    assert refs(copy.gitdir) == refs(cli.gitdir)
    assert copy.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert copy.flow("live")["goal"] == "Compare"
    assert (copy.folder / "archive").is_dir()
    fsck(copy.gitdir)
    copy.sound(("live", 1))


@pytest.mark.req("R-TF-11")
@pytest.mark.parametrize("packed", [False, True])
def test_a_bundle_brings_back_the_same_head_and_the_same_refs(cli, tmp_path, packed):
    if packed:
        cli.git("gc", "--quiet")
    before = cli.state()
    told = cli.json("backup", tmp_path / "copy.bundle")
    assert (told["head"], told["refs"]) == (cli.git("rev-parse", "main"), refs(cli.gitdir))
    assert cli.state() == before
    assert {path.name for path in tmp_path.iterdir()} == {"work", "copy.bundle"}
    git(cli.gitdir, "bundle", "verify", "--quiet", tmp_path / "copy.bundle")
    restored = cli.json("restore", tmp_path / "copy.bundle", tmp_path / "new" / "place")
    assert (restored["head"], restored["commits"], restored["problems"]) == (
        cli.git("rev-parse", "main"),
        4,
        [],
    )
    same(cli, tmp_path / "new" / "place")


@pytest.mark.req("R-TF-11")
@pytest.mark.parametrize("url", [False, True])
def test_a_second_repository_is_brought_up_to_date_and_brings_it_back(cli, tmp_path, url):
    place = tmp_path / "second.git"
    git(tmp_path, "init", "--quiet", "--bare", "second.git")
    target = f"file://{place}" if url else place
    cli("backup", target)
    cli("note", "live", "more")
    cli("backup", target)
    assert refs(place) == refs(cli.gitdir)
    cli("restore", target, tmp_path / "new", "--no-view")
    assert refs(tmp_path / "new/.git") == refs(cli.gitdir)
    assert not (tmp_path / "new/flows").exists()


def test_a_copy_with_another_history_is_left_alone(cli, tmp_path):
    git(tmp_path, "init", "--quiet", "--bare", "second.git")
    cli("backup", tmp_path / "second.git")
    theirs = imported(tmp_path / "second.git", text=b"theirs\n")
    cli("note", "live", "ours")
    error = cli.refuses(4, "backup", tmp_path / "second.git")
    assert error["details"]["refs"] == ["refs/heads/main"]
    assert refs(tmp_path / "second.git")["refs/heads/main"] == theirs


def test_what_is_there_is_never_written_over(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")
    kept = (tmp_path / "copy.bundle").read_bytes()
    assert "there already" in cli.refuses(3, "backup", tmp_path / "copy.bundle")["message"]
    assert (tmp_path / "copy.bundle").read_bytes() == kept
    cli("note", "live", "of which the copy knows nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for folder in (tmp_path / "full", cli.folder):
        assert "not empty" in cli.refuses(3, "restore", tmp_path / "copy.bundle", folder)["message"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_damaged_bundle_leaves_nothing_behind(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")
    data = bytearray((tmp_path / "copy.bundle").read_bytes())
    data[-40] ^= 1
    (tmp_path / "torn.bundle").write_bytes(data)
    cli.refuses(6, "restore", tmp_path / "torn.bundle", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "words").write_text("no bundle")
    cli.refuses(5, "restore", tmp_path / "words", tmp_path / "new")
    cli.refuses(5, "restore", tmp_path / "nothing", tmp_path / "new")


def test_a_bundle_of_other_refs_is_no_copy(cli, tmp_path):
    cli.git("bundle", "create", "--quiet", tmp_path / "part.bundle", CURSOR)
    assert (
        "no main"
        in cli.refuses(5, "restore", tmp_path / "part.bundle", tmp_path / "new")["message"]
    )


def test_what_cannot_be_read_is_not_called_a_backup(cli, tmp_path):
    blob = cli.git(
        "rev-parse", "main~2:" + cli.git("ls-tree", "-r", "--name-only", "main~2", "flows")
    )
    path = cli.gitdir / "objects" / blob[:2] / blob[2:]
    kept = path.read_bytes()
    overwrite(path, b"")
    cli.refuses(6, "backup", tmp_path / "copy.bundle")
    assert {found.name for found in tmp_path.iterdir()} == {"work"}
    overwrite(path, kept)


def test_a_commit_that_does_not_replay_is_told_and_no_reason_to_refuse(cli, tmp_path):
    text = cli.message("main").encode()
    imported(cli.gitdir, put("flows/00/x.json", {"a": "b"}), text=text + b"\n")
    cli("backup", tmp_path / "copy.bundle")
    done = cli.run("restore", tmp_path / "copy.bundle", tmp_path / "new")
    assert done.code == 0
    assert f"commit {cli.git('rev-parse', 'main')[:12]}" in done.err
    cli.git("update-ref", "refs/heads/main", "main~1")


@pytest.mark.req("R-TF-11")
@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("empty", 5, "empty/flows.bundle"),
        ("empty/", 5, "empty/flows.bundle"),
        ("nowhere/", 5, "folder that is there"),
        ("nowhere/copy.bundle", 5, "make it"),
        ("words/copy.bundle", 5, "make it"),
        ("n" * 300, 2, "shorter"),
        ("nohost.invalid:copy.bundle", 75, "; a file of that name is ./nohost.invalid:copy.bundle"),
    ],
)
def test_a_place_where_no_copy_can_be_is_named_with_what_can(cli, tmp_path, target, code, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").write_text("no folder")
    names = {path.name for path in tmp_path.iterdir()}
    done = cli.run("backup", target, "--json", cwd=tmp_path, env={"GFS_SSH_COMMAND": "false"})
    assert done.code == code, done
    assert said in done.error["hint"], done.error
    assert "exists." not in done.error["message"]
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.req("R-TF-11")
@pytest.mark.parametrize("words", [("n" * 300, "new"), ("copy", "n" * 300)])
def test_a_name_that_is_too_long_is_one(cli, tmp_path, words):
    cli("backup", tmp_path / "copy")
    done = cli.run("restore", *words, "--json", cwd=tmp_path)
    assert (done.code, "shorter" in done.error["hint"]) == (2, True), done


@pytest.mark.req("F9")
@pytest.mark.parametrize("place", ["ext::sh -c 'touch ran'", "--upload-pack=touch ran", "fd::3"])
def test_no_argument_runs_anything(cli, tmp_path, place):
    for words in (("backup", "--", place), ("restore", "--", place, "new")):
        done = cli.run(*words, cwd=tmp_path)
        assert done.code == 2, done
    assert {path.name for path in tmp_path.iterdir()} == {"work"}


@pytest.mark.req("G4", "G5", "L7", "L9")
def test_nothing_of_the_repository_is_run_and_no_variable_of_git_counts(cli, tmp_path):
    canary = tmp_path / "ran"
    for name in ("pre-push", "reference-transaction", "post-checkout"):
        hook = cli.gitdir / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\nexit 1\n")
        hook.chmod(0o755)
    cli.git("config", "core.fsmonitor", f"touch {canary}")
    git(tmp_path, "init", "--quiet", "--bare", "second.git")
    other = clirun.made(tmp_path / "other")
    kept = other.state()
    env = {"GIT_DIR": str(other.gitdir), "GIT_OBJECT_DIRECTORY": str(other.gitdir / "objects")}
    cli("backup", tmp_path / "copy.bundle", env=env)
    cli("backup", tmp_path / "second.git", env=env)
    cli("restore", tmp_path / "copy.bundle", tmp_path / "new", env=env)
    assert refs(tmp_path / "new/.git") == refs(cli.gitdir)
    assert other.state() == kept
    assert not canary.exists()


def test_without_git_nothing_is_done(cli, tmp_path):
    for words in (("backup", tmp_path / "b"), ("restore", tmp_path / "b", tmp_path / "new")):
        error = cli.refuses(1, *words, env={"PATH": str(tmp_path)})
        assert error["message"] == "git is not installed: nothing was done"
    assert {path.name for path in tmp_path.iterdir()} <= {"work", "new"}


def test_a_clone_is_no_source_of_a_backup(cli, tmp_path):
    git(tmp_path, "clone", "-q", cli.gitdir, tmp_path / "clone")
    error = cli.run("backup", tmp_path / "b", "--repo", tmp_path / "clone")
    assert (error.code, (tmp_path / "b").exists()) == (3, False)
    git(tmp_path, "clone", "-q", "--mirror", f"file://{cli.gitdir}", tmp_path / "bare.git")
    assert cli.run("backup", tmp_path / "b", "--repo", tmp_path / "bare.git").code == 0
    git(tmp_path, "clone", "-q", "--bare", "--depth=1", f"file://{cli.gitdir}", "cut.git")
    assert cli.run("backup", tmp_path / "c", "--repo", tmp_path / "cut.git").code == 3


def test_a_backup_beside_writers_holds_what_was_acknowledged_before(cli, tmp_path):
    pid = child(lambda: [clirun.here("note", "live", str(n), env={"GFS_REPO": str(cli.folder)})
                         for n in range(30)])  # fmt: skip
    for number in range(3):
        before = cli.git("rev-parse", "main")
        told = cli.json("backup", tmp_path / f"{number}.bundle")
        git(cli.gitdir, "merge-base", "--is-ancestor", before, told["head"])
        git(cli.gitdir, "merge-base", "--is-ancestor", told["head"], "main")
    assert code_of(pid) == 0


@pytest.mark.parametrize("often", [1, 9])
@pytest.mark.parametrize("refs", [(), (CURSOR,)])
def test_a_ref_that_moves_while_the_bundle_is_written_is_not_left_out(cli, tmp_path, often, refs):
    for ref in {CURSOR, RESCUED} - {*refs}:
        cli.git("update-ref", "-d", ref)
    at = cli.git("rev-parse", "main")
    # As Git does where main has moved on: it leaves main out.
    script = f"""case " $* " in *" bundle create "*)
        if [ "$(wc -c < {tmp_path}/count 2>/dev/null || echo 0)" -lt {often} ]; then
            printf x >> {tmp_path}/count
            for last; do :; done
            set -- "$@" ^{at}
        fi;;
    esac
    exec $REAL "$@\""""
    done = cli.run("backup", tmp_path / "copy.bundle", "--json", env=in_front(tmp_path, script))
    if often > 4:
        assert (done.code, (tmp_path / "copy.bundle").exists()) == (75, False), done
        assert "moved" in done.error["message"]
    else:
        assert (done.code, done.data["head"]) == (0, at), done
        cli("restore", tmp_path / "copy.bundle", tmp_path / "new")


@pytest.mark.req("A1")
def test_killed_before_it_is_in_place_a_restore_leaves_no_repository(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")

    def work():
        def die(*_):
            os.kill(os.getpid(), 9)

        calls.rename = die
        clirun.here("restore", tmp_path / "copy.bundle", tmp_path / "new")

    assert code_of(child(work)) == -9
    assert not (tmp_path / "new/.git").exists()
    # What is left aside is in nobody's way.
    cli("restore", tmp_path / "copy.bundle", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").glob(".gfs-*")] == []
    same(cli, tmp_path / "new")


@pytest.mark.req("A1", "A8", "R-TF-11")
@pytest.mark.parametrize("way", ["killed", "interrupted"])
@pytest.mark.parametrize("url", [False, True])
def test_interrupted_once_it_is_in_place_a_restore_is_finished_by_the_next(cli, tmp_path, way, url):
    git(tmp_path, "init", "-q", "--bare", "second.git")
    copy = f"file://{tmp_path}/second.git" if url else tmp_path / "copy.bundle"
    cli("backup", copy)

    def work():
        real = calls.rename

        def die(one, other):
            real(one, other)
            if str(other).endswith("/.git"):
                os.kill(os.getpid(), signal.SIGKILL if way == "killed" else signal.SIGINT)

        calls.rename = die
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os._exit(clirun.here("restore", copy, tmp_path / "new").code)

    assert code_of(child(work)) == (-9 if way == "killed" else 130)
    assert not (tmp_path / "new/flows").exists()
    done = cli.json("restore", copy, tmp_path / "new")
    assert (done["made"], done["head"]) == (False, cli.head)
    assert "already there" in cli("restore", copy, tmp_path / "new")
    same(cli, tmp_path / "new")
    assert "not empty" in cli.refuses(3, "restore", copy, tmp_path / "new")["message"]


@pytest.mark.req("R-TF-11")
def test_a_restore_that_fails_leaves_no_folder_that_it_made(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")
    data = (tmp_path / "copy.bundle").read_bytes()
    (tmp_path / "torn.bundle").write_bytes(data[:-30])
    (tmp_path / "mine").mkdir()
    for folder in ("new", "deep/er/new", "mine", "mine/new"):
        cli.refuses(6, "restore", tmp_path / "torn.bundle", tmp_path / folder)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"work", "copy.bundle", "torn.bundle", "mine"}
    assert [*(tmp_path / "mine").iterdir()] == []


@pytest.mark.req("R-TF-11")
def test_who_waits_for_a_restore_that_fails_is_told_to_try_again(cli, tmp_path):
    cli("backup", tmp_path / "copy.bundle")
    waited = []

    def act(_number, name, real, arguments):
        if name == "flock" and not waited:  # who had the lock has failed, and took the folder along
            waited.append((tmp_path / "new").rmdir())
        return real(*arguments)

    with intercepted(act):
        done = cli.run("restore", tmp_path / "copy.bundle", tmp_path / "new", "--json")
    assert (waited, done.code) == ([None], 75), done
    assert "same command" in done.error["hint"]
    cli("restore", tmp_path / "copy.bundle", tmp_path / "new")


@pytest.mark.req("R-TF-11")
@pytest.mark.parametrize("kind", ["bundle", "folder", ".git"])
def test_a_copy_of_a_clone_stands_alone_and_says_how_it_joins_again(tmp_path, kind):
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "team.git")
    shared = clirun.made(tmp_path / "one", "--remote", tmp_path / "team.git")
    shared("create", "Shared", "--id", "live", "--next", "Read")
    copy = shared.gitdir if kind == ".git" else shared.folder
    if kind == "bundle":
        copy = tmp_path / "copy.bundle"
        shared("backup", copy)
    done = clirun.here("restore", copy, tmp_path / "new")
    url = "URL" if kind == "bundle" else tmp_path / "team.git"
    assert "it stands alone; " in done.out
    assert f": gfs init {tmp_path}/new --remote {url}\n" in done.out
    shared("note", "live", "meanwhile")
    again = clirun.Cli(tmp_path / "new")
    again("note", "live", "alone")
    assert again.json("where").get("remote") is None
    assert clirun.here("init", tmp_path / "new", "--remote", tmp_path / "team.git").code == 0
    assert [note["text"] for note in again.flow("live")["notes"]] == ["meanwhile", "alone"]
    shared("sync")
    assert shared.flow("live") == again.flow("live")


# ── what a killed one leaves ────────────────────────────────────────────────────────────────────


def killed_in(cli, tmp_path, step):
    """Run a backup that is killed when it starts `git bundle STEP`."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    script = f'case " $* " in *" bundle {step} "*) kill -9 $PPID; exit 1;; esac'
    (folder / "git").write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    (tmp_path / "copies").mkdir(exist_ok=True)
    assert cli.process("backup", tmp_path / "copies" / f"{step}.bundle", env=env).code == -9
    (left,) = (tmp_path / "copies").glob(".gfs-*")
    return left


@pytest.mark.req("A2")
@pytest.mark.parametrize("step", ["create", "verify"])
def test_what_a_killed_one_left_is_cleared_away_by_the_next(cli, tmp_path, step):
    left = killed_in(cli, tmp_path, step)
    copies = left.parent
    assert [*copies.iterdir()] == [left]
    cli("backup", copies / "early.bundle")
    assert left.exists()  # it may be that of a living one
    os.utime(left, (1_700_000_000,) * 2)
    cli("backup", copies / "next.bundle")
    assert {path.name for path in copies.iterdir()} == {"early.bundle", "next.bundle"}


@pytest.mark.req("A2")
def test_what_a_living_one_needs_and_what_is_somebodys_own_stays(cli, tmp_path):
    held, full, file, link = (tmp_path / f".gfs-check-{digit * 16}" for digit in "abcd")
    for path in (held, full, tmp_path / "dir"):
        path.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")
    link.symlink_to(tmp_path / "dir")
    for path in (held, full, file, tmp_path / "dir"):
        os.utime(path, (1_700_000_000,) * 2)
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    cli("backup", tmp_path / "copy.bundle")
    assert all(path.exists() for path in (held, full / "mine.txt", file, link))
    os.close(descriptor)
    cli("backup", tmp_path / "again.bundle")
    assert not held.exists()
