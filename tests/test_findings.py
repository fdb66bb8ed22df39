"""What doctor says of refs, and that what has one cause is one finding."""

from __future__ import annotations

import pytest
from examining import examined, made, watched


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a repository with three flows, one of them archived."""
    return made(tmp_path)


@pytest.fixture(name="watched")
def _watched(cli):
    """Return a repository whose channel `team` has looked at everything."""
    return watched(cli)


REFS = {
    "empty": ("refs/heads/other", lambda path: path.write_bytes(b"")),
    "symbolic": ("refs/gfs/x", lambda path: path.write_text("ref: refs/heads/main\n")),
    "nowhere": ("refs/heads/other", lambda path: path.write_text("ref: refs/heads/none\n")),
    "of nothing": ("refs/tags/other", lambda path: path.write_text("1" * 40)),
    "garbage": ("packed-refs", lambda path: path.write_bytes(b"# pack-refs with: sorted \n??\n")),
    "no packed ones": ("packed-refs", lambda path: path.write_bytes(b"")),
}


@pytest.mark.req("D13", "D6", "L22")
@pytest.mark.parametrize("how", REFS)
def test_d13_where_gc_or_a_backup_stops_at_a_ref_doctor_names_it(cli, tmp_path, how):
    name, damage = REFS[how]
    path = cli.gitdir / name
    path.parent.mkdir(exist_ok=True)
    damage(path)
    found = examined(cli)
    (kind,) = found
    told = found[kind]["problem"] + found[kind]["evidence"]
    assert name in told
    assert cli.refuses(6, "gc")["message"] == (
        f"nothing was removed: {found[kind]['problem']} ({found[kind]['evidence']})"
    )
    copy = cli.run("backup", tmp_path / "copy.bundle")
    assert copy.code == 0 or name in copy.err
    assert examined(cli, "--fix") == found


def test_a_ref_of_which_only_the_reflog_is_left_is_found(cli):
    oid = cli.git("commit-tree", "-m", "only here", "main^{tree}")
    cli.git("update-ref", "--create-reflog", "refs/gfs/x", oid)
    assert examined(cli) == {}
    (cli.gitdir / "refs/gfs/x").unlink()
    found = examined(cli)["lost-ref"]
    assert f"git branch NAME {oid}" in found["next"]
    cli.git("branch", "found", oid)
    assert examined(cli) == {}


# ── one cause, one finding ──────────────────────────────────────────────────────────────────────


def every(cli):
    """Return each problem that is told; a note is none."""
    found = cli.run("doctor", "--json").error["details"]["findings"]
    return [each for each in found if not each["note"]]


@pytest.mark.req("D8")
@pytest.mark.parametrize(
    "name", ["main^{tree}:flows", "main~1^{tree}:flows", "main^{tree}:archive"]
)
def test_d8_one_tree_that_is_missing_is_one_finding(watched, name):
    cli = watched
    cli("note", "f-1", "one")
    cli("note", "f-1", "two")
    oid = cli.git("rev-parse", name)
    (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    (found,) = every(cli)
    assert oid in found["problem"] + found["evidence"]


@pytest.mark.req("D8")
@pytest.mark.parametrize("text", ["", "not a commit", "1" * 40])
def test_d8_one_ref_of_a_cursor_that_is_broken_is_one_finding(watched, text):
    watched("note", "f-1", "the plain files follow")
    (watched.gitdir / "refs/gfs/cursors/team").write_text(text)
    (found,) = every(watched)
    assert "refs/gfs/cursors/team" in found["problem"]


@pytest.mark.req("D8")
def test_d8_many_commits_that_fail_alike_are_one_finding(watched):
    cli = watched
    cli("note", "f-1", "the plain files follow")
    cli.git("update-ref", "refs/gfs/cursors/team", "main~1")
    count = len(cli.git("rev-list", "main~2").splitlines())  # the one after it has no op
    alike, other = every(cli)
    assert alike["problem"].startswith(f"{count} commits of refs/gfs/cursors/team do not replay: ")
    assert alike["evidence"].endswith(f"; and {count - 3} more")
    assert "holds no cursor" in other["problem"]


@pytest.mark.req("D8")
def test_d8_different_damage_is_not_one_finding(watched):
    cli = watched
    for number in range(4):
        cli("note", "f-1", f"{number}")
    for name in ("main~1^{tree}", "main~3^{tree}"):
        oid = cli.git("rev-parse", name)
        (cli.gitdir / "objects" / oid[:2] / oid[2:]).unlink()
    assert len(every(cli)) == 2
