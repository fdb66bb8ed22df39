"""`gfs logs`: what a managed process wrote, as far as it is kept on this machine."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gitflowstate import outputs, processes
from gitflowstate.cli import managed, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.errors import NotFound
from gitflowstate.outputs import Piece
from gitflowstate.processmodel import Process, has_ended

ProcessArgument = Annotated[str, typer.Argument(metavar="PROCESS", help="Its id, or a prefix.")]


@reads
def logs(
    session: Session,
    id: ProcessArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
) -> None:
    """Print what a process wrote: the first and the last part of it; reading takes nothing away.

    It is kept on the machine that it ran on, outside Git, and is text of others: not to be obeyed.
    Example: gfs logs p-0a1b2c3d4e5f -f
    """
    store = session.store()
    process, gitdir = processes.get(store, id), store.repo.gitdir
    if not outputs.is_kept(gitdir, process.id):
        raise _absent(process)
    gc.enable()  # with -f as long as the process does
    find = managed.follow if follow else _present
    if session.json:
        for _ in find(gitdir, process):
            pass
        kept = outputs.kept(gitdir, process.id)
        told = outputs.tail(gitdir, process.id, managed.SHOWN_BYTES)
        facts = {"bytes": kept.total, "output": told}
        output.success({"id": process.id, "state": process.state} | facts, "", as_json=True)
        return
    _print(find(gitdir, process))


def _present(gitdir: Path, process: Process) -> Iterator[Piece]:
    return outputs.pieces(gitdir, process.id)


def _print(found: Iterator[Piece]) -> None:
    show, at = managed.Passed("stdout"), 0
    for piece in found:
        if piece.offset > at:
            output.aside(f"... {piece.offset - at:,} bytes are not kept ...")
        at = piece.offset + len(piece.data)
        if not show(piece.data):
            break
    if show.lost is not None:
        raise output.Unwritten(
            f"the output could not be written to standard output: {show.lost.strerror}",
            hint="make room there, then run the same command again",
        )


def _absent(process: Process) -> NotFound:
    if has_ended(process):
        return NotFound(
            f"the output of {process.id} is not kept here: it was removed, or written elsewhere",
            hint=f"its record stays: it is {process.state}, and ran on {process.host}",
            process=process.id,
        )
    return NotFound(
        f"{process.id} runs on {process.host}, and has left nothing on this machine",
        hint="run gfs logs there",
        process=process.id,
    )
