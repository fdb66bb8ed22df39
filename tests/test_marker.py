"""The marker: found in the first line, forged nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import marker
from gitflowstate.marker import Marker

OURS = marker.line("f-1", "status", 12)


@pytest.mark.req("R-TF-53")
def test_a_marker_names_flow_kind_and_revision():
    assert OURS == "<!-- gfs:1 flow=f-1 kind=status rev=12 -->"
    for text in (
        OURS,
        f"{OURS}\n",
        f"{OURS}\r\nmore",
        f"{OURS}\n<!-- gfs:1 flow=b kind=final rev=1 -->",
    ):
        assert marker.read(text) == Marker("f-1", "status", 12)


@pytest.mark.req("F3", "F4", "R-TF-53")
@pytest.mark.parametrize(
    "text",
    [
        "",
        f" {OURS}",
        f"{OURS} ",
        f"text\n{OURS}",
        "<!-- gfs:2 flow=f-1 kind=status rev=1 -->",
        "<!-- gfs:1 flow=f-1 kind=other rev=1 -->",
        "<!-- gfs:1 flow=f-1 kind=final kind=status rev=1 -->",
        "<!-- gfs:1 flow=../x kind=status rev=1 -->",
        "<!-- gfs:1 flow=f. kind=status rev=1 -->",
        "<!-- gfs:1 flow=f-1 kind=status rev=0 -->",
        "<!-- gfs:1 flow=f-1 kind=status rev=01 -->",
        "<!-- gfs:1 flow=f-1 kind=status rev=9999999999999999 -->",
        "<!-- gfs:1 flow=f-1 kind=status rev=\u0661 -->",
        "<!-- gfs:1 flow=f-1 kind=status rev=1 --> -->",
    ],
)
def test_f3_f4_anything_else_is_none(text):
    assert marker.read(text) is None


@pytest.mark.req("F3", "F4")
@given(
    st.text(max_size=80),
    st.sampled_from(["", "-->", "kind=final", "<!-- gfs:1 flow=b kind=final rev=1 -->"]),
)
def test_f3_f4_no_text_below_it_changes_it_or_begins_another(text, more):
    whole = f"{OURS}\n{text}\n{more}\n{text}{more}"
    assert marker.read(whole) == Marker("f-1", "status", 12)
    assert all(marker.read(line) is None for line in marker.body(whole).splitlines())
    assert "<!--" not in marker.body(whole)


def test_a_body_is_the_text_without_its_marker_and_no_less_without_one():
    assert marker.body(f"{OURS}\n\none\ntwo\n") == "one\ntwo\n"
    assert marker.body("one\ntwo") == "one\ntwo"


def test_the_parts_of_a_text_are_its_marker_and_the_rest():
    assert marker.parts(f"{OURS}\n\n<!-- x -->") == (OURS, "\n&lt;!-- x -->")
    for other in ("<!-- gfs:2 x -->", f"{OURS} y", "<!-- x -->", ""):
        assert marker.parts(other) == ("", other.replace("<!--", "&lt;!--"))
