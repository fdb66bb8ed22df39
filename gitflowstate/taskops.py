"""The operations on the tasks of a flow: plan, claim, settle, and what mends them.

Rules: as in `ops`. A claim is a right to act and no progress; settling a task (done, fail, wait) is
what the plan records. `attempt` is the fencing token of a claim.
"""

from __future__ import annotations

from typing import ClassVar

from gitflowstate import model, prose
from gitflowstate.kinds import (
    Count,
    Decision,
    Flag,
    Id,
    Int,
    Name,
    On,
    OnInterrupt,
    Outcome,
    Proof,
    Reason,
    Ref,
    Revision,
    Time,
    Words,
)
from gitflowstate.ops import FlowOp


class Plan(FlowOp):
    """Store the whole graph before any of it runs; or, deliberately, another one."""

    TAG = "plan"
    BODY = (("Reason", "reason"),)
    ADDS = True

    document: model.Plan
    replace_plan: Flag = False
    reason: Reason | None = None
    keep_done: Flag = False
    cancel_children: Flag = False

    def headline(self, flow: model.Flow | None) -> str:
        """Return how large the plan is."""
        number = f"plan {flow.plan}, " if flow and flow.plan else ""
        return f"{number}{prose.count(len(self.document.tasks), 'task')}"


class TaskOp(FlowOp):
    """An operation on one task, or on the one that apply chooses."""

    # The field that says in a word what came of it.
    SAYS: ClassVar[str] = ""
    OWNERS = False

    task: Id

    def headline(self, flow: model.Flow | None) -> str:
        """Return the task, and what came of it."""
        del flow
        said = getattr(self, self.SAYS, None) if self.SAYS else None
        return f"{self.task}: {said}" if said else self.task


class TaskAdd(FlowOp):
    """Add a task; without an id it gets the next free one, such as t6."""

    TAG = "task add"
    ADDS = True

    task: Id | None = None
    goal: Words
    deps: tuple[Id, ...] = ()
    priority: Int = 0
    not_before: Time | None = None
    timeout_s: Count | None = None
    max_attempts: Count = 3
    on_interrupt: OnInterrupt = "rerun"

    def headline(self, flow: model.Flow | None) -> str:
        """Return the task that was added, and its goal."""
        added = "".join(self.made_in(flow)) if flow else self.task
        return f"{added}: {self.goal}" if added else self.goal

    def made_in(self, flow: model.Flow) -> tuple[Id, ...]:
        """Return the id of the task that was added: the one given, or the last."""
        return (self.task,) if self.task else tuple(task.id for task in flow.children[-1:])


class TaskClaim(FlowOp):
    """Take the right to work on a task; without one, on the first that is ready."""

    TAG = "task claim"
    OWNERS = False

    task: Id | None = None
    worker: Name
    until: Time
    skew_s: Count = 0

    def headline(self, flow: model.Flow | None) -> str:
        """Return the task that was claimed, and by whom."""
        claimed = "".join(self.made_in(flow)) if flow else self.task
        return f"{claimed or 'none'} by {self.worker}"

    def made_in(self, flow: model.Flow) -> tuple[Id, ...]:
        """Return the task that was claimed; none where only claims of others were expired."""
        held = held_since(flow, flow.revision)
        return (held.id,) if held else ()

    def fulfilled_in(self, flow: model.Flow) -> bool:
        """Tell whether a task was claimed; if not, the key is free for the next try."""
        return bool(self.made_in(flow))


def held_since(flow: model.Flow, revision: int) -> model.Task | None:
    """Return the task that was claimed at a revision."""
    for task in flow.children:
        if task.claim is not None and task.claim.attempt == revision:
            return task
    return None


class TaskRenew(TaskOp):
    """Hold a claim for longer."""

    TAG = "task renew"
    SAYS = "until"

    attempt: Revision | None = None
    until: Time


class TaskRelease(TaskOp):
    """Give a claim back, with nothing done."""

    TAG = "task release"

    attempt: Revision | None = None


class TaskDone(TaskOp):
    """Record that a task is complete, and where its result is."""

    TAG = "task done"
    SAYS = "result"

    result: Ref
    attempt: Revision | None = None


class TaskFail(TaskOp):
    """Record that a task has failed; with `requeue`, only if its attempts are used up."""

    TAG = "task fail"
    SAYS = "reason"

    reason: Words
    attempt: Revision | None = None
    outcome: Outcome = "errored"
    requeue: Flag = False


class TaskWait(TaskOp):
    """Record that a task cannot go on, and what it needs."""

    TAG = "task wait"
    SAYS = "reason"
    BODY = (("Until", "until"), ("Waiting on", "on"))

    reason: Words
    until: Words
    on: On
    attempt: Revision | None = None


class TaskResume(TaskOp):
    """Make a waiting task pending again."""

    TAG = "task resume"
    OWNERS = True


class TaskRetry(TaskOp):
    """Make a failed or waiting task pending again, with its counts at zero."""

    TAG = "task retry"
    SAYS = "reason"
    OWNERS = True

    reason: Reason


class TaskExpire(TaskOp):
    """End the claim of a worker that is dead, or whose time is over."""

    TAG = "task expire"
    BODY = (("Proof", "proof"),)

    attempt: Revision
    proof: Proof
    skew_s: Count = 0


class Recover(TaskOp):
    """Record a person's decision on a task whose outcome nobody knows."""

    TAG = "recover"
    SAYS = "decide"
    BODY = (("Reason", "reason"), ("Result", "result"))
    OWNERS = True

    decide: Decision
    reason: Reason
    result: Ref | None = None
