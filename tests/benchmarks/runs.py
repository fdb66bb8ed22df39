"""Managed processes: one that does nothing, one that writes a gigabyte, and one among many.

Run by the interpreter under test: `python runs.py FOLDER`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

from table import Row, interleaved, rounds, send, wall
from workbench import AT, BY, Desk, founded

from gitflowstate import codec, processes
from gitflowstate.cli.launch import Launch
from gitflowstate.cli.session import Session
from gitflowstate.definitions import MAIN
from gitflowstate.git import Repository
from gitflowstate.processes import Wanted
from gitflowstate.processmodel import Process, process_id, process_path
from gitflowstate.store import Store

GIGABYTE = 10**9
FEW, MANY, SESSIONS = 10, 10_000, 100
_MIB = 1 << 20
_WRITES = ["head", "-c", str(GIGABYTE), "/dev/zero"]


class Runner:
    """Runs commands under a supervisor, as `gfs run` does; `peaks` are their supervisors' MiB."""

    def __init__(self, folder: Path) -> None:
        self.desk = founded(folder, view=False)
        self.desk.create("f-1")
        self.desk.make_folders()
        self.session = Session(verb="run", repo=str(folder), as_=BY)
        self.peaks: list[float] = []

    def run(self, argv: list[str]) -> None:
        """Run a command to its end, which is recorded; its output is captured alone."""
        launch = Launch(self.session, Wanted("bench", argv, "/"), passing=False)
        begun = launch.begin()
        assert begun.supervised is not None
        supervised = begun.supervised
        told = supervised.end(lambda _: True, lambda _: True)
        assert told is not None
        status = Path(f"/proc/{supervised.pid}/status")
        if status.exists():
            self.peaks.append(int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024)
        supervised.close()
        os.waitpid(supervised.pid, 0)

    def true(self) -> None:
        """Run `true` to its end, all three facts recorded by its client."""
        launch = Launch(self.session, Wanted("bench", ["true"], "/"), passing=True)
        begun = launch.begin()
        assert begun.supervised is not None
        assert launch.end(begun).state == "completed"
        begun.supervised.close()

    def bare(self) -> None:
        """Do what a run consists of: three durable updates, an interpreter, and `true`."""
        for _ in range(3):
            self.desk.update()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        subprocess.run(["true"], check=True)


def _reap() -> None:
    """Take note of the supervisors that have ended, so that they are no part of what follows."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def running(folder: Path) -> list[Row]:
    """Return the row of a process that does nothing."""
    runner = Runner(folder / "runs")
    cases = {"run": lambda: wall(runner.true), "bare": lambda: wall(runner.bare)}
    found = interleaved(cases, rounds(100), lambda _: _reap())
    against = "3 updates, python -c pass, true"
    return [Row("gfs run -- true", against, 1.3, found["run"], found["bare"])]


def writing(folder: Path) -> list[Row]:
    """Return the rows of a process that writes a gigabyte."""
    runner = Runner(folder / "writes")
    piped = " ".join(_WRITES) + " | cat > /dev/null"
    cases = {
        "run": lambda: wall(lambda: runner.run(_WRITES)),
        "cat": lambda: wall(lambda: subprocess.run(["sh", "-c", piped], check=True)),
    }
    found = interleaved(cases, rounds(5))
    return [
        Row("1 GB of output captured", "head | cat > /dev/null", 2.0, found["run"], found["cat"]),
        Row("its supervisor, peak memory", "", 60.0, runner.peaks, [], "MiB"),
    ]


def looking(folder: Path) -> list[Row]:
    """Return the row of a call that was made before, looked up by a process that has just begun."""
    few, many = (_with_processes(folder / str(n), n) for n in (FEW, MANY))
    calls = count()

    def look(desk: Desk, number: int) -> None:
        desk.forget()
        call = next(calls) % number
        with Repository.open(desk.repo.gitdir) as repo:
            session = _session(call)
            process = process_id(session, f"c-{call}")
            assert processes.find_by_id(Store(repo), session, process) is not None

    cases = {
        "few": lambda: wall(partial(look, few, FEW)),
        "many": lambda: wall(partial(look, many, MANY)),
    }
    found = interleaved(cases, rounds(200))
    what = f"a call looked up among {MANY:,} processes"
    return [Row(what, f"among {FEW}", 1.5, found["many"], found["few"])]


def _session(number: int) -> str:
    return f"s-{number % SESSIONS}"


def _with_processes(folder: Path, number: int) -> Desk:
    """Return a desk beside so many processes, which one commit brought."""
    desk = founded(folder, view=False)
    desk.create("f-1")
    made = (_process(n) for n in range(number))
    changes = {process_path(p.session_id, p.id): codec.encode(p) for p in made}
    head = desk.store.head()
    staged = desk.repo.stage(head.tree, changes)
    staged = desk.repo.commit_object(staged, [head.oid], b"many processes\n", BY, 1_800_000_000)
    desk.repo.publish(MAIN, head.oid, staged, "many processes")
    desk.update()
    return desk


def _process(number: int) -> Process:
    session, call = _session(number), f"c-{number}"
    return Process(
        schema_version=1,
        id=process_id(session, call),
        state="completed",
        session_id=session,
        call_id=call,
        argv=("make",),
        cwd="/src",
        host="bench",
        boot_id="bench",
        created_at=AT,
        finished_at=AT,
        exit_code=0,
    )


if __name__ == "__main__":
    where = Path(sys.argv[1])
    send(running(where) + writing(where) + looking(where))
