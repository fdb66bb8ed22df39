"""The worlds that channels live in."""

import pytest
from fakes import worlds


@pytest.fixture(params=worlds.WORLDS)
def world(request, tmp_path):
    """Return a world of each kind."""
    made = worlds.opened(request.param, tmp_path)
    yield made
    made.close()
