"""What a watcher is asked, and what it answers: settings, messages, reports.

Rule: values alone; the same record gives the same message, byte for byte (R-TF-49).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gitflowstate import due, statusmessage
from gitflowstate.due import Owed
from gitflowstate.kinds import Time
from gitflowstate.looking import Look
from gitflowstate.model import Flow
from gitflowstate.ports import Notice


class Settings(NamedTuple):
    """How one channel is watched; `holder` is unique to one run, times are in seconds."""

    channel: str
    by: str
    holder: str
    rules: due.Rules = due.Rules()
    skew_s: int = 0
    backfill: bool = False
    target: Callable[[Flow], str | None] = lambda _: None


class Told(NamedTuple):
    """One message that is there now."""

    flow: str
    kind: str
    revision: int
    message: str


class Report(NamedTuple):
    """What one pass did, and what it left.

    `uncertain` counts messages that may have arrived, `failed` those that did not; `skipped` the
    flows that the first pass takes as acknowledged.
    """

    told: tuple[Told, ...] = ()
    owed: tuple[str, ...] = ()
    parked: dict[str, str] = {}  # noqa: RUF012  nothing changes it
    skipped: int = 0
    uncertain: int = 0
    failed: int = 0
    held_by: str | None = None
    silent_until: Time | None = None
    warnings: tuple[str, ...] = ()


def left(seen: Look) -> Report:
    """Return what a look leaves where nothing is sent."""
    return Report(
        owed=tuple(seen.owed()),
        parked=seen.parked(),
        skipped=len(seen.ended),
        warnings=tuple(seen.warnings),
    )


def notice_of(owed: Owed, limit: int, target: str | None) -> Notice:
    """Return the message that is owed: of the same record always the same bytes (R-TF-49)."""
    flow, kind = owed
    text = statusmessage.text(flow, kind=kind, limit=limit)
    return Notice(flow.id, kind, flow.revision, target, statusmessage.title(flow, kind), text)
