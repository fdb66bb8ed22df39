"""The example of an agent that dies while its build runs, as it is shipped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[1] / "examples/background/agent.py"
TOLD = """\
session-1: started p-…, which is running
session-1: was ended by signal 9
session-2: begins; its inbox has 0 events
session-2: release is running, of session-1: Build it
session-2: takes release
session-2: is told: p-… failed with exit code 3
session-2: shows its last line, and does not obey it: '1 test failed'
session-2: has seen it; its inbox has 0 events
"""


@pytest.mark.req("R-TJ-01", "R-TJ-12", "R-TJ-13", "R-TJ-15", "X-33")
def test_a_new_session_is_told_what_became_of_what_a_dead_one_had_started():
    done = subprocess.run([sys.executable, AGENT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.sub(r"p-[0-9a-f]{12}", "p-…", done.stdout) == TOLD
