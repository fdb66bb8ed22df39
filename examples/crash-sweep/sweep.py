"""The crash sweep: what a kill -9 costs, with the plan on disk, in memory, and saved only once.

Run it with no argument; it prints a table. Each cell is two real processes: one that is killed
after k completed executions, while the next task runs, and one that goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from gitflowstate import founding, ops, taskops
from gitflowstate.adapters.memory import MemoryStore
from gitflowstate.cli import config
from gitflowstate.errors import NotFound
from gitflowstate.git import Repository
from gitflowstate.model import Flow, Plan, Step
from gitflowstate.ports import Committed, FlowStore, Job, Result
from gitflowstate.settlement import Settings
from gitflowstate.store import Store
from gitflowstate.worker import Worker
from gitflowstate.workers import WorkerLock, Workers

FLOW = "lesson"
EDGES = {"t1": (), "t2": ("t1",), "t3": ("t1",), "t4": ("t2", "t3"), "t5": ("t4",)}
STORES = ("disk", "memory", "plan-once")
NEVER = -1
SETTLING = (taskops.TaskDone, taskops.TaskFail, taskops.TaskWait)


class Log:
    """Facts on disk that outlive the process: one word a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *words: str) -> None:
        """Append a line before anything else happens."""
        with self.path.open("a", encoding="ascii") as file:
            file.write(" ".join(words) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> list[list[str]]:
        """Return every line as words."""
        return [line.split() for line in self.path.read_text(encoding="ascii").splitlines()]


class Counted:
    """Any store, with its loads and saves in the log; where `dies_before` counts, it is killed."""

    def __init__(self, inner: FlowStore, log: Log, dies_before: int) -> None:
        self.inner = inner
        self.log = log
        self.dies_before = dies_before

    def flow(self, flow: str) -> Flow:
        """Load a flow."""
        self.log.add("load")
        return self.inner.flow(flow)

    def commit(self, op: ops.FlowOp) -> Committed:
        """Commit an op; a save is a plan or a settled task, a claim is no progress."""
        if isinstance(op, SETTLING):
            self.dies_before -= 1
            if self.dies_before == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        outcome = self.inner.commit(op)
        if isinstance(op, (ops.Create, *SETTLING)):
            self.log.add("save")
        return outcome

    def version(self) -> str | None:
        """Return what changes when anything does."""
        return self.inner.version()


class PlanOnce:
    """Saves the plan on disk, and no completion after it."""

    def __init__(self, disk: Store) -> None:
        self.disk = disk
        self.memory = MemoryStore()
        for flow in disk.flows():
            assert isinstance(flow, Flow)
            taken = ops.Import(at=flow.updated_at, by="sweep", flow=flow.id, document=flow)
            self.memory.commit(taken)

    def flow(self, flow: str) -> Flow:
        """Load a flow."""
        return self.memory.flow(flow)

    def commit(self, op: ops.FlowOp) -> Committed:
        """Commit a plan on disk, and all in memory."""
        if isinstance(op, ops.Create):
            self.disk.commit(op)
        return self.memory.commit(op)

    def version(self) -> str | None:
        """Return what changes when anything does."""
        return self.memory.version()


class Executor:
    """Runs a task by saying so; the process is killed while the task after `survives` runs."""

    def __init__(self, log: Log, survives: int) -> None:
        self.log = log
        self.survives = survives

    def run(self, job: Job) -> Result:
        """Execute a task."""
        self.log.add("start", job.task.id)
        if self.survives == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.survives -= 1
        self.log.add("end", job.task.id)
        return Result(ok=True, text=f"out/{job.task.id}.md")

    def stop(self) -> None:
        """Do nothing: no task outlives this process."""


class Clock:
    """The real time."""

    def now(self) -> str:
        """Return the time in UTC."""
        return config.now()

    def later(self, seconds: int) -> str:
        """Return the time so many seconds from now."""
        return config.later(seconds)


def decompose(log: Log) -> Plan:
    """Derive the plan from the goal: what a model would be paid for."""
    log.add("decompose")
    steps = tuple(Step(id=name, goal=f"Do {name}", deps=deps) for name, deps in EDGES.items())
    return Plan(schema_version=1, flow=FLOW, tasks=steps)


def work(kind: str, folder: Path, survives: int, dies_before: int) -> None:
    """Load first; plan only if nothing is stored; then work until all is done."""
    log = Log(folder / "log")
    repo = Repository.open(founding.init(folder / "flows").location.gitdir, writing=True)
    disk = Store(repo)
    store = Counted(_store(kind, disk), log, dies_before)
    flow: Flow | None = None
    try:
        flow = store.flow(FLOW)
    except NotFound:
        create = ops.Create(
            at=config.now(),
            by="sweep",
            flow=FLOW,
            goal="The lesson",
            owner="sweep",
            next="Work",
            plan=decompose(log),
        )
        flow = store.commit(create).flow
    settings = Settings(flow=FLOW, by="sweep", worker=config.mint_worker("sweep"), wait=False)
    with WorkerLock(repo.gitdir, settings.worker, FLOW):
        executor = Executor(log, survives)
        Worker(settings, store, executor, Clock(), Workers(repo.gitdir)).run(flow)
    repo.close()


def _store(kind: str, disk: Store) -> FlowStore:
    if kind == "disk":
        return disk
    return MemoryStore() if kind == "memory" else PlanOnce(disk)


class Cell:
    """What the log of one crash and one restart says."""

    def __init__(self, log: Log) -> None:
        lines = log.lines()
        self.counts = Counter(words[0] for words in lines)
        self.completed = self.counts["end"]
        self.aborted = self.counts["start"] - self.counts["end"]
        runs = [words for words in lines if words[0] in ("start", "end")]
        following = [*runs[1:], ["none"]]
        self.order = [
            one[1] + ("" if other[0] == "end" else "!")
            for one, other in zip(runs, following, strict=True)
            if one[0] == "start"
        ]

    def __str__(self) -> str:
        """Return completed + aborted."""
        return f"{self.completed} + {self.aborted}"


def cell(kind: str, survives: int = NEVER, dies_before: int = NEVER) -> Cell:
    """Run one process that is killed, if it is to be, and one that goes on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dies = survives != NEVER or dies_before != NEVER
        code = _child(kind, folder, survives, dies_before)
        assert code == (-signal.SIGKILL if dies else 0), code
        if dies:
            assert _child(kind, folder, NEVER, NEVER) == 0
        return Cell(Log(folder / "log"))


def _child(kind: str, folder: Path, survives: int, dies_before: int) -> int:
    command = [sys.executable, __file__, kind, str(folder), str(survives), str(dies_before)]
    return subprocess.run(command, check=False).returncode


def table() -> list[list[str]]:
    """Return the rows: crash after, each store, what was in flight."""
    rows = [["none", *(str(cell(kind)) for kind in STORES), "-"]]
    for k in range(5):
        cells = [cell(kind, survives=k) for kind in STORES]
        flight = next(name for name in cells[0].order if name.endswith("!"))
        rows.append([str(k), *(str(c) for c in cells), flight.rstrip("!")])
    saves = ((k, cell("disk", dies_before=k)) for k in range(1, 6))
    return rows + [[f"save {k}", str(found), "", "", f"t{k}"] for k, found in saves]


def main() -> None:
    """Print the table, or be one of the processes in it."""
    if len(sys.argv) > 1:
        kind, folder, survives, dies_before = sys.argv[1:]
        work(kind, Path(folder), int(survives), int(dies_before))
        return
    heads = ["crash after", "disk", "memory", "plan saved once", "in flight"]
    print("completed + aborted executions, over a crash and one restart")
    for row in [heads, *table()]:
        print("  ".join(text.ljust(16) for text in row).rstrip())
    smooth = cell("disk").counts
    print(
        f"smooth, disk: {smooth['save']} saves, {smooth['load']} load, {smooth['decompose']} plan"
    )


if __name__ == "__main__":
    main()
