"""How two lines of history meet, and what of a queue is left: against the plain definitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import reconcile

commits = st.lists(st.integers(0, 10**6).map(str), unique=True, max_size=12)
texts = st.lists(st.sampled_from("abc"), max_size=8)


@given(commits, st.data())
def test_two_lines_that_part_have_what_came_after_and_where_they_met(line, data):
    """A line is cut in three: what both have, and what each has alone."""
    one, two = sorted([data.draw(st.integers(0, len(line))) for _ in range(2)])
    common, ours, theirs = line[:one], line[one:two], line[two:]
    found = reconcile.meeting((common + ours)[::-1], (common + theirs)[::-1])
    assert found == (tuple(ours), tuple(theirs), common[-1] if common else None)


def test_no_more_is_read_than_it_takes():
    def endless(*first):
        yield from first
        yield "met"
        yield from map(str, range(5))
        pytest.fail("read on")

    found = reconcile.meeting(endless("a", "b"), endless("c", "d", "e"))
    assert found == (("b", "a"), ("e", "d", "c"), "met")


@given(texts, texts)
def test_of_a_queue_what_is_published_is_left_out_once_for_each(queue, published):
    left = [*reconcile.unpublished([*enumerate(queue)], published)]
    kept = Counter(queue[number] for number in left)
    assert kept == Counter(queue) - Counter(published)
    assert left == sorted(left)
    for number, text in enumerate(queue):  # the first of those alike is the one that is there
        if number in left:
            assert all(other in left for other in range(number, len(queue)) if queue[other] == text)


def test_what_was_made_by_hand_is_never_taken_for_published():
    assert [*reconcile.unpublished([(1, None), (2, "a")], [None, "a"])] == [1]


@given(st.integers(0, 10**4), st.floats(0, 1))
def test_a_pause_grows_to_a_bound_and_is_never_none(attempt, chance):
    found = reconcile.pause(attempt, chance)
    assert 0.01 <= found <= 2.0
    assert found <= reconcile.pause(attempt + 1, 1.0)
    assert reconcile.pause(attempt, 0.0) >= reconcile.pause(attempt, 1.0) / 2


def test_a_time_becomes_part_of_a_ref():
    assert reconcile.stamp("2026-09-06T10:00:00Z") == "20260906T100000Z"
