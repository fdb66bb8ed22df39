"""Where a repository's files are, what is refused when one is opened, and how one is made.

Nothing is run and no variable of the environment is read: trust comes from the caller.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from gitflowstate.errors import Corrupt, Denied, Rejected
from gitflowstate.gitconfig import Config, Modes, is_true, read_config
from gitflowstate.syscalls import (
    calls,
    fsync_folder,
    lstat_or_none,
    random_name,
    read_regular,
    remove_quietly,
    reported,
    write_new,
)
from gitflowstate.wholeness import check_whole, exists, is_repository, no_repository

BRANCH = "refs/heads/main"
_SMALL = 1 << 16
# objectformat and refstorage are judged by their values.
_KNOWN_EXTENSIONS = {"noop", "preciousobjects", "worktreeconfig", "relativeworktrees"}
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfsync = committed,reference
[gc]
\tauto = 0
[receive]
\tdenyNonFastForwards = true
\tdenyDeletes = true
"""


class Layout(NamedTuple):
    """The folder with objects and refs, and what its configuration says."""

    common: str
    config: Config
    modes: Modes
    shallow: frozenset[str]


def locate(path: str, trust: frozenset[str], *, writing: bool) -> Layout:
    """Return the layout of the repository at a path, or refuse it with the reason.

    `path` is a repository, the `.git` file of a linked worktree or submodule (followed one step,
    if the repository names it in turn), or the folder that holds either. NotFound if there is no
    repository, Denied for a foreign owner not in `trust`, Rejected for a feature we do not
    support, and for writing if main is checked out.
    """
    given = os.path.abspath(path)  # noqa: PTH100  symbolic links stay as the person wrote them
    gitdir = _follow(given, trust)
    _check_owner(gitdir, given, trust)
    common = _common(gitdir)
    _check_owner(common, given, trust)
    check_whole(common, given)
    config = read_config(f"{common}/config")
    if is_true(config, "extensions.worktreeconfig"):
        config |= read_config(f"{common}/config.worktree")
    _check_features(common, config)
    if writing:
        _check_not_checked_out(common, config)
    modes = Modes(config.get("core.sharedrepository", ""))
    return Layout(common, config, modes, _shallow(common))


def _follow(path: str, trust: frozenset[str]) -> str:
    """Return the git folder that a path means."""
    if exists(f"{path}/.git") and not is_repository(path):
        path = f"{path}/.git"
    with reported("look at", path):
        info = lstat_or_none(path)
    if info is None:
        raise no_repository(path)
    if not stat.S_ISREG(info.st_mode):
        return path
    _check_owner(path, path, trust)
    target = _gitfile_target(path)
    if not _names_back(target, path):
        raise Rejected(
            f"{path} leads to {target}, which does not name it in turn",
            hint="Name the repository itself with --repo.",
            path=path,
        )
    return target


def _gitfile_target(path: str) -> str:
    raw = read_regular(path, _SMALL) or b""
    text = os.fsdecode(raw).rstrip("\r\n")
    if not text.startswith("gitdir: "):
        raise no_repository(path)
    return os.path.normpath(os.path.join(os.path.dirname(path), text.removeprefix("gitdir: ")))  # noqa: PTH118,PTH120  plain text paths


def _names_back(target: str, gitfile: str) -> bool:
    """Return whether a linked worktree's or a submodule's folder says that this file is its."""
    back = read_regular(f"{target}/gitdir", _SMALL)
    if back is not None:
        named = os.path.join(target, os.fsdecode(back).rstrip("\r\n"))  # noqa: PTH118  plain text paths
    else:
        tree = read_config(f"{target}/config").get("core.worktree")
        if tree is None:
            return False
        named = os.path.join(target, tree, ".git")  # noqa: PTH118  plain text paths
    return os.path.realpath(named) == os.path.realpath(gitfile)


def _common(gitdir: str) -> str:
    """Return the folder that linked worktrees share."""
    raw = read_regular(f"{gitdir}/commondir", _SMALL)
    if raw is None:
        return gitdir
    return os.path.normpath(os.path.join(gitdir, os.fsdecode(raw).rstrip("\r\n")))  # noqa: PTH118  plain text paths


def _check_owner(path: str, given: str, trust: frozenset[str]) -> None:
    """Refuse another user's repository: its configuration and content are that user's."""
    if trust & _names_of(path, given, os.path.realpath(path), os.path.realpath(given)):
        return
    with reported("look at", path):
        info = lstat_or_none(path)
        owner = os.geteuid() if info is None else info.st_uid
        if info is not None and stat.S_ISLNK(info.st_mode):
            owner = os.stat(path).st_uid  # noqa: PTH116  what it leads to is what is read
    if owner != os.geteuid():
        raise Denied(
            f"{path} belongs to another user (uid {owner})",
            hint=f"If you trust that user, set GFS_TRUST={given}.",
            path=path,
            owner=owner,
        )


def _names_of(*paths: str) -> set[str]:
    """Return what a person may call a repository: its folder, or the `.git` in it."""
    return {*paths, *(p.removesuffix("/.git") for p in paths), *(f"{p}/.git" for p in paths)}


def _check_features(common: str, config: Config) -> None:
    """Refuse what would make us read or write wrong data."""
    reason = _unsupported(config)
    if (
        reason is None
        and (read_regular(f"{common}/objects/info/alternates", _SMALL) or b"").strip()
    ):
        reason = "it borrows objects from another repository (objects/info/alternates)"
    if reason is None and exists(f"{common}/reftable"):
        reason = "it keeps its refs in a reftable"
    if reason is not None:
        raise Rejected(
            f"{common} cannot be used: {reason}",
            hint="Make a full ordinary clone of it and use that.",
            path=common,
        )


def _unsupported(config: Config) -> str | None:
    version = config.get("core.repositoryformatversion", "0")
    if version not in {"0", "1"}:
        return f"its format version is {version}"
    for key, value in config.items():
        name = key.lower()
        if name == "extensions.objectformat" and value.lower() == "sha1":
            continue
        if name == "extensions.refstorage" and value.lower() == "files":
            continue
        if (
            name.startswith("extensions.")
            and name.removeprefix("extensions.") not in _KNOWN_EXTENSIONS
        ):
            return f"it uses {key} = {value}"
        if name.startswith("remote.") and name.endswith((".promisor", ".partialclonefilter")):
            return f"it is a partial clone ({key} = {value})"
    return None


def _check_not_checked_out(common: str, config: Config) -> None:
    """Refuse to move a branch under a checkout: its next commit would undo ours (hazard F9)."""
    heads = [common] if not is_bare(common, config) else []
    with reported("list", f"{common}/worktrees"):
        heads += [f"{common}/worktrees/{name}" for name in _names(f"{common}/worktrees")]
    for place in heads:
        head = read_head(place)
        if head == f"ref: {BRANCH}":
            raise Rejected(
                f"{BRANCH} is checked out ({place}), so it is not moved by gfs",
                hint="Let whoever works there take another branch, then run it again.",
                path=place,
            )


def _names(folder: str) -> list[str]:
    try:
        return sorted(calls.listdir(folder))
    except FileNotFoundError:
        return []


def read_head(gitdir: str) -> str:
    """Return what HEAD says; "" if it cannot be, and a symbolic link as its target."""
    path = f"{gitdir}/HEAD"
    info = lstat_or_none(path)
    if info is not None and stat.S_ISLNK(info.st_mode):
        return f"ref: {os.readlink(path)}"  # noqa: PTH115  plain text paths
    raw = read_regular(path, _SMALL) or b""
    word, _, target = raw.decode("utf-8", "replace").strip().partition(":")
    return f"{word}: {target.strip()}" if target else word


def is_bare(common: str, config: Config) -> bool:
    """Return whether Git takes a repository for one without a work tree of its own."""
    if "core.bare" in config:
        return is_true(config, "core.bare")
    return "core.worktree" not in config and not common.endswith("/.git")


def _shallow(common: str) -> frozenset[str]:
    raw = read_regular(f"{common}/shallow", 16 << 20)
    if raw is None:
        return frozenset()
    lines = frozenset(raw.decode("ascii", "replace").split())
    if any(len(line) != 40 for line in lines):  # noqa: PLR2004  an id
        raise Corrupt(f"{common}/shallow does not parse", hint="Call a person.")
    return lines


def make(path: str) -> None:
    """Make a repository without a work tree, aside and synced, then rename it into place."""
    path = os.path.abspath(path)  # noqa: PTH100  symbolic links stay as the person wrote them
    parent = os.path.dirname(path)  # noqa: PTH120  plain text paths
    aside = f"{parent}/{random_name('.gfs-init-')}"
    with reported("create", path):
        folders = ["", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"]
        for folder in folders:
            calls.mkdir(f"{aside}/{folder}", 0o777)
        write_new(f"{aside}/config", _CONFIG.encode("ascii"))
        write_new(f"{aside}/HEAD", f"ref: {BRANCH}\n".encode("ascii"))
        for folder in reversed(folders):
            fsync_folder(f"{aside}/{folder}")
        try:
            calls.rename(aside, path)
        except OSError as error:
            _remove(aside, folders)
            if lstat_or_none(path) is None:
                raise
            raise Rejected(
                f"{path} exists and is not empty",
                hint="Choose another folder.",
                path=path,
            ) from error
        fsync_folder(parent)


def _remove(aside: str, folders: list[str]) -> None:
    """Remove what was just made, file by file: never a folder that holds anything else."""
    for name in ("config", "HEAD"):
        remove_quietly(f"{aside}/{name}")
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(f"{aside}/{folder}")  # noqa: PTH106  plain text paths
