"""What somebody meets who is not root: commands run as nobody, on files that are nobody's or not.

Only root can become somebody who is refused.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager

import clirun
import pytest
from gitrepo import become_nobody, child, code_of, let_others_in

NEEDED = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become somebody who is refused"
)
NOBODY = 65534


def give(folder, owner) -> None:
    """Let a folder and all that is in it belong to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


@contextmanager
def theirs(folder):
    """Let a folder belong to nobody for a while."""
    let_others_in(folder / "x")
    give(folder, NOBODY)
    try:
        yield
    finally:
        give(folder, 0)


@contextmanager
def mode(path, bits):
    """Give a path another mode for a while."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        if path.exists():
            path.chmod(before)


def as_nobody(cli, *words, cwd=None) -> clirun.Result:
    """Run a command as nobody; return what it said."""
    told = cli.folder.parent / "told"
    told.mkdir(mode=0o777, exist_ok=True)
    told.chmod(0o777)

    def work():
        become_nobody()
        env = {"GFS_REPO": str(cli.folder), "HOME": "/nonexistent"}
        (told / "result").write_text(json.dumps(clirun.here(*words, cwd=cwd, env=env)))

    assert code_of(child(work)) == 0
    result = clirun.Result(*json.loads((told / "result").read_text()))
    (told / "result").unlink()
    return result
