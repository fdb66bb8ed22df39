"""A queue is brought to the remote: one push, nothing twice, nothing lost, whatever happens."""

from __future__ import annotations

import os

import pytest
from fakes.gitservers import refuse
from flowrepo import Change, created, imported, made, put
from gitrepo import MAIN, child, code_of, git
from hostbench import (
    AT,
    Host,
    gone,
    lost,
    main_of,
    moves,
    never,
    overtaken,
    pair,
    remote,
    sound,
    subjects,
)

from gitflowstate.errors import Corrupt, Denied, NotFound, Rejected, Stale, Uncertain
from gitflowstate.model import flow_path
from gitflowstate.ops import Done, Note, Update
from gitflowstate.syncing import follow
from gitflowstate.taskops import TaskAdd, TaskClaim, TaskDone

STAMP = "20260906T120000Z"


@pytest.fixture
def bare(tmp_path):
    return remote(tmp_path)


@pytest.fixture
def two(tmp_path, bare):
    with pair(tmp_path, bare) as hosts:
        hosts[0].create()
        hosts[1].refs.ask()
        yield hosts


def queue(host, *texts, flow="f-1"):
    for text in texts:
        host.offline.commit(made(Note, flow, text=text))


def notes(host, flow="f-1"):
    return [note.text for note in host.store.flow(flow).notes]


def found_offline(host):
    """Claim a task, and record its result where nobody hears of it."""
    host.commit(TaskAdd, task="t1", goal="Read")
    until = "2026-09-06T11:00:00Z"
    host.commit(TaskClaim, task="t1", worker="w.1", until=until, skew_s=900)
    host.offline.commit(made(TaskDone, task="t1", attempt=3, result="r.md"))


def fates(done):
    return [(fate.op, fate.was, fate.now) for fate in done.fates]


# ── without a race ──────────────────────────────────────────────────────────────────────────────


def test_a_queue_is_pushed_as_it_is_where_nobody_else_wrote(bare, two):
    one, _ = two
    queue(one, "a", "b", "c")
    tip = one.head
    one.way.calls.clear()
    done = one.sync()
    assert one.way.calls.count("push") == 1
    assert done.head == tip == main_of(bare)
    assert fates(done) == [("note", 2, 2), ("note", 3, 3), ("note", 4, 4)]
    assert (done.kept, one.kept("offline"), len(moves(bare))) == (None, {}, 3)
    assert one.sync().fates == []
    sound(bare, *two)


def test_with_nothing_queued_it_brings_what_is_new(bare, two):
    one, two_ = two
    one.note("a")
    one.note("b")
    done = two_.sync()
    assert (done.fates, done.fetched, done.head) == ([], 2, one.head)
    assert two_.sync().fetched == 0


# ── with one ────────────────────────────────────────────────────────────────────────────────────


def test_each_operation_is_applied_again_where_the_remote_went_on(bare, two):
    one, two_ = two
    queue(one, "a", "b")
    tip = one.head
    two_.note("x")
    two_.create("f-2")
    one.way.calls.clear()
    done = one.sync()
    assert one.way.calls.count("push") == 1
    assert fates(done) == [("note", 2, 3), ("note", 3, 4)]
    assert notes(one) == ["x", "a", "b"]
    assert (done.kept, done.fetched) == (f"refs/gfs/offline/{STAMP}", 2)
    assert one.kept("offline") == {done.kept: tip}
    assert one.kept("rejected") == {}
    assert {fate.commit for fate in done.fates} <= {*git(bare, "rev-list", MAIN).split()}
    sound(bare, *two)


def test_what_is_refused_now_is_kept_and_the_rest_goes_through(bare, two):
    one, two_ = two
    queue(one, "a")
    one.offline.commit(made(Update, expect=2, progress="half"))
    one.offline.commit(created("f-3"))
    stale = git(one.gitdir, "rev-parse", f"{MAIN}~1")
    two_.note("x")
    done = one.sync()
    assert fates(done) == [("note", 2, 3), ("update", 3, None), ("create", 1, 1)]
    refused = done.fates[1]
    assert isinstance(refused.refused, Stale)
    assert one.kept("rejected") == {refused.kept: stale}
    assert refused.kept == f"refs/gfs/rejected/{STAMP}/2"
    assert not one.store.flow("f-1").progress
    sound(bare, *two)


def test_a_flow_that_ended_meanwhile_takes_nothing_more(bare, two):
    one, two_ = two
    queue(one, "late", "later")
    two_.commit(Done, result="r.md")
    done = one.sync()
    assert [type(fate.refused) for fate in done.fates] == [Rejected, Rejected]
    assert done.head == two_.head == main_of(bare)
    assert len(one.kept("rejected")) == 2
    sound(bare, *two)


def test_long_texts_come_along(bare, two):
    one, two_ = two
    one.offline.commit(made(Update, progress="p" * 9000))
    two_.note("x")
    one.sync()
    assert two_.store.flow("f-1").notes[0].text == "x"
    two_.refs.ask()
    assert two_.store.flow("f-1").progress == "p" * 9000
    sound(bare, *two)


def test_a_result_found_offline_settles_the_task_while_the_claim_stands(bare, two):
    one, two_ = two
    found_offline(one)
    two_.note("x")
    assert fates(one.sync()) == [("task done", 4, 5)]
    assert one.store.flow("f-1").children[0].status == "done"
    sound(bare, *two)


def test_a_result_of_a_claim_that_another_took_over_is_refused(bare, two):
    one, two_ = two
    found_offline(one)
    late = {"at": "2026-09-06T11:20:00Z", "until": "2026-09-06T12:00:00Z", "skew_s": 900}
    two_.commit(TaskClaim, task="t1", worker="w.2", **late)
    (fate,) = one.sync().fates
    assert isinstance(fate.refused, Stale)
    assert one.store.flow("f-1").children[0].claim.worker == "w.2"
    sound(bare, *two)


def test_the_remote_moves_once_more_while_a_queue_is_pushed(bare, two):
    one, two_ = two
    queue(one, "a")
    two_.note("x")
    one.way.plan("push", overtaken(lambda: two_.note("y")))
    done = one.sync()
    assert (fates(done), done.fetched) == ([("note", 2, 4)], 2)
    assert notes(one) == ["x", "y", "a"]
    assert len(one.kept("offline")) == 1
    sound(bare, *two)


@pytest.mark.parametrize("plan", [lost, never])
@pytest.mark.parametrize("raced", [False, True])
def test_a_lost_answer_is_no_second_push_of_the_same(bare, two, plan, raced):
    one, two_ = two
    queue(one, "a", "b")
    if raced:
        two_.note("x")
    one.way.plan("push", plan)
    one.sync()
    assert notes(one) == ["x"] * raced + ["a", "b"]
    sound(bare, *two)


def test_a_remote_that_refuses_changes_nothing_here(bare, two):
    one, two_ = two
    queue(one, "a")
    two_.note("x")
    refusing = refuse(bare)
    tip = one.head
    with pytest.raises(Denied):
        one.sync()
    assert one.head == tip
    refusing.unlink()
    assert fates(one.sync()) == [("note", 2, 3)]
    sound(bare, *two)


# ── killed ──────────────────────────────────────────────────────────────────────────────────────


def dying(real):
    real()
    os._exit(9)


@pytest.mark.parametrize("raced", [False, True])
@pytest.mark.parametrize("call", ["track", "push", "refs"])
def test_killed_at_any_call_the_next_run_does_the_rest_and_nothing_twice(bare, two, call, raced):
    one, two_ = two
    queue(one, "a", "a", "b")  # two that are alike are two
    one.offline.commit(made(Update, expect=4, progress="stale after a race"))
    if raced:
        two_.note("x")
    one.way.plan(call, dying)
    assert code_of(child(one.sync)) == 9
    one.way.plans.clear()
    two_.note("after")
    done = one.sync()
    assert notes(one) == ["x"] * raced + (
        ["a", "a", "b", "after"] if call != "track" else ["after", "a", "a", "b"]
    )
    refused = [fate for fate in done.fates if fate.refused]
    assert len(refused) == len(one.kept("rejected")) == (raced or call == "track")
    sound(bare, *two)


def test_killed_before_the_swap_here_and_others_went_on(bare, two, monkeypatch):
    one, two_ = two
    queue(one, "a", "b")
    two_.note("x")
    real = one.repo.move

    def killed(ref, *given):
        if ref == MAIN:
            os._exit(9)
        return real(ref, *given)

    def act():
        one.repo.move = killed
        one.sync()

    assert code_of(child(act)) == 9
    two_.note("y")
    assert fates(one.sync()) == [("note", 2, 2), ("note", 3, 3)]
    assert notes(one) == ["x", "a", "b", "y"]
    sound(bare, *two)


def test_an_outcome_nobody_saw_is_found_by_the_next_run(bare, two):
    one, two_ = two
    queue(one, "a")
    two_.note("x")
    one.way.plan("push", lost)
    one.way.plan("refs", *[gone] * 4)
    first = one.way.plans
    one.way.track(MAIN, "refs/gfs/remote/main")
    one.way.plan("track", lambda real: real(), *[gone] * 4)
    with pytest.raises(Uncertain):
        one.sync()
    first.clear()
    assert fates(one.sync()) == [("note", 2, 2)]
    assert notes(one) == ["x", "a"]
    sound(bare, *two)


# ── by hand ─────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_by_hand_that_is_here_alone_is_pushed_where_it_can_be(bare, two):
    one, _ = two
    imported(one.gitdir, Change("README", b"x"))
    queue(one, "a")
    assert [fate.op for fate in one.sync().fates] == ["by hand", "note"]
    assert subjects(bare)[-2:] == ["by hand", "f-1 r2 note: a"]
    sound(bare, *two)


def test_one_that_lost_a_race_is_kept_and_said(bare, two):
    one, two_ = two
    by_hand = imported(one.gitdir, Change("README", b"x"))
    queue(one, "a")
    two_.note("x")
    done = one.sync()
    assert "by hand" in done.fates[0].refused.message
    assert one.kept("rejected") == {done.fates[0].kept: by_hand}
    assert notes(one) == ["x", "a"]
    sound(bare, *two)


def test_what_edits_by_hand_broke_is_observed_anew(bare, two):
    one, two_ = two
    imported(one.gitdir, put(flow_path("f-1"), {**one.document(), "goal": "changed"}))
    queue(one, "a", flow=_second(one))
    two_.note("x")
    done = one.sync()
    assert [fate.op for fate in done.fates] == ["by hand", "create", "note"]
    assert one.store.flow("f-1").goal == "do f-1"
    sound(bare, *two)


def _second(host):
    host.offline.commit(created("f-2"))
    return "f-2"


# ── history that was taken back ─────────────────────────────────────────────────────────────────


def written_by_three(tmp_path, bare):
    """Let one more host write, which knows the remote as it is now."""
    three = Host(tmp_path / "three", bare)
    three.note("of three")
    three.repo.close()


@pytest.fixture
def back(bare, two):
    """The server lost an acknowledged commit; one more is queued here."""
    one, two_ = two
    one.note("acknowledged")
    two_.refs.ask()
    queue(one, "queued")
    git(bare, "update-ref", MAIN, f"{MAIN}~1")
    return one, two_


def test_it_is_said_until_somebody_decides(back):
    one, _ = back
    for _ in range(2):
        with pytest.raises(Corrupt, match="took history back"):
            one.sync()


def test_put_back_the_remote_has_the_very_same_commits_again(bare, back):
    one, two_ = back
    tip = one.head
    done = one.sync(republish=True)
    assert done.head == tip == main_of(bare)
    two_.note("goes on")
    assert notes(two_) == ["acknowledged", "queued", "goes on"]
    one.refs.ask()
    assert one.head == main_of(bare)


def test_put_back_onto_what_others_did_meanwhile(bare, back, tmp_path):
    one, _ = back
    written_by_three(tmp_path, bare)
    one.sync(republish=True)
    assert notes(one) == ["of three", "acknowledged", "queued"]
    assert one.head == main_of(bare)


def test_followed_what_was_taken_back_stays_on_a_ref_and_the_queue_goes_through(bare, back):
    one, _ = back
    tip = one.head
    done = follow(one.repo, one.refs, at=AT, timeout=10)
    assert notes(one) == ["queued"]
    assert one.kept("offline") == {done.kept: tip}
    assert one.head == one.tracked == main_of(bare) == done.head
    one.note("on")
    assert one.sync().fates == []


@pytest.fixture
def swallowed(bare, two):
    """A person's merge has two acknowledged commits among its ancestors and keeps neither."""
    one, two_ = two
    one.create("f-2")
    one.note("acknowledged")
    two_.refs.ask()
    queue(one, "queued")
    imported(bare, Change("README", b"x"), parents=(f"{MAIN}~2", f"{MAIN}^0"))
    return one, two_


@pytest.mark.req("D3", "D5", "L12")
def test_a_merge_that_takes_back_is_said_and_followed_as_a_forced_push(bare, swallowed):
    one, two_ = swallowed
    tip, merge = one.head, main_of(bare)
    test_it_is_said_until_somebody_decides(swallowed)
    assert (one.head, one.tracked) == (tip, two_.head)
    done = follow(one.repo, one.refs, at=AT, timeout=10)
    assert notes(one) == ["queued"]
    assert one.kept("offline") == {done.kept: tip}
    assert git(bare, "rev-parse", f"{MAIN}~1") == merge
    assert not one.store.exists("f-2")
    one.note("on")
    assert one.head == one.tracked == main_of(bare)


@pytest.mark.req("D3", "D5", "L12")
def test_a_merge_that_takes_back_is_said_whoever_brought_it(bare, swallowed):
    """Another process brought it and was killed before it looked: nobody decided anything yet."""
    one, two_ = swallowed
    tip, acknowledged, merge = one.head, two_.head, main_of(bare)
    for act in (one.sync, lambda: one.note("on")):
        git(one.gitdir, "fetch", "-q", bare, f"+{MAIN}:refs/gfs/remote/main")
        with pytest.raises(Corrupt, match="took history back"):
            act()
        assert (one.head, one.tracked, main_of(bare)) == (tip, acknowledged, merge)
    follow(one.repo, one.refs, at=AT, timeout=10)
    assert notes(one) == ["queued"]


@pytest.mark.req("D3", "D5", "L12")
@pytest.mark.parametrize("behind", [False, True])
def test_a_merge_that_takes_back_is_put_right_for_everybody(bare, swallowed, behind):
    """Whoever had what is there again under other commits has nothing to decide."""
    one, two_ = swallowed
    if behind:  # it knew what the remote had, and had not moved there
        one.repo.move(MAIN, one.head, git(bare, "rev-parse", f"{MAIN}~1"), "", 0)
    one.sync(republish=True)
    assert notes(one) == ["acknowledged"] + ["queued"] * (not behind)
    assert one.store.exists("f-2")
    two_.note("goes on")
    one.refs.ask()
    assert notes(one) == notes(two_)
    assert one.head == two_.head == main_of(bare)


@pytest.mark.req("D3", "L12")
@pytest.mark.parametrize("is_queued", [False, True])
def test_a_push_that_forced_is_put_right_for_everybody(bare, back, tmp_path, is_queued):
    """One host put back what was taken; the others had all of it, and have nothing to decide."""
    one, two_ = back
    tip = two_.head
    if is_queued:
        queue(two_, "mine")
    with pytest.raises(Corrupt, match="took history back"):
        two_.refs.ask()
    written_by_three(tmp_path, bare)
    one.sync(republish=True)
    if is_queued:
        with pytest.raises(Stale):
            two_.note("goes on")
        assert fates(two_.sync()) == [("note", 2, 2), ("note", 3, 5)]
    else:
        two_.note("goes on")
        assert two_.kept("offline") == {}
    assert tip not in git(bare, "rev-list", MAIN).split()
    one.refs.ask()
    last = "mine" if is_queued else "goes on"
    assert notes(one) == notes(two_) == ["of three", "acknowledged", "queued", last]
    assert one.head == two_.head == main_of(bare)
    assert one.verify().problems == two_.verify().problems == []


@pytest.mark.req("D3", "L12")
def test_a_readme_that_was_taken_back_is_not_left_behind_in_silence(bare, two, tmp_path):
    one, two_ = two
    readme = imported(bare, Change("README", b"x"), parents=(f"{MAIN}^0",))
    one.note("acknowledged")
    two_.refs.ask()
    git(bare, "update-ref", MAIN, f"{readme}~1")
    written_by_three(tmp_path, bare)
    for host in two:
        (told,) = [fate for fate in host.sync(republish=host is one).fates if fate.refused]
        assert (told.old, host.kept("rejected")) == (readme, {told.kept: readme})
    assert notes(one) == notes(two_) == ["of three", "acknowledged"]
    assert one.head == two_.head == main_of(bare)


@pytest.mark.req("D3", "D5")
def test_of_a_merge_that_takes_one_flow_back_only_that_is_put_back(bare, two):
    """What the merge kept is not done a second time."""
    one, two_ = two
    mine = imported(bare, one.edited(revision=2, goal="by hand"), ref="refs/heads/mine")
    one.create("f-2")
    one.commit(Update, flow="f-2", progress="half")
    one.note("acknowledged")
    two_.refs.ask()
    second = put(flow_path("f-2"), one.document("f-2"))
    imported(bare, second, parents=(mine, f"{MAIN}^0"))
    with pytest.raises(Corrupt, match="does not keep"):
        one.sync()
    assert fates(one.sync(republish=True)) == [("note", 2, 3)]
    assert one.store.flow("f-2").revision == 2
    two_.note("goes on")
    one.refs.ask()
    assert notes(one) == notes(two_) == ["acknowledged", "goes on"]


@pytest.mark.parametrize("call", ["track", "push", "refs"])
def test_killed_while_following_a_call_sync_or_follow_do_the_rest(bare, back, call):
    one, _ = back
    one.way.plan(call, dying)
    code = code_of(child(lambda: follow(one.repo, one.refs, at=AT, timeout=10)))
    assert code == (0 if call == "track" else 9)
    one.way.plans.clear()
    follow(one.repo, one.refs, at="2026-09-06T12:00:01Z", timeout=10)
    assert notes(one) == ["queued"]
    assert one.head == one.tracked == main_of(bare)
    assert one.sync().fates == []


@pytest.mark.parametrize("where", [MAIN, "refs/gfs/remote/main", "refs/gfs/offline/" + STAMP])
def test_killed_while_following_the_decision_can_be_made_again(bare, back, where):
    one, _ = back
    real = one.repo.move

    def killed(ref, *given):
        if ref == where:
            os._exit(9)
        return real(ref, *given)

    def act():
        one.repo.move = killed
        follow(one.repo, one.refs, at=AT, timeout=10)

    assert code_of(child(act)) == 9
    follow(one.repo, one.refs, at="2026-09-06T12:00:01Z", timeout=10)
    assert notes(one) == ["queued"]
    assert one.head == one.tracked == main_of(bare)


def test_a_main_that_is_gone_is_put_back_and_cannot_be_followed(bare, back):
    one, _ = back
    git(bare, "update-ref", "-d", MAIN)
    with pytest.raises(NotFound, match="nothing to go on with"):
        follow(one.repo, one.refs, at=AT, timeout=10)
    done = one.sync(republish=True)
    assert (fates(done), done.fetched) == ([("note", 3, 3)], 0)
    assert notes(one) == ["acknowledged", "queued"]
    assert one.head == main_of(bare)


@pytest.mark.parametrize("how", ["follow", "republish"])
def test_a_main_that_holds_no_flows_now_is_neither_followed_nor_built_upon(bare, back, how):
    one, _ = back
    foreign = imported(bare, Change("README", b"x"), parents=())
    before = git(one.gitdir, "for-each-ref")
    decided = {
        "follow": lambda: follow(one.repo, one.refs, at=AT, timeout=10),
        "republish": lambda: one.sync(republish=True),
    }
    for _ in range(2):
        with pytest.raises(Rejected, match="something else than flows"):
            decided[how]()
    assert git(one.gitdir, "for-each-ref") == before
    git(bare, "update-ref", MAIN, one.tracked, foreign)
    one.sync()
    assert notes(one) == ["acknowledged", "queued"]


@pytest.mark.req("D3")
def test_a_history_that_was_rewritten_from_its_root_can_be_followed_and_no_more(bare, back):
    one, _ = back
    tree = git(bare, "rev-parse", f"{MAIN}^{{tree}}")
    text = git(bare, "show", "-s", "--format=%B", f"{MAIN}~1")
    root = git(bare, "commit-tree", tree, "-m", text)
    git(bare, "update-ref", MAIN, root)
    before = git(one.gitdir, "for-each-ref")
    for _ in range(2):
        with pytest.raises(Rejected, match="nothing in common") as refused:
            one.sync(republish=True)
        assert "gfs sync --follow" in refused.value.hint
    assert git(one.gitdir, "for-each-ref") == before
    follow(one.repo, one.refs, at=AT, timeout=10)
    assert notes(one) == ["queued"]
    assert one.head == one.tracked == main_of(bare)


def test_two_that_have_nothing_in_common_are_not_mixed(tmp_path, two):
    one, _ = two
    other = remote(tmp_path / "other") if (tmp_path / "other").mkdir() is None else None
    imported(other, Change("README", b"x"), parents=())
    git(one.gitdir / "gfs/remote", "config", "remote.gfs.url", str(other))
    git(one.gitdir, "update-ref", "-d", "refs/gfs/remote/main")
    queue(one, "a")
    head = one.head
    with pytest.raises(Rejected, match="nothing in common"):
        one.sync()
    assert one.head == head
