"""A second repository that is kept as a copy: every ref of ours pushed there, and read back.

Rules: a ref moves forward there or not at all, since a copy with another history may be the better
one; what counts is what is read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gitflowstate import bundles, cgit
from gitflowstate.adapters.remote import GitRemote
from gitflowstate.errors import Stale
from gitflowstate.git import Oid, Repository


class Mirror:
    """A repository at a URL or path, written from `gitdir` or brought into it."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        cgit.check_place(url)
        self.url = url
        self._environment = environment

    def push(self, repo: Repository) -> dict[str, Oid]:
        """Bring every ref there to what it is here; return what was read back.

        Raises Stale where another history is there, Unavailable or Denied where it is not reached.
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
        why = "; ".join(f"{name} {reasons.get(name, 'moved meanwhile')}" for name in missing)
        raise Stale(
            f"the copy was not brought up to date: {why}",
            hint="compare both with git log; name another place for this copy",
            refs=missing,
        )

    def fetch(self, gitdir: Path) -> dict[str, Oid]:
        """Bring every ref of the copy into an empty repository; return what each holds there."""
        remote = self._at(gitdir)
        refs = bundles.told_refs(remote.run("ls-remote", "--quiet", "--", self.url))
        remote.run(*bundles.fetching(self.url))
        return refs

    def _at(self, gitdir: Path) -> GitRemote:
        token = self._environment.get("GFS_GIT_TOKEN")
        return GitRemote(gitdir, self.url, self._environment, token=token)


def _refusals(told: str) -> Iterator[tuple[str, str]]:
    """Yield the refs that `git push --porcelain` says were not taken, and why."""
    for line in told.splitlines():
        flag, *words = line.split("\t")
        if flag == "!" and len(words) == 2:  # noqa: PLR2004  what was pushed, and the answer
            yield words[0].partition(":")[2], cgit.plain(words[1])
