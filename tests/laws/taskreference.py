"""What ops on tasks should do, said a second time: a part of `reference`, on the JSON of a flow.

Rules: as in `reference`. A rule may return False: then the op is carried out, but its key is not
used up.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable, Iterator
from time import strptime
from typing import Any

Json = dict[str, Any]
STATIC = ("goal", "deps", "priority", "not_before", "timeout_s", "max_attempts", "on_interrupt")
# The ops on tasks that are not the owner's alone.
FREE = ("task claim", "task renew", "task release", "task done", "task fail", "task wait",
        "task expire")  # fmt: skip
# The op that finds a task in one of these statuses may go on.
FOUND = {
    "task claim": ("pending",),
    "task renew": ("pending",),
    "task release": ("pending",),
    "task done": ("pending", "running", "waiting", "done"),
    "task fail": ("pending", "running", "waiting", "failed"),
    "task wait": ("pending", "running", "waiting"),
    "task resume": ("waiting", "pending"),
    "task retry": ("failed", "waiting"),
    "task expire": ("pending", "running"),
    "recover": ("pending", "running", "waiting"),
}


class Refused(Exception):
    """The op is refused with an exit code: also 5 and 8 here."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def refuse_if(refused: object, code: int = 3) -> None:
    if refused:
        raise Refused(code)


def sound(tasks: list[Json]) -> bool:
    """Tell whether the tasks can be done one after another."""
    done: set[str] = set()
    for _ in tasks:
        done |= {task["id"] for task in tasks if done.issuperset(task.get("deps", []))}
    return len(done) == len(tasks)


# ── what a task is ──────────────────────────────────────────────────────────────────────────────


def stamp(time: str) -> int:
    return timegm(strptime(time, "%Y-%m-%dT%H:%M:%SZ"))


def put(task: Json, **fields: Any) -> None:
    for name, value in fields.items():
        task.pop(name, None)
        if value is not None:
            task[name] = value


def completed(flow: Json) -> set[str]:
    return {task["id"] for task in flow["children"] if task["status"] == "done"}


def waits_for(flow: Json, task: Json) -> bool:
    return not completed(flow).issuperset(task.get("deps", []))


def too_early(op: Json, task: Json) -> bool:
    return "not_before" in task and task["not_before"] > op["at"]


def is_over(op: Json, claim: Json) -> bool:
    return stamp(op["at"]) >= stamp(claim["until"]) + op.get("skew_s", 0)


def stands(op: Json, task: Json) -> bool:
    """Tell whether another claim forbids this one."""
    claim = task.get("claim")
    return claim is not None and (claim["worker"] == op["worker"] or not is_over(op, claim))


def place(task: Json) -> tuple[int, str]:
    padded = re.sub(r"\d+", lambda digits: digits[0].zfill(70), task["id"])
    return -task.get("priority", 0), padded


def fresh(task: Json) -> Json:
    return {"id": task["id"], "status": "pending"} | {
        name: task[name] for name in STATIC if name in task
    }


# ── claims ──────────────────────────────────────────────────────────────────────────────────────


def lost(op: Json, task: Json) -> bool:
    return "attempt" in op and op["attempt"] != task.get("claim", {}).get("attempt")


def refuse_strangers(op: Json, task: Json) -> None:
    refuse_if(lost(op, task), 4)
    if "process" in op:
        serves = task.get("process") == op["process"] == task.get("claim", {}).get("worker")
        refuse_if(not serves, 4)
        return
    refuse_if("attempt" not in op and "claim" in task and task["claim"]["by"] != op["by"], 4)
    refuse_if("process" in task and task["status"] != "waiting", 4)


def interrupt(op: Json, task: Json) -> None:
    count = task.get("interruptions", 0) + 1
    put(task, claim=None, interruptions=count)
    reason = None
    if task.get("on_interrupt") == "hold":
        reason = "its worker was interrupted, and nobody knows how far it came"
    elif count >= 10:
        reason = f"its worker was interrupted {count} times"
    if reason:
        task["status"] = "waiting"
        condition = "gfs recover decides"
        task["waiting"] = {
            "reason": reason,
            "condition": condition,
            "on": "human",
            "since": op["at"],
        }


def take(op: Json, flow: Json, task: Json) -> None:
    if "claim" in task:
        interrupt(op, task)
    if task["status"] == "pending":
        right = {"worker": op["worker"], "by": op["by"], "attempt": flow["revision"] + 1}
        task["claim"] = right | {"until": op["until"]}
        put(task, process=op.get("process"))


def claim(op: Json, flow: Json, task: Json) -> None:
    refuse_if("process" in task, 4)
    refuse_if(stands(op, task), 4)
    refuse_if(flow["status"] == "waiting" or waits_for(flow, task) or too_early(op, task))
    take(op, flow, task)


def free_tasks(op: Json, flow: Json) -> Iterator[Json]:
    for task in sorted(flow["children"], key=place):
        open_ = task["status"] == "pending" and "process" not in task
        if open_ and not (waits_for(flow, task) or too_early(op, task) or stands(op, task)):
            yield task


def claim_any(op: Json, flow: Json) -> bool:
    if "task" in op:
        on_task(op, flow)
    else:
        found = [] if flow["status"] == "waiting" else [*free_tasks(op, flow)]
        refuse_if(not found, 8)
        for task in found:
            take(op, flow, task)
            if "claim" in task:
                break
        begin(op, flow)
    return any(t.get("claim", {}).get("attempt") == flow["revision"] + 1 for t in flow["children"])


def renew(op: Json, _flow: Json, task: Json) -> None:
    refuse_strangers(op, task)
    refuse_if("claim" not in task, 4)
    task["claim"]["until"] = max(op["until"], task["claim"]["until"])


def release(op: Json, _flow: Json, task: Json) -> None:
    refuse_strangers(op, task)
    put(task, claim=None)


def expire(op: Json, _flow: Json, task: Json) -> None:
    refuse_if(lost(op, task) or "process" in task, 4)
    refuse_if(op["proof"] == "time" and not is_over(op, task["claim"]), 4)
    interrupt(op, task)


# ── settling ────────────────────────────────────────────────────────────────────────────────────


def finish(op: Json, task: Json, **fields: Any) -> None:
    put(task, claim=None, waiting=None, reason=None)
    put(task, finished_at=op["at"], finished_by=op["by"], **fields)


def done(op: Json, flow: Json, task: Json) -> None:
    if task["status"] == "done":
        refuse_if(task["result_ref"] != op["result"], 4 if lost(op, task) else 3)
        return
    refuse_strangers(op, task)
    refuse_if(waits_for(flow, task))
    finish(op, task, status="done", outcome="completed", result_ref=op["result"])


def fail(op: Json, _flow: Json, task: Json) -> None:
    if task["status"] == "failed":
        refuse_if(task.get("reason") != op["reason"], 4 if lost(op, task) else 3)
        return
    refuse_strangers(op, task)
    failures = task.get("failures", 0) + 1
    rerun = task.get("on_interrupt", "rerun") == "rerun"
    if op.get("requeue") and rerun and failures < task.get("max_attempts", 3):
        refuse_if(task["status"] == "waiting")
        put(task, status="pending", claim=None, failures=failures, reason=op["reason"])
        return
    outcome = op.get("outcome", "errored")
    finish(op, task, status="failed", outcome=outcome, reason=op["reason"], failures=failures)


def wait(op: Json, _flow: Json, task: Json) -> None:
    waiting = {"reason": op["reason"], "condition": op["until"], "on": op["on"]}
    if task["status"] == "waiting" and waiting.items() <= task["waiting"].items():
        return
    refuse_strangers(op, task)
    put(task, status="waiting", claim=None, waiting=waiting | {"since": op["at"]})


def again(_op: Json, flow: Json, task: Json) -> None:
    flow["children"][flow["children"].index(task)] = fresh(task)


def resume(op: Json, flow: Json, task: Json) -> None:
    if task["status"] == "waiting":
        again(op, flow, task)


def recover(op: Json, flow: Json, task: Json) -> None:
    refuse_if("claim" in task, 4)
    refuse_if(task["status"] == "pending" and not task.get("interruptions"))
    decide = op["decide"]
    if decide == "retry":
        again(op, flow, task)
    elif decide == "fail":
        finish(op, task, status="failed", outcome="uncertain", reason=op["reason"])
    elif decide == "done":
        refuse_if("result" not in op or waits_for(flow, task))
        finish(op, task, status="done", outcome="completed", result_ref=op["result"])
    else:
        task["reason"] = op["reason"]


# ── plans ───────────────────────────────────────────────────────────────────────────────────────


def planned(plan: Json, flow: str, kept: list[Json]) -> list[Json]:
    refuse_if(plan["flow"] != flow or not plan["tasks"] or not sound(plan["tasks"]))
    done = {task["id"]: task for task in kept if task["status"] == "done"}
    found = []
    for step in plan["tasks"]:
        task, old = fresh(step), done.get(step["id"], {})
        if old.get("goal") == step["goal"]:
            task = {k: v for k, v in old.items() if k not in STATIC} | task | {"status": "done"}
        found.append(task)
    return found


def plan(op: Json, flow: Json) -> None:
    if "plan" in flow or flow["children"]:
        refuse_if(not op.get("replace_plan") or "reason" not in op)
        busy = any(task["status"] == "running" or "claim" in task for task in flow["children"])
        refuse_if(busy and not op.get("cancel_children"))
    kept = flow["children"] if op.get("keep_done") else []
    flow["children"] = planned(op["document"], flow["id"], kept)
    flow["plan"] = flow.get("plan", 0) + 1


def plan_of(flow: Json) -> Json:
    """Return what `plans/` keeps of a flow's tasks."""
    tasks = [{k: v for k, v in fresh(task).items() if k != "status"} for task in flow["children"]]
    return {"schema_version": 1, "flow": flow["id"], "tasks": tasks}


def add(op: Json, flow: Json) -> None:
    there = {task["id"]: task for task in flow["children"]}
    numbers = [int(name[1:]) for name in there if re.fullmatch(r"t\d{1,9}", name)]
    number = max(numbers, default=0) + 1
    while f"t{number}" in there:
        number += 1
    task = fresh(op | {"id": op.get("task", f"t{number}")})
    if task["id"] in there:
        refuse_if(fresh(there[task["id"]]) != task, 4)
        return
    flow["children"].append(task)
    refuse_if(not sound(flow["children"]))


# ── one op on one named task ────────────────────────────────────────────────────────────────────


def on_task(op: Json, flow: Json) -> None:
    task = next((task for task in flow["children"] if task["id"] == op["task"]), None)
    refuse_if(task is None, 5)
    assert task is not None
    refuse_if(task["status"] not in FOUND[op["op"]], 4 if lost(op, task) else 3)
    before = [dict(each) for each in flow["children"]]
    ON_TASK[op["op"]](op, flow, task)
    if flow["children"] != before:
        begin(op, flow)


def begin(op: Json, flow: Json) -> None:
    """The first claim or progress makes a pending flow run."""
    progress = ("task claim", "task done", "task fail", "task wait")
    if flow["status"] == "pending" and op["op"] in progress:
        flow["status"] = "running"


ON_TASK: dict[str, Callable[[Json, Json, Json], None]] = {
    "task claim": claim,
    "task renew": renew,
    "task release": release,
    "task done": done,
    "task fail": fail,
    "task wait": wait,
    "task resume": resume,
    "task retry": again,
    "task expire": expire,
    "recover": recover,
}
RULES: dict[str, Callable[[Json, Json], bool | None]] = {
    **dict.fromkeys(ON_TASK, on_task),
    "task claim": claim_any,
    "plan": plan,
    "task add": add,
}
