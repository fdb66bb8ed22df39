"""Objects of main brought from the remote once more, whatever is stored here.

Rules: they arrive in a repository of their own, so that no damage here can spoil the transfer; the
pack is checked by Git, synced, and then put beside the others under a name of its own. Nothing that
is here is taken away but loose copies of what the pack has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from gitflowstate import cgit, stopped
from gitflowstate.adapters.remote import GitRemote
from gitflowstate.definitions import MAIN
from gitflowstate.errors import NotFound
from gitflowstate.git import Repository
from gitflowstate.location import NAMED, REMOTE
from gitflowstate.syscalls import calls, fsync_file, fsync_folder, reported

_PACKED = "\n[fetch]\n\tunpackLimit = 1\n"


def regain(gitdir: Path, url: str, environment: Mapping[str, str], *, timeout_s: float) -> int:
    """Bring every object of main at the remote; return how many bytes came.

    The caller holds the repository lock. Raises Unavailable or Denied, NotFound without a main.
    """
    with TemporaryDirectory(prefix="regain-", dir=gitdir / "gfs") as scratch:
        aside = Path(scratch) / "objects.git"
        Repository.init(aside).close()
        config = (gitdir / REMOTE / "config").read_text("utf-8", "surrogateescape")
        (aside / "config").write_text(config + _PACKED, "utf-8", "surrogateescape")
        token = environment.get("GFS_GIT_TOKEN")
        way = GitRemote(aside, url, environment, token=token, named=NAMED, timeout_s=timeout_s)
        if way.track(MAIN, MAIN) != "here":
            raise NotFound("the remote has no main: nothing can be brought from there")
        count = _moved(aside / "objects/pack", gitdir / "objects/pack")
    stopped.run(cgit.Git(gitdir, environment), "prune-packed", "--quiet")
    return count


def _moved(source: Path, target: Path) -> int:
    """Put packs beside others, each index last: a pack without one is not looked at."""
    count = 0
    with reported("write", str(target)):
        target.mkdir(exist_ok=True)
        for file in sorted(source.iterdir(), key=lambda path: path.suffix == ".idx"):
            if file.suffix in (".pack", ".idx", ".rev"):
                fsync_file(str(file))
                count += file.stat().st_size
                calls.rename(str(file), str(target / file.name))
        fsync_folder(str(target))
    return count
