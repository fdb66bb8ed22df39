"""What the history promises about tasks: one holder at a time, in order, settled by the holder."""

from __future__ import annotations

from datetime import UTC, datetime

CLAIM, DONE = "task claim", "task done"


def _moment(text):
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def _tasks(document):
    return {task["id"]: task for task in (document or {}).get("children", [])}


def _taken(step):
    """Return the tasks that a commit claimed, as they were before and are after it."""
    before, after = _tasks(step.before), _tasks(step.after)
    for name, task in after.items():
        if task.get("claim") and task["claim"]["attempt"] == step.revision:
            yield before.get(name, {}), task


def _is_put_on_hold(step):
    """Tell whether the claim found a task that waits for a person after its holder's end."""
    before, after = _tasks(step.before), _tasks(step.after)
    return any(task["status"] == "waiting" != before[name]["status"]
               for name, task in after.items())  # fmt: skip


def one_holder(trace):
    """A task is claimed only where nobody's claim is alive, by whoever claims it then."""
    attempts = set()
    for step in trace.steps:
        if step.op["op"] != CLAIM:
            continue
        taken = [*_taken(step)]
        if len(taken) != (0 if _is_put_on_hold(step) else 1):
            yield f"{step.commit[:12]} claims {len(taken)} tasks"
        for before, task in taken:
            held = before.get("claim")
            if held and _moment(step.op["at"]) < _moment(held["until"]) + step.op.get("skew_s", 0):
                yield f"{step.flow}/{task['id']} was claimed at r{step.revision} from its holder"
            if before.get("status") != "pending":
                yield f"{step.flow}/{task['id']} was claimed while {before.get('status')}"
            attempt = step.flow, task["id"], task["claim"]["attempt"]
            if attempt in attempts:
                yield f"{attempt} was given out twice"
            attempts.add(attempt)


def dependencies(trace):
    """A task is claimed only after all that it depends on is done, in a flow that runs."""
    for step in trace.steps:
        if step.op["op"] != CLAIM:
            continue
        tasks = _tasks(step.before)
        for _, task in _taken(step):
            late = [name for name in task.get("deps", []) if tasks[name]["status"] != "done"]
            if late:
                yield f"{step.flow}/{task['id']} was claimed before {late}"
        if step.before["status"] not in ("pending", "running"):
            yield f"{step.flow} had a task claimed while {step.before['status']}"


def settled_by_holder(trace):
    """A task with a holder is done by it alone; a task is done once, unless it is tried again."""
    for step in trace.steps:
        op = step.op
        if op["op"] != DONE:
            continue
        before = _tasks(step.before)[op["task"]]
        held = before.get("claim")
        if held and op.get("attempt", held["attempt"]) != held["attempt"]:
            yield f"{step.flow}/{op['task']} was done by attempt {op['attempt']}, of no holder"
        if op.get("attempt") and not held:
            yield f"{step.flow}/{op['task']} was done by attempt {op['attempt']} after its end"
        if before["status"] == "done":
            yield f"{step.flow}/{op['task']} was done twice"
