"""Hazards B1, B3, B6: a verb that gets an error from the operating system at any call.

Each time its exit code says what the refs say, and the identical command then succeeds and has
been done once. The plain suite takes samples, the long matrices every call.
"""

from __future__ import annotations

import pytest
import strikes

REQ = pytest.mark.req("B1", "B3", "B6", "R-TF-14")


@REQ
@pytest.mark.parametrize("verb", strikes.COMMANDS)
def test_b1_b3_b6_an_error_at_some_calls_is_answered_as_it_is(watched, verb):
    strikes.sampled(watched, verb, ["EIO", "ENOSPC", "EMFILE"])


@REQ
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("fault", "part"),
    [*(("EIO", part) for part in range(strikes.PARTS)), ("ENOSPC", None), ("EMFILE", None)],
)
@pytest.mark.parametrize("verb", strikes.COMMANDS)
def test_b1_b3_b6_an_error_at_any_call_is_answered_as_it_is(watched, verb, fault, part):
    strikes.every(watched, verb, fault, part)
