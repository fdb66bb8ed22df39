"""How hard the suite works: `GFS_TEST_SCALE` multiplies examples, rounds and processes."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("GFS_TEST_SCALE", "1"))


def scale(count: int) -> int:
    """Return a count multiplied by the scale, and never less than 1."""
    return max(1, round(count * SCALE))
