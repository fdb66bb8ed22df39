"""`gfs journal`: the facts of a session's processes as JSON Lines, and the check of such a file."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import nullcontext
from typing import Annotated, BinaryIO

import typer

from gitflowstate import journal as journals
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import Corrupt, NotFound, Usage
from gitflowstate.journal import Checked
from gitflowstate.syscalls import reported


@reads
def journal(
    session: Session,
    of: Annotated[
        str | None, typer.Option("--session", metavar="S", help="Whose: GFS_SESSION, then local.")
    ] = None,
    check: Annotated[
        str | None, typer.Option("--check", metavar="FILE", help="Judge such a file instead.")
    ] = None,
) -> None:
    """Print every fact that was recorded of a session's processes, the oldest first, one a line.

    The last line of a task holds. With --check a file of such lines is judged and left as it is: an
    unfinished last record is a warning, any other damage an error (6).
    Example: gfs journal --session s-1
    """
    if check is not None:
        if of is not None:
            raise Usage("--check judges a file, and --session names none")
        _check(session, check)
        return
    from gitflowstate import sessionlog

    facts = sessionlog.facts(session.store(), config.process_session(of))
    if session.json:
        data = {"facts": [journals.as_json(fact) for fact in facts]}
        output.success(data, "", as_json=True)
        return
    output.success(None, "".join(map(journals.as_line, facts)), as_json=False)


def _check(session: Session, file: str) -> None:
    try:
        with reported("read", file), _opened(file) as stream:
            found = journals.check(iter(lambda: stream.readline(journals.LONGEST + 1), b""))
    except Corrupt as error:
        error.message = f"{file}: {error.message}"
        error.details["file"] = file
        raise
    if found.torn is not None:
        output.warn(f"{file}: the last record is cut off; what is whole ends at byte {found.torn}")
    elif found.unended:
        output.warn(f"{file}: the last record is whole, and only lacks its newline")
    output.success(_told(file, found), _said(file, found), as_json=session.json)


def _opened(file: str) -> BinaryIO | nullcontext[BinaryIO]:
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # no wait for a FIFO
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", hint="name the file to check") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise Usage(f"{file} is not a regular file", hint="--check - judges standard input")


def _told(file: str, found: Checked) -> dict[str, object]:
    tail = None if found.torn is None else {"offset": found.torn}
    tasks = {name: journals.status(last) for name, last in found.tasks.items()}
    about = {"file": file, "records": found.records, "tasks": tasks}
    return about | {"torn": tail, "unended": found.unended}


def _said(file: str, found: Checked) -> str:
    from gitflowstate import prose

    records = prose.count(found.records, "record")
    sound = "is sound" if found.torn is None else f"is sound up to byte {found.torn}"
    return f"{output.line(file)} {sound}: {records} of {prose.count(len(found.tasks), 'task')}"
