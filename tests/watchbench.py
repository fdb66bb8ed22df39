"""What the tests of the watcher share: a clock, a channel in a folder, passes over a repository.

The channel keeps each message as a file, so it outlives whoever is killed while sending, as a real
one does; what goes wrong with it is scripted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flowrepo import AT, Lab
from gitrepo import MAIN, git

from gitflowstate import marker
from gitflowstate.codec import digest
from gitflowstate.cursors import Cursor, Delivery, cursor_ref
from gitflowstate.cursorstore import CursorStore, verify
from gitflowstate.delivery import Gone, HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.due import Rules
from gitflowstate.git import Repository
from gitflowstate.ports import Capabilities, Found, Notice
from gitflowstate.reports import Report, Settings
from gitflowstate.snapshot import Snapshot
from gitflowstate.watcher import Watcher

NAME = "team"
REF = cursor_ref(NAME)


class Clock:
    """A clock that a test moves."""

    def __init__(self, now: str = AT) -> None:
        self.moment = datetime.fromisoformat(now)

    def now(self) -> str:
        """Return the time."""
        return f"{self.moment:%Y-%m-%dT%H:%M:%SZ}"

    def later(self, seconds: int) -> str:
        """Return the time so many seconds from now."""
        return f"{self.moment + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"

    def move(self, seconds: int) -> None:
        """Let time go by, or set the clock back."""
        self.moment += timedelta(seconds=seconds)


class Postbox:
    """A channel whose messages are files; `script` says what goes wrong with the calls to come.

    Each entry is `(call, what)`, taken by the first call of that name: an error to raise instead;
    `"lost"`, so that it happens and the answer is lost; or something to do before it.
    """

    def __init__(
        self, folder: Path, *, edits: bool = True, searches: bool = True, limit: int = 60_000
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.name = NAME
        self.folder = folder
        self.capabilities = Capabilities(edits=edits, searches=searches, limit=limit)
        self.script: list[tuple[str, Any]] = []
        self.calls: list[str] = []
        self.since: list[str | None] = []
        self.around: Callable[[str], None] = lambda _: None
        self.closed = 0

    def post(self, notice: Notice) -> str:
        """Leave a message."""
        lost = self._begun("post")
        id_ = f"m{len([*self.folder.glob('m*')]) + 1:05}"
        self._write(id_, notice)
        self._ended("post", lost=lost)
        return id_

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Replace a message."""
        lost = self._begun("edit")
        if not (self.folder / id).exists():
            raise Gone("it was removed")
        self._write(id, notice)
        self._ended("edit", lost=lost)
        return id

    def digest(self, id: str) -> str | None:  # noqa: A002  the word of the protocol
        """Look at one message."""
        self._begun("digest")
        path = self.folder / id
        if not path.exists() or not self.capabilities.searches:
            return None
        return digest(json.loads(path.read_text())["text"].encode())

    def find(self, notice: Notice, since: str | None) -> list[Found]:
        """Look through every message."""
        self.since.append(since)
        self._begun("find")
        found = []
        for path in sorted(self.folder.glob("m*")):
            text = json.loads(path.read_text())["text"]
            mark = marker.read(text)
            if mark and mark[0] == notice.flow:
                found.append(Found(path.name, *mark, digest(text.encode())))
        return found

    def close(self) -> None:
        """Count how often it was closed."""
        self.closed += 1

    def _begun(self, call: str) -> bool:
        self.calls.append(call)
        self.around(f"before {call}")
        for number, (name, what) in enumerate(self.script):
            if name == call:
                del self.script[number]
                if what == "lost":
                    return True
                if isinstance(what, BaseException):
                    raise what
                what()
                return False
        return False

    def _ended(self, call: str, *, lost: bool) -> None:
        self.around(f"after {call}")
        if lost:
            raise Unknown("no answer")

    def _write(self, name: str, notice: Notice) -> None:
        aside = self.folder / f".{name}.{os.getpid()}"
        aside.write_text(json.dumps(notice._asdict()))
        aside.rename(self.folder / name)

    # ── what a test sees ────────────────────────────────────────────────────────────────────────

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, the oldest first."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("m*"))]

    def marks(self) -> list[marker.Marker | None]:
        """Return what the marker of each message says, None for one without."""
        return [marker.read(each["text"]) for each in self.messages()]

    def kinds(self, flow: str = "f-1") -> list[tuple[str, int]]:
        """Return kind and revision of each message about a flow."""
        return [(mark[1], mark[2]) for mark in self.marks() if mark and mark[0] == flow]

    def rewrite(self, name: str, text: str) -> None:
        """Edit a message as a person does."""
        path = self.folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"text": text}))


class Bench:
    """A flow repository, a channel, and a watcher between them."""

    def __init__(self, folder: Path, **box: Any) -> None:
        self.folder = folder
        self.lab = Lab(folder / "flows")
        self.box = Postbox(folder / "box", **box)
        self.spare = Postbox(folder / "spare")
        self.clock = Clock()
        self.has_fallback = False

    def watcher(self, holder: str = "w1", repo: Repository | None = None, **how: Any) -> Watcher:
        """Return a watcher that begins its pass now."""
        repo = repo or self.lab.repo
        fields = {name: how.pop(name) for name in ("skew_s", "backfill", "target") if name in how}
        settings = Settings(NAME, "watch", holder, rules=Rules(**how), **fields)
        head = repo.ref(MAIN)
        assert head
        return Watcher(
            settings,
            Snapshot(repo, head),
            CursorStore(repo, NAME),
            lambda _: self.box,
            self.clock,
            (lambda: self.spare) if self.has_fallback else None,
        )

    def watch(self, holder: str = "w1", **how: Any) -> Report:
        """Make one pass."""
        return self.watcher(holder, **how).run()

    def began(self) -> None:
        """Let the first pass be over, so that all that comes is new."""
        self.watch()
        self.clock.move(600)

    @property
    def cursor(self) -> Cursor:
        """The cursor as it is stored."""
        found = CursorStore(self.lab.repo, NAME).load()
        assert found is not None
        return found

    def receipt(self, flow: str = "f-1") -> Delivery:
        """Return what the channel was last told of a flow."""
        found = CursorStore(self.lab.repo, NAME).delivery(flow)
        assert found is not None
        return found

    def tip(self) -> str | None:
        """Return the commit of the cursor."""
        return self.lab.repo.ref(REF)

    def subjects(self) -> list[str]:
        """Return the subjects of the cursor's history, newest first, as C git reads them."""
        return git(self.lab.gitdir, "log", "--format=%s", REF).splitlines()

    def sound(self) -> None:
        """Check that the history of the cursor replays, and that C git accepts the repository."""
        tip = self.tip()
        assert tip
        report = verify(self.lab.repo, tip, NAME)
        assert (report.problems, report.unmanaged) == ([], [])
        self.lab.sound()


FAULTS: dict[str, Callable[[], BaseException]] = {
    "not sent": lambda: NotSent("out of reach"),
    "unknown": lambda: Unknown("no answer"),
    "refused": lambda: Refused("the issue is locked"),
    "silence": lambda: HoldOff("2026-09-06T11:00:00Z", "slow down"),
    "unauthorised": lambda: Unauthorised("GFS_TOKEN"),
}


def now() -> str:
    """Return the real time."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
