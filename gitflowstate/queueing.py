"""Operations that are recorded here alone, until they are published: what may be, and how.

Rule: what only an arbiter can grant is never queued, since two hosts would both believe to have it:
a claim, its renewal, another's flow, and the start of a process for a task or for a call that must
run once (architecture, section 6, the write protocol).
"""

from __future__ import annotations

from gitflowstate.definitions import FLOWS
from gitflowstate.errors import Rejected
from gitflowstate.machine import State
from gitflowstate.ops import Op, Take
from gitflowstate.processmodel import process_path
from gitflowstate.processops import RunIntend
from gitflowstate.taskops import TaskClaim, TaskRenew

ARBITRATED: tuple[type[Op], ...] = (TaskClaim, TaskRenew, Take)


def apply(op: Op, state: State) -> State:
    """Apply an op that needs no arbiter. Raises Rejected for one that does."""
    if isinstance(op, ARBITRATED) or _starts_once(op, state):
        raise Rejected(
            f"{op.TAG} needs the remote, which decides who has it: nothing was done offline",
            hint="leave --offline out, and unset GFS_OFFLINE",
        )
    return FLOWS.apply(op, state)


def _starts_once(op: Op, state: State) -> bool:
    """Tell whether an op starts what others must not start as well; a repeat starts nothing."""
    if not isinstance(op, RunIntend) or (op.task is None and op.call_id is None):
        return False
    return state[process_path(op.session_id, op.process)] is None


# The family of main, as long as the remote is not asked.
QUEUED = FLOWS._replace(apply=apply)
