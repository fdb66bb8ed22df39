"""The channels of gfs.toml: which there are, what they are owed, and how to begin one anew."""

from __future__ import annotations

from typing import Any

from gitflowstate import prose
from gitflowstate.cli import config, output
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads
from gitflowstate.cli.watch import ChannelArgument, policy_of
from gitflowstate.cursors import cursor_ref
from gitflowstate.errors import Corrupt, Denied, NotFound


@reads
def list_(session: Session) -> None:
    """List the channels: how far each has looked, what it is owed, and what it does not take.

    Example: gfs channel list
    """
    from gitflowstate.cli import places
    from gitflowstate.sharing import SharedRefs

    with places.opened(session, looking=True) as place:
        known = place.settings()
        names = sorted(known.channels)
        if isinstance(place.refs, SharedRefs):
            place.refs.ask(map(cursor_ref, names))
        rows = [_described(place, name, known) for name in names]
        broken = [{"channel": name, "problem": why} for name, why in sorted(known.broken.items())]
    policy_of(known)
    for row in broken:
        output.warn(f"channel {row['channel']} is not used: {row['problem']}")
    text = "\n".join(_shown(row) for row in rows)
    output.success({"channels": rows, "broken": broken}, text, as_json=session.json)


def _described(place: Any, name: str, known: Any) -> dict[str, Any]:  # noqa: ANN401  imported late
    from gitflowstate.cli.watch import rules_of
    from gitflowstate.cursors import Cursor
    from gitflowstate.due import silent_until
    from gitflowstate.looking import look

    asked, cursors = known.channel(name), place.cursors(name)
    try:
        cursor = cursors.load() or Cursor(schema_version=1)
    except Corrupt as lie:  # the others are listed all the same
        cursors.problems.append(lie.message)
        cursor = Cursor(schema_version=1)
    row: dict[str, Any] = {"channel": name, "kind": asked.kind, "begun": cursor.head is not None}
    if cursor.head is not None:
        seen = look(place.flows, cursors, rules_of(asked), cursor)
        row |= {"owed": seen.owed(), "parked": seen.parked()}
    row["held_by"] = cursor.hold.by if cursor.hold else None
    row["silent_until"] = silent_until(cursor.budget, config.now())
    row["problems"] = list(cursors.problems)
    return row


def _shown(row: dict[str, Any]) -> str:
    name, details = row["channel"], list(row["problems"])
    if row["begun"]:
        state = f"{prose.count(len(row['owed']), 'flow')} owed" if row["owed"] else "nothing owed"
        state += f", silent until {row['silent_until']}" if row["silent_until"] else ""
        details[:0] = [f"{flow} is not taken: {why}" for flow, why in row["parked"].items()]
    elif details:
        state = "its cursor cannot be read"
    else:
        state = f"not begun; gfs watch {name} --once begins it"
    head = output.line(f"{name} ({row['kind']}): {state}")
    return "\n".join([head, *(f"  {output.line(each)}" for each in details)])


@reads
def check(session: Session, channel: ChannelArgument) -> None:
    """Check that a channel can be used: settings, variables, service, cursor. Nothing is sent.

    Example: gfs channel check github
    """
    from gitflowstate.adapters import registry
    from gitflowstate.cli import places

    with places.opened(session, channel, looking=True) as place:
        known = place.settings()
        asked = known.channel(channel)
        policy_of(known)
        if asked.fallback is not None:
            known.channel(asked.fallback)
        made = registry.make(
            channel,
            asked,
            config.environment(),
            clock=config.Clock(),
            folder=session.location.folder,
        )
        can = made.capabilities
        try:
            found = made.examine() if hasattr(made, "examine") else []
        finally:
            made.close()
        found += _cursor_place(place, channel)
        cursors = place.cursors(channel)
        cursor = cursors.load()
    for problem in cursors.problems:
        output.warn(problem)
    data = {
        "channel": channel,
        "kind": asked.kind,
        "edits": can.edits,
        "searches": can.searches,
        "limit": can.limit,
        "begun": cursor is not None,
        "found": found,
    }
    does = "edits its messages" if can.edits else "cannot edit its messages"
    finds = "finds them again" if can.searches else "cannot be searched: a message may come twice"
    lines = [f"{channel} ({asked.kind}) can be used; it {does} and {finds}", *found]
    text = "\n  ".join(map(output.line, lines))
    output.success(data, text, as_json=session.json)


def _cursor_place(place: Any, channel: str) -> list[str]:  # noqa: ANN401  imported late
    """Try whether a cursor can be kept where it belongs; return what is known of that.

    Raises Denied where it cannot.
    """
    from gitflowstate import checkup
    from gitflowstate.sharing import SharedRefs

    if isinstance(place.refs, SharedRefs):
        place.refs.remote.try_push(cursor_ref(channel), place.head)
        return ["its cursor can be pushed to the origin, unless a rule or a hook there refuses it"]
    for finding in checkup.access(place.repo.gitdir):
        raise Denied(f"its cursor cannot be kept: {finding.problem}", hint=finding.next)
    return []


@reads
def reset(session: Session, channel: ChannelArgument) -> None:
    """Begin a channel anew: what was told so far counts for nothing, and stays in history.

    The next pass looks at every flow. Messages that it finds on the channel are kept and edited.
    Example: gfs channel reset github
    """
    from gitflowstate import looking
    from gitflowstate.cli import places

    with places.opened(session, channel) as place:
        place.settings().channel(channel)
        cursors = place.cursors(channel)
        loaded = cursors.load()
        if loaded is None and not cursors.problems:
            raise NotFound(
                f"{channel} has no cursor yet", hint=f"gfs watch {channel} --once begins it"
            )
        op = looking.begin_anew(loaded, channel, session.actor, config.now())
        cursors.commit(op)
    text = f"{channel} begins anew; gfs watch {channel} --once looks at every flow"
    output.success({"channel": channel, "reset": True}, text, as_json=session.json)
