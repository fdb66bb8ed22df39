"""A supervisor as its client has it: started with its lock and slot, told to go, listened to.

Rules: the lock and a slot are taken before anything is started; both are the supervisor's from then
on, and freed by the kernel at its death. It begins while the start intent is recorded, and is asked
for nothing before that is durable. That nothing more comes from it means that it has died, and says
nothing of its command.
"""

from __future__ import annotations

import itertools
import json
import marshal
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from gitflowstate import runfiles, runlocks, supervisor
from gitflowstate.errors import Unavailable
from gitflowstate.runfiles import MARK, Exit
from gitflowstate.syscalls import reported

MAX_LIVE = 8
ROOT = str(Path(__file__).resolve().parent.parent.parent)
_CODE = (
    "import sys; sys.path.append({root!r}); from gitflowstate.supervisor import main; main()".format
)
_CHUNK = 1 << 18
_PRIVATE = (MARK, "GFS_PROCESS")  # what the command of another process has of its own

Sink = Callable[[bytes], bool]  # takes some output; False when it wants no more


class Reserved:
    """The lock of one process, and a slot: what must be had before its start is intended."""

    def __init__(self, gitdir: Path, process: str, session: str) -> None:
        self.path = runlocks.lock_path(gitdir, process)
        self.gitdir = gitdir
        self.told = json.dumps({"session": session, "host": socket.gethostname()})[:-1].encode()
        self.lock = self.slot = -1
        self.made = False  # whether there was no lock of an earlier try, which tells how it ended

    def take(self) -> bool:
        """Take both; False where the process has its lock held by somebody else.

        Raises Unavailable where every slot is taken, and the errors of a disk.
        """
        with reported("lock", self.path):
            self.made = not os.path.lexists(self.path)
            self.lock = runlocks.hold(self.path)
            if self.lock < 0:
                return False
            runlocks.write_holder(self.lock, self.told)
            self.slot = _slot(self.gitdir)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.lock, self.slot):
            if descriptor >= 0:
                os.close(descriptor)
        self.lock = self.slot = -1

    def drop(self) -> None:
        """Remove the lock again: nothing was intended here."""
        runlocks.drop(self.path)


def _slot(gitdir: Path) -> int:
    for number in range(MAX_LIVE):
        descriptor = runlocks.hold(f"{gitdir}/{runfiles.SLOTS}/{number}")
        if descriptor >= 0:
            return descriptor
    raise Unavailable(
        f"{MAX_LIVE} processes of this repository run on this machine, which is the most",
        hint="gfs ps lists them: run the same command again once one has ended, "
        "or end one that is not needed with gfs cancel PROCESS",
        next=["gfs", "ps"],
    )


class Supervised:
    """A supervisor that was started, and its client's ends of the pipes."""

    def __init__(self, reserved: Reserved, *, passing: bool) -> None:
        """Start it; it does nothing before it is asked to. Raises OSError."""
        self._told = b""
        (control, self._control), (self._report, report), out, err = _pipes(passing)
        self._outputs = [out[0], err[0]]
        inherited = [control, report, reserved.lock, reserved.slot, out[1], err[1]]
        try:
            self.pid = _spawned(inherited)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (reserved.lock, reserved.slot):
                os.set_inheritable(descriptor, False)  # noqa: FBT003  its own signature
            for descriptor in (control, report, *inherited[4:]):
                if descriptor >= 0:
                    os.close(descriptor)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Have it start the command of a request, held back."""
        self._say(_framed(request))

    def _say(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self._control, text) :]
        except BrokenPipeError:
            return  # it has died; that nothing comes from it will tell

    # ── what it says ────────────────────────────────────────────────────────────────────────────

    def blocked(self) -> tuple[int, int] | None:
        """Return pid and start of the command, held back; None where there is none to let go."""
        while b"\n" not in self._told:
            if not self._hear():
                return None
        line, _, rest = self._told.partition(b"\n")
        words = line.split()
        if words[0] != supervisor.BLOCKED:
            return None
        self._told = rest
        return int(words[1]), int(words[2])

    def _hear(self) -> bool:
        part = os.read(self._report, 4096)
        self._told += part
        return bool(part)

    def end(self, out: Sink, err: Sink) -> Exit | None:
        """Pass on what the command writes, and return how it ended; None if that is not known."""
        sinks = dict(zip(self._outputs, (out, err), strict=True))
        sinks.pop(-1, None)
        ended, dead = _record_in(self._told), False
        while sinks or not (ended or dead):
            poll = select.poll()
            for descriptor in sinks:
                poll.register(descriptor, select.POLLIN)
            if not (ended or dead):
                poll.register(self._report, select.POLLIN)
            for descriptor, _ in poll.poll():
                if descriptor in sinks:
                    self._pass_on(descriptor, sinks)
                elif self._hear():
                    ended = _record_in(self._told)
                else:
                    dead = True
        return ended

    def _pass_on(self, descriptor: int, sinks: dict[int, Sink]) -> None:
        data = os.read(descriptor, _CHUNK)
        if not data or not sinks[descriptor](data):
            del sinks[descriptor]
            self._outputs.remove(descriptor)
            os.close(descriptor)

    # ── what it is told ─────────────────────────────────────────────────────────────────────────

    def go(self) -> None:
        """Let the command be executed: that it runs is recorded."""
        self._say(supervisor.GO)

    def abort(self) -> None:
        """Have the command never executed: that it runs could not be recorded."""
        self._say(supervisor.ABORT)

    def settled(self) -> None:
        """Say that the end is recorded."""
        self._say(supervisor.SETTLED)

    def discard(self) -> None:
        """End it before it was asked for anything, and wait until its lock is free."""
        self.close()
        os.waitpid(self.pid, 0)

    def close(self) -> None:
        """Let go of it: what is not recorded yet, it records itself."""
        for descriptor in (self._control, self._report, *self._outputs):
            if descriptor >= 0:
                os.close(descriptor)


def _pipes(passing: bool) -> list[tuple[int, int]]:  # noqa: FBT001  what it is about
    """Return the pipes of control, report and both outputs: all of them, or none is left open."""
    made: list[tuple[int, int]] = []
    try:
        for wanted in (True, True, passing, passing):
            made.append(os.pipe() if wanted else (-1, -1))  # noqa: PERF401  what is open so far
    except OSError:
        for descriptor in itertools.chain(*made):
            os.close(descriptor)
        raise
    return made


def _spawned(inherited: list[int]) -> int:
    for descriptor in inherited:
        if descriptor >= 0:
            os.set_inheritable(descriptor, True)  # noqa: FBT003  its own signature
    words = [sys.executable, "-I", "-S", "-c", _CODE(root=ROOT), *map(str, inherited)]
    env = {name: value for name, value in os.environ.items() if name not in _PRIVATE}
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        # At once, so that an interrupt from the terminal does not reach it while it begins.
        return os.posix_spawn(sys.executable, words, env, file_actions=null, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(sys.executable, words, env, file_actions=null)


def _framed(request: Mapping[str, Any]) -> bytes:
    body = marshal.dumps(dict(request))
    return len(body).to_bytes(8, "big") + body


def _record_in(told: bytes) -> Exit | None:
    """Return the record that was told, None while it is not whole."""
    try:
        return runfiles.parsed(told.removeprefix(supervisor.ENDED).decode())
    except (KeyError, ValueError):
        return None
