"""Background processes in a store: the facts about one, recorded and read.

Rules: this is what a client calls, and a supervisor whose client has gone; it starts, signals and
reads no process. The intent is durable before the command is started. The first recorded end
stands; a later report of another one is answered with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from gitflowstate import documents, storable
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, NotFound, Rejected, Usage
from gitflowstate.kinds import Notify, ProcessState, Time
from gitflowstate.ops import ProcessOp
from gitflowstate.processmodel import (
    Process,
    has_ended,
    process_id,
    process_path,
    session_folder,
)
from gitflowstate.processops import RunIntend, RunLose, RunSettle, RunStart
from gitflowstate.store import Store

FOLDER = "processes"
_CLAIM_S = 7200  # how long a claim says it lasts; while the process runs nobody may end it


class Wanted(NamedTuple):
    """What is to be run, for whom; `flow` and `task` are what it serves."""

    session: str
    argv: Sequence[str]
    cwd: str
    call_id: str | None = None
    notify: Notify = "on_exit"
    timeout_s: int | None = None
    flow: str | None = None
    task: str | None = None
    allow_secret: str | None = None

    def mint(self) -> str:
        """Return the id that the process gets; another each time where no call id was given."""
        if self.call_id is None:
            return f"p-{os.urandom(6).hex()}"
        return process_id(self.session, self.call_id)


class Identity(NamedTuple):
    """Which process of the system it is: its id, and its start in clock ticks since the boot."""

    pid: int
    ticks: int
    started_at: Time


class End(NamedTuple):
    """How a process ended, as its supervisor reports it.

    `state` is completed, failed, cancelled or timed_out; `signal` the name of the one that ended
    it, such as SIGKILL; `sent` the names of those that we sent, in their order. `identity` is given
    where there ever was one. `returned` says that whoever started it gets this as the answer;
    `result` is what its task is done with.
    """

    state: ProcessState
    finished_at: Time
    exit_code: int | None = None
    signal: str | None = None
    sent: tuple[str, ...] = ()
    reason: str | None = None
    output_ref: str | None = None
    output_bytes: int = 0
    output_truncated: bool = False
    identity: Identity | None = None
    returned: bool = False
    result: str | None = None


class Intended(NamedTuple):
    """The record of a call, and whether it is new: only then may the process be started."""

    process: Process
    fresh: bool


# ── recording ───────────────────────────────────────────────────────────────────────────────────


def intend(
    store: Store, wanted: Wanted, made: str, *, at: Time, by: str, host: str, boot_id: str
) -> Intended:
    """Record durably that a process is about to be started, and claim the task that it serves.

    `made` is its id, as `wanted` mints it: its lock is held before it is recorded.
    The same call of the same session gives the record that is there, whatever became of it. Raises
    Stale (4) for that call with another command and for a task of somebody else, NotFound (5),
    Rejected (3) for a secret among the arguments, and Corrupt (6) when a process of the session
    cannot be read: then nothing may be started in it (R-TJ-18).
    """
    call = wanted.call_id
    if find_by_id(store, wanted.session, made) is None:
        check_session(store, wanted.session)
    lease = timedelta(seconds=wanted.timeout_s or _CLAIM_S)
    op = RunIntend(
        at=at,
        by=by,
        allow_secret=wanted.allow_secret,
        session_id=wanted.session,
        process=made,
        call_id=None if call is None else storable.quoted(call),
        argv=tuple(map(storable.quoted, wanted.argv)),
        cwd=storable.quoted(wanted.cwd),
        host=host,
        boot_id=boot_id,
        notify=wanted.notify,
        timeout_s=wanted.timeout_s,
        flow=wanted.flow,
        task=wanted.task,
        until=_later(at, lease) if wanted.task else None,
    )
    outcome = store.commit(op)
    assert outcome.process is not None
    return Intended(outcome.process, outcome.commit is not None)


def started(store: Store, process: Process, identity: Identity, *, at: Time, by: str) -> Process:
    """Record durably that a process runs, blocked until then. Raises Rejected when it has ended."""
    return _recorded(store, RunStart(at=at, by=by, **_named(process), **identity._asdict()))


def settled(store: Store, process: Process, end: End, *, at: Time, by: str) -> Process:
    """Record durably how a process ended, and settle its task in the same commit.

    A reason that no document may hold is put into other words, so that no end stays unrecorded.
    Returns the record as it stands then: with another end, where one was recorded before.
    """
    told = end._asdict() | {"reason": storable.reason(end.reason)}
    identity: Identity | None = told.pop("identity")
    told |= identity._asdict() if identity else {}
    return _ended(
        store, process, RunSettle(at=at, by=by, **_named(process), **_served(process), **told)
    )


def lost(store: Store, process: Process, reason: str, *, at: Time, by: str) -> Process:
    """Record durably that nobody can know what became of a process; its task waits for a person.

    Returns the record as it stands then: with another end, where one was recorded before.
    """
    op = RunLose(at=at, by=by, **_named(process), **_served(process), reason=reason)
    return _ended(store, process, op)


def _named(process: Process) -> dict[str, Any]:
    """Return how an op names its process."""
    return {"session_id": process.session_id, "process": process.id}


def _served(process: Process) -> dict[str, Any]:
    """Return how an op that settles its process names what that serves."""
    return {"flow": process.flow, "task": process.task}


def _ended(store: Store, process: Process, op: ProcessOp) -> Process:
    try:
        return _recorded(store, op)
    except Rejected:
        stands = find_by_id(store, process.session_id, process.id)
        if stands is None or not has_ended(stands):
            raise
        return stands


def _recorded(store: Store, op: ProcessOp) -> Process:
    outcome = store.commit(op)
    assert outcome.process is not None
    return outcome.process


def _later(at: Time, lease: timedelta) -> Time:
    whole = datetime.fromisoformat(at) + min(lease, timedelta(days=365))
    return whole.strftime(f"{whole.year:04}-%m-%dT%H:%M:%SZ")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def find_by_id(store: Store, session: str, process: str) -> Process | None:
    """Return a process of a session by its id. Raises Corrupt."""
    found = store.document(process_path(session, process))
    return found if isinstance(found, Process) else None


def get(store: Store, text: str) -> Process:
    """Return the process that a text names: its id, or a unique prefix of it.

    Raises Usage for an empty one, which all begin with, NotFound when none or several begin so,
    Corrupt where it cannot be read.
    """
    if not text:
        raise Usage("the name of a process is empty", next=["gfs", "ps", "--all"])
    found = {name_of(path): path for path in paths(store) if name_of(path).startswith(text)}
    path = found.get(text) or (next(iter(found.values())) if len(found) == 1 else None)
    if path is None:
        said = f"{len(found)} processes begin with" if found else "there is no process"
        raise NotFound(
            f"{said} {text!r}", hint=", ".join(sorted(found)[:5]), next=["gfs", "ps", "--all"]
        )
    process = store.document(path)
    assert isinstance(process, Process)
    return process


def listing(store: Store, session: str | None = None) -> Iterator[Process | Broken]:
    """Return the processes of a session, or of all, by path; what cannot be read by its reason."""
    return read(store, paths(store, session))


def read(store: Store, paths: Iterable[str]) -> Iterator[Process | Broken]:
    """Yield the processes at the paths of the head; what cannot be read by its reason."""
    tree = store.head().tree
    for path in paths:
        try:
            found = documents.read(store.repo, tree, path)
        except Corrupt as error:
            yield Broken(path, error)
        else:
            assert isinstance(found, Process)
            yield found


def by_session(store: Store) -> dict[str, list[str]]:
    """Return the paths of all processes by the folder of their session, below `processes/`."""
    found: dict[str, list[str]] = {}
    for path in paths(store):
        found.setdefault(path.removeprefix(f"{FOLDER}/").rpartition("/")[0], []).append(path)
    return found


def check_session(store: Store, session: str) -> None:
    """Refuse a session one of whose processes cannot be read (R-TJ-18). Raises Corrupt."""
    for item in listing(store, session):
        if isinstance(item, Broken):
            raise Corrupt(
                f"nothing is started in session {session}: {item.said}",
                hint=item.error.hint,
                **item.error.details,
            )


def paths(store: Store, session: str | None = None) -> list[str]:
    """Return where the processes of a session, or all, are kept at the head, in order."""
    tree = store.head().tree
    folder = FOLDER if session is None else session_folder(session)
    if store.repo.lookup(tree, folder) is None:
        return []
    return sorted(path for path, _ in store.repo.walk(tree, folder))


def name_of(path: str) -> str:
    """Return the id of the process that is kept at a path."""
    return path.rsplit("/", 1)[-1].removesuffix(".json")
