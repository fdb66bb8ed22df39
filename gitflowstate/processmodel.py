"""The managed background process: its document, and where it lives.

Rules: as in `model`. The id is made of session and call id, so looking a pair up is one path; a
call without an id gets another each time. It is also the event id, since a process ends once; and
it stays for ever (architecture, section 4).
"""

from __future__ import annotations

from hashlib import sha256

from gitflowstate.kinds import (
    ENDS,
    KINDS,
    Argument,
    Count,
    Flag,
    Id,
    Int,
    Name,
    Notify,
    ProcessState,
    Reason,
    Ref,
    Revision,
    Text,
    Time,
)
from gitflowstate.model import Value

RESULT = "process:"  # and its id: what a task is done with, if nothing else was named


class Process(Value):
    """One managed background process, as it was last recorded.

    `host`, `boot_id`, `pid` and `ticks` (its start, in clock ticks since the boot) are the identity
    by which it may be signalled, and by nothing else. `sent` are the signals that we sent it;
    `returned` says that whoever started it got its end as the answer, which counts as told.
    """

    VERSION = 1

    schema_version: Revision
    id: Id
    state: ProcessState
    session_id: Name
    call_id: Text | None = None
    argv: tuple[Argument, ...]
    cwd: Text
    host: Name
    boot_id: Name
    pid: Count | None = None
    ticks: Count | None = None
    created_at: Time
    started_at: Time | None = None
    finished_at: Time | None = None
    exit_code: Int | None = None
    signal: Name | None = None
    sent: tuple[Name, ...] = ()
    reason: Reason | None = None
    output_ref: Ref | None = None
    output_bytes: Count = 0
    output_truncated: Flag = False
    notify: Notify = "on_exit"
    returned: Flag = False
    timeout_s: Count | None = None
    flow: Id | None = None
    task: Id | None = None


def has_ended(process: Process) -> bool:
    """Tell whether a process has ended, or was given up: it never changes again."""
    return process.state in ENDS


def session_place(session: str) -> str:
    """Return the folder of a session's processes, below `processes/` and `readers/` alike.

    It is the session's own id if that is an id, else made of its digest.
    """
    digest = sha256(session.encode()).hexdigest()
    return f"{digest[:2]}/{session if KINDS['Id'].accepts(session) else digest[:16]}"


def session_folder(session: str) -> str:
    """Return where the processes of a session are kept."""
    return f"processes/{session_place(session)}"


def process_path(session: str, process: str) -> str:
    """Return where a process is kept."""
    return f"{session_folder(session)}/{process}.json"


def process_id(session: str, call: str) -> str:
    """Return the id of the process that a call of a session started, or would start."""
    pair = f"{session}\0{call}".encode("utf-8", "surrogateescape")
    return f"p-{sha256(pair).hexdigest()[:12]}"
