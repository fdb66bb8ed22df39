"""`gfs clone` and `gfs sync`: flows that several hosts share through a Git remote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import joining, prose, syncing
from gitflowstate.adapters import transport
from gitflowstate.cli import config, hosts, output
from gitflowstate.cli.session import Session, quoted
from gitflowstate.cli.showing import show_head
from gitflowstate.cli.verb import reads
from gitflowstate.errors import Stale, Unavailable, Usage
from gitflowstate.fates import Fate
from gitflowstate.founding import Founded
from gitflowstate.git import Repository
from gitflowstate.location import TRACKED, Location
from gitflowstate.locks import repository_lock
from gitflowstate.ports import Remote
from gitflowstate.syncing import Synced

_LOOK_S = 600.0  # for what comes with a whole history


@reads
def clone(
    session: Session,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the flows are shared.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    no_view: Annotated[bool, typer.Option("--no-view", help="No plain files beside it.")] = False,
) -> None:
    """Make a flow repository that shares the flows of a remote, reading and writing.

    Example: gfs clone git@example.org:team/flows.git ~/flows
    """
    _online()
    place, timeout = transport.place_of(url, config.working_folder()), config.lock_timeout()
    with _explained():
        founded = joining.clone(Path(directory), _attach(place), view=not no_view, timeout=timeout)
    for warning in founded.warnings:
        output.warn(warning)
    folder = founded.location.folder
    with Repository.open(founded.location.gitdir, trust=config.trust()) as repo:
        data = {
            "folder": str(folder),
            "head": repo.ref(founded.location.ref),
            **hosts.standing_of(repo, founded.location),
            "next": ["gfs", "list", "--repo", str(folder)],
        }
    head = str(data["head"])[:12]
    text = (
        f"{output.line(str(folder))}: main at {head}, shared with {output.line(url)}\n"
        f"next: export GFS_REPO={quoted(folder)}; gfs list"
    )
    output.success(data, text, as_json=session.json)


def founded(folder: Path, url: str, *, view: bool) -> Founded:
    """Make a flow repository with a remote, or give one to that which a folder holds."""
    _online()
    place = transport.place_of(url, config.working_folder())
    with _explained():
        found = joining.init(folder, _attach(place), view=view, timeout=config.lock_timeout())
        if found.location.remote != place:
            _given(found.location, place)
    return found._replace(location=found.location._replace(remote=place))


def _given(here: Location, place: str) -> None:
    """Give a repository that is there a remote, or another one, once that was looked at."""
    environ = config.environment()
    considered = transport.considered(here.gitdir, place, environ, timeout_s=_LOOK_S)
    with Repository.open(here.gitdir, trust=config.trust(), writing=True) as repo:
        moving = here.remote is not None and repo.ref(TRACKED) is not None
        with considered as there, repository_lock(repo.gitdir, config.lock_timeout()):
            before = here.remote and hosts.transport(here.gitdir, here.remote, reading=True)
            head = joining.consider(repo, there, before or None)
            if here.remote is None:
                transport.attach(here.gitdir, place)
            else:
                transport.rename(here.gitdir, place, environ)
    if moving and head is None:  # nobody took anything back: it is another place
        _synced(here._replace(remote=place), republish=True, follow=False)


def _online() -> None:
    if config.offline():
        raise Usage("GFS_OFFLINE is set: the remote is not asked", hint="unset GFS_OFFLINE")


def _attach(place: str) -> Callable[[Path], Remote]:
    def attach(gitdir: Path) -> Remote:
        transport.attach(gitdir, place)
        return hosts.transport(gitdir, place, long=True)

    return attach


@contextmanager
def _explained() -> Iterator[None]:
    """Tell a remote that is not there from one that does not answer just now."""
    try:
        yield
    except Unavailable as error:
        raise transport.missing(error) from error


def after_init(place: Location, data: dict[str, Any], *, as_json: bool) -> str:
    """Bring both sides together; return what there is to say, and add it to the data.

    Raises Stale where the remote had what goes against operations of ours.
    """
    done = _synced(place, republish=False, follow=False)
    data |= _data(done)
    return _told(done, data, as_json=as_json)


@reads
def sync(
    session: Session,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with a remote that took history back; ours is kept."),
    ] = False,
    republish: Annotated[
        bool, typer.Option("--republish", help="Put back what a remote took back.")
    ] = False,
) -> None:
    """Bring what was recorded offline to the remote in one push, and what is new there here.

    Where the remote has gone on, each operation is applied again. One that is refused now is kept
    on a ref of its own and listed, with exit code 4.
    Example: gfs sync
    """
    place = session.location
    if place.remote is None:
        raise Usage(f"{place.folder} has no remote to sync with", hint="gfs where says which it is")
    if follow and republish:
        raise Usage("--follow and --republish are two different decisions", hint="choose one")
    _online()
    done = _synced(place, republish=republish, follow=follow)
    data = _data(done)
    output.success(data, _told(done, data, as_json=session.json), as_json=session.json)


def _told(done: Synced, data: dict[str, Any], *, as_json: bool) -> str:
    """Return what became of each operation. Raises Stale, with the data, where one was refused."""
    text = _text(done)
    refused = [fate for fate in done.fates if fate.refused]
    if refused:
        if not as_json:
            output.aside(text)
        were = "was" if len(refused) == 1 else "were"
        raise Stale(
            f"{len(refused)} of {prose.count(len(done.fates), 'operation')} {were} refused, "
            "because of what others did meanwhile",
            hint="gfs show each flow, and decide what of it is still to be done",
            **data,
        )
    return text


def _synced(place: Location, *, republish: bool, follow: bool) -> Synced:
    timeout = config.lock_timeout()
    given: Any = {"at": config.now(), "timeout": timeout}
    with Repository.open(place.gitdir, trust=config.trust(), writing=True) as repo:
        refs = hosts.published(repo, place, long=True)
        if follow:
            done = syncing.follow(repo, refs, **given)
        else:
            done = syncing.sync(repo, refs, **given, republish=republish)
        show_head(repo, place, timeout)
        for warning in repo.warnings:
            output.warn(warning)
    return done


def _data(done: Synced) -> dict[str, Any]:
    return {
        "head": done.head,
        "fetched": done.fetched,
        "kept": done.kept,
        "operations": [_fate_data(fate) for fate in done.fates],
    }


def _fate_data(fate: Fate) -> dict[str, Any]:
    told = fate._asdict() | {"refused": None}
    if fate.refused is not None:
        error = fate.refused
        told["refused"] = {"code": error.code, "name": error.name, "message": error.message}
    return told


def _text(done: Synced) -> str:
    lines = [_line(fate) for fate in done.fates]
    if done.kept:
        lines.append(f"the old tip is kept: {done.kept}")
    brought = f"{prose.count(done.fetched, 'commit')} of others brought here, " * bool(done.fetched)
    return "\n".join([*lines, f"{brought}main at {done.head[:12]}, here and at the remote"])


def _line(fate: Fate) -> str:
    about = f"{fate.flow} {fate.op}" if fate.flow else fate.op
    was = f" r{fate.was}" if fate.was else f" {fate.old[:12]}"
    if fate.refused is None:
        return output.line(
            f"{about}{was} → r{fate.now}" if fate.now else f"{about}{was}: published"
        )
    return output.line(f"{about}{was} refused: {fate.refused.message}; kept: {fate.kept}")
