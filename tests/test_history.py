"""History: the log of a flow, what changed since a commit, and the audit of every commit."""

from __future__ import annotations

import re

import pytest
from flowrepo import Change, imported, made, put, revisions
from gitrepo import MAIN, git, loose

from gitflowstate import codec, documents, history
from gitflowstate.errors import NotFound
from gitflowstate.git import Repository
from gitflowstate.model import (
    Claim,
    Flow,
    Plan,
    Step,
    Task,
    archive_path,
    flow_path,
    key_path,
    plan_path,
)
from gitflowstate.ops import Done, Fail, Handoff, Import, Note, Reopen, Resume, Take, Update, Wait
from gitflowstate.store import Store
from gitflowstate.taskops import Plan as PlanOp
from gitflowstate.taskops import Recover, TaskAdd, TaskClaim, TaskDone, TaskFail, TaskWait

LATER = "2026-09-06T12:00:00Z"
LARGE = "A line of some length, with “quotes” and #1.\n" * 200  # about 9 KiB


def log(lab, flow="f-1"):
    """Return the subjects of a flow's commits, newest first."""
    found = history.of_flow(lab.repo, lab.head, flow)
    return [step.commit.message.decode("utf-8", "replace").split("\n")[0] for step in found]


# ── the log of a flow ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-21", "R-TF-29")
def test_a_log_has_one_commit_a_revision_through_the_archive_and_back(lab):
    lab.update("half way")
    lab.create("f-2")
    lab.done()
    lab.note("elsewhere", "f-2")
    lab.commit(Reopen, reason="not yet", next="look again")
    assert log(lab) == [
        "f-1 r4 reopen: not yet",
        "f-1 r3 done: out/report.md",
        "f-1 r2 update: half way",
        "f-1 r1 create: do f-1",
    ]
    assert log(lab, "f-2") == ["f-2 r2 note: elsewhere", "f-2 r1 create: do f-2"]
    assert log(lab, "f-3") == []
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3, 4]


@pytest.mark.req("D1")
def test_a_log_holds_what_was_done_by_hand_to_that_flow_alone(lab):
    lab.create("f-2")
    lab.by_hand(lab.edited(revision=2, progress="by hand"), text=b"I know better\n")
    lab.by_hand(Change("README.md", b"hello\n"), text=b"a readme\n")
    lab.by_hand(lab.edited("f-2", revision=2, progress="also"), text=b"and this\n")
    lab.update("by gfs")
    assert log(lab) == ["f-1 r3 update: by gfs", "I know better", "f-1 r1 create: do f-1"]
    assert log(lab, "f-2") == ["and this", "f-2 r1 create: do f-2"]
    steps = list(history.of_flow(lab.repo, lab.head, "f-1"))
    assert [step.trailers is None for step in steps] == [False, True, False]


def test_a_log_ends_at_the_birth_of_the_flow_without_reading_on(lab):
    lab.create("f-2")
    lab.note("x", "f-2")
    loose(lab.repo, git(lab.gitdir, "rev-parse", f"{MAIN}~3")).unlink()
    with Repository.open(lab.gitdir) as repo:
        found = list(history.of_flow(repo, lab.head, "f-2"))
    assert len(found) == 2


def test_a_flow_as_it_was_at_each_revision(lab):
    lab.update("one")
    lab.done()
    lab.commit(Reopen, reason="not yet", next="look again")
    lab.update("two")
    found = [history.at_revision(lab.repo, lab.head, "f-1", number) for number in range(1, 6)]
    assert [flow.revision for flow in found] == [1, 2, 3, 4, 5]
    assert [flow.status for flow in found] == ["pending", "running", "done", "running", "running"]
    assert [flow.progress for flow in found] == ["", "one", "one", "one", "two"]
    for missing in (6, 99):
        with pytest.raises(NotFound, match=f"f-1 has no revision {missing}"):
            history.at_revision(lab.repo, lab.head, "f-1", missing)


@pytest.mark.req("D2")
def test_a_revision_that_was_edited_away_is_still_found(lab):
    for number in range(2, 6):
        lab.update(f"step {number}")
    lab.by_hand(lab.edited(revision=3, progress="by hand"))
    lab.by_hand(Change(flow_path("f-1"), b"<<<<<<< ours\n"))
    found = history.at_revision(lab.repo, lab.head, "f-1", 5)
    assert (found.revision, found.progress) == (5, "step 5")
    # Of two documents that call themselves r3, gfs vouches for its own.
    assert history.at_revision(lab.repo, lab.head, "f-1", 3).progress == "step 3"


def test_a_revision_that_only_a_person_made_is_found(lab):
    lab.by_hand(lab.edited(revision=7, progress="by hand"))
    lab.update("x")
    assert history.at_revision(lab.repo, lab.head, "f-1", 7).progress == "by hand"
    with pytest.raises(NotFound):
        history.at_revision(lab.repo, lab.head, "f-1", 4)


# ── what an actor has not seen ──────────────────────────────────────────────────────────────────


def new_to(lab, actor, *flows, **options):
    """Return the subjects of what is new to an actor, without the flows' ids, by flow."""
    found = history.unseen(lab.repo, lab.head, actor, flows or ("f-1", "f-2"), **options)
    subjects = {
        flow: [step.commit.message.decode("utf-8", "replace").split("\n")[0] for step in steps]
        for flow, steps in found.items()
    }
    return {
        flow: [subject.removeprefix(f"{flow} ") for subject in told]
        for flow, told in subjects.items()
    }


@pytest.mark.req("R-TF-31")
def test_what_is_new_is_what_others_did_after_an_actors_own_last_op(lab):
    """On each flow by itself, oldest first; those it never touched have nothing new."""
    lab.create("f-2")
    lab.commit(Note, text="one", by="bob")
    lab.update("half way")
    lab.commit(Note, text="two", by="bob @home")
    assert new_to(lab, "ann") == {"f-1": ["r4 note: two"]}
    assert new_to(lab, "bob") == {"f-1": ["r3 update: half way", "r4 note: two"]}
    assert new_to(lab, "bob @home") == new_to(lab, "nobody") == {}
    lab.commit(Note, "f-2", text="three", by="bob")
    assert new_to(lab, "ann") == {"f-1": ["r4 note: two"], "f-2": ["r2 note: three"]}
    assert new_to(lab, "ann", "f-2") == {"f-2": ["r2 note: three"]}
    lab.commit(Note, text="four")
    assert new_to(lab, "bob @home") == {"f-1": ["r5 note: four"]}  # @ is inert in a trailer


def test_the_end_of_a_flow_and_edits_by_hand_are_new_too(lab):
    lab.by_hand(lab.edited(revision=2, progress="by hand"))
    lab.commit(Done, result="out.md", by="local")
    assert new_to(lab, "ann") == {"f-1": ["by hand", "r3 done: out.md"]}


def test_a_walk_that_is_cut_short_tells_what_it_met(lab):
    for number in range(5):
        lab.commit(Note, text=f"{number}", by="bob")
    assert new_to(lab, "ann", most=2) == {"f-1": ["r5 note: 3", "r6 note: 4"]}
    assert new_to(lab, "nobody", most=2) == {"f-1": ["r5 note: 3", "r6 note: 4"]}
    assert new_to(lab, "nobody", most=100) == {}


def test_a_hole_in_the_history_cuts_the_walk_short(lab):
    for number in range(3):
        lab.commit(Note, text=f"{number}", by="bob")
    loose(lab.repo, git(lab.gitdir, "rev-parse", f"{MAIN}~2")).unlink()
    with Repository.open(lab.gitdir) as fresh:
        found = history.unseen(fresh, lab.head, "ann", ["f-1"])
    assert len(found["f-1"]) == 1


def test_the_end_of_a_shallow_clone_cuts_the_walk_short(lab):
    for number in range(3):
        lab.commit(Note, text=f"{number}", by="bob")
    shallow = lab.clone("shallow", "--depth=2")
    with Repository.open(shallow / ".git") as repo:
        found = history.unseen(repo, lab.head, "ann", ["f-1"])
    assert len(found["f-1"]) == 2


def test_an_imported_flow_that_an_actor_never_touched_has_nothing_new(lab):
    document = codec.checked(
        Flow(
            schema_version=1, id="f-9", goal="g", status="running", revision=7, owner="ann",
            updated_at=LATER, next_action="n", children=(),
        )
    )  # fmt: skip
    lab.commit(Import, "f-9", document=document)
    lab.commit(Note, "f-9", text="x")
    assert new_to(lab, "bob", "f-9") == {}


# ── changes ─────────────────────────────────────────────────────────────────────────────────────


def changes(lab, since):
    found = history.changes(lab.repo, lab.store.head(), since)
    return found.flows, found.known, found.commits


def test_changes_since_a_commit_are_the_flows_that_differ(lab):
    start = lab.head
    assert changes(lab, start) == ([], True, 0)
    lab.create("f-2")
    middle = lab.head
    lab.done()
    lab.by_hand(put("types/x.schema.json", {}), Change("README.md", b"hello\n"))
    assert changes(lab, start) == (["f-1", "f-2"], True, 3)
    assert changes(lab, middle) == (["f-1"], True, 2)
    assert changes(lab, None) == (["f-1", "f-2"], True, 0)


def test_what_was_changed_back_is_no_change(lab):
    lab.update("x")
    start = lab.head
    document = lab.document()
    lab.by_hand(lab.edited(revision=9))
    lab.by_hand(put(flow_path("f-1"), document))
    assert changes(lab, start) == ([], True, 2)


@pytest.mark.req("L12", "D3")
@pytest.mark.parametrize("since", ["0" * 40, "not a commit", "a tree", "another branch"])
def test_a_commit_that_is_not_behind_the_head_names_every_flow(lab, since):
    lab.create("f-2")
    lab.done("f-2")
    if since == "a tree":
        since = git(lab.gitdir, "rev-parse", f"{MAIN}^{{tree}}")
    elif since == "another branch":
        since = imported(lab.gitdir, lab.edited(revision=8), ref="refs/heads/other")
    assert changes(lab, since) == (["f-1", "f-2"], False, 4)


@pytest.mark.req("L12", "D3")
def test_after_a_force_push_or_an_amendment_every_flow_is_named(lab):
    lab.create("f-2")
    seen = lab.head
    git(lab.gitdir, "update-ref", MAIN, f"{MAIN}~")
    assert changes(lab, seen)[:2] == (["f-1"], False)
    git(lab.gitdir, "reflog", "expire", "--expire=now", "--all")
    git(lab.gitdir, "gc", "-q", "--prune=now")
    lab.repo.close()
    assert not lab.repo.has(seen)
    assert changes(lab, seen)[:2] == (["f-1"], False)
    lab.create("f-3")
    assert changes(lab, seen)[:2] == (["f-1", "f-3"], False)
    lab.sound()


@pytest.mark.req("D8")
def test_a_hole_in_the_history_hides_no_change(lab):
    start = lab.head
    for number in range(3):
        lab.update(f"step {number}")
    loose(lab.repo, git(lab.gitdir, "rev-parse", f"{MAIN}~2")).unlink()
    with Repository.open(lab.gitdir) as repo:
        found = history.changes(repo, Store(repo).head(), start)
        assert (found.flows, found.known) == (["f-1"], False)
        assert Store(repo).flow("f-1").progress == "step 2"
        report = history.verify(repo, lab.head)
    assert [problem["commit"] for problem in report.problems] == [
        git(lab.gitdir, "rev-parse", f"{MAIN}~")
    ]
    assert "history ends here" in report.problems[0]["problem"]


@pytest.mark.req("L12", "B9")
def test_dates_decide_nothing(lab):
    start = lab.head
    lab.update("in the past", at="1999-01-01T00:00:00Z")
    lab.by_hand(lab.edited(revision=3), when="1 +0000")
    lab.update("in the future", at="2200-01-01T00:00:00Z")
    lab.update("in the past again", at="1980-01-01T00:00:00Z")
    assert changes(lab, start) == (["f-1"], True, 4)
    assert len(log(lab)) == 5
    assert revisions(lab.gitdir, "f-1") == [1, 2, 4, 5]
    assert lab.document()["updated_at"] == "2200-01-01T00:00:00Z"
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("D5")
def test_a_merge_that_changes_nothing_governed_is_followed_to_its_equal_parent(lab):
    """A person's plain `git pull`: their own commit first, ours merged into it."""
    start = lab.head
    theirs = imported(
        lab.gitdir, Change("README.md", b"x\n"), ref="refs/heads/theirs", parents=(start,)
    )
    lab.update("meanwhile")
    ours = lab.head
    merge = merged(lab, theirs, ours, git(lab.gitdir, "rev-parse", f"{ours}^{{tree}}"))
    git(lab.gitdir, "update-ref", MAIN, merge)
    assert changes(lab, ours) == ([], True, 1)
    assert changes(lab, start) == (["f-1"], True, 2)
    assert changes(lab, theirs)[1] is False
    assert log(lab) == ["f-1 r2 update: meanwhile", "f-1 r1 create: do f-1"]
    report = lab.verify()
    assert (report.problems, report.unmanaged) == ([], [])
    assert not lab.store.is_unmanaged("f-1")
    assert lab.update("more").flow.revision == 3


def merged(lab, one, other, tree):
    """Return a merge commit of C git's with a tree of our choice."""
    return git(lab.gitdir, "commit-tree", tree, "-p", one, "-p", other, "-m", "Merge main")


# ── the audit: what is clean ────────────────────────────────────────────────────────────────────


def clean(lab, commits=None):
    report = lab.verify()
    assert report.problems == []
    assert commits is None or report.commits == commits
    return report


@pytest.mark.req("R-TF-29")
def test_a_history_of_every_operation_on_a_flow_replays(lab):
    lab.update("half way", labels=("a", "b"), key="a" * 64, request="b" * 64)
    lab.commit(Wait, reason="no answer", until="an answer", on="human")
    lab.commit(Resume, next="go on")
    lab.commit(Handoff, to="bob", reason="holidays")
    lab.commit(Take, by="ann", reason="back")
    lab.commit(Fail, reason="no budget", recoverable="the notes")
    lab.commit(Reopen, reason="budget", next="again")
    lab.note("seen")
    lab.done()
    lab.create("f-2", attempt_of="f-1", goal="again")
    assert lab.shown(key_path("a" * 64))
    clean(lab, 12)
    lab.sound()


def test_a_history_of_tasks_replays(lab):
    steps = (Step(id="t1", goal="one"), Step(id="t2", goal="two", deps=("t1",)))
    lab.commit(PlanOp, document=Plan(schema_version=1, flow="f-1", tasks=steps))
    claimed = lab.commit(TaskClaim, worker="w.1", until=LATER)
    lab.commit(TaskDone, task="t1", result="out/1", attempt=claimed.flow.revision)
    lab.commit(TaskAdd, goal="three")
    lab.commit(TaskFail, task="t2", reason="broken", requeue=True)
    lab.commit(TaskWait, task="t2", reason="no key", until="a key", on="human")
    lab.commit(Recover, task="t2", decide="retry", reason="the key is there")
    assert lab.shown(plan_path("f-1", 1))
    clean(lab, 9)


LARGE_OPS = [
    made(Update, progress=LARGE),
    made(Update, progress=LARGE, next=LARGE + "2", goal=LARGE + "3"),
    made(Update, data={"text": LARGE, "more": [LARGE]}),
    made(Note, text=LARGE),
    made(Wait, reason=LARGE, until=LARGE + "2", on="external"),
    made(Fail, reason=LARGE, recoverable=LARGE),
    made(Update, data={"data": {"data": LARGE}}),
    made(Update, progress="ü" * 2049),
    made(Update, progress="x" * 4097),
    made(Update, progress="x" * 4096),
    made(TaskAdd, goal=LARGE),
    made(TaskFail, task="t1", reason=LARGE),
    made(TaskFail, task="t1", reason=LARGE, requeue=True),
    made(TaskWait, task="t1", reason=LARGE, until=LARGE, on="human"),
    made(
        PlanOp,
        document=Plan(schema_version=1, flow="f-1", tasks=(Step(id="t9", goal=LARGE),)),
        replace_plan=True,
        reason="larger",
    ),
    made(
        PlanOp,
        document=Plan(
            schema_version=1,
            flow="f-1",
            tasks=(
                Step(id="t1", goal="one"),
                *(Step(id=f"n{n}", goal=f"do {n} " * 9, priority=n % 3) for n in range(99)),
            ),
        ),
        replace_plan=True,
        reason="larger",
    ),
]


@pytest.mark.parametrize("op", LARGE_OPS, ids=lambda op: f"{op.TAG}-{len(codec.encode(op))}")
def test_a_text_that_is_too_large_for_a_message_is_taken_from_the_tree(lab, op):
    lab.commit(TaskAdd, goal="one", task="t1")
    lab.commit(
        PlanOp,
        document=Plan(schema_version=1, flow="f-1", tasks=(Step(id="t1", goal="one"),)),
        replace_plan=True,
        reason="a start",
    )
    assert lab.store.commit(op).commit
    assert len(git(lab.gitdir, "cat-file", "commit", MAIN)) < 20_000
    clean(lab, 5)
    lab.sound()


def test_a_large_flow_is_created_and_tried_again(lab):
    lab.create("f-2", goal=LARGE, next=LARGE, data={"text": LARGE})
    lab.commit(Fail, "f-2", reason=LARGE, recoverable=LARGE)
    lab.create("f-3", goal=LARGE, attempt_of="f-2")
    clean(lab, 5)


def imported_flow(**changes) -> Flow:
    claim = Claim(worker="w.1", by="ann", attempt=3, until=LATER)
    task = Task(id="t1", goal="one", status="pending", claim=claim)
    flow = Flow(
        schema_version=1,
        id="f-9",
        goal="from elsewhere",
        status="running",
        revision=4,
        owner="ann",
        updated_at=LATER,
        next_action="go on",
        children=(task,),
    )
    return flow.replace(**changes)


@pytest.mark.parametrize("text", ["short", LARGE], ids=["small", "large"])
def test_an_imported_flow_keeps_its_revision_and_loses_its_claims(lab, text):
    outcome = lab.commit(Import, "f-9", document=imported_flow(progress=text))
    assert (outcome.flow.revision, outcome.flow.children[0].claim) == (4, None)
    assert outcome.flow.progress == text
    lab.note("on", "f-9")
    assert revisions(lab.gitdir, "f-9") == [4, 5]
    assert [flow.revision for flow in (history.at_revision(lab.repo, lab.head, "f-9", 4),)] == [4]
    assert lab.commit(Import, "f-9", document=lab.store.flow("f-9")).commit is None
    clean(lab, 4)
    assert log(lab, "f-9")[-1] == "f-9 r4 import: from elsewhere"


def test_an_imported_flow_that_had_ended_stands_in_the_archive(lab):
    ended = imported_flow(status="done", result_ref="out/x", next_action=None, children=())
    lab.commit(Import, "f-9", document=ended)
    assert lab.shown(archive_path("f-9")) == codec.encode(ended)
    clean(lab, 3)


def test_edits_by_hand_are_listed_and_are_no_problem(lab):
    one = lab.by_hand(lab.edited(revision=2))
    lab.by_hand(Change("README.md", b"hello\n"))
    lab.update("x")
    two = lab.by_hand(lab.edited(revision=9, goal="other"), Change("keys/zz", b"?"))
    lab.note("y")
    assert clean(lab, 7).unmanaged == [two, one]


def test_a_range_of_commits_is_replayed_alone(lab):
    start = lab.head
    lab.update("one")
    middle = lab.head
    lab.update("two")
    forge(lab, flow=b"forged\n")
    assert history.verify(lab.repo, middle, start).commits == 1
    assert history.verify(lab.repo, middle, start).problems == []
    assert history.verify(lab.repo, lab.head, middle).commits == 1
    assert len(history.verify(lab.repo, lab.head, middle).problems) == 1
    assert history.verify(lab.repo, lab.head, lab.head).commits == 0


def test_progress_is_told_for_each_commit(lab):
    lab.update("one")
    told = []
    history.verify(lab.repo, lab.head, progress=told.append)
    assert told == [1, 2, 3]


@pytest.mark.req("L11", "R-TF-06")
def test_the_first_commit_of_a_shallow_clone_is_taken_as_given(lab, tmp_path):
    for number in range(6):
        lab.update(f"step {number}")
    git(tmp_path, "clone", "-q", "--depth", "3", f"file://{lab.gitdir}", tmp_path / "shallow")
    with Repository.open(tmp_path / "shallow") as repo:
        head = Store(repo).head()
        report = history.verify(repo, head.oid)
        assert (report.commits, report.problems, report.shallow) == (3, [], True)
        assert Store(repo).flow("f-1").revision == 7
        found = [step.trailers["Revision"] for step in history.of_flow(repo, head.oid, "f-1")]
        assert found == ["7", "6", "5"]
        assert history.at_revision(repo, head.oid, "f-1", 5).progress == "step 3"
        with pytest.raises(NotFound):
            history.at_revision(repo, head.oid, "f-1", 2)
        assert history.changes(repo, head, lab.repo.commit(head.oid).parents[0]).known
        assert not history.changes(repo, head, "0" * 40).known
    assert not lab.verify().shallow


@pytest.mark.req("L11")
def test_a_shallow_clone_that_was_cut_at_an_edit_by_hand_is_read(lab, tmp_path):
    lab.create("f-2")
    lab.by_hand(lab.edited(revision=5, progress="by hand"))
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{lab.gitdir}", tmp_path / "shallow")
    with Repository.open(tmp_path / "shallow") as repo:
        store = Store(repo)
        assert store.flow("f-1").progress == "by hand"
        assert [flow.id for flow in store.flows()] == ["f-1", "f-2"]
        report = history.verify(repo, store.head().oid)
        assert (report.commits, report.problems, report.shallow) == (1, [], True)


# ── the audit: what is not ──────────────────────────────────────────────────────────────────────


def forge(lab, *, flow=None, message=None, tree=None, parent=None, base=MAIN):
    """Put a commit on main that is like the newest, with another blob, message or parent."""
    text = git(lab.gitdir, "log", "-1", "--format=%B", base)
    if flow is not None:
        blob = git(lab.gitdir, "hash-object", "-w", "--stdin", data=flow)
        tree = replaced(lab, base, flow_path("f-1"), blob)
    text = text if message is None else message(text)
    forged = git(
        lab.gitdir,
        *("commit-tree", tree or f"{base}^{{tree}}", "-p", parent or f"{base}~", "-F", "-"),
        data=text.encode() + b"\n",
    )
    git(lab.gitdir, "update-ref", MAIN, forged)
    return forged


def replaced(lab, base, path, blob):
    """Return the tree of a commit with another blob at a path."""
    folders, name = path.split("/")[:-1], path.split("/")[-1]
    below = git(lab.gitdir, "ls-tree", f"{base}:{'/'.join(folders)}").splitlines()
    lines = [line for line in below if not line.endswith(f"\t{name}")]
    lines.append(f"100644 blob {blob}\t{name}")
    tree = git(lab.gitdir, "mktree", data="\n".join(lines).encode() + b"\n")
    while folders:
        name = folders.pop()
        above = git(lab.gitdir, "ls-tree", f"{base}:{'/'.join(folders)}").splitlines()
        lines = [line for line in above if not line.endswith(f"\t{name}")]
        lines.append(f"040000 tree {tree}\t{name}")
        tree = git(lab.gitdir, "mktree", data="\n".join(lines).encode() + b"\n")
    return tree


def problems(lab):
    lab.repo.close()
    return {found["commit"]: found["problem"] for found in lab.verify().problems}


@pytest.mark.req("R-TF-12")
def test_a_tampered_document_is_reported_with_its_commit(lab):
    lab.update("half way")
    content = lab.shown(flow_path("f-1")).replace(b"half way", b"finished")
    forged = forge(lab, flow=content)
    lab.note("and on")
    found = problems(lab)
    assert found == {forged: f"{flow_path('f-1')} differs from what its operation gives"}
    assert lab.shown(flow_path("f-1"), forged) == content


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("Revision: 2", "Revision: 3"), "trailers do not agree"),
        (lambda text: text.replace("Status: running", "Status: done"), "trailers do not agree"),
        (lambda text: text.replace("Flow: f-1", "Flow: f-2"), "trailers do not agree"),
        (lambda text: text.replace("Actor: ann", "Actor: bob"), "trailers do not agree"),
        (lambda text: text.replace("half way", "finished"), "differs from what its operation"),
        (lambda text: text.replace('"op":"update"', '"op":"upgrade"'), "no operation is called"),
        (lambda text: text.replace('"progress":', '"colour":'), "colour"),
        (lambda text: text.replace('"flow":"f-1"', '"flow":"f-2"'), "trailers do not agree"),
        (lambda text: text.replace('"by":"ann"', '"by":7'), "by"),
        (lambda text: re.sub("Gfs-Op: .*", "Gfs-Op: {", text), "JSON"),
        (lambda text: re.sub("Gfs-Op: .*", "Gfs-Op: []", text), "no operation is called"),
        (lambda text: text.replace('"op":"update"', '"op":"note"'), "progress"),
        (lambda text: text.replace("Gfs-Rules: 1", "Gfs-Rules: 2"), "rule set 2"),
    ],
)
def test_a_message_that_does_not_fit_is_reported_with_its_commit(lab, change, says):
    lab.update("half way")
    forged = forge(lab, message=change)
    found = problems(lab)
    assert list(found) == [forged]
    assert says in found[forged]


def test_a_change_that_the_operation_does_not_name_is_reported(lab):
    lab.create("f-2")
    lab.update("half way")
    for path in (flow_path("f-2"), "keys/zz.json", "plans/x/y.json"):
        forged = imported(
            lab.gitdir,
            put(flow_path("f-1"), lab.document()),
            Change(path, b"{}"),
            text=git(lab.gitdir, "log", "-1", "--format=%B", MAIN).encode() + b"\n",
            parents=(f"{MAIN}~",),
        )
        assert problems(lab) == {forged: f"update does not account for {path}"}
        git(lab.gitdir, "update-ref", MAIN, f"{MAIN}~")
        lab.update("half way")


def test_a_cherry_picked_commit_is_reported(lab, tmp_path):
    lab.update("one")
    picked = lab.head
    lab.update("two")
    clone = lab.clone()
    git(clone, "cherry-pick", "--allow-empty", "-X", "theirs", picked)
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.head == git(clone, "rev-parse", "HEAD")
    assert list(problems(lab)) == [lab.head]


def test_an_amended_commit_is_reported(lab):
    lab.update("one")
    clone = lab.clone()
    path = clone / flow_path("f-1")
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))
    git(clone, "commit", "-q", "-a", "--amend", "--no-edit")
    git(lab.gitdir, "config", "receive.denyNonFastForwards", "false")
    git(clone, "push", "-q", "--force", "origin", "HEAD:main")
    assert list(problems(lab)) == [lab.head]


def test_a_text_that_is_not_in_the_tree_is_reported(lab):
    lab.update(LARGE)
    content = lab.shown(flow_path("f-1")).replace(b"A line", b"A lime")
    forged = forge(lab, flow=content)
    assert problems(lab)[forged].endswith("is not in the commit's tree")


def test_an_object_that_is_missing_is_reported_and_the_rest_replayed(lab):
    lab.update("one")
    middle = lab.head
    gone = git(lab.gitdir, "rev-parse", f"{MAIN}:{flow_path('f-1')}")
    lab.update("two")
    lab.create("f-2")
    loose(lab.repo, gone).unlink()
    documents._memo.clear()
    found = problems(lab)
    assert set(found) == {middle, git(lab.gitdir, "rev-parse", f"{MAIN}~")}
    assert all(gone in said for said in found.values())


def test_a_message_that_a_person_gave_trailers_of_ours_is_no_operation_of_ours(lab):
    text = git(lab.gitdir, "log", "-1", "--format=%B", MAIN)
    odd_ones = (
        text + "\nSigned-off-by: A <a@b>",
        text.replace("Revision: 1\n", ""),
        text.replace("Gfs-Rules: 1", "Gfs-Rules: one"),
        text.replace("Actor: ann", "Actor: ann\nActor: ann"),
        "Revert it\n\n" + text + "\n\nThis reverts all.",
    )
    for odd in odd_ones:
        lab.by_hand(lab.edited(revision=lab.document()["revision"] + 1), text=odd.encode())
    report = clean(lab)
    assert len(report.unmanaged) == len(odd_ones)
    assert lab.store.is_unmanaged("f-1")


def test_history_is_read_along_first_parents_whatever_a_merge_brings(lab):
    start = lab.head
    side = imported(
        lab.gitdir, Change("keys/zz.json", b"?"), ref="refs/heads/side", parents=(start,)
    )
    lab.update("x")
    tree = git(lab.gitdir, "rev-parse", f"{side}^{{tree}}")
    both = merged(lab, lab.head, side, tree)
    git(lab.gitdir, "update-ref", MAIN, both)
    assert changes(lab, side)[1] is True  # its governed trees are those of the merge
    assert lab.store.flow("f-1").revision == 1
