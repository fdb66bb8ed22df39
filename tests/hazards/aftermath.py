"""What every hazard test that writes ends with, in one place.

The ref is old or new; one more update succeeds and leaves no lock; C git accepts every object;
each revision that was acknowledged is there, and revisions rise by one; history replays.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from clirun import Cli


def check(cli: Cli, *acked: tuple[str, int], heads: Collection[str] | None = None) -> None:
    """Check a repository after a hazard; `heads` are the commits that main may be at by now."""
    if heads is not None:
        assert cli.head in heads, (cli.head, heads)
    cli.sound(*acked)


def ageless(text: str) -> str:
    """Return what a command printed, without how long ago things were."""
    return re.sub(r"\bnow\b|\b\d+ (?:s|min|h|d) ago\b", "lately", text)
