"""`gfs backup` and `gfs restore`: a copy of the whole repository, and a repository from one."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from gitflowstate import bundles, cgit, prose, restoring
from gitflowstate.adapters.mirror import Mirror
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session, quoted
from gitflowstate.cli.verb import reads
from gitflowstate.definitions import MAIN
from gitflowstate.errors import GfsError, NotFound, Rejected
from gitflowstate.git import Oid, Repository
from gitflowstate.location import is_there, made_by_gfs
from gitflowstate.syscalls import reported


@reads
def backup(
    session: Session,
    file: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A new file, or a repository by URL or path.")
    ],
) -> None:
    """Copy main and every ref of gfs into a new bundle, or to a second repository; read it back.

    Example: gfs backup ~/backups/flows.bundle
    """
    cgit.check_place(file)
    place = session.location
    if place.ref != MAIN:
        raise Rejected(
            f"{place.folder} is an ordinary clone, which has not all that its origin has",
            hint="back up the flow repository itself: --repo DIR, or GFS_REPO",
        )
    with Repository.open(place.gitdir, trust=config.trust()) as repo:
        if cgit.is_url(file) or _is_folder(file):
            with _explained(file):
                refs = _mirrored(repo, file)
        else:
            git = cgit.Git(repo.gitdir, config.environment())
            refs = bundles.write(repo, git, Path(file))
    text = f"{output.line(file)}: {_counted(refs)}, read back"
    data = {"target": file, "head": refs[MAIN], "refs": refs}
    output.success(data, text, as_json=session.json)


def _is_folder(target: str) -> bool:
    """Tell whether a path is that of a folder. Raises NotFound where one is meant and is not."""
    with reported("look at", target):
        try:
            info = Path(target).stat()
        except (FileNotFoundError, NotADirectoryError):
            info = None
    found = info is not None and stat.S_ISDIR(info.st_mode)
    if target.endswith("/") and not found:
        raise NotFound(
            f"{target} is no folder that is there",
            hint=f"name a new file, such as {target}flows.bundle in a folder that is there, or a "
            "repository",
        )
    return found


def _mirrored(repo: Repository, target: str) -> dict[str, Oid]:
    folder = None if cgit.is_url(target) else Path(target)
    if folder and repo.gitdir.resolve() in _gitdirs(folder):
        raise Rejected("that is the repository itself", hint="name another place")
    if folder and not any(is_there(folder / name) for name in (".git", "HEAD")):
        raise NotFound(
            f"{target} is a folder without a repository",
            hint=f"name a new file in it, such as {folder / 'flows.bundle'}, or a bare repository",
        )
    return Mirror(target, config.environment()).push(repo)


@contextmanager
def _explained(target: str) -> Iterator[None]:
    """Say how a file is named that Git takes for a place on another host."""
    try:
        yield
    except GfsError as error:
        if cgit.is_url(target) and "://" not in target:
            error.hint += f"; a file of that name is ./{target}"
        raise


def _gitdirs(folder: Path) -> tuple[Path, Path]:
    return folder.resolve(), (folder / ".git").resolve()


def _counted(refs: dict[str, Oid]) -> str:
    more = len(refs) - 1
    return f"main at {refs[MAIN][:12]}" + (
        f" and {more} ref{'s' * (more > 1)} of gfs" if more else ""
    )


@reads
def restore(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE|URL", help="What gfs backup wrote.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    no_view: Annotated[bool, typer.Option("--no-view", help="No plain files beside it.")] = False,
) -> None:
    """Make a flow repository in a new or empty folder from a copy: the same head, the same refs.

    It stands alone, whatever remote the one that was copied had: gfs init DIR --remote URL.

    Example: gfs restore ~/backups/flows.bundle ~/flows
    """
    cgit.check_place(file)
    environ = config.environment()
    git = cgit.Git(Path(file), environ)
    local = not cgit.is_url(file)
    copy = bundles.copy_at(Path(file), git) if local else Mirror(file, environ).copy()
    with _explained(file):
        done = restoring.restore(
            Path(directory),
            copy,
            view=not no_view,
            timeout=config.lock_timeout(),
            progress=_progress,
        )
    output.progress("")
    problems = [f"commit {p['commit'][:12]}: {p['problem']}" for p in done.report.problems]
    for warning in [*problems, *done.warnings]:
        output.warn(warning)
    folder = done.place.folder
    data = {
        "folder": str(folder),
        "made": done.made,
        "head": done.refs[MAIN],
        "refs": done.refs,
        "commits": done.report.commits,
        "problems": done.report.problems,
        "remote": None,
        "next": ["gfs", "list", "--repo", str(folder)],
    }
    text = (
        f"{output.line(str(folder))}: {'' if done.made else 'already there, '}"
        f"{_counted(done.refs)}, {prose.count(done.report.commits, 'commit')} replayed"
        f"\n{_alone(file, folder)}\nnext: export GFS_REPO={quoted(folder)}; gfs list"
    )
    output.success(data, text, as_json=session.json)


def _alone(file: str, folder: Path) -> str:
    """Say that what was brought back reaches no remote, and how it would; a bundle names none."""
    shared, url = "if its flows were shared through a remote", "URL"
    with suppress(GfsError):
        places = () if cgit.is_url(file) else (Path(file) / ".git", Path(file))
        source = next(filter(None, map(made_by_gfs, places)), None)
        if source is not None and source.remote is not None:
            shared, url = "that one has a remote", quoted(cgit.plain(source.remote))
    return f"it stands alone; {shared}: gfs init {quoted(folder)} --remote {url}"


def _progress(count: int) -> None:
    if count % 100 == 0:
        output.progress(f"{count:,} commits")
