"""What bare `gfs` prints: the state here, the next two commands, a snippet for agents."""

from __future__ import annotations

from gitflowstate import prose
from gitflowstate.cli import output
from gitflowstate.cli.session import Session, quoted
from gitflowstate.documents import Broken
from gitflowstate.errors import NotFound
from gitflowstate.model import Flow

OUTSIDE = """\
gitflowstate keeps the state of long work in Git, so that a new session finds its place.
There is no flow repository here.

  gfs init DIR      make one
  gfs demo          or watch a tour of a real one
"""

SNIPPET = """\
For AGENTS.md:
  ## Work that outlives a session
  Flows are kept by `gfs`; set GFS_REPO={folder} and GFS_ACTOR to your name.
  1. Begin a session with `gfs brief`: open flows, what is done, what comes next.
  2. New work: `gfs create 'GOAL' --next 'FIRST STEP'`; it prints the id.
  3. After each step: `gfs update ID --progress 'WHAT IS DONE' --next 'WHAT IS NEXT'`.
  4. Blocked: `gfs wait ID --reason WHY --until CONDITION`, later `gfs resume ID`.
  5. The end: `gfs done ID --result REF`, or `gfs fail ID --reason WHY --recoverable WHAT`.
  Exit codes: 3 do not retry, 4 read again and decide, 75 run it again. --json for programs.
"""

_SHOWN = 5


def welcome() -> None:
    """Print where this is and what to do next; read only."""
    with Session(verb="gfs", offline=True) as session:
        try:
            place = session.location
        except NotFound as error:
            if "passed" not in error.details:
                raise  # one was named, and moved, say: no place to begin another
            output.success(None, OUTSIDE, as_json=False)
            return
        flows = list(session.store().flows())
        output.success(None, _inside(str(place.folder), flows), as_json=False)


def _inside(folder: str, flows: list[Flow | Broken]) -> str:
    live = [flow for flow in flows if isinstance(flow, Flow)]
    broken = len(flows) - len(live)
    latest = sorted(live, key=lambda flow: flow.updated_at, reverse=True)
    count = f"{len(live)} open flow{'s' if len(live) != 1 else ''}"
    lines = [f"{prose.terminal(folder, lines=False)}: {count}{_broken(broken)}", ""]
    lines += [_line(flow) for flow in latest[:_SHOWN]]
    if len(live) > _SHOWN:
        lines.append(f"  … {len(live) - _SHOWN} more: gfs list")
    lines += [
        *([""] if latest else []),
        *_next_two(latest),
        "",
        SNIPPET.format(folder=quoted(folder)),
    ]
    return "\n".join(lines)


def _broken(count: int) -> str:
    return f", {count} that cannot be used: gfs list names them" if count else ""


def _line(flow: Flow) -> str:
    goal = prose.cut(prose.terminal(flow.goal, lines=False), 50)
    return f"  {flow.id} r{flow.revision} {flow.status}: {goal}"


def _next_two(latest: list[Flow]) -> list[str]:
    if not latest:
        return ["  gfs create 'GOAL' --next 'FIRST STEP'", "  gfs create --help"]
    flow = latest[0].id
    return [f"  gfs brief {flow}", f"  gfs update {flow} --progress TEXT --next TEXT"]
