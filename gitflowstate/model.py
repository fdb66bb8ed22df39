"""The frozen values: flows, tasks and the documents beside them, and where each lives.

Rules: the annotations are the one declaration that mypy, `codec`, pydantic and the schemas read;
their order is the order in the file. A field equal to its default is not written, so absent and
null are the same. `_encoded` may keep a document's canonical bytes, `_lines` a task's part of
them; both are `codec`'s, and no part of the value.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any, ClassVar, Self, dataclass_transform

from gitflowstate.kinds import (
    TERMINAL,
    Count,
    Id,
    Int,
    Json,
    Name,
    On,
    OnInterrupt,
    Outcome,
    Ref,
    Revision,
    Sha256,
    Status,
    Text,
    Time,
    Words,
)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    """An immutable record whose fields are its annotations."""

    __slots__ = ("__dict__", "_encoded", "_lines")
    # A stored document has its class's version as first field; newer ones are read, never written.
    VERSION: ClassVar[int] = 0
    # status -> the fields it cannot be without; a field named here belongs to those statuses alone
    # when it is also in OWN.
    NEEDS: ClassVar[dict[str, tuple[str, ...]]] = {}
    OWN: ClassVar[tuple[str, ...]] = ()

    # Only by position, since a newer document may have a field called self.
    def __init__(self, /, **fields: Any) -> None:  # noqa: ANN401  the annotations say
        own, cls = self.__dict__, type(self)
        for name, value in fields.items():
            if value is not None and value != getattr(cls, name, None):
                own[name] = value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        return mine == theirs and all(_same(value, theirs[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inside})"

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401  the annotations say
        """Return a copy with the changes, or this very object when nothing differs."""
        if all(_same(getattr(self, name), value) for name, value in changes.items()):
            return self
        return type(self)(**{**self.__dict__, **changes})


def _same(one: object, other: object) -> bool:
    """Tell whether two values of a field are the same; in free-form data, order and type count."""
    return bool(one == other) and (type(one) is not dict or repr(one) == repr(other))


class Waiting(Value):
    """Why a flow or task stands still, and what would let it go on."""

    reason: Words
    condition: Words
    on: On
    since: Time | None = None


class Failure(Value):
    """Why a flow failed, and which of its work can be used again."""

    reason: Words
    recoverable: Words


class Note(Value):
    """One remark; notes are only ever appended."""

    at: Time
    by: Name
    text: Words


class Link(Value):
    """A pointer to something outside, such as an issue."""

    rel: Name
    href: Ref


class Claim(Value):
    """The right of one worker to act on a task until a time; `attempt` is the fencing token."""

    worker: Name
    by: Name
    attempt: Revision
    until: Time


class Task(Value):
    """One child task of a flow."""

    NEEDS: ClassVar = {"done": ("result_ref",), "waiting": ("waiting",)}

    id: Id
    goal: Words
    status: Status
    deps: tuple[Id, ...] = ()
    priority: Int = 0
    not_before: Time | None = None
    timeout_s: Count | None = None
    max_attempts: Count = 3
    on_interrupt: OnInterrupt = "rerun"
    claim: Claim | None = None
    failures: Count = 0
    interruptions: Count = 0
    outcome: Outcome | None = None
    result_ref: Ref | None = None
    reason: Words | None = None
    finished_at: Time | None = None
    finished_by: Name | None = None
    waiting: Waiting | None = None
    process: Id | None = None


class Step(Value):
    """What a plan says of one task."""

    id: Id
    goal: Words
    deps: tuple[Id, ...] = ()
    priority: Int = 0
    not_before: Time | None = None
    timeout_s: Count | None = None
    max_attempts: Count = 3
    on_interrupt: OnInterrupt = "rerun"


class Plan(Value):
    """One version of a flow's graph, kept when another takes its place."""

    VERSION = 1

    schema_version: Revision
    flow: Id
    tasks: tuple[Step, ...]


class Flow(Value):
    """One durable snapshot of a goal: the owner's words, and its child tasks."""

    VERSION = 1
    NEEDS: ClassVar = {
        "pending": ("next_action",),
        "running": ("next_action",),
        "waiting": ("next_action", "waiting"),
        "done": ("result_ref",),
        "failed": ("failure",),
    }
    OWN = ("waiting", "result_ref", "failure")

    schema_version: Revision
    id: Id
    goal: Words
    status: Status
    revision: Revision
    owner: Name
    created_at: Time | None = None
    updated_at: Time
    progress: Text | None = None
    next_action: Words | None = None
    waiting: Waiting | None = None
    failure: Failure | None = None
    result_ref: Ref | None = None
    notes: tuple[Note, ...] = ()
    plan: Revision | None = None
    links: tuple[Link, ...] = ()
    attempt_of: Id | None = None
    labels: tuple[Name, ...] = ()
    type: Id | None = None
    data: Json | None = None
    children: tuple[Task, ...]


class Receipt(Value):
    """Which request an idempotency key was first used for, and what came of it."""

    VERSION = 1

    schema_version: Revision
    request: Sha256
    flow: Id
    revision: Revision
    made: tuple[Id, ...] = ()


class Fallen(Value):
    """The last managed revision of a flow that was edited by hand against the rules."""

    flow: Id
    revision: Revision
    digest: Sha256


class Unusable(Value):
    """The flows that nothing may use until `adopt` or a revert by a person."""

    VERSION = 1

    schema_version: Revision
    flows: tuple[Fallen, ...]


class Format(Value):
    """The mark of a flow repository; the same bytes everywhere."""

    format: Revision


def shard(name: str) -> str:
    """Return the folder that a document named so is kept in: 256 of them keep a commit cheap."""
    return sha256(name.encode()).hexdigest()[:2]


def flow_path(flow: str) -> str:
    """Return where a live flow is kept."""
    return f"flows/{shard(flow)}/{flow}.json"


def archive_path(flow: str) -> str:
    """Return where a terminal flow is kept."""
    return f"archive/{shard(flow)}/{flow}.json"


def key_path(digest: str) -> str:
    """Return where the receipt of a key, named by its sha256, is kept."""
    return f"keys/{digest[:2]}/{digest}.json"


def plan_path(flow: str, number: int) -> str:
    """Return where a version of a flow's plan is kept."""
    return f"plans/{shard(flow)}/{flow}.{number}.json"


FORMAT_PATH = "gitflowstate.json"
UNUSABLE_PATH = "unusable.json"


def live(flow: Flow) -> bool:
    """Tell whether the flow may still change without being reopened."""
    return flow.status not in TERMINAL


def instant(time: Time) -> str:
    """Return a key by which times compare: the text without Z, since '.' sorts before it."""
    return time[:-1]


def latest(*times: Time | None) -> Time:
    """Return the latest of the times that are given."""
    return max((time for time in times if time is not None), key=instant)


def seconds(time: Time) -> int:
    """Return a time as whole seconds since 1970, which Git keeps for a commit."""
    return int(datetime.fromisoformat(time).timestamp())
