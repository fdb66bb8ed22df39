"""What a flow repository should hold, said a second time: the JSON of documents in plain dicts.

Rules: nothing of `machine`, `rules` or `guards` is used here, and no speed is sought. A rule
changes the JSON of one flow in place, or raises Refused; `step` does what all ops share. A further
family of operations joins by its entries in COLUMNS and RULES.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import processreference
import taskreference
from taskreference import Refused, fresh, plan_of, planned, refuse_if, sound

__all__ = ["COLUMNS", "RULES", "Refused", "empty", "same", "step"]

Json = dict[str, Any]
LIVE = ("pending", "running", "waiting")
ENDED = ("done", "failed")
FREE = ("note", "take", *taskreference.FREE)  # the ops that are not the owner's alone


def empty() -> Json:
    """Return a repository with nothing in it: `fallen` is what `unusable.json` says, by flow."""
    return {"format": False, "flows": {}, "keys": {}, "fallen": {}, "plans": {}, "processes": {}}


def step(world: Json, op: Json) -> Json:
    """Return the repository after an op, equal to the one before where there is nothing to do."""
    receipt = world["keys"].get(op.get("key"))
    if receipt:
        refuse_if(receipt["request"] != op["request"], 4)
        return world
    after = deepcopy(world)
    if op["op"] == "init":
        after["format"] = True
    elif op["op"] == "observe":
        after["fallen"] |= {entry["flow"]: entry for entry in op.get("fallen", [])}
        for name in op.get("mended", []):
            after["fallen"].pop(name, None)
    elif op["op"].startswith("run "):
        processreference.step(after, op, _one_flow)
    else:
        _one_flow(after, op)
    return after


def _one_flow(world: Json, op: Json) -> None:
    name, born = op["flow"], op["op"] in ("create", "import")
    flow, answered = world["flows"].get(name), True
    plan = flow and flow.get("plan")
    refuse_if(name in world["fallen"] and not (op["op"] == "adopt" and flow), 6)
    refuse_if(flow is None and not born, 5)
    refuse_if("expect" in op and (flow is None or op["expect"] != flow["revision"]), 4)
    if born:
        made = _create(op, world, flow) if op["op"] == "create" else _import(op, flow)
        if flow is not None:
            return
        world["flows"][name] = flow = made
    else:
        named = "local" not in (op["by"], flow["owner"])
        refuse_if(named and op["by"] != flow["owner"] and op["op"] not in FREE, 4)
        refuse_if(flow["status"] not in COLUMNS[op["op"]])
        before = deepcopy(flow)
        answered = RULES[op["op"]](op, flow) is not False
        entry = world["fallen"].pop(name, None)
        if not entry and same(flow, before):
            return
        flow["revision"] = 1 + max(flow["revision"], entry["revision"] if entry else 0)
        flow["updated_at"] = max(op["at"], flow["updated_at"])
    if flow.get("plan") not in (None, plan):
        world["plans"][f"{name}.{flow['plan']}"] = plan_of(flow)
    if "key" in op and answered:
        world["keys"][op["key"]] = {"request": op["request"], "revision": flow["revision"]}


def same(one: Json, other: Json) -> bool:
    """Tell whether two flows are equal, in the order and the types of their data as well."""
    return one == other and json.dumps(one.get("data")) == json.dumps(other.get("data"))


def put(flow: Json, **fields: Any) -> None:
    """Set fields of a flow; what is empty is absent, but for progress and children."""
    for name, value in fields.items():
        flow.pop(name, None)
        if value not in (None, []) or name == "children":
            flow[name] = value


# ── births ──────────────────────────────────────────────────────────────────────────────────────

ASKED = ("goal", "owner", "links", "labels", "type", "data", "attempt_of")


def _create(op: Json, world: Json, flow: Json | None) -> Json:
    wanted = {name: op[name] for name in ASKED if name in op} | {"next_action": op["next"]}
    if flow is not None:
        there = {name: flow.get(name) for name in wanted}
        other = "plan" in op and plan_of(flow)["tasks"] != op["plan"]["tasks"]
        if "plan" in op:
            planned(op["plan"], flow["id"], [])
        refuse_if(flow["status"] in ENDED or other or not same(wanted, there), 4)
        return flow
    parent = world["flows"].get(op["attempt_of"]) if "attempt_of" in op else {"children": []}
    refuse_if(op.get("attempt_of") in world["fallen"], 6)
    refuse_if(parent is None or parent.get("status") in LIVE)
    new = {"schema_version": 1, "id": op["flow"], "status": "pending", "revision": 1}
    new |= {"created_at": op["at"], "updated_at": op["at"], "progress": ""} | wanted
    put(new, plan=1 if "plan" in parent or "plan" in op else None)
    children = [_again(task) for task in parent["children"]]
    if "plan" in op:
        children = planned(op["plan"], op["flow"], [])
    return new | {"children": children}


def _again(task: Json) -> Json:
    if task["status"] == "done":
        return {name: value for name, value in task.items() if name != "claim"}
    return fresh(task)


def _import(op: Json, flow: Json | None) -> Json:
    document = deepcopy(op["document"])
    for task in document["children"]:
        if task.pop("claim", {}).get("worker") == task.get("process"):
            task.pop("process", None)
    refuse_if(document["id"] != op["flow"])
    refuse_if(flow is not None and not same(document, flow), 4)
    refuse_if(flow is None and not sound(document["children"]))
    return document


# ── the rules of a flow that is there ───────────────────────────────────────────────────────────


def _update(op: Json, flow: Json) -> None:
    status = op.get("status")
    refuse_if(status in ("waiting", *ENDED) or (status and flow["status"] == "waiting"))
    if flow["status"] == "pending" and op.get("progress"):
        flow["status"] = "running"
    flow["status"] = status or flow["status"]
    labels = [label for label in flow.get("labels", []) if label not in op.get("unlabel", [])]
    links = [link for link in flow.get("links", []) if link["href"] not in op.get("unlink", [])]
    labels += [label for label in op.get("labels", []) if label not in labels]
    for link in op.get("links", []):
        links += [] if link in links else [link]
    given = {"next_action": "next", "goal": "goal", "progress": "progress", "data": "data"}
    given = {to: op[name] for to, name in given.items() if name in op}
    put(flow, labels=labels, links=links, **given)


def _note(op: Json, flow: Json, text: str | None = None) -> None:
    note = {"at": op["at"], "by": op["by"], "text": text or op["text"]}
    put(flow, notes=[*flow.get("notes", []), note])


def _wait(op: Json, flow: Json) -> None:
    waiting = {"reason": op["reason"], "condition": op["until"], "on": op["on"]}
    if waiting.items() <= flow.get("waiting", {}).items():
        return
    put(flow, status="waiting", waiting=waiting | {"since": op["at"]})


def _resume(op: Json, flow: Json) -> None:
    coming = op.get("next", flow["next_action"])
    refuse_if(flow["status"] == "running" and coming != flow["next_action"])
    put(flow, status="running", waiting=None, next_action=coming)


def _end(op: Json, flow: Json, said: str, **fields: Any) -> None:
    if flow["status"] in ENDED:
        refuse_if(any(flow.get(name) != value for name, value in fields.items()))
        return
    tasks = flow["children"]
    busy = any(task["status"] == "running" or "claim" in task for task in tasks)
    cancel = op.get("cancel_children", False)
    refuse_if(busy and not cancel)
    for task in tasks if cancel else []:
        if task["status"] in ENDED:
            continue
        task.pop("claim", None)
        task.pop("waiting", None)
        task |= {"status": "failed", "outcome": "cancelled", "reason": said}
        task |= {"finished_at": op["at"], "finished_by": op["by"]}
    status = "done" if "result_ref" in fields else "failed"
    put(flow, status=status, next_action=None, waiting=None, **fields)


def _done(op: Json, flow: Json) -> None:
    _end(op, flow, f"{flow['id']} was completed", result_ref=op["result"])


def _fail(op: Json, flow: Json) -> None:
    failure = {"reason": op["reason"], "recoverable": op["recoverable"]}
    _end(op, flow, f"{flow['id']} failed", failure=failure)


def _reopen(op: Json, flow: Json) -> None:
    how = f"was done with {flow.get('result_ref')}"
    if "failure" in flow:
        failure = flow["failure"]
        how = f"had failed: {failure['reason']}; recoverable: {failure['recoverable']}"
    _note(op, flow, f"Reopened: {op['reason']}\nIt {how}")
    put(flow, status="running", next_action=op["next"], result_ref=None, failure=None)


def _own(op: Json, flow: Json) -> None:
    owner = op.get("to", op["by"])
    if owner != flow["owner"]:
        _note(op, flow, f"Owner: {flow['owner']} -> {owner}. {op['reason']}")
        flow["owner"] = owner


# Which statuses an op may find, and what it does there.
COLUMNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["update", "note", "wait", "handoff", "take"], LIVE),
    "resume": ("waiting", "running"),
    "done": (*LIVE, "done"),
    "fail": (*LIVE, "failed"),
    "reopen": ENDED,
    "adopt": (*LIVE, *ENDED),
    **dict.fromkeys(taskreference.RULES, LIVE),
}
RULES: dict[str, Callable[[Json, Json], bool | None]] = {
    "update": _update,
    "note": _note,
    "wait": _wait,
    "resume": _resume,
    "done": _done,
    "fail": _fail,
    "reopen": _reopen,
    "handoff": _own,
    "take": _own,
    "adopt": lambda _op, _flow: None,
    **taskreference.RULES,
}
