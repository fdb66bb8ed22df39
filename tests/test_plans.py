"""Plans: stored once and whole, replaced only deliberately, added to one by one."""

from __future__ import annotations

import pytest
from samples import KEY, REQUEST, after, flow, op, state, task

from gitflowstate import codec, machine
from gitflowstate.errors import Invalid, Rejected, Stale
from gitflowstate.kinds import MAX_CHILDREN, MAX_GROWN
from gitflowstate.model import Claim, Plan, Step, plan_path

HELD = Claim(worker="w.12345678", by="ann", attempt=3, until="2026-09-06T12:00:00Z")
LESSON = {"t1": (), "t2": ("t1",), "t3": ("t1",), "t4": ("t2", "t3"), "t5": ("t4",)}


def plan(*steps: Step, of: str = "f-1") -> Plan:
    """Return a plan."""
    return Plan(schema_version=1, flow=of, tasks=steps)


def step(name: str, *deps: str, **more) -> Step:
    """Return a step of a plan."""
    return Step(id=name, goal=f"do {name}", deps=deps, **more)


THE_LESSON = plan(*(step(name, *deps) for name, deps in LESSON.items()))
DONE = task("t1", "done", finished_by="bob")
REPLACE = {"replace_plan": True, "reason": "the goal is another"}


def planned(*documents, **fields):
    """Return the documents that an op `plan` leaves behind."""
    wanted = op("plan", **{"document": THE_LESSON} | fields)
    return machine.apply(wanted, state(wanted, *documents))


@pytest.mark.req("R-TS-01", "R-TS-02")
def test_the_whole_graph_is_stored_at_once_all_pending():
    documents = planned(flow())
    left = machine.find("f-1", documents)
    assert left.plan == 1
    assert {each.id: each.deps for each in left.children} == LESSON
    assert {each.status for each in left.children} == {"pending"}
    assert documents[plan_path("f-1", 1)] == THE_LESSON


@pytest.mark.req("R-TS-02", "R-TS-18")
@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((), "at least one task"),
        ((step("t1", "t1"),), "t1 depends on itself"),
        ((step("t2", "t3"), step("t3", "t2")), "cycle: t[23] -> t[23] -> t[23]"),
        ((step("t1", "t9"),), "t1 depends on t9, which is not there"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_whole(steps, said):
    for wanted, there in (
        (op("plan", document=plan(*steps)), flow()),
        (op("create", plan=plan(*steps)), None),
    ):
        with pytest.raises(Invalid, match=said) as refused:
            machine.apply(wanted, state(wanted, *([there] if there else [])))
        assert refused.value.details["violations"][0]["path"] == "tasks"


@pytest.mark.req("R-TS-18")
def test_an_id_that_stands_twice_is_no_plan():
    with pytest.raises(Invalid, match="holds t1 twice"):
        op("plan", document=plan(step("t1"), step("t1")))


@pytest.mark.parametrize("tag", ["plan", "create"])
def test_the_plan_of_another_flow_is_refused(tag):
    fields = {"document" if tag == "plan" else "plan": plan(step("t1"), of="f-2")}
    wanted = op(tag, **fields)
    with pytest.raises(Rejected, match="one for f-2, not for f-1"):
        machine.apply(wanted, state(wanted, *([flow()] if tag == "plan" else [])))


# ── a second plan ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-10", "R-TS-20", "R-TS-26")
@pytest.mark.parametrize("there", [flow(children=(task(),)), flow(plan=1, children=(task(),))])
def test_a_second_plan_is_refused_even_the_same_one(there):
    with pytest.raises(Rejected, match="plan of 1 task already") as refused:
        planned(there, document=plan(step("t1")))
    assert refused.value.details["next"] == ["gfs", "graph", "f-1"]


@pytest.mark.req("R-TS-20", "C-18")
def test_another_wording_of_the_goal_leaves_the_plan_as_it_is():
    there = machine.find("f-1", planned(flow()))
    left = after(op("update", goal="another goal"), there)
    assert (left.plan, left.children) == (there.plan, there.children)


@pytest.mark.req("R-TS-20", "C-18")
def test_a_plan_is_replaced_for_a_reason_and_the_old_one_stays():
    there = machine.find("f-1", planned(flow()))
    with pytest.raises(Rejected, match="for a reason"):
        planned(there, replace_plan=True)
    documents = planned(there, document=plan(step("t7")), **REPLACE)
    left = machine.find("f-1", documents)
    assert (left.plan, [each.id for each in left.children]) == (2, ["t7"])
    assert documents[plan_path("f-1", 2)] == plan(step("t7"))
    assert plan_path("f-1", 1) not in documents  # it is not touched


@pytest.mark.req("R-TS-20")
@pytest.mark.parametrize("busy", [task("t2", claim=HELD), task("t2", "running")])
def test_a_plan_in_work_is_not_replaced_unless_its_tasks_are_cancelled(busy):
    there = flow(plan=1, children=(DONE, busy))
    with pytest.raises(Rejected, match="tasks in work: t2") as refused:
        planned(there, **REPLACE)
    assert refused.value.details["tasks"] == ["t2"]
    left = machine.find("f-1", planned(there, cancel_children=True, **REPLACE))
    assert [each.claim for each in left.children] == [None] * 5
    late = op("task done", task="t2", attempt=3)
    with pytest.raises(Stale, match="attempt 3 is lost"):
        after(late, left)


@pytest.mark.req("R-TS-20")
def test_done_tasks_are_kept_only_if_asked_and_only_with_the_same_goal():
    there = flow(
        plan=1,
        children=(DONE, task("t2", "done").replace(goal="something else"), task("t3", "failed")),
    )
    bare = machine.find("f-1", planned(there, **REPLACE))
    assert {each.status for each in bare.children} == {"pending"}
    kept = machine.find("f-1", planned(there, keep_done=True, **REPLACE))
    assert [each.status for each in kept.children] == ["done", *["pending"] * 4]
    assert (kept.children[0].result_ref, kept.children[0].finished_by) == ("out/t.md", "bob")


def test_a_kept_task_takes_what_the_new_plan_says_of_it():
    there = flow(plan=1, children=(DONE,))
    documents = planned(
        there,
        document=plan(step("t0"), step("t1", "t0", priority=7)),
        keep_done=True,
        **REPLACE,
    )
    kept = machine.find("f-1", documents).children[1]
    assert (kept.status, kept.deps, kept.priority) == ("done", ("t0",), 7)
    assert documents[plan_path("f-1", 2)].tasks[1] == step("t1", "t0", priority=7)


def test_the_token_of_a_claim_grows_over_a_new_plan():
    there = flow(plan=1, children=(task("t1", claim=HELD),))
    left = machine.find("f-1", planned(there, cancel_children=True, **REPLACE))
    again = after(op("task claim", worker="v.87654321"), left)
    assert again.children[0].claim.attempt == left.revision + 1 > HELD.attempt


# ── create and retry ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-02")
def test_a_flow_can_be_created_with_its_plan_in_one_commit():
    wanted = op("create", plan=THE_LESSON)
    documents = machine.apply(wanted, state(wanted))
    born = machine.find("f-1", documents)
    assert (born.revision, born.plan, born.status) == (1, 1, "pending")
    assert documents[plan_path("f-1", 1)] == THE_LESSON
    again = state(wanted, born)
    assert machine.apply(wanted, again) is again
    other = op("create", plan=plan(step("t1")))
    with pytest.raises(Stale, match="taken by a flow"):
        machine.apply(other, state(other, born))


@pytest.mark.req("R-TF-22")
def test_a_retry_has_the_plan_of_the_flow_it_tries_again():
    """With what was added to it; done tasks stay done, the others are as if never tried."""
    ended = flow(
        "failed",
        plan=3,
        children=(
            DONE,
            task("t2", "failed", failures=3, outcome="errored", reason="no luck", deps=("t1",)),
            task("t3", "waiting", interruptions=10),
            task("added", priority=2),
        ),
    )
    wanted = op("create", flow="f-2", attempt_of="f-1")
    documents = machine.apply(wanted, state(wanted, ended))
    born = machine.find("f-2", documents)
    assert (born.plan, born.attempt_of) == (1, "f-1")
    assert born.children == (DONE, task("t2", deps=("t1",)), task("t3"), task("added", priority=2))
    kept = documents[plan_path("f-2", 1)]
    assert [each.id for each in kept.tasks] == ["t1", "t2", "t3", "added"]
    assert kept.flow == "f-2"


# ── task add ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("present", "added"),
    [
        ((), "t1"),
        (("a", "t"), "t1"),
        (("t1", "t2"), "t3"),
        (("t7", "t10", "t2"), "t11"),
        (("t1x", "t2"), "t3"),
        (("t999999999",), "t1000000000"),
        (("t" + "9" * 63,), "t1"),
        (("t999999999", "t1000000000"), "t1000000001"),
    ],
)
def test_an_added_task_gets_the_next_free_id(present, added):
    wanted = op("task add", priority=2)
    left = after(wanted, flow(children=tuple(task(name) for name in present)))
    assert left.children[-1].replace(goal="") == task(added, priority=2).replace(goal="")
    assert wanted.made_in(left) == (added,)
    assert wanted.headline(left) == f"{added}: do more"


@pytest.mark.req("R-TF-27")
def test_the_same_task_again_is_already_so_and_another_is_refused():
    there = flow(children=(task("t5"), task("t6", "done").replace(goal="do more")))
    wanted = op("task add", task="t6")
    documents = state(wanted, there)
    assert machine.apply(wanted, documents) is documents
    with pytest.raises(Stale, match="has a task t6 already, and it differs"):
        after(op("task add", task="t6", priority=1), there)


@pytest.mark.req("R-TS-18", "L21")
@pytest.mark.parametrize(
    ("deps", "said"), [(("t9",), "t9, which is not there"), (("t2",), "t2 depends on itself")]
)
def test_an_edge_that_is_added_after_the_start_is_checked_too(deps, said):
    with pytest.raises(Invalid, match=said):
        after(op("task add", deps=deps), flow(children=(task("t1", "done"),)))


@pytest.mark.req("L21")
def test_an_added_task_waits_for_what_it_names():
    left = after(op("task add", deps=("t1",)), flow(children=(task("t1", "failed"),)))
    with pytest.raises(Rejected, match="t1 is failed"):
        after(op("task claim", task="t2"), left)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("E7")
def test_2000_tasks_are_planned_and_one_more_is_refused():
    most = tuple(Step(id=f"t{number}", goal="g") for number in range(MAX_CHILDREN))
    left = machine.find("f-1", planned(flow(), document=plan(*most)))
    assert len(left.children) == 2000
    for wanted, there in (
        (op("plan", document=plan(*most, step("more"))), flow()),
        (op("task add"), left),
        (op("create", flow="f-2", plan=plan(*most, step("more"), of="f-2")), None),
    ):
        with pytest.raises(Rejected, match="2,001 tasks, of 2,000"):
            machine.apply(wanted, state(wanted, *([there] if there else [])))


@pytest.mark.req("E7")
def test_a_plan_that_is_too_large_is_refused():
    large = plan(*(Step(id=f"t{number}", goal="g" * 2000) for number in range(600)))
    assert len(codec.encode(large)) > MAX_GROWN
    with pytest.raises(Rejected, match="an addition may leave 1,048,576"):
        planned(flow(), document=large)


def test_the_receipt_of_an_added_task_says_which_it_became():
    wanted = op("task add", key=KEY, request=REQUEST)
    documents = machine.apply(wanted, state(wanted, flow(children=(task("t4"),))))
    assert machine.answered(wanted, documents).made == ("t5",)
