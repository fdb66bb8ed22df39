"""The speed table: `python tests/benchmarks`, which prints medians and ratios and asserts nothing.

GFS_BENCH_PYTHON names an interpreter with an installed copy, instead of a new environment;
GFS_TEST_SCALE multiplies the rounds; words on the command line choose among the parts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import crowd
import installed
import processes
import table

_HERE = Path(__file__).parent
_FROM_HERE = {"processes": processes.rows, "crowd": crowd.rows}  # they start processes themselves
PARTS = ("processes", "crowd", "durable", "audit", "tasks", "watching", "hosts", "runs")


def _part(name: str, python: Path, folder: Path) -> list[table.Row]:
    print(f"{name} ...", file=sys.stderr)
    if name in _FROM_HERE:
        return _FROM_HERE[name](python, folder)
    done = subprocess.run(
        [python, _HERE / f"{name}.py", folder],
        env=installed.environment(folder),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return table.received(done.stdout)


def main() -> None:
    """Measure the chosen parts, all by default, and print the table."""
    chosen = sys.argv[1:] or PARTS
    with tempfile.TemporaryDirectory(prefix="gfs-bench-") as name:
        folder = Path(name)
        python = installed.interpreter(folder)
        rows: list[table.Row] = []
        for part in chosen:
            (folder / part).mkdir()
            rows += _part(part, python, folder / part)
        print(table.shown(rows))


if __name__ == "__main__":
    main()
