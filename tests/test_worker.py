"""A worker, with a store in memory and an executor that does what a script says."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from gitflowstate import ops, settlement, taskops, worker
from gitflowstate.adapters.memory import MemoryStore
from gitflowstate.delivery import Unknown
from gitflowstate.errors import GfsError, Rejected, Stale, Unavailable
from gitflowstate.model import Flow, Plan, Step, Task, seconds
from gitflowstate.ports import Result
from gitflowstate.settlement import Settings
from gitflowstate.worker import Worker

AT = "2026-09-06T10:00:00Z"
OTHER = {"worker": "other.87654321", "by": "bob"}
LESSON = {"t1": (), "t2": ("t1",), "t3": ("t1",), "t4": ("t2", "t3"), "t5": ("t4",)}
FAILED = Result(ok=False, text="exit code 1", outcome="errored")


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """Look around often: nothing here is about how long a look takes."""
    for module in (worker, settlement):
        monkeypatch.setattr(module, "POLL_S", 0.005)
    monkeypatch.setattr(worker, "LOOK_S", 0.005)


class Shelf(MemoryStore):
    """A store that keeps every op, and can do or raise something before it commits one."""

    def __init__(self, edges, **fields) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.ops: list[ops.FlowOp] = []
        self.before: dict[str, list] = {}
        steps = tuple(
            Step(id=name, goal=f"do {name}", deps=deps, **fields.get(name, {}))
            for name, deps in edges.items()
        )
        plan = Plan(schema_version=1, flow="f-1", tasks=steps)
        self.do(ops.Create, goal="g", owner="ann", next="work", plan=plan, by="ann")

    def do(self, kind, **fields) -> Flow:
        """Commit an op of somebody else's."""
        return self.commit(kind(**{"at": AT, "by": "bob", "flow": "f-1"} | fields)).flow

    def commit(self, op):
        with self.lock:
            while self.before.get(op.TAG):
                act = self.before[op.TAG].pop(0)
                if isinstance(act, BaseException):
                    raise act
                act()
            outcome = super().commit(op)
            self.ops.append(op)
            return outcome

    def flow(self, flow="f-1"):
        with self.lock:
            return super().flow(flow)

    def task(self, name) -> Task:
        return next(task for task in self.flow().children if task.id == name)

    def statuses(self) -> dict[str, str]:
        return {task.id: task.status for task in self.flow().children}

    def tags(self, *tags) -> list[str]:
        """Return the ops of a worker's, in their order, as `tag task`."""
        return [f"{op.TAG} {op.task}" for op in self.ops if op.TAG in tags]


class Script:
    """An executor: what a task does, try by try; a task without a script succeeds."""

    def __init__(self, **acts) -> None:
        self.acts = {name: list(found) for name, found in acts.items()}
        self.jobs = []
        self.stopped = threading.Event()
        self.running = self.most = 0
        self.lock = threading.Lock()

    def run(self, job):
        with self.lock:
            self.jobs.append(job)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            return self.act(job)
        finally:
            with self.lock:
                self.running -= 1

    def act(self, job):
        acts = self.acts.get(job.task.id)
        act = acts.pop(0) if acts else None
        if callable(act):
            act = act(job)
        if isinstance(act, BaseException):
            raise act
        return act or Result(ok=True, text=f"out/{job.task.id}.md")

    def stop(self):
        self.stopped.set()

    @property
    def started(self) -> list[str]:
        return [job.task.id for job in self.jobs]


class Clock:
    """Time that stands still, or moves by a step with each look; `at` runs acts at a time."""

    def __init__(self, step: int = 0) -> None:
        self.seconds = seconds(AT)
        self.step = step
        self.acts: list[tuple[int, object]] = []

    def now(self):
        self.seconds += self.step
        for when, act in list(self.acts):
            if self.seconds >= when:
                self.acts.remove((when, act))
                act()
        return self.text(self.seconds)

    def later(self, span):
        return self.text(self.seconds + span)

    def text(self, moment):
        from datetime import UTC, datetime

        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def after(self, span, act):
        self.acts.append((self.seconds + span, act))


class Dead:
    """Workers that are known to be dead."""

    def __init__(self, *names) -> None:
        self.names = set(names)
        self.forgotten: list[str] = []

    def is_dead(self, name):
        return name in self.names

    def left(self, flow):
        assert flow == "f-1"
        return sorted(self.names)

    def forget(self, name):
        self.forgotten.append(name)


def settings(**fields) -> Settings:
    return Settings(**{"flow": "f-1", "by": "ann", "worker": "ann.12345678"} | fields)


def works(shelf, script=None, clock=None, workers=None, progress=None, **fields):
    """Return the report of a worker's whole run."""
    run = Worker(settings(**fields), shelf, script or Script(), clock or Clock(), workers, progress)
    return run.run()


def until(event: threading.Event) -> None:
    """Wait for what a correct worker does soon; a wrong one fails here and not by a time-out."""
    if not event.wait(30):
        raise GfsError("it never happened")


# ── the loop ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-05", "R-TS-07", "R-TS-14", "R-TS-22", "R-TS-29")
@pytest.mark.parametrize("name", ["ann.12345678", "zoe.00000000"])
def test_the_lesson_is_carried_out_in_its_order_whoever_works(name):
    shelf, script = Shelf(LESSON), Script()
    report = works(shelf, script, worker=name)
    assert script.started == [*LESSON]
    assert (report.completed, report.blocked) == (5, [])
    assert report.flow == shelf.flow()
    assert {task.result_ref for task in report.flow.children} == {f"out/{n}.md" for n in LESSON}
    assert [op.TAG for op in shelf.ops] == ["create", *["task claim", "task done"] * 5]


@pytest.mark.req("R-TS-23", "R-TS-08")
def test_nothing_is_done_before_it_was_executed():
    """While a task runs it is pending and claimed; done is recorded right after."""
    shelf = Shelf(LESSON)

    def look(job):
        task = shelf.task(job.task.id)
        assert (task.status, task.claim.attempt) == ("pending", job.attempt)
        assert shelf.statuses()[job.task.id] == "pending"

    report = works(shelf, Script(**{name: [look] for name in LESSON}))
    assert report.completed == 5


def test_a_job_has_the_results_of_what_it_needs():
    script = Script()
    works(Shelf(LESSON), script)
    assert script.jobs[3].results == {"t2": "out/t2.md", "t3": "out/t3.md"}
    assert [job.attempt for job in script.jobs] == [2, 4, 6, 8, 10]


@pytest.mark.req("R-TS-27")
def test_higher_priorities_go_first():
    script = Script()
    works(Shelf(dict.fromkeys(("t1", "t2", "t10"), ()), t10={"priority": 5}), script)
    assert script.started == ["t10", "t1", "t2"]


@pytest.mark.req("R-TS-06", "R-TS-27")
def test_as_many_jobs_run_at_once_as_there_is_room_for():
    edges = dict.fromkeys(("a", "b", "c", "d", "e"), ()) | {"end": ("a", "b", "c", "d", "e")}
    meet = threading.Barrier(3)  # nobody passes until three are there

    def together(_job):
        meet.wait(30)

    script = Script(**{name: [together] for name in ("a", "b", "c")})
    report = works(Shelf(edges), script, jobs=3)
    assert report.completed == 6
    assert script.most == 3
    assert script.started[-1] == "end"


def test_what_others_complete_is_seen_while_a_job_runs():
    """t1 ends only after t3 has begun, which needs t2 of another worker."""
    shelf = Shelf({"t1": (), "t2": (), "t3": ("t2",)})
    shelf.do(taskops.TaskClaim, task="t2", until="2027-01-01T00:00:00Z", **OTHER)
    begun = threading.Event()

    def first(_job):
        shelf.do(taskops.TaskDone, task="t2", result="theirs.md")
        until(begun)

    script = Script(t1=[first], t3=[lambda _job: begun.set()])
    assert works(shelf, script, jobs=2).completed == 2
    assert set(shelf.statuses().values()) == {"done"}


def test_progress_is_told():
    told = []
    works(Shelf(LESSON), progress=lambda flow, running: told.append((flow.revision, running)))
    assert told[0] == (2, 1)
    assert told[-1] == (11, 0)


# ── failures ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C-17", "R-TS-27")
def test_a_failure_is_tried_again_until_the_attempts_are_used_up():
    shelf = Shelf({"t1": (), "t2": ("t1",), "t3": ()}, t1={"max_attempts": 3})
    script = Script(t1=[FAILED] * 5)
    report = works(shelf, script)
    assert Counter(script.started) == {"t1": 3, "t3": 1}
    failed = shelf.task("t1")
    assert (failed.status, failed.failures, failed.reason) == ("failed", 3, "exit code 1")
    assert report.blocked == ["t1: t1 is failed: exit code 1", "t2: t1 is failed"]


@pytest.mark.req("C-17")
def test_a_later_try_may_succeed():
    shelf = Shelf({"t1": ()})
    assert works(shelf, Script(t1=[FAILED, FAILED])).completed == 1
    assert (shelf.task("t1").failures, shelf.task("t1").reason) == (2, None)


@pytest.mark.req("C-17", "R-TF-35")
def test_a_task_on_hold_is_not_tried_again():
    shelf, script = Shelf({"t1": ()}, t1={"on_interrupt": "hold"}), Script(t1=[FAILED])
    works(shelf, script)
    assert (script.started, shelf.task("t1").status) == (["t1"], "failed")


def test_a_result_that_cannot_be_recorded_is_a_failure():
    shelf = Shelf({"t1": ()}, t1={"max_attempts": 1})
    works(shelf, Script(t1=[Result(ok=True, text="\x1b")]))
    assert shelf.task("t1").reason == "its result was invalid"


# ── blocked, scheduled, waiting ─────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-19")
def test_a_dead_end_is_left_with_the_reasons():
    shelf = Shelf({"t1": (), "t2": ("t1",), "t3": ("t2",)})
    shelf.do(taskops.TaskWait, task="t1", reason="no key", until="a key", on="human")
    report = works(shelf)
    assert report.completed == 0
    assert report.blocked == [
        "t1: t1 is waiting: no key; until a key",
        "t2: t1 is waiting",
        "t3: t2 is pending",
    ]


@pytest.mark.req("R-TS-25")
def test_a_time_that_comes_is_waited_for():
    shelf = Shelf({"t1": (), "t2": ()}, t1={"not_before": "2026-09-06T11:00:00Z"})
    script, clock = Script(), Clock(step=60)
    assert works(shelf, script, clock).completed == 2
    assert script.started == ["t2", "t1"]
    claimed = [op for op in shelf.ops if op.TAG == "task claim"]
    assert claimed[1].at >= "2026-09-06T11:00:00Z"


@pytest.mark.req("R-TS-25")
def test_no_wait_leaves_at_once():
    shelf = Shelf({"t1": ()}, t1={"not_before": "2026-09-06T11:00:00Z"})
    report = works(shelf, clock=Clock(step=1), wait=False)
    assert report.blocked == ["t1: t1 is not to begin before 2026-09-06T11:00:00Z"]


def test_a_time_that_comes_between_two_looks_is_not_missed():
    """The second of `not_before` passes after the ready set was looked at."""
    for late in range(1, 8):
        shelf = Shelf({"t1": ()}, t1={"not_before": Clock().later(late)})
        assert works(shelf, clock=Clock(step=1)).completed == 1, late


def test_a_live_claim_of_another_is_waited_for():
    shelf, clock = Shelf({"t1": (), "t2": ("t1",)}), Clock(step=30)
    shelf.do(taskops.TaskClaim, task="t1", until="2026-09-06T12:00:00Z", **OTHER)
    clock.after(600, lambda: shelf.do(taskops.TaskDone, task="t1", result="theirs.md"))
    script = Script()
    assert works(shelf, script, clock).completed == 1
    assert script.started == ["t2"]
    assert shelf.task("t1").result_ref == "theirs.md"


@pytest.mark.req("C-12")
@pytest.mark.parametrize("skew", [0, 900])
def test_a_claim_of_another_is_taken_over_once_its_time_and_the_skew_have_passed(skew):
    shelf, clock = Shelf({"t1": ()}), Clock(step=20)
    shelf.do(taskops.TaskClaim, task="t1", until="2026-09-06T11:00:00Z", **OTHER)
    assert works(shelf, clock=clock, skew_s=skew).completed == 1
    taken = next(op for op in shelf.ops if op.TAG == "task claim" and op.by == "ann")
    assert taken.at >= ("2026-09-06T11:15:00Z" if skew else "2026-09-06T11:00:00Z")
    assert shelf.task("t1").interruptions == 1


def test_a_claim_that_no_time_ends_is_not_waited_for_past_its_time():
    """A task that a process serves: only the process's own end frees it."""
    shelf = Shelf({"t1": ()})
    shelf.do(taskops.TaskClaim, task="t1", until="2026-09-06T10:05:00Z", **OTHER)
    path = next(path for path in shelf.documents if path.startswith("flows/"))
    flow = shelf.documents[path]
    served = flow.children[0].replace(process="p-1")
    shelf.documents[path] = flow.replace(children=(served,))
    report = works(shelf, clock=Clock(step=20), workers=Dead("other.87654321"))
    assert "served by the process p-1" in report.blocked[0]


def test_a_flow_that_begins_to_wait_lets_live_jobs_settle_and_starts_no_more():
    shelf = Shelf({"t1": (), "t2": ()})

    def wait(_job):
        shelf.do(ops.Wait, reason="budget", until="money", on="human", by="ann")

    script = Script(t1=[wait])
    report = works(shelf, script)
    assert (script.started, report.completed) == (["t1"], 1)
    assert report.blocked == ["t2: f-1 is waiting"]


def test_a_flow_that_begins_to_wait_under_a_claim_is_left_alone():
    shelf = Shelf({"t1": ()})
    wait = {"reason": "budget", "until": "money", "on": "human", "by": "ann"}
    shelf.before["task claim"] = [lambda: shelf.do(ops.Wait, **wait)]
    script = Script()
    assert works(shelf, script).blocked == ["t1: f-1 is waiting"]
    assert script.started == []


# ── claims that are lost ────────────────────────────────────────────────────────────────────────


def steal(shelf, *, finish: bool):
    """Return an act: the claim of a running task is ended, and another takes it."""

    def act(job):
        held = {"task": job.task.id, "attempt": job.attempt}
        shelf.do(taskops.TaskExpire, **held, proof="lock")
        shelf.do(taskops.TaskClaim, task=job.task.id, until="2026-09-06T10:10:00Z", **OTHER)
        if finish:
            shelf.do(taskops.TaskDone, task=job.task.id, result="theirs.md")

    return act


@pytest.mark.req("L3", "X-01")
@pytest.mark.parametrize("finish", [True, False])
def test_a_result_whose_claim_was_lost_is_kept_as_a_note_and_the_work_goes_on(finish):
    shelf = Shelf({"t1": (), "t2": ()})
    report = works(shelf, Script(t1=[steal(shelf, finish=finish)]), wait=False)
    assert report.completed == 1
    (note,) = shelf.flow().notes
    assert note.text == "A result for t1 came after its claim was lost: out/t1.md"
    assert shelf.task("t2").status == "done"
    if finish:
        assert shelf.task("t1").result_ref == "theirs.md"
    else:
        assert shelf.task("t1").claim.worker == "other.87654321"


@pytest.mark.req("L3")
def test_a_failure_whose_claim_was_lost_is_nobodys():
    shelf = Shelf({"t1": ()})
    act = steal(shelf, finish=True)
    works(shelf, Script(t1=[lambda job: act(job) or FAILED]))
    assert (shelf.task("t1").failures, shelf.flow().notes) == (0, ())


def test_a_task_that_a_new_plan_left_out_is_a_lost_claim():
    shelf = Shelf({"t1": ()})
    plan = Plan(schema_version=1, flow="f-1", tasks=(Step(id="new", goal="g"),))

    def replan(_job):
        shelf.do(
            taskops.Plan,
            document=plan,
            replace_plan=True,
            reason="another goal",
            cancel_children=True,
            by="ann",
        )

    script = Script(t1=[replan])
    assert works(shelf, script).completed == 1
    assert script.started == ["t1", "new"]
    assert "out/t1.md" in shelf.flow().notes[0].text


def test_a_flow_that_ends_meanwhile_ends_the_work():
    shelf = Shelf({"t1": (), "t2": ()})

    def end(_job):
        shelf.do(ops.Done, result="all.md", cancel_children=True, by="ann")

    report = works(shelf, Script(t1=[end]))
    assert (report.completed, report.flow.status) == (0, "done")
    assert shelf.task("t1").outcome == "cancelled"


@pytest.mark.req("X-03")
@pytest.mark.parametrize("lease", [900, 0])
def test_a_claim_is_renewed_at_half_its_time_while_its_job_runs(lease):
    """By the clock on the wall; a lease of no time at all is renewed by the other one."""
    shelf, clock = Shelf({"t1": (), "t2": ()}), Clock()
    renewed = threading.Semaphore(0)

    def long(_job):
        for _ in range(2):
            clock.seconds += 450
            shelf.before["task renew"] = [renewed.release]
            assert renewed.acquire(timeout=30)

    works(shelf, Script(t1=[long]), clock, lease_s=lease)
    told = [op for op in shelf.ops if op.TAG == "task renew"]
    assert {(op.task, op.attempt) for op in told} == {("t1", 2)}
    if lease:
        assert [op.until for op in told] == ["2026-09-06T10:22:30Z", "2026-09-06T10:30:00Z"]
    assert shelf.statuses() == {"t1": "done", "t2": "done"}


@pytest.mark.req("X-40")
def test_a_worker_that_slept_past_its_lease_does_not_take_its_own_task_again():
    """With room for a second job, and every claim of its own over."""
    shelf, clock, script = Shelf({"t1": (), "t2": ()}), Clock(), Script()
    begun = threading.Event()

    def sleep(_job):
        clock.seconds += 100_000
        until(begun)

    script.acts = {"t1": [sleep], "t2": [lambda _job: begun.set()]}
    assert works(shelf, script, clock, jobs=3).completed == 2
    assert sorted(script.started) == ["t1", "t2"]
    assert shelf.task("t1").interruptions == 0


def test_a_renewal_of_a_lost_claim_does_not_stop_the_job():
    shelf, clock = Shelf({"t1": ()}), Clock()
    tried = threading.Event()
    lost = steal(shelf, finish=True)

    def long(job):
        lost(job)
        shelf.before["task renew"] = [tried.set]
        clock.seconds += 450
        until(tried)

    works(shelf, Script(t1=[long]), clock)
    assert "came after its claim was lost" in shelf.flow().notes[0].text


# ── dead workers ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C-12", "R-TS-11")
def test_the_claims_of_dead_workers_end_at_once():
    shelf = Shelf({"t1": (), "t2": (), "t3": ("t2",)})
    for name in ("t1", "t2"):
        shelf.do(taskops.TaskClaim, task=name, until="2027-01-01T00:00:00Z", **OTHER)
    dead = Dead("other.87654321", "ann.12345678")
    assert works(shelf, workers=dead).completed == 3
    assert shelf.tags("task expire") == ["task expire t1", "task expire t2"]
    assert "other.87654321" in dead.forgotten


@pytest.mark.req("C-12")
def test_a_holder_that_dies_while_it_is_waited_for_is_noticed():
    shelf, clock, dead = Shelf({"t1": ()}), Clock(step=1), Dead()
    shelf.do(taskops.TaskClaim, task="t1", until="2026-09-07T10:00:00Z", **OTHER)
    clock.after(60, lambda: dead.names.add("other.87654321"))
    assert works(shelf, clock=clock, workers=dead).completed == 1
    assert clock.seconds < seconds("2026-09-06T11:00:00Z")


@pytest.mark.req("C-04", "R-TS-16")
def test_a_task_on_hold_whose_worker_died_waits_for_a_person():
    shelf, script = Shelf({"t1": (), "t2": ()}, t1={"on_interrupt": "hold"}), Script()
    shelf.do(taskops.TaskClaim, task="t1", until="2027-01-01T00:00:00Z", **OTHER)
    report = works(shelf, script, workers=Dead("other.87654321"))
    assert (script.started, report.completed) == (["t2"], 1)
    assert "nobody knows how far it came" in report.blocked[0]


def test_the_dead_that_left_nothing_in_the_flow_are_forgotten():
    shelf, dead = Shelf({"t1": ()}), Dead("idle.00000000", "other.87654321")
    shelf.do(taskops.TaskClaim, task="t1", until="2027-01-01T00:00:00Z", **OTHER)
    works(shelf, workers=dead)
    assert {*dead.forgotten} == {"idle.00000000", "other.87654321"}


def test_two_who_see_a_death_at_once_expire_it_once():
    shelf = Shelf({"t1": ()})
    shelf.do(taskops.TaskClaim, task="t1", until="2027-01-01T00:00:00Z", **OTHER)
    expire = {"task": "t1", "attempt": 2, "proof": "lock"}
    shelf.before["task expire"] = [lambda: shelf.do(taskops.TaskExpire, **expire)]
    assert works(shelf, workers=Dead("other.87654321")).completed == 1
    assert shelf.task("t1").interruptions == 1


# ── trouble, and being stopped ──────────────────────────────────────────────────────────────────


def test_an_error_of_the_executor_is_raised_and_all_claims_are_given_back():
    shelf = Shelf({"t1": (), "t2": (), "t3": ()})
    both = threading.Barrier(2)
    script = Script()

    def slow(_job):
        both.wait(30)
        until(script.stopped)
        return FAILED  # killed by us: no failure of the task

    def broken(_job):
        both.wait(30)
        return RuntimeError("a bug")

    script.acts = {"t1": [slow], "t2": [broken]}
    with pytest.raises(RuntimeError, match="a bug"):
        works(shelf, script, jobs=2)
    assert shelf.statuses() == dict.fromkeys(("t1", "t2", "t3"), "pending")
    assert [task.claim for task in shelf.flow().children] == [None] * 3
    assert [task.failures for task in shelf.flow().children] == [0] * 3


def interrupt(_flow, running):
    """Stop a worker as soon as something runs."""
    if running:
        raise KeyboardInterrupt


@pytest.mark.req("R-TS-11")
def test_a_worker_that_is_stopped_gives_its_claims_back():
    shelf, script = Shelf({"t1": (), "t2": ()}), Script()
    script.acts = {name: [lambda _job: until(script.stopped) or FAILED] for name in ("t1", "t2")}
    with pytest.raises(KeyboardInterrupt):
        works(shelf, script, progress=interrupt, jobs=2)
    assert shelf.tags("task release", "task fail") == ["task release t1", "task release t2"]
    assert {task.interruptions for task in shelf.flow().children} == {0}


@pytest.mark.req("C-04", "R-TF-35")
def test_a_task_on_hold_that_was_stopped_waits_for_a_person():
    """It was killed while it ran: nobody knows how far it came, and it must not run again."""
    shelf, script = Shelf({"t1": ()}, t1={"on_interrupt": "hold"}), Script()
    script.acts = {"t1": [lambda _job: until(script.stopped) or FAILED]}
    with pytest.raises(KeyboardInterrupt):
        works(shelf, script, progress=interrupt)
    task = shelf.task("t1")
    assert (task.status, task.claim, task.waiting.on) == ("waiting", None, "human")
    again = Script()
    assert works(shelf, again).completed == 0
    assert again.started == []


@pytest.mark.req("R-TS-16")
def test_what_has_ended_is_settled_before_a_worker_leaves():
    """Two jobs have ended; the first is being settled when the worker is stopped."""
    shelf = Shelf({"t1": (), "t2": ()})
    shelf.before["task done"] = [KeyboardInterrupt()]
    ended = threading.Barrier(2)
    script = Script(**{name: [lambda _job: ended.wait(30) and None] for name in ("t1", "t2")})
    with pytest.raises(KeyboardInterrupt):
        works(shelf, script, jobs=2)
    done = [op.task for op in shelf.ops if op.TAG == "task done"]
    # The second may have been still on its way to the queue; nothing is settled twice.
    assert sorted({*done, *(op.task for op in shelf.ops if op.TAG == "task release")}) == [
        "t1",
        "t2",
    ]
    assert len(done) == len({*done}) >= 1
    assert all(task.claim is None for task in shelf.flow().children)


def test_what_cannot_be_given_back_is_left_to_be_expired():
    shelf = Shelf({"t1": ()})
    shelf.before["task release"] = [Unavailable("the lock is held")]
    run = Worker(settings(), shelf, Script(), Clock(), None, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert set(run.running) == ({"t1"} if shelf.task("t1").claim else set())
    assert shelf.task("t1").status == "done" or run.running


def test_a_result_waits_for_a_store_that_is_out_of_reach():
    shelf = Shelf({"t1": ()})
    shelf.before["task done"] = [Unavailable("the lock is held"), Unavailable("still")]
    told = []
    assert works(shelf, warn=told.append).completed == 1
    assert told == ["the result of t1 waits: the lock is held"]


def test_a_result_that_is_not_recorded_when_the_worker_is_stopped_is_named():
    shelf = Shelf({"t1": ()})
    told = []

    def stop(text):
        told.append(text)
        if len(told) == 1:
            raise KeyboardInterrupt

    shelf.before["task done"] = [Unavailable("gone")] * 3
    with pytest.raises(KeyboardInterrupt):
        works(shelf, warn=stop)
    assert told == [
        "the result of t1 waits: gone",
        "the result of t1 is not recorded: gone; the task will run again",
    ]
    assert shelf.task("t1").status == "pending"


@pytest.mark.parametrize("arrived", [False, True])
def test_a_result_whose_fate_is_unknown_is_recorded_once(arrived):
    """As where a remote took it and its answer was lost."""
    shelf = Shelf({"t1": ()})
    original = shelf.commit
    lost = []

    def commit(op):
        if op.TAG == "task done" and not lost:
            lost.append(original(op) if arrived else op)
            raise Unknown("no answer")
        return original(op)

    shelf.commit = commit
    assert works(shelf).completed == 1
    assert lost
    assert shelf.task("t1").status == "done"
    assert shelf.flow().revision == 3  # made, claimed, settled


def test_a_result_does_not_wait_longer_than_a_lease():
    shelf = Shelf({"t1": ()})
    shelf.before["task done"] = [Unavailable("gone")] * 1000
    with pytest.raises(Unavailable):
        works(shelf, lease_s=0)


def test_a_claim_that_cannot_be_made_ends_a_worker_that_does_nothing_else():
    shelf = Shelf({"t1": ()})
    shelf.before["task claim"] = [Unavailable("the lock is held")]
    with pytest.raises(Unavailable):
        works(shelf)


def test_a_claim_that_cannot_be_made_does_not_end_what_runs():
    shelf, script = Shelf({"t1": (), "t2": ()}), Script()
    refused = threading.Event()

    def refuse():
        refused.set()
        raise Unavailable("the lock is held")

    # The first claim passes; while t1 runs the second is refused, and later made.
    shelf.before["task claim"] = [
        lambda: shelf.before.update({"task claim": [], "later": [refuse]})
    ]
    script.acts = {"t1": [lambda _job: until(refused)]}
    original = shelf.commit

    def commit(op):
        if op.TAG == "task claim" and shelf.before.get("later"):
            shelf.before.pop("later")[0]()
        return original(op)

    shelf.commit = commit
    assert works(shelf, script, jobs=2).completed == 2


def test_a_refusal_that_no_state_of_the_flow_explains_is_raised():
    shelf = Shelf({"t1": ()})
    shelf.before["task claim"] = [Rejected("the head was written under rule set 9")]
    with pytest.raises(Rejected, match="rule set 9"):
        works(shelf)


def test_a_lost_race_for_the_last_task_is_no_error():
    shelf = Shelf({"t1": ()})
    claim = {"task": "t1", "until": "2026-09-06T10:01:00Z", **OTHER}
    shelf.before["task claim"] = [lambda: shelf.do(taskops.TaskClaim, **claim)]
    report = works(shelf, wait=False)
    assert report.completed == 0
    assert "claimed by other.87654321" in report.blocked[0]


def test_a_worker_that_is_told_of_the_flow_reads_it_once_less():
    shelf = Shelf({"t1": ()})
    flow = shelf.flow()
    shelf.loads = 0
    Worker(settings(), shelf, Script(), Clock()).run(flow)
    assert shelf.loads == 0


def test_a_stale_holder_is_what_fencing_is_for():
    """Even an actor of the same name is refused with an old attempt."""
    shelf = Shelf({"t1": ()})
    first = shelf.do(
        taskops.TaskClaim, task="t1", until="2026-09-06T10:00:00Z", worker="a.1", by="ann"
    )
    works(shelf, clock=Clock(step=1))
    with pytest.raises(Stale):
        shelf.do(taskops.TaskDone, task="t1", attempt=first.revision, result="late.md", by="ann")
