"""`gfs doctor`: what is wrong with the repository, with evidence and a safe next step for each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import checkup, contents, due, location, movedback, roots, storage, upkeep
from gitflowstate.cgit import Git, is_installed
from gitflowstate.cli import config, healing, mending, output
from gitflowstate.cli.recovery import exists
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.contents import CURSORS
from gitflowstate.definitions import MAIN
from gitflowstate.errors import GfsError, NotFound
from gitflowstate.findings import Finding, guarded, of
from gitflowstate.git import Oid, Repository
from gitflowstate.locks import repository_lock

_LATE_S = 3600


@reads
def doctor(
    session: Session,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended without losing anything.")
    ] = False,
) -> None:
    """Look for what is wrong; say the evidence and a safe next step. Leaves with 1 if there is any.

    With --fix stale locks and broken objects are moved aside, a torn head goes back to the last
    whole commit while the rest is kept, and the plain files are renewed.

    Example: gfs doctor
    """
    rows: list[dict[str, Any]] = []
    use: dict[str, int] | None = None
    try:
        place = session.location
    except NotFound:
        raise
    except GfsError as error:
        rows.append(mending.row(of("repository", error)))
    else:
        rows += _looked(place, fix=fix)
        use = _use(place)
    output.progress("")
    _tell(session, rows, use)


def _use(place: location.Location) -> dict[str, int] | None:
    """Return how much the repository takes on the disk, and how much room is left."""
    try:
        with Repository.open(place.gitdir, trust=config.trust()) as repo:
            return upkeep.sizes(repo)._asdict() | {"free": shutil.disk_usage(place.gitdir).free}
    except (GfsError, OSError):
        return None


def _tell(session: Session, rows: list[dict[str, Any]], use: dict[str, int] | None) -> None:
    open_ = [row for row in rows if not row["note"] and not row["fixed"]]
    text = "\n".join(_shown(row) for row in rows)
    if not open_:
        output.success(
            {"findings": rows, "disk": use}, text or "nothing is wrong", as_json=session.json
        )
        return
    if not session.json:
        output.success(None, text, as_json=False)
    raise GfsError(
        f"{len(open_)} problem{'s were' if len(open_) > 1 else ' was'} found"
        f"{', first' * (len(open_) > 1)}: {open_[0]['problem']}",
        hint="the next step stands with each finding; back up before anything else",
        findings=rows,
        disk=use,
    )


def _shown(row: dict[str, Any]) -> str:
    head = "fixed" if row["fixed"] else "note" if row["note"] else "problem"
    lines = [f"{head}: {row['problem']}", f"  {row['evidence']}"]
    lines += [f"  {row['fixed']}"] if row["fixed"] else []
    lines += [f"  next: {row['next']}"] if row["next"] and not row["fixed"] else []
    return "\n".join(
        output.line(line) if line[0] != " " else f"  {output.line(line)}" for line in lines
    )


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


def _looked(place: location.Location, *, fix: bool) -> Iterator[dict[str, Any]]:
    mender = mending.Mender(place.gitdir, fix=fix)
    yield from mender.rows(guarded("locks", lambda: checkup.folder(place.gitdir)))
    try:
        repo = Repository.open(place.gitdir, trust=config.trust())
    except GfsError as error:
        yield mending.row(of("repository", error))
        return
    with repo:
        yield from mender.rows(_opened(repo, place))


def _opened(repo: Repository, place: location.Location) -> Iterator[Finding]:
    if place.writable:
        yield from guarded("checked-out", lambda: _writing(place))
    yield from guarded("permission", lambda: checkup.access(repo.gitdir))
    if place.ref == MAIN:
        yield from guarded("head", lambda: checkup.named(repo, made_by_gfs=place.writable))
    git = Git(repo.gitdir, config.environment())
    yield from guarded("pack-index", lambda: storage.indexes(repo, git))
    if place.ref == MAIN:
        at = config.now()
        yield from guarded("refs", lambda: healing.heads(repo, place, at=at))
    if place.writable:
        at_hand = git if is_installed(config.environment()) else None
        yield from guarded("ref", lambda: roots.flaws(repo, at_hand))
    yield from guarded("storage", lambda: storage.storage(repo, upkeep.sizes(repo)))
    yield from guarded("reflog", lambda: checkup.logs(repo))
    try:
        head = repo.ref(place.ref)
        if head is not None:
            repo.commit(head)
    except GfsError:
        return  # told above
    if head is not None:
        yield from _content(repo, place, head)
    if place.writable and is_installed(config.environment()):
        yield from guarded("reach", lambda: storage.reach(git))


def _writing(place: location.Location) -> Iterator[Finding]:
    Repository.open(place.gitdir, trust=config.trust(), writing=True).close()
    yield from ()


def _content(repo: Repository, place: location.Location, head: Oid) -> Iterator[Finding]:
    timeout = config.lock_timeout()
    past = guarded("history", lambda: contents.past(repo, head, _progress))
    yield from healing.past(past, repo, place)
    if place.ref == MAIN:
        yield from guarded("moved-back", lambda: movedback.examine(repo))
    yield from guarded("remote", lambda: healing.sharing(repo, place))
    yield from guarded("flow", lambda: contents.flows(repo, timeout))
    yield from guarded("process", lambda: contents.journal(repo, timeout))
    yield from guarded("result", lambda: contents.results(repo, timeout, exists))
    yield from guarded("cursor", lambda: contents.cursors(repo, head))
    yield from guarded("notice", lambda: _owed(repo, head))
    if place.view:
        yield from guarded("view", lambda: _view(repo, place, head))


def _progress(count: int) -> None:
    if count % 100 == 0:
        output.progress(f"{count:,} commits")


def _view(repo: Repository, place: location.Location, head: Oid) -> Iterator[Finding]:
    from gitflowstate.view import View

    view = View(Path(place.folder), place.gitdir)
    if not view.lags(repo, head):
        return
    # A writer may be between its commit and the files: it holds the lock meanwhile.
    with repository_lock(place.gitdir, config.lock_timeout()):
        shown, head = view.head(), repo.ref(place.ref) or head
        if not view.lags(repo, head):
            return
    if shown is not None and movedback.find(repo, head, [shown]) is not None:
        return  # they show what main had: told above, and left for whoever decides

    def fix() -> str:
        now = repo.ref(place.ref)
        told = view.repair(repo, now) if now else []
        if now is None or view.head() != now:
            raise GfsError(*told[-1:] or [f"{place.ref} is gone"])
        return "; ".join(["they show the head again", *told])

    yield Finding(
        "view",
        "the plain files lag behind the repository",
        f"they show {(shown or 'nothing')[:12]}, the head is {head[:12]}",
        "gfs doctor --fix renews them; the next write does, too",
        note=True,
        fix=fix,
    )


def _owed(repo: Repository, head: Oid) -> Iterator[Finding]:
    """Yield what a channel should have been told an hour ago."""
    from gitflowstate import documents, settings
    from gitflowstate.cli.watch import rules_of
    from gitflowstate.cursorstore import CursorStore
    from gitflowstate.looking import look
    from gitflowstate.snapshot import Snapshot

    raw = documents.blob_at(repo, repo.commit(head).tree, settings.FILE)
    known = settings.Settings() if raw is None else settings.parse(raw)
    now = config.now()
    for name in repo.refs(CURSORS.rstrip("/")):
        channel = name.removeprefix(CURSORS)
        store = CursorStore(repo, channel)
        cursor = store.load()
        if cursor is None or cursor.head is None or channel not in known.channels:
            continue
        seen = look(Snapshot(repo, head), store, rules_of(known.channel(channel)), cursor)
        for flow, why in seen.parked().items():
            yield Finding(
                "notice", f"{channel} does not take {flow}", why, f"gfs channel check {channel}"
            )
        late = [
            flow
            for flow in seen.owed()
            if flow not in seen.parked()
            and due.elapsed(seen.items[flow].flow.updated_at, now) > _LATE_S
        ]
        if late:
            yield Finding(
                "notice",
                f"{channel} is owed news of {len(late)} flows for more than an hour",
                f"{', '.join(late[:3])}; {due.age(seen.items[late[0]].flow.updated_at, now)}",
                f"gfs watch {channel} --once; is its cron job or timer still on?",
            )
