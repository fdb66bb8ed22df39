"""A second repository that is kept as a copy: every ref of ours pushed there, and read back.

Rules: a ref moves forward there or not at all, since a copy with another history may be the better
one; what counts is what is read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gitflowstate import attempts, bundles, cgit, stopped
from gitflowstate.adapters.remote import GitRemote, at_home
from gitflowstate.errors import Denied, GfsError, Stale, Unavailable
from gitflowstate.git import Oid, Repository

_MOVED = "moved meanwhile"
_KEEPER = (
    "ask who keeps it whether you may write there, and whether its disk has room; then run the "
    "same command again"
)


class Mirror:
    """A repository at a URL or path, written from `gitdir` or brought into it."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        cgit.check_place(url)
        self.url = url
        self._environment = environment

    def push(self, repo: Repository) -> dict[str, Oid]:
        """Bring every ref there to what it is here; return what was read back.

        Raises Stale where another history is there; Unavailable or Denied where it is not reached,
        or cannot be written; Corrupt where what is here cannot be read.
        """
        refs = bundles.refs_of(repo)
        remote = self._at(repo.gitdir)
        words = [f"{oid}:{name}" for name, oid in sorted(refs.items())]
        flags = ("--porcelain", "--no-verify", "--no-follow-tags")
        ended = remote.attempt("push", *flags, "--", self.url, *words)
        reasons = dict(_refusals(ended.out))
        if ended.code and not reasons:
            raise remote.failure(ended.err)
        found = remote.refs(*refs)
        missing = sorted(name for name, oid in refs.items() if found.get(name) != oid)
        if not missing:
            return found
        raise _refused(ended, {name: reasons.get(name, _MOVED) for name in missing}, repo.gitdir)

    def copy(self) -> bundles.Copy:
        """Return the copy that it is."""
        return bundles.Copy(self._refs, self._bring)

    def _refs(self, gitdir: Path) -> dict[str, Oid]:
        return bundles.told_refs(self._at(gitdir).run("ls-remote", "--quiet", "--", self.url))

    def _bring(self, gitdir: Path) -> None:
        remote = self._at(gitdir)
        ended = remote.attempt(*bundles.fetching(self.url))
        if ended.code:
            raise at_home(ended.err) or remote.failure(ended.err)

    def _at(self, gitdir: Path) -> GitRemote:
        token = self._environment.get("GFS_GIT_TOKEN")
        return GitRemote(gitdir, self.url, self._environment, token=token)


def _refused(ended: cgit.Ended, reasons: dict[str, str], gitdir: Path) -> GfsError:
    """Return the error for refs that were not taken: it is told whether here or there is why."""
    what = "the copy was not brought up to date"
    told = next((reason for reason in reasons.values() if reason != _MOVED), _MOVED)
    why = cgit.refusal("; ".join(f"{name} {reasons[name]}" for name in reasons), ended.err)
    if found := stopped.at_home(ended, what, gitdir):
        return found
    if attempts.is_race(told) or attempts.is_storage(told):  # else a hook may say anything
        said = "\n".join(cgit.said(ended.err))
        if found := stopped.hindered(said, f"{what}, it says"):
            return found
    if told == _MOVED or attempts.is_race(told):
        return Stale(
            f"{what}: {why}",
            hint="compare both with git log; name another place for this copy",
            refs=[*reasons],
        )
    if attempts.is_barred(f"{told} {why}"):
        return Denied(f"{what}: it cannot be written: {why}", hint=_KEEPER)
    if attempts.is_storage(told):
        return Unavailable(f"{what}: it could not store what it was sent: {why}", hint=_KEEPER)
    return Denied(f"{what}: {why}", hint="a rule or a hook there decides: ask who keeps it")


def _refusals(told: str) -> Iterator[tuple[str, str]]:
    """Yield the refs that `git push --porcelain` says were not taken, and why."""
    for line in told.splitlines():
        flag, *words = line.split("\t")
        if flag == "!" and len(words) == 2:  # noqa: PLR2004  what was pushed, and the answer
            yield words[0].partition(":")[2], cgit.plain(words[1])
