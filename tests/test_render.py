"""A flow as people read it: complete, harmless on a terminal, the same every time."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, WAITING, dirtied, flows, times
from hypothesis import given, settings
from hypothesis import strategies as st

from gitflowstate.codec import encode
from gitflowstate.model import Claim, Failure, Link, Note, Task
from gitflowstate.render import show, summary


def test_a_verb_succeeds_with_one_line():
    assert summary(EXAMPLE.replace(revision=5)) == "flow-example-001 r5 running"


@pytest.mark.req("R-TF-31", "R-TF-37")
def test_the_founding_example_reads_like_this():
    assert show(EXAMPLE, NOW).splitlines() == [
        "flow-example-001 r4 stale",
        "goal:        Compare three data-platform architecture options",
        "status:      running, but not updated for 3 h",
        "owner:       architecture-session",
        "progress:    Requirements captured; comparison in progress",
        "next:        Review child findings and draft a recommendation",
        "tasks:       1 of 2 done",
        "  [x] done   task-001  Compare operating constraints",
        "      result: artifacts/constraints.md",
        "  [~] stale  task-002  Assess integration options",
        "      set to running by hand",
        "updated:     2026-09-06 10:00:00+00:00 (3 h ago)",
    ]


@pytest.mark.req("R-TF-31", "R-TF-20")
def test_a_blocker_is_told_with_its_condition_and_who_is_needed():
    lines = show(WAITING, NOW).splitlines()
    at = lines.index("waiting:     Two options cost the same")
    assert lines[0] == "flow-example-001 r5 waiting"
    assert lines[at + 1 : at + 3] == [
        "until:       A person picks one",
        "needed:      human, since 2026-09-06 12:00:00+00:00 (1 h ago)",
    ]


@pytest.mark.req("R-TF-31")
def test_how_a_flow_ended_is_told():
    done = show(EXAMPLE.replace(status="done", result_ref="out/report.md"), NOW)
    assert "result:      out/report.md" in done.splitlines()
    failure = Failure(reason="No budget", recoverable="The constraints")
    failed = show(EXAMPLE.replace(status="failed", failure=failure), NOW)
    assert "failure:     No budget\nrecoverable: The constraints\n" in failed


def test_each_task_says_what_its_state_comes_from():
    tasks = (
        Task(id="a", goal="A", status="failed", outcome="lost", reason="host\ngone"),
        Task(id="b", goal="B", status="pending", deps=("a", "x")),
        Task(id="c", goal="C", status="pending", not_before="2026-09-06T14:10:00Z"),
        Task(id="d", goal="D", status="waiting", waiting=WAITING.waiting),
        Task(
            id="e",
            goal="E",
            status="pending",
            claim=Claim(worker="w.1", by="w", attempt=1, until="2026-09-06T14:10:00Z"),
        ),
        Task(
            id="f",
            goal="F",
            status="pending",
            claim=Claim(worker="w.2", by="w", attempt=1, until="2026-09-06T12:10:00Z"),
        ),
        Task(id="g", goal="G", status="pending", deps=tuple("abcdefx")),
        Task(id="h", goal="One\ntwo", status="pending"),
    )
    shown = show(EXAMPLE.replace(children=tasks), NOW).splitlines()
    at = shown.index("tasks:       0 of 8 done")
    assert shown[at + 1 : -1] == [
        "  [!] failed     a  A",
        "      lost: host gone",
        "  [-] blocked    b  B",
        "      needs a, x",
        "  [@] scheduled  c  C",
        "      not before 2026-09-06 14:10:00+00:00 (in 1 h)",
        "  [?] waiting    d  D",
        "      Two options cost the same; until A person picks one; on human",
        "  [>] claimed    e  E",
        "      by w.1, until 2026-09-06 14:10:00+00:00 (in 1 h)",
        "  [~] stale      f  F",
        "      by w.2, lease ended 2026-09-06 12:10:00+00:00 (1 h ago)",
        "  [-] blocked    g  G",
        "      needs a, b, c, d, e and 2 more",
        "  [ ] ready      h  One",
        "                    two",
    ]


def test_a_ready_task_of_a_waiting_flow_names_the_flow_as_the_obstacle():
    flow = WAITING.replace(children=(Task(id="a", goal="A", status="pending"),))
    assert "  [-] blocked  a  A\n      the flow is waiting\n" in show(flow, NOW)


def test_everything_else_has_its_place():
    flow = EXAMPLE.replace(
        notes=(Note(at="2026-09-06T12:10:00Z", by="rev", text="See\n\nthis"),),
        links=(Link(rel="issue", href="https://x/1"), Link(rel="doc", href="d.md")),
        labels=("a", "b"),
        type="report",
        data={"k": 1},
        attempt_of="flow-0",
        created_at="2026-09-05T10:00:00Z",
    )
    tail = show(flow, NOW, unmanaged=True).split("by hand\n")[-1]
    assert tail.splitlines() == [
        "notes:",
        "  2026-09-06 12:10:00+00:00 (1 h ago) by rev",
        "      See",
        "",
        "      this",
        "links:       issue https://x/1",
        "             doc d.md",
        "labels:      a, b",
        "type:        report",
        "data:        {",
        '               "k": 1',
        "             }",
        "attempt of:  flow-0",
        "created:     2026-09-05 10:00:00+00:00 (1 d ago)",
        "updated:     2026-09-06 10:00:00+00:00 (3 h ago)",
    ]
    assert "unmanaged:   last changed by hand" in show(flow, NOW, unmanaged=True)
    assert "unmanaged" not in show(flow, NOW)


@pytest.mark.req("L20")
@pytest.mark.parametrize(
    ("zone", "time", "shown"),
    [
        (None, "2026-10-25T00:30:00Z", "2026-10-25 00:30:00+00:00"),
        ("Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25 02:30:00+02:00"),
        ("Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25 02:30:00+01:00"),
        ("Europe/Berlin", "2026-03-29T00:59:59.999999Z", "2026-03-29 01:59:59+01:00"),
        ("Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29 03:00:00+02:00"),
        ("Asia/Kathmandu", "2026-09-06T10:00:00Z", "2026-09-06 15:45:00+05:45"),
        ("Australia/Lord_Howe", "2026-09-06T10:00:00Z", "2026-09-06 20:30:00+10:30"),
        ("Asia/Kathmandu", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("America/New_York", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_has_its_offset_on_either_side_of_a_change_of_the_clocks(zone, time, shown):
    text = show(EXAMPLE.replace(updated_at=time), NOW, zone=zone and ZoneInfo(zone))
    assert f"updated:     {shown} (" in text


@pytest.mark.req("L20")
def test_a_lease_of_two_hours_over_the_change_of_the_clocks_ends_in_two_hours():
    claim = Claim(worker="w.1", by="w", attempt=1, until="2026-10-25T02:30:00Z")
    flow = EXAMPLE.replace(children=(Task(id="a", goal="A", status="pending", claim=claim),))
    text = show(flow, "2026-10-25T00:30:00Z", zone=ZoneInfo("Europe/Berlin"))
    assert "by w.1, until 2026-10-25 03:30:00+01:00 (in 2 h)" in text


@pytest.mark.req("F5")
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_field_reaches_the_terminal_as_a_command(attack):
    flow = dirtied(attack)
    for text in (show(flow, NOW, unmanaged=True), summary(flow.replace(id=attack))):
        assert not UNSAFE.search(text)
        text.encode()


@pytest.mark.req("F6")
@pytest.mark.parametrize("markup", ["[red]x[/]", "[link=http://x]y[/link]", "*a* `b` <i>c</i>"])
def test_markup_is_shown_as_it_was_typed(markup):
    assert show(dirtied(markup), NOW).count(markup) >= 20


@pytest.mark.req("F5")
def test_no_text_can_pose_as_a_field_or_as_a_task():
    fake = "x\nstatus:      done\n  [x] done  t9  Faked\nresult:      fake.md"
    lines = show(dirtied(fake), NOW).splitlines()
    assert [line for line in lines if line.startswith("status:")] == ["status:      waiting"]
    assert [line[2:5] for line in lines if line.startswith("  [")] == ["[~]", "[?]", "[!]", "[x]"]


def test_state_words_can_be_painted_without_moving_a_column():
    painted = show(EXAMPLE, NOW, paint=lambda word: f"\x1b[1m{word}\x1b[0m")
    assert painted.count("\x1b[1m") == 3
    assert painted.replace("\x1b[1m", "").replace("\x1b[0m", "") == show(EXAMPLE, NOW)


@pytest.mark.req("F5", "R-TF-33")
@settings(deadline=None)
@given(flows, times, st.booleans())
def test_any_flow_is_shown_harmlessly_the_same_each_time_and_unchanged(flow, now, by_hand):
    before = repr(flow)
    text = show(flow, now, unmanaged=by_hand)
    assert not UNSAFE.search(text)
    assert text == show(flow, now, unmanaged=by_hand)
    assert repr(flow) == before


@pytest.mark.req("R-TF-33")
def test_showing_leaves_the_bytes_alone():
    before = encode(WAITING)
    show(WAITING, NOW)
    assert encode(type(WAITING)(**WAITING.__dict__)) == before
