"""The roles of a history: what agents, claimers, workers, watchers, readers and a keeper do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time

from acting import Actor

TASKS = [
    *({"id": f"t{n}", "goal": f"do {n}", "deps": [f"t{n - 2}"] if n > 1 else []} for n in range(8)),
    {"id": "last", "goal": "end", "deps": ["t6", "t7"]},
]
HOLD_S = 310  # past the hold of a watcher that was killed


def agent(actor: Actor) -> None:
    """Change flows in every way there is."""
    acts = {
        _create: 2, _update: 6, _note: 6, _wait: 1, _resume: 2, _take: 2, _handoff: 1, _done: 3,
        _fail: 0.5, _reopen: 3, _retry: 0.5, _add: 1,
    }  # fmt: skip
    while actor.goes_on:
        (act,) = actor.rng.choices([*acts], [*acts.values()])
        flow = actor.flow("archive" if act in (_reopen, _retry) else "flows")
        if flow or act is _create:
            act(actor, flow)


def _ask(actor: Actor, *words: str, **how) -> dict | None:
    return (actor.again if actor.chance(0.5) else actor.run)(*words, **how)


def _create(actor, _):
    name = actor.unique("f").lower()
    if actor.chance(0.5):
        _ask(actor, "create", f"Goal of {name}", "--id", name, "--next", "begin")
    else:
        plan = json.dumps(TASKS).encode()
        words = ("create", f"Goal of {name}", "--id", name, "--next", "begin", "--plan", "-")
        _ask(actor, *words, stdin=plan)


def _update(actor, flow):
    text = actor.unique("progress")
    if actor.chance(0.3) and (seen := actor.run("show", flow, kill=0)):
        expect = str(seen["flow"]["revision"])
        actor.run("update", flow, "--progress", text, "--expect", expect)
    else:
        _ask(actor, "update", flow, "--progress", text, "--next", actor.unique("next"))


def _note(actor, flow):
    actor.again("note", flow, actor.unique("note"))


def _wait(actor, flow):
    _ask(actor, "wait", flow, "--reason", actor.unique("why"), "--until", "somebody answers")


def _resume(actor, flow):
    _ask(actor, "resume", flow, "--next", "go on")


def _take(actor, flow):
    _ask(actor, "take", flow, "--reason", "mine now")


def _handoff(actor, flow):
    _ask(actor, "handoff", flow, "--to", actor.rng.choice(["ann", "bob", "cem"]), "--reason", "r")


def _done(actor, flow):
    _ask(actor, "done", flow, "--result", actor.unique("out/r"), "--cancel-children")


def _fail(actor, flow):
    words = ("--reason", "broken", "--recoverable", "all of it", "--cancel-children")
    _ask(actor, "fail", flow, *words)


def _reopen(actor, flow):
    _ask(actor, "reopen", flow, "--reason", "more to do", "--next", "go on")


def _retry(actor, flow):
    _ask(actor, "retry", flow, "--id", actor.unique("again").lower())


def _add(actor, flow):
    _ask(actor, "task", "add", flow, actor.unique("task"))


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────


def claimer(actor: Actor) -> None:
    """Claim tasks and settle them, in time, too late, or never."""
    while actor.goes_on:
        flow = actor.flow()
        if flow is None:
            continue
        lease = actor.rng.choice(["1s", "2s", "1h"])
        held = actor.run("task", "claim", flow, "--next", "--lease", lease)
        if held is None or actor.chance(0.1):
            if actor.chance(0.1):
                actor.run("task", "retry", flow, f"t{actor.rng.randrange(8)}", "--reason", "again")
            continue
        settle(actor, flow, held["task"], str(held["attempt"]), lease)


def settle(actor: Actor, flow: str, task: str, attempt: str, lease: str) -> None:
    """Settle a claim as one of many ways goes."""
    one = ("task", "{}", flow, task, "--attempt", attempt)
    if actor.chance(0.1):
        actor.run(*(w.format("renew") for w in one), "--lease", lease)
    if actor.chance(0.1):
        time.sleep(2.1)  # past the shorter leases
    if actor.chance(0.1):
        actor.run(*(w.format("release") for w in one))
    elif actor.chance(0.05):
        actor.run(*(w.format("fail") for w in one), "--reason", "broken")
    else:
        _ask(actor, *(w.format("done") for w in one), "--result", actor.unique("out/t"))


def worker(actor: Actor) -> None:
    """Run a worker with a command for each task, often to be killed."""
    while actor.goes_on:
        flow = actor.flow()
        if flow:
            actor.run("work", flow, "--no-wait", "--jobs", "2", "--", "true", kill=0.3)


# ── the others ──────────────────────────────────────────────────────────────────────────────────


def watcher(actor: Actor) -> None:
    """Make passes; once one was killed, the clock of all moves on until its hold is over.

    It moves only while none is at work: whoever lives keeps its hold.
    """
    with (actor.folder / "watchers-killed").open("ab") as killed:  # one byte each
        while actor.goes_on:
            fcntl.flock(killed, fcntl.LOCK_SH)
            before = actor.codes["killed"]
            actor.ahead_s = HOLD_S * os.fstat(killed.fileno()).st_size
            actor.run("watch", "file", "--once", kill=0.3)
            fcntl.flock(killed, fcntl.LOCK_EX)
            killed.write(b"x" * (actor.codes["killed"] - before))
            killed.flush()
            fcntl.flock(killed, fcntl.LOCK_UN)
            time.sleep(actor.rng.random() / 5)


def reader(actor: Actor) -> None:
    """Read, which must never fail, and never show what is older than what was told."""
    while actor.goes_on:
        flow = actor.flow()
        words = actor.rng.choice([("show",), ("brief",), ("next",), ("log",)])
        if flow:
            actor.run(*words, flow, kill=0.02)
        if actor.chance(0.1):
            actor.run("list", "--all", kill=0)


def keeper(actor: Actor) -> None:
    """Pack, back up and look for damage, while all others go on."""
    while actor.goes_on:
        which = actor.rng.choice(["gc", "gc", "backup", "doctor", "git"])
        if which == "backup":
            actor.run("backup", str(actor.folder / "copies" / actor.unique("b")), kill=0.3)
        elif which == "git":  # somebody who does not know us
            command = ["git", "-C", actor.cli.gitdir, "gc", "--quiet", "--prune=now"]
            subprocess.run(command, capture_output=True, check=False)
        else:
            actor.run(which, kill=0.3 if which == "gc" else 0.1)
        time.sleep(actor.rng.random())


ROLES = {
    "ann": agent, "bob": agent, "cem": agent, "dan": claimer, "eve": claimer, "fay": worker,
    "gus": watcher, "hal": watcher, "ida": reader, "jan": keeper,
}  # fmt: skip
