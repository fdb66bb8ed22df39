"""Lists: one line each, aligned, cut to the width, paged by the caller."""

from __future__ import annotations

import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, WAITING, dirtied, entries, flows, times
from hypothesis import given, settings
from hypothesis import strategies as st

from gitflowstate import prose
from gitflowstate.listing import LogEntry, list_lines, log_lines

UPDATE = LogEntry("0a1b2c3", "2026-09-06T12:30:00Z", "arch", 5, "update", "Two of three compared")
BY_HAND = LogEntry("4d5e6f7", "2026-09-06T12:40:00Z", "Jo Doe", None, "", "fix typo", True)


def test_flows_stand_in_columns():
    other = WAITING.replace(id="f-2", owner="jo", updated_at="2026-09-06T13:00:00Z")
    words = "Compare three data-platform architecture options | Requi..."
    assert list_lines([EXAMPLE, other], NOW, 120).splitlines() == [
        f"stale    flow-example-001  r4  architecture-...  3 h ago     {words}",
        f"waiting  f-2               r5  jo                10 min ago  {words}",
    ]


@pytest.mark.req("L23")
def test_what_is_on_later_pages_is_announced_with_the_command_that_shows_it():
    assert list_lines([EXAMPLE], NOW, left=1950).splitlines()[-1] == (
        "1,950 more: gfs list --page 2"
    )
    assert "more" not in list_lines([EXAMPLE], NOW, left=0)
    assert list_lines([], NOW) == ""


def test_a_flow_changed_by_hand_is_marked():
    lines = list_lines([EXAMPLE, WAITING], NOW, unmanaged={EXAMPLE.id}).splitlines()
    assert " r4 " in lines[0]
    assert "unmanaged" in list_lines([EXAMPLE], NOW, unmanaged={EXAMPLE.id})
    assert "unmanaged" not in list_lines([EXAMPLE], NOW, unmanaged={"f-2"})


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "stale  flow-example-001  r4  architecture-...  3 h ago  Compare three data-pl..."),
        (60, "stale  flow-example-001  r4  3 h ago  Compare three data-..."),
        (50, "stale  flow-example-001  r4  Compare three data..."),
        (10, "stale  flow-example-001  r4"),
    ],
)
def test_a_narrow_terminal_costs_the_owner_then_the_age_but_never_the_id(width, line):
    assert list_lines([EXAMPLE], NOW, width) == line


def test_wide_characters_keep_the_columns():
    wide = EXAMPLE.replace(owner="建築家", goal="比較")
    first, second = list_lines([EXAMPLE, wide], NOW, 100).splitlines()
    before = second.partition("3 h ago")[0]
    assert len(before) + 3 == first.index("3 h ago")


def test_a_painted_list_keeps_its_columns():
    pair = [EXAMPLE, WAITING]
    painted = list_lines(pair, NOW, paint=lambda word: f"<{word}>")
    assert painted.replace("<", "").replace(">", "") == list_lines(pair, NOW)


def test_a_history_reads_like_this():
    assert log_lines([UPDATE, BY_HAND]).splitlines() == [
        "0a1b2c3 2026-09-06 12:30:00+00:00 r5 update by arch: Two of three compared",
        "4d5e6f7 2026-09-06 12:40:00+00:00 unmanaged by Jo Doe: fix typo",
    ]
    assert log_lines([UPDATE], 60) == "0a1b2c3 2026-09-06 12:30:00+00:00 r5 update by arch: Two..."
    assert log_lines([UPDATE], 10) == "0a1b2c3 2026-09-06 12:30:00+00:00 r5 update by arch"
    assert log_lines([]) == ""


@pytest.mark.req("L23")
def test_a_page_of_fifty_flows_is_under_twenty_kilobytes():
    flow = EXAMPLE.replace(goal="many words " * 500, owner="x" * 128, progress="y" * 9000)
    page = [flow.replace(id=f"flow-{number}".ljust(64, "0")) for number in range(50)]
    assert len(list_lines(page, NOW, left=1950).encode()) < 20_000


@pytest.mark.req("F5")
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_list_hands_a_command_to_the_terminal(attack):
    hostile = LogEntry(attack, attack, attack, 1, attack, attack)
    lines = [
        *list_lines([dirtied(attack)], NOW, left=1, command=attack).split("\n"),
        *log_lines([hostile, hostile._replace(unmanaged=True)]).split("\n"),
    ]
    assert len(lines) == 4
    assert not any(UNSAFE.search(line) or "\t" in line for line in lines)


@pytest.mark.req("F5", "F6")
def test_markup_in_a_list_is_shown_as_it_was_typed():
    assert "[red]x[/]" in list_lines([EXAMPLE.replace(goal="[red]x[/]")], NOW)
    assert log_lines([UPDATE._replace(headline="[b]x[/b]")]).endswith(": [b]x[/b]")


@settings(deadline=None)
@given(st.lists(flows, max_size=4), times, st.integers(0, 200))
def test_any_flow_is_one_harmless_line_within_the_width(some, now, width):
    lines = list_lines(some, now, width).split("\n") if some else []
    assert len(lines) == len(some)
    least = max((len(f"waiting  {flow.id}  r{flow.revision}") for flow in some), default=0)
    for flow, line in zip(some, lines, strict=True):
        assert not UNSAFE.search(line)
        assert flow.id in line
        assert f"r{flow.revision}" in line
        assert prose.cut(line, max(width, least + 64)) == line
        if width >= least + 64:
            assert prose.cut(line, width) == line


@settings(deadline=None)
@given(st.lists(entries, max_size=4), st.none() | st.integers(0, 200))
def test_any_entry_is_one_harmless_line(some, width):
    text = log_lines(some, width)
    assert len(text.split("\n")) == max(1, len(some))
    assert not UNSAFE.search(text)
    assert text == log_lines(some, width)
