"""What every operation carries, and the operations on a flow: one class for each change.

Rules: an op carries every outside fact (time, actor, ids, texts), so that `machine.apply` needs
none. TAG is the one word for it: in the JSON, on the command line and in the commit's subject.
"""

from __future__ import annotations

from typing import ClassVar

from gitflowstate.kinds import (
    Flag,
    Id,
    Json,
    Line,
    Name,
    On,
    Reason,
    Ref,
    Revision,
    Sha256,
    Status,
    Text,
    Time,
    Words,
)
from gitflowstate.model import Fallen, Flow, Link, Plan, Value


class Op(Value):
    """What every operation carries."""

    TAG: ClassVar[str]
    # The fields tried in turn for the text of the commit's subject.
    HEADLINE: ClassVar[tuple[str, ...]] = ()
    # Lines of the commit's body: label and field.
    BODY: ClassVar[tuple[tuple[str, str], ...]] = ()
    # An op that adds is refused when the document would grow past its limits.
    ADDS: ClassVar[bool] = False
    # A flow-level op is the owner's; a note is anybody's (architecture, section 9).
    OWNERS: ClassVar[bool] = True

    at: Time
    by: Name
    expect: Revision | None = None
    key: Sha256 | None = None
    request: Sha256 | None = None
    made: tuple[Id, ...] = ()
    allow_secret: Line | None = None

    def headline(self, flow: Flow | None) -> str:
        """Return the text of the commit's subject, for an op that left `flow` behind."""
        del flow
        texts = (getattr(self, name) for name in self.HEADLINE)
        return next((text for text in texts if text), "")


class Init(Op):
    """Begin a repository."""

    TAG = "init"


class Observe(Op):
    """Record which flows were edited by hand against the rules, and which were mended."""

    TAG = "observe"

    fallen: tuple[Fallen, ...] = ()
    mended: tuple[Id, ...] = ()


class ProcessOp(Op):
    """An operation on one process of a session."""

    OWNERS = False

    session_id: Name
    process: Id


class FlowOp(Op):
    """An operation on one flow."""

    flow: Id

    def made_in(self, flow: Flow) -> tuple[Id, ...]:
        """Return the ids that came into being with the flow as it is afterwards."""
        del flow
        return self.made

    def fulfilled_in(self, flow: Flow) -> bool:
        """Tell whether the flow as it is afterwards has what was asked; if not, no key is used."""
        del flow
        return True


class Create(FlowOp):
    """Record a goal before any work; with `attempt_of`, as a further try of an ended flow."""

    TAG = "create"
    HEADLINE = ("goal",)
    BODY = (("Owner", "owner"), ("Attempt of", "attempt_of"), ("Next", "next"))
    ADDS = True

    goal: Words
    owner: Name
    next: Words
    links: tuple[Link, ...] = ()
    labels: tuple[Name, ...] = ()
    type: Id | None = None
    data: Json | None = None
    attempt_of: Id | None = None
    plan: Plan | None = None


class Import(FlowOp):
    """Take over a document that was kept elsewhere, with its revision."""

    TAG = "import"
    ADDS = True

    document: Flow

    def headline(self, flow: Flow | None) -> str:
        """Return the goal."""
        del flow
        return self.document.goal


class Update(FlowOp):
    """Record progress, the next action, or other words of the owner."""

    TAG = "update"
    HEADLINE = ("progress", "next", "goal", "status")
    BODY = (("Goal", "goal"), ("Next", "next"))
    ADDS = True

    progress: Text | None = None
    next: Words | None = None
    goal: Words | None = None
    status: Status | None = None
    labels: tuple[Name, ...] = ()
    unlabel: tuple[Name, ...] = ()
    links: tuple[Link, ...] = ()
    unlink: tuple[Ref, ...] = ()
    data: Json | None = None


class Note(FlowOp):
    """Append a remark; anybody may."""

    TAG = "note"
    HEADLINE = ("text",)
    ADDS = True
    OWNERS = False

    text: Words


class Wait(FlowOp):
    """Stand still for a reason, until a condition."""

    TAG = "wait"
    HEADLINE = ("reason",)
    BODY = (("Until", "until"), ("Waiting on", "on"))

    reason: Words
    until: Words
    on: On


class Resume(FlowOp):
    """Go on after waiting."""

    TAG = "resume"
    HEADLINE = ("next",)

    next: Words | None = None


class Done(FlowOp):
    """End with a result."""

    TAG = "done"
    HEADLINE = ("result",)

    result: Ref
    cancel_children: Flag = False


class Fail(FlowOp):
    """End without a result, saying what can be used again."""

    TAG = "fail"
    HEADLINE = ("reason",)
    BODY = (("Recoverable", "recoverable"),)

    reason: Words
    recoverable: Words
    cancel_children: Flag = False


class Reopen(FlowOp):
    """Make an ended flow run again."""

    TAG = "reopen"
    HEADLINE = ("reason",)
    BODY = (("Next", "next"),)

    reason: Reason
    next: Words


class Handoff(FlowOp):
    """Give the flow to another owner."""

    TAG = "handoff"
    HEADLINE = ("reason",)
    BODY = (("To", "to"),)

    to: Name
    reason: Reason


class Take(FlowOp):
    """Become the owner of somebody's flow."""

    TAG = "take"
    HEADLINE = ("reason",)
    OWNERS = False

    reason: Reason


class Adopt(FlowOp):
    """Accept a document that was edited by hand, at the next free revision."""

    TAG = "adopt"
    HEADLINE = ("reason",)

    reason: Reason


def flow_of(op: Op) -> str | None:
    """Return the id of the flow that an op may change, if there is one."""
    flow: str | None = getattr(op, "flow", None) if isinstance(op, (FlowOp, ProcessOp)) else None
    return flow
