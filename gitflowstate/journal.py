"""The journal as JSON Lines: one fact a line, and how a file of such lines is judged.

Rules: pure. A line is a whole snapshot of one task, and the last one for a task holds. Only a
record that was cut off at the very end of a file is a torn tail; whatever else does not decode is
damage, and so is a complete last line that does not (R-TJ-18, 19, 22 to 25). So is a record that
stands twice (E5), and one that changes how a task has ended (R-TJ-04).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from gitflowstate import codec
from gitflowstate.errors import Corrupt, Invalid
from gitflowstate.kinds import ENDS, Time
from gitflowstate.loader import Ambiguous, record
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
    ended: dict[str, str] = {}
    records = offset = 0
    for number, line in enumerate(lines, 1):
        whole = line.endswith(b"\n")
        try:
            told = _record(line)
            _check_follows(told, tasks, ended)
        except _UnfinishedError as error:
            if not whole:
                return Checked(records, tasks, offset, unended=False)
            raise _damage(number, offset, error) from None
        except Invalid as error:
            raise _damage(number, offset, error) from None
        records += 1
        tasks[told["task_id"]] = told
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
        found = record(line, LONGEST)
    except Ambiguous:
        raise
    except Invalid as error:
        raise _UnfinishedError(error.message) from None
    if not isinstance(found, dict):
        raise Invalid("a record must be an object")
    if not isinstance(found.get("task_id"), str) or not found["task_id"]:
        raise Invalid("a record must have a task_id")
    if not isinstance(status(found), str | None):
        raise Invalid("the status of a record must be a text")
    return found


def status(told: dict[str, Any]) -> Any:  # noqa: ANN401  a text in what was checked
    """Return what a record says that its task is, under the name that others or we have for it."""
    found = told.get("status")
    return told.get("state") if found is None else found


def _check_follows(
    told: dict[str, Any], tasks: dict[str, dict[str, Any]], ended: dict[str, str]
) -> None:
    """Refuse a record that cannot come after those before it; note an end. Raises Invalid."""
    task, now = told["task_id"], status(told)
    if told == tasks.get(task):
        raise Invalid(f"the record of {task} stands twice")
    before = ended.get(task)
    if before is not None and now not in (None, before):
        raise Invalid(f"{task} is {now} after it had ended: it was {before}")
    if now in ENDS:
        ended[task] = now
