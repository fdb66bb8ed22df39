"""The supervisor of one process: it holds the lock, starts the command, waits, records the end.

Rules: its own session, so that nobody's death ends it; the command is held back until its start is
recorded. While its client lives, the client commits what is reported here, and the record of the
end is written beside that; the store is imported only when the client has gone. Standard
library alone until then, since every `gfs run` starts one: `python -I -S`.

From the client: a request, then one of the bytes below. To the client: `blocked <pid> <ticks>`,
then `ended` and the record; nothing more means that this has died.
"""

from __future__ import annotations

import errno
import marshal
import posix as os  # `os` itself is a tenth of what a supervisor costs
import select
import sys
import time

from gitflowstate import identity, runfiles, runlocks, signals
from gitflowstate.runfiles import MARK, Exit
from gitflowstate.spawning import Command

TYPE_CHECKING = False  # as in `typing`, which a supervisor cannot afford
if TYPE_CHECKING:
    from typing import Any

    from gitflowstate.running import Running

GO, ABORT, SETTLED = b"g", b"a", b"s"
BLOCKED, ENDED = b"blocked", b"ended\n"
UNRECORDED = "its start could not be recorded, so it was not started"
ANSWER_S = 60.0  # for a client that lives and does not say that it has recorded the end
_MAX_DESCRIPTOR = 1024
_RETRY_S = 1.0  # for a record that the disk does not take
_NO_RESERVING = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # a file system without


class Supervisor:
    """One process and its client, at the other end of the pipes `control` and `report`."""

    def __init__(
        self, request: dict[str, Any], control: int, report: int, onward: tuple[int, int]
    ) -> None:
        self.request = request
        self.folder: str = request["folder"]
        self.control = control
        self.report = report
        self.onward = onward
        self.wake = _wake(self.folder)
        self.started_at: str | None = None
        self._terminated = False

    def run(self) -> None:
        """Supervise the command to its end, and see to it that the end is recorded."""
        end = self._supervised()
        for descriptor in self.onward:  # what nothing was ever passed to
            if descriptor >= 0:
                os.close(descriptor)
        # First told: the client commits while this goes to the disk, and one of the two is enough.
        self._tell(ENDED + end.text().encode())
        if self._is_recorded(end):
            runlocks.drop(runlocks.lock_path(self.request["gitdir"], self.request["process"]))

    def _supervised(self) -> Exit:
        reason = self._cancelled()
        if reason is not None:
            return Exit("cancelled", runfiles.now(), reason=reason)
        full = _reserve(self.folder)
        if full is not None:
            return Exit("failed", runfiles.now(), reason=full)
        try:
            command = Command(self.request["argv"], self.request["cwd"], self._environment())
        except OSError as error:
            return Exit("failed", runfiles.now(), reason=f"it cannot be started: {error.strerror}")
        ticks = identity.start_ticks(command.pid)
        self._tell(b"%s %d %d\n" % (BLOCKED, command.pid, ticks))
        from gitflowstate.running import Running  # noqa: PLC0415  while the client records the start

        refused = self._refused(command.pid, ticks)
        if refused:
            command.abandon()
            os.waitpid(command.pid, 0)
            return Exit(refused[0], runfiles.now(), pid=command.pid, ticks=ticks, reason=refused[1])
        onward, self.onward = self.onward, (-1, -1)
        timeout_s = self.request["timeout_s"]
        watch = Running(command, self.folder, onward, self.wake, self._cancelled, timeout_s)
        return self._watched(command, watch, ticks)

    def _watched(self, command: Command, running: Running, ticks: int) -> Exit:
        self.started_at = self.started_at or runfiles.now()
        command.go()
        running.watch()
        state, reason = "completed" if running.code == 0 else "failed", running.said()
        code = running.code
        refusal = command.refusal()
        if refusal:
            state, (code, reason) = "failed", refusal
        if running.stopped:
            state = running.stopped[0]
        return Exit(
            state,
            runfiles.now(),
            pid=command.pid,
            ticks=ticks,
            started_at=self.started_at,
            exit_code=code,
            signal=running.signal,
            sent=(*running.sent,),
            reason=reason,
            output_bytes=running.capture.total,
            output_truncated=running.capture.truncated,
        )

    def _environment(self) -> dict[bytes, bytes]:
        told = {name.encode(): value.encode() for name, value in self.request["env"].items()}
        return {**os.environ, **told, MARK.encode(): runfiles.raw(self.folder)}

    # ── before the command may go ───────────────────────────────────────────────────────────────

    def _refused(self, pid: int, ticks: int) -> tuple[str, str] | None:
        """Wait until the command may go; return the state and the reason if it may not."""
        while True:
            ready = _ready(self.control, self.wake)
            if self.wake in ready:
                self._terminated |= signals.TERM in os.read(self.wake, 4096)
            reason = self._cancelled()
            if reason is not None:
                return "cancelled", reason
            if self.control in ready:
                said = os.read(self.control, 1)
                if said == GO or (not said and self._record_start(pid, ticks)):
                    return None
                return "failed", UNRECORDED

    def _record_start(self, pid: int, ticks: int) -> bool:
        self.started_at = runfiles.now()
        sys.path[:] = self.request["path"]
        from gitflowstate import late  # noqa: PLC0415  only when the client has gone

        return late.started(self.request, pid, ticks, self.started_at)

    def _cancelled(self) -> str | None:
        """Return why the process shall be cancelled, None if it shall not."""
        told = runfiles.cancellation(self.folder)
        return runfiles.TOLD_TO_END if told is None and self._terminated else told

    # ── after the end ───────────────────────────────────────────────────────────────────────────

    def _tell(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self.report, text) :]
        except OSError:
            return  # the client has gone

    def _is_recorded(self, end: Exit) -> bool:
        """Write the record of the end, and tell whether the end is committed, too.

        A disk that takes neither is waited for, as long as this lives.
        """
        while not _write(self.folder, end):
            if self._is_settled(_RETRY_S) or _record_end(self.request, end):
                return True
            time.sleep(_RETRY_S)
        return self._is_settled(ANSWER_S) or _record_end(self.request, end)

    def _is_settled(self, patience_s: float) -> bool:
        """Tell whether the client has recorded the end."""
        deadline = time.monotonic() + patience_s
        while (left := deadline - time.monotonic()) > 0:
            if self.control in _ready(self.control, patience_s=left):
                said = os.read(self.control, 1)
                if said in (SETTLED, b""):
                    return said == SETTLED
        return False


def _record_end(request: dict[str, Any], end: Exit) -> bool:
    sys.path[:] = request["path"]
    from gitflowstate import late  # noqa: PLC0415  only when the client has gone

    return late.settled(request, end)


def _ready(*descriptors: int, patience_s: float | None = None) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    found = poll.poll(None if patience_s is None else int(patience_s * 1000) + 1)
    return {descriptor for descriptor, _ in found}


def _reserve(folder: str) -> str | None:
    """Take the room for the record of the end; return why there is none."""
    try:
        runfiles.reserve_exit(folder)
    except OSError as error:
        if error.errno not in _NO_RESERVING:
            return f"there is no room for the record of its end: {error.strerror}"
    return None


def _write(folder: str, end: Exit) -> bool:
    """Write the record of the end; tell whether there is nothing left to write."""
    try:
        runfiles.write_exit(folder, end)
    except (FileNotFoundError, NotADirectoryError):
        return True  # its folder was removed, and the repository perhaps
    except OSError:
        return False
    return True


def _wake(folder: str) -> int:
    """Return what is readable when a signal came or somebody wants to cancel; never blocks."""
    path = f"{folder}/{runfiles.WAKE}"
    try:
        os.mkfifo(path, 0o644)
        wake = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a file system without: signals still come
        wake, told = os.pipe()
        os.set_blocking(told, False)
        signals.wake(told, signals.TERM, signals.CHLD)
        return wake
    signals.wake(wake, signals.TERM, signals.CHLD)
    return wake


def _request(control: int) -> dict[str, Any]:
    """Return what the client asks for: its length in eight bytes, then the whole."""
    length = int.from_bytes(_exactly(control, 8), "big")
    found: dict[str, Any] = marshal.loads(_exactly(control, length))  # noqa: S302  our own client's
    return found


def _exactly(descriptor: int, count: int) -> bytes:
    parts = []
    while count > 0:
        part = os.read(descriptor, count)
        if not part:
            # The client died before it had said what to do.
            os._exit(1)  # noqa: SLF001  its public name in `os`
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def main() -> None:
    """Be the supervisor that a client started: the numbers of its descriptors are the arguments."""
    control, report, lock, _slot, out, err = inherited = [int(word) for word in sys.argv[1:7]]
    _keep(inherited)
    signals.ignore((signals.HUP, signals.INT, signals.QUIT))
    signals.unblock()  # only now: one of those may be waiting
    if os.getsid(0) != os.getpid():
        os.setsid()
    request = _request(control)
    try:
        runlocks.write_holder(lock, request["holder"])
        Supervisor(request, control, report, (out, err)).run()
    except BaseException:
        _complain(request["folder"])
        raise
    os._exit(0)  # noqa: SLF001  its public name in `os`; what was written is synced


def _keep(inherited: list[int]) -> None:
    """Keep what the client gave for oneself, and none of what it has of others.

    Somebody may wait for the end of a pipe that a process which stays would hold open.
    """
    kept = sorted(descriptor for descriptor in inherited if descriptor >= 0)
    for low, high in zip([2, *kept], [*kept, _MAX_DESCRIPTOR], strict=True):
        os.closerange(low + 1, high)
    for descriptor in kept:
        os.set_inheritable(descriptor, False)  # noqa: FBT003  its own signature


def _complain(folder: str) -> None:
    """Leave word of a bug where a person may look: this has no standard error."""
    import traceback  # noqa: PLC0415  start-up

    with open(f"{folder}/supervisor.log", "w", encoding="utf-8") as file:  # noqa: PTH123
        traceback.print_exc(file=file)
