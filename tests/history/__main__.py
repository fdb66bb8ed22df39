"""A random history, judged: `python tests/history --seconds 60 --seed 7`.

Agents, claimers, watchers, readers and upkeep work on one repository at once, each command in a
process of its own, and some are killed or stopped on the way. What they were told is kept, and
compared with what the repository says afterwards. The seed chooses what is done, not what runs
first.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


def main() -> int:
    """Run one history; return 1 where it breaks a promise, and keep its folder then."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long they work")
    parser.add_argument("--seed", type=int, default=None, help="the same choices again")
    parser.add_argument("--folder", type=Path, default=None, help="a new folder to keep")
    asked = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if asked.seed is None else asked.seed
    print(f"seed {seed}, {asked.seconds:g} s", flush=True)
    # In memory, where there is such a place: no disk is waited for, so that more happens.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="gfs-history-", dir=place))
    folder.mkdir(exist_ok=True)

    from conftest import sealed  # the path is complete only now

    os.environ.clear()
    os.environ.update(sealed(folder / "home"))

    import judge
    from drive import History

    history = History(folder, seed, asked.seconds)
    history.run()
    problems = judge.problems(history)
    for line in history.summary():
        print(line)
    for problem in problems[:50]:
        print(f"BROKEN: {problem}")
    if problems:
        print(f"{len(problems)} problems; seed {seed}; kept in {folder}")
        return 1
    if asked.folder is None:
        import shutil

        shutil.rmtree(folder)
    print("no promise was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
