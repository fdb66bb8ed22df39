"""What `gfs recover` says of processes, and how a person gives one up whose host is gone.

Rules: what this machine knows of an end is recorded before anything else; a process that runs here
is ended by `gfs cancel`, never given up. What was given up is lost for ever, and is not run again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gitflowstate import due, processes, runlocks, settling
from gitflowstate.cli import config, inputs, managed, output
from gitflowstate.cli.session import Session
from gitflowstate.errors import Corrupt, GfsError, Rejected, Stale, Usage
from gitflowstate.model import Flow, Task
from gitflowstate.processmodel import Process, has_ended

LOST = "lost"


def settle_left(session: Session) -> None:
    """Record what has ended on this machine; nothing is even opened for writing without need."""
    place = session.location
    if place.writable and not session.dry_run and runlocks.left(place.gitdir):
        settling.settle_left(session.store(writing=True), at=config.now(), by=session.actor)


def is_process(session: Session, text: str) -> bool:
    """Tell whether a text names a process, and no flow."""
    return text.startswith("p-") and not session.store().exists(text)


def recover(session: Session, text: str, decide: str | None, reason: str | None) -> None:
    """Show what is known of a process, or record that it is lost."""
    store = session.store()
    process = processes.get(store, text)
    if decide is None:
        _show(session, process)
        return
    if decide != LOST:
        raise Usage(f"a process can only be given up: --decide {LOST}")
    if reason is None:
        following = ["gfs", "recover", process.id, "--decide", LOST, "--reason", "REASON"]
        raise Usage("a decision needs --reason", next=following)
    if session.key is not None or session.expect is not None:
        raise Usage("a process is given up at most once: it takes no --key and no --expect")
    _lose(session, process, inputs.text(reason, "--reason"))


def _lose(session: Session, process: Process, reason: str) -> None:
    before = process
    stamp = {"at": config.now(), "by": session.actor}
    if has_ended(process):
        if process.state != LOST:
            raise Rejected(
                f"{process.id} has ended: it is {managed.line(process).partition(' ')[2]}",
                hint="its record stands; gfs ps --all shows it",
                process=process.id,
                state=process.state,
            )
    elif settling.lives(session.location.gitdir, process):
        raise Stale(
            f"{process.id} runs on this machine",
            next=["gfs", "cancel", process.id],
            process=process.id,
        )
    elif not session.dry_run:
        store = session.store(writing=True)
        with suppress(Corrupt):  # how it ended is there and cannot be read: that is no way out
            process = settling.settle(store, process, **stamp)
        if not has_ended(process):
            process = processes.lost(store, process, reason, **stamp)
            runlocks.forget(session.location.gitdir, process.id)
    said = managed.line(process) + (" (unchanged)" if process is before else "")
    if session.dry_run and process is before and not has_ended(process):
        said = f"{process.id} would be {LOST}: {reason}\n(nothing was written)"
    data = managed.data(process, changed=process is not before, dry_run=session.dry_run)
    output.success(data, output.safe(said), as_json=session.json)


def _show(session: Session, process: Process) -> None:
    told = row(session, process)
    lines = [f"{managed.line(process)}, {told['age']}; host {process.host}"]
    if told["orphans"]:
        lines.append(f"  {managed.warning_of(process, told['orphans'])}")
    if not has_ended(process):
        if told["running_here"]:
            lines.append(f"  it runs on this machine; gfs cancel {process.id} ends it")
        else:
            lines.append(f"  gfs recover {process.id} --decide {LOST} --reason R")
    data = managed.data(process, **told)
    output.success(data, output.safe("\n".join(lines)), as_json=session.json)


def row(session: Session, process: Process) -> dict[str, Any]:
    """Return how old the last record of a process is, and whether it runs on this machine."""
    lives = settling.lives(session.location.gitdir, process)
    about = process.finished_at or process.started_at or process.created_at
    return {
        "age": due.age(about, config.now()),
        "running_here": lives and not has_ended(process),
        "orphans": managed.orphans(session.location.gitdir, process),
        "decisions": [] if has_ended(process) or lives else [LOST],
    }


def orphans(session: Session, task: Task) -> dict[str, Any]:
    """Return what a lost process of a task has left running on this machine, if anything."""
    if task.process is None or task.status != "waiting":
        return {}
    try:
        process = processes.get(session.store(), task.process)
    except GfsError:
        return {}
    number = managed.orphans(session.location.gitdir, process)
    told = {"process": process.id, "number": number, "said": managed.warning_of(process, number)}
    return {"orphans": told} if number else {}


def serving(session: Session, flow: Flow) -> dict[str, Process]:
    """Return the processes that hold tasks of a flow and do not run here, by task."""
    served = {t.id: t.process for t in flow.children if t.process and t.claim}
    if not served:
        return {}
    found = {}
    for task, name in served.items():
        try:
            process = processes.get(session.store(), name)
        except GfsError as error:
            output.warn(f"{task} is served by {name}: {error.message}")
            continue
        if not row(session, process)["running_here"]:
            found[task] = process
    return found
