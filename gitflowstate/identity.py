"""What tells one process of this machine from every other: its boot, its pid, and its start.

Rules: an identity is for signalling alone, and never says that something ended (C-12); what cannot
be read is 0 or the empty string, which equals no identity. Cheap: a supervisor imports it.
"""

from __future__ import annotations

import posix as os  # `os` itself is a tenth of what a supervisor costs

from gitflowstate import signals

_STATE, _GROUP, _SESSION, _STARTED = 0, 2, 3, 19  # fields of /proc/<pid>/stat after the name


def boot_id() -> str:
    """Return the id of this boot of this kernel."""
    return _read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()


def start_ticks(pid: int | str = "self") -> int:
    """Return when a process began, in clock ticks since the boot."""
    return int(_field(stat_of(pid), _STARTED) or 0)


def is_same(pid: int, ticks: int, boot: str) -> bool:
    """Tell whether the process with this pid is the one that was recorded, and has not ended."""
    found = stat_of(pid)
    return (
        bool(ticks and boot)
        and _field(found, _STARTED) == str(ticks)
        and _field(found, _STATE) not in ("Z", "X", "")
        and boot_id() == boot
    )


def send(pid: int, ticks: int, boot: str, number: int) -> bool:
    """Send a signal to the process that was recorded; False, and to nobody, where it has gone."""
    descriptor = pin(pid)  # before it is looked at: from here on it is one process
    if descriptor < 0:
        return False
    try:
        return is_same(pid, ticks, boot) and send_pinned(descriptor, number)
    finally:
        os.close(descriptor)


def pin(pid: int) -> int:
    """Return a descriptor of a process; -1 where it has gone, or the system has none."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def send_pinned(descriptor: int, number: int) -> bool:
    """Send a signal to the process of a descriptor; False where it has gone, or is not ours."""
    try:
        signals.send(descriptor, number)
    except OSError:
        return False
    return True


def group_and_session(pid: int | str) -> tuple[int, int]:
    """Return the process group and the session of a process; (0, 0) for one that has ended."""
    found = stat_of(pid)
    if _field(found, _STATE) in ("Z", "X", ""):
        return 0, 0
    return int(_field(found, _GROUP)), int(_field(found, _SESSION))


def environment(pid: int) -> bytes:
    """Return the environment that a process was started with; nothing where that is not ours."""
    return _read(f"/proc/{pid}/environ", 1 << 20)


def pids() -> list[int]:
    """Return every process of this system."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def stat_of(pid: int | str) -> list[str]:
    """Return the fields of a process after its name; none where there is no such process."""
    # The name of the command stands in parentheses, and may hold anything (hazard J3).
    return _read(f"/proc/{pid}/stat").decode("latin-1").rpartition(")")[2].split()


def _field(fields: list[str], number: int) -> str:
    return fields[number] if len(fields) > number else ""


def _read(path: str, limit: int = 4096) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # gone, or not on this system
    try:
        parts = []
        while limit > 0 and (part := os.read(descriptor, limit)):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
