"""C git, started for what it does best: bundles, transport and upkeep.

Rules: one repository, named; no GIT_ variable of ours, no prompt, no hook, no gc of its own, and
only protocols that run nothing of a stranger's; what a person names is checked before it becomes
an argument (hazard F9), and stands behind `--`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple

from gitflowstate.errors import GfsError, Usage

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "push.gpgSign=false",
    "push.pushOption=",  # an empty one drops all of them
    "submodule.recurse=false",
)
_PROTOCOLS = "file:git:http:https:ssh"
_NO_REASON = "fatal: Could not read from remote repository."  # and advice, after the reason
_ADDRESS = re.compile(r"(?:^|(?<=@))\[[0-9a-f:.]+\](?=:)", re.IGNORECASE)  # of a host, as in ssh
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")
# What the other side said, and what of that is said with every push.
_SAID = re.compile(r"^(?:remote:|error: remote unpack failed:) *(\S.*?) *$", re.MULTILINE)
_ROUTINE = re.compile(r"objects:|deltas:|^Total \d|hook declined")


class Ended(NamedTuple):
    """What became of one command; a negative code where it was ended before its time."""

    code: int
    out: str
    err: str


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Git gets: the caller's, but for what would steer it."""
    kept = {name: value for name, value in given.items() if not name.startswith("GIT_")}
    kept.pop("GFS_GIT_TOKEN", None)
    ssh = given.get("GFS_SSH_COMMAND")
    return (
        kept
        | ({"GIT_SSH_COMMAND": ssh} if ssh else {})
        | {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",  # set and empty: nothing else is looked for
            "SSH_ASKPASS_REQUIRE": "never",
            "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
            "LC_ALL": "C.UTF-8",
            "LANGUAGE": "",  # it outranks LC_ALL, but for C itself
        }
    )


def is_installed(given: Mapping[str, str]) -> bool:
    """Tell whether Git is found on the PATH of an environment."""
    return shutil.which("git", path=given.get("PATH", os.defpath)) is not None


def is_url(text: str) -> bool:
    """Tell whether Git takes a text for a URL, or for `host:path`, rather than for a path."""
    return "://" in text or ":" in text.partition("/")[0]


def is_web(text: str) -> bool:
    """Tell whether a URL is one of HTTP."""
    return text.startswith(("http://", "https://"))


def check_place(text: str) -> None:
    """Refuse a URL or path that Git could take for anything else. Raises Usage."""
    odd = not text or text.startswith("-") or any(ord(letter) < 32 for letter in text)  # noqa: PLR2004  control characters
    if odd or "::" in _ADDRESS.sub("", text.partition("/")[0]):
        raise Usage(
            f"{text[:60]!r} is neither a URL nor a path that is taken here",
            hint="name a URL such as https://HOST/PATH, or a path; ./NAME if it begins oddly",
        )


def start(
    gitdir: Path,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    timeout_s: float | None = None,
    keep_open: tuple[int, ...] = (),
    feed: str | None = None,
) -> Ended:
    """Run one command to its end, fed with a text if there is one.

    `keep_open` are descriptors that it shares with us. Raises GfsError where Git is not installed.
    """
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = ["git", *settings, f"--git-dir={gitdir}", *arguments]
    try:
        process = subprocess.Popen(  # noqa: S603  Git itself
            command,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            pass_fds=keep_open,
            start_new_session=True,  # a terminal could be asked for a password
        )
    except FileNotFoundError:
        raise GfsError(
            "git is not installed: nothing was done",
            hint="install git (2.36 or newer), then run the same command again",
        ) from None
    try:
        out, err = process.communicate(feed.encode() if feed else None, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        told = _end(process).decode("utf-8", "replace")
        return Ended(-1, "", f"{told}\nno answer within {timeout_s:g} s")
    except BaseException:
        _end(process)
        raise
    return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """End a command and what it started; return what it had said of itself."""
    told = b""
    for number, wait in ((signal.SIGTERM, 1.0), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)  # asked first, so that it takes its lock files along
        with suppress(subprocess.TimeoutExpired):
            told = process.communicate(timeout=wait)[1]
            break
    return told


def plain(text: str) -> str:
    """Return what Git said on one short line, without credentials."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return _CREDENTIALS.sub("", " ".join(shown.split()))[:200]


def refusal(reason: str, err: str) -> str:
    """Return why a remote refused, with what its hooks, its rules or its disk said of that."""
    return ": ".join([plain(reason), *filter(None, ["; ".join(said(err))[:200]])])


def said(err: str) -> list[str]:
    """Return what a remote said, but for what is said with every push."""
    return [plain(line) for line in _SAID.findall(err) if not _ROUTINE.search(line)]


def last_line(err: str) -> str:
    """Return the last thing that Git said on its way out."""
    before, found, _ = err.partition(_NO_REASON)
    reason = before.strip() or found or err.strip()
    return plain(next(iter(reversed(reason.splitlines())), "no reason given"))


class Git:
    """C git on one repository; the descriptors of `keep_open` are open in every command."""

    def __init__(
        self, gitdir: Path, given: Mapping[str, str], *, keep_open: tuple[int, ...] = ()
    ) -> None:
        self.gitdir = gitdir
        self._environment = environment(given)
        self.keep_open = keep_open

    def at(self, gitdir: Path) -> Git:
        """Return the same for another repository."""
        other = copy(self)
        other.gitdir = gitdir
        return other

    def holding(self, descriptor: int) -> Git:
        """Return the same, whose commands share one more descriptor with us."""
        other = copy(self)
        other.keep_open = (*self.keep_open, descriptor)
        return other

    def attempt(self, *arguments: str, timeout_s: float | None = None) -> Ended:
        """Run one command, whatever becomes of it."""
        return start(
            self.gitdir,
            arguments,
            self._environment,
            timeout_s=timeout_s,
            keep_open=self.keep_open,
        )
