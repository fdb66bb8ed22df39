"""A published update beside `git commit` and `git push` of the same change; a queue; a quiet fetch.

Run by the interpreter under test: `python hosts.py FOLDER`. The HTTP server is a process of its
own, `python hosts.py --serve ROOT`, so that it takes no time from the process that is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from table import Row, interleaved, rounds, send, wall
from workbench import AT, Desk

from gitflowstate import codec, founding, syncing
from gitflowstate.adapters.transport import Transport, attach
from gitflowstate.definitions import MAIN
from gitflowstate.git import Repository
from gitflowstate.model import flow_path
from gitflowstate.publishing import PublishedRefs

_TESTS = Path(__file__).resolve().parents[1]
QUEUED = 100
PATIENCE_S = 60.0


def git(where: Path, *words: str | Path) -> str:
    """Run C git in a folder; return what it printed."""
    done = subprocess.run(["git", "-C", where, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Published(Desk):
    """A flow repository whose main is decided at a bare repository, and that repository."""

    def __init__(self, folder: Path, bare: Path, url: str) -> None:
        place = founding.init(folder, view=False).location
        attach(place.gitdir, url)
        repo = Repository.open(place.gitdir, writing=True)
        super().__init__(repo, None)
        git(place.gitdir, "push", "-q", bare, f"{MAIN}:{MAIN}")
        way = Transport(place.gitdir, url, dict(os.environ), timeout_s=PATIENCE_S)
        self.refs = PublishedRefs(repo, way)
        self.refs.ask()
        self.local = self.store.refs
        self.store.refs = self.refs
        self.create("f-1")
        self.make_folders()

    def queue(self, count: int) -> None:
        """Record so many updates here alone."""
        self.store.refs = self.local
        for _ in range(count):
            self.update()
        self.store.refs = self.refs

    def sync(self) -> None:
        """Publish what is queued."""
        done = syncing.sync(self.repo, self.refs, at=AT, timeout=PATIENCE_S)
        assert not any(fate.refused for fate in done.fates)

    def look(self) -> None:
        """Ask the remote, and read the flow."""
        self.forget()
        self.refs.ask()
        self.store.flow("f-1")


class Person:
    """An ordinary clone in which the same is done by hand with C git."""

    def __init__(self, folder: Path, url: str, desk: Published) -> None:
        git(folder.parent, "clone", "-q", url, folder)
        git(folder, "config", "user.name", "a person")
        git(folder, "config", "user.email", "person@example.invalid")
        self.folder = folder
        self._desk = desk
        self._file = folder / flow_path("f-1")

    def take(self) -> None:
        """Write what the desk changed last, and what it said, without committing it."""
        self._file.write_bytes(codec.encode(self._desk.store.flow("f-1")))
        self._text = self._desk.repo.commit(self._desk.store.head().oid).message.decode()

    def publish(self) -> None:
        """Commit and push."""
        git(self.folder, "commit", "-q", "-a", "-m", self._text)
        git(self.folder, "push", "-q")

    def fetch(self) -> None:
        """Fetch."""
        git(self.folder, "fetch", "-q")


def pair(folder: Path, where: str = "") -> tuple[Published, Person]:
    """Return a desk and a person, each with a bare repository of its own, below a URL or a path."""
    served = folder / "served"
    for name in ("desk.git", "person.git"):
        git(folder, "init", "-q", "--bare", "-b", "main", served / name)
    root = where or str(served)
    desk = Published(folder / "desk", served / "desk.git", f"{root}/desk.git")
    git(served, "clone", "-q", "--bare", "desk.git", "copy.git")
    git(served / "copy.git", "push", "-q", served / "person.git", MAIN)
    return desk, Person(folder / "person", f"{root}/person.git", desk)


def updates(what: str, bound: float, desk: Published, person: Person) -> Row:
    """Return the row of a published update."""

    def by_hand() -> float:
        person.take()
        return wall(person.publish)

    found = interleaved({"gfs": lambda: wall(desk.update), "git": by_hand}, rounds(60))
    return Row(what, "git commit, git push", bound, found["gfs"], found["git"])


def quiet(desk: Published, person: Person) -> Row:
    """Return the row of a look at the remote when nothing changed."""
    cases = {"gfs": lambda: wall(desk.look), "git": lambda: wall(person.fetch)}
    found = interleaved(cases, rounds(60))
    return Row("fetch and read, nothing new", "git fetch", 1.2, found["gfs"], found["git"])


def queued(desk: Published, folder: Path) -> list[Row]:
    """Return the rows of a queue that is published at once."""
    other = folder / "other"
    git(folder, "clone", "-q", desk.refs.remote.url, other)

    def one_by_one() -> float:
        return wall(lambda: [desk.update() for _ in range(QUEUED)])

    def at_once() -> float:
        return wall(lambda: (desk.queue(QUEUED), desk.sync()))

    def behind() -> float:
        desk.queue(QUEUED)
        git(other, "pull", "-q", "--rebase")
        git(
            other,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        )
        git(other, "push", "-q")
        return wall(desk.sync)

    cases = {"one by one": one_by_one, "at once": at_once, "behind": behind}
    found = interleaved(cases, rounds(3))
    base = f"{QUEUED} published updates"
    return [
        Row(f"{QUEUED} queued, one sync", base, 0.3, found["at once"], found["one by one"]),
        Row("the sync, applied again", base, 0.3, found["behind"], found["one by one"]),
    ]


def measured(folder: Path) -> list[Row]:
    """Return every row."""
    (folder / "local").mkdir()
    (folder / "http").mkdir()
    desk, person = pair(folder / "local")
    found = [updates("published update, local bare", 1.5, desk, person)]
    found.append(quiet(desk, person))
    found += queued(desk, folder / "local")
    with served(folder / "http" / "served") as url:
        desk, person = pair(folder / "http", url)
        found.insert(1, updates("the same over loopback HTTP", 1.3, desk, person))
    return found


# ── the server ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Yield the URL below which the repositories of a folder are, served by another process."""
    words = [sys.executable, __file__, "--serve", root]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin
        assert other.stdout
        try:
            yield other.stdout.readline().strip()
        finally:
            other.stdin.close()


def serve(root: Path) -> None:
    """Serve until nobody listens any more."""
    sys.path.insert(0, str(_TESTS))
    from fakes.githttp import GitHttp

    server = GitHttp(root)
    print(server.url("").rstrip("/"), flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
    else:
        send(measured(Path(sys.argv[1])))
