"""One actor of a history: it runs commands, each in a process of its own, and notes the answers.

Rule: an answer is noted only after its process ended with 0, in a file that this actor alone
appends to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clirun
import time_machine
from gitrepo import child, intercepted

# What a refusal may be: by the rules, overtaken, not there, nothing ready, locked.
FORESEEN = {0, 3, 4, 5, 8, 75}
_SLOWEST_S = 0.06  # most commands take less


def _dying(number, moves):
    """Return what dies before call `number` of the operating system, counted after so many moves.

    A ref that has moved is where an answer is lost although the change is there.
    """
    left = [number, moves]

    def act(_, name, real, arguments):
        if left[1] == 0:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
        answer = real(*arguments)
        if left[1] and name == "rename" and "/refs/" in str(arguments[-1]):
            left[1] -= 1
        return answer

    return act


class Actor:
    """One process that acts until its time is over."""

    def __init__(self, name: str, folder: Path, seed: int, until: float) -> None:
        self.name = name
        self.folder = folder
        self.cli = clirun.Cli(folder / "flows")
        self.rng = random.Random(f"{seed}-{name}")
        self.until = until
        self.codes: Counter[str] = Counter()
        self.ahead_s = 0  # of the real time
        self._answer = folder / f"{name}.answer"
        self._number = 0

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def unique(self, word: str) -> str:
        """Return a text that nobody else uses."""
        self._number += 1
        return f"{word}-{self.name}-{self._number}"

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def run(self, *words: str, kill: float = 0.08, stdin: bytes = b"") -> dict | None:
        """Run a command, perhaps to be killed; return its data if it succeeded."""
        words = (*words, "--as", self.name.split("-")[0]) if words[0] != "backup" else words
        begun = time.monotonic()
        code = self._process(words, stdin, kill)
        ended = time.monotonic()
        if code == -9:
            self.codes["killed"] += 1
            return None
        assert code == 0, (words, code)
        result = clirun.Result(*json.loads(self._answer.read_text()))
        self.codes[str(result.code)] += 1
        told = {"by": self.name, "words": words, "begun": begun, "ended": ended}
        if result.code not in FORESEEN:
            self._note("wrong", told | {"code": result.code, "said": result.err + result.out})
        if result.code:
            return None
        data = result.data
        self._note("told", told | {"data": data})
        return data

    def again(self, *words: str, **how) -> dict | None:
        """Run a command under a key until it is answered; the repeat must be harmless."""
        words, how = (*words, "--key", self.unique("k")), {"kill": 0.25} | how
        for _ in range(6):
            before = sum(self.codes[code] for code in ("killed", "75"))
            data = self.run(*words, **how)
            if data or sum(self.codes[code] for code in ("killed", "75")) == before:
                return data
        return None

    def _process(self, words, stdin, kill) -> int:
        self._answer.unlink(missing_ok=True)
        death = self.rng.choice(["timer", "call", "moved", "moved"]) if self.chance(kill) else None
        number = self.rng.randrange(12 if death == "moved" else 80)
        moves = self.rng.choice([1, 2, 3]) if words[0] == "watch" else 1
        fate = (number, moves if death == "moved" else 0) if death != "timer" else None
        pid = child(lambda: self._work(words, stdin, fate if death else None))
        if death == "timer":
            time.sleep(self.rng.random() * _SLOWEST_S)
            os.kill(pid, signal.SIGKILL)
        elif self.chance(0.03):
            time.sleep(self.rng.random() * _SLOWEST_S)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.random() / 4)
            os.kill(pid, signal.SIGCONT)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _work(self, words, stdin, fate) -> None:
        argv = clirun.as_json(words)
        env = {"GFS_REPO": str(self.cli.folder)}
        with ExitStack() as stack:
            if self.ahead_s:
                now = datetime.now(UTC) + timedelta(seconds=self.ahead_s)
                stack.enter_context(time_machine.travel(now, tick=True))
            if fate is not None:
                stack.enter_context(intercepted(_dying(*fate)))
            result = clirun.here(*argv, env=env, stdin=stdin)
        self._answer.write_text(json.dumps(result))

    def _note(self, kind: str, fact: dict) -> None:
        line = json.dumps(fact).encode() + b"\n"
        path = self.folder / f"{self.name}.{kind}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(descriptor, line)
        os.close(descriptor)

    def leave(self) -> None:
        """Note how many commands ended how."""
        self._note("codes", dict(self.codes))

    # ── what there is ───────────────────────────────────────────────────────────────────────────

    def flow(self, folder: str = "flows") -> str | None:
        """Return any flow, live or archived, as the plain files show it."""
        while True:
            try:
                names = sorted(path.stem for path in (self.cli.folder / folder).glob("*/*.json"))
            except FileNotFoundError:  # a folder went while it was listed
                continue
            return self.rng.choice(names) if names else None
