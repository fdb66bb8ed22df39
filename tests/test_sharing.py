"""A cursor in a clone: kept at the origin, moved by compare-and-swap, nothing else touched."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from clirun import Cli, here
from flowrepo import Change, Lab, imported
from gitrepo import MAIN, become_nobody, child, code_of, git, let_others_in
from watchbench import Postbox

from gitflowstate.adapters.remote import GitRemote
from gitflowstate.cli import places, watch
from gitflowstate.cli.session import Session
from gitflowstate.cursorstore import verify
from gitflowstate.delivery import Unknown
from gitflowstate.errors import Denied, Stale, Unavailable
from gitflowstate.git import Repository
from gitflowstate.sharing import SharedRefs
from gitflowstate.watchops import Begin

NAME = "team"
REF = f"refs/gfs/cursors/{NAME}"
TOML = b'[channels.team]\nkind = "console"\nmin_interval = 0\n'


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path / "flows")
    imported(made.gitdir, Change("gfs.toml", TOML), text=b"settings\n")
    made.create()
    yield made
    made.repo.close()


def outside(folder):
    """Return every file of a clone but its objects."""
    found = [path for path in folder.rglob("*") if path.is_file() and "objects" not in path.parts]
    return {str(path): path.read_bytes() for path in found}


def watched(clone, *options):
    result = here("watch", NAME, "--once", "--repo", clone, "--json", *options)
    assert (result.code, "warning" in result.err) == (0, False), result
    return [(each["flow"], each["kind"]) for each in result.data["sent"]]


@pytest.mark.req("R-TF-48")
@pytest.mark.parametrize("options", [(), ("--bare",), ("--depth=1",), ("--mirror",)])
def test_a_clone_watches_and_only_its_objects_are_written(lab, options):
    clone = lab.clone("clone", *options)
    before = outside(clone)
    refs = git(clone, "for-each-ref")
    lab.create("f-2")
    main = lab.head
    assert watched(clone) == [("f-1", "status"), ("f-2", "status")]
    assert watched(clone) == []
    lab.done("f-2")
    assert watched(clone) == [("f-2", "final"), ("f-2", "status")]
    changed = {name for name, data in outside(clone).items() if before.get(name) != data}
    assert changed <= {str(clone / ".git/shallow")}
    assert bool(changed) <= ("--depth=1" in options)
    assert git(clone, "for-each-ref") == refs
    told = git(lab.gitdir, "for-each-ref", "--format=%(refname)")
    assert told == f"{REF}\n{MAIN}"
    assert git(lab.gitdir, "rev-parse", f"{MAIN}~1") == main
    with Repository.open(lab.gitdir) as repo:
        assert verify(repo, repo.ref(REF), NAME).problems == []
    assert lab.verify().problems == []


@pytest.mark.req("R-TF-46", "L14")
def test_two_clones_take_turns_and_repeat_nothing(lab):
    one, two = lab.clone("one"), lab.clone("two", "--depth=1")
    assert watched(one) == [("f-1", "status")]
    assert watched(two) == []
    lab.update("on")
    assert watched(two) == [("f-1", "status")]
    assert watched(one) == []
    lab.done()
    assert watched(one) == [("f-1", "final"), ("f-1", "status")]
    assert watched(two) == []


@pytest.mark.req("L14")
def test_two_clones_at_once_send_one_message(lab, tmp_path):
    """Each in a process of its own, over a channel that both reach."""
    clones = [lab.clone(f"c{number}") for number in range(2)]
    box = Postbox(tmp_path / "box")

    def go(clone):
        with Session(verb="watch", repo=str(clone)) as session, places.opened(session, NAME) as at:
            watcher = watch._watcher(session, at, NAME, backfill=False)
            watcher.channel = lambda _: box
            watcher.run()

    for round_ in range(3):
        lab.create(f"g-{round_}")
        codes = [code_of(pid) for pid in [child(lambda c=c: go(c)) for c in clones]]
        assert codes == [0, 0]
        assert box.kinds(f"g-{round_}") == [("status", 1)]


def test_a_preview_in_a_clone_writes_nothing_at_all(lab, tmp_path):
    clone = lab.clone()
    watched(clone)
    lab.update("on")
    before = {str(path): path.read_bytes() for path in clone.rglob("*") if path.is_file()}
    told = git(lab.gitdir, "for-each-ref")
    result = here("watch", NAME, "--dry-run", "--repo", clone, "--json")
    assert [each["revision"] for each in result.data["planned"]] == [2]
    assert here("channel", "list", "--repo", clone).code == 0
    after = {str(path): path.read_bytes() for path in clone.rglob("*") if path.is_file()}
    assert after == before
    assert git(lab.gitdir, "for-each-ref") == told


def test_a_list_of_many_channels_asks_the_origin_once_for_all(lab, tmp_path):
    more = "".join(f'[channels.c{number}]\nkind = "console"\n' for number in range(20))
    imported(lab.gitdir, Change("gfs.toml", TOML + more.encode()), text=b"settings\n")
    clone = lab.clone()
    watched(clone)
    log = tmp_path / "log"
    git_of_ours = tmp_path / "bin" / "git"
    git_of_ours.parent.mkdir()
    git_of_ours.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("git")} "$@"\n')
    git_of_ours.chmod(0o755)
    path = f"{git_of_ours.parent}:{os.environ['PATH']}"
    told = here("channel", "list", "--repo", clone, "--json", env={"PATH": path})
    assert [each["begun"] for each in told.data["channels"]].count(True) == 1
    assert len(told.data["channels"]) == 22
    asked = [line for line in log.read_text().splitlines() if "ls-remote" in line]
    assert len(asked) == 3  # for main before it is fetched and then, and for all cursors


@pytest.mark.req("R-TF-48")
def test_a_clone_that_may_not_be_written_is_watched_all_the_same(lab, tmp_path):
    """By a user who owns the origin, and may only read the clone."""
    if os.geteuid() != 0:
        pytest.skip("only root can be refused by becoming somebody else")
    clone = lab.clone()
    assert watched(lab.clone("warm")) == [("f-1", "status")]  # what is imported by root is there
    lab.create("f-2")
    for folder in (lab.folder, tmp_path / "home", tmp_path / "tmp"):
        folder.mkdir(exist_ok=True)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
    let_others_in(clone / ".git")
    for path in (clone, *clone.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = outside(clone)

    def work():
        become_nobody()
        tempfile.tempdir = str(tmp_path / "tmp")
        os.environ |= {"HOME": str(tmp_path / "home"), "GFS_TRUST": f"{clone}:{clone}/.git"}
        assert not os.access(clone / ".git/objects", os.W_OK)
        assert watched(clone) == [("f-2", "status")]
        assert watched(clone) == []

    assert code_of(child(work)) == 0
    assert outside(clone) == before
    assert list((tmp_path / "tmp").iterdir()) == []
    assert git(lab.gitdir, "-c", "safe.directory=*", "for-each-ref", REF)


def test_an_origin_out_of_reach_sends_nothing(lab):
    clone = lab.clone()
    shutil.move(lab.folder, f"{lab.folder}-away")
    result = here("watch", NAME, "--once", "--repo", clone)
    assert result.code == 75
    assert "out of reach" in result.err
    assert "do f-1" not in result.out


def test_an_origin_that_refuses_is_said(lab):
    clone = lab.clone()
    hook = lab.gitdir / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    result = here("watch", NAME, "--once", "--repo", clone)
    assert result.code == 77
    assert "refuses to move" in result.err
    assert result.out == ""


def test_a_clone_without_an_origin_is_told_what_to_do(lab):
    clone = lab.clone()
    git(clone, "remote", "remove", "origin")
    git(clone, "update-ref", "refs/heads/other", "HEAD")
    result = here("watch", NAME, "--once", "--repo", clone)
    assert result.code == 5
    assert "origin" in result.err


# ── the swap ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shared(lab):
    """The cursor store of a clone, and its refs."""
    clone = lab.clone()
    with Repository.open(clone) as repo:
        remote = GitRemote(clone / ".git", f"file://{lab.gitdir}", dict(os.environ))
        yield places.Place(repo, lab.head, SharedRefs(repo, remote))


def begin(channel=NAME, **fields):
    return Begin(at="2026-09-06T10:00:00Z", by="w", channel=channel, **fields)


def moved(lab, shared, monkeypatch, *, answer):
    """Let the first push be answered as `answer` says."""
    real = shared.refs.remote.push
    calls = []

    def push(name, old, new):
        calls.append(new)
        return answer(lambda: real(name, old, new)) if len(calls) == 1 else real(name, old, new)

    monkeypatch.setattr(shared.refs.remote, "push", push)
    return calls


def test_a_push_whose_answer_was_lost_is_looked_at(lab, shared, monkeypatch):
    def lost(go):
        go()
        raise Unknown("no answer")

    calls = moved(lab, shared, monkeypatch, answer=lost)
    shared.cursors(NAME).commit(begin())
    assert len(calls) == 1
    assert git(lab.gitdir, "rev-parse", REF) == calls[0]


def test_an_answer_that_is_a_lie_is_not_believed(lab, shared, monkeypatch):
    moved(lab, shared, monkeypatch, answer=lambda _: None)
    with pytest.raises(Unavailable):
        shared.cursors(NAME).commit(begin())


def test_a_race_that_was_lost_is_applied_again(lab, shared, monkeypatch):
    other = lab.clone("other")
    store = shared.cursors(NAME)
    store.commit(begin())

    def overtaken(go):
        result = here("watch", NAME, "--once", "--repo", other)
        assert result.code == 0
        return go()

    calls = moved(lab, shared, monkeypatch, answer=overtaken)
    store.commit(begin(anew=True))
    assert len(calls) == 2
    assert store.load().generation == 1
    with Repository.open(lab.gitdir) as repo:
        report = verify(repo, repo.ref(REF), NAME)
        assert report.problems == []
        assert report.commits > 3


def test_a_commit_that_was_built_upon_at_once_counts_as_moved(lab, shared, monkeypatch):
    other = lab.clone("other")

    def built_upon(go):
        told = go()
        assert here("watch", NAME, "--once", "--repo", other).code == 0
        return told

    calls = moved(lab, shared, monkeypatch, answer=built_upon)
    shared.cursors(NAME).commit(begin())
    assert len(calls) == 1


def test_a_refusal_of_the_origin_is_no_race(lab, shared, monkeypatch):
    calls = moved(lab, shared, monkeypatch, answer=lambda _: "pre-receive hook declined")
    with pytest.raises(Denied, match="declined"):
        shared.cursors(NAME).commit(begin())
    assert len(calls) == 1


def test_a_hold_of_another_machine_stands(lab, shared):
    with pytest.raises(Stale):
        shared.cursors(NAME).commit(begin(chunks=3))
    assert shared.skew_s == 900
    assert Cli(lab.folder).run("channel", "list").code == 0


def test_a_ref_that_moves_between_the_look_and_the_fetch_is_looked_at_again(lab, tmp_path):
    """Where only the newest commit is fetched, the one that was seen first never comes."""
    first, *_, last = (
        imported(lab.gitdir, text=text, ref=REF, parents=(f"{REF}^0",) if number else ())
        for number, text in enumerate((b"a", b"b", b"c"))
    )
    with Repository.init(tmp_path / "scratch") as repo:
        remote = GitRemote(repo.gitdir, f"file://{lab.gitdir}", dict(os.environ), cut=True)
        assert SharedRefs(repo, remote, {REF: first}).ref(REF) == last
        assert not repo.has(first)
