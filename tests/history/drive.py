"""One history: a fresh repository, the actors that work on it at once, and what they were told."""

from __future__ import annotations

import importlib
import json
import pkgutil
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import clirun
import time_machine
from acting import Actor
from flowrepo import Change, imported
from gitrepo import child, code_of
from roles import HOLD_S, ROLES, TASKS

import gitflowstate

SETTINGS = b'[channels.file]\nkind = "console"\nfile = "board.md"\nmin_interval = 0\n'
_PASSES = 20
PATIENT = {"GFS_LOCK_TIMEOUT": "60"}  # a Git that a killed `gfs gc` began may still be at work


def _warm() -> None:
    """Import all there is, once: each command is a fork of this process."""
    for found in pkgutil.walk_packages(gitflowstate.__path__, "gitflowstate."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


class History:
    """What happens in a folder, for so many seconds."""

    def __init__(self, folder: Path, seed: int, seconds: float) -> None:
        self.folder = folder
        self.seed = seed
        self.seconds = seconds
        self.cli = clirun.made(folder / "flows")
        (folder / "copies").mkdir()
        self.failed: list[str] = []
        self.last: dict = {"owed": [], "held_by": None}

    def run(self) -> None:
        """Let them all work at once; afterwards, let the watcher come to an end."""
        imported(self.cli.gitdir, Change("gfs.toml", SETTINGS), text=b"settings\n")
        plan = json.dumps(TASKS).encode()
        for name in ("f-1", "f-2"):
            self.cli("create", "Goal", "--id", name, "--next", "n", "--plan", "-", stdin=plan)
        self.cli("create", "Goal", "--id", "f-3", "--next", "begin")
        self.cli("watch", "file", "--once")
        _warm()
        until = time.monotonic() + self.seconds
        pids = {name: child(lambda name=name: self._act(name, until)) for name in ROLES}
        codes = {name: code_of(pid) for name, pid in pids.items()}
        self.failed = [f"{name} ended with {code}" for name, code in codes.items() if code]
        self._settle()

    def _act(self, name: str, until: float) -> None:
        actor = Actor(name, self.folder, self.seed, until)
        try:
            ROLES[name](actor)
        except BaseException:
            traceback.print_exc()  # the parent hears of the exit code alone
            raise
        finally:
            actor.leave()

    def _settle(self) -> None:
        """Make passes, each later than the hold of the one before, until nothing is owed."""
        killed = sum(each.get("killed", 0) for each in self._lines("codes"))
        with time_machine.travel(datetime.now(UTC), tick=True) as clock:
            clock.shift(HOLD_S * killed)
            for _ in range(_PASSES):
                clock.shift(HOLD_S)
                done = self.cli.run("watch", "file", "--once", "--json", env=PATIENT)
                said = done.error["details"] if done.code else done.data
                # What a killed pass may have sent is looked for in two passes before it is sent.
                if done.code and not (done.code == 75 and said.get("uncertain")):
                    self.failed.append(f"the last pass of the watcher ended with {done}")
                    return
                self.last = said
                if not self.last["sent"] and not self.last["owed"] and not self.last["held_by"]:
                    return

    # ── what they were told ─────────────────────────────────────────────────────────────────────

    def _lines(self, kind: str) -> list[dict]:
        files = sorted(self.folder.glob(f"*.{kind}"))
        lines = chain.from_iterable(file.read_text().splitlines() for file in files)
        return [json.loads(line) for line in lines]

    def told(self) -> list[dict]:
        """Return every answer, in the order in which they were given."""
        return sorted(self._lines("told"), key=lambda each: each["ended"])

    def wrong(self) -> list[dict]:
        """Return every answer that no command should have given."""
        return self._lines("wrong")

    def summary(self) -> list[str]:
        """Return how much happened."""
        codes: Counter[str] = Counter()
        for each in self._lines("codes"):
            codes.update(each)
        ends = ", ".join(f"{count} x {code}" for code, count in sorted(codes.items()))
        verbs = Counter(" ".join(each["words"][:2] if each["words"][0] == "task" else
                                 each["words"][:1]) for each in self.told())  # fmt: skip
        done = ", ".join(f"{count} {verb}" for verb, count in verbs.most_common())
        return [f"{sum(codes.values())} commands: {ends}", f"acknowledged: {done}"]
