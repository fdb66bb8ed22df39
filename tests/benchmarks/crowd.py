"""A crowd: many processes at once, one update each, on one flow; how long each of them takes.

It is judged beside the same updates one after another: who waits for a lock loses no more than
the turns of those before. Every update must be there in the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import processes
import table

COUNT = 100
BOUND = 1.5
ALONE = f"{COUNT} one after another"


def rows(python: Path, folder: Path) -> list[table.Row]:
    """Return the rows: median, ninety-fifth percentile and maximum of the time to the answer."""
    run = processes.Runner(python, folder)
    run.env["GFS_LOCK_TIMEOUT"] = "120"
    run.prepare("init", str(folder / "repo"))
    run.prepare("create", "Compare three options", "--id", "small")
    alone = [_told(run, 1)[0] for _ in range(10)]
    found = {"p50": list[float](), "p95": list[float](), "max": list[float]()}
    for _ in range(table.rounds(5)):
        took = sorted(_told(run, COUNT))
        found["p50"].append(took[COUNT // 2])
        found["p95"].append(took[COUNT * 95 // 100])
        found["max"].append(took[-1])
    shown = subprocess.run(
        [run.gfs, "show", "small", "--json"], env=run.env, check=True, capture_output=True
    )
    revision = json.loads(shown.stdout)["data"]["flow"]["revision"]
    assert revision == 1 + len(alone) + COUNT * table.rounds(5), revision
    base = sorted(alone)[len(alone) // 2] * COUNT
    return [
        table.Row(f"{COUNT} gfs note at once, {name}", ALONE, BOUND, took, [base] * len(took))
        for name, took in found.items()
    ]


def _told(run: processes.Runner, count: int) -> list[float]:
    """Start so many processes; return the milliseconds until each had its answer."""
    start = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    words = [run.gfs, "note", "small", "a note"]
    pids = {os.posix_spawn(run.gfs, words, run.env, file_actions=quiet) for _ in range(count)}
    took = []
    while pids:
        pid, status = os.wait()
        assert status == 0, os.waitstatus_to_exitcode(status)
        pids.remove(pid)
        took.append((time.perf_counter() - start) * 1e3)
    return took
