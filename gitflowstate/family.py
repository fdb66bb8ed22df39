"""Which processes belong to a run: its group and session, and what escaped from both.

Rules: what escaped is known by its environment, which names the run's folder; a signal goes through
a descriptor of the process, opened before it was looked at, so that no other process with that
number can get it (hazard J2). Where there is no /proc, only the group is known. Cheap: a
supervisor imports it.
"""

from __future__ import annotations

import posix as os  # `os` itself is a tenth of what a supervisor costs

from gitflowstate import identity, runfiles


class Family:
    """The processes of the run in a folder.

    `leader` is its command, which leads a group and a session. A supervisor does not reap it before
    this is done with, so that its number stays its own. Anyone else gives its start (`ticks` and
    `boot`) and signals one by one, never a number that may be another's by now.
    """

    def __init__(self, folder: str, leader: int, ticks: int = 0, boot: str = "") -> None:
        self.leader = leader
        self.ticks = ticks
        self.boot = boot
        self._mark = b"\0%s=%s\0" % (runfiles.MARK.encode(), runfiles.raw(folder))

    def members(self) -> list[int]:
        """Return the pids of those that live, but for this very process."""
        own = os.getpid()
        return [pid for pid in identity.pids() if pid != own and self._has(pid)]

    def _has(self, pid: int) -> bool:
        group, session = identity.group_and_session(pid)
        if not group:
            return False  # it has ended
        if self.leader in (group, session) and self._is_leader_own():
            return True
        return self._mark in b"\0%s\0" % identity.environment(pid)

    def _is_leader_own(self) -> bool:
        return not self.boot or identity.is_same(self.leader, self.ticks, self.boot)

    def send(self, number: int) -> int:
        """Send a signal to all of them; return to how many, beyond the group of one's own."""
        if not self.boot:
            _send_group(self.leader, number)
        found = [(pid, identity.pin(pid)) for pid in self.members()]
        pinned = [(pid, descriptor) for pid, descriptor in found if descriptor >= 0]
        # All are looked at before the first is signalled: by its leader's life others are known.
        chosen = [descriptor for pid, descriptor in pinned if self._is_to_get(pid)]
        sent = sum(identity.send_pinned(descriptor, number) for descriptor in chosen)
        for _, descriptor in pinned:
            os.close(descriptor)
        return sent

    def _is_to_get(self, pid: int) -> bool:
        if not self.boot and identity.group_and_session(pid)[0] == self.leader:
            return False  # it got it with the group
        return self._has(pid)


def _send_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except OSError:
        return  # only the dead are left of it
