"""Part A: upkeep that dies, by itself or with the git it called; every ref and tag stays (A14)."""

from __future__ import annotations

import os
import subprocess

import clirun
import pytest
import tracing
from gitrepo import fsck, in_front

OLD = 1_700_000_000


@pytest.fixture
def kept(flow):
    """Return the command line on a repository with a cursor and tags, some of them packed."""
    flow("create", "Another goal", "--id", "f-1")
    flow("done", "plan", "--result", "r")
    flow.git("update-ref", "refs/gfs/cursors/team", "main~2")
    flow.git("tag", "light", "main~1")
    flow.git("tag", "-a", "-m", "annotated", "heavy", "main~1")
    flow.git("pack-refs", "--all")
    flow("note", "f-1", "newer than what is packed")
    return flow


def refs(cli) -> str:
    return cli.git("for-each-ref")


@pytest.mark.req("A14", "F6", "F7")
@pytest.mark.parametrize("verb", ["repack", "prune-packed", "commit-graph", "prune"])
def test_a14_git_killed_at_any_call_loses_nothing(kept, tmp_path, verb):
    tracing.needs_strace()
    before = refs(kept)
    killed = 0
    for call in ("unlink", "rename", "link", "fsync", "openat"):
        for when in (1, 2, 5, 20):
            kept("note", "f-1", f"{call} {when}")  # something to pack
            old = kept.git("hash-object", "-w", "--stdin", data=f"{call}{when}".encode())
            os.utime(kept.gitdir / "objects" / old[:2] / old[2:], (OLD, OLD))
            before = refs(kept)
            inject = f"-e trace={call} -e inject={call}:signal=KILL:when={when}"
            script = (
                f'case " $* " in *" {verb} "*) exec strace -f -o /dev/null {inject} "$REAL" "$@";; '
                'esac\nexec "$REAL" "$@"'
            )
            done = kept.run("gc", env=in_front(tmp_path, script))
            killed += done.code != 0
            assert refs(kept) == before
            fsck(kept.gitdir)
    assert killed > 0
    for left in kept.gitdir.glob("objects/info/*.lock"):
        assert verb == "commit-graph"
        assert "in the way" in kept.run("gc").err
        os.utime(left, (OLD, OLD))
        assert "had it open; it is now" in kept.run("gc").err
    kept("gc")


@pytest.mark.req("A14", "F8")
def test_a14_killed_itself_git_goes_on_and_keeps_writers_out_until_it_ends(kept, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = (
        'case " $* " in *" prune-packed "*) kill -9 $PPID; read go < '
        f'{gate};; esac\nexec "$REAL" "$@"'
    )
    env = os.environ | {"GFS_REPO": str(kept.folder)} | in_front(tmp_path, script)
    before = refs(kept)
    gfs = subprocess.Popen([clirun.SCRIPT, "gc"], env=env, stdout=subprocess.DEVNULL)
    assert gfs.wait(60) == -9
    refused = kept.run("note", "f-1", "x", env={"GFS_LOCK_TIMEOUT": "0.1"})
    assert (refused.code, "locked by pid" in refused.err) == (75, True)
    gate.write_text("go\n")
    kept("note", "f-1", "x")
    assert refs(kept) != before
    fsck(kept.gitdir)
    kept("gc")
