"""Trees by anybody: walked, looked up and compared."""

from __future__ import annotations

import stat

import pytest
from dulwich.objects import ObjectID, serialize_tree, sorted_tree_items
from gitrepo import MAIN, publish, store, tree_of
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import trees
from gitflowstate.errors import Corrupt
from gitflowstate.git import Entry, Repository
from gitflowstate.syscalls import calls


@pytest.fixture
def repo(tmp_path):
    with Repository.init(tmp_path / "r.git") as made:
        yield made


@pytest.mark.req("G8", "G7")
def test_trees_that_unfold_without_end_are_refused_or_yielded(repo, monkeypatch):
    blob = store(repo, "blob", b"x")
    deep = tree_of(repo, (0o100644, "x", blob))
    for _ in range(1024):
        deep = tree_of(repo, (0o40000, "d", deep))
    top = tree_of(repo, (0o40000, "flows", deep))
    ((path, entry),) = repo.walk(top, "flows")
    assert path.count("/") == 16
    assert stat.S_ISDIR(entry.mode)
    ((path, old, new),) = repo.diff(None, top, ["flows"])
    assert (path.count("/"), old, new) == (16, None, entry)
    wide = tree_of(repo, *((0o100644, f"{n:02}", blob) for n in range(30)))
    for _ in range(6):
        wide = tree_of(repo, *((0o40000, f"{n:02}", wide) for n in range(30)))
    monkeypatch.setattr("gitflowstate.trees.MAX_ENTRIES", 5000)
    with pytest.raises(Corrupt, match="too many"):
        list(repo.walk(tree_of(repo, (0o40000, "flows", wide)), "flows"))
    with pytest.raises(Corrupt, match="too many"):
        list(repo.diff(None, tree_of(repo, (0o40000, "flows", wide)), ["flows"]))


@pytest.mark.req("D11")
def test_strange_entries_are_yielded_with_their_mode_and_never_followed(repo):
    blob = store(repo, "blob", b"/etc/passwd")
    entries = [
        (0o40000, "..", tree_of(repo, (0o100644, "x", blob))),
        (0o100644, ".git", blob),
        (0o100644, "A.json", blob),
        (0o100644, "a.json", blob),
        (0o120000, "link", blob),
        (0o100644, "n" * 5000, blob),
        (0o100755, "run", blob),
        (0o160000, "sub", "1" * 40),
    ]
    top = tree_of(repo, (0o40000, "flows", tree_of(repo, *entries)))
    found = dict(repo.walk(top, "flows"))
    assert found["flows/link"].mode == 0o120000
    assert found["flows/sub"].mode == 0o160000
    assert set(found) == {
        "flows/../x",
        *(f"flows/{name}" for mode, name, _ in entries if mode != 0o40000),
    }
    assert repo.lookup(top, "flows/run").mode == 0o100755
    assert repo.lookup(top, "flows/A.json/x") is None
    assert repo.lookup(top, "flows/none") is None
    for path in ("flows/link", "flows/sub", "flows/link/x"):
        with pytest.raises(Corrupt, match="link or submodule"):
            repo.lookup(top, path)


def test_flows_as_a_file_is_one_path(repo):
    blob = store(repo, "blob", b"x")
    top = tree_of(repo, (0o100644, "flows", blob))
    assert list(repo.walk(top, "flows")) == [("flows", Entry(0o100644, blob))]
    assert list(repo.walk(top, "archive")) == []


@pytest.mark.parametrize("names", [["a", "a"], [""], ["a/b"]])
def test_a_tree_of_ambiguous_names_is_corrupt(repo, names):
    tree = tree_of(repo, *((0o100644, name, "1" * 40) for name in names))
    with pytest.raises(Corrupt, match=tree):
        repo.tree(tree)


@pytest.mark.parametrize("body", [b"x", b"100644 a\0short", b"100644 a", b"99 a\0" + b"1" * 20])
def test_a_tree_that_does_not_parse_is_corrupt(repo, body):
    with pytest.raises(Corrupt, match="does not decode"):
        repo.tree(store(repo, "tree", body))


def test_a_diff_lists_what_changed_below_the_names_given(repo):
    one = publish(repo, {"flows/a/1": b"1", "flows/a/2": b"2", "f.json": b"1", "other/x": b"1"})
    two = publish(
        repo,
        {"flows/a/1": b"9", "flows/a/2": None, "flows/b/3": b"3", "f.json": b"2", "other/x": b"2"},
    )
    old, new = repo.commit(one).tree, repo.commit(two).tree
    changes = {p: (bool(a), bool(b)) for p, a, b in repo.diff(old, new, ["flows", "f.json", "no"])}
    assert changes == {
        "flows/a/1": (True, True),
        "flows/a/2": (True, False),
        "flows/b/3": (False, True),
        "f.json": (True, True),
    }
    assert [p for p, a, b in repo.diff(None, new, ["flows"]) if a is None and b] == [
        "flows/a/1",
        "flows/b/3",
    ]
    assert list(repo.diff(new, new, ["flows"])) == []


def test_a_folder_that_became_a_file_is_both_changes(repo):
    one = repo.commit(publish(repo, {"flows/a/1": b"1"})).tree
    two = repo.commit(publish(repo, {"flows/a/1": None, "flows/b": b"2"})).tree
    publish(repo, {"flows/b": None, "flows/a": b"3"})
    three = repo.commit(repo.ref(MAIN)).tree
    assert [(p, bool(a), bool(b)) for p, a, b in repo.diff(one, three, ["flows"])] == [
        ("flows/a", False, True),
        ("flows/a/1", True, False),
    ]
    assert [(p, bool(a), bool(b)) for p, a, b in repo.diff(three, one, ["flows"])] == [
        ("flows/a", True, False),
        ("flows/a/1", False, True),
    ]
    assert [p for p, _, _ in repo.diff(one, two, ["flows"])] == ["flows/a/1", "flows/b"]


@pytest.mark.req("D12")
def test_a_diff_opens_only_what_changed(repo):
    old = publish(repo, {f"flows/{n:02x}/{m}": b"1" for n in range(40) for m in range(3)})
    new = publish(repo, {"flows/07/1": b"2"})
    read = []
    with Repository.open(repo.gitdir) as again:
        trees = again.commit(old).tree, again.commit(new).tree
        real = calls.open
        calls.open = lambda path, *rest: read.append(path) or real(path, *rest)
        try:
            assert len(list(again.diff(*trees, ["flows"]))) == 1
        finally:
            calls.open = real
    assert len(read) == 6  # root, flows and flows/07 of both


# Few letters, so that names begin alike; "-" and "." sort before the slash of a folder, "0" after.
_names = st.text(st.sampled_from("a-.0\udc80é"), min_size=1, max_size=4)
_modes = st.sampled_from([0o100644, 0o100755, 0o040000, 0o120000, 0o160000])
_oids = st.binary(min_size=20, max_size=20).map(bytes.hex)


@given(st.dictionaries(_names, st.builds(Entry, _modes, _oids)))
def test_a_tree_is_written_as_dulwich_writes_it(tree):
    items = {
        name.encode("utf-8", "surrogateescape"): (mode, ObjectID(oid.encode()))
        for name, (mode, oid) in tree.items()
    }
    body = trees.encode(tree)
    assert body == b"".join(serialize_tree(sorted_tree_items(items, name_order=False)))
    assert trees.decode("0" * 40, body) == tree
