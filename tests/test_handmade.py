"""Edits by hand: people who clone, edit, pull, revert and push; what is judged, and when.

The single hazards of content by others are in `hazards/test_d.py`.
"""

from __future__ import annotations

import json
import re

import pytest
from flowrepo import Change, Lab, imported, made, put, revisions
from gitrepo import MAIN, git

from gitflowstate import handmade
from gitflowstate.errors import Corrupt, Rejected, Stale
from gitflowstate.git import Repository
from gitflowstate.model import FORMAT_PATH, UNUSABLE_PATH, archive_path, flow_path
from gitflowstate.ops import Adopt, Update
from gitflowstate.store import Store


@pytest.fixture
def lab(tmp_path):
    found = Lab(tmp_path / "work")
    found.create()
    found.create("f-2")
    yield found
    found.repo.close()


def adopt(lab, flow="f-1"):
    return lab.commit(Adopt, flow, reason="looks right")


def entries(lab):
    """Return what unusable.json says at the head: the last managed revision by flow."""
    if not git(lab.gitdir, "ls-tree", MAIN, UNUSABLE_PATH):
        return {}
    found = json.loads(lab.shown(UNUSABLE_PATH))["flows"]
    return {entry["flow"]: entry["revision"] for entry in found}


def unusable(lab, flow="f-1"):
    """Check that a flow is refused to every reader and writer, and that the other one works."""
    for act in (
        lambda: lab.store.flow(flow),
        lambda: lab.update("x", flow),
        lambda: lab.note("x", flow),
        lambda: lab.store.preview(made(Update, flow, progress="x")),
    ):
        with pytest.raises(Corrupt) as refused:
            act()
        assert refused.value.code == 6
    other = "f-2" if flow == "f-1" else "f-1"
    revision = lab.store.flow(other).revision
    assert lab.note("works", other).flow.revision == revision + 1
    usable = [item.id for item in lab.store.flows(archived=True) if hasattr(item, "id")]
    assert flow not in usable
    assert other in usable


# ── ordinary clones ─────────────────────────────────────────────────────────────────────────────


def edit(clone, **changes):
    """Change fields of f-1 in a clone's work tree, and commit."""
    path = clone / flow_path("f-1")
    document = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    git(clone, "commit", "-q", "-a", "-m", "by hand")


def readme(clone, text="hello\n"):
    (clone / "README.md").write_text(text)
    git(clone, "add", "README.md")
    git(clone, "commit", "-q", "-m", "a readme")


@pytest.mark.req("D1")
def test_an_edit_in_a_clone_is_pushed_used_and_built_upon(lab):
    clone = lab.clone()
    edit(clone, revision=2, progress="by hand")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.store.flow("f-1").progress == "by hand"
    assert lab.store.is_unmanaged("f-1")
    assert not lab.store.is_unmanaged("f-2")
    assert lab.update("by gfs").flow.revision == 3
    assert not lab.store.is_unmanaged("f-1")
    assert entries(lab) == {}
    git(clone, "pull", "-q", "--ff-only", "origin", "main")
    edit(clone, revision=4, progress="again")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.store.flow("f-1").revision == 4
    lab.sound()
    assert len(lab.verify().unmanaged) == 2


@pytest.mark.req("D5")
@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
def test_a_readme_that_is_pulled_and_pushed_beside_our_writes_changes_no_flow(lab, how):
    clone = lab.clone()
    readme(clone)
    lab.update("meanwhile")
    git(clone, "pull", "-q", how, "--no-edit", "origin", "main")
    git(clone, "push", "-q", "origin", "HEAD:main")
    parents = git(lab.gitdir, "log", "-1", "--format=%P", MAIN).split()
    assert len(parents) == (2 if how == "--no-rebase" else 1)
    assert not lab.store.is_unmanaged("f-1")
    assert lab.update("more").flow.revision == 3
    report = lab.verify()
    assert (report.problems, report.unmanaged) == ([], [])
    assert report.commits == 6  # of a merge, the side that equals it
    lab.sound()


@pytest.mark.req("D5")
@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
def test_edits_of_another_flow_are_pulled_and_pushed_beside_our_writes(lab, how):
    clone = lab.clone()
    edit(clone, revision=2, progress="by hand")
    lab.update("meanwhile", "f-2")
    git(clone, "pull", "-q", how, "--no-edit", "origin", "main")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert (lab.store.flow("f-1").progress, lab.store.flow("f-2").progress) == (
        "by hand",
        "meanwhile",
    )
    assert lab.update("x").flow.revision == 3
    assert lab.update("y", "f-2").flow.revision == 3
    assert entries(lab) == {}
    assert lab.verify().problems == []
    lab.sound()


def test_a_push_that_is_behind_is_refused_by_the_repository(lab):
    clone = lab.clone()
    edit(clone, revision=2, progress="by hand")
    lab.update("first")
    head = lab.head
    git(clone, "push", "-q", "origin", "HEAD:main", check=False)
    git(clone, "push", "-q", "--force", "origin", "HEAD:main", check=False)
    git(clone, "push", "-q", "origin", ":main", check=False)
    assert lab.head == head
    assert lab.update("second").flow.revision == 3


@pytest.mark.req("L10")
def test_a_clone_with_other_line_ends_pushes_canonical_ones(lab):
    clone = lab.clone("windows", "-c", "core.autocrlf=true")
    path = clone / flow_path("f-1")
    assert b"\r\n" in path.read_bytes()
    changed = re.sub(rb'"revision": 1', b'"revision": 2', path.read_bytes())
    path.write_bytes(changed)
    git(clone, "commit", "-q", "-a", "-m", "by hand")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert b"\r" not in lab.shown(flow_path("f-1"))
    assert lab.store.flow("f-1").revision == 2
    lab.sound()


@pytest.mark.req("D2", "G9")
def test_a_revert_of_our_commit_is_an_edit_by_hand_and_not_undone(lab):
    lab.update("a mistake")
    clone = lab.clone()
    git(clone, "revert", "--no-edit", "HEAD")
    git(clone, "push", "-q", "origin", "HEAD:main")
    reverted = lab.head
    with pytest.raises(Corrupt, match="its last managed revision is 2"):
        lab.store.flow("f-1")
    unusable(lab)
    assert lab.document()["revision"] == 1
    assert git(lab.gitdir, "merge-base", "--is-ancestor", reverted, MAIN) == ""
    assert adopt(lab).flow.revision == 3
    assert lab.store.flow("f-1").progress is None or lab.store.flow("f-1").progress == ""
    assert entries(lab) == {}
    lab.sound()


@pytest.mark.req("D2", "G9")
def test_a_revert_of_the_revert_mends_it(lab):
    lab.update("right after all")
    clone = lab.clone()
    git(clone, "revert", "--no-edit", "HEAD")
    git(clone, "push", "-q", "origin", "HEAD:main")
    unusable(lab)
    assert entries(lab) == {"f-1": 2}
    git(clone, "pull", "-q", "--rebase", "origin", "main")
    git(clone, "revert", "--no-edit", "HEAD~2")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.store.flow("f-1").progress == "right after all"
    assert lab.update("on").flow.revision == 3
    assert entries(lab) == {}
    lab.sound()


@pytest.mark.req("G9", "D3")
def test_a_branch_that_a_person_moves_back_stays_there(lab):
    lab.update("one")
    lab.update("two")
    git(lab.gitdir, "update-ref", MAIN, f"{MAIN}~")
    assert lab.store.flow("f-1").progress == "one"
    lab.note("on from there")
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3]
    assert lab.store.flow("f-1").progress == "one"
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("D5")
def test_an_observation_that_a_merge_brings_in_is_no_edit_by_hand(lab):
    """A person has an unpushed edit while ours records that another flow fell, and pulls."""
    lab.create("f-3")
    lab.update("x", "f-3")
    clone = lab.clone()
    edit(clone, revision=2, progress="by hand")
    lab.by_hand(lab.edited("f-3", revision=1))
    lab.update("meanwhile", "f-2")
    assert entries(lab) == {"f-3": 2}
    git(clone, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(clone, "push", "-q", "origin", "HEAD:main")
    commits = lab.verify().commits
    assert lab.store.flow("f-1").progress == "by hand"
    with pytest.raises(Corrupt, match="f-3 was edited by hand"):
        lab.store.flow("f-3")
    assert lab.update("on").flow.revision == 3
    assert lab.verify().commits == commits + 1  # nothing new to observe
    assert entries(lab) == {"f-3": 2}
    assert adopt(lab, "f-3").flow.revision == 3
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("D5")
def test_a_flow_that_a_person_mended_while_its_fall_was_recorded_stays_mended(lab):
    """A merge brings in the record from the other line: the flow does not fall by the next op."""
    lab.by_hand(lab.edited("f-1", goal="other"))
    clone = lab.clone()
    git(clone, "revert", "--no-edit", "HEAD")
    lab.update("meanwhile", "f-2")
    assert entries(lab) == {"f-1": 1}
    git(clone, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.store.flow("f-1").revision == 1
    lab.update("on", "f-2")
    assert entries(lab) == {}
    assert lab.update("on").flow.revision == 2
    assert lab.verify().problems == []
    lab.sound()


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({"revision": 6, "progress": "new"}, True),
        ({"revision": 6}, True),
        ({"revision": 99}, True),
        ({"revision": 5, "progress": "new"}, False),
        ({"revision": 4}, False),
        ({"revision": 1, "progress": "new"}, False),
        ({"revision": 6, "status": "done"}, False),  # belongs in the archive, with a result
        ({"revision": 6, "colour": "red"}, False),
        ({"revision": 6, "goal": None}, False),
        ({"revision": "6"}, False),
        ({"revision": 6, "id": "f-2"}, False),
    ],
)
@pytest.mark.req("D1", "D2")
def test_what_counts_is_the_document_at_the_head(lab, changes, used):
    for number in range(2, 6):
        lab.update(f"step {number}")
    lab.by_hand(lab.edited(**changes))
    if used:
        assert lab.store.flow("f-1").revision == changes["revision"]
        assert lab.store.is_unmanaged("f-1")
        lab.note("x", "f-2")
        assert entries(lab) == {}
        assert lab.note("x").flow.revision == changes["revision"] + 1
    else:
        unusable(lab)
        assert entries(lab) == {"f-1": 5}
    assert lab.verify().problems == []
    lab.sound()


def test_only_the_last_of_several_edits_by_hand_counts(lab):
    lab.update("x")
    document = lab.document()
    lab.by_hand(lab.edited(revision=1))
    lab.by_hand(Change(flow_path("f-1"), b"?"))
    lab.by_hand(Change(flow_path("f-1"), None))
    lab.by_hand(put(flow_path("f-1"), document | {"revision": 3, "progress": "settled"}))
    assert lab.store.flow("f-1").progress == "settled"
    lab.note("x", "f-2")
    assert entries(lab) == {}
    assert len(lab.verify().unmanaged) == 4


def test_the_same_document_in_another_layout_is_other_content(lab):
    flat = json.dumps(lab.document()).encode()
    lab.by_hand(Change(flow_path("f-1"), flat))
    unusable(lab)
    lab.by_hand(Change(flow_path("f-1"), flat.replace(b'"revision": 1', b'"revision": 2')))
    assert lab.note("x").flow.revision == 3  # any layout is read; ours is written
    assert lab.shown(flow_path("f-1")).startswith(b'{\n  "schema_version": 1,\n')


def test_a_flow_that_a_person_made_is_used_at_whatever_revision(lab):
    document = {**lab.document(), "id": "f-7", "revision": 40}
    lab.by_hand(put(flow_path("f-7"), document))
    assert lab.store.flow("f-7").revision == 40
    assert lab.store.is_unmanaged("f-7")
    assert lab.note("x", "f-7").flow.revision == 41
    assert [flow.id for flow in lab.store.flows()] == ["f-1", "f-2", "f-7"]


def test_a_flow_that_was_ended_by_hand_in_the_right_place_is_used(lab):
    ended = {**lab.document(), "revision": 2, "status": "done", "result_ref": "out/x"}
    lab.by_hand(Change(flow_path("f-1"), None), put(archive_path("f-1"), ended))
    assert lab.store.flow("f-1").status == "done"
    with pytest.raises(Rejected, match="f-1 is done at r2"):
        lab.update("x")
    assert lab.verify().problems == []


# ── the record ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D2")
def test_the_first_write_after_a_fall_records_it_once(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=1))
    told = []
    store = Store(lab.repo, published=lambda *what: told.append(what))
    store.commit(made(Update, "f-2", progress="on"))
    assert lab.messages()[:3] == ["f-2 r2 update: on", "observe", "by hand"]
    assert git(lab.gitdir, "log", "-1", "--format=%an", f"{MAIN}~") == "gfs"
    assert [list(changes) for _, _, changes in told] == [[UNUSABLE_PATH], [flow_path("f-2")]]
    lab.note("y", "f-2")
    assert lab.messages()[0] == "f-2 r3 note: y"
    assert lab.messages()[1] == "f-2 r2 update: on"
    assert lab.verify().problems == []


def test_a_refused_op_records_it_too(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=1))
    with pytest.raises(Corrupt, match="last managed revision is 2"):
        lab.update("y")
    assert lab.messages()[0] == "observe"
    assert entries(lab) == {"f-1": 2}
    with pytest.raises(Corrupt):
        lab.update("y")
    assert lab.messages()[0] == "observe"
    assert len(lab.messages()) == 6


def test_a_refusal_names_the_ways_out_and_forces_nothing(lab):
    lab.by_hand(lab.edited(goal="other"))
    with pytest.raises(Corrupt) as refused:
        lab.store.flow("f-1")
    assert refused.value.hint == "gfs adopt f-1 --reason REASON, or revert that commit"
    assert refused.value.details["next"] == ["gfs", "adopt", "f-1", "--reason", "REASON"]


def test_adoption_takes_the_revision_after_the_last_managed_one(lab):
    for number in range(2, 6):
        lab.update(f"step {number}")
    lab.by_hand(lab.edited(revision=2, progress="by hand"))
    with pytest.raises(Stale, match="r2, not r5"):
        lab.commit(Adopt, reason="looks right", expect=5)
    with pytest.raises(Stale, match="owned by ann"):
        lab.commit(Adopt, reason="looks right", by="mallory")
    outcome = adopt(lab)
    assert (outcome.flow.revision, outcome.flow.progress) == (6, "by hand")
    assert entries(lab) == {}
    assert adopt(lab).commit is None
    assert lab.note("x").flow.revision == 7
    assert revisions(lab.gitdir, "f-1") == [1, 2, 3, 4, 5, 6, 7]
    assert lab.verify().problems == []
    lab.sound()


def test_adoption_right_after_the_edit_needs_no_other_write(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=2, progress="by hand"))
    assert lab.store.preview(made(Adopt, reason="r")).flow.revision == 3
    assert adopt(lab).flow.progress == "by hand"


def test_a_second_fall_keeps_the_first_record(lab):
    for number in range(2, 6):
        lab.update(f"step {number}")
    lab.by_hand(lab.edited(revision=3))
    lab.note("x", "f-2")
    lab.by_hand(lab.edited(revision=4))
    unusable(lab)
    assert entries(lab) == {"f-1": 5}
    lab.by_hand(lab.edited(revision=6))
    assert lab.store.flow("f-1").revision == 6
    lab.note("x", "f-2")
    assert entries(lab) == {}
    assert [subject for subject in lab.messages() if subject == "observe"] == ["observe"] * 2


def test_two_flows_may_fall_at_once_and_are_mended_apart(lab):
    lab.update("x")
    lab.update("x", "f-2")
    lab.create("f-3")
    documents = lab.document(), lab.document("f-2")
    lab.by_hand(lab.edited(revision=1), lab.edited("f-2", revision=1))
    lab.note("x", "f-3")
    assert entries(lab) == {"f-1": 2, "f-2": 2}
    lab.by_hand(put(flow_path("f-1"), documents[0]))
    lab.note("x", "f-3")
    assert entries(lab) == {"f-2": 2}
    assert adopt(lab, "f-2").flow.revision == 3
    assert not git(lab.gitdir, "ls-tree", MAIN, UNUSABLE_PATH)
    lab.sound()


@pytest.mark.req("D2")
def test_a_preview_on_edits_by_hand_says_what_the_commit_then_does(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=1), lab.edited("f-2", revision=5))
    head = lab.head
    foreseen = lab.store.preview(made(Update, "f-2", progress="on"))
    with pytest.raises(Corrupt) as foretold:
        lab.store.preview(made(Update, progress="on"))
    assert lab.head == head
    with pytest.raises(Corrupt) as told:
        lab.update("on")
    happened = lab.update("on", "f-2")
    assert foretold.value.message == told.value.message
    assert foreseen.flow == happened.flow
    assert dict(foreseen.changes) == dict(happened.changes)
    assert foreseen.message == happened.message


def test_a_rival_who_records_it_first_is_built_upon(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=1))
    real = lab.repo.publish

    def publish(*arguments):
        lab.repo.publish = real
        with Repository.open(lab.gitdir, writing=True) as other:
            Store(other).commit(made(Update, "f-2", progress="the rival's"))
        return real(*arguments)

    lab.repo.publish = publish
    assert lab.update("mine", "f-2").flow.revision == 3
    assert lab.messages()[:4] == [
        "f-2 r3 update: mine",
        "f-2 r2 update: the rival's",
        "observe",
        "by hand",
    ]


def test_what_a_person_pushes_while_it_is_recorded_is_judged_too(lab):
    """A second edit by hand lands between the look at the first and its record."""
    lab.update("x")
    lab.update("x", "f-2")
    lab.by_hand(lab.edited(revision=1))
    real = lab.repo.publish

    def publish(*arguments):
        lab.repo.publish = real
        lab.by_hand(lab.edited("f-2", revision=1, progress="fallen"))
        return real(*arguments)

    lab.repo.publish = publish
    with pytest.raises(Corrupt, match="f-2 was edited by hand"):
        lab.update("mine", "f-2")
    assert entries(lab) == {"f-1": 2, "f-2": 2}


# ── what no person may edit ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [UNUSABLE_PATH, FORMAT_PATH])
def test_the_list_of_the_fallen_and_the_mark_are_not_edited_by_hand(lab, path):
    lab.by_hand(Change(path, b'{\n  "schema_version": 1,\n  "flows": []\n}\n'))
    for act in (lambda: lab.update("x"), lambda: lab.store.preview(made(Update, progress="x"))):
        with pytest.raises(Corrupt, match=f"{path} was edited by hand after"):
            act()
    assert lab.store.flow("f-1").revision == 1  # reading goes on
    lab.by_hand(Change(path, None if path == UNUSABLE_PATH else b'{\n  "format": 1\n}\n'))
    assert lab.update("x").flow.revision == 2


def test_a_fallen_flow_is_not_mended_by_editing_the_list(lab):
    lab.update("x")
    lab.by_hand(lab.edited(revision=1))
    lab.note("x", "f-2")
    lab.by_hand(Change(UNUSABLE_PATH, None))
    with pytest.raises(Corrupt, match="f-1 was edited by hand"):
        lab.store.flow("f-1")
    with pytest.raises(Corrupt, match=r"unusable\.json was edited"):
        lab.note("x", "f-2")


# ── the parts ───────────────────────────────────────────────────────────────────────────────────


def test_the_base_is_the_last_commit_of_ours(lab):
    ours = lab.head
    assert handmade.base(lab.repo, ours).oid == ours
    one = lab.by_hand(Change("README.md", b"x\n"))
    two = lab.by_hand(lab.edited(revision=2))
    assert handmade.base(lab.repo, two).oid == ours
    assert [c.oid for c in handmade.unmanaged(lab.repo, ours, two)] == [two, one]
    assert list(handmade.unmanaged(lab.repo, ours, ours)) == []
    root = imported(lab.gitdir, Change("x", b"x"), ref="refs/heads/other", parents=())
    assert handmade.base(lab.repo, root) is None


def test_touched_names_flows_alone_and_each_once(lab):
    old = lab.store.head().tree
    ended = {**lab.document(), "revision": 2, "status": "done", "result_ref": "out/x"}
    lab.by_hand(
        Change(flow_path("f-1"), None),
        put(archive_path("f-1"), ended),
        Change("flows/readme.txt", b"x"),
        Change("flows/zz/f-9.json", b"x"),  # in another's folder
        Change(flow_path("f-8"), b"x"),
        Change("plans/zz/x.json", b"x"),
        Change("README.md", b"x"),
    )
    assert handmade.touched(lab.repo, old, lab.store.head().tree) == ["f-1", "f-8"]
    assert handmade.touched(lab.repo, None, old) == ["f-1", "f-2"]
