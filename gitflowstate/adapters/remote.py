"""The origin of a repository, reached through C git: read its refs, fetch one, push one.

Rules: Git starts with no GIT_ variable of ours, asks nobody, and runs no hook of this repository;
those of the origin count. A token goes through the environment and never into an argument. Fetched
objects stay without a ref; neither FETCH_HEAD nor configuration is written.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from gitflowstate.delivery import Unknown
from gitflowstate.errors import Denied, GfsError, NotFound, Unavailable

TIMEOUT_S = 120.0
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "push.gpgSign=false",
    "submodule.recurse=false",
)
_PROTOCOLS = "file:git:http:https:ssh"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OID = re.compile(r"[0-9a-f]{40}")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")
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
        code, out, err = self._started(
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
                return None if flag != "!" else _plain(rest.rsplit("\t", 1)[-1])
        if code == 0:
            return None
        if _AUTH.search(err):
            raise self._failure(err)
        raise Unknown("the origin did not say what became of the push", hint="it is looked at")

    def try_push(self, name: str, commit: str) -> None:
        """Ask whether a ref could be moved there, and move none. Raises Unavailable or Denied."""
        self.run("push", "--dry-run", "--no-verify", "--", self.push_url, f"+{commit}:{name}")

    def run(self, *arguments: str) -> str:
        """Run one Git command; return what it printed. Raises Unavailable or Denied."""
        code, out, err = self._started(*arguments)
        if code:
            raise self._failure(err)
        return out

    def _started(self, *arguments: str) -> tuple[int, str, str]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = ["git", *settings, f"--git-dir={self.gitdir}", *arguments]
        try:
            process = subprocess.Popen(  # noqa: S603  Git itself
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,  # a terminal could be asked for a password
            )
        except FileNotFoundError:
            raise NotFound("git is not installed", hint="install git to reach the origin") from None
        try:
            out, err = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return -1, "", f"no answer within {self._timeout_s:g} s"
        except BaseException:
            _end(process)
            raise
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def _failure(self, err: str) -> GfsError:
        said = _plain(next(iter(reversed(err.strip().splitlines())), "no reason given"))
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
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    own = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",  # set and empty: nothing else is looked for
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "LC_ALL": "C.UTF-8",
    }
    hosts = list(dict.fromkeys(filter(None, map(_host, urls)))) if token else []
    if hosts:
        pair = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        # An empty value drops what files set: two such headers are refused.
        lines = [(host, value) for host in hosts for value in ("", f"Authorization: Basic {pair}")]
        own["GIT_CONFIG_COUNT"] = str(len(lines))
        for number, (host, value) in enumerate(lines):
            own[f"GIT_CONFIG_KEY_{number}"] = f"http.{host}.extraHeader"
            own[f"GIT_CONFIG_VALUE_{number}"] = value
    kept.pop("GFS_GIT_TOKEN", None)
    return kept | own


def _host(url: str) -> str | None:
    """Return the host of a URL that takes a token, without credentials; no plain text goes out."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return f"{parts.scheme}://{host}/"
    return None


def _plain(text: str) -> str:
    """Return what Git said on one short line, without credentials."""
    return _CREDENTIALS.sub("", " ".join(text.split()))[:200]


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
