"""Hooks for repositories that people push to (pre-receive) or from (pre-push)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitflowstate import cgit, hooks
from gitflowstate.cli import config, output
from gitflowstate.cli.resources import resource
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import GfsError, NotFound
from gitflowstate.git import Repository
from gitflowstate.hooks import Hook

_SAID = {
    "absent": "is not installed",
    "another": "is another hook, which gfs did not install",
    "disabled": "is installed, but not executable, so that Git skips it",
    "outdated": "is one of another gfs",
}


@contextmanager
def _hook(session: Session) -> Iterator[Hook]:
    """Yield the hook of the repository that is named, whether it holds flows yet or not."""
    try:
        place = session.location.gitdir
    except NotFound:
        if session.repo_argument is None:
            raise
        place = Path(session.repo_argument)
    with Repository.open(place, trust=config.trust()) as repo:
        # -P: the folder that Git starts a hook in is no place to import from.
        command = [sys.executable, "-P", "-m", "gitflowstate"]
        git = cgit.Git(repo.gitdir, config.environment())
        yield hooks.of(repo, resource("hooks"), command, git)


@reads
def install(session: Session) -> None:
    """Install the hook that keeps main sound: pre-receive in a bare repository, else pre-push.

    A hook that is there already is kept, and is called first.

    Example: gfs hooks install --repo /srv/git/flows.git
    """
    with _hook(session) as hook:
        changed = hooks.install(hook)
        data = {"hook": str(hook.path), "changed": changed, "chained": hook.before.exists()}
    more = f"; {hook.before.name} is called first" if data["chained"] else ""
    text = f"{output.line(str(hook.path))} is installed{'' if changed else ' (unchanged)'}{more}"
    output.success(data, text, as_json=session.json)


@reads
def remove(session: Session) -> None:
    """Take the hook out again, and put back the one that was there before.

    Example: gfs hooks remove --repo /srv/git/flows.git
    """
    with _hook(session) as hook:
        restored = hooks.remove(hook)
    more = "; the one before it is back" if restored else ""
    text = f"{output.line(str(hook.path))} is taken out{more}"
    data = {"hook": str(hook.path), "restored": restored}
    output.success(data, text, as_json=session.json)


@reads
def check(session: Session) -> None:
    """Say whether the hook is installed and current. Leaves with 1 if it is not.

    Example: gfs hooks check
    """
    with _hook(session) as hook:
        state = hooks.state(hook)
    if state != "installed":
        raise GfsError(
            f"{hook.path} {_SAID[state]}",
            next=["gfs", "hooks", "install", *session.addressed()],
            hook=str(hook.path),
            state=state,
        )
    data = {"hook": str(hook.path), "state": state, "chained": hook.before.exists()}
    output.success(data, f"{output.line(str(hook.path))} is installed", as_json=session.json)
