"""Main that was moved back is found and said, and nothing is moved or written over for it."""

from __future__ import annotations

import clirun
import pytest
from flowrepo import Change, Lab, imported, made
from gitrepo import child, code_of, git, overwrite
from hostbench import pair, remote

from gitflowstate import movedback, syncing
from gitflowstate.git import Repository
from gitflowstate.model import flow_path
from gitflowstate.ops import Note
from gitflowstate.syscalls import calls

LOG = "logs/refs/heads/main"


@pytest.fixture(params=["", "--no-view"], ids=["view", "no-view"])
def cli(tmp_path, request):
    """Return the command line on a repository with a flow at r3."""
    found = clirun.made(tmp_path / "work", *([request.param] if request.param else []))
    found("create", "Goal", "--id", "f-1", "--next", "Read")
    found("note", "f-1", "one")
    found("note", "f-1", "two")
    return found


def examined(cli, *options):
    """Return the findings by kind; nothing that a ref or a plain file holds is touched."""
    before = cli.state()
    told = cli.run("doctor", *options, "--json").envelope
    assert cli.state() == before
    findings = told["data"]["findings"] if told["ok"] else told["error"]["details"]["findings"]
    assert all(not clirun.HARMFUL.search(found["next"]) for found in findings)
    return {found["kind"]: found for found in findings}


def moved_back(cli, was, *, note=False):
    """Check that it is said, with or without --fix, and that its next step works; return it."""
    found = examined(cli)
    assert found.keys() == {"moved-back"}
    assert examined(cli, "--fix") == found
    told = found["moved-back"]
    assert was[:12] in told["evidence"]
    assert (told["note"], told["fixable"]) == (note, False)
    shown = told["next"].partition(" shows")[0].removeprefix("git log --first-parent ")
    assert was in git(cli.gitdir, "log", "--first-parent", "--format=%H", shown)
    return told


@pytest.mark.req("D3", "D8")
@pytest.mark.parametrize("what", ["^{tree}", f":{flow_path('f-1')}"])
def test_that_something_of_it_is_damaged_hides_nothing(cli, what):
    was = cli.head
    oid = cli.git("rev-parse", f"{was}{what}")
    cli.git("update-ref", "refs/heads/main", "main~1")
    cli("note", "f-1", "went on")
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    found = examined(cli)
    assert was[:12] in found["moved-back"]["evidence"]
    assert oid in found["reach"]["evidence"]
    assert cli.run("gc").code == 6


@pytest.mark.req("D8")
@pytest.mark.parametrize("name", ["refs/heads/other", "refs/gfs/offline/x", "the reflog of one"])
def test_d8_doctor_does_not_call_sound_what_gc_refuses(cli, name):
    tree = cli.git(
        "mktree", data=f"100644 blob {cli.git('hash-object', '-w', '--stdin')}\tx".encode()
    )
    other = cli.git("commit-tree", "-m", "x", "-p", "main", tree)
    cli.git("update-ref", name if "/" in name else "refs/heads/other", other)
    if "/" not in name:
        cli.git("update-ref", "--create-reflog", "refs/heads/other", "main")
    cli("doctor")
    (cli.gitdir / "objects" / tree[:2] / tree[2:]).unlink()
    failed = cli.run("gc").code
    assert (examined(cli).keys() == {"reach"}) == (failed == 6)
    assert failed or "/" not in name


@pytest.mark.req("D3", "G9", "R-TF-12")
@pytest.mark.parametrize("how", ["update-ref", "by-hand", "uncovered"])
def test_main_at_an_older_commit_is_said_with_what_it_was(cli, how):
    was, back = cli.head, cli.git("rev-parse", "main~2")
    match how:
        case "update-ref":
            cli.git("update-ref", "refs/heads/main", back)
        case "by-hand":
            (cli.gitdir / "refs/heads/main").write_text(f"{back}\n")
        case _:
            (cli.gitdir / "packed-refs").write_text(f"{back} refs/heads/main\n")
            (cli.gitdir / "refs/heads/main").unlink()
    told = moved_back(cli, was)
    assert "f-1 r3 note: two" in told["evidence"]
    assert "2 commits" in told["evidence"]


@pytest.mark.req("D3", "L24")
@pytest.mark.parametrize("gone", ["reflog", "marker"])
def test_the_reflog_or_the_plain_files_alone_tell_it(cli, gone):
    was = cli.head
    cli.git("update-ref", "refs/heads/main", "main~1")
    cli.git("update-ref", "refs/heads/main", "main~1")
    known = (cli.gitdir / "gfs/view").exists() or gone == "marker"
    (cli.gitdir / (LOG if gone == "reflog" else "gfs/view")).unlink(missing_ok=True)
    found = examined(cli)
    assert ("moved-back" in found) == known
    if known:
        assert was[:12] in found["moved-back"]["evidence"]


@pytest.mark.req("A6")
def test_what_doctor_itself_cut_off_was_not_moved_back(cli):
    oid = cli.git("rev-parse", f"main:{flow_path('f-1')}")
    overwrite(cli.gitdir / "objects" / oid[:2] / oid[2:], b"")
    told = cli.run("doctor", "--fix", "--json").data["findings"]
    assert {found["kind"] for found in told} - {"view"} == {"torn-head", "empty-object"}
    assert examined(cli) == {}


@pytest.mark.req("D3", "G9")
def test_it_is_said_after_gfs_went_on_and_kept_by_a_branch_it_is_a_note(cli):
    was = cli.head
    cli.git("update-ref", "refs/heads/main", "main~1")
    cli("note", "f-1", "another r3")
    told = moved_back(cli, was)
    (step,) = (part for part in told["next"].split("; ") if part.startswith("git branch"))
    cli.git(*step.partition(" keeps")[0].split()[1:])
    told = moved_back(cli, was, note=True)
    assert f"refs/heads/kept-{was[:12]} has it" in told["evidence"]


@pytest.mark.req("D3", "D5")
def test_a_merge_that_drops_what_main_had_is_said(cli):
    was = cli.head
    imported(cli.gitdir, Change("README", b"x"), parents=("main~2", "main^0"))
    assert "2 commits" in moved_back(cli, was)["evidence"]


@pytest.mark.req("D3", "D5", "L12")
def test_without_a_reflog_a_channel_knows_what_a_merge_dropped(cli):
    """As on a server, where Git keeps none, and nobody has plain files."""
    imported(cli.gitdir, Change("gfs.toml", b"[channels.team]\nkind = 'console'\n"))
    cli("note", "f-1", "three")
    assert cli.run("watch", "team", "--once").code == 0
    (cli.gitdir / LOG).unlink()
    (cli.gitdir / "gfs/view").unlink(missing_ok=True)
    assert "behind-cursor" not in examined(cli)
    imported(cli.gitdir, Change("README", b"x"), parents=("main~1", "main^0"))
    assert "channel team" in examined(cli)["behind-cursor"]["problem"]


@pytest.mark.req("D5")
def test_a_push_and_a_merge_that_keep_everything_are_not(cli, tmp_path):
    git(tmp_path, "clone", "-q", f"file://{cli.gitdir}", "clone")
    clone = tmp_path / "clone"
    cli("note", "f-1", "meanwhile")
    (clone / "README").write_text("x")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "README")
    git(clone, "pull", "-q", "--no-rebase", "--no-edit")
    git(clone, "push", "-q", "origin", "HEAD:main")
    found = examined(cli)
    assert [found["note"] for found in found.values()] == [True] * len(found)
    assert found.keys() <= {"view"}
    assert cli.run("doctor").code == 0


@pytest.mark.req("A1")
def test_a_command_that_was_killed_before_it_moved_main_is_a_note_at_most(cli):
    head, rename = cli.head, calls.rename

    def killed():
        import os

        def through(old, new):
            if str(new).endswith("refs/heads/main"):
                os._exit(9)
            rename(old, new)

        calls.rename = through
        cli.run("note", "f-1", "never")

    assert code_of(child(killed)) == 9
    assert cli.head == head
    lost = (cli.gitdir / LOG).read_text().splitlines()[-1].split()[1]
    assert lost != head
    told = cli.run("doctor", "--fix", "--json").data["findings"]
    (found,) = (each for each in told if each["kind"] == "moved-back")
    assert (found["note"], "a command was killed" in found["evidence"]) == (True, True)
    cli("note", "f-1", "after all")
    assert examined(cli) == {}
    cli.sound(("f-1", 4))


@pytest.mark.req("D6")
@pytest.mark.parametrize("how", ["loose", "packed"])
def test_a_main_that_is_gone_is_named_by_its_reflog_and_can_be_made_again(cli, how):
    was = cli.head
    if how == "packed":
        cli.git("pack-refs", "--all")
        (cli.gitdir / "packed-refs").write_bytes(b"")
    else:
        (cli.gitdir / "refs/heads/main").unlink()
    found = examined(cli, "--fix")["refs"]
    assert was[:12] in found["evidence"]
    assert "f-1 r3" in found["evidence"]
    cli.git(*found["next"].partition(" makes")[0].split()[1:])
    assert cli.head == was
    if how == "packed":
        assert examined(cli)["packed-refs"]["next"].endswith("git pack-refs --all writes it anew")
        cli.git("pack-refs", "--all")
    assert examined(cli) == {}


def test_without_a_trace_of_it_a_main_that_is_gone_is_none(cli):
    cli.git("update-ref", "-d", "refs/heads/main")
    (cli.gitdir / "gfs/view").unlink(missing_ok=True)
    assert "holds no flows" in examined(cli)["refs"]["problem"]


class Counting(Repository):
    """A repository that counts how many commits are read."""

    count = 0

    def commit(self, oid):
        self.count += 1
        return super().commit(oid)


@pytest.mark.req("D12")
@pytest.mark.parametrize("how", ["rewritten", "cut", "lost"])
def test_however_many_values_main_had_each_line_is_read_once(tmp_path, how):
    """A main whose every commit is another one by now, or that has a hole, is no reason to wait."""
    lab = Lab(tmp_path / "work")
    lab.create()
    counts = []
    for count in (10, 20):
        for number in range(count if count == 10 else 10):
            lab.note(f"note {number}")
        values = git(lab.gitdir, "rev-list", "main").splitlines()
        head = values[0]
        if how != "cut":
            stream = git(lab.gitdir, "fast-export", "main").replace(
                "committer ", "committer Other "
            )
            stream = stream.replace("refs/heads/main", "refs/heads/other")
            stream = stream.replace("note 9", "note X") if how == "lost" else stream
            git(lab.gitdir, "fast-import", "--quiet", "--force", data=stream.encode() + b"\n")
            head = git(lab.gitdir, "rev-parse", "other")
        hole = lab.gitdir / "objects" / values[count // 2][:2] / values[count // 2][2:]
        aside = hole.read_bytes()
        if how == "cut":
            hole.unlink()
        with Counting.open(lab.gitdir) as repo:
            found = movedback.find(repo, head, values)
            assert (found is not None) == (how == "lost")
            counts.append(repo.count)
        hole.write_bytes(aside) if how == "cut" else None
    assert counts[1] < 2.5 * counts[0]


@pytest.mark.req("L12")
def test_what_a_sync_applied_again_or_keeps_is_not_lost(tmp_path):
    """Main moves off what was queued; it is there under other commits, or on a ref of ours."""
    with pair(tmp_path, remote(tmp_path)) as (one, two):
        one.create()
        two.refs.ask()
        one.offline.commit(made(Note, text="queued"))
        two.note("x")
        one.sync()
        cli = clirun.Cli(one.folder)
        assert {kind for kind, found in examined(cli).items() if not found["note"]} == set()
        assert "moved-back" not in examined(cli)
        git(tmp_path / "remote.git", "update-ref", "refs/heads/main", "main~1")
        syncing.follow(one.repo, one.refs, at="2026-09-06T12:00:00Z", timeout=10)
        assert "moved-back" not in examined(cli)
