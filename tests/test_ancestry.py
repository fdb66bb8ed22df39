"""To be an ancestor is not to be kept: merges, made by C git, that keep or drop what main had."""

from __future__ import annotations

import pytest
from flowrepo import AT, Change, Lab, imported, put
from gitrepo import MAIN, git

from gitflowstate.ancestry import standing, taken_back
from gitflowstate.errors import Corrupt
from gitflowstate.git import Repository
from gitflowstate.model import flow_path, key_path
from gitflowstate.processops import RunIntend, RunLose

SIDE = "refs/heads/side"
KEY = {"key": "a" * 64, "request": "b" * 64}


@pytest.fixture
def lab(tmp_path):
    """Return a repository with two flows at r1."""
    found = Lab(tmp_path / "work")
    found.create("f-1")
    found.create("f-2")
    yield found
    found.repo.close()


def merged(lab, one, other, like=None):
    """Merge one commit and another; the tree is that of `like`, else of the first parent."""
    tree = git(lab.gitdir, "rev-parse", f"{like or one}^{{tree}}")
    return git(lab.gitdir, "commit-tree", tree, "-p", one, "-p", other, "-m", "Merge")


def side(lab, start, *changes):
    """Return a commit of a person's, beside main."""
    return imported(lab.gitdir, *changes, ref=SIDE, parents=(start,))


README = Change("README.md", b"ours\n")


@pytest.mark.req("D3", "D5")
@pytest.mark.parametrize("first", [True, False], ids=["ours-second", "ours-first"])
def test_a_merge_that_took_the_other_side_alone_keeps_nothing(lab, first):
    start = lab.head
    theirs = side(lab, start, README)
    lost = (lab.update("one").commit, lab.done("f-2").commit)
    parents = (theirs, lab.head) if first else (lab.head, theirs)
    merge = merged(lab, *parents, like=theirs)
    assert taken_back(lab.repo, lab.head, merge) == lost
    assert standing(lab.repo, lab.head, merge).queued == lost
    git(lab.gitdir, "update-ref", MAIN, merge)
    with pytest.raises(Corrupt, match=r"takes back what main had .* 2 commits") as refused:
        lab.verify(since=lost[1])
    assert refused.value.details["lost"] == [*lost]
    assert "git pull --rebase" in refused.value.hint
    assert lab.verify(since=start).commits == 2


@pytest.mark.req("D5")
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_merge_of_what_people_wrote_keeps_what_gfs_wrote(lab, ours_first):
    theirs = side(lab, lab.head, README)
    lab.update("meanwhile")
    parents = (lab.head, theirs) if ours_first else (theirs, lab.head)
    merge = merged(lab, *parents, like=lab.head)
    assert taken_back(lab.repo, lab.head, merge) == ()
    assert standing(lab.repo, lab.head, merge).queued == ()
    since = lab.head
    git(lab.gitdir, "update-ref", MAIN, merge)
    assert lab.verify(since=since).commits == 1


@pytest.mark.req("D5")
def test_where_nobody_changed_a_flow_nothing_is_taken_back(lab):
    """Two people edit what is theirs, and one of them merges: the line is either of the two."""
    start = lab.head
    theirs = side(lab, start, README)
    ours = lab.by_hand(Change("gfs.toml", b"# settings\n"))
    merge = merged(lab, theirs, ours)
    assert taken_back(lab.repo, ours, merge) == ()
    git(lab.gitdir, "update-ref", MAIN, merge)
    report = lab.verify(since=ours)
    assert (report.commits, report.unmanaged, report.problems) == (2, [], [])


@pytest.mark.req("D3")
def test_what_was_rewritten_or_never_met_is_taken_back(lab):
    start = lab.head
    one = lab.update("one").commit
    assert taken_back(lab.repo, one, start) == (one,)
    git(lab.gitdir, "update-ref", MAIN, start)
    with pytest.raises(Corrupt, match="1 commit that"):
        lab.verify(since=one)
    other = imported(lab.gitdir, README, ref="refs/heads/other", parents=())
    assert taken_back(lab.repo, one, other)[-1] == one


def test_what_is_there_again_under_another_commit_is_kept(lab):
    start = lab.head
    was = lab.update("again").commit
    git(lab.gitdir, "update-ref", MAIN, side(lab, start, README))
    again = lab.update("again").commit
    merge = merged(lab, again, was)
    assert taken_back(lab.repo, was, merge) == ()
    assert standing(lab.repo, was, merge).queued == ()


@pytest.mark.req("D5")
@pytest.mark.parametrize("how", ["merged", "swallowed", "beside"])
def test_a_higher_revision_counts_only_where_both_sides_were_merged(lab, how):
    """Five revisions of another history are no successor of two that were acknowledged."""
    start = lab.head
    was = lab.update("acknowledged").commit
    git(lab.gitdir, "update-ref", MAIN, start)
    for number in range(5):
        lab.update(f"elsewhere {number}")
    if how == "swallowed":
        merge = merged(lab, lab.head, was)
    else:
        other = was if how == "merged" else side(lab, start, README)
        parents, both = (lab.head, other), lab.edited(revision=9, goal="both")
        merge = imported(lab.gitdir, both, ref=SIDE, parents=parents)
    assert taken_back(lab.repo, was, merge) == (() if how == "merged" else (was,))


@pytest.mark.req("D5")
@pytest.mark.parametrize("drops", ["nothing", "flow", "archive", "key", "other"])
def test_a_merge_by_hand_keeps_what_it_lets_stand(lab, drops):
    start = lab.head
    theirs = side(lab, start, lab.edited("f-1", revision=2, progress="by hand"))
    keyed = lab.update("keyed", "f-2", **KEY).commit
    ended = lab.done("f-2").commit
    stale = lab.shown(flow_path("f-2"), start) + b" "
    was, document = lab.head, lab.document("f-2")
    archived = flow_path("f-2").replace("flows", "archive")
    receipt = Change(key_path("a" * 64), lab.shown(key_path("a" * 64)))
    ends = [Change(flow_path("f-2"), None), put(archived, document)]
    changes = {
        "nothing": [*ends, receipt],
        "flow": [receipt, Change(flow_path("f-2"), stale)],
        "archive": [Change(flow_path("f-2"), None), receipt],
        "key": ends,
        "other": [*ends, receipt, lab.edited("f-1", revision=1, progress="back")],
    }[drops]
    merge = imported(lab.gitdir, *changes, ref=SIDE, parents=(theirs, was))
    lost = taken_back(lab.repo, was, merge)
    # What nobody here had changed is for the judgement of hand-made commits alone.
    assert lost == {"key": (keyed,), "nothing": (), "other": ()}.get(drops, (keyed, ended))
    assert standing(lab.repo, was, merge).queued == lost


def test_a_hole_behind_what_was_is_no_obstacle(lab):
    start = lab.head
    lab.update("one")
    since = lab.update("two").commit
    for number in range(3):
        lab.note(str(number))
    (lab.gitdir / "objects" / start[:2] / start[2:]).unlink()
    lab.repo.close()
    report = lab.verify(since=since)
    assert (report.commits, report.problems) == (3, [])


@pytest.mark.req("D5")
def test_what_changed_again_before_it_was_merged_by_hand_is_kept(lab):
    """A process that had only begun stands in no merge: what counts is what was merged in."""
    theirs = side(lab, lab.head, lab.edited("f-1", revision=2, progress="by hand"))
    run = {"by": "alice", "session_id": "s-1", "process": "p-1"}
    began = RunIntend(
        at=AT, **run, argv=("make",), cwd="/", host="h-1", boot_id="b-1", call_id="c-1"
    )
    was = lab.store.commit(began).commit
    lab.store.commit(RunLose(at=AT, **run, reason="gone"))
    (path,) = git(lab.gitdir, "ls-tree", "-r", "--name-only", MAIN, "processes").split()
    merge = imported(
        lab.gitdir, Change(path, lab.shown(path)), ref=SIDE, parents=(theirs, lab.head)
    )
    assert taken_back(lab.repo, was, merge) == taken_back(lab.repo, lab.head, merge) == ()
    assert standing(lab.repo, was, merge).queued == ()
    stale = imported(
        lab.gitdir, Change(path, lab.shown(path, was)), ref=SIDE, parents=(theirs, lab.head)
    )
    assert taken_back(lab.repo, lab.head, stale) == (was, lab.head)


@pytest.mark.req("D3", "D5")
def test_of_a_merge_that_takes_one_flow_back_that_flow_is_lost(lab):
    theirs = side(lab, lab.head, lab.edited("f-1", revision=2, progress="by hand"))
    lab.create("f-3")
    lost = lab.update("lost", "f-2").commit
    lab.note("kept", "f-3")
    third = put(flow_path("f-3"), lab.document("f-3"))
    merge = imported(lab.gitdir, third, ref=SIDE, parents=(theirs, lab.head))
    assert taken_back(lab.repo, lab.head, merge) == (lost,)
    assert standing(lab.repo, lab.head, merge).queued == (lost,)


@pytest.mark.req("D5")
def test_a_merge_by_hand_that_was_merged_by_hand_has_what_it_had(lab):
    start = lab.head
    one = side(lab, start, lab.edited("f-1", revision=2, progress="one"))
    two = side(lab, start, lab.edited("f-1", revision=3, progress="two"))
    was = lab.update("kept", "f-2").commit
    second = put(flow_path("f-2"), lab.document("f-2"))
    inner = imported(lab.gitdir, second, ref=SIDE, parents=(one, was))
    git(lab.gitdir, "update-ref", MAIN, inner)
    lab.note("later", "f-2")
    later = put(flow_path("f-2"), lab.document("f-2"))
    outer = imported(lab.gitdir, later, ref=SIDE, parents=(two, lab.head))
    assert taken_back(lab.repo, was, outer) == taken_back(lab.repo, lab.head, outer) == ()
    back = imported(lab.gitdir, second, ref=SIDE, parents=(two, lab.head))
    assert taken_back(lab.repo, was, back) == ()  # it stands as it was then
    assert taken_back(lab.repo, lab.head, back) == (inner, lab.head)


def test_of_two_that_are_alike_one_is_there_again(lab):
    """Two notes of one second, and one of them was published under another commit."""
    start = lab.head
    theirs = side(lab, start, lab.edited("f-2", revision=2, progress="by hand"))
    first = lab.note("same").commit
    again = lab.note("same").commit
    git(lab.gitdir, "update-ref", MAIN, theirs)
    lab.note("same")
    merge = imported(lab.gitdir, README, ref=SIDE, parents=(lab.head, again))
    assert taken_back(lab.repo, again, merge) == (again,)
    assert standing(lab.repo, again, merge).queued == (first, again)


def test_what_a_merge_brought_in_is_not_looked_for_commit_by_commit(lab):
    """Of twice as many commits, some more than twice as many are read."""
    theirs = side(lab, lab.head, lab.edited("f-1", revision=2, progress="by hand"))
    reads = []
    for _ in range(2):
        for number in range(20):
            lab.note(str(number), "f-2")
        second = put(flow_path("f-2"), lab.document("f-2"))
        merge = imported(lab.gitdir, second, ref=SIDE, parents=(theirs, lab.head))
        with Counted.open(lab.gitdir) as repo:
            assert standing(repo, lab.head, merge).queued == ()
            reads.append(repo.reads)
    assert reads[1] < 3 * reads[0]


class Counted(Repository):
    """A repository that counts the commits that are read."""

    reads = 0

    def commit(self, oid):
        self.reads += 1
        return super().commit(oid)
