"""The life of a background process: its table, and what its ops do to the task that it serves.

Rules: pure, as `machine` is, which calls it. A process that has ended never changes again. It holds
its task by a claim that nothing but its own end frees, whoever records that end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitflowstate import claims, guards, processops, taskops
from gitflowstate.errors import NotFound, Rejected, Stale
from gitflowstate.kinds import ENDS, Id, Outcome, ProcessState
from gitflowstate.model import Flow, Value
from gitflowstate.ops import FlowOp, ProcessOp, flow_of
from gitflowstate.processmodel import RESULT, Process, has_ended, process_path

State = Mapping[str, Value | None]

# The life of a process
#
#     intend ─→ starting ─→ running ─→ completed, failed, cancelled, timed_out
#                   └───────────┴────→ the same, or lost
#
# op -> the state it finds (None: there is no such process) -> the states it may leave. The repeat
# of an op that was carried out is "already so"; another end than the recorded one is refused.
_SETTLED: tuple[ProcessState, ...] = tuple(state for state in ENDS if state != "lost")
TABLE: dict[str, dict[ProcessState | None, tuple[ProcessState, ...]]] = {
    "run intend": {None: ("starting",)},
    "run start": {"starting": ("running",)},
    "run settle": {"starting": _SETTLED, "running": _SETTLED},
    "run lose": {"starting": ("lost",), "running": ("lost",)},
}
# What makes two requests of one call the same one.
ASKED = ("call_id", "argv", "cwd", "notify", "timeout_s", "flow", "task")
_STARTED = ("pid", "ticks")
_ENDED = ("state", "exit_code", "signal")
_TOLD = ("sent", "reason", "output_ref", "output_bytes", "output_truncated", "returned")

_OUTCOMES: dict[ProcessState, Outcome] = {
    "failed": "errored",
    "cancelled": "cancelled",
    "timed_out": "timed_out",
}


def run(
    op: ProcessOp,
    state: State,
    usable: Callable[[str, State], Flow],
    changed: Callable[[FlowOp, State], State],
) -> State:
    """Return the documents after an op on a process, `state` itself where there is nothing to do.

    `usable` and `changed` are those of `machine`: a flow that may be looked at, and the documents
    after an op on a flow. What forbids the start of a process is raised; its end is always
    recorded, whatever became of its task meanwhile.
    """
    path = process_path(op.session_id, op.process)
    before = state[path]
    after = stepped(op, before if isinstance(before, Process) else None)
    if after is before:
        return state
    result = {**state, path: after}
    begins = isinstance(op, processops.RunIntend)
    flow = flow_of(op)
    if begins and flow is not None:
        usable(flow, state)
    for effect in effects(op, after):
        try:
            served = changed(effect, result)
        except (Rejected, Stale, NotFound):
            if begins:
                raise
        else:
            if isinstance(effect, Serve):
                _check_claimed(effect, served)
            return served
    return result


def _check_claimed(op: Serve, state: State) -> None:
    """Refuse a start whose task turned out to be interrupted and held. Raises Stale."""
    tasks = (task for flow in state.values() if isinstance(flow, Flow) for task in flow.children)
    if not any(task.process == op.process and task.claim for task in tasks):
        raise Stale(
            f"{op.task} was interrupted and waits for a decision",
            next=["gfs", "recover", op.flow],
        )


def stepped(op: ProcessOp, before: Process | None) -> Process:
    """Interpret the table; return `before` itself where there is nothing to do.

    Raises Stale for a call that started another command, Rejected for an op that the state forbids.
    """
    if before is not None and before.schema_version > Process.VERSION:
        raise Rejected(
            f"{before.id} was written by a newer gitflowstate", hint="upgrade gitflowstate"
        )
    if before is not None and _is_so(op, before):
        return before
    allowed = TABLE[op.TAG].get(before.state if before else None)
    if allowed is None:
        raise _refused(op, before)
    after = _RULES[op.TAG](op, before)
    if after.state not in allowed:
        raise Rejected(f"{op.TAG} may not make {op.process} {after.state}")
    return after


def _is_so(op: ProcessOp, before: Process) -> bool:
    """Tell whether the process already is what the op would make of it."""
    if isinstance(op, processops.RunLose):
        return before.state == "lost"
    if isinstance(op, processops.RunStart) and has_ended(before):
        return False  # nobody may let go what was given up
    same = {
        "run intend": ASKED,
        "run start": _STARTED,
        "run settle": _ENDED,
    }[op.TAG]
    return all(getattr(op, name) == getattr(before, name) for name in same)


def _refused(op: ProcessOp, before: Process | None) -> Rejected | Stale:
    if before is None:
        return Rejected(f"there is no process {op.process} to {op.TAG.removeprefix('run ')}")
    if isinstance(op, processops.RunIntend):
        differs = [name for name in ASKED if getattr(op, name) != getattr(before, name)]
        return Stale(
            f"that call of session {op.session_id} started another command: {before.id}, "
            f"which is {before.state}, has another {differs[0]}",
            hint="use a new call id for a new command",
            process=before.id,
            state=before.state,
            differs=differs,
            next=["gfs", "ps", "--all"],
        )
    return Rejected(
        f"{before.id} is {before.state}: {op.TAG} is refused",
        hint="its first recorded end stands" if has_ended(before) else "",
        process=before.id,
        state=before.state,
    )


# ── the process ─────────────────────────────────────────────────────────────────────────────────


def _intended(op: processops.RunIntend, _before: Process | None) -> Process:
    if not op.argv:
        raise Rejected("there is no command to run", hint="gfs run -- COMMAND")
    if op.task is not None and (op.flow is None or op.until is None):
        raise Rejected(f"the task {op.task} is of no flow", hint="name the flow with --flow")
    told = {name: getattr(op, name) for name in ASKED}
    process = Process(
        schema_version=1,
        id=op.process,
        state="starting",
        session_id=op.session_id,
        host=op.host,
        boot_id=op.boot_id,
        created_at=op.at,
        **told,
    )
    guards.check_document(process.id, process)
    return process


def _started(op: processops.RunStart, before: Process) -> Process:
    return before.replace(state="running", pid=op.pid, ticks=op.ticks, started_at=op.started_at)


def _settled(op: processops.RunSettle, before: Process) -> Process:
    _check_served(op, before)
    identity = {name: getattr(op, name) for name in (*_STARTED, "started_at")}
    late = {name: value for name, value in identity.items() if value is not None}
    if before.state == "running":
        late = {}
    told = {name: getattr(op, name) for name in (*_ENDED, *_TOLD)}
    return before.replace(finished_at=op.finished_at, **late, **told)


def _lost(op: processops.RunLose, before: Process) -> Process:
    _check_served(op, before)
    return before.replace(state="lost", finished_at=op.at, reason=op.reason)


def _check_served(op: processops.ServingOp, before: Process) -> None:
    """Refuse an end that would leave the task of the process as it is. Raises Rejected."""
    if (op.flow, op.task) != (before.flow, before.task):
        raise Rejected(f"{before.id} serves {before.flow}/{before.task}, not {op.flow}/{op.task}")


_RULES: dict[str, Callable[[Any, Any], Process]] = {
    "run intend": _intended,
    "run start": _started,
    "run settle": _settled,
    "run lose": _lost,
}


# ── the task it serves ──────────────────────────────────────────────────────────────────────────
#
# What a process does to its task are ordinary ops on that task, applied in the same commit, which
# say for which process they speak. They are part of no message, and so of no union.


class Serve(taskops.TaskClaim):
    """Claim the task for a process."""

    process: Id


class Complete(taskops.TaskDone):
    """Complete the task of a process."""

    process: Id


class Break(taskops.TaskFail):
    """Fail the task of a process."""

    process: Id


class Suspend(taskops.TaskWait):
    """Let the task of a process wait for a person."""

    process: Id


def effects(op: ProcessOp, after: Process) -> tuple[FlowOp, ...]:
    """Return what an op does to the task of its process: the first of these that is possible."""
    if not isinstance(op, processops.ServingOp) or op.flow is None or op.task is None:
        return ()
    about: dict[str, Any] = {"at": op.at, "by": op.by, "flow": op.flow, "task": op.task}
    about["process"] = op.process
    if isinstance(op, processops.RunIntend):
        assert op.until is not None
        return (Serve(**about, worker=op.process, until=op.until),)
    person: dict[str, Any] = {"until": claims.DECIDES, "on": "human"}
    if isinstance(op, processops.RunLose):
        reason = f"its process {op.process} is lost, and nobody knows how far it came"
        return (Suspend(**about, **person, reason=reason),)
    assert isinstance(op, processops.RunSettle)
    if after.state == "completed":
        result = op.result or f"{RESULT}{op.process}"
        odd = f"its process {op.process} completed, but the task could not be done then"
        return (Complete(**about, result=result), Suspend(**about, **person, reason=odd))
    return (Break(**about, reason=_why(after), outcome=_OUTCOMES[after.state]),)


def _why(process: Process) -> str:
    """Return why the task of a process failed, in words."""
    if process.reason:
        return f"its process {process.id} {process.state}: {process.reason}"[:1000]
    if process.signal:
        return f"its process {process.id} was ended by {process.signal}"
    return f"its process {process.id} {process.state} with exit code {process.exit_code}"
