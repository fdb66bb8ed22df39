"""What a folder must hold to be a repository, and what is said where something of it is gone.

Rule: what is left of a repository is damaged, which is not the same as none: no other is to be
made in its place.
"""

from __future__ import annotations

import os

from gitflowstate.errors import Corrupt, NotFound
from gitflowstate.gitconfig import read_config
from gitflowstate.refs import Refs
from gitflowstate.syscalls import lstat_or_none, reported


def exists(path: str) -> bool:
    """Return whether there is anything at a path, a link that leads nowhere included."""
    with reported("look at", path):
        return lstat_or_none(path) is not None


def is_repository(path: str) -> bool:
    """Return whether Git would take a folder for a repository."""
    return not _missing(path)


def _missing(path: str) -> list[str]:
    """Return what a folder lacks that no repository can be without."""
    # HEAD first: no permission to look is an error, not "no repository".
    gone = [] if exists(f"{path}/HEAD") else ["HEAD"]
    return gone + [name for name in ("objects", "refs") if not os.path.isdir(f"{path}/{name}")]  # noqa: PTH112  plain text paths


def no_repository(path: str) -> NotFound:
    """Return the error for a path where there is no repository."""
    return NotFound(
        f"{path} is not a repository", hint="Name the repository with --repo.", path=path
    )


def check_whole(gitdir: str, given: str) -> None:
    """Refuse what is left of a repository as Corrupt, and what never was one as NotFound."""
    gone = _missing(gitdir)
    if len(gone) > 1 and "gfs.format" not in read_config(f"{gitdir}/config"):
        raise no_repository(given)
    if gone:
        raise _damaged(gitdir, " and ".join(gone))


def check_sound(gitdir: str, ref: str) -> None:
    """Refuse a repository that lost a part of itself, or the ref that all its history hangs on."""
    check_whole(gitdir, gitdir)
    if Refs(gitdir).read(ref) is None:
        raise _damaged(gitdir, ref)


def _damaged(gitdir: str, gone: str) -> Corrupt:
    return Corrupt(
        f"the repository {gitdir} is damaged; missing: {gone}",
        hint="Call a person: a backup or a clone has what is gone.",
        path=gitdir,
    )
