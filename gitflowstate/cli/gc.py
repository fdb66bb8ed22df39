"""`gfs gc`: upkeep of the repository, by C git under our own lock."""

from __future__ import annotations

from gitflowstate import upkeep
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads


@reads
def gc(session: Session) -> None:
    """Pack the repository and index it for quick logs; nothing that a ref names is lost.

    Of what no ref names, only what is older than two weeks goes. It needs git, packs nothing
    without (1), and may be interrupted at any moment. gfs work and gfs watch do it when idle.

    Example: gfs gc
    """
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
        f"{done.before.loose} loose objects before, {done.after.loose} now; "
        f"{done.before.bytes // 1024:,} KiB before, {done.after.bytes // 1024:,} KiB now"
    )
    output.success(data, text, as_json=session.json)
