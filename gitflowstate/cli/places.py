"""Where a watcher reads flows and keeps its cursor: in this repository, or at a clone's origin.

Rules: in a repository that gfs made a cursor is one of its refs, or of those of its remote. In an
ordinary clone flows are read as the origin has them, and cursors are refs there: of the clone
nothing but objects is written, and nothing at all where it may not be written or where somebody
only looks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gitflowstate import documents, settings
from gitflowstate.cli import config
from gitflowstate.cli.session import SHARED_SKEW_S, Session
from gitflowstate.cursors import cursor_ref
from gitflowstate.cursorstore import CursorStore
from gitflowstate.definitions import MAIN
from gitflowstate.errors import NotFound, Unavailable
from gitflowstate.git import Oid, Repository
from gitflowstate.location import TRACKED, Location
from gitflowstate.movers import Refs
from gitflowstate.settings import Settings
from gitflowstate.sharing import SharedRefs
from gitflowstate.snapshot import Snapshot

_ATTEMPTS = 10


class Place:
    """The flows at one commit of main, and the cursors beside them."""

    def __init__(self, repo: Repository, head: Oid, refs: Refs | None = None) -> None:
        self.repo = repo
        self.head = head
        self.refs = refs

    @property
    def flows(self) -> Snapshot:
        """Return the flows, compared anew."""
        return Snapshot(self.repo, self.head)

    @property
    def skew_s(self) -> int:
        """Return the allowance for the clocks of other watchers, in seconds."""
        return 0 if self.refs is None else SHARED_SKEW_S

    def cursors(self, channel: str) -> CursorStore:
        """Return the cursor of a channel."""
        timeout = config.lock_timeout()
        return CursorStore(self.repo, channel, refs=self.refs, timeout=timeout)

    def settings(self) -> Settings:
        """Return what `gfs.toml` of that commit says. Raises Invalid for what is no TOML."""
        tree = self.repo.commit(self.head).tree
        found = documents.blob_at(self.repo, tree, settings.FILE)
        return Settings() if found is None else settings.parse(found)


@contextmanager
def opened(
    session: Session, channel: str | None = None, *, looking: bool = False
) -> Iterator[Place]:
    """Open the place of this run; `looking` writes nothing, not even objects.

    Raises NotFound, and in a clone Unavailable or Denied where its origin cannot be reached.
    """
    here = session.location
    with ExitStack() as stack:
        if here.remote is not None:
            yield _joined(session, here, stack)
        elif here.writable:
            repo = stack.enter_context(_repository(here.gitdir))
            yield Place(repo, _head(repo.ref(here.ref), str(here.gitdir)))
        else:
            yield _shared(here, channel, stack, looking=looking)


def _repository(gitdir: Path) -> Repository:
    return Repository.open(gitdir, trust=config.trust())


def _head(oid: Oid | None, where: str) -> Oid:
    if oid is None:
        raise NotFound(f"{where} has no {MAIN}: it holds no flows", next=["gfs", "where"])
    return oid


def _joined(session: Session, here: Location, stack: ExitStack) -> Place:
    """Return the flows as the remote has them, and the cursors there."""
    from gitflowstate.cli import hosts

    hosts.needed(here, f"gfs {session.verb}", offline=session.offline)
    repo = stack.enter_context(_repository(here.gitdir))
    refs = hosts.published(repo, here)
    refs.ask()
    head = _head(repo.ref(TRACKED), "the remote")
    return Place(repo, head, SharedRefs(repo, refs.remote, {MAIN: head}))


def _shared(here: Location, channel: str | None, stack: ExitStack, *, looking: bool) -> Place:
    from gitflowstate.adapters.remote import GitRemote, origin_of

    environ = config.environment()
    url, push_url = origin_of(here.gitdir, environ, here.folder)
    writes = not looking and os.access(here.gitdir / "objects", os.W_OK)
    gitdir = here.gitdir if writes else _scratch(stack)
    remote = GitRemote(
        gitdir,
        url,
        environ,
        push_url=push_url,
        token=environ.get("GFS_GIT_TOKEN"),
        folder=here.folder,
        cut=not writes or (gitdir / "shallow").exists(),
    )
    names = [MAIN] if channel is None else [MAIN, cursor_ref(channel)]
    for _ in range(_ATTEMPTS):
        found = remote.refs(*names)
        head = _head(found.get(MAIN), "the origin")
        # Anew each time: what is shallow is read at opening.
        repo = _repository(gitdir)
        stack.callback(repo.close)
        if repo.has(head):
            known = {name: found.get(name) for name in names}
            return Place(repo, head, SharedRefs(repo, remote, known))
        remote.fetch(MAIN, shallow=not writes)
    raise Unavailable("main moves too often at the origin", hint="run the same command again")


def _scratch(stack: ExitStack) -> Path:
    """Return a repository of our own for this run, beside a clone that is not written."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="gfs-watch-")))
    Repository.init(folder / "objects.git").close()
    return folder / "objects.git"
