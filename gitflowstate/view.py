"""The view: live and archived flows as plain files beside the repository, for people and jq.

Rules: it is a cache, built from one head and never read for anything else; what goes wrong in it
is a warning; a file that gfs did not write is kept beside its successor (architecture, section 4,
Refs and folder).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gitflowstate.errors import GfsError
from gitflowstate.git import Repository
from gitflowstate.gitconfig import Modes
from gitflowstate.kinds import KINDS, MAX_DOCUMENT
from gitflowstate.model import archive_path, flow_path
from gitflowstate.objects import Oid, object_id
from gitflowstate.plainfiles import OTHER, PlainFiles
from gitflowstate.syscalls import read_regular
from gitflowstate.trees import Change, is_file

SHOWN = ("flows", "archive")
_MARKER = "view"
_MAX_WALK = 200  # commits; beyond that, comparing everything is as cheap
_MAX_FAILURES = 8  # a full disk need not be met once for every flow


class _Step(NamedTuple):
    """One file to bring about: its id and, where it is at hand, its content; None removes."""

    path: str
    oid: Oid | None
    content: bytes | None = None


class View:
    """The plain files in `folder` that show the repository in `gitdir`.

    Whoever calls `refresh` or `repair` holds the repository lock.
    """

    def __init__(self, folder: Path, gitdir: Path) -> None:
        self.folder = folder
        self.private = gitdir / "gfs"

    def head(self) -> Oid | None:
        """Return the commit that the view was built from, None where that is not known."""
        with suppress(GfsError):
            raw = read_regular(str(self.private / _MARKER), 41) or b""
            return raw[:40].decode() if re.fullmatch(rb"[0-9a-f]{40}\n", raw) else None
        return None

    def lags(self, repo: Repository, head: Oid) -> bool:
        """Tell whether a commit since the one that is shown has touched what is shown.

        Or whether that cannot be told.
        """
        built = self.head()
        with suppress(GfsError, OSError):
            return built != head and bool(_Pass(self, repo, built).missed(head))
        return True

    def refresh(
        self, repo: Repository, old: Oid | None, new: Oid, changes: Mapping[str, bytes | None]
    ) -> list[str]:
        """Follow the commit that moved the head from `old` to `new`; return warnings.

        Only the files of `changes` are touched if the view shows `old`; else those of all commits
        since the one that it does show, or everything where that one is not behind the head.
        """
        built = self.head()
        work = _Pass(self, repo, built)
        if built is not None and built == old:
            return work.run(lambda: _changed(changes), new)
        return work.run(lambda: work.missed(new), new)

    def repair(self, repo: Repository, head: Oid) -> list[str]:
        """Bring every file to what `head` holds, reading all of them; return warnings."""
        work = _Pass(self, repo, self.head())
        return work.run(lambda: work.everything(head), head)


def _changed(changes: Mapping[str, bytes | None]) -> list[_Step]:
    return [
        _Step(path, None if content is None else object_id("blob", content), content)
        for path, content in changes.items()
        if _is_shown(path)
    ]


def _differing(changes: Iterable[Change]) -> list[_Step]:
    return [
        _Step(path, after.oid if after and is_file(after) else None)
        for path, _, after in changes
        if _is_shown(path)
    ]


def _is_shown(path: str) -> bool:
    """Return whether a path is where a flow belongs; what people put elsewhere stays in Git."""
    flow = path.rpartition("/")[2].removesuffix(".json")
    return KINDS["Id"].accepts(flow) and path in (flow_path(flow), archive_path(flow))


class _Pass:
    """One pass over the view, in which errors of disk and repository become warnings."""

    def __init__(self, view: View, repo: Repository, built: Oid | None) -> None:
        modes = Modes(repo.config.get("core.sharedrepository", ""))
        self._view = view
        self._files = PlainFiles(view.folder, view.private, modes)
        self._repo = repo
        self._built = built
        self._shown: Oid | None = None
        self._failures: list[str] = []
        self._warnings: list[str] = []

    def run(self, steps: Callable[[], list[_Step]], head: Oid) -> list[str]:
        """Carry out the steps, and note the head if all went well; return warnings."""
        self._attempt(lambda: self._carry_out_all(steps()), str(self._view.folder))
        if not self._failures:
            note = f"{head}\n".encode("ascii")
            # In place: a torn marker names no commit, and then everything is compared.
            self._attempt(lambda: self._files.note(_MARKER, note), str(self._view.private))
        if self._failures:
            self._warnings.append(
                f"the plain files in {self._view.folder} are behind the repository, which is not "
                f"affected: {self._failures[0]}; the next write tries again"
            )
        return self._warnings

    def _attempt(self, act: Callable[[], None], place: str) -> None:
        try:
            act()
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else place
            self._failures.append(f"{where}: {error.strerror or error}")
        except GfsError as error:
            self._failures.append(error.message)

    # ── what is to be done ──────────────────────────────────────────────────────────────────────

    def missed(self, head: Oid) -> list[_Step]:
        """Return a step for every file that a commit since the one shown has touched.

        Not only for those that differ: a pass that was cut short may have written a file which
        the commit after it took away again.
        """
        touched: set[str] = set()
        tree = self._repo.commit(head).tree
        newer = None
        with suppress(GfsError):  # a hole in the history
            for commit in islice(self._repo.lineage(head, SHOWN), _MAX_WALK):
                if newer is not None:
                    changes = self._repo.diff(commit.tree, newer.tree, SHOWN)
                    touched.update(path for path, _, _ in changes if _is_shown(path))
                if commit.oid == self._built:
                    return [self._step(tree, path) for path in sorted(touched)]
                newer = commit
        return self.everything(head)

    def _step(self, tree: Oid, path: str) -> _Step:
        with suppress(GfsError):  # a link or a submodule, which is not shown
            entry = self._repo.lookup(tree, path)
            return _Step(path, entry.oid if entry and is_file(entry) else None)
        return _Step(path, None)

    def everything(self, head: Oid) -> list[_Step]:
        """Return a step for every file of the head, and for those it does not hold."""
        steps = _differing(self._repo.diff(None, self._repo.commit(head).tree, SHOWN))
        strays = self._strays({step.path for step in steps})
        return [*steps, *(_Step(path, None) for path in strays)]

    def _strays(self, known: set[str]) -> Iterator[str]:
        """Yield the flows in the view that the head does not hold, but some commit did."""
        for top in SHOWN:
            for path in self._files.paths(top):
                if path not in known and _is_shown(path):
                    found = self._files.content_id(path, MAX_DOCUMENT)
                    if found is not None and self._is_ours(path, found):
                        yield path

    def _shown_tree(self) -> Oid | None:
        if self._shown is None and self._built is not None:
            with suppress(GfsError):  # the history was rewritten, and that commit is gone
                self._shown = self._repo.commit(self._built).tree
        return self._shown

    # ── one file ────────────────────────────────────────────────────────────────────────────────

    def _carry_out_all(self, steps: list[_Step]) -> None:
        # A flow that moves stands in both places for a moment, never in neither.
        for step in sorted(steps, key=lambda step: step.oid is None):
            self._attempt(partial(self._carry_out, step), step.path)
            if len(self._failures) >= _MAX_FAILURES:
                return

    def _carry_out(self, step: _Step) -> None:
        found = self._files.content_id(step.path, MAX_DOCUMENT)
        if found == step.oid:
            return
        if found is not None and not self._is_ours(step.path, found):
            kept = self._files.keep(step.path)
            self._warnings.append(
                f"{self._view.folder}/{step.path} was changed by hand, which gfs does not read; "
                f"it is kept beside it as {kept}"
            )
            found = None
        if step.oid is not None:
            content = step.content
            self._files.replace(
                step.path, self._repo.blob(step.oid, MAX_DOCUMENT) if content is None else content
            )
        elif found is not None:
            self._files.remove(step.path)

    def _is_ours(self, path: str, found: Oid) -> bool:
        """Return whether gfs wrote a file, so that Git has what it holds.

        It is what the commit that the view shows held there; or, where a pass was cut short, what
        another one did.
        """
        if found == OTHER:
            return False
        with suppress(GfsError):
            tree = self._shown_tree()
            entry = self._repo.lookup(tree, path) if tree else None
            if entry is not None and entry.oid == found:
                return True
        return self._repo.has(found)
