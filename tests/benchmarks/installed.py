"""The copy under test: installed, with bytecode, in an environment that is thrown away.

Rule: an editable checkout is never measured: its finder and missing bytecode are no user's costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def interpreter(folder: Path) -> Path:
    """Return the interpreter of GFS_BENCH_PYTHON, or of a new environment below the folder."""
    given = os.environ.get("GFS_BENCH_PYTHON")
    if given:
        return Path(given)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    print("installing a wheel of this checkout and what it needs ...", file=sys.stderr)
    wheels = folder / "wheel"
    _pip(python, "wheel", "--no-deps", "--wheel-dir", wheels, CHECKOUT)
    _pip(python, "install", *wheels.glob("*.whl"))
    return python


def _pip(python: Path, *words: str | Path) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", *quiet, *words], check=True)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which nothing of this machine's user reaches the copy."""
    kept = {name: os.environ[name] for name in ("PATH", "GFS_TEST_SCALE") if name in os.environ}
    return kept | {"HOME": str(home), "LANG": "C.UTF-8"} | more
