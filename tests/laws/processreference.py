"""What ops on processes should do, said a second time: a part of `reference`, on plain JSON.

Rules: as in `reference`. `world["processes"]` has the JSON of each by "session/id"; what a process
does to its task is told to `change` as an op on that task that names the process.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from taskreference import Refused, refuse_if

Json = dict[str, Any]
ENDED = ("completed", "failed", "cancelled", "timed_out", "lost")
ASKED = ("call_id", "argv", "cwd", "notify", "timeout_s", "flow", "task")
TOLD = ("exit_code", "signal", "sent", "reason", "output_ref", "output_bytes",
        "output_truncated", "returned")  # fmt: skip
IDENTITY = ("pid", "ticks", "started_at")
# What a file does not say, since it is so.
DEFAULTS = {"notify": "on_exit", "output_bytes": 0, "output_truncated": False, "returned": False,
            "sent": []}  # fmt: skip
WORDS = {"failed": "errored", "cancelled": "cancelled", "timed_out": "timed_out"}


def given(raw: Json, *names: str) -> Json:
    return {n: raw[n] for n in names if n in raw and raw[n] != DEFAULTS.get(n)}


def step(world: Json, op: Json, change: Callable[[Json, Json], None]) -> None:
    name = f"{op['session_id']}/{op['process']}"
    old = world["processes"].get(name)
    what = op["op"].removeprefix("run ")
    if old is not None and repeated(what, op, old):
        return
    refuse_if(what == "intend" and old is not None, 4)
    refuse_if(what != "intend" and old is None)
    refuse_if(old is not None and old["state"] in ENDED)
    refuse_if(what == "start" and old is not None and old["state"] != "starting")
    world["processes"][name] = new = NEW[what](op, old)
    if what == "intend":
        begin(world, op, change)
    elif what in ("settle", "lose"):
        end(world, op, new, change)


def repeated(what: str, op: Json, old: Json) -> bool:
    if what == "lose":
        return bool(old["state"] == "lost")
    if what == "start" and old["state"] in ENDED:
        return False
    names = {"intend": ASKED, "start": IDENTITY[:2], "settle": ("state", "exit_code", "signal")}
    return given(op, *names[what]) == given(old, *names[what])


def intended(op: Json, _old: Json | None) -> Json:
    refuse_if(not op["argv"])
    refuse_if("task" in op and ("flow" not in op or "until" not in op))
    fields = given(op, *ASKED, "session_id", "host", "boot_id")
    about = {"schema_version": 1, "id": op["process"], "state": "starting"}
    return about | fields | {"created_at": op["at"]}


def running(op: Json, old: Json) -> Json:
    return old | {"state": "running"} | given(op, *IDENTITY)


def settled(op: Json, old: Json) -> Json:
    check_served(op, old)
    late = given(op, *IDENTITY) if old["state"] == "starting" else {}
    refuse_if(op["state"] in ("starting", "running", "lost"))
    kept = {n: v for n, v in old.items() if n not in TOLD}
    return kept | late | given(op, *TOLD, "state", "finished_at")


def lost(op: Json, old: Json) -> Json:
    check_served(op, old)
    return old | {"state": "lost", "finished_at": op["at"], "reason": op["reason"]}


def check_served(op: Json, old: Json) -> None:
    refuse_if(given(op, "flow", "task") != given(old, "flow", "task"))


NEW: dict[str, Callable[[Json, Any], Json]] = {
    "intend": intended,
    "start": running,
    "settle": settled,
    "lose": lost,
}


# ── the task it serves ──────────────────────────────────────────────────────────────────────────


def about_task(op: Json, tag: str, **fields: Any) -> Json:
    names = ("at", "by", "flow", "task", "process")
    return {"op": tag} | {name: op[name] for name in names} | fields


def begin(world: Json, op: Json, change: Callable[[Json, Json], None]) -> None:
    if "flow" not in op:
        return
    refuse_if(op["flow"] in world["fallen"], 6)
    refuse_if(op["flow"] not in world["flows"], 5)
    if "task" not in op:
        return
    claim = about_task(op, "task claim", worker=op["process"], until=op["until"])
    change(world, claim)
    tasks = world["flows"][op["flow"]]["children"]
    refuse_if(not any(t.get("claim", {}).get("worker") == op["process"] for t in tasks), 4)


def end(world: Json, op: Json, new: Json, change: Callable[[Json, Json], None]) -> None:
    if "flow" not in op or "task" not in op:
        return
    for effect in effects(op, new):
        trial = deepcopy(world)
        try:
            change(trial, effect)
        except Refused as refused:
            if refused.code == 6:
                raise
        else:
            world |= trial
            return


def effects(op: Json, new: Json) -> list[Json]:
    name = op["process"]
    person = {"until": "gfs recover decides", "on": "human"}
    if new["state"] == "lost":
        reason = f"its process {name} is lost, and nobody knows how far it came"
        return [about_task(op, "task wait", reason=reason, **person)]
    if new["state"] == "completed":
        odd = f"its process {name} completed, but the task could not be done then"
        return [
            about_task(op, "task done", result=op.get("result", f"process:{name}")),
            about_task(op, "task wait", reason=odd, **person),
        ]
    if "reason" in new:
        why = f"its process {name} {new['state']}: {new['reason']}"[:1000]
    elif "signal" in new:
        why = f"its process {name} was ended by {new['signal']}"
    else:
        why = f"its process {name} {new['state']} with exit code {new.get('exit_code')}"
    return [about_task(op, "task fail", reason=why, outcome=WORDS[new["state"]])]
