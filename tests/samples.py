"""Values for tests of the core: flows of each status, ops of each class, the state an op reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitflowstate import codec, machine, taskrules
from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Failure,
    Fallen,
    Flow,
    Format,
    Plan,
    Step,
    Task,
    Unusable,
    Value,
    Waiting,
    archive_path,
    flow_path,
)
from gitflowstate.ops import FlowOp, Op
from gitflowstate.union import BY_TAG, UNION

# The ops on one task; those on a flow itself, and those of them that need one to be there.
TASK_TAGS = [*taskrules.TABLE]
FLOW_TAGS = [
    kind.TAG
    for kind in UNION
    if issubclass(kind, FlowOp) and kind.TAG not in (*TASK_TAGS, "plan", "task add")
]
CHANGES = [tag for tag in FLOW_TAGS if tag not in ("create", "import")]
STATUSES = ("pending", "running", "waiting", "done", "failed")
AT = "2026-09-06T10:00:00Z"
LATER = "2026-09-06T11:00:00Z"
OWNER = "ann"
KEY = "a" * 64
REQUEST = "b" * 64

EXAMPLE = b"""\
{
  "schema_version": 1,
  "id": "flow-example-001",
  "goal": "Compare three data-platform architecture options",
  "status": "running",
  "revision": 4,
  "owner": "architecture-session",
  "updated_at": "2026-09-06T10:00:00Z",
  "progress": "Requirements captured; comparison in progress",
  "next_action": "Review child findings and draft a recommendation",
  "children": [
    {
      "id": "task-001",
      "goal": "Compare operating constraints",
      "status": "done",
      "result_ref": "artifacts/constraints.md"
    },
    {
      "id": "task-002",
      "goal": "Assess integration options",
      "status": "running"
    }
  ]
}
"""

_OF_STATUS: dict[str, dict[str, Any]] = {
    "pending": {},
    "running": {},
    "waiting": {
        "waiting": Waiting(reason="no answer", condition="an answer", on="human", since=AT)
    },
    "done": {"result_ref": "out/report.md", "next_action": None},
    "failed": {
        "failure": Failure(reason="no budget", recoverable="the notes"),
        "next_action": None,
    },
}
_OF_TAG: dict[str, dict[str, Any]] = {
    "init": {},
    "observe": {"fallen": (Fallen(flow="f-1", revision=7, digest="c" * 64),)},
    "create": {"goal": "compare", "owner": OWNER, "next": "read"},
    "import": {},
    "update": {"progress": "half way"},
    "note": {"text": "seen"},
    "wait": {"reason": "no reply", "until": "a reply", "on": "agent"},
    "resume": {},
    "done": {"result": "out/report.md"},
    "fail": {"reason": "no budget", "recoverable": "the notes"},
    "reopen": {"reason": "a mistake", "next": "look again"},
    "handoff": {"to": "bob", "reason": "holidays"},
    "take": {"by": "bob", "reason": "holidays"},
    "adopt": {"reason": "looks right"},
    "plan": {"document": Plan(schema_version=1, flow="f-1", tasks=(Step(id="t1", goal="do t1"),))},
    "task add": {"goal": "do more"},
    "task claim": {"task": "t1", "worker": "w.12345678", "until": "2026-09-06T13:00:00Z"},
    "task renew": {"task": "t1", "until": "2026-09-06T14:00:00Z"},
    "task release": {"task": "t1"},
    "task done": {"task": "t1", "result": "out/t.md"},
    "task fail": {"task": "t1", "reason": "no luck"},
    "task wait": {"task": "t1", "reason": "no key", "until": "a key", "on": "human"},
    "task resume": {"task": "t1"},
    "task retry": {"task": "t1", "reason": "the source is back"},
    "task expire": {"task": "t1", "attempt": 3, "proof": "lock"},
    "recover": {"task": "t1", "decide": "retry", "reason": "nothing was sent"},
}


def flow(status: str = "running", **changes: Any) -> Flow:
    """Return the flow f-1 of ann at revision 3, in a status."""
    fields: dict[str, Any] = {
        "schema_version": 1,
        "id": "f-1",
        "goal": "compare",
        "status": status,
        "revision": 3,
        "owner": OWNER,
        "created_at": AT,
        "updated_at": AT,
        "progress": "",
        "next_action": "read",
        "children": (),
        **_OF_STATUS[status],
    }
    return codec.checked(Flow(**(fields | changes)))


def task(name: str = "t1", status: str = "pending", **changes: Any) -> Task:
    """Return a task in a status."""
    needs: dict[str, dict[str, Any]] = {
        "done": {"result_ref": "out/t.md", "outcome": "completed", "finished_at": AT},
        "waiting": {"waiting": Waiting(reason="no key", condition="a key", on="human")},
    }
    return Task(id=name, goal=f"do {name}", status=status, **(needs.get(status, {}) | changes))


def op(tag: str, **changes: Any) -> Op:
    """Return a valid op of a class, by the owner, an hour after the flow's last change."""
    about = {} if tag in ("init", "observe") else {"flow": "f-1"}
    given = {"at": LATER, "by": OWNER, **about, **_OF_TAG[tag]} | changes
    if tag == "import" and "document" not in given:
        given["document"] = flow(id=given["flow"])
    return codec.checked(BY_TAG[tag](**given))


def state(wanted: Op, *documents: Value) -> dict[str, Value | None]:
    """Return what an op reads, among documents that stand where they belong."""
    there = {path_of(document): document for document in documents}
    return {path: there.get(path) for path in machine.reads(wanted)}


def path_of(document: Value) -> str:
    """Return where a document of a fixed place, or a flow, is kept."""
    if isinstance(document, Flow):
        ended = document.status in ("done", "failed")
        return archive_path(document.id) if ended else flow_path(document.id)
    if isinstance(document, Format):
        return FORMAT_PATH
    assert isinstance(document, Unusable), document
    return UNUSABLE_PATH


def after(wanted: Op, *documents: Value) -> Flow:
    """Return the flow of an op as it is afterwards."""
    found = machine.find(wanted.flow, machine.apply(wanted, state(wanted, *documents)))
    assert found is not None
    return found


def fallen(revision: int = 3, digest: str = "d" * 64, name: str = "f-1") -> Unusable:
    """Return `unusable.json` with one flow in it."""
    entry = Fallen(flow=name, revision=revision, digest=digest)
    return Unusable(schema_version=1, flows=(entry,))


def stored(documents: Mapping[str, Value | None]) -> dict[str, bytes]:
    """Return the documents as bytes, by path."""
    return {path: codec.encode(value) for path, value in documents.items() if value is not None}


def receipts(documents: Mapping[str, Value | None]) -> list[str]:
    """Return the paths of the receipts among the documents."""
    return [path for path, value in documents.items() if path.startswith("keys/") and value]
