"""Hazards, part D: Git content by others. Each bad document costs its own flow and nothing else.

Each test ends with one more update that succeeds, no lock left behind, and a C git that is content
with every object, or with all but the odd ones that the test's person stored.
"""

from __future__ import annotations

import json

import pytest
from flowrepo import Change, Lab, imported, made, put
from gitrepo import MAIN, git, store, tree_of

from gitflowstate import documents, history
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, NotFound
from gitflowstate.git import Repository
from gitflowstate.model import UNUSABLE_PATH, Flow, archive_path, flow_path
from gitflowstate.ops import Adopt, Reopen
from gitflowstate.store import Store
from gitflowstate.syscalls import calls


@pytest.fixture
def lab(tmp_path):
    found = Lab(tmp_path / "work")
    for flow in ("f-1", "f-2", "f-3"):
        found.create(flow)
    found.done("f-3")
    yield found
    found.repo.close()


def usable(lab):
    return [item.id for item in lab.store.flows(archived=True) if isinstance(item, Flow)]


def broken(lab):
    """Return what cannot be used: name and reason."""
    items = lab.store.flows(archived=True)
    return {item.path: item.error.message for item in items if isinstance(item, Broken)}


def refuses(lab, flow="f-1", says="f-1"):
    """Check that one flow is corrupt for its readers and writers, and the others are not."""
    for act in (lambda: lab.store.flow(flow), lambda: lab.note("x", flow)):
        with pytest.raises(Corrupt, match=says) as refused:
            act()
        assert refused.value.code == 6
        assert not {"delete", "force", "overwrite"} & set(refused.value.hint.split())
    others = [other for other in ("f-1", "f-2") if other != flow]
    for other in others:
        revision = lab.store.flow(other).revision
        assert lab.note("works", other).flow.revision == revision + 1
    assert lab.store.flow("f-3").status == "done"
    assert usable(lab) == [*others, "f-3"]
    assert len(broken(lab)) == 1


def fallen(lab):
    if not git(lab.gitdir, "ls-tree", MAIN, UNUSABLE_PATH):
        return {}
    entries = json.loads(lab.shown(UNUSABLE_PATH))["flows"]
    return {entry["flow"]: entry["revision"] for entry in entries}


def adopt(lab, flow="f-1"):
    return lab.commit(Adopt, flow, reason="looks right").flow


# ── D1, D2: edits of a document ─────────────────────────────────────────────────────────────────


@pytest.mark.req("D1")
@pytest.mark.parametrize(
    "changes",
    [
        {"status": "running"},
        {"status": "waiting", "waiting": {"reason": "r", "condition": "c", "on": "human"}},
        {"goal": "another", "progress": "by hand", "labels": ["x"]},
    ],
)
def test_d1_a_valid_edit_whose_revision_rose_is_used_and_shown_as_unmanaged(lab, changes):
    seen = lab.head
    lab.by_hand(lab.edited(revision=2, **changes))
    flow = lab.store.flow("f-1")
    assert (flow.revision, flow.status) == (2, changes.get("status", "pending"))
    assert lab.store.is_unmanaged("f-1")
    assert history.changes(lab.repo, lab.store.head(), seen).flows == ["f-1"]
    report = lab.verify()
    assert (report.problems, report.unmanaged) == ([], [lab.head])
    assert lab.note("on").flow.revision == 3
    assert fallen(lab) == {}
    lab.sound()


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    "changes", [{"revision": 5}, {"revision": 7, "progress": "by hand"}, {"revision": 1}]
)
def test_d2_a_revision_that_fell_or_stayed_makes_that_flow_unusable_until_adopted(lab, changes):
    for number in range(2, 8):
        lab.update(f"step {number}")
    lab.by_hand(lab.edited(**changes))
    document = lab.document()
    refuses(lab, says="f-1 was edited by hand: its last managed revision is 7")
    assert lab.document() == document
    assert fallen(lab) == {"f-1": 7}
    assert "observe" in lab.messages()
    assert adopt(lab).revision == 8
    assert lab.document()["progress"] == document["progress"]
    assert (fallen(lab), broken(lab)) == ({}, {})
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("D2", "G9")
def test_d2_a_revert_by_a_person_mends_it(lab):
    lab.update("half way")
    clone = lab.clone()
    path = clone / flow_path("f-1")
    path.write_bytes(path.read_bytes().replace(b"half way", b"by hand"))
    git(clone, "commit", "-q", "-a", "-m", "by hand")
    git(clone, "push", "-q", "origin", "HEAD:main")
    refuses(lab)
    git(clone, "pull", "-q", "--ff-only", "origin", "main")
    git(clone, "revert", "--no-edit", git(clone, "log", "-1", "--format=%H", "--grep=by hand"))
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.store.flow("f-1").progress == "half way"
    assert broken(lab) == {}
    assert lab.note("on").flow.revision == 3
    assert fallen(lab) == {}
    lab.sound()


@pytest.mark.req("D2")
def test_d2_an_unusable_flow_stays_so_over_later_writes_and_processes(lab):
    lab.update("half way")
    lab.by_hand(lab.edited(revision=1))
    for number in range(3):
        lab.note(f"elsewhere {number}", "f-2")
    with Repository.open(lab.gitdir) as repo, pytest.raises(Corrupt):
        Store(repo).flow("f-1")
    refuses(lab)


# ── D3: history that is taken back ──────────────────────────────────────────────────────────────


@pytest.mark.req("D3", "L12")
def test_d3_after_a_force_push_the_flows_stand_as_they_are_and_the_walk_says_so(lab):
    for number in range(4):
        lab.update(f"step {number}")
    seen = lab.head
    git(lab.gitdir, "update-ref", MAIN, f"{MAIN}~3")
    found = history.changes(lab.repo, lab.store.head(), seen)
    assert (found.flows, found.known) == (["f-1", "f-2", "f-3"], False)
    assert lab.store.flow("f-1").progress == "step 0"
    assert lab.note("on").flow.revision == 3
    lab.sound()


# ── D4: what does not decode ────────────────────────────────────────────────────────────────────

MARKERS = b"<<<<<<< HEAD\n%s=======\n%s>>>>>>> theirs\n"


@pytest.mark.req("D4", "R-TF-12", "C-13")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: MARKERS % (data, data),
        lambda data: data[:-40],
        lambda _: b"",
        lambda data: data + data,
        lambda data: data.replace(b"pending", b"complete"),
        lambda data: data.replace(b'"revision": 1', b'"revision": 1, "revision": 2'),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.decode().encode("utf-16"),
        lambda data: data.replace(b"do f-1", b"\xff\xfe"),
        lambda data: b"[" * 10**5 + data,
        lambda data: data.replace(b"do f-1", b"x" * (4 << 20)),
        lambda data: data.replace(b'"f-1"', b'"f-2"'),
    ],
    ids=[
        "markers",
        "torn",
        "empty",
        "twice",
        "status",
        "key",
        "bom",
        "utf-16",
        "latin",
        "deep",
        "large",
        "id",
    ],
)
def test_d4_a_document_that_does_not_decode_is_kept_and_costs_its_flow_alone(lab, spoil):
    data = spoil(lab.shown(flow_path("f-1")))
    lab.by_hand(Change(flow_path("f-1"), data))
    refuses(lab, says=flow_path("f-1"))
    assert lab.shown(flow_path("f-1")) == data
    assert fallen(lab) == {"f-1": 1}
    with pytest.raises(Corrupt):
        adopt(lab)
    assert lab.shown(flow_path("f-1")) == data
    assert lab.verify().problems == []
    lab.sound()


@pytest.mark.req("D4")
def test_d4_a_person_who_settles_the_conflict_mends_the_flow(lab):
    data = lab.shown(flow_path("f-1"))
    lab.by_hand(Change(flow_path("f-1"), MARKERS % (data, data)))
    lab.note("x", "f-2")
    lab.by_hand(Change(flow_path("f-1"), data))
    assert lab.store.flow("f-1").revision == 1
    assert lab.note("on").flow.revision == 2
    assert (fallen(lab), broken(lab)) == ({}, {})
    lab.sound()


@pytest.mark.req("D4")
def test_d4_an_archived_document_or_a_receipt_that_does_not_decode_costs_itself_alone(lab):
    key = "a" * 64
    lab.update("x", key=key, request="b" * 64)
    lab.by_hand(
        Change(archive_path("f-3"), b"?"), Change(f"keys/aa/{key}.json", b"?"), text=b"spoiled\n"
    )
    with pytest.raises(Corrupt, match="archive/"):
        lab.store.flow("f-3")
    with pytest.raises(Corrupt, match="keys/aa/"):
        lab.update("y", key=key, request="b" * 64)
    assert lab.update("y", key="c" * 64, request="d" * 64).flow.revision == 3
    assert usable(lab) == ["f-1", "f-2"]
    assert lab.verify().problems == []
    lab.sound()


# ── D5: merges ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D5")
def test_d5_a_merge_of_edits_to_different_flows_brings_both_once(lab):
    start = lab.head
    one = imported(lab.gitdir, lab.edited(revision=2), ref="refs/heads/one", parents=(start,))
    other = imported(
        lab.gitdir, lab.edited("f-2", revision=2), ref="refs/heads/other", parents=(start,)
    )
    changes = lab.edited(revision=2), lab.edited("f-2", revision=2)
    merge = lab.by_hand(*changes, text=b"Merge other\n", parents=(one, other))
    found = history.changes(lab.repo, lab.store.head(), start)
    assert (found.flows, found.known, found.commits) == (["f-1", "f-2"], True, 2)
    assert history.changes(lab.repo, lab.store.head(), merge).flows == []
    assert (lab.store.flow("f-1").revision, lab.store.flow("f-2").revision) == (2, 2)
    assert lab.verify().unmanaged == [merge, one]
    assert lab.note("on").flow.revision == 3
    lab.sound()


@pytest.mark.req("D5")
@pytest.mark.parametrize(("revision", "used"), [(3, True), (2, True), (1, False)])
def test_d5_a_merge_of_one_flow_is_judged_by_the_merged_document(lab, revision, used):
    start = lab.head
    one = imported(lab.gitdir, lab.edited(revision=2, goal="one"), ref="refs/heads/one")
    other = imported(lab.gitdir, lab.edited(revision=2, goal="other"), ref="refs/heads/other")
    settled = lab.edited(revision=revision, goal="both")
    lab.by_hand(settled, text=b"Merge other\n", parents=(one, other))
    assert git(lab.gitdir, "merge-base", one, other) == start
    if used:
        assert lab.store.flow("f-1").goal == "both"
        assert lab.note("on").flow.revision == revision + 1
    else:
        refuses(lab)
        assert adopt(lab).revision == 2
    lab.sound()


@pytest.mark.req("D5")
def test_d5_a_merge_that_a_person_left_unsettled_costs_that_flow_alone(lab):
    clone = lab.clone()
    path = clone / flow_path("f-1")
    path.write_bytes(path.read_bytes().replace(b'"revision": 1', b'"revision": 2'))
    git(clone, "commit", "-q", "-a", "-m", "by hand")
    lab.update("meanwhile")
    git(clone, "pull", "-q", "--no-rebase", "origin", "main", check=False)
    assert b"<<<<<<<" in path.read_bytes()
    git(clone, "commit", "-q", "-a", "-m", "merged, I think")
    git(clone, "push", "-q", "origin", "HEAD:main")
    refuses(lab, says="does not decode")
    assert b"<<<<<<<" in lab.shown(flow_path("f-1"))
    lab.sound()


# ── D6: odd refs and roots ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("D6")
def test_d6_an_empty_repository_holds_no_flows(tmp_path):
    git(tmp_path, "init", "-q", "--bare", "-b", "main", tmp_path / "empty.git")
    with Repository.open(tmp_path / "empty.git", writing=True) as repo:
        for act in (
            Store(repo).head,
            lambda: Store(repo).flow("f-1"),
            lambda: list(Store(repo).flows()),
        ):
            with pytest.raises(NotFound, match="has no refs/heads/main"):
                act()


@pytest.mark.req("D6")
@pytest.mark.parametrize("head", ["refs/heads/other", "detached"])
def test_d6_where_head_points_does_not_matter(lab, head):
    if head == "detached":
        git(lab.gitdir, "update-ref", "--no-deref", "HEAD", f"{MAIN}~2")
    else:
        git(lab.gitdir, "symbolic-ref", "HEAD", head)
    assert lab.note("on").flow.revision == 2
    assert lab.store.flow("f-1").revision == 2
    git(lab.gitdir, "symbolic-ref", "HEAD", MAIN)  # C git has a word to say about the other
    lab.sound()


@pytest.mark.req("D6")
def test_d6_a_branch_that_was_deleted_can_be_brought_back_and_is_never_begun_anew(lab):
    head = lab.head
    git(lab.gitdir, "pack-refs", "--all")
    git(lab.gitdir, "update-ref", "-d", MAIN)
    for act in (lambda: lab.create("f-9"), lambda: lab.note("x")):
        with pytest.raises(NotFound, match="has no refs/heads/main") as refused:
            act()
        assert "init" not in refused.value.hint
    assert lab.repo.ref(MAIN) is None
    git(lab.gitdir, "update-ref", MAIN, head)
    assert lab.note("on").flow.revision == 2
    lab.sound()


@pytest.mark.req("D6")
def test_d6_a_history_without_any_commit_of_ours_is_named_and_not_written(lab):
    documents = put(flow_path("f-1"), lab.document())
    imported(lab.gitdir, documents, text=b"begun by hand\n", parents=())
    root = lab.head
    for act in (
        lambda: lab.store.flow("f-1"),
        lambda: lab.note("x"),
        lambda: list(lab.store.flows()),
    ):
        with pytest.raises(Corrupt, match="no commit behind refs/heads/main was made by gfs"):
            act()
    assert lab.head == root
    assert lab.verify().unmanaged == [root]


@pytest.mark.req("D6")
def test_d6_a_second_root_that_was_merged_in_changes_nothing(lab):
    clone = lab.clone()
    git(clone, "checkout", "-q", "--orphan", "site")
    git(clone, "rm", "-q", "-r", "-f", ".")
    (clone / "index.html").write_text("hello\n")
    git(clone, "add", "index.html")
    git(clone, "commit", "-q", "-m", "a site")
    git(clone, "checkout", "-q", "main")
    git(clone, "merge", "-q", "--no-edit", "--allow-unrelated-histories", "site")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert lab.note("on").flow.revision == 2
    report = lab.verify()
    assert (report.problems, report.unmanaged) == ([], [])
    lab.sound()


@pytest.mark.req("D6")
def test_d6_a_rewritten_history_with_the_same_operations_is_ours_all_the_same(lab):
    lab.update("half way")
    git(lab.gitdir, "config", "receive.denyNonFastForwards", "false")
    clone = lab.clone()
    exported = git(clone, "fast-export", "main").replace("gitflowstate@localhost", "a@b.example")
    git(clone, "fast-import", "--quiet", "--force", data=exported.encode())
    git(clone, "push", "-q", "--force", "origin", "main")
    assert lab.head == git(clone, "rev-parse", "main")
    assert lab.verify().problems == []
    assert lab.note("on").flow.revision == 3
    lab.sound()


# ── D7: odd commits ─────────────────────────────────────────────────────────────────────────────

ANN = b"Ann <ann@example.invalid>"
ODD = {
    "latin-1": (ANN + b" 1 +0000", b"encoding ISO-8859-1\n", "größer\n".encode("latin-1")),
    "no e-mail": (b"Ann 1 +0000", b"", b"x\n"),
    "no name": (b"<> 1 +0000", b"", b"x\n"),
    "nothing": (b"", b"", b"x\n"),
    "year 2500": (ANN + b" 16725225600 +0000", b"", b"x\n"),
    "zone": (ANN + b" 1 +9999", b"", b"x\n"),
    "before 1970": (ANN + b" -1 -0000", b"", b"x\n"),
    "18 digits": (ANN + b" 999999999999999999 +0000", b"", b"x\n"),
    "200 KB": (ANN + b" 1 +0000", b"", b"long " * 40_000),
    "no message": (ANN + b" 1 +0000", b"", b""),
    "NUL": (ANN + b" 1 +0000", b"", b"one\0two\n"),
    "signed": (ANN + b" 1 +0000", b"gpgsig -----BEGIN\n x\n -----END\n", b"x\n"),
    "escapes": (b"\x1b[2JAnn <a@b> 1 +0000", b"", b"\x1b]0;x\x07\r\n"),
}


@pytest.mark.req("D7")
@pytest.mark.parametrize("name", ODD)
def test_d7_a_strange_commit_is_one_more_edit_by_hand(lab, name):
    people, extra, text = ODD[name]
    lab.by_hand(lab.edited(revision=2, progress="by hand"))
    tree, parent = git(lab.gitdir, "rev-parse", f"{MAIN}^{{tree}}", f"{MAIN}~").split()
    head = f"tree {tree}\nparent {parent}\n".encode()
    body = head + b"author %s\ncommitter %s\n%s\n%s" % (people, people, extra, text)
    git(lab.gitdir, "update-ref", MAIN, store(lab.repo, "commit", body))
    odd = lab.head
    assert lab.store.flow("f-1").progress == "by hand"
    assert lab.store.is_unmanaged("f-1")
    assert history.changes(lab.repo, lab.store.head(), parent).flows == ["f-1"]
    assert lab.note("on").flow.revision == 3
    found = [step.commit.oid for step in history.of_flow(lab.repo, lab.head, "f-1")]
    assert found[1] == odd
    assert history.at_revision(lab.repo, lab.head, "f-1", 2).progress == "by hand"
    report = lab.verify()
    assert (report.problems, report.unmanaged) == ([], [odd])
    lab.sound(odd=True)


# ── D11: odd entries of trees ───────────────────────────────────────────────────────────────────


FILE, EXECUTABLE, LINK, MODULE, TREE = 0o100644, 0o100755, 0o120000, 0o160000, 0o40000


def with_entry(lab, folder, mode, name, oid):
    """Put an entry of any mode and name into a folder of the head's tree, and commit that."""
    path = folder.split("/") if folder else []
    tree = None
    for depth in range(len(path), -1, -1):
        here = {}
        for line in git(lab.gitdir, "ls-tree", f"{MAIN}:{'/'.join(path[:depth])}").splitlines():
            about, entry = line.split("\t")
            here[entry] = int(about.split()[0], 8), about.split()[2]
        here |= {path[depth]: (TREE, tree)} if tree else {name: (mode, oid)}
        order = sorted(here, key=lambda n: n + "/" * (here[n][0] == TREE))
        tree = tree_of(lab.repo, *((here[n][0], n, here[n][1]) for n in order))
    commit = git(lab.gitdir, "commit-tree", tree, "-p", MAIN, "-m", "an odd entry")
    git(lab.gitdir, "update-ref", MAIN, commit)


def odd_entry(lab, mode, content):
    if mode == MODULE:
        return lab.head
    blob = store(lab.repo, "blob", content)
    return tree_of(lab.repo, (FILE, "f-1.json", blob)) if mode == TREE else blob


@pytest.mark.req("D11")
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (LINK, "symbolic link"),
        (MODULE, "submodule"),
        (EXECUTABLE, "an executable"),
        (TREE, "folder"),
        (0o100664, "of mode 100664"),
    ],
)
def test_d11_what_is_no_ordinary_file_costs_its_flow_alone_and_is_never_followed(lab, mode, kind):
    document = lab.shown(flow_path("f-1"))
    folder, name = flow_path("f-1").rsplit("/", 1)
    content = b"../../archive/x" if mode == LINK else document
    with_entry(lab, folder, mode, name, odd_entry(lab, mode, content))
    refuses(lab, says=f"is a link or submodule|{kind}")
    assert fallen(lab) == {"f-1": 1}
    ((path, said),) = broken(lab).items()
    assert path.startswith(flow_path("f-1"))
    assert kind in said or mode == TREE
    with Repository.open(lab.gitdir) as repo:
        there = repo.lookup(repo.commit(lab.head).tree, folder)
        assert repo.tree(there.oid)[name].mode == mode  # left alone
    lab.by_hand(Change(flow_path("f-1"), document))
    assert lab.note("on").flow.revision == 2
    assert (fallen(lab), broken(lab)) == ({}, {})
    lab.sound(odd=True)


NAMES = {
    "..": FILE,
    ".": FILE,
    ".git": TREE,
    ".GIT": FILE,
    "A.json": FILE,
    "F-1.json": FILE,
    "f-1": FILE,
    "f-1.json.json": FILE,
    "f-9.json": FILE,  # in another's folder
    "x" * 5000: FILE,
    "x" * 5000 + ".json": TREE,
    "con.json": FILE,
    "a\\b.json": FILE,
    "\udcff\udcfe.json": FILE,
    "caf\u00e9.json": FILE,
    "cafe\u0301.json": FILE,
    "\x1b[2J.json": FILE,
    "line\nbreak.json": FILE,
    "link.json": LINK,
    "module": MODULE,
}


@pytest.mark.req("D11")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
@pytest.mark.parametrize("where", ["flows", "a folder of a flow"])
def test_d11_an_odd_name_is_listed_as_corrupt_and_left_alone(lab, name, where):
    mode = NAMES[name]
    folder = "flows" if where == "flows" else flow_path("f-1").rsplit("/", 1)[0]
    seen = lab.head
    oid = odd_entry(lab, mode, lab.shown(flow_path("f-1")))
    with_entry(lab, folder, mode, name, oid)
    assert usable(lab) == ["f-1", "f-2", "f-3"]
    listed = broken(lab)
    assert [path.startswith(f"{folder}/{name}") for path in listed] == [True]
    assert lab.store.resolve("f-1") == "f-1"
    assert history.changes(lab.repo, lab.store.head(), seen).flows == []
    assert history.changes(lab.repo, lab.store.head(), None).flows == ["f-1", "f-2", "f-3"]
    assert lab.note("on").flow.revision == 2
    lab.commit(Reopen, "f-3", reason="r", next="n")
    with Repository.open(lab.gitdir) as repo:
        entry = repo.lookup(repo.commit(lab.head).tree, folder)
        assert repo.tree(entry.oid)[name] == (mode, oid)
    report = lab.verify()
    assert (report.problems, len(report.unmanaged)) == ([], 1)
    lab.sound(odd=True)


@pytest.mark.req("D11")
@pytest.mark.parametrize("mode", [FILE, LINK, MODULE])
def test_d11_flows_as_a_file_is_named_and_left_alone(lab, mode):
    oid = odd_entry(lab, mode, b"/")
    with_entry(lab, "", mode, "flows", oid)
    for act in (lambda: lab.store.flow("f-1"), lambda: lab.note("x"), lambda: lab.create("f-9")):
        with pytest.raises(Corrupt) as refused:
            act()
        assert refused.value.code == 6
    assert "flows" in broken(lab)
    if mode == FILE:  # whatever a link or submodule leads to, nobody knows what is in flows/
        assert usable(lab) == ["f-3"]
        assert set(broken(lab)) == {"flows", "f-1", "f-2"}
        assert lab.store.flow("f-3").status == "done"
    assert git(lab.gitdir, "ls-tree", MAIN, "flows").split()[2] == oid
    before = git(lab.gitdir, "log", "-1", "--format=%H", "--grep=f-3 r2", MAIN)
    git(lab.gitdir, "update-ref", MAIN, before)
    assert lab.note("on").flow.revision == 2
    lab.sound(odd=True)


# ── a file that is gone, or there twice ─────────────────────────────────────────────────────────


@pytest.mark.req("D2", "R-TF-27")
@pytest.mark.parametrize("flow", ["f-1", "f-3"])
def test_d2_a_flow_that_was_removed_by_hand_is_missed_and_not_made_anew(lab, flow):
    path = flow_path(flow) if flow == "f-1" else archive_path(flow)
    document, revision = lab.shown(path), lab.document(flow)["revision"]
    lab.by_hand(Change(path, None))
    for act in (
        lambda: lab.store.flow(flow),
        lambda: lab.create(flow),
        lambda: lab.note("x", flow),
        lambda: adopt(lab, flow),
    ):
        with pytest.raises(
            Corrupt, match=f"{flow} was removed by hand: it was at r{revision}"
        ) as no:
            act()
        assert "adopt" not in f"{no.value.hint} {no.value.details}"  # there is nothing to adopt
    assert fallen(lab) == {flow: revision}
    assert flow not in usable(lab)
    assert list(broken(lab)) == [flow]
    lab.note("works", "f-2")
    lab.by_hand(Change(path, document))
    assert lab.store.flow(flow).revision == revision
    lab.note("x", "f-2")
    assert (fallen(lab), broken(lab)) == ({}, {})
    lab.sound()


@pytest.mark.req("D1", "R-TF-21")
def test_d1_a_flow_in_both_folders_is_used_by_nobody(lab):
    ended = {**lab.document(), "status": "done", "result_ref": "out/x", "revision": 5}
    lab.by_hand(put(archive_path("f-1"), ended))
    documents = lab.shown(flow_path("f-1")), lab.shown(archive_path("f-1"))
    for act in (lambda: lab.store.flow("f-1"), lambda: lab.note("x"), lambda: adopt(lab)):
        with pytest.raises(Corrupt):
            act()
    assert (lab.shown(flow_path("f-1")), lab.shown(archive_path("f-1"))) == documents
    assert usable(lab) == ["f-2", "f-3"]
    assert {item.id for item in lab.store.flows() if isinstance(item, Flow)} == {"f-2"}
    assert fallen(lab) == {"f-1": 1}
    lab.note("works", "f-2")
    lab.by_hand(Change(archive_path("f-1"), None))
    assert lab.note("on").flow.revision == 2
    assert (fallen(lab), broken(lab)) == ({}, {})
    lab.sound()


@pytest.mark.req("D1")
def test_d1_a_flow_that_a_person_made_in_both_folders_is_used_by_nobody_either(lab):
    document = {**lab.document(), "id": "f-7"}
    ended = {**document, "status": "done", "result_ref": "out/x", "revision": 5}
    lab.by_hand(put(flow_path("f-7"), document), put(archive_path("f-7"), ended))
    for _ in range(2):
        with pytest.raises(Corrupt, match="in flows/ and in archive/"):
            lab.store.flow("f-7")
        assert set(broken(lab)) == {flow_path("f-7"), archive_path("f-7")}
        lab.note("works", "f-2")
    with pytest.raises(Corrupt, match="in flows/ and in archive/"):
        lab.note("x", "f-7")
    lab.sound()


# ── D12: a long history ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("D12")
def test_d12_an_update_and_a_reading_cost_the_same_after_a_long_history(lab, tmp_path):
    def cost():
        """Count the files that are opened, in a process of its own memory."""
        documents._memo.clear()
        opened, real = [], calls.open
        calls.open = lambda *arguments: (opened.append(arguments[0]), real(*arguments))[1]
        try:
            with Repository.open(lab.gitdir, writing=True) as repo:
                Store(repo).flow("f-2")
                reading = len(opened)
                Store(repo).commit(made(Adopt, "f-2", reason="nothing to adopt"))
                return reading, len(opened)
        finally:
            calls.open = real

    early = cost()
    for number in range(60):
        lab.update(f"step {number}")
    assert cost() == early
