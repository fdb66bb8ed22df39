"""What a channel is owed is a comparison: of a flow with its receipt, of times with the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AT, flow

from gitflowstate import codec, cursormachine, due
from gitflowstate.cursors import Budget, Burst, Cursor, Delivery, Parked, receipt_path
from gitflowstate.due import Reported, Rules
from gitflowstate.model import Link, Waiting
from gitflowstate.watchops import Ack

RULES = Rules()
CURSOR = Cursor(schema_version=1, head="a" * 40)
NOW = "2026-09-06T12:00:00Z"
STATUSES = ("pending", "running", "waiting", "done", "failed")


def after(seconds: int, start: str = NOW) -> str:
    """Return a time."""
    from datetime import datetime, timedelta

    return f"{datetime.fromisoformat(start) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def told(**fields) -> Delivery:
    return Delivery(schema_version=1, **{"revision": 3} | fields)


def reported(document, receipt: Delivery | None = None) -> Reported:
    return Reported(document, codec.digest(codec.encode(document)), receipt)


def kinds(document, receipt=None, *, now=NOW, rules=RULES, cursor=CURSOR) -> list[str]:
    items = [reported(document, receipt)]
    return [each.kind for each in due.notices(items, cursor, now, rules)]


def acked(document, kind: str, receipt: Delivery | None, at: str = NOW, *, edits=True) -> Delivery:
    """Return the receipt after a message arrived, as the watcher records it."""
    since = due.entry(document)
    if kind != "waiting" and since is not None:
        since = receipt.waiting_since if receipt else None
    ack = Ack(
        at=at, by="w", channel="c", flow=document.id, revision=document.revision, kind=kind,
        message="m1", digest=reported(document).digest, since=since, edits=edits,
    )  # fmt: skip
    path = receipt_path(document.id)
    found = cursormachine.apply(ack, {path: receipt})[path]
    assert isinstance(found, Delivery)
    return found


# ── what is owed ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-40")
@pytest.mark.parametrize(
    ("status", "receipt", "expected"),
    [
        ("pending", None, ["status"]),
        ("running", None, ["status"]),
        ("waiting", None, ["waiting"]),
        ("done", None, ["final"]),
        ("failed", None, ["final"]),
        ("running", told(revision=3, message="m"), []),
        ("running", told(revision=2, message="m"), ["status"]),
        ("running", told(revision=2), ["status"]),
        ("running", told(revision=4, message="m"), []),
        ("running", told(revision=2, gone=2), []),
        ("running", told(revision=2, gone=1, message="m"), ["status"]),
        ("waiting", told(revision=2, message="m"), ["waiting", "status"]),
        ("waiting", told(revision=2, message="m", waiting_since=AT), ["status"]),
        ("waiting", told(revision=3, message="m", waiting_since=AT), []),
        ("waiting", told(revision=2, waiting_since=AT), ["status"]),
        ("waiting", told(revision=2, gone=2), ["waiting"]),
        ("done", told(revision=2, message="m"), ["final", "status"]),
        ("done", told(revision=2), ["final"]),
        ("done", told(revision=2, message="m", terminal_revision=3), ["status"]),
        ("done", told(revision=3, message="m", terminal_revision=3), []),
        ("done", told(revision=3, terminal_revision=2), ["final"]),
        ("done", told(revision=5, terminal_revision=5), ["final"]),
        ("done", told(revision=2, gone=2), ["final"]),
    ],
)
def test_what_is_owed(status, receipt, expected):
    assert due.owed(reported(flow(status), receipt), RULES) == expected


@pytest.mark.parametrize("on", ["agent", "external"])
def test_waiting_on_anything_but_a_human_is_plain_progress(on):
    document = flow("waiting", waiting=Waiting(reason="r", condition="c", on=on, since=AT))
    assert due.owed(reported(document), RULES) == ["status"]


def test_an_undated_wait_is_announced_once():
    document = flow("waiting", waiting=Waiting(reason="r", condition="c", on="human"))
    receipt = acked(document, "waiting", None)
    assert receipt.waiting_since == due.UNDATED
    assert due.owed(reported(document, receipt), RULES) == []


@pytest.mark.req("L12")
def test_a_rewritten_document_of_the_same_revision_is_another_one():
    document = flow("done")
    receipt = acked(document, "final", None)
    assert due.owed(reported(document, receipt), RULES) == []
    rewritten = document.replace(result_ref="out/other.md")
    assert due.owed(reported(rewritten, receipt), RULES) == ["final"]


def test_an_end_that_was_acknowledged_is_not_repeated_after_a_roll_back():
    document = flow("done", revision=3)
    receipt = acked(document, "final", told(revision=2, message="m1"))
    reopened = flow("running", revision=4)
    receipt = acked(reopened, "status", receipt)
    assert due.owed(reported(document, receipt), RULES) == []


@pytest.mark.parametrize(
    ("rules", "passes"),
    [
        (Rules(), True),
        (Rules(labels=("b", "c")), True),
        (Rules(labels=("c",)), False),
        (Rules(owners=("ann", "bob")), True),
        (Rules(owners=("bob",)), False),
        (Rules(statuses=("running",)), True),
        (Rules(statuses=("done", "failed")), False),
        (Rules(labels=("b",), owners=("bob",)), False),
    ],
)
def test_filters_say_which_flows_a_channel_hears_of(rules, passes):
    document = flow("running", labels=("a", "b"))
    assert bool(kinds(document, rules=rules)) is passes


def test_a_channel_without_a_place_of_its_own_hears_of_flows_that_name_an_issue():
    rules = Rules(linked=True)
    issue, other = (Link(rel=rel, href="ann/flows#12") for rel in ("issue", "report"))
    assert kinds(flow(links=(other, issue)), rules=rules) == ["status"]
    assert kinds(flow(links=(other,)), rules=rules) == []


# ── what is due ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-43", "C-21")
@pytest.mark.parametrize(
    ("seconds", "interval", "expected"),
    [
        (60, 110, []),
        (109, 110, []),
        (110, 110, ["status"]),
        (0, 0, ["status"]),
        (-30 * 86_400, 110, ["status"]),  # the clock was set back
    ],
)
def test_the_interval_holds_for_the_status_message(seconds, interval, expected):
    receipt = told(revision=2, message="m", sent_at=NOW)
    rules = Rules(interval_s=interval)
    assert kinds(flow(), receipt, now=after(seconds), rules=rules) == expected


@pytest.mark.req("C-21")
@pytest.mark.parametrize(
    ("status", "expected"), [("done", ["final", "status"]), ("waiting", ["waiting", "status"])]
)
def test_an_end_and_an_entry_into_waiting_skip_the_interval(status, expected):
    receipt = told(revision=2, message="m", sent_at=NOW)
    assert kinds(flow(status), receipt, now=after(1)) == expected


def test_a_wait_that_is_known_waits_for_the_interval():
    receipt = told(revision=2, message="m", sent_at=NOW, waiting_since=AT)
    assert kinds(flow("waiting"), receipt, now=after(1)) == []
    assert kinds(flow("waiting"), receipt, now=after(110)) == ["status"]


def test_ends_come_first_then_waits_then_the_oldest_status():
    items = [
        reported(flow("running", id="f-a"), told(revision=1, message="m", sent_at=after(-200))),
        reported(flow("running", id="f-b"), told(revision=1, message="m", sent_at=after(-900))),
        reported(flow("waiting", id="f-c")),
        reported(flow("failed", id="f-e")),
        reported(flow("done", id="f-d")),
        reported(flow("running", id="f-f")),
    ]
    found = due.notices(items, CURSOR, NOW, RULES)
    assert [(each.flow.id, each.kind) for each in found] == [
        ("f-d", "final"), ("f-e", "final"), ("f-c", "waiting"),
        ("f-f", "status"), ("f-b", "status"), ("f-a", "status"),
    ]  # fmt: skip
    assert due.notices(items, CURSOR, NOW, Rules(per_hour=2)) == found[:2]


def sent(seconds, count):
    return Burst(since=after(seconds), count=count)


@pytest.mark.req("C-21")
@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, ["final"]),
        (Budget(until=after(1), reason="slow down"), []),
        (Budget(until=NOW, reason="slow down"), ["final"]),
        (Budget(until=after(366 * 86_400), reason="slow down"), ["final"]),  # set back since
        (Budget(until=after(86_405), reason="slow down"), []),  # by a clock that is 5 s ahead
        (Budget(sent=(sent(-10, 400),)), []),
        (Budget(sent=(sent(-10, 399),)), ["final"]),
        (Budget(sent=(sent(-10, 1), sent(-3899, 399))), []),
        (Budget(sent=(sent(-10, 1), sent(-3900, 399))), ["final"]),
        (Budget(sent=(sent(100, 400),)), []),
        (Budget(sent=(sent(4000, 400),)), ["final"]),
    ],
)
def test_nothing_skips_what_the_channel_asked_for(budget, expected):
    cursor = CURSOR.replace(budget=budget)
    assert kinds(flow("done"), cursor=cursor, rules=Rules(per_hour=400)) == expected


def test_without_a_limit_nothing_is_counted_against_it():
    cursor = CURSOR.replace(budget=Budget(sent=(sent(0, 10_000),)))
    assert kinds(flow("done"), cursor=cursor) == ["final"]


def test_what_is_spent_counts_for_an_hour():
    budget = None
    for minute in range(3):
        budget = due.spent(budget, after(60 * minute))
    assert budget == Budget(sent=(sent(0, 3),))
    later = due.spent(budget, after(300))
    assert later == Budget(sent=(sent(300, 1), sent(0, 3)))
    assert due.spent(later, after(3900)) == Budget(sent=(sent(3900, 1), sent(300, 1)))


@given(st.lists(st.integers(0, 400), max_size=200))
def test_no_hour_whatever_holds_more_than_is_allowed(pauses):
    """Wherever the hour begins, since what is counted together is never counted too short."""
    rules, budget, now, times = Rules(per_hour=20), None, 0, []
    for pause in pauses:
        now += pause
        if due.allowance(budget, after(now), rules):
            budget = due.spent(budget, after(now))
            times.append(now)
    assert all(sum(start <= each < start + 3600 for each in times) <= 20 for start in times)


def test_silence_is_counted_until_something_arrives():
    silent = due.silenced(due.spent(None, NOW), after(60), "slow down", 1)
    silent = due.silenced(silent, after(120), "slow down", 2)
    assert (silent.tries, silent.until, silent.sent) == (2, after(120), (sent(0, 1),))
    assert due.spent(silent, after(200)) == Budget(sent=(sent(0, 2),))


def test_flows_that_got_no_answer_come_last():
    cursor = CURSOR.replace(budget=Budget(failed=("f-1", "f-2")))
    ended = [flow("done", id=name) for name in ("f-1", "f-2", "f-3")]
    items = [reported(each) for each in (*ended, flow("running", id="f-4"))]
    found = due.notices(items, cursor, NOW, Rules())
    assert [each.flow.id for each in found] == ["f-3", "f-4", "f-1", "f-2"]


def parked(**fields) -> Delivery:
    known = {"reason": "locked", "kind": "status", "revision": 2, "since": NOW, "tries": 1}
    return told(revision=1, parked=Parked(**known | {"next": after(300)} | fields))


@pytest.mark.parametrize(
    ("document", "receipt", "seconds", "expected"),
    [
        (flow("running"), parked(), 299, []),
        (flow("running"), parked(), 300, ["status"]),
        (flow("running"), parked(next=after(400 * 86_400)), 0, ["status"]),  # set back since
        (flow("done"), parked(), 0, ["final"]),
        (flow("done"), parked(kind="final", revision=3), 0, []),
        (flow("done"), parked(kind="final", revision=3), 300, ["final"]),
        (flow("done"), parked(kind="final", revision=2), 0, ["final"]),
        (flow("waiting"), parked(), 0, ["waiting"]),
        (flow("waiting"), parked(kind="waiting", revision=2), 0, []),
        (flow("done"), parked(kind="waiting", revision=2), 0, ["final"]),
    ],
)
def test_what_is_parked_waits_for_its_time_or_for_an_end(document, receipt, seconds, expected):
    assert kinds(document, receipt, now=after(seconds)) == expected


def test_tries_come_more_and_more_seldom_up_to_once_a_day():
    assert [due.back_off(tries) for tries in (1, 2, 3, 9, 10, 500)] == [
        300, 600, 1200, 76_800, 86_400, 86_400,
    ]  # fmt: skip


# ── laws ────────────────────────────────────────────────────────────────────────────────────────

lives = st.lists(st.sampled_from(STATUSES), min_size=1, max_size=8)


def document_at(revision: int, status: str):
    since = after(revision)
    waiting = Waiting(reason="r", condition="c", on="human", since=since)
    extra = {"waiting": waiting} if status == "waiting" else {}
    return flow(status, revision=revision, updated_at=since, **extra)


@pytest.mark.req("R-TF-40", "R-TF-42", "R-TF-44")
@given(lives, st.booleans(), st.lists(st.booleans(), min_size=8, max_size=8))
def test_after_all_that_is_due_was_sent_nothing_is_owed_and_ends_were_told(life, edits, looks):
    """Whatever a flow lives through and whenever one looks, the last look leaves nothing owed."""
    receipt, finals, news = None, [], 0
    for revision, status in enumerate(life, 1):
        document = document_at(revision, status)
        if not (looks[revision - 1] or revision == len(life)):
            continue
        for _ in range(5):
            now = after(200 * revision)
            found = kinds(document, receipt, now=now)
            if not found:
                break
            for kind in found:
                if kind in due.owed(reported(document, receipt), RULES):
                    before = receipt.revision if receipt else 0
                    receipt = acked(document, kind, receipt, now, edits=edits)
                    assert receipt.revision >= before
                    news += kind != "status"
                    finals += [revision] if kind == "final" else []
        assert due.owed(reported(document, receipt), RULES) == []
    ended = life[-1] in ("done", "failed")
    assert (len(life) in finals) is ended
    assert len(finals) == len(set(finals))
    assert news <= sum(status in ("waiting", "done", "failed") for status in life)


@given(lives)
def test_a_message_that_is_due_is_owed(life):
    document = document_at(len(life), life[-1])
    for receipt in (None, told(revision=1, message="m"), parked(), told(revision=9)):
        assert set(kinds(document, receipt)) <= set(due.owed(reported(document, receipt), RULES))


@given(st.permutations([flow(s, id=f"f-{n}") for n, s in enumerate(STATUSES * 2)]))
def test_the_order_is_that_of_the_flows_and_not_of_the_reading(order):
    items = [reported(each) for each in order]
    again = [reported(each) for each in sorted(order, key=lambda each: each.id)]
    assert due.notices(items, CURSOR, NOW, RULES) == due.notices(again, CURSOR, NOW, RULES)
