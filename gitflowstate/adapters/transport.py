"""The remote of a flow repository that gfs made: how it is named, and the way to it.

Rules: it is a Git configuration of its own, `gfs/remote/config` in the repository, which gfs wrote
and people may add to. Beside it lie links to the objects and refs of the repository, whose own
configuration therefore has no say in where Git goes, what it runs and which credentials it shows.
What was brought survives a power cut before a ref of ours is moved to it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from gitflowstate import cgit, stopped
from gitflowstate.adapters import webpush
from gitflowstate.adapters.remote import GitRemote
from gitflowstate.errors import GfsError, NotFound, Rejected, Unavailable, Usage
from gitflowstate.location import NAMED, REMOTE, TRACKED, url_in
from gitflowstate.ports import Tracked
from gitflowstate.syscalls import (
    calls,
    fsync_file,
    fsync_folder,
    lstat_or_none,
    random_name,
    read_regular,
    reported,
    write_new,
)

_ASKED = "asked"  # its time is when the remote last answered
_SCHEMES = ("file", "git", "http", "https", "ssh")
_SECRET = re.compile(r"[?&;][^=&;]*(?:token|secret|passw|key|auth)[^=&;]*=", re.IGNORECASE)
_LINKS = ("objects", "refs", "packed-refs", "shallow")
_MISSING = re.compile(
    r"does not appear to be a git repository|not found|not exported", re.IGNORECASE
)
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfsync = committed,reference
[remote "{name}"]
\turl = "{url}"
\tfetch = refs/heads/main:{tracked}
\ttagOpt = --no-tags
"""


def place_of(text: str, here: Path) -> str:
    """Return a URL as given, or a path as one that means the same from anywhere.

    Raises Usage for what Git could take for anything else, and for credentials in it.
    """
    cgit.check_place(text)
    if not cgit.is_url(text):
        return os.path.normpath(here / text)
    if "://" in text:
        _check_scheme(text)
    if _tells_secrets(text):
        raise Usage(
            "the URL holds credentials, which are not kept in a file",
            hint="leave them out of it, and set GFS_GIT_TOKEN",
        )
    return text


def _tells_secrets(text: str) -> bool:
    """Tell whether a URL holds a password; over HTTP a user alone may be a token."""
    user, at, _ = text.partition("://")[2].partition("/")[0].rpartition("@")
    if cgit.is_web(text):
        return bool(at) or _SECRET.search(text) is not None
    return ":" in user


def _check_scheme(text: str) -> None:
    """Refuse what Git will never reach. Raises Usage."""
    scheme, _, rest = text.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    if scheme not in _SCHEMES or host.startswith("-") or not (host or scheme == "file"):
        raise Usage(
            f"{scheme[:20]}:// and what follows is no URL that is taken here",
            hint="name one such as https://HOST/PATH or ssh://HOST/PATH, or a path",
        )


def attach(gitdir: Path, url: str) -> None:
    """Say where the remote of a repository is; nothing is sent. Rejected if it has another."""
    folder = gitdir / REMOTE
    _clear(folder)
    aside = _made(gitdir, url)
    with reported("make", str(folder)):
        try:
            calls.rename(str(aside), str(folder))
        except OSError as error:
            _drop(aside)
            raise Rejected(f"{gitdir} has a remote already", hint="gfs where says which") from error
        fsync_folder(str(folder.parent))
        fsync_folder(str(gitdir))


@contextmanager
def considered(
    gitdir: Path, url: str, environment: Mapping[str, str], *, timeout_s: float
) -> Iterator[GitRemote]:
    """Yield the way to a remote that a repository may be given; what comes from there is synced."""
    aside, token = _made(gitdir, url), environment.get("GFS_GIT_TOKEN")
    given: Any = {"token": token, "folder": aside, "named": NAMED, "timeout_s": timeout_s}
    try:
        yield GitRemote(aside, url, environment, **given)
        _sync(gitdir / "objects", 0)
    finally:
        _drop(aside)


def rename(gitdir: Path, url: str, environment: Mapping[str, str]) -> None:
    """Say that the remote of a repository is elsewhere now; settings beside the URL stay."""
    path = gitdir / REMOTE / "config"
    git = cgit.Git(gitdir, environment)
    words = ("config", "--file", str(path), "--replace-all", f"remote.{NAMED}.url", url)
    stopped.run(git, *words)
    with reported("sync", str(path)):
        fsync_file(str(path))
        fsync_folder(str(path.parent))


def _made(gitdir: Path, url: str) -> Path:
    """Make the way to a remote, under a name aside; return that."""
    folder = gitdir / REMOTE
    aside = folder.with_name(random_name("remote-"))
    with reported("make", str(folder)):
        for path in (folder.parent, aside):
            if lstat_or_none(str(path)) is None:
                calls.mkdir(str(path), 0o777)
        for name in _LINKS:
            (aside / name).symlink_to(f"../../{name}")
        config = _CONFIG.format(name=NAMED, url=_quoted(url), tracked=TRACKED)
        write_new(f"{aside}/HEAD", b"ref: refs/heads/main\n")
        write_new(f"{aside}/config", config.encode("utf-8", "surrogateescape"))
        fsync_folder(str(aside))
    return aside


def _clear(folder: Path) -> None:
    """Put aside what is left of a way that names no remote any more."""
    if folder.is_dir() and url_in(folder) is None:
        with reported("move", str(folder)):
            calls.rename(str(folder), str(folder.with_name(random_name("lost-"))))


def _quoted(url: str) -> str:
    return url.replace("\\", "\\\\").replace('"', '\\"')


def _drop(aside: Path) -> None:
    from shutil import rmtree  # noqa: PLC0415  hardly ever

    rmtree(aside, ignore_errors=True)


def _sync(objects: Path, since: int) -> None:
    """Let the names of new objects survive a power cut; the files themselves Git has synced."""
    with reported("sync", str(objects)):
        for name in ("", *calls.listdir(str(objects))):
            path = f"{objects}/{name}"
            info = calls.lstat(path)
            # A file system may keep its time in whole seconds.
            if stat.S_ISDIR(info.st_mode) and info.st_mtime_ns >= since - 2_000_000_000:
                fsync_folder(path)


class Transport(GitRemote):
    """The way to the remote of a flow repository, and when that last answered."""

    def __init__(
        self, gitdir: Path, url: str, environment: Mapping[str, str], *, timeout_s: float
    ) -> None:
        token = environment.get("GFS_GIT_TOKEN")
        folder = gitdir / REMOTE
        super().__init__(
            folder,
            url,
            environment,
            token=token,
            folder=folder,  # wherever we stand, even where there is no folder any more
            named=NAMED,
            timeout_s=timeout_s,
        )
        self.objects = gitdir / "objects"
        self._asked = folder / _ASKED
        self._read_back: dict[str, str] = {}  # what a push that was just answered saw afterwards

    def push(self, name: str, old: str | None, new: str) -> str | None:
        """Move a ref there from a value to a commit; return why it was refused, None if it moved.

        Over HTTP the ref is read back at once, for the question that follows. Raises NotSent,
        Unknown or Denied.
        """
        url = self._web
        if url is None:
            return super().push(name, old, new)
        feed = webpush.script(name, old, new)
        code, out, err = self.attempt(*webpush.command(NAMED, url), feed=feed)
        answer = webpush.answer(out, name)
        if not answer.answered:
            raise self.unanswered(code, err)
        if answer.there:
            self._read_back = {name: answer.there}
        return answer.refusal and cgit.refusal(answer.refusal, err)

    @cached_property
    def _web(self) -> str | None:
        """The URL to push to where that is over HTTP, as a person's settings rewrite it."""
        if not cgit.is_web(self.url):
            return None
        code, out, _ = self.attempt("remote", "get-url", "--push", NAMED)
        return out.strip() if code == 0 and cgit.is_web(out) else None

    def refs(self, *names: str) -> dict[str, str]:
        """Return what each ref holds there. Raises Unavailable or Denied."""
        found, self._read_back = self._read_back, {}
        if found.keys() != set(names):
            found = super().refs(*names)
        self._answered()
        return found

    def track(self, name: str, into: str) -> Tracked:
        """Bring a ref and what it needs to a ref of ours, which only ever moves forward."""
        # Where they differ already, whoever brought the one may have died before its objects were
        # synced; where they are the same afterwards, nothing came that a ref of ours will name.
        self._read_back = {}
        since = time.time_ns() if self._loose(name) == self._loose(into) else 0
        found = super().track(name, into)
        if self._loose(name) != self._loose(into):
            _sync(self.objects, since)
        self._answered()
        return found

    def _loose(self, name: str) -> bytes | None:
        """Return what the file of a ref holds, None where it has none of its own."""
        return read_regular(f"{self.gitdir}/{name}", 64)

    def asked(self) -> float | None:
        """Return when the remote last answered, in seconds since 1970; None if it never did."""
        info = lstat_or_none(str(self._asked))
        return None if info is None else info.st_mtime

    def _answered(self) -> None:
        try:
            self._asked.touch()
        except OSError:
            return  # only looked at: a reader who may not write


def missing(error: GfsError) -> GfsError:
    """Return the error for a repository that is out of reach for good, where it is that."""
    if isinstance(error, Unavailable) and _MISSING.search(error.message):
        return NotFound(error.message, hint="look at the URL, and at who may see what is there")
    return error
