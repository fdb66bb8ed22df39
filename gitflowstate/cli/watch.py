"""`gfs watch`: tells a channel what has changed, once or again and again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from gitflowstate import prose
from gitflowstate.cli import config, output
from gitflowstate.cli.session import SHARED_SKEW_S, Session
from gitflowstate.cli.verb import reads
from gitflowstate.delivery import Unauthorised
from gitflowstate.due import Rules
from gitflowstate.errors import GfsError, Invalid, Unavailable, Usage
from gitflowstate.model import Flow
from gitflowstate.reports import Report
from gitflowstate.settings import ChannelSettings, Policy, Settings

PER_HOUR = {"github": 400}  # messages; of the 500 that GitHub takes
EVERY_S = 120  # where gfs.toml could not be read
_LISTED = 10

ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel of gfs.toml.")]


@reads
def watch(
    session: Session,
    channel: ChannelArgument,
    once: Annotated[bool, typer.Option("--once", help="Make one pass, and leave.")] = False,
    every: Annotated[
        Optional[str],  # noqa: UP045  evaluated by typer
        typer.Option("--every", metavar="120", help="How long to wait; else as gfs.toml says."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent; write nothing.")
    ] = False,
    backfill: Annotated[
        bool, typer.Option("--backfill", help="Also what had ended before the first pass.")
    ] = False,
) -> None:
    """Tell a channel what has changed in the flows: one message each, edited as the work goes on.

    It stays, and looks again and again; with --once it makes one pass, for cron or a timer. No end
    is lost, and nothing is sent twice where the channel can be searched.
    Example: gfs watch console --once
    """
    if every is not None and (once or dry_run):
        raise Usage("--every is for a watcher that stays", hint="leave --every out")
    seconds = None if every is None else config.seconds_of(every, "--every")
    if dry_run:
        _preview(session, channel, backfill=backfill)
    elif once:
        report, _ = _pass(session, channel, backfill=backfill)
        _tell(session, channel, report)
    else:
        _stay(session, channel, seconds, backfill=backfill)


def _pass(session: Session, channel: str, *, backfill: bool) -> tuple[Report, int]:
    """Make one pass; return its report, and how often the channel wants one, in seconds."""
    from gitflowstate.cli import places

    with places.opened(session, channel) as place:
        watcher = _watcher(session, place, channel, backfill=backfill)
        return watcher.run(), place.settings().channel(channel).every


def _watcher(session: Session, place: Any, channel: str, *, backfill: bool) -> Any:  # noqa: ANN401  imported late
    from gitflowstate.adapters import registry
    from gitflowstate.watcher import Settings as Watched
    from gitflowstate.watcher import Watcher

    known: Settings = place.settings()
    asked = known.channel(channel)
    environ, clock = config.environment(), config.Clock()
    show = _show(session)

    def opened(name: str, wanted: ChannelSettings, author: str | None = None) -> Any:  # noqa: ANN401  a channel
        folder = session.location.folder
        given: Any = {"clock": clock, "folder": folder, "show": show, "author": author}
        return registry.make(name, wanted, environ, **given)

    watched = Watched(
        channel,
        session.actor,
        config.mint_worker("watch"),
        rules=rules_of(asked),
        skew_s=_skew_s(known, place),
        backfill=backfill,
        target=target_of(asked),
    )
    other = asked.fallback
    return Watcher(
        watched,
        place.flows,
        place.cursors(channel),
        lambda cursor: opened(channel, asked, cursor.author_id),
        clock,
        None if other is None else lambda: opened(other, known.channel(other)),
    )


def _skew_s(known: Settings, place: Any) -> int:  # noqa: ANN401  imported late
    """Return the allowance for other clocks; the longer one where the policy does not say it."""
    policy = policy_of(known)
    if policy is None:
        return SHARED_SKEW_S
    chosen: int = place.skew_s if policy.skew is None else policy.skew
    return chosen


def policy_of(known: Settings) -> Policy | None:
    """Return the policy, or None after a warning: what is wrong there keeps no channel silent."""
    try:
        return known.policy
    except Invalid as wrong:
        output.warn(f"the policy is not used: {wrong.message}")
        return None


def _show(session: Session) -> Callable[[str], None] | None:
    """Return what prints messages of the console; standard output is for the one document."""
    return output.aside if session.json else None


def rules_of(asked: ChannelSettings) -> Rules:
    """Return what a channel wants to hear of, and how often."""
    return Rules(
        asked.min_interval,
        asked.labels,
        asked.owners,
        asked.statuses,
        per_hour=PER_HOUR.get(asked.kind),
        linked=asked.kind == "github" and asked.target is None,
    )


def target_of(asked: ChannelSettings) -> Callable[[Flow], str | None]:
    """Return what says where messages about a flow go: to its issue, else where all go."""

    def target(flow: Flow) -> str | None:
        issues = (link.href for link in flow.links if link.rel == "issue")
        return next(issues, asked.target) if asked.kind == "github" else asked.target

    return target


# ── one pass ────────────────────────────────────────────────────────────────────────────────────


def _tell(session: Session, channel: str, report: Report) -> None:
    """Print what a pass did, or raise what it could not do."""
    for warning in report.warnings:
        output.warn(warning)
    data, text = data_of(channel, report), summary(channel, report)
    if report.failed or report.uncertain:
        raise Unavailable(
            f"{text}: {prose.count(report.failed, 'message')} could not be sent, "
            f"{report.uncertain} may have been",
            hint="run the same command again: it looks for what may have arrived",
            **data,
        )
    if report.parked:
        named = "; ".join(f"{flow}: {why}" for flow, why in [*report.parked.items()][:_LISTED])
        raise GfsError(
            f"{text}; {channel} does not take what is about {named}",
            hint="gfs channel list; it is tried again, up to once a day",
            **data,
        )
    output.success(data, text, as_json=session.json)


def data_of(channel: str, report: Report) -> dict[str, Any]:
    """Return what a pass did as JSON."""
    return {
        "channel": channel,
        "sent": [told._asdict() for told in report.told],
        "owed": list(report.owed),
        "parked": report.parked,
        "skipped": report.skipped,
        "uncertain": report.uncertain,
        "failed": report.failed,
        "held_by": report.held_by,
        "silent_until": report.silent_until,
        "warnings": list(report.warnings),
    }


def summary(channel: str, report: Report) -> str:
    """Return what a pass did, on one line."""
    parts = [f"{len(report.told)} sent" if report.told else "nothing sent"]
    if report.owed:
        parts.append(f"{prose.count(len(report.owed), 'flow')} owed")
    if report.parked:
        parts.append(f"{len(report.parked)} parked")
    if report.skipped:
        parts.append(f"{report.skipped} had ended long ago (--backfill sends them)")
    if report.silent_until:
        parts.append(f"silent until {report.silent_until}")
    if report.held_by:
        parts.append(f"held by {report.held_by}")
    return f"{channel}: {', '.join(parts)}"


def _preview(session: Session, channel: str, *, backfill: bool) -> None:
    from gitflowstate.adapters import registry
    from gitflowstate.cli import places

    with places.opened(session, channel, looking=True) as place:
        kind = place.settings().channel(channel).kind
        watcher = _watcher(session, place, channel, backfill=backfill)
        report, planned = watcher.preview(registry.LIMITS[kind])
    for warning in report.warnings:
        output.warn(warning)
    messages = [{"edits": edits, **notice._asdict()} for notice, edits in planned]
    lines = [
        f"{channel}: {prose.count(len(planned), 'message')} would be sent; nothing was written"
    ]
    for notice, edits in planned:
        how = f"edits {edits}" if edits else "new"
        about = f"{notice.flow} r{notice.revision} {notice.kind}"
        lines += ["", output.line(f"── {about}, {how}: {notice.title}"), output.safe(notice.text)]
    data = {**data_of(channel, report), "dry_run": True, "planned": messages}
    output.success(data, "\n".join(lines), as_json=session.json)


# ── again and again ─────────────────────────────────────────────────────────────────────────────


def _stay(session: Session, channel: str, every_s: int | None, *, backfill: bool) -> None:
    """Make passes until somebody ends it; of what fails, only wrong credentials do.

    At the first pass, whatever does not mend itself does too: somebody is there to see it.
    """
    gc.enable()  # this one may live for months
    from gitflowstate.cli.idle import Idle

    pause, first = every_s or EVERY_S, True
    idle = Idle(session.location)
    while True:
        try:
            report, wanted = _pass(session, channel, backfill=backfill)
        except Unauthorised:
            raise
        except GfsError as error:
            if first and error.code != Unavailable.code:
                raise  # mistyped, perhaps: nobody waits for that to mend itself
            output.warn(f"{channel}: {error.message}")
        except Exception as error:
            if first or config.debug():
                raise
            output.warn(f"{channel}: a bug in gfs: {type(error).__name__}: {str(error)[:200]}")
        else:
            pause = every_s or wanted
            _say(channel, report, pause)
            idle()
        first = False
        time.sleep(pause)


def _say(channel: str, report: Report, every_s: int) -> None:
    for warning in report.warnings:
        output.warn(warning)
    line = summary(channel, report)
    if report.told or report.failed or report.uncertain:
        output.aside(f"{config.now()} {line}")
    else:
        output.progress(f"{config.now()} {line}; again in {every_s} s")
