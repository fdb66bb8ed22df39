"""The last act of a worker on a task: to record what came of it, or to give it back.

Rules: a result is never lost while there is a place for it: a store out of reach is waited for, and
a result whose claim was lost becomes a note. What cannot be recorded as a result is a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gitflowstate import claims, ops, taskops
from gitflowstate.delivery import Unknown
from gitflowstate.errors import GfsError, Invalid, NotFound, Rejected, Stale, Unavailable
from gitflowstate.model import Flow, live
from gitflowstate.ports import Clock, FlowStore, Job, Result

O = TypeVar("O", bound=ops.FlowOp)  # noqa: E741  an op
LEASE_S = 900
POLL_S = 0.5
STOPPED = "its worker was stopped while it ran"
# What is refused because somebody else was faster: the flow, its plan or the claim is another now.
OVERTAKEN = (Stale, Rejected, NotFound)


class Settings(NamedTuple):
    """How one worker works; `worker` is unique to one run, times are in seconds."""

    flow: str
    by: str
    worker: str
    jobs: int = 1
    lease_s: int = LEASE_S
    skew_s: int = 0
    wait: bool = True
    warn: Callable[[str], object] = str  # told, for a person, of a result that is not recorded yet


class Desk:
    """Where the ops of one worker are made and committed."""

    def __init__(self, settings: Settings, store: FlowStore, clock: Clock) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.completed = 0
        self.patience_s = settings.lease_s  # how long a result waits for a store out of reach

    def load(self) -> Flow:
        """Return the flow as it is now."""
        return self.store.flow(self.settings.flow)

    def op(self, kind: type[O], **fields: Any) -> O:  # noqa: ANN401  fields of the op
        """Return an op of this worker at this time."""
        return kind(at=self.clock.now(), by=self.settings.by, flow=self.settings.flow, **fields)

    def commit(self, op: ops.FlowOp) -> Flow:
        """Commit an op; return the flow as it is afterwards."""
        flow = self.store.commit(op).flow
        assert flow is not None
        return flow

    def lease_end(self) -> str:
        """Return when a claim ends that is made or renewed now."""
        return self.clock.later(self.settings.lease_s)

    def settle(self, job: Job, result: Result) -> Flow:
        """Record what came of a job; a result whose claim was lost is kept as a note."""
        try:
            return self._settled(job, result)
        except (Stale, NotFound):
            if result.ok:
                self._note_lost(job, result)
            return self.load()

    def _settled(self, job: Job, result: Result) -> Flow:
        deadline, said = time.monotonic() + self.patience_s, False
        while True:
            try:
                flow = self.commit(self._settlement(job, result))
            except (Invalid, Rejected) as error:
                flow = self.load()
                if not live(flow):
                    return flow  # it has ended meanwhile, and its tasks with it
                if not result.ok:
                    raise
                # What cannot be stored cannot be a result; its text may be what is wrong.
                result = Result(ok=False, text=f"its result was {error.name}", outcome="errored")
            except (Unavailable, Unknown) as error:  # what is there already is found to be there
                if time.monotonic() >= deadline:
                    raise
                if not said:
                    self.settings.warn(f"the result of {job.task.id} waits: {error.message}")
                said = True
                time.sleep(POLL_S)
            else:
                self.completed += result.ok
                return flow

    def _settlement(self, job: Job, result: Result) -> ops.FlowOp:
        held = {"task": job.task.id, "attempt": job.attempt}
        if result.ok:
            return self.op(taskops.TaskDone, **held, result=result.text)
        failed = {"reason": result.text, "outcome": result.outcome, "requeue": True}
        return self.op(taskops.TaskFail, **held, **failed)

    def _note_lost(self, job: Job, result: Result) -> None:
        text = f"A result for {job.task.id} came after its claim was lost: {result.text}"
        try:
            self.store.commit(self.op(ops.Note, text=text))
        except GfsError:
            return  # the flow has ended; there is nowhere to keep it

    def give_back(self, job: Job) -> bool:
        """Free a task that was not finished: for the next worker, or on hold for a person.

        Returns whether it is free; where the store is out of reach, its claim ends by itself.
        """
        held = {"task": job.task.id, "attempt": job.attempt}
        stopped = {"reason": STOPPED, "until": claims.DECIDES, "on": "human"}
        freeing: ops.FlowOp = self.op(taskops.TaskRelease, **held)
        if job.task.on_interrupt == "hold":
            freeing = self.op(taskops.TaskWait, **held, **stopped)
        try:
            self.store.commit(freeing)
        except OVERTAKEN:
            return True  # lost before
        except GfsError:
            return False
        return True
