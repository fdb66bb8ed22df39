"""The tour: `gfs demo` walks one flow through its life in a real repository, and shows its log."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from gitflowstate import founding, history, ops, prose
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session, quoted
from gitflowstate.cli.verb import reads
from gitflowstate.errors import GfsError, Rejected
from gitflowstate.ops import FlowOp

FLOW = "tour"
_DAY = "2026-09-06T"

# Who does what, and when: each row is one commit.
STEPS: tuple[tuple[str, str, type[FlowOp], dict[str, Any]], ...] = (
    (
        "09:00:00Z",
        "planner",
        ops.Create,
        {
            "goal": "Choose a data platform",
            "owner": "planner",
            "next": "Collect the requirements",
            "labels": ("demo",),
        },
    ),
    (
        "09:40:00Z",
        "planner",
        ops.Update,
        {"progress": "Requirements collected", "next": "Ask for a budget"},
    ),
    (
        "09:45:00Z",
        "planner",
        ops.Wait,
        {"reason": "No budget yet", "until": "Ana names an amount", "on": "human"},
    ),
    ("11:00:00Z", "ana", ops.Note, {"text": "Up to 300 EUR a month"}),
    ("11:05:00Z", "planner", ops.Resume, {"next": "Compare three options within 300 EUR"}),
    ("11:10:00Z", "planner", ops.Handoff, {"to": "analyst", "reason": "Needs a price comparison"}),
    (
        "13:20:00Z",
        "analyst",
        ops.Update,
        {"progress": "Two of three options compared", "next": "Compare the third"},
    ),
    ("14:00:00Z", "analyst", ops.Done, {"result": "reports/platforms.md"}),
    (
        "16:30:00Z",
        "analyst",
        ops.Reopen,
        {"reason": "A fourth option appeared", "next": "Compare the fourth option"},
    ),
)


@reads
def demo(
    session: Session,
    directory: Annotated[str | None, typer.Argument(metavar="DIR", help="Where.")] = None,
) -> None:
    """Make a real repository, walk one flow through its life, and show the log.

    Example: gfs demo /tmp/tour
    """
    folder = Path(directory) if directory else Path(tempfile.mkdtemp(prefix="gfs-demo-"))
    if not founding.init(folder, view=True).made:
        raise Rejected(
            f"{folder} is a flow repository already; the tour is no part of anybody's work",
            hint="gfs demo makes a fresh folder",
        )
    session.repo_argument = str(folder)
    store = session.store(writing=True)
    for at, by, kind, fields in STEPS:
        store.commit(kind(at=_DAY + at, by=by, flow=FLOW, **fields))
    report = history.verify(store.repo, store.head().oid)
    if report.problems:
        raise GfsError(f"the tour does not replay: {report.problems[0]['problem']}")
    log = _log(folder)
    data = {"folder": str(folder), "commits": report.commits, "log": log}
    output.success(data, _story(folder, log, report.commits), as_json=session.json)


def _log(folder: Path) -> str:
    """Return the history as a person would see it, by their own git where there is one."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [
        git,
        "-C",
        str(folder),
        "log",
        "--reverse",
        "--format=%an, %ad%n    %s",
        "--date=iso",
    ]
    plain = {
        name: value for name, value in config.environment().items() if not name.startswith("GIT_")
    }
    found = subprocess.run(command, env=plain, capture_output=True, check=False)  # noqa: S603  fixed arguments
    return prose.terminal(found.stdout.decode("utf-8", "replace"))


def _story(folder: Path, log: str, commits: int) -> str:
    return (
        f"One flow, nine operations, one commit each; git log in {quoted(folder)}:\n\n{log}\n"
        f"{commits} commits replayed: every document is what its operations give.\n\n"
        f"Try next, with  export GFS_REPO={quoted(folder)}\n"
        f"  gfs show {FLOW}\n  gfs brief\n  gfs diff {FLOW} 1 7\n"
        f"  gfs update {FLOW} --progress 'All compared' --next 'Write it down'\n"
        f"  gfs done {FLOW} --result reports/platforms.md\n"
    )
