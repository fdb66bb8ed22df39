"""Owns what the clock makes of documents: derived states, ages, and the messages that are due.

Rules: time enters as an argument, and nothing here is ever stored. A state flags, it decides
nothing: a lease is compared without skew, and only the op `expire` ends one. What a channel is
owed is the comparison of a flow with its receipt, so it cannot get lost (architecture, section 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gitflowstate import graph
from gitflowstate.cursors import Budget, Burst, Cursor, Delivery, Parked
from gitflowstate.kinds import TERMINAL, NoticeKind, Time
from gitflowstate.model import Flow, Task, instant

STALE_AFTER = 3600  # seconds
FLOW_STATES = ("pending", "running", "waiting", "stale", "done", "failed")
TASK_STATES = (
    "ready",
    "blocked",
    "scheduled",
    "claimed",
    "running",
    "waiting",
    "stale",
    "done",
    "failed",
)

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def flow_state(flow: Flow, now: Time, stale_after: int = STALE_AFTER) -> str:
    """Return one of FLOW_STATES: the status, or `stale` for work that nobody seems to be doing.

    A pending or running flow is stale once it was not updated for `stale_after` seconds and no
    lease of its tasks runs (R-TF-37). A waiting flow stays `waiting` however long: it is known
    what it waits for, and silence is no sign of neglect.
    """
    if flow.status not in ("pending", "running"):
        return flow.status
    if elapsed(flow.updated_at, now) < stale_after:
        return flow.status
    return flow.status if any(_held(task, now) for task in flow.children) else "stale"


def task_states(flow: Flow, now: Time) -> dict[str, str]:
    """Return the state of each task by its id, one of TASK_STATES, in the order of the document.

    `stale` is a claim past its lease, or a `running` that somebody wrote by hand. `ready` is what
    `graph` says, `scheduled` what only the clock holds back; any other open task is `blocked`, and
    so is each of a flow that is waiting or has ended.
    """
    done = graph.completed(flow)
    return {task.id: _state(flow, task, now, done) for task in flow.children}


def _state(flow: Flow, task: Task, now: Time, done: set[str]) -> str:
    if task.status in TERMINAL or task.status == "waiting":
        return task.status
    if _held(task, now):
        return "running" if task.status == "running" else "claimed"
    if task.claim or task.status == "running":
        return "stale"
    if not graph.is_open(flow):
        return "blocked"
    if graph.is_due(task, done, now):
        return "ready"
    # Due at its own time, so nothing else is in the way.
    due_then = task.not_before is not None and graph.is_due(task, done, task.not_before)
    return "scheduled" if due_then else "blocked"


def _held(task: Task, now: Time) -> bool:
    if task.claim is None:
        return False
    # What serves a task has no lease: its end frees it, and nothing else.
    return task.process is not None or _before(now, task.claim.until)


def _before(one: Time, other: Time) -> bool:
    return instant(one) < instant(other)


def elapsed(then: Time, now: Time) -> int:
    """Return the whole seconds from `then` to `now`, negative when `then` is still to come."""
    from datetime import datetime, timedelta  # noqa: PLC0415  start-up: writing verbs need no ages

    between = datetime.fromisoformat(now) - datetime.fromisoformat(then)
    return int(between / timedelta(seconds=1))


def span(seconds: int) -> str:
    """Return a length of time in its largest whole unit, such as `3 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def age(then: Time, now: Time) -> str:
    """Return how long ago a time was, such as `3 h ago`, or how far off it is, `in 5 min`."""
    seconds = elapsed(then, now)
    if seconds == 0:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


# ── what a channel is owed ──────────────────────────────────────────────────────────────────────

INTERVAL_S = 110  # between two updates of one status message (R-TF-43)
MUTED = 2  # removals of the status message after which it is not made again
DAY_S = 86_400  # how far ahead a time is believed: a clock may have been set back since
SKEW_S = 3600  # how far apart the clocks of two runs are believed to be
HOUR_S = 3600
BURST_S = 300  # what is sent within so long is counted together
UNDATED = "0001-01-01T00:00:00Z"  # an entry into waiting that an import did not date
_FIRST_RETRY_S = 300
_ORDER = {"final": 0, "waiting": 1, "status": 2}


class Rules(NamedTuple):
    """What one channel wants to hear of, and how often; an empty filter lets all pass.

    `linked` lets only flows pass that name an issue: there is no other place to tell of them.
    """

    interval_s: int = INTERVAL_S
    labels: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    per_hour: int | None = None
    linked: bool = False


class Reported(NamedTuple):
    """A flow, the digest of its document, and what its channel was last told of it."""

    flow: Flow
    digest: str
    receipt: Delivery | None


class Owed(NamedTuple):
    """One message that is due about a flow: `kind` is `final`, `waiting` or `status`."""

    flow: Flow
    kind: NoticeKind


def entry(flow: Flow) -> Time | None:
    """Return since when a flow waits for a human, or None when it does not."""
    if flow.status != "waiting" or flow.waiting is None or flow.waiting.on != "human":
        return None
    return flow.waiting.since or UNDATED


def owed(item: Reported, rules: Rules) -> list[NoticeKind]:
    """Return the kinds of message that are owed about a flow, whenever they may be sent.

    A new message for an end and for each entry into waiting on a human; the status message for
    every later revision, and once more after the end if there is one (R-TF-40, R-TF-44).
    """
    flow, digest, receipt = item
    if not _wanted(flow, rules):
        return []
    found: list[NoticeKind] = []
    told = receipt or Delivery(schema_version=1, revision=0)
    ended = flow.status in TERMINAL
    since = entry(flow)
    if ended and (
        told.terminal_revision != flow.revision or _is_other(told.terminal_digest, digest)
    ):
        found.append("final")
    if since is not None and told.waiting_since != since:
        found.append("waiting")
    later = flow.revision > told.revision or (
        flow.revision == told.revision and _is_other(told.digest, digest)
    )
    if later and told.gone < MUTED and (told.message is not None or not (ended or found)):
        found.append("status")
    return found


def _is_other(told: str | None, digest: str) -> bool:
    """Tell whether history was rewritten: the same revision, and another document."""
    return told is not None and told != digest


def _wanted(flow: Flow, rules: Rules) -> bool:
    return (
        (not rules.labels or bool({*rules.labels} & {*flow.labels}))
        and (not rules.owners or flow.owner in rules.owners)
        and (not rules.statuses or flow.status in rules.statuses)
        and (not rules.linked or any(link.rel == "issue" for link in flow.links))
    )


def notices(items: Iterable[Reported], cursor: Cursor, now: Time, rules: Rules) -> list[Owed]:
    """Return the messages that are due now: ends first, then waits, then the oldest status.

    An end and an entry into waiting skip the interval, never what the channel itself asked for
    (C-21); a parked message is due when its time has come, or when an end follows it. The flows
    that the last pass failed at come last, so that they cannot keep others waiting for ever.
    """
    room = allowance(cursor.budget, now, rules)
    failed = cursor.budget.failed if cursor.budget else ()
    found: list[tuple[tuple[bool, int, str, str], Owed]] = []
    for item in items if room != 0 else ():
        kinds = owed(item, rules)
        for kind in kinds:
            if _due(kind, kinds, item, now, rules):
                sent = item.receipt.sent_at if item.receipt else None
                last = item.flow.id in failed
                rank = (last, _ORDER[kind], instant(sent) if sent else "", item.flow.id)
                found.append((rank, Owed(item.flow, kind)))
    found.sort(key=lambda pair: pair[0])
    return [each for _, each in found[:room]]


def _due(
    kind: NoticeKind, kinds: list[NoticeKind], item: Reported, now: Time, rules: Rules
) -> bool:
    flow, _, receipt = item
    if receipt is None:
        return True
    if receipt.parked is not None and not _unparked(receipt.parked, kind, flow, now):
        return False
    if kind != "status" or "waiting" in kinds or flow.status in TERMINAL:
        return True
    return receipt.sent_at is None or not 0 <= elapsed(receipt.sent_at, now) < rules.interval_s


def _unparked(parked: Parked, kind: str, flow: Flow, now: Time) -> bool:
    if kind == "final" and (parked.kind, parked.revision) != ("final", flow.revision):
        return True
    if kind == "waiting" and parked.kind == "status":
        return True
    return not 0 < elapsed(now, parked.next) <= DAY_S


def allowance(budget: Budget | None, now: Time, rules: Rules) -> int | None:
    """Return how many messages may be sent now; None where nothing bounds it."""
    if silent_until(budget, now) is not None:
        return 0
    if rules.per_hour is None:
        return None
    return max(0, rules.per_hour - counted(budget, now))


def silent_until(budget: Budget | None, now: Time) -> Time | None:
    """Return until when the channel wants silence; None where it does not."""
    until = budget.until if budget is not None else None
    return until if until is not None and 0 < elapsed(now, until) <= DAY_S + SKEW_S else None


def counted(budget: Budget | None, now: Time) -> int:
    """Return how many messages were sent within the last hour, and up to five minutes before."""
    return sum(burst.count for burst in _recent(budget, now))


def _recent(budget: Budget | None, now: Time) -> list[Burst]:
    """Return what still counts; what lies ahead is of a clock that was set back."""
    bursts = budget.sent if budget is not None else ()
    return [each for each in bursts if -SKEW_S <= elapsed(each.since, now) < HOUR_S + BURST_S]


def back_off(tries: int, first_s: int = _FIRST_RETRY_S) -> int:
    """Return after how many seconds to try again what failed `tries` times: a day at most."""
    return min(first_s << min(tries - 1, 20), DAY_S)


def spent(budget: Budget | None, now: Time) -> Budget:
    """Return the budget after one more message that arrived, or may have."""
    recent = _recent(budget, now)
    if recent and elapsed(recent[0].since, now) < BURST_S:
        newest, *rest = recent
        return Budget(sent=(newest.replace(count=newest.count + 1), *rest))
    return Budget(sent=(Burst(since=now, count=1), *recent))


def silenced(budget: Budget | None, until: Time, reason: str, tries: int) -> Budget:
    """Return the budget of a channel that wants silence until a time.

    `tries` counts how often in a row it did not say for how long.
    """
    return (budget or Budget()).replace(until=until, reason=reason, tries=tries)
