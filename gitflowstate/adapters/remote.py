"""The origin of a repository, reached through C git: read its refs, fetch one, push one.

Rules: Git starts with no GIT_ variable of ours, asks nobody, and runs no hook of this repository;
those of the origin count. A token goes through the environment and never into an argument. Fetched
objects stay without a ref; neither FETCH_HEAD nor configuration is written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gitflowstate import cgit
from gitflowstate.delivery import Unknown
from gitflowstate.errors import Denied, GfsError, NotFound, Unavailable

TIMEOUT_S = 120.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OID = re.compile(r"[0-9a-f]{40}")
_AUTH = re.compile(
    r"Authentication failed|could not read (Username|Password)|Permission denied"
    r"|returned error: 40[13]|Access denied",
    re.IGNORECASE,
)


class GitRemote:
    """One origin; `gitdir` is the repository whose objects are used.

    `cut` tells that history need not be whole there; a relative URL begins at `folder`.
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
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.gitdir = gitdir
        self.cut = cut
        self._folder = folder
        self.url = url
        self.push_url = push_url or url
        self._timeout_s = timeout_s
        self._environment = _environment(environment, (url, self.push_url), token)

    def refs(self, *names: str) -> dict[str, str]:
        """Return what each ref holds there. Raises Unavailable or Denied."""
        told = self.run("ls-remote", "--quiet", "--", self.url, *names)
        pairs = (line.split("\t", 1) for line in told.splitlines() if "\t" in line)
        found = {name: oid for oid, name in pairs if name in names}
        if not all(map(_OID.fullmatch, found.values())):
            raise Unavailable("the origin uses another kind of commit ids", hint="nothing was sent")
        return found

    def fetch(self, name: str, *, shallow: bool = False) -> None:
        """Bring the commit of a ref into the objects alone. Raises Unavailable or Denied."""
        cut = ["--depth=1"] if shallow and self.cut else []
        self.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--refmap=",
            *cut,
            "--",
            self.url,
            name,
        )

    def push(self, name: str, old: str | None, new: str) -> str | None:
        """Move a ref there from a value to a commit; return why it was refused, None if it moved.

        Raises Unknown where no answer about the ref came, Denied for wrong credentials.
        """
        code, out, err = self.attempt(
            "push",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            f"--force-with-lease={name}:{old or ''}",
            "--",
            self.push_url,
            f"{new}:{name}",
        )
        for line in out.splitlines():
            flag, tab, rest = line.partition("\t")
            if tab and rest.startswith(f"{new}:{name}\t"):
                return None if flag != "!" else cgit.plain(rest.rsplit("\t", 1)[-1])
        if code == 0:
            return None
        if _AUTH.search(err):
            raise self.failure(err)
        raise Unknown("the origin did not say what became of the push", hint="it is looked at")

    def try_push(self, name: str, commit: str) -> None:
        """Ask whether a ref could be moved there, and move none. Raises Unavailable or Denied."""
        self.run("push", "--dry-run", "--no-verify", "--", self.push_url, f"+{commit}:{name}")

    def run(self, *arguments: str) -> str:
        """Run one Git command; return what it printed. Raises Unavailable or Denied."""
        code, out, err = self.attempt(*arguments)
        if code:
            raise self.failure(err)
        return out

    def attempt(self, *arguments: str) -> cgit.Ended:
        """Run one Git command, whatever becomes of it."""
        return cgit.start(
            self.gitdir,
            arguments,
            self._environment,
            folder=self._folder,
            timeout_s=self._timeout_s,
        )

    def failure(self, err: str) -> GfsError:
        """Return the error for what Git said."""
        said = cgit.last_line(err)
        if _AUTH.search(err):
            return Denied(
                f"the origin does not let us in: {said}",
                hint="set GFS_GIT_TOKEN to a token that may read and write there",
            )
        return Unavailable(f"the origin is out of reach: {said}", hint="run the same command again")


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


def _host(url: str) -> str | None:
    """Return the host of a URL that takes a token, without credentials; no plain text goes out."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return f"{parts.scheme}://{host}/"
    return None
