"""The life cycle of a worker: expire, claim, execute, settle, until nothing is left.

Rules: it loads first and never plans; a task is recorded as done only after it was executed, with
nothing between the two; what it does not know it does not record. Every wait ends by itself.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gitflowstate import claims, graph, ops, secrets, taskops, taskrules
from gitflowstate.errors import Blocked, GfsError, Invalid, Rejected, Stale, Unavailable
from gitflowstate.kinds import KINDS
from gitflowstate.model import Flow, Task, instant, live, seconds
from gitflowstate.ports import Clock, Executor, FlowStore, Job, Liveness, Result

O = TypeVar("O", bound=ops.FlowOp)  # noqa: E741  an op
LEASE_S = 900
POLL_S = 0.5


class Settings(NamedTuple):
    """How one worker works; `worker` is unique to one run, times are in seconds."""

    flow: str
    by: str
    worker: str
    jobs: int = 1
    lease_s: int = LEASE_S
    skew_s: int = 0
    wait: bool = True


class Report(NamedTuple):
    """How it ended: all done, or why not."""

    flow: Flow
    completed: int
    blocked: list[str]


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
    ) -> None:
        self.settings = settings
        self.store = store
        self.executor = executor
        self.clock = clock
        self.workers = workers
        self.progress = progress
        self.running: dict[str, tuple[Job, float]] = {}
        self.ended: queue.SimpleQueue[tuple[Job, Result | BaseException]] = queue.SimpleQueue()
        self.completed = 0

    def run(self, flow: Flow | None = None) -> Report:
        """Work until every task has ended or nothing can go on; release what is held if stopped.

        `flow` spares the first read where the caller has just made it. Raises what the store
        raises.
        """
        try:
            return self._run(flow or self.store.flow(self.settings.flow))
        except BaseException:
            self.executor.stop()
            self._release_all()
            raise

    def _run(self, flow: Flow) -> Report:
        while True:
            flow = self._expire(flow)
            flow = self._fill(flow)
            if self.progress:
                self.progress(flow, len(self.running))
            if self.running:
                flow = self._await(flow)
                continue
            until = self._next_chance(flow)
            if until is None:
                return Report(flow, self.completed, reasons(flow, self.clock.now()))
            self._sleep(until)
            flow = self.store.flow(self.settings.flow)

    def _op(self, kind: type[O], **fields: Any) -> O:  # noqa: ANN401  fields of the op
        return kind(at=self.clock.now(), by=self.settings.by, flow=self.settings.flow, **fields)

    # ── expire and claim ────────────────────────────────────────────────────────────────────────

    def _expire(self, flow: Flow) -> Flow:
        """End the claims of workers that this machine knows to be dead."""
        dead: set[str] = set()
        for task in flow.children:
            if task.claim is None or self.workers is None:
                continue
            if task.claim.worker != self.settings.worker and self._is_dead(task.claim.worker, dead):
                flow = self._expire_one(flow, task) or flow
        for worker in dead:
            if self.workers and not any(
                t.claim and t.claim.worker == worker for t in flow.children
            ):
                self.workers.forget(worker)
        return flow

    def _is_dead(self, worker: str, dead: set[str]) -> bool:
        if worker not in dead and self.workers and self.workers.is_dead(worker):
            dead.add(worker)
        return worker in dead

    def _expire_one(self, flow: Flow, task: Task) -> Flow | None:
        assert task.claim is not None
        op = self._op(taskops.TaskExpire, task=task.id, attempt=task.claim.attempt, proof="lock")
        try:
            return self.store.commit(op).flow
        except (Stale, Rejected):
            return self.store.flow(flow.id)  # somebody else was faster

    def _fill(self, flow: Flow) -> Flow:
        """Claim and start ready tasks, as many as there is room for."""
        while len(self.running) < self.settings.jobs and self._has_chance(flow):
            op = self._op(
                taskops.TaskClaim,
                worker=self.settings.worker,
                until=self.clock.later(self.settings.lease_s),
                skew_s=self.settings.skew_s,
            )
            try:
                flow = self.store.commit(op).flow or flow
            except Blocked:
                return self.store.flow(flow.id)
            for name in op.made_in(flow):
                self._start(flow, taskrules.task_of(flow, name))
        return flow

    def _has_chance(self, flow: Flow) -> bool:
        """Tell whether a claim may succeed; only to spare refused commits."""
        if not graph.is_open(flow):
            return False
        now, done = self.clock.now(), graph.completed(flow)
        skew = self.settings.skew_s
        return any(
            graph.is_due(task, done, now)
            and (task.claim is None or claims.is_over(task.claim, now, skew))
            for task in flow.children
        )

    def _start(self, flow: Flow, task: Task) -> None:
        assert task.claim is not None
        results = {
            other.id: other.result_ref
            for other in flow.children
            if other.id in task.deps and other.result_ref
        }
        job = Job(flow.id, task, task.claim.attempt, results)
        self.running[task.id] = (job, time.monotonic())
        threading.Thread(target=self._execute, args=(job,), daemon=True).start()

    def _execute(self, job: Job) -> None:
        try:
            self.ended.put((job, self.executor.run(job)))
        except BaseException as error:  # noqa: BLE001  told to the thread that settles
            self.ended.put((job, error))

    # ── settle ──────────────────────────────────────────────────────────────────────────────────

    def _await(self, flow: Flow) -> Flow:
        """Wait for a job to end, and settle it; meanwhile hold the claims."""
        try:
            job, result = self.ended.get(timeout=min(self._until_renewal(), 5.0))
        except queue.Empty:
            return self._renew(flow)
        if isinstance(result, BaseException):
            raise result
        # From here on it is no longer ours to release: it has run.
        del self.running[job.task.id]
        return self._settle(job, result)

    def _until_renewal(self) -> float:
        oldest = min(started for _, started in self.running.values())
        return max(0.05, oldest + self.settings.lease_s / 2 - time.monotonic())

    def _settle(self, job: Job, result: Result) -> Flow:
        """Record what came of a job; a result whose claim was lost is kept as a note."""
        try:
            flow = self._committed(job, result)
        except Stale:
            if result.ok:
                self._note_lost(job, result)
            return self.store.flow(job.flow)
        self.completed += result.ok
        return flow

    def _committed(self, job: Job, result: Result) -> Flow:
        """Commit a settlement; for as long as a lease, a store out of reach is waited for."""
        deadline = time.monotonic() + self.settings.lease_s
        while True:
            try:
                flow = self.store.commit(self._settlement(job, result)).flow
            except (Invalid, Rejected) as error:
                if not result.ok:
                    raise
                # What cannot be stored cannot be a result; its text may be what is wrong.
                result = Result(False, f"its result was refused: {error.name}", "errored")  # noqa: FBT003
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)
            else:
                return flow or self.store.flow(job.flow)

    def _settlement(self, job: Job, result: Result) -> ops.FlowOp:
        held = {"task": job.task.id, "attempt": job.attempt}
        if result.ok:
            return self._op(taskops.TaskDone, **held, result=result.text)
        failed = {"reason": result.text, "outcome": result.outcome, "requeue": True}
        return self._op(taskops.TaskFail, **held, **failed)

    def _note_lost(self, job: Job, result: Result) -> None:
        text = f"A result for {job.task.id} came after its claim was lost: {result.text}"
        try:
            self.store.commit(self._op(ops.Note, text=text))
        except GfsError:
            return  # the flow has ended; there is nowhere to keep it

    def _renew(self, flow: Flow) -> Flow:
        for name, (job, started) in list(self.running.items()):
            if time.monotonic() - started < self.settings.lease_s / 2:
                continue
            until = self.clock.later(self.settings.lease_s)
            op = self._op(taskops.TaskRenew, task=name, attempt=job.attempt, until=until)
            self.running[name] = (job, time.monotonic())
            try:
                flow = self.store.commit(op).flow or flow
            except (Stale, Rejected):
                flow = self.store.flow(flow.id)  # lost: its settlement will be refused as well
        return flow

    def _release_all(self) -> None:
        for job, _ in self.running.values():
            op = self._op(taskops.TaskRelease, task=job.task.id, attempt=job.attempt)
            try:
                self.store.commit(op)
            except GfsError:
                continue  # its lease ends by itself

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────

    def _next_chance(self, flow: Flow) -> int | None:
        """Return when something may become ready, in seconds since 1970; None where nothing can."""
        if not self.settings.wait or not live(flow) or flow.status == "waiting":
            return None
        skew, now = self.settings.skew_s, self.clock.now()
        ends = [seconds(t.claim.until) + skew for t in flow.children if t.claim is not None]
        done = graph.completed(flow)
        starts = [
            seconds(task.not_before)
            for task in flow.children
            if task.status == "pending"
            and task.not_before is not None
            and instant(task.not_before) > instant(now)
            and done.issuperset(task.deps)
        ]
        return min([*ends, *starts], default=None)

    def _sleep(self, until: int) -> None:
        """Sleep until the time has come or somebody has changed something."""
        before = self.store.version()
        while seconds(self.clock.now()) < until and self.store.version() == before:
            time.sleep(POLL_S)
        if seconds(self.clock.now()) >= until:
            time.sleep(0.01)


def reasons(flow: Flow, now: str) -> list[str]:
    """Return why tasks that have not ended stand still, one line each."""
    return [
        f"{task.id}: {'; '.join(b.text for b in graph.blockers(flow, task, now)) or 'is ready'}"
        for task in flow.children
        if task.status != "done"
    ]


def reference(text: str) -> str:
    """Return a line of output as a result reference: one line, cut, nothing secret in it."""
    line = " ".join(text.split())[:2048]
    if not KINDS["Ref"].accepts(line) or secrets.find(line):
        return ""
    return line
