"""One command that is struck at one call of the system-call table: killed, signalled, or refused.

A command runs in a forked child, so that death is death; whoever asks gets what it printed, or
None where it died. `COMMANDS` are the verbs whose every call is struck, `FAULTS` what strikes them.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import time_machine
from clirun import Cli, Result, _is_left, here
from gitrepo import MAIN, child, code_of, fsck, intercepted
from scaling import SCALE

from gitflowstate.git import Repository

CURSOR = "refs/gfs/cursors/team"
LEASE_S = 700  # after so long the hold of a watcher that died is over
PARTS = 6  # of the calls of a verb, each in a repository of its own, which stays small
STRIDE = 16  # the other faults strike every so many calls at scale 1
SAMPLES = 2  # for each fault, in the plain suite
PASSES = 4
FIRST = 10_000
INTERRUPTED = (130, 143)  # by exit code: whoever interrupts does not know
SETTINGS = b'[channels.team]\nkind = "console"\nfile = "told.md"\n'


class Command(NamedTuple):
    """A verb as it is struck for the n-th time: what comes before it, its words, what it moves."""

    words: Callable[[int], tuple[str, ...]]
    before: Callable[[Cli, int], None] = lambda _cli, _number: None
    moves: str | None = MAIN


class Fault(NamedTuple):
    """What happens at a call, and the exit codes of a command that it made stop."""

    codes: Collection[int | None]
    signal: int = 0
    error: int = 0

    def strike(
        self, name: str, real: Callable[..., object], arguments: tuple[object, ...]
    ) -> object:
        """Be the call."""
        if self.signal:
            os.kill(os.getpid(), self.signal)
            return real(*arguments)
        if name == "close":  # a close that fails has closed
            real(*arguments)
        raise OSError(self.error, os.strerror(self.error))


FAULTS = {
    "KILL": Fault({None}, signal=signal.SIGKILL),
    "INT": Fault({130}, signal=signal.SIGINT),
    "TERM": Fault({143}, signal=signal.SIGTERM),
    "EIO": Fault({1}, error=errno.EIO),
    "ENOSPC": Fault({75}, error=errno.ENOSPC),
    "EMFILE": Fault({75}, error=errno.EMFILE),
}


def _task(cli: Cli, number: int) -> None:
    cli("task", "add", "plan", "Do it", "--id", f"t{number}")


def _claimed(cli: Cli, number: int) -> None:
    _task(cli, number)
    cli("task", "claim", "plan", f"t{number}")


def _flow(cli: Cli, number: int) -> None:
    cli("create", f"Goal {number}", "--id", f"f-{number}")


def _ended(cli: Cli, number: int) -> None:
    cli("create", f"Goal {number}", "--id", f"w-{number}")
    cli("done", f"w-{number}", "--result", "r")


def _noted(cli: Cli, number: int) -> None:
    cli("note", "plan", f"loose {number}")


COMMANDS = {
    "update": Command(lambda n: ("update", "plan", "--progress", f"step {n}")),
    "create": Command(lambda n: ("create", f"Goal {n}", "--id", f"f-{n}")),
    "done": Command(lambda n: ("done", f"f-{n}", "--result", f"r{n}"), _flow),
    "claim": Command(lambda n: ("task", "claim", "plan", f"t{n}", "--key", f"k{n}"), _task),
    "task-done": Command(
        lambda n: ("task", "done", "plan", f"t{n}", "--result", f"r{n}"), _claimed
    ),
    "watch": Command(lambda _: ("watch", "team", "--once"), _ended, CURSOR),
    "gc": Command(lambda _: ("gc",), _noted, None),
}


def in_child(cli: Cli, words: tuple[str, ...], act: Callable[..., object]) -> Result | None:
    """Run a command in a child, every call through `act(number, name, real, arguments)`."""
    reading, writing = os.pipe()

    def work() -> None:
        os.close(reading)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with intercepted(act):
            result = here(*words, env={"GFS_REPO": str(cli.folder)})
        os.write(writing, json.dumps(result).encode())

    pid = child(work)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123  a descriptor
        told = pipe.read()
    code = code_of(pid)
    assert code in (0, -signal.SIGKILL), code
    return Result(*json.loads(told)) if told else None


def count(cli: Cli, words: tuple[str, ...]) -> int:
    """Run a command to its end; return how many calls of the table it makes."""
    reading, writing = os.pipe()

    def act(
        number: int, _name: str, real: Callable[..., object], arguments: tuple[object]
    ) -> object:
        os.write(writing, b".")
        return real(*arguments)

    result = in_child(cli, words, act)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123  a descriptor
        calls = len(pipe.read())
    assert result is not None
    assert result.code == 0, result
    return calls


def struck(cli: Cli, words: tuple[str, ...], fault: Fault, at: int) -> Result | None:
    """Run a command whose call number `at` meets a fault; None if it died."""

    def act(
        number: int, name: str, real: Callable[..., object], arguments: tuple[object]
    ) -> object:
        return fault.strike(name, real, arguments) if number == at else real(*arguments)

    return in_child(cli, words, act)


def refs(cli: Cli) -> dict[str, str]:
    """Return every ref and its commit."""
    with Repository.open(cli.gitdir) as repo:
        return repo.refs("refs")


def advanced(cli: Cli, ref: str | None, before: dict[str, str], after: dict[str, str]) -> int:
    """Return by how many commits a ref went on; it never went anywhere else."""
    old, new = (found.get(ref or "") for found in (before, after))
    steps = 0
    with Repository.open(cli.gitdir) as repo:
        while new != old:
            assert new is not None
            new = next(iter(repo.commit(new).parents), None)
            steps += 1
    return steps


def sampled(cli: Cli, verb: str, faults: Sequence[str]) -> None:
    """Strike a verb at some of its calls, for the plain suite."""
    total, chance = begun(cli, COMMANDS[verb])
    struck_at = [(fault, chance.randrange(total)) for fault in faults for _ in range(SAMPLES)]
    struck_all(cli, COMMANDS[verb], struck_at)


def every(cli: Cli, verb: str, fault: str, part: int | None) -> None:
    """Strike a verb at every call of a part; where there is none, at every so many of all."""
    total, chance = begun(cli, COMMANDS[verb])
    start, stride = part, PARTS
    if start is None:
        stride = max(1, round(STRIDE / SCALE))
        start = chance.randrange(stride)
    calls = range(start, total, stride)[:: max(1, round(1 / SCALE))]
    assert struck_all(cli, COMMANDS[verb], ((fault, number) for number in calls))


def begun(cli: Cli, command: Command) -> tuple[int, random.Random]:
    """Return how many calls a command makes, and the chance of this test."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    command.before(cli, FIRST)
    return count(cli, command.words(FIRST)), random.Random(seed)


def struck_all(cli: Cli, command: Command, struck_at: Iterable[tuple[str, int]]) -> int:
    """Strike a command with each fault at its call; return how often it was stopped."""
    stopped = 0
    for round_, (fault, number) in enumerate(struck_at):
        command.before(cli, round_)
        stopped += strike(cli, command, fault, number, round_)
        if round_ % 15 == 14:
            fsck(cli.gitdir)
    return stopped


def strike(cli: Cli, command: Command, fault: str, number: int, round_: int) -> bool:
    """Strike a command at a call, look, and repeat it; tell whether it was stopped."""
    before = refs(cli)
    result = struck(cli, command.words(round_), FAULTS[fault], number)
    if result is not None:
        assert result.code in {0, 7, *FAULTS[fault].codes}, (fault, number, result)
        assert "Traceback" not in result.err
    settle(cli, command, round_, before, result, where=(fault, number, result))
    return result is None or result.code != 0


def settle(
    cli: Cli,
    command: Command,
    round_: int,
    before: dict[str, str],
    result: Result | None,
    *,
    where: object,
) -> None:
    """Check what a command left that was struck, None if it died, and repeat it."""
    words, ref, after = command.words(round_), command.moves, refs(cli)
    assert unmoved(before, ref) == unmoved(after, ref), where
    steps = advanced(cli, ref, before, after)
    if ref == MAIN and result is not None and result.code not in INTERRUPTED:
        assert steps == (result.code in (0, 7)), where  # what was said is true
    again = cli.run(*words)
    assert again.code == 0, (where, again)
    if ref == MAIN:
        assert advanced(cli, ref, before, refs(cli)) == 1, (where, again)
    if ref == CURSOR:
        told_once(cli, words, f"w-{round_}")
    if ref != MAIN:  # it may have had nothing left to write
        cli("note", "plan", f"after {round_}")
    assert not [*filter(_is_left, cli.gitdir.rglob("*"))], where


def unmoved(found: dict[str, str], ref: str | None) -> dict[str, str]:
    """Return the refs but for one."""
    return {name: oid for name, oid in found.items() if name != ref}


def told_once(cli: Cli, words: tuple[str, ...], flow: str) -> None:
    """Let a watcher look until the hold of a dead one is over; the end of a flow is told once."""
    for passed in range(PASSES):
        told = (cli.folder / "told.md").read_text()
        if f"flow={flow} kind=final" in told:
            break
        with time_machine.travel(time.time() + (passed + 1) * LEASE_S):
            again = cli.run(*words)
        assert again.code in (0, 75), again  # 75: it may have been told, and is looked for again
    with time_machine.travel(time.time() + 2 * PASSES * LEASE_S):
        assert cli.run(*words).code == 0
    assert (cli.folder / "told.md").read_text().count(f"flow={flow} kind=final") == 1
