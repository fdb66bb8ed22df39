"""Hazards A1, A2, A8, A14: a verb that is killed or interrupted at any call.

Each time the refs are the old or the new ones, and the identical command then succeeds and has
been done once. The plain suite takes samples, the long matrices every call.
"""

from __future__ import annotations

import pytest
import strikes

REQ = pytest.mark.req("R-TF-09", "R-TF-14", "A1", "A2", "A8", "A14", "F3")


@REQ
@pytest.mark.parametrize("verb", strikes.COMMANDS)
def test_a1_a2_a8_killed_or_interrupted_at_some_calls_it_is_done_once_when_repeated(watched, verb):
    strikes.sampled(watched, verb, ["KILL", "INT", "TERM"])


@REQ
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("fault", "part"),
    [*(("KILL", part) for part in range(strikes.PARTS)), ("INT", None), ("TERM", None)],
)
@pytest.mark.parametrize("verb", strikes.COMMANDS)
def test_a1_a2_a8_killed_or_interrupted_at_any_call_it_is_done_once_when_repeated(
    watched, verb, fault, part
):
    strikes.every(watched, verb, fault, part)
