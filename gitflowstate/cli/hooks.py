"""Hooks for repositories that people push to (pre-receive) or from (pre-push)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gitflowstate import cgit, hooks
from gitflowstate.cli import config, output
from gitflowstate.cli.resources import resource
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import GfsError, NotFound
from gitflowstate.git import Repository
from gitflowstate.hooks import Done, Hook

_SAID = {
    "absent": "is not installed",
    "another": "is another hook, which gfs did not install",
    "disabled": "is installed, but not executable, so that Git skips it",
    "outdated": "was changed, or is one of another gfs",
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

    A hook that is there already is kept, and is called first. What was written into ours is kept
    beside it.

    Example: gfs hooks install --repo /srv/git/flows.git
    """
    with _hook(session) as hook:
        done = hooks.install(hook)
        data = {"hook": str(hook.path), "changed": done.changed, "chained": hook.before.exists()}
    more = f"; {hook.before.name} is called first" if data["chained"] else ""
    more += _kept(done, data)
    was = "" if done.changed else " (unchanged)"
    text = f"{output.line(str(hook.path))} is installed{was}{more}"
    output.success(data, text, as_json=session.json)


@reads
def remove(session: Session) -> None:
    """Take the hook out again, and put back the one that was there before.

    Example: gfs hooks remove --repo /srv/git/flows.git
    """
    with _hook(session) as hook:
        done = hooks.remove(hook)
    data: dict[str, Any] = {"hook": str(hook.path), "restored": done.changed}
    more = "; the one before it is back" if done.changed else ""
    more += _kept(done, data)
    text = f"{output.line(str(hook.path))} is taken out{more}"
    output.success(data, text, as_json=session.json)


def _kept(done: Done, data: dict[str, Any]) -> str:
    """Return what to say of a hook of ours that somebody had changed; add it to the data."""
    data["kept"] = done.kept and str(done.kept)
    return f"; what was there is kept as {done.kept.name}, and not called" if done.kept else ""


@reads
def check(session: Session) -> None:
    """Say whether the hook is installed, current, and where Git looks for it. Leaves with 1 if not.

    Example: gfs hooks check
    """
    with _hook(session) as hook:
        state = hooks.state(hook)
    if unused := hook.unused:
        raise GfsError(unused.message, hint=unused.hint, hook=str(hook.path), state=state)
    if state != "installed":
        raise GfsError(
            f"{hook.path} {_SAID[state]}",
            next=["gfs", "hooks", "install", *session.addressed()],
            hook=str(hook.path),
            state=state,
        )
    data = {"hook": str(hook.path), "state": state, "chained": hook.before.exists()}
    output.success(data, f"{output.line(str(hook.path))} is installed", as_json=session.json)
