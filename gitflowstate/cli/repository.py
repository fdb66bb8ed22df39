"""The verbs of the repository itself: init, where, verify."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gitflowstate import __version__, founding, history, prose, settings
from gitflowstate.cli import config, output
from gitflowstate.cli.resources import resource
from gitflowstate.cli.session import Session, quoted
from gitflowstate.cli.verb import reads
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, Invalid, NotFound
from gitflowstate.founding import Founded
from gitflowstate.git import Repository
from gitflowstate.governed import GOVERNED
from gitflowstate.location import Location
from gitflowstate.store import Store


@reads
def init(
    session: Session,
    directory: Annotated[str | None, typer.Argument(metavar="[DIR]", help="Where.")] = None,
    no_view: Annotated[bool, typer.Option("--no-view", help="No plain files beside it.")] = False,
    github: Annotated[
        bool, typer.Option("--github", help="With a workflow that comments on GitHub issues.")
    ] = False,
    remote: Annotated[
        str | None, typer.Option(metavar="URL", help="Shared by a Git remote, which decides.")
    ] = None,
) -> None:
    """Make a flow repository; harmless where there is one already.

    With --remote it takes over what is there, and begins there where nothing is.
    Example: gfs init ~/flows
    """
    command = "gfs init" + " --no-view" * no_view + " --github" * github
    chosen = Path(directory) if directory else founding.choose(config.working_folder(), command)
    founded = _founded(chosen, remote, view=not no_view, command=command)
    for warning in founded.warnings:
        output.warn(warning)
    folder = str(founded.location.folder)
    following = ["gfs", "create", "GOAL", "--next", "FIRST STEP", "--repo", folder]
    kind = "a new flow repository" if founded.made else "already a flow repository"
    text = (
        f"{prose.terminal(folder, lines=False)}: {kind}\n"
        f"next: export GFS_REPO={quoted(folder)}; gfs create 'GOAL' --next 'FIRST STEP'"
    )
    data = {"folder": folder, "made": founded.made, "next": following}
    if github:
        data["added"] = added = _with_workflow(session, founded.location)
        data["missing"] = missing = _no_channel(founded.location)
        if missing is not None:
            output.warn(f"{missing}; the workflow tells the channel github: {_NEEDED}")
        text = f"{text}\n{_GITHUB_ADDED if added else _GITHUB_THERE}"
    if founded.location.remote is not None and (remote is not None or github):
        from gitflowstate.cli import sync

        text = f"{text}\n{sync.after_init(founded.location, data, as_json=session.json)}"
    output.success(data, text, as_json=session.json)


def _founded(chosen: Path, remote: str | None, *, view: bool, command: str) -> Founded:
    if remote is None:
        return founding.init(chosen, view=view, command=command)
    from gitflowstate.cli import sync

    return sync.founded(chosen, remote, view=view)


_WORKFLOW = ".github/workflows/gfs-watch.yml"
_CHANNEL = """\
# Who is told of flows. A flow goes to the issue it is linked to (gfs create --issue OWNER/REPO#N),
# else to the `target` of its channel.
[channels.github]
kind = "github"
"""
_NEEDED = 'gfs.toml needs a table [channels.github] with kind = "github"'
_GITHUB_ADDED = f"""\
added: what was missing of {_WORKFLOW} and gfs.toml, in one commit
On GitHub, set the variable GITFLOWSTATE_SOURCE of the repository to where gitflowstate comes from:
the URL of a wheel, or git+https://HOST/OWNER/REPOSITORY@FULL-COMMIT-ID. There is no default.
To push a workflow, GitHub wants a token with the scope workflow (classic),
or with Contents and Workflows, read and write (fine-grained); an SSH key always may."""
_GITHUB_THERE = f"{_WORKFLOW} and gfs.toml are there already; nothing was added"


def _with_workflow(session: Session, place: Location) -> list[str]:
    """Commit the workflow, and a channel for it, where there are none; return what was added."""
    workflow = resource("examples/github/gfs-watch.yml").read_bytes()
    files = {_WORKFLOW: workflow, settings.FILE: _CHANNEL.encode()}
    about, timeout = "Watch flows from GitHub Actions", config.lock_timeout()
    return founding.add(place, files, session.actor, config.now(), about, timeout)


def _no_channel(place: Location) -> str | None:
    """Return why the workflow has nobody to tell, None where it has."""
    from gitflowstate.cli.places import Place

    with Repository.open(place.gitdir, trust=config.trust()) as repo:
        head = repo.ref(place.ref)
        try:
            known = Place(repo, head).settings() if head else settings.Settings()
            kind = known.channel("github").kind
        except NotFound:
            return f"{settings.FILE} has no channel github"
        except Invalid as wrong:
            return wrong.message
    return None if kind == "github" else f"the channel github of {settings.FILE} is of kind {kind}"


@reads
def where(session: Session) -> None:
    """Say which repository this is, and who acts.

    Example: gfs where
    """
    place, store = session.location, session.store()
    head = store.head()
    data = {
        "folder": str(place.folder),
        "gitdir": str(place.gitdir),
        "ref": place.ref,
        "head": head.oid,
        "writable": place.writable,
        "view": place.view,
        "actor": session.actor,
        "version": __version__,
    }
    if place.remote is not None:
        from gitflowstate.cli import hosts

        data |= hosts.standing_of(store.repo, place)
    width = max(map(len, data)) + 1
    text = "\n".join(
        f"{name + ':':{width}} {prose.terminal(str(value), lines=False)}"
        for name, value in data.items()
    )
    output.success(data, text, as_json=session.json)


_FULL = re.compile("[0-9a-f]{40}")
_NAMED = re.compile("(?:HEAD|main)(~([0-9]{1,9})?)?")
_SHORTEST = 4  # as git abbreviates


@reads
def verify(
    session: Session,
    span: Annotated[
        str | None,
        typer.Argument(
            metavar="[A..B]",
            help="Commits after A up to B, which must keep A: full or short ids, main or main~N.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Edits by hand are errors.")] = False,
    incoming: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Objects of a push that a hook judges; whole ids only."),
    ] = None,
) -> None:
    """Replay history: every document must be what its operations give.

    Flows that edits by hand left unusable are named, too. With A..B, a B that takes back what A had
    is refused (6): a merge can have A among its ancestors and keep nothing of it.

    Example: gfs verify
    """
    if incoming is not None:
        report, broken = _pushed(session, Path(incoming), span or ""), []
    else:
        store = session.store()
        since, until = _range(session, span)
        report = history.verify(store.repo, until, since, _progress)
        at_head = until == store.head().oid and not report.problems
        broken = [*_unusable(store)] if at_head else []
    output.progress("")
    data = {
        "commits": report.commits,
        "unmanaged": report.unmanaged,
        "problems": report.problems,
        "shallow": report.shallow,
    }
    data["unusable"] = [{"path": item.path, "message": item.error.message} for item in broken]
    if report.problems or (strict and (report.unmanaged or broken)):
        hint = "git show that commit; the bytes are left alone"
        raise Corrupt(_fault(report, broken), hint=hint, **data)
    were = "all as their operations say" if report.commits != 1 else "as its operation says"
    lines = [f"{prose.count(report.commits, 'commit')} replayed, {were}"]
    lines += [f"unmanaged: {oid[:12]}" for oid in report.unmanaged]
    lines += [f"unusable: {output.line(item.said)}" for item in broken]
    if report.shallow:
        lines.append("the first commit of this shallow clone was taken as given")
    output.success(data, "\n".join(lines), as_json=session.json)


def _pushed(session: Session, incoming: Path, span: str) -> history.Report:
    """Judge what is pushed into a repository, whether that holds flows yet or not."""
    place = Path(session.repo_argument or config.working_folder())
    start, dots, end = span.partition("..")
    since, until = (start, end) if dots else (None, start)
    with Repository.receiving(place, incoming, trust=config.trust()) as repo:
        for oid in (until,) if since is None else (since, until):
            if not _FULL.fullmatch(oid) or not repo.has(oid):
                raise NotFound(f"there is no commit {oid[:40]!r} in that push", hint="git log")
        return history.verify(repo, until, since)


def _unusable(store: Store) -> Iterator[Broken]:
    """Yield what stands where a flow belongs and cannot be used, and what is gone from there."""
    yield from (item for item in store.flows(archived=True) if isinstance(item, Broken))


def _fault(report: history.Report, broken: list[Broken]) -> str:
    """Return what is wrong first, in words."""
    if report.problems:
        first = report.problems[0]
        return f"commit {first['commit'][:12]}: {first['problem']}"
    if report.unmanaged:
        count = len(report.unmanaged)
        were = "commits were" if count > 1 else "commit was"
        return f"{count} {were} made by hand: {report.unmanaged[0]}"
    return broken[0].said


def _progress(count: int) -> None:
    if count % 100 == 0:
        output.progress(f"{count:,} commits")


def _range(session: Session, span: str | None) -> tuple[str | None, str]:
    store = session.store()
    start, dots, end = (span or "").partition("..")
    if not dots:
        start, end = "", start
    until = _commit(session, end) if end else store.head().oid
    return (_commit(session, start) if start else None), until


def _commit(session: Session, text: str) -> str:
    """Return the commit that a full or short id or `main~N` names, along the line of the head."""
    store = session.store()
    if _FULL.fullmatch(text) and store.repo.has(text):
        return text
    named = _NAMED.fullmatch(text)
    back = int(named[2] or bool(named[1])) if named else None
    for number, commit in enumerate(store.repo.lineage(store.head().oid, GOVERNED)):
        if number == back or (len(text) >= _SHORTEST and commit.oid.startswith(text)):
            return commit.oid
    raise NotFound(
        f"there is no commit {text[:40]!r} behind the head",
        hint="name one by its full or short id, as git log shows it, or as main~N",
    )
