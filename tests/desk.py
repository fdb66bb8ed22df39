"""A flow repository with its view, and an agent that writes in it."""

from __future__ import annotations

from gitrepo import git

from gitflowstate import founding, ops
from gitflowstate.definitions import MAIN
from gitflowstate.git import Repository
from gitflowstate.model import flow_path
from gitflowstate.store import Store
from gitflowstate.view import View

# The first commit, the same in every flow repository there is. It never changes.
FIRST = "2ef7b4f47bc5b8c8e01fa51a3f0c42129c329756"
AT, BY = "2026-09-06T10:00:00Z", "architect"


class Desk:
    """A flow repository with its view, and an agent that writes in it."""

    def __init__(self, folder):
        self.folder = folder
        self.gitdir = founding.init(folder).location.gitdir
        self.view = View(folder, self.gitdir)
        self.repo = Repository.open(self.gitdir, writing=True)
        self.warnings = []

    def published(self, old, new, changes):
        """Follow a commit, as the command line does."""
        self.warnings = self.view.refresh(self.repo, old, new, changes)

    def do(self, kind, flow, *, shown=True, **fields):
        """Commit an op; return the warnings of the view."""
        self.warnings = []
        store = Store(self.repo, published=self.published if shown else None)
        outcome = store.commit(kind(at=AT, by=BY, flow=flow, **fields))
        assert outcome.commit
        return self.warnings

    def create(self, flow, **options):
        """Commit a new flow."""
        return self.do(ops.Create, flow, goal=f"do {flow}", owner=BY, next="begin", **options)

    def update(self, flow, progress, **options):
        """Commit progress."""
        return self.do(ops.Update, flow, progress=progress, **options)

    def done(self, flow, **options):
        """Commit the end of a flow."""
        return self.do(ops.Done, flow, result="out/report.md", **options)

    def repair(self):
        """Repair the view."""
        return self.view.repair(self.repo, self.repo.ref(MAIN))

    def file(self, flow, place=flow_path):
        """Return where a flow is shown."""
        return self.folder / place(flow)

    def shown(self):
        """Return path to blob id of every file in the view, people's own included."""
        files = [p for top in ("flows", "archive") for p in (self.folder / top).rglob("*")]
        names = [str(p.relative_to(self.folder)) for p in files if p.is_file() or p.is_symlink()]
        ids = git(self.folder, "hash-object", *names).split() if names else []
        return dict(zip(names, ids, strict=True))

    def stored(self):
        """Return path to blob id of every flow at the head, as C git sees it."""
        lines = git(self.folder, "ls-tree", "-r", MAIN, "flows", "archive").splitlines()
        return {line.split("\t")[1]: line.split()[2] for line in lines}

    def is_whole(self):
        """Tell whether the view shows the head, and nothing else."""
        return self.shown() == self.stored() and self.view.head() == self.repo.ref(MAIN)


def kept_beside(file):
    """Return what was kept of a file that a person had changed."""
    return sorted(file.parent.glob(f"{file.name}.edited-*"))
