"""Law: any sequence of operations leaves what the reference says, document by document.

The repository is a dict of documents. An operation joins the walk as soon as `reference.RULES`
knows it, and must.
"""

from __future__ import annotations

from typing import Any

import pytest
import reference
import strategies
from hypothesis import event, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from scaling import scale

from gitflowstate import codec, machine, model
from gitflowstate.errors import GfsError
from gitflowstate.judgement import entry_of, judge
from gitflowstate.kinds import ENDS, KINDS
from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Flow,
    Link,
    Receipt,
    Step,
    Unusable,
    Value,
)
from gitflowstate.ops import (
    Adopt,
    Create,
    Done,
    Fail,
    Handoff,
    Note,
    Observe,
    Op,
    Reopen,
    Resume,
    Take,
    Update,
    Wait,
)
from gitflowstate.processmodel import Process
from gitflowstate.processops import RunIntend, RunLose, RunSettle, RunStart
from gitflowstate.taskops import (
    Plan,
    Recover,
    TaskAdd,
    TaskClaim,
    TaskDone,
    TaskExpire,
    TaskFail,
    TaskRelease,
    TaskRenew,
    TaskResume,
    TaskRetry,
    TaskWait,
)

RUN = ("run intend", "run start", "run settle", "run lose")
KNOWN = ("init", "observe", "create", "import", *reference.RULES, *RUN)
WALKED = strategies.MAIN[::-1]
THE_PLAN = model.Plan(
    schema_version=1,
    flow="f-1",
    tasks=(
        Step(id="t1", goal="one"),
        Step(id="t2", goal="two", deps=("t1",)),
        Step(id="t10", goal="one", on_interrupt="hold", priority=1),
    ),
)
SETTLING = (TaskDone, TaskFail, TaskWait, TaskRelease, TaskRenew, TaskExpire)


OWNER = st.just("local")  # whom nobody refuses
# So few words that one is often said twice, which must then change nothing.
said = st.sampled_from(["one", "two"])
links = st.sampled_from([Link(rel="r", href="1"), Link(rel="r", href="2"), Link(rel="s", href="1")])
FEW = {
    **dict.fromkeys(["goal", "text", "reason", "recoverable", "result"], said),
    **dict.fromkeys(["progress", "next"], st.none() | said),
    "until": said,
    "data": st.sampled_from([None, None, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": True, "b": 2}]),
    "labels": st.lists(said, max_size=2, unique=True).map(tuple),
    "unlabel": st.lists(said, max_size=1).map(tuple),
    "links": st.lists(links, max_size=2).map(tuple),
    "unlink": st.lists(st.sampled_from("12"), max_size=1).map(tuple),
    "worker": st.sampled_from(["v.1", "w.2"]),
}
NEEDED = FEW | {"next": said}


def test_the_reference_knows_every_op_on_a_flow():
    assert {kind.TAG for kind in strategies.MAIN} == set(KNOWN)


def as_json(op: Op) -> dict[str, Any]:
    return {**codec.to_json(op), "op": op.TAG}


def promised(world: dict[str, Any], op: Op) -> dict[str, Any] | int:
    """Return what the reference makes of an op: a world, or the exit code of its refusal."""
    try:
        return reference.step(world, as_json(op))
    except reference.Refused as refused:
        return refused.code


def refusal(op: Op, state: machine.State) -> int:
    with pytest.raises(GfsError) as caught:
        machine.apply(op, state)
    note(f"refused: {caught.value.message}")
    return caught.value.code


def digested(flow: Flow) -> tuple[Flow, str]:
    return flow, codec.digest(codec.encode(flow))


class Repository(RuleBasedStateMachine):
    """The documents that `machine` keeps, and beside them the world as the reference has it."""

    keyed = Bundle("keyed")

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, Value] = {}
        self.world = reference.empty()
        self.good: dict[str, Flow] = {}  # what stood there before an edit by hand

    @initialize(owner=strategies.owners)
    def begin(self, owner):
        for name in strategies.FLOWS:
            self.carry_out(
                Create(
                    at="2026-09-06T09:00:00Z",
                    by="local",
                    flow=name,
                    goal="g",
                    owner=owner,
                    next="n",
                    plan=THE_PLAN.replace(flow=name),
                )
            )

    # ── one op, in both worlds ──────────────────────────────────────────────────────────────────

    def carry_out(self, op: Op) -> bool:
        """Apply an op in both worlds; return whether it changed anything."""
        state = {path: self.documents.get(path) for path in machine.reads(op)}
        world = promised(self.world, op)
        if isinstance(world, int):
            assert refusal(op, state) == world
            event(f"{op.TAG}: refused with {world}")
            return False
        after = machine.apply(op, state)
        event(f"{op.TAG}: {'nothing to do' if after is state else 'changed'}")
        assert (after is state) == alike(self.world, world)
        self.world = world
        for path, value in after.items():
            self.keep(path, value)
        return after is not state

    def keep(self, path: str, value: Value | None) -> None:
        if value is None:
            self.documents.pop(path, None)
        else:  # through its bytes, as a repository does
            self.documents[path] = codec.decode_at(path, codec.encode(value))

    @rule(target=keyed, op=strategies.operations(*WALKED, **NEEDED))
    def operate(self, op):
        """Carry an op out; return it where its key is kept: a receipt names a flow."""
        changed = self.carry_out(op)
        return op if changed and op.key in self.world["keys"] else multiple()

    # The same, more often for what a walk lives on.

    @rule(target=keyed, op=strategies.operations(Update, Note, Wait, Resume, **FEW, by=OWNER))
    def work(self, op):
        return self.operate(op)

    @rule(target=keyed, op=strategies.operations(TaskClaim, TaskAdd, TaskResume, TaskRetry, **FEW))
    def move_a_task(self, op):
        return self.operate(op)

    @rule(target=keyed, op=strategies.operations(TaskClaim, **FEW, by=OWNER, task=st.none()))
    def take_the_next_task(self, op):
        return self.operate(op)

    @precondition(lambda self: self.held())
    @rule(target=keyed, data=st.data(), kind=st.sampled_from(SETTLING))
    def hold_a_task(self, data, kind):
        """The holder of a claim acts, as itself or with its token; or somebody ends the claim."""
        held = data.draw(st.sampled_from(self.held()))
        fields = {name: st.just(value) for name, value in held.items()}
        return self.operate(data.draw(strategies.operations(kind, **(FEW | fields))))

    # Processes, whose ends are mostly of the task that they serve.

    @rule(op=strategies.operations(RunIntend, **FEW | {"until": strategies.times}))
    def intend(self, op):
        self.carry_out(op)

    @precondition(lambda self: self.world["processes"])
    @rule(data=st.data(), kind=st.sampled_from([RunStart, RunSettle, RunSettle, RunLose]))
    def go_on(self, data, kind):
        """A process that was intended starts, ends, or is given up, whatever it was before."""
        name = data.draw(st.sampled_from(sorted(self.world["processes"])))
        found = self.world["processes"][name]
        fields = {
            "process": st.just(found["id"]),
            "session_id": st.just(found["session_id"]),
            "flow": st.just(found.get("flow")),
            "task": st.just(found.get("task")),
            "state": st.sampled_from(["completed", "completed", *KINDS["ProcessState"].values]),
            "exit_code": st.none() | st.sampled_from([0, 1]),
        }
        op = data.draw(strategies.operations(kind, **FEW | fields))
        ended = found["state"] in ENDS
        assert not (self.carry_out(op) and ended), "a terminal process has changed"

    def held(self) -> list[dict[str, Any]]:
        """Return every claim of an open flow, in the words of an op on it."""
        return [
            {"flow": name, "task": task["id"], "attempt": task["claim"]["attempt"]}
            for name, flow in sorted(self.world["flows"].items())
            for task in flow["children"]
            if "claim" in task and flow["status"] in reference.LIVE
        ]

    @rule(
        target=keyed,
        op=strategies.operations(Recover, Plan, **FEW, by=OWNER, expect=st.none()),
    )
    def decide(self, op):
        return self.operate(op)

    @rule(target=keyed, op=strategies.operations(Reopen, Done, Fail, **NEEDED, by=OWNER))
    def end_or_reopen(self, op):
        return self.operate(op)

    @rule(target=keyed, op=strategies.operations(Take, Handoff, **FEW))
    def change_owner(self, op):
        return self.operate(op)

    @rule(target=keyed, op=strategies.operations(Adopt, by=OWNER, expect=st.none()))
    def adopt(self, op):
        return self.operate(op)

    @rule(op=keyed, at=strategies.times, by=strategies.actors, expect=st.none() | st.just(99))
    def repeat(self, op, at, by, expect):
        """The answer was lost; the caller asks again, and nothing happens."""
        assert not self.carry_out(op.replace(at=at, by=by, expect=expect))

    @rule(op=keyed, request=st.sampled_from(["7" * 64, "6" * 64]))
    def reuse_the_key(self, op, request):
        assert promised(self.world, op.replace(request=request)) == 4
        assert not self.carry_out(op.replace(request=request))

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    @rule(
        name=strategies.flow_ids,
        rise=st.sampled_from([1, 1, 2, 1, 0, -1]),
        text=st.sampled_from(["by hand", "by another hand"]),
        at=strategies.times,
    )
    def edit(self, name, rise, text, at):
        """A person commits a document of their own, and gfs observes it."""
        old = machine.find(name, self.at_places(name))
        if old is None:
            return
        new = old.replace(revision=max(1, old.revision + rise), progress=text)
        if name not in self.world["fallen"]:
            self.good[name] = old
        was = {"revision": old.revision, "digest": digested(old)[1]}
        last = self.world["fallen"].get(name, was)
        rose = new.revision > last["revision"]
        self.observe(old, new, at, fell=not rose and digested(new)[1] != last["digest"])

    @rule(name=strategies.flow_ids, at=strategies.times)
    def revert(self, name, at):
        """A person puts back the last document that gfs wrote."""
        old, good = machine.find(name, self.at_places(name)), self.good.get(name)
        entry = entry_of(self.documents.get(UNUSABLE_PATH), name)
        if old and good and entry and entry.digest == digested(good)[1]:
            self.observe(old, good, at, fell=False)

    def observe(self, old: Flow, new: Flow, at: str, *, fell: bool) -> None:
        name, entry = old.id, entry_of(self.documents.get(UNUSABLE_PATH), old.id)
        for path in machine.places(name):
            self.keep(path, None)
        self.keep(strategies.place(new), new)
        self.world["flows"][name] = codec.to_json(new)
        verdict = judge(entry, digested(old), digested(new), name)
        assert (verdict is not None) == fell
        if verdict != entry:
            found = (verdict,) if verdict else ()
            mended = () if verdict else (name,)
            self.carry_out(Observe(at=at, by="gfs", fallen=found, mended=mended))

    def at_places(self, name: str) -> dict[str, Value | None]:
        return {path: self.documents.get(path) for path in machine.places(name)}

    # ── what must be true after each step ───────────────────────────────────────────────────────

    @invariant()
    def both_worlds_are_the_same(self):
        assert alike(self.seen(), self.world)

    def seen(self) -> dict[str, Any]:
        """Return the documents in the form of the reference."""
        unusable = self.documents.get(UNUSABLE_PATH)
        flows = [value for value in self.documents.values() if isinstance(value, Flow)]
        receipts = {
            path[-69:-5]: {"request": value.request, "revision": value.revision}
            for path, value in self.documents.items()
            if isinstance(value, Receipt)
        }
        return {
            "format": FORMAT_PATH in self.documents,
            "flows": {flow.id: codec.to_json(flow) for flow in flows},
            "keys": receipts,
            "plans": {
                path.rsplit("/", 1)[-1].removesuffix(".json"): codec.to_json(value)
                for path, value in self.documents.items()
                if isinstance(value, model.Plan)
            },
            "processes": {
                f"{value.session_id}/{value.id}": codec.to_json(value)
                for value in self.documents.values()
                if isinstance(value, Process)
            },
            "fallen": {entry.flow: codec.to_json(entry) for entry in unusable.flows}
            if isinstance(unusable, Unusable)
            else {},
        }


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two worlds are equal, to the order and the types in free-form data."""
    return one == other and all(
        reference.same(flow, other["flows"][name]) for name, flow in one["flows"].items()
    )


TestRepository = pytest.mark.req("R-TF-15", "R-TF-17", "R-TF-22", "D2")(Repository.TestCase)
TestRepository.settings = settings(max_examples=scale(40), stateful_step_count=40)
