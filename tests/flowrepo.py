"""What the tests of the store share: a flow repository, ops on it, and people who edit it by hand.

A person's commit is made by C git alone: straight on the branch with `fast-import`, or in an
ordinary clone that is pushed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from gitrepo import MAIN, fsck, git

from gitflowstate import codec, founding, history
from gitflowstate.git import Repository
from gitflowstate.model import Flow, archive_path, flow_path
from gitflowstate.ops import Create, Done, FlowOp, Note, Update
from gitflowstate.outcomes import Outcome
from gitflowstate.store import Store

AT = "2026-09-06T10:00:00Z"
WHEN = 1_800_000_000
PERSON = "Ann Person <ann@example.invalid>"


class Lab:
    """A flow repository in a folder of its own, a store on it, and C git beside it."""

    def __init__(self, folder: Path, *, made: bool = True) -> None:
        if made:
            founding.init(folder, view=False)
        self.folder = folder
        self.gitdir = folder / ".git"
        self.repo = Repository.open(self.gitdir, writing=True)
        self.store = Store(self.repo)

    # ── ops ─────────────────────────────────────────────────────────────────────────────────────

    def commit(self, kind: type[FlowOp], flow: str = "f-1", **fields: Any) -> Outcome:
        """Commit an op of ann's, who owns every flow here."""
        return self.store.commit(made(kind, flow, **fields))

    def create(self, flow: str = "f-1", **fields: Any) -> Outcome:
        """Create a flow."""
        return self.store.commit(created(flow, **fields))

    def update(self, progress: str, flow: str = "f-1", **fields: Any) -> Outcome:
        """Record progress."""
        return self.commit(Update, flow, progress=progress, **fields)

    def note(self, text: str, flow: str = "f-1") -> Outcome:
        """Append a note."""
        return self.commit(Note, flow, text=text)

    def done(self, flow: str = "f-1") -> Outcome:
        """End a flow, which archives it."""
        return self.commit(Done, flow, result="out/report.md")

    # ── what is there ───────────────────────────────────────────────────────────────────────────

    @property
    def head(self) -> str:
        """The commit that main names, as C git reads it."""
        return git(self.gitdir, "rev-parse", MAIN)

    def shown(self, path: str, commit: str = MAIN) -> bytes:
        """Return the bytes at a path of a commit, as C git reads them."""
        asked = ["git", "-C", self.gitdir, "cat-file", "blob", f"{commit}:{path}"]
        return subprocess.run(asked, capture_output=True, check=True).stdout

    def document(self, flow: str = "f-1") -> dict[str, Any]:
        """Return the JSON of a flow at the head, wherever it is kept."""
        for path in (flow_path(flow), archive_path(flow)):
            if git(self.gitdir, "ls-tree", MAIN, path):
                return json.loads(self.shown(path))
        raise AssertionError(flow)

    def messages(self) -> list[str]:
        """Return the subjects of the history along first parents, newest first."""
        return git(self.gitdir, "log", "--first-parent", "--format=%s", MAIN).splitlines()

    def verify(self, since: str | None = None) -> history.Report:
        """Replay the history."""
        return history.verify(self.repo, self.head, since)

    def sound(self, *, odd: bool = False, killed: bool = False) -> None:
        """Check what every test ends with: one more update succeeds, and nothing is left behind.

        C git accepts every object, unless a person stored `odd` ones; no private file is left,
        unless a writer was `killed`: those are swept ten minutes later.
        """
        self.create("f-last") if not self.store.exists("f-last") else self.note("more", "f-last")
        left = {str(path.relative_to(self.gitdir)) for path in self.gitdir.rglob("*.lock")}
        # Those in gfs/ are held by workers for their life, or were moved aside.
        assert {name for name in left if not name.startswith("gfs/")} <= {"gfs.lock"}, left
        assert killed or not [*self.gitdir.glob("gfs-ref-*")]
        if not odd:
            fsck(self.gitdir)

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    def by_hand(self, *changes: Change, text: bytes = b"by hand\n", **head: Any) -> str:
        """Commit changes on main with C git alone; return the commit."""
        return imported(self.gitdir, *changes, text=text, **head)

    def clone(self, name: str = "clone", *options: str) -> Path:
        """Return an ordinary clone, with a work tree."""
        folder = self.folder.parent / name
        git(self.folder.parent, "clone", "-q", *options, f"file://{self.gitdir}", folder)
        return folder

    def edited(self, flow: str = "f-1", **changes: Any) -> Change:
        """Return a flow as a person leaves it who changed some of its fields; None removes one."""
        return put(flow_path(flow), {**self.document(flow), **changes})


class Change(NamedTuple):
    """One line of a hand-made commit: content at a path, with a mode; None removes it."""

    path: str
    content: bytes | None
    mode: str = "100644"


def put(path: str, document: dict[str, Any] | Flow) -> Change:
    """Return the change that leaves a document at a path, as a person's editor writes it."""
    if isinstance(document, Flow):
        return Change(path, codec.encode(document))
    kept = {name: value for name, value in document.items() if value is not None}
    return Change(path, json.dumps(kept, indent=2, ensure_ascii=False).encode() + b"\n")


def imported(
    gitdir: Path,
    *changes: Change,
    text: bytes = b"by hand\n",
    ref: str = MAIN,
    parents: tuple[str, ...] = (f"{MAIN}^0",),
    when: str = f"{WHEN} +0000",
    person: str = PERSON,
) -> str:
    """Make a commit with C git's fast-import; return it. No parents begin a second history."""
    names = ("from", *["merge"] * len(parents))
    lines = [
        f"commit {ref}\nauthor {person} {when}\ncommitter {person} {when}\n".encode(),
        b"data %d\n%s\n" % (len(text), text),
        *(f"{name} {parent}\n".encode() for name, parent in zip(names, parents, strict=False)),
        *(_line(change) for change in changes),
    ]
    script = b"reset %s\n" % ref.encode() if not parents else b""
    feed = script + b"".join(lines) + b"\ndone\n"
    options = ("--quiet", "--done", "--force", "--date-format=raw-permissive")
    git(gitdir, "fast-import", *options, data=feed)
    return git(gitdir, "rev-parse", ref)


def _line(change: Change) -> bytes:
    if change.content is None:
        return f"D {change.path}\n".encode()
    if change.mode == "160000":
        return f"M 160000 {change.content.decode()} {change.path}\n".encode()
    head = f"M {change.mode} inline {change.path}\ndata {len(change.content)}\n"
    return head.encode() + change.content + b"\n"


def made(kind: type[FlowOp], flow: str = "f-1", **fields: Any) -> FlowOp:
    """Return an op of ann's."""
    return kind(**{"at": AT, "by": "ann", "flow": flow} | fields)


def created(flow: str = "f-1", **fields: Any) -> Create:
    """Return the op that makes a flow of ann's."""
    return made(Create, flow, **{"goal": f"do {flow}", "owner": "ann", "next": "begin"} | fields)


def revisions(gitdir: Path, flow: str, head: str = MAIN) -> list[int]:
    """Return the revisions that the trailers of a flow's commits give, oldest first, by C git."""
    format_ = "%(trailers:key=Flow,valueonly)%x00%(trailers:key=Revision,valueonly)%x01"
    told = git(gitdir, "log", "--first-parent", "--reverse", f"--format={format_}", head)
    pairs = (entry.split("\0") for entry in told.split("\1") if "\0" in entry)
    return [int(number) for name, number in pairs if name.strip() == flow]


def objects(gitdir: Path) -> set[str]:
    """Return the ids of every object that is stored, reachable or not."""
    told = git(gitdir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(told.split())
