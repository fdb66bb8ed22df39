"""The origin of a repository, reached through C git: read its refs, fetch one, push one.

Rules: Git starts with no GIT_ variable of ours, asks nobody, and runs no hook of this repository;
those of the origin count. A token goes through the environment and never into an argument, to the
host of the URL alone, which may send it nowhere else. Fetched objects stay without a ref, unless
one of ours is named for them; neither FETCH_HEAD nor configuration is written.
"""

from __future__ import annotations

import base64
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from random import random
from urllib.parse import urlsplit

from gitflowstate import cgit, reconcile, stopped
from gitflowstate.delivery import NotSent, Unknown
from gitflowstate.errors import Denied, GfsError, NotFound, Rejected, Unavailable
from gitflowstate.ports import IS_THERE, Tracked

TIMEOUT_S = 120.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST_KEY = (
    "log in there once with ssh, by hand, and see whether it is the host that you mean; a changed "
    "key is a matter for who keeps it"
)
_OID = re.compile(r"[0-9a-f]{40}")
_AUTH = re.compile(
    r"Authentication failed|could not read (Username|Password)|Permission denied"
    r"|returned error: 40[13]|Access denied|Host key verification failed"
    r"|dubious ownership",
    re.IGNORECASE,
)
_UNSEEN = re.compile(r"^fatal: repository '.*' not found|returned error: 404", re.MULTILINE)
# What Git says once it has begun to send: whatever fails after that, something may have arrived.
_SENDING = re.compile(r"objects:|^Total \d", re.MULTILINE)
_LOCKED = re.compile(r"cannot lock ref|Unable to create .*\.lock|could not lock")
# Who is fetched from writes nothing.
_WRITING = re.compile(
    r"^(?:error|fatal): ((?:insufficient permission for adding an object|unable to (?:create|write)"
    r"|(?:cannot|could not) (?:lock|write)|cannot update ref \S+ couldn't write"
    r"|failed to write|write error|sha1 file).*)$",
    re.MULTILINE | re.IGNORECASE,
)
_UNWHOLE = re.compile(r"did not send all necessary|unresolved deltas|object file .+ is empty")
_TRACKING = 7  # attempts while another process brings the same ref
_FETCH = (
    *("fetch", "--no-tags", "--no-write-fetch-head"),  # not --quiet: it would hide a refusal
    *("--no-recurse-submodules", "--refmap="),
)


class GitRemote:
    """One origin; `gitdir` is the repository whose objects are used.

    `cut` tells that history need not be whole there; a relative URL begins at `folder`; `named` is
    what the configuration of `gitdir` calls the origin, if it does.
    """

    def __init__(
        self,
        gitdir: Path,
        url: str,
        environment: Mapping[str, str],
        *,
        push_url: str | None = None,
        token: str | None = None,
        folder: Path | None = None,
        cut: bool = False,
        named: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.gitdir = gitdir
        self.cut = cut
        self._folder = folder
        self.url = url
        self.push_url = push_url or url
        self._source = named or url
        self._target = named or self.push_url
        self._timeout_s = timeout_s
        self._environment = _environment(environment, (url, self.push_url), token)
        # Whoever a server sends us to is not who the token was given for.
        self._options = ("-c", "http.followRedirects=false") if token else ()

    def refs(self, *names: str) -> dict[str, str]:
        """Return what each ref holds there. Raises Unavailable or Denied."""
        told = self.run("ls-remote", "--quiet", "--", self._source, *names)
        pairs = (line.split("\t", 1) for line in told.splitlines() if "\t" in line)
        found = {name: oid for oid, name in pairs if name in names}
        if not all(map(_OID.fullmatch, found.values())):
            raise Unavailable("the origin uses another kind of commit ids", hint="nothing was sent")
        return found

    def fetch(self, name: str, *, shallow: bool = False) -> None:
        """Bring the commit of a ref into the objects alone. Raises Unavailable or Denied."""
        cut = ["--depth=1"] if shallow and self.cut else []
        self.run(*_FETCH, *cut, "--", self._source, name)

    def track(self, name: str, into: str) -> Tracked:
        """Bring a ref and what it needs to a ref of ours, which only ever moves forward.

        Raises Unavailable or Denied.
        """
        code, _, err = self._fetch_into(name, into)
        if "shallow roots are not allowed" in err:
            raise Rejected(
                "the remote is a shallow clone: it does not have all of its history",
                hint="name the repository that it was cloned from",
            )
        if code == 0:
            return "here"
        if "couldn't find remote ref" in err:
            return "absent"
        if "non-fast-forward" in err:
            return "replaced"
        if here := at_home(err):
            raise here
        if _LOCKED.search(err):
            raise Unavailable(
                f"another process holds the lock of {into}",
                hint="run the same command again",
                held=into,
            )
        raise self.failure(err)

    def _fetch_into(self, name: str, into: str) -> cgit.Ended:
        """Fetch into a ref, again while another process holds that."""
        for attempt in range(_TRACKING):
            if attempt:
                time.sleep(reconcile.pause(attempt - 1, random()))  # noqa: S311  jitter
            ended = self.attempt(*_FETCH, "--", self._source, f"{name}:{into}")
            if ended.code == 0 or not _LOCKED.search(ended.err) or at_home(ended.err):
                break
        return ended

    def push(self, name: str, old: str | None, new: str) -> str | None:
        """Move a ref there from a value to a commit; return why it was refused, None if it moved.

        Raises NotSent where nothing left, Unknown where no answer about the ref came although
        something may have, Denied for wrong credentials.
        """
        code, out, err = self.attempt(
            "push",
            "--porcelain",
            "--progress",
            "--no-verify",
            "--no-follow-tags",
            f"--force-with-lease={name}:{old or ''}",
            "--",
            self._target,
            f"{new}:{name}",
        )
        for line in out.splitlines():
            flag, tab, rest = line.partition("\t")
            if tab and rest.startswith(f"{new}:{name}\t"):
                if flag == "=":
                    return IS_THERE
                return None if flag != "!" else cgit.refusal(rest.rsplit("\t", 1)[-1], err)
        if code == 0:
            return None
        raise self.unanswered(code, err)

    def unanswered(self, code: int, err: str) -> GfsError:
        """Return the error for a push of whose ref nothing was told: Denied, NotSent or Unknown."""
        if _AUTH.search(err) or self._unseen(err):
            return self.failure(err)
        ended = bool(err.strip()) or code == -signal.SIGPIPE  # then it says nothing
        if ended and not _SENDING.search(err):
            return NotSent(
                f"the origin is out of reach: {cgit.last_line(err)}",
                hint="run the same command again",
            )
        return Unknown("the origin did not say what became of the push", hint="it is looked at")

    def try_push(self, name: str, commit: str) -> None:
        """Ask whether a ref could be moved there, and move none. Raises Unavailable or Denied."""
        self.run("push", "--dry-run", "--no-verify", "--", self._target, f"+{commit}:{name}")

    def run(self, *arguments: str) -> str:
        """Run one Git command; return what it printed. Raises Unavailable or Denied."""
        code, out, err = self.attempt(*arguments)
        if code:
            raise self.failure(err)
        return out

    def attempt(self, *arguments: str, feed: str | None = None) -> cgit.Ended:
        """Run one Git command, fed with a text if there is one, whatever becomes of it."""
        return cgit.start(
            self.gitdir,
            (*self._options, *arguments),
            self._environment,
            folder=self._folder,
            timeout_s=self._timeout_s,
            feed=feed,
        )

    def failure(self, err: str) -> GfsError:
        """Return the error for what Git said."""
        said = cgit.last_line(err)
        if "dubious ownership" in err:
            return Denied(
                "the repository there belongs to another user, whom Git here does not trust",
                hint="ask that user for access or a bundle; see safe.directory in git help config",
            )
        if _AUTH.search(err):
            return Denied(
                f"the origin does not let us in: {said}",
                hint=_HOST_KEY if "Host key verification" in err else _access(self.url),
            )
        if self._unseen(err):
            return NotFound(
                f"the origin is not found: {said}",
                hint=f"look at the URL; who may not see it is told the same: {_access(self.url)}",
            )
        return Unavailable(f"the origin is out of reach: {said}", hint="run the same command again")

    def _unseen(self, err: str) -> bool:
        """Tell whether a web server says that there is nothing, which no repeat will change."""
        return cgit.is_web(self.url) and _UNSEEN.search(err) is not None


def at_home(err: str) -> GfsError | None:
    """Return the error for a fetch that failed at this side, or may have; None for any other."""
    for line in _WRITING.findall(err):
        if stopped.no_room(line):
            return Unavailable(
                f"there is no room here for what the remote has: {cgit.plain(line)}",
                hint="make room, then run the same command again",
            )
        if stopped.no_access(line):
            return Denied(
                f"what the remote has cannot be written here: {cgit.plain(line)}",
                hint="ask the owner of this repository for access",
            )
        if "couldn't write" in line:  # Git keeps the reason to itself
            return Unavailable(
                f"what the remote has cannot be written here: {cgit.plain(line)}",
                hint="see whether the disk has room, then run the same command again",
            )
    if _UNWHOLE.search(err):
        return Unavailable(
            f"what the remote has does not fit what is here: {cgit.last_line(err)}",
            hint="an object is missing or broken here, or there: gfs doctor looks at this side",
        )
    return None


def origin_of(
    gitdir: Path, environment: Mapping[str, str], folder: Path | None = None
) -> tuple[str, str]:
    """Return where the origin of a clone is read, and where it is written. Raises NotFound."""
    here = GitRemote(gitdir, "", environment, folder=folder)
    try:
        found = [
            here.run("remote", "get-url", *push, "origin").strip() for push in ((), ("--push",))
        ]
    except Unavailable:
        raise NotFound(
            f"{gitdir} has no remote called origin, where its cursor could be kept",
            hint="watch in the flow repository itself: --repo DIR, or GFS_REPO",
        ) from None
    return found[0], found[1]


def _environment(
    environment: Mapping[str, str], urls: tuple[str, ...], token: str | None
) -> dict[str, str]:
    own: dict[str, str] = {}
    hosts = list(dict.fromkeys(filter(None, map(_host, urls)))) if token else []
    if hosts:
        pair = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        # An empty value drops what files set: two such headers are refused.
        lines = [(host, value) for host in hosts for value in ("", f"Authorization: Basic {pair}")]
        own["GIT_CONFIG_COUNT"] = str(len(lines))
        for number, (host, value) in enumerate(lines):
            own[f"GIT_CONFIG_KEY_{number}"] = f"http.{host}.extraHeader"
            own[f"GIT_CONFIG_VALUE_{number}"] = value
    return cgit.environment(environment) | own


def _access(url: str) -> str:
    """Return what lets us in, by the transport of a URL."""
    if cgit.is_web(url):
        return "set GFS_GIT_TOKEN to a token that may read and write there"
    if cgit.is_url(url) and not url.startswith(("file://", "git://")):
        return "set GFS_SSH_COMMAND to an ssh with a key that may read and write there"
    return "ask who keeps it for access"


def _host(url: str) -> str | None:
    """Return the host of a URL that takes a token, without credentials; no plain text goes out."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return f"{parts.scheme}://{host}/"
    return None
