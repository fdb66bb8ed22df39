"""The journal as JSON Lines: one fact a line, and how a file of such lines is judged.

Rules: pure. A line is a whole snapshot of one task, and the last one for a task holds. Only a
record that was cut off at the very end of a file is a torn tail; whatever else does not decode is
damage, and so is a complete last line that does not (R-TJ-18, 19, 22 to 25).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from gitflowstate import codec
from gitflowstate.errors import Corrupt, Invalid
from gitflowstate.kinds import Time
from gitflowstate.loader import lenient
from gitflowstate.processmodel import Process, has_ended

LONGEST = 16 << 20  # bytes of one record


class Fact(NamedTuple):
    """What one commit recorded of a process: which op by whom, and the process afterwards.

    `op` and `by` are None for an edit by hand, `process` where it left nothing that decodes.
    """

    id: str
    commit: str
    op: str | None
    by: str | None
    at: Time | None
    process: Process | None


class Checked(NamedTuple):
    """A journal that is sound: how many records, and the last one of each task.

    `torn` is the offset at which an unfinished record begins, and `unended` tells whether the last
    one only lacks its newline; either is the trace of a writer that died.
    """

    records: int
    tasks: dict[str, dict[str, Any]]
    torn: int | None
    unended: bool


def as_json(fact: Fact) -> dict[str, Any]:
    """Return a fact as an object; an end has the id of its event, which never changes."""
    told: dict[str, Any] = {"task_id": fact.id}
    if fact.process is not None and has_ended(fact.process):
        told["event_id"] = fact.id
    told |= {"op": fact.op, "by": fact.by, "at": fact.at, "commit": fact.commit}
    return told | ({} if fact.process is None else codec.to_json(fact.process))


def as_line(fact: Fact) -> str:
    """Return a fact as one line of ASCII, with its newline."""
    return json.dumps(as_json(fact)) + "\n"


def check(lines: Iterable[bytes]) -> Checked:
    """Judge a journal, given as its lines with their newlines.

    Raises Corrupt with the number of the first bad line and its offset.
    """
    tasks: dict[str, dict[str, Any]] = {}
    records = offset = 0
    for number, line in enumerate(lines, 1):
        whole = line.endswith(b"\n")
        try:
            record = _record(line)
        except _UnfinishedError as error:
            if not whole:
                return Checked(records, tasks, offset, unended=False)
            raise _damage(number, offset, error) from None
        except Invalid as error:
            raise _damage(number, offset, error) from None
        records += 1
        tasks[record["task_id"]] = record
        if not whole:
            return Checked(records, tasks, None, unended=True)
        offset += len(line)
    return Checked(records, tasks, None, unended=False)


class _UnfinishedError(Invalid):
    """No JSON, or not yet."""


def _damage(number: int, offset: int, error: Invalid) -> Corrupt:
    return Corrupt(
        f"line {number}, at byte {offset}: {error.message}",
        hint="call a person: the file is left as it is, and nothing behind it is trusted",
        line=number,
        offset=offset,
    )


def _record(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises Invalid."""
    if len(line) > LONGEST:
        raise Invalid(f"a record of more than {LONGEST:,} bytes")
    try:
        found = lenient(line, LONGEST)  # others write floats, too
    except Invalid as error:
        raise _UnfinishedError(error.message) from None
    if not isinstance(found, dict):
        raise Invalid("a record must be an object")
    if not isinstance(found.get("task_id"), str) or not found["task_id"]:
        raise Invalid("a record must have a task_id")
    return found
