"""The store: load and commit, what a lost race and a killed writer leave, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from flowrepo import AT, Change, Lab, created, made, objects, put, revisions
from gitrepo import MAIN, child, code_of, git
from scaling import SCALE

from gitflowstate import codec
from gitflowstate.errors import GfsError, Invalid, NotFound, Rejected, Stale, Unavailable
from gitflowstate.git import Repository
from gitflowstate.model import FORMAT_PATH, archive_path, flow_path, key_path
from gitflowstate.ops import Import, Init, Note, Reopen, Update, Wait
from gitflowstate.store import Store
from gitflowstate.syscalls import calls

KEY, REQUEST = "a" * 64, "b" * 64


# ── load and commit ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-01", "R-TF-05", "R-TF-29")
def test_a_commit_is_the_changed_tree_and_a_message_with_the_op(lab):
    old = lab.head
    outcome = lab.update("half way")
    assert lab.head == outcome.commit
    assert git(lab.gitdir, "rev-parse", f"{MAIN}^@") == old
    assert git(lab.gitdir, "diff", "--name-only", old, MAIN) == flow_path("f-1")
    assert lab.shown(flow_path("f-1")) == codec.encode(outcome.flow)
    assert lab.messages()[0] == "f-1 r2 update: half way"
    assert (outcome.flow.revision, outcome.flow.progress) == (2, "half way")
    assert lab.store.flow("f-1") == outcome.flow
    lab.sound()


@pytest.mark.req("R-TF-05")
def test_a_change_of_progress_touches_three_lines_and_no_others(lab):
    lab.update("a third", at="2026-09-06T11:00:00Z")
    lab.update("half way", at="2026-09-06T12:00:00Z")
    diff = git(lab.gitdir, "diff", "-U0", "--no-color", f"{MAIN}~", MAIN).splitlines()
    removed = [line[1:].split(":")[0].strip() for line in diff if line.startswith("- ")]
    added = [line[1:].split(":")[0].strip() for line in diff if line.startswith("+ ")]
    assert sorted(removed) == sorted(added) == ['"progress"', '"revision"', '"updated_at"']


@pytest.mark.req("R-TF-04")
def test_every_change_is_stamped_by_the_op_and_the_commit_too(lab):
    flow = lab.update("x", at="2026-09-06T12:34:56Z").flow
    assert flow.updated_at == "2026-09-06T12:34:56Z"
    dates = git(lab.gitdir, "log", "-1", "--date=raw", "--format=%ad, %cd", MAIN)
    assert dates == "1788698096 +0000, 1788698096 +0000"
    assert git(lab.gitdir, "log", "-1", "--format=%an|%cn", MAIN) == "ann|gitflowstate"


@pytest.mark.req("R-TF-17", "R-TF-29")
def test_what_changes_nothing_makes_no_commit(lab):
    lab.update("half way")
    head, stored = lab.head, objects(lab.gitdir)
    outcome = lab.update("half way")
    assert outcome.commit is None
    assert outcome.after is outcome.before
    assert outcome.flow.revision == 2
    assert (lab.head, objects(lab.gitdir)) == (head, stored)


@pytest.mark.req("R-TF-14", "R-TF-15")
@pytest.mark.parametrize(
    ("op", "error"),
    [
        (made(Note, "f-2", text="x"), NotFound),
        (made(Update, progress="x", expect=7), Stale),
        (made(Update, by="mallory", progress="x"), Stale),
        (made(Reopen, reason="r", next="n"), Rejected),
        (made(Note, text="\x07"), Invalid),
        (made(Note, "../../x", text="x"), Invalid),
        (made(Update, progress="x" * 2**20), Rejected),
        (made(Note, text="the token ghp_" + "a1B2" * 9), Rejected),
        (created("f-1", goal="other"), Stale),
    ],
)
def test_a_refusal_writes_nothing_at_all(lab, op, error):
    head, stored = lab.head, objects(lab.gitdir)
    with pytest.raises(error):
        lab.store.commit(op)
    assert (lab.head, objects(lab.gitdir)) == (head, stored)
    with pytest.raises(error):
        lab.store.preview(op)
    lab.sound()


@pytest.mark.req("R-TF-24")
def test_a_stale_expectation_tells_the_present_revision(lab):
    lab.update("one")
    with pytest.raises(Stale, match="f-1 is at r2, not r1") as refused:
        lab.update("two", expect=1)
    assert (refused.value.code, refused.value.details["revision"]) == (4, 2)
    assert lab.update("two", expect=2).flow.revision == 3


@pytest.mark.req("R-TF-21")
def test_an_end_moves_the_flow_in_its_own_commit_and_a_reopening_back(lab):
    head = lab.head
    lab.done()
    moved = git(lab.gitdir, "diff", "--name-status", "--no-renames", head, MAIN).split()
    assert moved == ["A", archive_path("f-1"), "D", flow_path("f-1")]
    assert lab.store.flow("f-1").status == "done"
    assert [flow.id for flow in lab.store.flows()] == []
    assert [flow.id for flow in lab.store.flows(archived=True)] == ["f-1"]
    lab.commit(Reopen, reason="not yet", next="look again")
    assert [flow.id for flow in lab.store.flows()] == ["f-1"]
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3]
    lab.sound()


@pytest.mark.req("R-TF-27")
def test_an_id_is_taken_for_ever(lab):
    assert created("f-1") == created("f-1")
    assert lab.create().commit is None  # the same again
    lab.done()
    assert lab.store.exists("f-1")
    assert not lab.store.exists("f-2")
    with pytest.raises(Stale, match="archived"):
        lab.create()


@pytest.mark.req("R-TF-06")
def test_a_clone_elsewhere_reads_the_same_flows(lab, tmp_path):
    lab.create("f-2")
    lab.done("f-2")
    git(tmp_path, "clone", "-q", "--bare", f"file://{lab.gitdir}", tmp_path / "copy.git")
    with Repository.open(tmp_path / "copy.git") as repo:
        there = list(Store(repo).flows(archived=True))
    assert there == list(lab.store.flows(archived=True))
    assert len(there) == 2


@pytest.mark.req("R-TF-08")
def test_reading_makes_no_object_no_file_and_no_lock(lab):
    before_ = {path: path.stat().st_mtime_ns for path in lab.gitdir.rglob("*")}
    lab.store.flow("f-1")
    list(lab.store.flows(archived=True))
    lab.store.resolve("f-")
    lab.store.preview(made(Update, progress="x"))
    assert {path: path.stat().st_mtime_ns for path in lab.gitdir.rglob("*")} == before_


# ── keys ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-27", "A3")
def test_the_repeat_of_a_keyed_request_is_answered_with_its_receipt(lab):
    first = lab.update("half way", key=KEY, request=REQUEST)
    assert first.receipt is None
    assert lab.shown(key_path(KEY))
    lab.update("nearly")
    head = lab.head
    again = lab.update("half way", key=KEY, request=REQUEST, expect=1)
    assert (again.commit, lab.head) == (None, head)
    assert (again.receipt.flow, again.receipt.revision) == ("f-1", 2)
    assert again.flow.revision == 3
    lab.done()
    assert lab.update("half way", key=KEY, request=REQUEST).receipt.revision == 2
    with pytest.raises(Stale, match="another request"):
        lab.update("half way", key=KEY, request="c" * 64)


@pytest.mark.req("A3")
def test_a_receipt_tells_what_a_list_of_documents_made(lab):
    lab.create("f-2", key=KEY, request=REQUEST, made=("f-2",))
    again = lab.create("f-3", key=KEY, request=REQUEST, made=("f-3",))
    assert (again.receipt.flow, again.receipt.made) == ("f-2", ("f-2",))
    assert not lab.store.exists("f-3")


# ── lost races ──────────────────────────────────────────────────────────────────────────────────


def raced(lab, *rivals, at="publish"):
    """Return a store in whose first attempts the rivals act in turn, before it does something."""
    real, waiting = getattr(lab.repo, at), list(rivals)

    def through(*arguments):
        if waiting:
            waiting.pop(0)()
        return real(*arguments)

    setattr(lab.repo, at, through)
    return lab.store


def elsewhere(lab, op):
    """Commit an op in another process's stead, which did not wait for the lock."""
    with Repository.open(lab.gitdir, writing=True) as repo:
        return Store(repo).commit(op)


@pytest.mark.req("R-TF-23", "C6", "F1")
@pytest.mark.parametrize("at", ["lookup", "commit_object", "publish"])
def test_after_a_lost_race_the_op_is_applied_to_the_new_head(lab, at):
    store = raced(lab, lambda: elsewhere(lab, made(Update, next="the rival's")), at=at)
    outcome = store.commit(made(Update, progress="mine"))
    assert outcome.commit == lab.head
    found = lab.store.flow("f-1")
    assert (found.revision, found.progress, found.next_action) == (3, "mine", "the rival's")
    assert outcome.before[flow_path("f-1")].revision == 2
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3]
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("R-TF-23")
def test_many_lost_races_are_as_one(lab):
    rivals = [lambda n=n: elsewhere(lab, made(Note, text=f"rival {n}")) for n in range(5)]
    outcome = raced(lab, *rivals).commit(made(Note, text="mine"))
    assert [note.text for note in outcome.flow.notes] == [*(f"rival {n}" for n in range(5)), "mine"]
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.req("R-TF-24")
def test_a_refusal_on_the_new_head_is_the_answer(lab):
    store = raced(lab, lambda: elsewhere(lab, made(Note, text="rival")))
    with pytest.raises(Stale, match="r2, not r1"):
        store.commit(made(Update, progress="mine", expect=1))
    assert lab.messages()[0] == "f-1 r2 note: rival"
    lab.sound()


def test_what_the_rival_has_done_already_is_not_done_twice(lab):
    store = raced(lab, lambda: elsewhere(lab, made(Update, progress="same")))
    outcome = store.commit(made(Update, progress="same"))
    assert (outcome.commit, outcome.flow.revision) == (None, 2)
    assert len(lab.messages()) == 3


@pytest.mark.req("A3")
def test_a_rival_with_the_same_key_answers_for_both(lab):
    op = made(Note, text="once", key=KEY, request=REQUEST)
    outcome = raced(lab, lambda: elsewhere(lab, op)).commit(op)
    assert (outcome.commit, outcome.receipt.revision) == (None, 2)
    assert len(lab.store.flow("f-1").notes) == 1


def test_a_person_who_pushes_meanwhile_is_a_rival_too(lab):
    store = raced(lab, lambda: lab.by_hand(put("notes.txt", {"seen": True})))
    outcome = store.commit(made(Update, progress="mine"))
    assert outcome.flow.revision == 2
    assert lab.shown("notes.txt")
    assert lab.verify().problems == []


def test_a_race_that_is_lost_for_ever_ends(lab, monkeypatch):
    monkeypatch.setattr("gitflowstate.store.ATTEMPTS", 3)
    monkeypatch.setattr(lab.repo, "publish", lambda *_: False)
    with pytest.raises(Unavailable, match="moved 3 times"):
        lab.update("x")


# ── who is told ─────────────────────────────────────────────────────────────────────────────────


def test_the_observer_is_told_of_each_commit_under_the_lock(lab):
    told = []

    def published(old, new, changes):
        told.append((old, new, dict(changes), lab.repo.ref(MAIN)))

    store = Store(lab.repo, published=published)
    old = lab.head
    outcome = store.commit(made(Update, progress="x"))
    content = {flow_path("f-1"): lab.shown(flow_path("f-1"))}
    assert told == [(old, outcome.commit, content, outcome.commit)]
    store.commit(made(Update, progress="x"))
    with pytest.raises(Stale):
        store.commit(made(Update, progress="y", expect=1))
    assert len(told) == 1


@pytest.mark.req("C14")
def test_a_commit_within_a_commit_does_not_wait_for_itself(lab):
    inner = Store(lab.repo, timeout=0.5)

    def published(_old, _new, _changes):
        inner.commit(made(Note, text="inner"))

    Store(lab.repo, timeout=0.5, published=published).commit(made(Note, text="outer"))
    assert [note.text for note in lab.store.flow("f-1").notes] == ["outer", "inner"]
    lab.sound()


# ── finding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def named(tmp_path):
    found = Lab(tmp_path / "named")
    for flow in ("abc", "abc-1", "abd", "xyz"):
        found.create(flow)
    found.done("xyz")
    return found.store


@pytest.mark.parametrize(
    ("text", "flow"),
    [("abc", "abc"), ("abc-", "abc-1"), ("abd", "abd"), ("x", "xyz"), ("xyz", "xyz")],
)
def test_an_exact_id_wins_and_a_unique_prefix_is_resolved(named, text, flow):
    assert named.resolve(text) == flow


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("ab", "3 flows begin with 'ab'", "abc, abc-1, abd"),
        ("", "4 flows begin with ''", "abc, abc-1, abd, xyz"),
        ("AB", "there is no flow 'AB'", "gfs list --all"),
        ("../x", "there is no flow '../x'", "gfs list --all"),
    ],
)
def test_an_ambiguous_or_impossible_prefix_is_not_found(named, text, says, hint):
    with pytest.raises(NotFound) as refused:
        named.resolve(text)
    assert (refused.value.message, refused.value.hint, refused.value.code) == (says, hint, 5)


def test_a_possible_id_that_nobody_has_is_left_to_the_op(named):
    assert named.resolve("nobody") == "nobody"
    with pytest.raises(NotFound, match="there is no flow nobody"):
        named.flow("nobody")
    with pytest.raises(NotFound, match="there is no flow nobody"):
        named.commit(made(Note, "nobody", text="x"))


def test_flows_come_in_the_order_of_their_ids(named):
    assert [flow.id for flow in named.flows()] == ["abc", "abc-1", "abd"]
    assert [flow.id for flow in named.flows(archived=True)] == ["abc", "abc-1", "abd", "xyz"]


# ── preview ─────────────────────────────────────────────────────────────────────────────────────


def both(lab, op):
    """Return what preview and then commit say of an op: the outcome, or the error."""

    def of(action):
        try:
            found = action(op)
        except GfsError as error:
            return type(error), error.message
        return found.before, found.after, found.message, dict(found.changes)

    return of(lab.store.preview), of(lab.store.commit)


@pytest.mark.parametrize(
    "op",
    [
        made(Update, progress="x"),
        made(Update, "f-2", progress="x"),
        made(Update, progress="x", expect=9),
        made(Wait, reason="r", until="u", on="human"),
        created("f-9", goal="new"),
        created("f-1"),
    ],
)
def test_a_preview_says_what_the_commit_then_does(lab, op):
    foreseen, happened = both(lab, op)
    assert foreseen == happened


# ── a newer rule set, a newer schema ────────────────────────────────────────────────────────────


@pytest.fixture(params=["Gfs-Rules: 2", "Agent: x-1\nGfs-Rules: 2"], ids=["", "a new trailer"])
def newer(lab, request):
    """A head that a later version wrote, under rule set 2, which may have another trailer."""
    lab.update("by a later version")
    text = git(lab.gitdir, "log", "-1", "--format=%B", MAIN).replace("Gfs-Rules: 1", request.param)
    forged = git(
        lab.gitdir,
        *("commit-tree", f"{MAIN}^{{tree}}", "-p", f"{MAIN}~", "-F", "-"),
        data=text.encode() + b"\n",
    )
    git(lab.gitdir, "update-ref", MAIN, forged)
    return lab


@pytest.mark.req("E8")
def test_a_newer_rule_set_at_the_head_is_read_and_not_written(newer):
    assert newer.store.flow("f-1").progress == "by a later version"
    assert [flow.revision for flow in newer.store.flows()] == [2]
    head = newer.head
    for act in (newer.store.commit, newer.store.preview):
        with pytest.raises(Rejected, match="rule set 2; this gfs knows 1") as refused:
            act(made(Update, progress="x"))
        assert (refused.value.code, "upgrade" in refused.value.hint) == (3, True)
    assert newer.head == head


@pytest.mark.req("E8")
def test_a_newer_rule_set_under_edits_by_hand_is_not_written_either(newer):
    newer.by_hand(newer.edited(revision=3, progress="by hand"))
    assert newer.store.flow("f-1").progress == "by hand"
    with pytest.raises(Rejected, match="rule set 2"):
        newer.update("x")


@pytest.mark.req("E8")
def test_a_newer_schema_is_read_whole_and_refused_on_write_for_that_flow_alone(lab):
    lab.create("f-2")
    lab.by_hand(lab.edited(schema_version=2, revision=2, colour={"name": "red"}))
    assert codec.to_json(lab.store.flow("f-1"))["colour"] == {"name": "red"}
    with pytest.raises(Rejected, match="schema version 2"):
        lab.update("x")
    assert lab.update("x", "f-2").flow.revision == 2
    assert lab.document()["colour"] == {"name": "red"}
    lab.sound()


# ── a user's own type ───────────────────────────────────────────────────────────────────────────

SCHEMA = {
    "type": "object",
    "required": ["price"],
    "properties": {"price": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}


@pytest.fixture
def typed(lab):
    lab.by_hand(put("types/offer.schema.json", SCHEMA))
    return lab


def test_data_of_a_users_type_obeys_the_users_schema(typed):
    head, stored = typed.head, objects(typed.gitdir)
    with pytest.raises(Invalid, match=r"data\.price"):
        typed.create("f-2", type="offer", data={"price": "much"})
    assert (typed.head, objects(typed.gitdir)) == (head, stored)
    typed.create("f-2", type="offer", data={"price": 3})
    with pytest.raises(Invalid, match="colour"):
        typed.commit(Update, "f-2", data={"price": 3, "colour": "red"})
    assert typed.commit(Update, "f-2", data={"price": 4}).flow.data == {"price": 4}
    assert typed.verify().problems == []
    typed.sound()


def test_a_schema_that_came_later_hinders_no_op_that_leaves_the_data_alone(lab):
    lab.create("f-2", type="offer", data={"price": "much"})
    lab.by_hand(put("types/offer.schema.json", SCHEMA))
    lab.update("x", "f-2")
    with pytest.raises(Invalid):
        lab.commit(Update, "f-2", data={"price": "more"})
    lab.done("f-2")
    assert lab.verify().problems == []


def test_a_type_without_a_schema_takes_any_data(typed):
    assert typed.create("f-2", type="thing", data={"a": [1]}).flow.data == {"a": [1]}


def test_an_imported_document_obeys_the_users_schema_too(typed):
    document = typed.store.flow("f-1").replace(id="f-2", type="offer", data={})
    with pytest.raises(Invalid, match="price"):
        typed.commit(Import, "f-2", document=document)


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────

SECRET = "ghp_" + "a1B2" * 9


@pytest.mark.req("G1", "X-04")
@pytest.mark.parametrize(
    "op",
    [
        created("f-2", goal=f"use {SECRET}"),
        created("f-2", data={"deep": [{"key": SECRET}]}),
        created("f-2", data={SECRET: 1}),
        made(Update, progress=SECRET),
        made(Update, labels=(SECRET,)),
        made(Note, text=f"it is {SECRET}."),
    ],
)
def test_a_secret_reaches_no_object(lab, op):
    stored = objects(lab.gitdir)
    with pytest.raises(GfsError) as refused:
        lab.store.commit(op)
    assert refused.value.code == 3
    assert SECRET not in str(refused.value.details) + refused.value.message
    assert objects(lab.gitdir) == stored
    told = subprocess.run(
        ["git", "-C", lab.gitdir, "cat-file", "--batch-all-objects", "--batch"],
        capture_output=True,
        check=True,
    )
    assert SECRET.encode() not in told.stdout
    files = [path for path in lab.gitdir.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_what_looks_like_one_is_kept_when_the_reason_is_recorded(lab):
    outcome = lab.commit(Note, text=SECRET, allow_secret="an example from the manual")
    assert outcome.flow.notes[-1].text == SECRET
    assert lab.verify().problems == []


# ── no branch ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D6")
def test_without_its_branch_a_repository_takes_no_op_and_begins_no_second_history(lab):
    git(lab.gitdir, "update-ref", "-d", MAIN)
    stored = objects(lab.gitdir)
    for act in (
        lambda: lab.store.flow("f-1"),
        lambda: list(lab.store.flows()),
        lambda: lab.store.resolve("f-1"),
        lambda: lab.create("f-9"),
        lambda: lab.update("x"),
        lambda: lab.store.preview(created("f-9")),
    ):
        with pytest.raises(NotFound, match="has no refs/heads/main") as refused:
            act()
        assert refused.value.code == 5
    assert lab.repo.ref(MAIN) is None
    assert objects(lab.gitdir) == stored


def test_a_second_init_op_changes_nothing(lab):
    head = lab.head
    assert lab.store.commit(Init(at=AT, by="x")).commit is None
    assert lab.head == head
    assert json.loads(lab.shown(FORMAT_PATH)) == {"format": 1}


# ── a writer that dies ──────────────────────────────────────────────────────────────────────────


def dying_at(number):
    """Kill this process before the call of that number of the table."""
    seen = iter(range(10**6))

    def through(real):
        def call(*arguments):
            if next(seen) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return call

    for name, real in list(vars(calls).items()):
        setattr(calls, name, through(real))


@pytest.mark.req("R-TF-09", "R-TF-14", "A1", "A3")
def test_killed_anywhere_the_same_command_again_makes_one_revision(lab):
    """The head is old or new, and the repeat is the very same change, done once."""
    step = max(1, round(9 / SCALE))  # each call of a publication is killed in tests/faults
    rounds = 0
    for number in range(0, 10**4, step):
        op = made(Note, text=f"note {rounds}", key=f"{number:064x}", request=REQUEST)
        revision = lab.store.flow("f-1").revision

        def work(op=op, number=number):
            with Repository.open(lab.gitdir, writing=True) as repo:
                dying_at(number)
                Store(repo).commit(op)

        code = code_of(child(work))
        left = lab.store.flow("f-1").revision
        assert left in (revision, revision + 1), number
        again = lab.store.commit(op)
        assert (again.commit is None) == (left > revision), number
        assert lab.store.flow("f-1").revision == revision + 1, number
        rounds += 1
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert number > 60
    notes = [note.text for note in lab.store.flow("f-1").notes]
    assert notes == [f"note {number}" for number in range(rounds)]
    assert revisions(lab.gitdir, "f-1") == list(range(1, rounds + 2))
    assert lab.verify().problems == []
    lab.sound(killed=True)


# ── the environment of the caller ───────────────────────────────────────────────────────────────


@pytest.mark.req("L10")
def test_stored_bytes_are_canonical_whatever_git_is_told_to_do_with_files(lab, home, tmp_path):
    told = {"core.autocrlf": "true", "core.eol": "crlf", "filter.x.clean": "cat >/dev/null"}
    for name, value in told.items():
        git(lab.gitdir, "config", "--global", name, value)
        git(lab.gitdir, "config", name, value)
    lab.by_hand(Change(".gitattributes", b"* text eol=crlf filter=x\n"))
    flow = lab.update("one\ntwo").flow
    assert lab.shown(flow_path("f-1")) == codec.encode(flow)
    assert b"\r" not in lab.shown(flow_path("f-1"))
    lab.sound()


@pytest.mark.req("L11")
def test_linked_worktrees_a_submodule_and_a_shallow_clone_read_the_same(lab, tmp_path):
    lab.update("x")
    git(lab.gitdir, "branch", "other", MAIN)
    git(lab.gitdir, "worktree", "add", "-q", tmp_path / "tree", "other")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{lab.gitdir}", tmp_path / "shallow")
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", outer)
    git(outer, "submodule", "--quiet", "add", f"file://{lab.gitdir}", "flows-repo")
    expected = lab.store.flow("f-1")
    for place in (tmp_path / "tree", tmp_path / "shallow", outer / "flows-repo"):
        with Repository.open(place) as repo:
            assert Store(repo).flow("f-1") == expected, place
    lab.update("y")  # `other` is checked out there, not main
    with Repository.open(tmp_path / "tree") as repo:
        assert Store(repo).flow("f-1").progress == "y"


def test_the_hot_path_of_a_write_loads_nothing_heavy(lab):
    code = (
        "import sys; from pathlib import Path\n"
        "from gitflowstate.git import Repository; from gitflowstate.store import Store\n"
        "from gitflowstate.ops import Update\n"
        "repo = Repository.open(Path(sys.argv[1]), writing=True)\n"
        f"Store(repo).commit(Update(at={AT!r}, by='ann', flow='f-1', progress='x'))\n"
        "print(*sorted({'pydantic', 'jsonschema', 'rich', 'asyncio', 'subprocess',"
        " 'dulwich.object_store', 'dulwich.repo', 'sqlite3'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, lab.gitdir], capture_output=True, text=True, check=True
    )
    assert told.stdout == "\n"
    assert lab.store.flow("f-1").revision == 2
