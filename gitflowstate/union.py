"""The closed union of operations, by the one word for each.

Rule: an operation that is not here does not exist: no message can carry it, no table has its row.
"""

from __future__ import annotations

from gitflowstate.ops import (
    Adopt,
    Create,
    Done,
    Fail,
    Handoff,
    Import,
    Init,
    Note,
    Observe,
    Op,
    Reopen,
    Resume,
    Take,
    Update,
    Wait,
)
from gitflowstate.taskops import (
    Plan,
    Recover,
    TaskAdd,
    TaskClaim,
    TaskDone,
    TaskExpire,
    TaskFail,
    TaskRelease,
    TaskRenew,
    TaskResume,
    TaskRetry,
    TaskWait,
)

UNION: tuple[type[Op], ...] = (
    Init,
    Observe,
    Create,
    Import,
    Update,
    Note,
    Wait,
    Resume,
    Done,
    Fail,
    Reopen,
    Handoff,
    Take,
    Adopt,
    Plan,
    TaskAdd,
    TaskClaim,
    TaskRenew,
    TaskRelease,
    TaskDone,
    TaskFail,
    TaskWait,
    TaskResume,
    TaskRetry,
    TaskExpire,
    Recover,
)
BY_TAG: dict[str, type[Op]] = {op.TAG: op for op in UNION}


def class_of(tag: str) -> type[Op] | None:
    """Return the operation that a tag names, on main or on a cursor; None where none does."""
    if tag in BY_TAG:
        return BY_TAG[tag]
    # Start-up: few commands meet a process or a cursor.
    from gitflowstate import inbox, processops, watchops  # noqa: PLC0415

    found = processops.BY_TAG.get(tag) or watchops.BY_TAG.get(tag)
    return found or inbox.BY_TAG.get(tag)
