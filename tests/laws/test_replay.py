"""The law, on disk: every commit that a store makes replays, whatever was asked of it.

Random histories go through a real repository, with edits by hand among them; C git and the audit
look at what came of it, and a model in memory says what it should be.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import strategies
from flowrepo import Lab, revisions
from gitrepo import MAIN, fsck, git
from hypothesis import event, given, settings
from hypothesis import strategies as st
from scaling import scale

from gitflowstate import codec, documents, history, machine
from gitflowstate.boundary import EVERY
from gitflowstate.errors import Blocked, Corrupt, Invalid, NotFound, Rejected, Stale
from gitflowstate.governed import GOVERNED
from gitflowstate.history import Report, Step
from gitflowstate.message import decode_trailers
from gitflowstate.model import Flow, Value
from gitflowstate.objects import object_id
from gitflowstate.ops import FlowOp
from gitflowstate.syscalls import calls
from gitflowstate.taskops import TaskAdd
from gitflowstate.union import UNION

REFUSED = (Rejected, Invalid, Stale, NotFound, Corrupt, Blocked)
on_flows = [kind for kind in UNION if issubclass(kind, FlowOp)]


@contextmanager
def unsynced():
    """Let nothing wait for the disk: these laws are not about power cuts."""
    real = calls.fsync
    calls.fsync = lambda _descriptor: None
    try:
        yield
    finally:
        calls.fsync = real


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A repository with two flows, one of them with tasks, to begin each history with."""
    lab = Lab(tmp_path_factory.mktemp("law") / "work")
    lab.create("f-1", owner="local")
    lab.create("f-2", goal="g", owner="local")
    for task in ("t1", "t2", "t10"):
        lab.commit(TaskAdd, "f-1", task=task, goal="one", deps=() if task == "t1" else ("t1",))
    lab.repo.close()
    return lab


@contextmanager
def copied(template):
    with tempfile.TemporaryDirectory() as folder, unsynced():
        shutil.copytree(template.folder, Path(folder) / "work")
        lab = Lab(Path(folder) / "work", made=False)
        yield lab
        lab.repo.close()


def tree(lab) -> dict[str, str]:
    """Return path and blob of every governed file at the head, as C git lists them."""
    told = git(lab.gitdir, "ls-tree", "-r", "-z", MAIN, *GOVERNED)
    entries = (line.split("\t") for line in told.split("\0") if line)
    return {path: about.split()[2] for about, path in entries}


class Model:
    """The documents that the ops should have left, and how often each flow was changed."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.documents: dict[str, Value] = {
            path: documents.read(lab.repo, lab.store.head().tree, path) for path in tree(lab)
        }
        self.changes = 0

    def ask(self, op: Any) -> None:
        """Do the same in memory and on disk, and compare the answers."""
        head = self.lab.repo.ref(MAIN)
        try:
            outcome = self.lab.store.commit(op)
        except REFUSED as error:
            said = type(error)
        else:
            said = outcome.commit is not None
        try:
            state = {path: self.documents.get(path) for path in machine.reads(op)}
            after = machine.apply(codec.checked(op), state)
        except REFUSED as error:
            should = type(error)
        else:
            should = after is not state
            for path, value in after.items() if should else ():
                self.documents[path] = value
                if value is None:
                    del self.documents[path]
        event(f"{op.TAG}: {said}")
        assert said == should
        assert (self.lab.repo.ref(MAIN) != head) == (said is True)
        self.changes += said is True

    def edit(self, flow: str, jump: int) -> None:
        """Let a person raise a flow's revision by hand, in another layout."""
        for path in machine.places(flow):
            old = self.documents.get(path)
            if isinstance(old, Flow):
                new = old.replace(revision=old.revision + jump, progress="by hand")
                raw = json.dumps(codec.to_json(new)).encode()
                head = self.lab.repo.ref(MAIN)
                staged = self.lab.repo.stage(self.lab.store.head().tree, {path: raw})
                commit = self.lab.repo.commit_object(staged, [head], b"by hand\n", "ann", 1)
                assert self.lab.repo.publish(MAIN, head, commit, "by hand")
                self.documents[path] = new


local = {"expect": st.none(), "by": st.just("local")}
gentle = [kind for kind in on_flows if kind.TAG not in ("create", "import", "done", "fail", "plan")]
asked = st.one_of(
    strategies.operations(*on_flows),
    strategies.operations(*on_flows, **local),
    strategies.operations(*gentle, **local, flow=st.just("f-1")),
    strategies.operations(*gentle, **local, flow=st.just("f-1"), task=st.just("t1")),
)
by_hand = st.tuples(st.sampled_from(["f-1", "f-2"]), st.integers(1, 3))


@pytest.mark.req("R-TF-05", "R-TF-15", "R-TF-27", "R-TF-29")
@settings(max_examples=scale(25))
@given(st.lists(asked | asked | asked | by_hand, min_size=4, max_size=16))
def test_every_history_replays_and_the_head_is_the_model(template, wanted):
    with copied(template) as lab:
        model = Model(lab)
        for item in wanted:
            if isinstance(item, tuple):
                model.edit(*item)
            else:
                model.ask(item.replace(allow_secret="words"))
        hand_made = {
            path for path, value in model.documents.items() if is_unwritten(lab, path, value)
        }
        for path, oid in tree(lab).items():
            if path not in hand_made:
                assert oid == object_id("blob", codec.encode(model.documents[path])), path
        assert tree(lab).keys() == model.documents.keys()
        documents._memo.clear()
        report = lab.verify()
        assert report.problems == []
        assert report.commits == 6 + model.changes + len(report.unmanaged)
        fsck(lab.gitdir)
        rises(lab, [item for item in wanted if isinstance(item, tuple)])


def is_unwritten(lab, path, value) -> bool:
    """Tell whether a document stands as a person wrote it, which is equal but not canonical."""
    data = lab.shown(path) if isinstance(value, Flow) and value.progress == "by hand" else b"{\n"
    return not data.startswith(b"{\n") and codec.decode(Flow, data) == value


def rises(lab, edits) -> None:
    """Check that each commit of a flow has the revision after the last, but for edits by hand."""
    for flow in ("f-1", "f-2"):
        told = revisions(lab.gitdir, flow)
        jumps = [later - earlier for earlier, later in pairwise(told)]
        assert all(jump > 0 for jump in jumps)
        if not any(edited == flow for edited, _ in edits):
            assert set(jumps) <= {1}
        found = [step for step in history.of_flow(lab.repo, lab.head, flow) if step.trailers]
        assert [int(step.trailers["Revision"]) for step in found] == told[::-1]


@pytest.mark.req("R-TF-29")
@settings(max_examples=scale(10))
@given(st.lists(asked, min_size=6, max_size=20))
def test_a_flow_as_it_was_is_found_at_every_revision(template, wanted):
    with copied(template) as lab:
        kept = {}
        for op in wanted:
            try:
                outcome = lab.store.commit(op.replace(allow_secret="words"))
            except REFUSED:
                continue
            if outcome.commit and outcome.flow:
                kept[outcome.flow.id, outcome.flow.revision] = outcome.flow
        documents._memo.clear()
        for (flow, revision), value in kept.items():
            assert history.at_revision(lab.repo, lab.head, flow, revision) == value


@pytest.mark.req("R-TF-06")
@settings(max_examples=scale(5))
@given(st.lists(asked, min_size=3, max_size=10))
def test_a_clone_verifies_as_its_origin_does(template, wanted):
    with copied(template) as lab:
        for op in wanted:
            try:
                lab.store.commit(op.replace(allow_secret="words"))
            except REFUSED:
                continue
        packed = lab.folder.parent / "packed.git"
        git(lab.folder, "clone", "-q", "--bare", f"file://{lab.gitdir}", packed)
        subprocess.run(["git", "-C", packed, "repack", "-adq"], check=True)
        with type(lab.repo).open(packed) as repo:
            assert history.verify(repo, lab.head) == lab.verify()
            there = list(type(lab.store)(repo).flows(archived=True))
            assert there == list(lab.store.flows(archived=True))


# ── whatever a message says ─────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
names = st.sampled_from(
    sorted({name for kind in UNION for name in codec.fields(kind)} | {"op", "colour"})
)
tags = st.sampled_from([kind.TAG for kind in EVERY])
references = st.fixed_dictionaries({"sha256": st.text(max_size=64), "bytes": json_values})


@pytest.fixture(scope="module")
def audited(template):
    """The steps of a small history: an update, one with a text too large for the message."""
    with unsynced():
        lab = Lab(template.folder, made=False)
        steps = [step for step in history.steps(lab.repo, lab.head) if step.parent]
        yield lab, steps
        lab.repo.close()


def spoiled(message: bytes, changes: dict[str, Any], tag: str | None) -> bytes:
    """Return a message whose op is another, in our form all the same."""
    head, _, line = message.rstrip(b"\n").rpartition(b"Gfs-Op: ")
    raw = json.loads(line) | changes
    if tag:
        raw["op"] = tag
    return head + b"Gfs-Op: " + json.dumps(raw).encode() + b"\n"


@settings(max_examples=scale(300))
@given(
    st.integers(0, 4),
    st.dictionaries(names, json_values | references, max_size=3),
    st.none() | tags,
)
def test_the_audit_reports_any_operation_and_raises_nothing(audited, number, changes, tag):
    lab, steps = audited
    step = steps[number]
    message = spoiled(step.commit.message, changes, tag)
    commit = step.commit._replace(message=message)
    report = history._audited(
        lab.repo, Step(commit, step.parent, decode_trailers(message)), Report(0, [], [], False)
    )
    assert report.commits == 1
    same = json.loads(message.rpartition(b"Gfs-Op: ")[2]) == json.loads(
        step.commit.message.rpartition(b"Gfs-Op: ")[2]
    )
    if same:
        assert report.problems == []


@settings(max_examples=scale(200))
@given(st.integers(0, 4), st.binary(max_size=20), st.integers(0, 2000), st.integers(0, 40))
def test_the_audit_reports_any_message_and_raises_nothing(audited, number, junk, at, length):
    lab, steps = audited
    step = steps[number]
    message = step.commit.message[:at] + junk + step.commit.message[at + length :]
    commit = step.commit._replace(message=message)
    report = history._audited(
        lab.repo, Step(commit, step.parent, decode_trailers(message)), Report(0, [], [], False)
    )
    assert report.commits == 1
    assert len(report.problems) + len(report.unmanaged) <= 1
