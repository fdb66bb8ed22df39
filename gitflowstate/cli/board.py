"""The board, for people: what is running, what is waiting and for whom, what is finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gitflowstate import boardtext, codec, due, tasktables
from gitflowstate.boardtext import Section
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.documents import Broken
from gitflowstate.errors import Usage
from gitflowstate.model import Flow

# section -> the verb that lists all of it
_LISTS = {
    "running": ["gfs", "list"],
    "waiting": ["gfs", "list", "--status", "waiting"],
    "finished": ["gfs", "list", "--all"],
}


@reads
def board(
    session: Session,
    limit: Annotated[
        int, typer.Option(metavar="N", help="At most N that run and N that wait.")
    ] = boardtext.LIMIT,
    finished: Annotated[
        int, typer.Option(metavar="N", help="At most N that are finished, the last ones.")
    ] = boardtext.FINISHED,
) -> None:
    """Show what is running, waiting and finished: who is needed, and what comes next.

    Example: gfs board --finished 3
    """
    if limit < 0 or finished < 0:
        raise Usage("--limit and --finished count from 0")
    items = list(session.store().flows(archived=True))
    flows = [item for item in items if isinstance(item, Flow)]
    broken = [item for item in items if isinstance(item, Broken)]
    sections = boardtext.board(flows, limit, finished)
    if session.json:
        output.success(_described(session, sections, broken), "", as_json=True)
        return
    for item in broken:
        output.warn(f"{item.path}: {item.error.message}")
    output.success(None, _shown(session, sections), as_json=False)


def _shown(session: Session, sections: Mapping[str, Section]) -> str:
    if not any(section.total for section in sections.values()):
        return "no flows; gfs create begins one"
    from shlex import join
    from shutil import get_terminal_size

    return boardtext.board_text(
        sections,
        config.now(),
        get_terminal_size((100, 24)).columns,
        more={name: join(words + session.addressed()) for name, words in _LISTS.items()},
        unmanaged=session.unmanaged(),
        paint=output.painted,
    )


_SUMMARY = (
    "id",
    "goal",
    "status",
    "revision",
    "owner",
    "updated_at",
    "progress",
    "next_action",
    "result_ref",
)


def _described(
    session: Session, sections: Mapping[str, Section], broken: list[Broken]
) -> dict[str, Any]:
    unmanaged = session.unmanaged()
    now = config.now()
    data: dict[str, Any] = {
        name: [_row(flow, now, unmanaged) for flow in section.flows]
        for name, section in sections.items()
    }
    data["left"] = {name: section.total - len(section.flows) for name, section in sections.items()}
    data["unusable"] = [{"path": item.path, "message": item.error.message} for item in broken]
    return data


def _row(flow: Flow, now: str, unmanaged: set[str]) -> dict[str, Any]:
    return {
        **{name: getattr(flow, name) for name in _SUMMARY},
        "waiting": codec.to_json(flow.waiting) if flow.waiting else None,
        "failure": codec.to_json(flow.failure) if flow.failure else None,
        "needed_for": tasktables.needed_for(flow),
        "state": due.flow_state(flow, now),
        "unmanaged": flow.id in unmanaged,
    }
