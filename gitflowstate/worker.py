"""The life cycle of a worker: expire, claim, execute, settle, until nothing is left.

Rules: it loads first and never plans; a task is recorded as done only after it was executed, with
nothing between the two; what it does not know it does not record. Every wait ends by itself. When
it is stopped it settles what has ended, and gives back the rest.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gitflowstate import graph, outlook, taskops, taskrules
from gitflowstate.delivery import Unknown
from gitflowstate.errors import Blocked, GfsError, Rejected, Unavailable
from gitflowstate.kinds import Time
from gitflowstate.model import Claim, Flow, Task, seconds
from gitflowstate.ports import Clock, Executor, FlowStore, Job, Liveness, Result
from gitflowstate.settlement import OVERTAKEN, POLL_S, Desk, Settings

_LONG_S = 10  # a wait that is worth using
LOOK_S = 5.0  # between two looks at a flow that has nothing more for this worker


class Report(NamedTuple):
    """How it ended: all done, or why not."""

    flow: Flow
    completed: int
    blocked: list[str]


class Held(NamedTuple):
    """A job in work, when its claim was last extended by the monotonic clock, and until when."""

    job: Job
    since: float
    until: Time


class Worker:
    """One run of one worker on one flow."""

    def __init__(  # noqa: PLR0917  its ports, each once
        self,
        settings: Settings,
        store: FlowStore,
        executor: Executor,
        clock: Clock,
        workers: Liveness | None = None,
        progress: Callable[[Flow, int], None] | None = None,
        idle: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self.desk = Desk(settings, store, clock)
        self.store = store
        self.executor = executor
        self.clock = clock
        self.workers = workers
        self.progress = progress
        self.idle = idle  # called where a long wait begins and nothing is in work
        # What is claimed and not settled; what is left here at the end others have to expire.
        self.running: dict[str, Held] = {}
        self._ended: queue.SimpleQueue[tuple[Job, Result | BaseException]] = queue.SimpleQueue()
        self._unsettled: tuple[Job, Result | BaseException] | None = None
        self._seen: str | None = None

    def run(self, flow: Flow | None = None) -> Report:
        """Work until every task has ended or nothing can go on.

        `flow` spares the first read where the caller has just made it. Raises what the store
        raises, and what the executor raises, which is no failure of a task.
        """
        try:
            return self._run(flow or self._load())
        except BaseException:
            self._wind_up()
            raise

    def _run(self, flow: Flow) -> Report:
        first, left = flow, self.workers.left(flow.id) if self.workers else []
        while True:
            # Taken before anything is looked at: what is due from here on is not missed.
            now = self.clock.now()
            flow = self._fill(self._expire(flow))
            if self.progress:
                self.progress(flow, len(self.running))
            if self.running:
                flow = self._await(flow)
                continue
            until = outlook.next_chance(flow, now, self.settings.skew_s)
            if until is None or not self.settings.wait:
                if flow is not first:  # what the dead did last is in it
                    self._forget(left, flow)
                return Report(flow, self.desk.completed, outlook.reasons(flow, now))
            self._sleep(flow, until)
            flow = self._load()

    def _load(self) -> Flow:
        self._seen = self.store.version()  # before: what changes in between is seen again
        return self.desk.load()

    # ── expire and claim ────────────────────────────────────────────────────────────────────────

    def _expire(self, flow: Flow) -> Flow:
        """End the claims of workers that this machine knows to be dead."""
        gone = [*self._dead(flow)]
        for task, claim in gone:
            fields = {"task": task.id, "attempt": claim.attempt, "proof": "lock"}
            try:
                flow = self.desk.commit(self.desk.op(taskops.TaskExpire, **fields))
            except OVERTAKEN:
                flow = self._load()
        self._forget({claim.worker for _, claim in gone}, flow)
        return flow

    def _forget(self, dead: Iterable[str], flow: Flow) -> None:
        """Drop the locks of dead workers that hold nothing in the flow."""
        held = {task.claim.worker for task in flow.children if task.claim}
        for worker in dead:
            if self.workers and worker not in held:
                self.workers.forget(worker)

    def _dead(self, flow: Flow) -> Iterator[tuple[Task, Claim]]:
        """Yield the tasks whose claim is of a worker that this machine knows to be dead."""
        if self.workers is None:
            return
        found: dict[str, bool] = {self.settings.worker: False}
        for task, claim in outlook.expirable(flow):
            if claim.worker not in found:
                found[claim.worker] = self.workers.is_dead(claim.worker)
            if found[claim.worker]:
                yield task, claim

    def _fill(self, flow: Flow) -> Flow:
        """Claim and start ready tasks, as many as there is room for."""
        worker, skew_s = self.settings.worker, self.settings.skew_s
        while self._has_room() and outlook.has_chance(flow, worker, self.clock.now(), skew_s):
            until = self.desk.lease_end()
            op = self.desk.op(taskops.TaskClaim, worker=worker, until=until, skew_s=skew_s)
            try:
                flow = self.desk.commit(op)
            except Blocked:
                return self._load()
            except Rejected:
                flow = self._load()
                if graph.is_open(flow):
                    raise
                return flow  # it waits or has ended meanwhile
            except Unavailable:
                if not self.running:
                    raise
                return flow  # tried again after the next wait
            for name in op.made_in(flow):
                self._start(flow, taskrules.task_of(flow, name))
        return flow

    def _has_room(self) -> bool:
        return len(self.running) < self.settings.jobs

    def _start(self, flow: Flow, task: Task) -> None:
        assert task.claim is not None
        results = {
            other.id: other.result_ref
            for other in flow.children
            if other.id in task.deps and other.result_ref
        }
        job = Job(flow.id, task, task.claim.attempt, results)
        self.running[task.id] = Held(job, time.monotonic(), task.claim.until)
        threading.Thread(target=self._execute, args=(job,), daemon=True).start()

    def _execute(self, job: Job) -> None:
        try:
            self._ended.put((job, self.executor.run(job)))
        except BaseException as error:  # noqa: BLE001  told to the thread that settles
            self._ended.put((job, error))

    # ── settle ──────────────────────────────────────────────────────────────────────────────────

    def _await(self, flow: Flow) -> Flow:
        """Wait for a job to end, and settle it; meanwhile hold the claims and look around."""
        longest = POLL_S if self._has_room() else LOOK_S
        try:
            self._unsettled = self._ended.get(timeout=min(self._until_renewal(), longest))
        except queue.Empty:
            self._renew()
            return flow if self.store.version() == self._seen else self._load()
        return self._settle_one()

    def _settle_one(self) -> Flow:
        assert self._unsettled is not None
        job, result = self._unsettled
        if isinstance(result, BaseException):
            self._unsettled = None
            raise result
        flow = self.desk.settle(job, result)
        # Only now: were this interrupted before, the same is settled again when winding up.
        self.running.pop(job.task.id, None)
        self._unsettled = None
        return flow

    def _until_renewal(self) -> float:
        oldest = min(held.since for held in self.running.values())
        return max(0.05, oldest + self.settings.lease_s / 2 - time.monotonic())

    def _renew(self) -> None:
        """Extend the claims that have run for half their time, by either clock.

        The monotonic one stands still while a machine sleeps, the other may be set.
        """
        for name, held in list(self.running.items()):
            left = seconds(held.until) - seconds(self.clock.now())
            late = time.monotonic() - held.since
            if max(late, self.settings.lease_s - left) < self.settings.lease_s / 2:
                continue
            until, fields = self.desk.lease_end(), {"task": name, "attempt": held.job.attempt}
            try:
                self.desk.commit(self.desk.op(taskops.TaskRenew, **fields, until=until))
            except (Unavailable, Unknown):
                return  # there is half a lease left to try again
            except OVERTAKEN:
                pass  # lost: its settlement will be refused as well, and its result kept
            self.running[name] = Held(held.job, time.monotonic(), until)

    # ── being stopped, and waiting ──────────────────────────────────────────────────────────────

    def _wind_up(self) -> None:
        """Settle what has ended, end what runs, and give back what is then left."""
        self._settle_rest()
        self.executor.stop()
        for name, held in list(self.running.items()):
            if self.desk.give_back(held.job):
                del self.running[name]

    def _settle_rest(self) -> None:
        self.desk.patience_s = 0
        while self._unsettled or not self._ended.empty():
            job, result = self._unsettled or self._ended.get_nowait()
            self._unsettled = None
            if isinstance(result, Result):
                try:
                    self.desk.settle(job, result)
                except GfsError as error:  # the cause of the stop is what is raised
                    self.settings.warn(
                        f"the result of {job.task.id} is not recorded: {error.message}; "
                        "the task will run again"
                    )
                else:
                    self.running.pop(job.task.id, None)

    def _sleep(self, flow: Flow, until: int) -> None:
        """Sleep until the time has come, somebody has changed something, or a holder has died."""
        if self.idle and until - seconds(self.clock.now()) >= _LONG_S:
            self.idle()
        while seconds(self.clock.now()) < until:
            if self.store.version() != self._seen or any(self._dead(flow)):
                return
            time.sleep(POLL_S)
