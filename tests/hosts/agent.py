"""An agent on one host, a process of its own: runs commands and logs what was acknowledged.

`python agent.py SCRIPT`; the script holds `commands`, `log`, and optionally `pause_s` (the longest
time between two commands), `seed`, and `shift_s`, by how much the clock of this host is wrong. A
command that could not be carried out for now (75) or whose outcome is unknown (7) is run again; one
that was killed before its answer was logged is run again by the next start.
"""

import datetime as dt
import json
import os
import random
import sys
import time
from pathlib import Path

import clirun
import time_machine

AGAIN = (7, 75)
PATIENCE = 100


def answer(command: list[str]) -> dict[str, object]:
    """Run a command until it says yes or no."""
    for _ in range(PATIENCE):
        result = clirun.here(*clirun.as_json(tuple(command)))
        if result.code not in AGAIN:
            break
        time.sleep(random.random() * 0.1)
    return {"command": command, "code": result.code, "err": result.err} | result.envelope


def main() -> None:
    """Run what is left of the script."""
    script = json.loads(Path(sys.argv[1]).read_text())
    random.seed(f"{script.get('seed')} {os.getpid()}")
    log = Path(script["log"])
    whole = log.read_bytes().rpartition(b"\n") if log.exists() else (b"", b"", b"")
    done = whole[0].count(b"\n") + bool(whole[1])
    with log.open("ab") as file:
        if whole[2]:
            file.truncate(len(whole[0] + whole[1]))
        for command in script["commands"][done:]:
            time.sleep(random.random() * script.get("pause_s", 0))
            file.write(json.dumps(answer(command)).encode() + b"\n")
            file.flush()


if __name__ == "__main__":
    shift = json.loads(Path(sys.argv[1]).read_text()).get("shift_s", 0)
    there = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=shift)
    with time_machine.travel(there, tick=True):
        main()
