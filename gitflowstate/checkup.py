"""What is wrong with a flow repository: findings, each with its evidence and a safe next step.

Rules: looking changes nothing, and works on a repository that cannot be opened; a finding that can
be mended without losing anything carries how; no next step takes anything away or goes round a
check.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gitflowstate import handmade, history, layout, leftovers, torn, upkeep
from gitflowstate.cursorstore import CursorStore, verify
from gitflowstate.definitions import MAIN
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, GfsError, NotFound
from gitflowstate.git import CommitInfo, Oid, Repository
from gitflowstate.kinds import Time
from gitflowstate.message import decode_trailers
from gitflowstate.model import Flow
from gitflowstate.store import Store
from gitflowstate.syscalls import calls, lstat_or_none, random_name

CURSORS = "refs/gfs/cursors/"
_LOCKS = ("*.lock", "refs/**/*.lock", "logs/**/*.lock", "objects/**/*.lock")
_OWN_LOCKS = ("gfs.lock",)
_LITTLE_SPACE = 64 << 20
_NAMED, _MANY = 3, 20  # of many alike
_CLONE = "fetch the object from a clone or a backup that has it; a person should look"


class Finding(NamedTuple):
    """One thing that is wrong, or, as a `note`, one that is only worth knowing.

    `fix` mends it and returns what it did.
    """

    kind: str
    problem: str
    evidence: str
    next: str
    note: bool = False
    fix: Callable[[], str] | None = None


def of(kind: str, error: GfsError) -> Finding:
    """Return the finding that an error is."""
    return Finding(kind, error.message, error.name, error.hint)


def guarded(kind: str, findings: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield findings; an error on the way is the last of them."""
    try:
        yield from findings()
    except GfsError as error:
        yield of(kind, error)


# ── the folder, whether it can be opened or not ─────────────────────────────────────────────────


def folder(gitdir: Path) -> Iterator[Finding]:
    """Yield what can be seen without opening the repository: locks and space."""
    for path in sorted({p for pattern in _LOCKS for p in gitdir.glob(pattern)}):
        if path.name not in _OWN_LOCKS and leftovers.is_dead(str(gitdir), str(path)):
            yield _stale(gitdir, path)
    try:
        space = os.statvfs(gitdir)
    except OSError:
        return
    free = space.f_bavail * space.f_frsize
    if free < _LITTLE_SPACE:
        yield Finding("space", "the disk is nearly full", f"{free >> 20} MiB free", "make room")


def _stale(gitdir: Path, path: Path) -> Finding:
    info = lstat_or_none(str(path))
    minutes = leftovers.age_s(info) // 60 if info else 0

    def fix() -> str:
        told: list[str] = []
        if not leftovers.clear(str(gitdir), str(path), told):
            return ""
        return told[0] if told else f"{path} was moved aside"

    return Finding(
        "stale-lock",
        f"{path} was left behind",
        f"{minutes:.0f} minutes old, and no process has it open",
        "gfs doctor --fix moves it aside",
        fix=fix,
    )


def access(gitdir: Path) -> Iterator[Finding]:
    """Yield what keeps us from writing."""
    for name in ("", "objects", "refs", "refs/heads"):
        path = gitdir / name
        if path.exists() and not os.access(path, os.W_OK):
            owner = path.stat()
            yield Finding(
                "permission",
                f"{path} cannot be written by this user",
                f"uid {owner.st_uid}, mode {stat.filemode(owner.st_mode)}",
                "ask its owner for access",
            )


# ── refs and the head ───────────────────────────────────────────────────────────────────────────


def heads(repo: Repository, *, made_by_gfs: bool, at: Time) -> Iterator[Finding]:
    """Yield what is wrong with HEAD, main and the objects that it names."""
    said = layout.read_head(str(repo.gitdir))
    if made_by_gfs and said != f"ref: {MAIN}":
        yield Finding(
            "head",
            "HEAD does not name main, so that a clone begins elsewhere",
            f"HEAD says {said[:80]!r}",
            f"git symbolic-ref HEAD {MAIN}",
        )
    for name, oid in repo.refs("refs/replace").items():
        yield Finding(
            "replace-ref",
            "Git shows another object in the place of one, and gfs does not",
            f"{name} -> {oid[:12]}",
            "git replace --list shows them; ask who made it",
        )
    yield from _torn(repo, at)


def _torn(repo: Repository, at: Time) -> Iterator[Finding]:
    found = torn.find(repo)
    if isinstance(found, torn.Cut):
        cut = found
        what = f"{len(cut.torn)} commits at the head" if cut.torn else f"the value of {MAIN}"
        lost = cut.torn[0].problem if cut.torn else f"{MAIN} holds no commit id"
        yield Finding(
            "torn-head",
            f"{what} did not reach the disk whole",
            f"{lost}; {cut.good[:12]} is the last whole commit",
            "first look for a clone or a backup that has them; gfs doctor --fix goes back to the "
            "last whole commit and keeps what can be read on refs/gfs/rescued/",
            fix=lambda: _moved_back(repo, cut, at),
        )
    elif found is not None:
        yield Finding("torn-head", "the head cannot be read", found, _CLONE)
    elif repo.ref(MAIN) is None:
        raise NotFound(
            f"{repo.gitdir} has no {MAIN}: it holds no flows", hint="gfs where; look into a backup"
        )


def _moved_back(repo: Repository, cut: torn.Cut, at: Time) -> str:
    name = torn.move_back(repo, cut, at)
    return f"main is at {cut.good[:12]} again; what was above it is kept on {name}"


# ── history and documents ───────────────────────────────────────────────────────────────────────


def past(
    repo: Repository, head: Oid, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    """Yield damage and broken rules in the history of main and of each cursor."""
    report = history.verify(repo, head, progress=progress)
    yield from _problems(repo, report)
    if report.unmanaged:
        yield Finding(
            "hand-made",
            f"{len(report.unmanaged)} commits were made by hand",
            ", ".join(oid[:12] for oid in report.unmanaged[:_NAMED]),
            "git show each; what counts is the document at the head",
            note=True,
        )
    if report.shallow:
        yield Finding("shallow", "history is cut here", "a shallow clone", "", note=True)
    for name, oid in repo.refs(CURSORS.rstrip("/")).items():
        yield from _problems(repo, verify(repo, oid, name.removeprefix(CURSORS)), name)


def _problems(repo: Repository, report: history.Report, ref: str = MAIN) -> Iterator[Finding]:
    for found in report.problems[:_MANY]:
        oid, problem = found["commit"], found["problem"]
        yield Finding(
            "damage",
            f"a commit of {ref} does not replay: {problem}",
            _about(repo, oid),
            f"git show {oid[:12]}; the bytes are left alone, and newer flows can be used",
        )


def _about(repo: Repository, oid: Oid) -> str:
    """Return which commit it is, and which flow and revision where that is known."""
    try:
        told = decode_trailers(repo.commit(oid).message) or {}
    except Corrupt:
        told = {}
    flow = f", {told['Flow']} r{told.get('Revision', '?')}" if "Flow" in told else ""
    return f"commit {oid[:12]}{flow}"


def flows(repo: Repository, timeout: float) -> Iterator[Finding]:
    """Yield the flows that cannot be used, and edits by hand that are not yet recorded."""
    store = Store(repo, timeout=timeout)
    head = store.head()
    managed = store.managed(head)
    for item in store.flows(archived=True):
        if isinstance(item, Broken):
            yield Finding("flow", item.error.message, item.path, item.error.hint)
    yield from guarded("hand-made", lambda: _untouched(repo, managed, head))


def _untouched(repo: Repository, managed: CommitInfo, head: CommitInfo) -> Iterator[Finding]:
    handmade.check_untouched(repo, managed, head)
    yield from ()


def results(
    repo: Repository, timeout: float, exists: Callable[[str | None], bool | None]
) -> Iterator[Finding]:
    """Yield the results that are no file where a flow says; nothing is changed (R-TF-07)."""
    for item in Store(repo, timeout=timeout).flows(archived=True):
        if isinstance(item, Flow):
            named = [(item.id, item.result_ref), *((t.id, t.result_ref) for t in item.children)]
            for name, reference in named:
                if exists(reference) is False:
                    where = item.id if name == item.id else f"{item.id}/{name}"
                    yield Finding(
                        "result",
                        f"the result of {where} is not there",
                        str(reference),
                        "look for it where the work was done; a move of the repository moves none",
                        note=True,
                    )


# ── how it is stored ────────────────────────────────────────────────────────────────────────────


def storage(repo: Repository) -> Iterator[Finding]:
    """Yield empty object files, and whether it is time to pack."""
    gitdir = repo.gitdir
    for path in sorted((gitdir / "objects").glob("??/*")):
        info = lstat_or_none(str(path))
        if info and stat.S_ISREG(info.st_mode) and info.st_size == 0 and len(path.name) == 38:  # noqa: PLR2004  the rest of an id
            yield _empty(gitdir, path)
    sizes = upkeep.sizes(repo)
    if sizes.loose > upkeep.MANY_LOOSE or sizes.packs > upkeep.MANY_PACKS:
        yield Finding(
            "upkeep",
            f"{sizes.loose:,} loose objects and {sizes.packs} packs: logs are slow",
            f"{sizes.bytes >> 20} MiB",
            "gfs gc",
            note=True,
        )


def _empty(gitdir: Path, path: Path) -> Finding:
    def fix() -> str:
        aside = gitdir / "gfs" / "stale"
        aside.mkdir(parents=True, exist_ok=True)
        moved = aside / random_name(f"{path.parent.name}{path.name}-")
        calls.rename(str(path), str(moved))
        return f"the empty file is now {moved}"

    return Finding(
        "empty-object",
        f"object {path.parent.name}{path.name} is an empty file",
        str(path),
        f"gfs doctor --fix moves it aside, so that Git can store it again; or {_CLONE}",
        fix=fix,
    )


# ── channels ────────────────────────────────────────────────────────────────────────────────────


def cursors(repo: Repository, head: Oid) -> Iterator[Finding]:
    """Yield cursors that cannot be read whole, or that have seen more than main holds."""
    for name in repo.refs(CURSORS.rstrip("/")):
        channel = name.removeprefix(CURSORS)
        store = CursorStore(repo, channel)
        cursor = store.load()
        for problem in store.problems:
            yield Finding(
                "cursor", problem, name, "the next gfs watch goes on from what it can read"
            )
        seen = cursor.head if cursor else None
        if seen is not None and not repo.is_within(seen, head):
            yield Finding(
                "behind-cursor",
                f"channel {channel} has seen a commit that is not in main",
                f"{seen[:12]} is not behind {head[:12]}",
                f"main was moved back or rewritten: git reflog show {MAIN}; ask who did it",
            )
