"""Main moves at the remote first: what is acknowledged is there, whatever the way does."""

from __future__ import annotations

import os

import pytest
from fakes.gitservers import hook
from flowrepo import Change, imported, made, put
from gitrepo import MAIN, child, code_of, git
from hostbench import gone, lost, main_of, moves, never, overtaken, pair, remote, sound, subjects

from gitflowstate.ancestry import standing
from gitflowstate.attempts import Attempts
from gitflowstate.delivery import NotSent, Unknown
from gitflowstate.errors import (
    Corrupt,
    Denied,
    NotFound,
    Rejected,
    Stale,
    Unavailable,
    Uncertain,
)
from gitflowstate.location import TRACKED
from gitflowstate.model import flow_path
from gitflowstate.ops import Note, Take
from gitflowstate.syscalls import calls
from gitflowstate.taskops import TaskAdd, TaskClaim, TaskRenew


@pytest.fixture
def bare(tmp_path):
    return remote(tmp_path)


@pytest.fixture
def two(tmp_path, bare):
    with pair(tmp_path, bare) as hosts:
        yield hosts


@pytest.fixture
def one(two):
    return two[0]


# ── the usual way ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("F10")
def test_an_op_is_at_the_remote_when_it_is_acknowledged(bare, one):
    outcome = one.create()
    assert main_of(bare) == one.head == one.tracked == outcome.commit
    assert one.way.calls == ["push", "refs"]
    assert one.refs.asked
    sound(bare, one)


def test_what_others_did_is_built_upon(bare, two):
    one, two_ = two
    one.create()
    two_.update("by two")  # it has not heard of the flow
    one.update("by one")
    assert subjects(bare)[1:] == [
        "f-1 r1 create: do f-1", "f-1 r2 update: by two", "f-1 r3 update: by one",
    ]  # fmt: skip
    sound(bare, *two)


def test_a_race_that_is_lost_is_run_again(bare, two):
    """The other host commits between our look and our push."""
    one, two_ = two
    one.create()
    one.way.plan("push", *[overtaken(lambda: two_.note("two"))] * 2)
    assert one.note("one").flow.revision == 4
    assert [note.text for note in one.store.flow("f-1").notes] == ["two", "two", "one"]
    sound(bare, *two)


@pytest.mark.req("C8")
def test_what_is_fetched_after_a_race_is_not_old_when_it_is_built_upon(bare, two, monkeypatch):
    """Whoever lost waits first and asks then: what others do meanwhile costs no second race."""
    one, two_ = two
    one.create()
    one.way.plan("push", overtaken(lambda: two_.note("before")))
    monkeypatch.setattr(Attempts, "rest", lambda _: two_.note("meanwhile"))
    one.note("one")
    assert one.way.calls.count("push") == 3  # of which create is one
    assert subjects(bare)[-3:] == [
        f"f-1 r{n} note: {text}" for n, text in enumerate(("before", "meanwhile", "one"), 2)
    ]
    sound(bare, *two)


def test_an_op_that_loses_every_race_is_given_up(bare, two):
    one, two_ = two
    one.create()
    one.refs.patience_s = 0.3
    one.way.plan("push", *[overtaken(lambda: two_.note("two"))] * 200)
    with pytest.raises(Unavailable, match="faster"):
        one.note("one")
    assert one.way.calls.count("push") < 200
    one.way.plans.clear()
    one.refs.patience_s = 30
    one.note("one")
    sound(bare, *two)


@pytest.mark.req("C8")
def test_two_hosts_write_at_once_and_nothing_is_lost(bare, two, scale):
    count = scale(5)
    two[0].create()

    def write(host):
        for number in range(count):
            host.note(f"{host.folder.name} {number}")

    assert [code_of(pid) for pid in [child(lambda h=h: write(h)) for h in two]] == [0, 0]
    two[0].refs.ask()
    texts = {note.text for note in two[0].store.flow("f-1").notes}
    assert texts == {f"{name} {number}" for name in ("one", "two") for number in range(count)}
    sound(bare, *two)


@pytest.mark.req("C8")
@pytest.mark.parametrize("late", ["before the look", "after the look"])
def test_the_same_op_of_two_in_one_second_is_recorded_twice(bare, two, late):
    """Their commits are the same one: it landed once, and so only one of them is acknowledged."""
    one, two_ = two
    one.create()
    two_.refs.ask()

    def decided_there(_):
        two_.note("same")
        return "[remote rejected] (failed to update ref)"

    earlier = overtaken(lambda: two_.note("same"))
    one.way.plan("push", earlier if late == "before the look" else decided_there)
    assert one.note("same").flow.revision == 3
    assert subjects(bare)[2:] == ["f-1 r2 note: same", "f-1 r3 note: same"]
    sound(bare, *two)


# ── refusals are confirmed ──────────────────────────────────────────────────────────────────────


def test_a_refusal_from_an_old_copy_is_none(bare, two):
    one, two_ = two
    one.create()
    one.done()
    with pytest.raises(Rejected, match="done"):
        two_.note("late")  # there is no such flow yet, as far as it knows
    assert two_.head == main_of(bare)
    one.create("f-2")
    assert two_.store.flow("f-2").id == "f-2"
    assert two_.store.resolve("f-2") == "f-2"
    with pytest.raises(NotFound):
        two_.store.flow("f-3")


def test_nothing_to_do_on_an_old_copy_is_looked_into(bare, two):
    one, two_ = two
    one.create()
    two_.update("half")
    one.update("whole")
    assert two_.update("half").flow.revision == 4  # there it said so already
    assert two_.update("half").commit is None
    sound(bare, *two)


def test_a_refusal_that_cannot_be_confirmed_is_no_refusal(one):
    one.create()
    one.way.plan("track", gone)
    with pytest.raises(Unavailable):
        one.update("x", "f-2")
    with pytest.raises(NotFound):
        one.update("x", "f-2")


# ── answers that are lost ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("plans", [(lost,), (never,), (never, lost), (never, never)])
def test_a_lost_answer_is_looked_for_and_the_commit_lands_once(bare, one, plans):
    one.create()
    one.way.plan("push", *plans)
    outcome = one.note("once")
    assert [note.text for note in outcome.flow.notes] == ["once"]
    assert subjects(bare)[2:] == ["f-1 r2 note: once"]
    sound(bare, one)


def test_what_landed_and_was_built_upon_is_ours_all_the_same(bare, two):
    one, two_ = two
    one.create()

    def buried(real):
        real()
        two_.note("on top")
        raise Unknown("no answer")

    one.way.plan("push", buried)
    assert one.note("below").commit == git(bare, "rev-parse", f"{MAIN}~1")
    assert subjects(bare)[2:] == ["f-1 r2 note: below", "f-1 r3 note: on top"]
    sound(bare, *two)


def test_an_outcome_that_nobody_can_see_is_said_to_be_unknown(bare, one):
    one.create()
    head = one.head
    one.way.plan("push", lost)
    one.way.plan("track", gone, gone, gone, gone)
    one.way.plan("refs", gone, gone, gone, gone)
    with pytest.raises(Uncertain, match="unknown"):
        one.note("perhaps")
    assert one.head == head
    one.way.plans.clear()
    one.refs.ask()
    assert one.head == main_of(bare) != head
    sound(bare, one)


def test_what_never_left_is_tried_again_and_then_out_of_reach(bare, one):
    def unreached(_):
        raise NotSent("nobody there")

    one.create()
    one.way.plan("push", unreached, unreached)
    one.note("third time")
    one.way.plan("push", *[unreached] * 3)
    with pytest.raises(Unavailable, match="nobody there"):
        one.note("never")
    assert "never" not in str(subjects(bare))
    sound(bare, one)


def test_a_remote_that_says_yes_and_does_nothing_is_found_out(bare, one):
    one.create()
    one.way.plan("push", *[lambda _: None] * 3)
    with pytest.raises(Unavailable, match="did not move main"):
        one.note("dropped")
    assert len(moves(bare)) == 2
    assert one.head == main_of(bare)
    sound(bare, one)


# ── refused ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C8", "C9", "F10")
@pytest.mark.parametrize("name", ["pre-receive", "update"])
def test_a_hook_of_the_remote_decides(bare, one, name):
    one.create()
    refusing = hook(bare, name, "echo not today >&2; exit 1")
    head = one.head
    with pytest.raises(Denied, match="declined"):
        one.note("no")
    assert one.head == main_of(bare) == head
    refusing.unlink()
    one.note("yes")
    sound(bare, one)


@pytest.mark.req("C8")
def test_a_race_that_only_the_server_sees_is_run_again(bare, two):
    """Both pushes have passed the look of their own Git when the second one comes in."""
    one, two_ = two
    one.create()
    two_.refs.ask()
    sleepy = 'case "$(cat)" in *refs/heads/main*) sleep 0.3;; esac'
    slow = hook(bare, "pre-receive", sleepy)
    pids = [child(lambda h=h: h.note(h.folder.name)) for h in two]
    assert [code_of(pid) for pid in pids] == [0, 0]
    slow.unlink()
    one.refs.ask()
    assert {note.text for note in one.store.flow("f-1").notes} == {"one", "two"}
    sound(bare, *two)


def test_a_remote_without_room_is_out_of_reach(bare, one):
    one.create()
    one.way.plan("push", lambda _: "[remote rejected] (unpacker error)")
    with pytest.raises(Unavailable, match="could not store"):
        one.note("x")


@pytest.mark.parametrize(
    "refusal",
    ["blocked by policy", "[remote rejected] (blocked by policy)", "locked until Monday",
     "pre-receive hook declined: fetch first"],
)  # fmt: skip
def test_a_rule_is_no_race_whatever_its_words(one, refusal):
    one.create()
    one.way.plan("push", lambda _: refusal)
    with pytest.raises(Denied, match="refuses to move main"):
        one.note("x")


@pytest.mark.parametrize(
    "refusal",
    ["[rejected] (stale info)", "stale info", "[remote rejected] (cannot lock ref 'x': is at 1)",
     "[remote rejected] (failed to update ref)", "[remote rejected] (incorrect old value)"],
)  # fmt: skip
def test_a_race_is_one_by_how_it_is_told(one, refusal):
    one.create()
    one.way.plan("push", lambda _: refusal)
    one.note("x")
    assert one.store.flow("f-1").revision == 2


# ── kills, and disks ────────────────────────────────────────────────────────────────────────────


def after(host, name, act):
    """Let a host die after a call to the remote."""

    def dying(real):
        real()
        act()

    host.way.plan(name, dying)


@pytest.mark.parametrize("call", ["push", "refs"])
def test_killed_between_push_and_swap_the_next_command_goes_on(bare, one, call):
    one.create()
    head = one.head
    after(one, call, lambda: os._exit(9))
    assert code_of(child(lambda: one.note("published"))) == 9
    assert one.head == head
    assert main_of(bare) == one.tracked != head
    one.way.plans.clear()
    one.note("next")
    assert subjects(bare)[2:] == ["f-1 r2 note: published", "f-1 r3 note: next"]
    sound(bare, one)


def test_killed_before_git_noted_what_it_pushed_nothing_seems_queued(bare, one):
    one.create()
    after(one, "push", lambda: one.repo.move("refs/gfs/remote/main", one.tracked, one.head, "", 0))
    one.note("published")
    assert one.head == one.tracked == main_of(bare)


def test_a_disk_that_is_full_here_loses_nothing_that_was_published(bare, one):
    one.create()
    real = calls.link

    def full(source, target):
        if str(target).endswith("heads/main.lock"):
            raise OSError(28, "No space left on device")
        real(source, target)

    calls.link = full
    try:
        outcome = one.note("published")
    finally:
        calls.link = real
    assert outcome.commit == main_of(bare) != one.head
    assert "not yet here" in one.repo.warnings[-1]
    one.note("next")
    sound(bare, one)


def test_a_lock_that_a_killed_git_left_is_cleared_when_it_is_old_and_else_named(bare, two):
    one, two_ = two
    one.create()
    lock = two_.gitdir / "refs/gfs/remote/main.lock"
    lock.write_text("")
    with pytest.raises(Unavailable, match=r"refs/gfs/remote/main.lock"):
        two_.refs.ask()
    os.utime(lock, (0, 0))
    two_.refs.ask()
    assert two_.head == one.head
    assert "gfs/stale/refs-gfs-remote-main.lock" in str(two_.repo.warnings)
    sound(bare, *two)


@pytest.mark.req("A4", "C8")
def test_a_lock_on_main_here_is_named_where_others_were_faster(bare, two):
    one, two_ = two
    one.create()
    two_.refs.ask()
    lock = two_.gitdir / "refs/heads/main.lock"
    lock.write_text("")
    one.note("faster")
    with pytest.raises(Unavailable, match=r"refs/heads/main.lock"):
        two_.note("slower")
    lock.unlink()
    two_.note("slower")
    sound(bare, *two)


# ── a remote that takes history back ────────────────────────────────────────────────────────────


@pytest.mark.req("D3", "D5", "L12")
@pytest.mark.parametrize("how", ["back", "other", "merge", "none"])
def test_history_that_is_taken_back_is_said_and_nothing_moves_here(bare, one, how):
    one.create()
    one.note("acknowledged")
    head = one.head
    match how:
        case "back":
            git(bare, "update-ref", MAIN, f"{MAIN}~1")
        case "other":
            git(bare, "update-ref", MAIN, f"{MAIN}~1")
            imported(bare, Change("README", b"x"))
        case "merge":  # `git pull -s ours`, pushed: what it takes back is among its ancestors
            imported(bare, Change("README", b"x"), parents=(f"{MAIN}~1", f"{MAIN}^0"))
        case _:
            git(bare, "update-ref", "-d", MAIN)
    for act in (lambda: one.note("more"), one.refs.ask, lambda: one.update("x", "f-9")):
        with pytest.raises(Corrupt, match="took history back") as error:
            act()
        assert "gfs sync --follow" in error.value.hint
    assert one.head == one.tracked == head


@pytest.mark.req("D5", "C8")
def test_what_a_merge_swallowed_while_its_answer_was_lost_is_applied_again(bare, one):
    """The push arrived; before anybody looks, a person's merge keeps nothing of it."""
    one.create()

    def swallowed(real):
        known = one.tracked
        real()
        git(one.gitdir, "update-ref", TRACKED, known)  # Git heard no answer either
        imported(bare, Change("README", b"x"), parents=(f"{MAIN}~1", f"{MAIN}^0"))
        raise Unknown("no answer")

    one.way.plan("push", swallowed)
    one.note("once")
    assert [note.text for note in one.store.flow("f-1").notes] == ["once"]
    assert one.head == main_of(bare)
    assert subjects(bare)[2:] == ["by hand", "f-1 r2 note: once"]


# ── what is queued ──────────────────────────────────────────────────────────────────────────────


def test_nothing_is_published_past_what_is_queued(bare, one):
    one.create()
    one.offline.commit(made(Note, text="queued"))
    with pytest.raises(Stale, match="1 operation is here and not yet") as error:
        one.note("after")
    assert error.value.details["next"] == ["gfs", "sync"]
    assert len(moves(bare)) == 2


@pytest.mark.parametrize("kind", ["task_claim", "take", "task_renew"])
def test_what_needs_an_arbiter_is_not_queued(one, kind):
    one.create()
    one.commit(TaskAdd, task="t1", goal="Read")
    head = one.head
    until = "2026-09-06T11:00:00Z"
    op = {
        "task_claim": made(TaskClaim, task="t1", worker="w.1", until=until),
        "task_renew": made(TaskRenew, task="t1", until=until),
        "take": made(Take, by="bob", reason="r"),
    }[kind]
    with pytest.raises(Rejected, match="needs the remote"):
        one.offline.commit(op)
    with pytest.raises(Rejected, match="needs the remote"):
        one.offline.preview(op)
    assert one.head == head


# ── how two histories stand ─────────────────────────────────────────────────────────────────────


def test_a_merge_that_brought_ours_in_leaves_nothing_queued(bare, one):
    one.create()
    one.create("f-2")
    aside, base = "refs/heads/aside", git(one.gitdir, "rev-parse", f"{MAIN}~1")
    theirs = imported(
        one.gitdir, one.edited(revision=2, goal="by hand"), ref=aside, parents=(base,)
    )
    both = put(flow_path("f-2"), one.document("f-2"))
    merge = imported(one.gitdir, both, ref=aside, parents=(theirs, one.head))
    assert standing(one.repo, one.head, merge).queued == ()


def test_a_reader_that_stays_asks_now_and_then(two, monkeypatch):
    one, two_ = two
    one.create()
    assert two_.store.version() != one.head
    monkeypatch.setattr(two_.refs, "_looked", two_.refs._looked - 16)
    assert two_.store.version() == one.head
    calls_before = len(two_.way.calls)
    two_.store.version()
    assert len(two_.way.calls) == calls_before
    monkeypatch.setattr(two_.refs, "_looked", two_.refs._looked - 16)
    two_.way.plan("track", gone)
    assert two_.store.version() == one.head
