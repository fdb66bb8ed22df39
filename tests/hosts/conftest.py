"""What the tests of hosts stand on: a remote at a path, unless a test is about the way to it."""

from __future__ import annotations

import pytest
import wires


@pytest.fixture
def wire(tmp_path):
    """Return a remote at a path."""
    with wires.opened("path", tmp_path) as found:
        yield found
