"""How the command of a process is started: forked and held back, then let go, then it is itself.

Rules: the command leads a session and a group of its own; it reads nothing, and has no descriptor
of ours; why it could not be executed comes through a pipe that a success closes. Standard library
alone, and cheap: a supervisor imports it.
"""

from __future__ import annotations

import errno
import posix as os  # `os` itself is a tenth of what a supervisor costs

from gitflowstate import signals

GO = b"g"
_READY = b"r"
_FAILED = 127
_BARRIER, _ERROR = 3, 4
_MAX_DESCRIPTOR = 256
_PATH = b"/bin:/usr/bin"
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)


class Command:
    """A command that was forked, and waits for its `go`."""

    def __init__(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> None:
        """Fork. Raises OSError."""
        self.argv = argv
        self.cwd = cwd
        self.env = env
        barrier, self._barrier = os.pipe()
        self._error, error = os.pipe()
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(barrier, error, out, err)
        for descriptor in (barrier, error, out, err):
            os.close(descriptor)
        os.read(self._error, 1)  # it leads its group from here on, and heeds signals

    def _become(self, barrier: int, error: int, out: int, err: int) -> None:
        """Be the command, or leave."""
        try:
            os.setsid()
            signals.restore()
            null = os.open("/dev/null", os.O_RDONLY)
            # Away from the numbers they shall have, so that none is closed before it is moved.
            moved = [os.dup2(n, 100 + i) for i, n in enumerate((null, out, err, barrier, error))]
            for number, descriptor in enumerate(moved):
                os.dup2(descriptor, number, inheritable=number < _BARRIER)
            os.closerange(_ERROR + 1, _MAX_DESCRIPTOR)
            found = _candidates(self.argv[0], self.env)
            os.write(_ERROR, _READY)
            if os.read(_BARRIER, 1) == GO:
                self._execute(found)
        finally:
            os._exit(_FAILED)  # noqa: SLF001  its public name in `os`

    def _execute(self, found: list[bytes]) -> None:
        stage, number = b"folder", errno.ENOENT
        try:
            os.chdir(self.cwd)
            stage = b"command"
            number = _first(found, self.argv, self.env)
        except OSError as error:
            number = error.errno or 0
        except ValueError:  # a NUL, or no name at all
            number = errno.EINVAL
        os.write(_ERROR, b"%d %s" % (number, stage))

    def go(self) -> None:
        """Let the command be executed."""
        os.write(self._barrier, GO)
        os.close(self._barrier)
        self._barrier = -1

    def abandon(self) -> None:
        """Let it leave without ever having been the command."""
        if self._barrier >= 0:
            os.close(self._barrier)
            self._barrier = -1

    def refusal(self) -> tuple[int, str] | None:
        """Return why it could not be executed, with the exit code that shells have for it.

        None where it was; only asked when it has ended.
        """
        os.set_blocking(self._error, False)
        try:
            told = os.read(self._error, 100).decode()
        except BlockingIOError:
            return None
        if not told:
            return None
        number, stage = told.split()
        why = os.strerror(int(number))
        if stage == "folder":
            return 126, f"its folder cannot be entered: {why}"
        if int(number) in _NOT_FOUND:
            return 127, "the command was not found"
        return 126, f"the command cannot be executed: {why}"


def _candidates(name: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Return where a command may be, as `os.execvpe` looks for it, which imports a module for it.

    What is one path in itself is not searched for.
    """
    if b"/" in name or not name:
        return [name]
    folders = env.get(b"PATH", _PATH).split(b":")
    return [(folder or b".") + b"/" + name for folder in folders]


def _first(found: list[bytes], argv: list[bytes], env: dict[bytes, bytes]) -> int:
    """Become the first of these that can be executed; return why none of them could."""
    refused = errno.ENOENT
    for path in found:
        try:
            os.execve(path, argv, env)
        except OSError as error:
            if error.errno not in _NOT_FOUND:
                # As shells have it: one without permission is no reason to stop looking.
                if error.errno != errno.EACCES:
                    return error.errno or 0
                refused = errno.EACCES
    return refused
