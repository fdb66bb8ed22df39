"""Whole processes: CPU and memory of a command, beside a process that only imports libraries.

Rule: this module is imported by the process that spawns, which must stay small: what it has in
memory counts as the child's until that has begun (`getrusage` of a spawned process).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import installed
import table

BASE = "import typer, filelock; from dulwich import objects, object_store"
BASE_NAME = "python: import typer, filelock, dulwich"
TASKS = 2000
_MIB = 1 << 20


class Runner:
    """Runs commands of the copy under test in one repository."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python = str(python)
        self.gfs = str(python.parent / "gfs")
        self.folder = folder
        self.env = installed.environment(folder, GFS_REPO=str(folder / "repo"))
        self.peaks: list[float] = []

    def cpu(self, *argv: str) -> float:
        """Return the milliseconds of CPU, of user and system, that a command took."""
        quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        pid = os.posix_spawn(argv[0], argv, self.env, file_actions=quiet)
        _, status, usage = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"{argv} failed with status {status}")
        size = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        self.peaks.append(size / _MIB)
        return (usage.ru_utime + usage.ru_stime) * 1e3

    def prepare(self, *argv: str, given: bytes = b"") -> None:
        """Run a command that is not measured."""
        subprocess.run(
            [self.gfs, *argv], env=self.env, input=given, check=True, capture_output=True
        )


def rows(python: Path, folder: Path) -> list[table.Row]:
    """Return the rows of whole processes."""
    run = Runner(python, folder)
    run.prepare("init", str(folder / "repo"))
    run.prepare("create", "Compare three options", "--id", "small")
    run.prepare("create", "A large plan", "--id", "large")
    steps = [{"id": f"t{n}", "goal": f"Step {n}", "deps": _deps(n)} for n in range(1, TASKS + 1)]
    run.prepare("plan", "large", "-", given=json.dumps({"tasks": steps}).encode())
    numbers, peaks = itertools.count(), list[float]()

    def update() -> float:
        spent = run.cpu(run.gfs, "update", "small", "--progress", f"Half of it, {next(numbers)}")
        peaks.append(run.peaks[-1])
        return spent

    cases: dict[str, Callable[[], float]] = {
        "base": lambda: run.cpu(run.python, "-c", BASE),
        "update": update,
        "show": lambda: run.cpu(run.gfs, "show", "small"),
        "next": lambda: run.cpu(run.gfs, "next", "large"),
    }
    found = table.interleaved(cases, table.rounds(100))
    base = found["base"]
    return [
        table.Row("gfs update, CPU", BASE_NAME, 1.0, found["update"], base),
        table.Row("gfs show, CPU", BASE_NAME, 0.85, found["show"], base),
        table.Row(f"gfs next, {TASKS} tasks, CPU", BASE_NAME, 2.5, found["next"], base),
        table.Row("gfs update, peak memory", "", 40.0, peaks, [], "MiB"),
    ]


def _deps(number: int) -> list[str]:
    """Return the dependencies of a task: every fourth is ready, three follow it one by one."""
    return [f"t{number - 1}"] if number % 4 != 1 else []
