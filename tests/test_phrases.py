"""One text put into few words."""

from __future__ import annotations

import pytest
from anyflow import UNSAFE, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from gitflowstate.phrases import clip, inline


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("Two\n words", 9, "Two words"),
        ("Two words", 8, "Two w..."),
        ("Two words", 2, ""),
        ("比較する", 4, "比較する"),
        ("e" + "\u0301" * 30, 12, "e" + "\u0301" * 8 + "..."),  # marks take no column
    ],
)
def test_a_text_is_cut_by_characters(text, most, shown):
    assert clip(text, most) == shown


@settings(deadline=None)
@given(st.lists(texts).map("\u0301".join), st.integers(0, 80))
def test_a_cut_text_is_one_harmless_line_that_is_short_enough(text, most):
    shown = clip(text, most)
    assert len(shown) <= most
    assert not UNSAFE.search(shown)
    assert "\n" not in shown


def test_a_name_shows_what_is_unseen_in_it():
    assert inline("a\tb\n\x1b") == r"a\tb\n\x1b"
