"""The README, told by the built wheel: `python tests/story`.

A wheel of this checkout is installed into a fresh environment, and every command of the README runs
there, from the first `gfs init` over a killed worker to the comment on a fake GitHub; what it
prints must be what the README shows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import test_docs  # noqa: E402  the path is complete only now


def installed(folder: Path) -> Path:
    """Return the folder of scripts of a new environment, into which a new wheel was installed."""
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    pip = [binaries / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheel"
    subprocess.run([*pip, "wheel", "--no-deps", "-w", wheels, test_docs.ROOT], check=True)
    subprocess.run([*pip, "install", *wheels.glob("*.whl")], check=True)
    return binaries


def main() -> int:
    """Run the story; return 1 where the README does not say what happened."""
    with tempfile.TemporaryDirectory(prefix="gfs-story-") as name:
        folder = Path(name)
        binaries = installed(folder)
        place = folder / "told"
        place.mkdir()
        problems = test_docs.problems_of(test_docs.ROOT / "README.md", place, binaries)
    print("\n\n".join(problems) or "the README says what the wheel does")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
