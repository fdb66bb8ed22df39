"""`gfs gc`: upkeep of the repository, by C git under our own lock."""

from __future__ import annotations

from typing import Annotated

import typer

from gitflowstate import prose, upkeep
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads


@reads
def gc(
    session: Session,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Remove output of processes instead.")
    ] = False,
) -> None:
    """Pack the repository and index it for quick logs; nothing that a ref names is lost.

    Of what no ref names, only what is older than two weeks goes; and nothing at all where a ref
    seems to be lost (6). It needs git, packs nothing without (1), and may be interrupted at any
    moment. gfs work and gfs watch do it when idle. With --outputs nothing is packed: what processes
    wrote goes once they ended a day ago and their end was seen; the records of them stay.

    Example: gfs gc
    """
    if outputs:
        _expire(session)
        return
    repo = session.store(writing=True).repo
    done = upkeep.run(repo, config.environment(), config.lock_timeout())
    for warning in done.warnings:
        output.warn(warning)
    data = {
        "before": done.before._asdict(),
        "after": done.after._asdict(),
        "swept": done.swept,
    }
    text = (
        f"{prose.count(done.before.loose, 'loose object')} before, {done.after.loose:,} now; "
        f"{prose.kibibytes(done.before.bytes)} before, {prose.kibibytes(done.after.bytes)} now"
    )
    output.success(data, text, as_json=session.json)


def _expire(session: Session) -> None:
    from gitflowstate import consumed

    removed = consumed.expire(session.store(writing=True), config.now())
    text = f"processes whose output was removed: {len(removed.processes):,} "
    text += f"({prose.kibibytes(removed.size)}); those whose output stays: {removed.kept:,}"
    output.success(removed._asdict(), text, as_json=session.json)
