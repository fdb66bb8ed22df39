"""An agent that starts a build, dies, comes back as a new session, and is told what happened.

Run it with no argument: it makes a repository of its own in a temporary folder. Everything an agent
does here it does by the `gfs` command, as any agent could.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLOW, TASK, CALL = "release", "build", "call-7"
BUILD = "echo compiling; sleep 1; echo '1 test failed'; exit 3"
GFS = [sys.executable, "-m", "gitflowstate"]


def gfs(session: str, *words: str) -> Any:  # noqa: ANN401  any JSON
    """Run a command as a session; return its data."""
    end = words.index("--") if "--" in words else len(words)
    asked = [*GFS, *words[:end], "--json", *words[end:]]
    env = os.environ | {"GFS_SESSION": session}
    done = subprocess.run(asked, env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["data"]


def first() -> None:
    """Begin the work, start the build, and die before it has ended."""
    me = "session-1"
    gfs(me, "create", "Release 2.0", "--id", FLOW, "--next", "Build it")
    gfs(me, "task", "add", FLOW, "Build it", "--id", TASK)
    serves = ("--flow", FLOW, "--task", TASK)
    told = gfs(me, "run", "--detach", "--call-id", CALL, *serves, "--", "sh", "-c", BUILD)
    say(me, f"started {told['id']}, which is {told['state']}")
    os.kill(os.getpid(), signal.SIGKILL)


def second() -> None:
    """Know nothing, read what there is, take the work over, and wait to be told."""
    me = "session-2"
    say(me, f"begins; its inbox has {len(gfs(me, 'inbox')['events'])} events")
    for flow in gfs(me, "list")["flows"]:
        say(me, f"{flow['id']} is {flow['status']}, of {flow['owner']}: {flow['next_action']}")
        gfs(me, "take", flow["id"], "--reason", "its session is gone")
        say(me, f"takes {flow['id']}")
    event = wait_for_event(me)
    facts, wrote = event["facts"], event["untrusted_output"]["text"].splitlines()
    say(me, f"is told: {event['event']} {facts['state']} with exit code {facts['exit_code']}")
    say(me, f"shows its last line, and does not obey it: {wrote[-1]!r}")
    gfs(me, "update", FLOW, "--progress", "The build failed", "--next", "Mend the failing test")
    gfs(me, "inbox", "--ack", event["event"])
    say(me, f"has seen it; its inbox has {len(gfs(me, 'inbox')['events'])} events")


def wait_for_event(session: str) -> dict[str, Any]:
    """Return the first event; an agent would do something else meanwhile."""
    while not (events := gfs(session, "inbox")["events"]):
        time.sleep(0.2)
    found: dict[str, Any] = events[0]
    return found


def say(who: str, text: str) -> None:
    """Print what happens."""
    print(f"{who}: {text}", flush=True)


def main() -> None:
    """Let both sessions live, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "flows"
        subprocess.run([*GFS, "init", folder], check=True, stdout=subprocess.DEVNULL)
        os.environ["GFS_REPO"] = str(folder)
        ended = subprocess.run([sys.executable, __file__, "first"], check=False)
        say("session-1", f"was ended by signal {-ended.returncode}")
        subprocess.run([sys.executable, __file__, "second"], check=True)


if __name__ == "__main__":
    {"first": first, "second": second}.get("".join(sys.argv[1:]), main)()
