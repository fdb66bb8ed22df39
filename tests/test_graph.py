"""The graph: what is refused before it is kept, what is ready, and what stands in the way."""

from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AT, flow, task

from gitflowstate import graph
from gitflowstate.errors import Invalid
from gitflowstate.model import Claim, Flow, Task

LESSON = {"t1": (), "t2": ("t1",), "t3": ("t1",), "t4": ("t2", "t3"), "t5": ("t4",)}
EARLIER, LATER = "2026-09-06T09:59:59Z", "2026-09-06T10:00:01Z"


def lesson(*done: str, **changed: dict) -> Flow:
    """Return the five tasks of the lesson, some of them done, some with other fields."""
    tasks = [
        task(name, "done" if name in done else "pending", deps=deps).replace(
            **changed.get(name, {})
        )
        for name, deps in LESSON.items()
    ]
    return flow(children=tuple(tasks))


def large(edges: dict[str, tuple[str, ...]], *done: str) -> Flow:
    """Return a flow of any size: the limit of a document is not the graph's."""
    tasks = tuple(
        Task(id=name, goal="g", status="done" if name in done else "pending", deps=deps)
        for name, deps in edges.items()
    )
    return Flow(**{**flow().__dict__, "children": tasks})


def names(tasks) -> list[str]:
    return [each.id for each in tasks]


def ready(there: Flow, now: str = AT) -> list[str]:
    return names(graph.ready(there, now))


def claim(until: str) -> Claim:
    return Claim(worker="w.12345678", by="ann", attempt=3, until=until)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-01", "R-TF-28")
def test_the_lesson_is_sound_and_has_five_edges():
    graph.check(LESSON)
    assert sum(map(len, LESSON.values())) == 5
    assert graph.edges_of(lesson().children) == LESSON


@pytest.mark.req("E13", "L21", "R-TS-18", "R-TF-28")
@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ({"t1": ("t1",)}, "t1 depends on itself"),
        ({"t1": ("t2",)}, "t1 depends on t2, which is not there"),
        ({"t1": (), "t2": ("t1", "t9")}, "t2 depends on t9, which is not there"),
    ],
)
def test_an_edge_that_leads_nowhere_is_refused(edges, said):
    with pytest.raises(Invalid, match=said) as refused:
        graph.check(edges, "tasks")
    assert refused.value.details["violations"] == [{"path": "tasks", "message": said}]


@pytest.mark.req("E13", "L21", "R-TS-18")
@pytest.mark.parametrize("length", [2, 3, 7])
def test_a_cycle_is_named_with_its_path(length):
    """Each name depends on the one after it, and the last is the first."""
    ring = [f"t{number}" for number in range(length)]
    edges = {one: (other,) for one, other in zip(ring, [*ring[1:], ring[0]], strict=True)}
    edges |= {"before": (), "after": (ring[0],)}
    with pytest.raises(Invalid, match="form a cycle: ") as refused:
        graph.check(edges)
    path = refused.value.message.partition("cycle: ")[2].split(" -> ")
    assert path[0] == path[-1]
    assert sorted(path[1:]) == sorted(ring)
    assert all(edges[one] == (other,) for one, other in itertools.pairwise(path))


@pytest.mark.req("E13")
def test_a_cycle_of_5000_is_named_by_its_ends():
    edges = {f"t{n}": (f"t{(n + 1) % 5000}",) for n in range(5000)}
    with pytest.raises(Invalid) as refused:
        graph.check(edges)
    path = refused.value.message.partition("cycle: ")[2].split(" -> ")
    assert path[0] == path[-1]
    (counted,) = [word for word in path if word.endswith("more)")]
    assert len(path) - 1 + int(counted.strip("( more)").replace(",", "")) == 5001


@pytest.mark.req("E13")
def test_a_chain_of_5000_neither_recurses_nor_is_confused():
    edges = {f"t{n}": (f"t{n - 1}",) if n else () for n in range(5000)}
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        graph.check(edges)
        there = large(edges, *(f"t{n}" for n in range(17)))
        assert ready(there) == ["t17"]
        last = there.children[-1]
        assert names(found for _, found, _ in graph.chain(there, last, AT)) == [
            f"t{n}" for n in range(4999, 16, -1)
        ]
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.req("E13", "L21")
def test_a_diamond_of_10000():
    middle = tuple(f"t{n}" for n in range(1, 9999))
    edges = {"t0": (), **dict.fromkeys(middle, ("t0",)), "end": middle}
    graph.check(edges)
    assert ready(large(edges)) == ["t0"]
    assert ready(large(edges, "t0")) == list(middle)
    most = large(edges, "t0", *middle[:-1])
    assert ready(most) == [middle[-1]]
    join = most.children[-1]
    assert [b.task for b in graph.blockers(most, join, AT)] == [middle[-1]]
    assert ready(large(edges, "t0", *middle)) == ["end"]
    assert len([*graph.unfinished(large(edges), AT)]) == 10_000


# ── what is ready ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-03", "R-TS-05", "R-TS-06")
@pytest.mark.parametrize(
    ("done", "expected"),
    [
        ((), ["t1"]),
        (("t1",), ["t2", "t3"]),
        (("t1", "t2"), ["t3"]),
        (("t1", "t3"), ["t2"]),
        (("t1", "t2", "t3"), ["t4"]),
        (("t1", "t2", "t3", "t4"), ["t5"]),
        (tuple(LESSON), []),
    ],
)
def test_a_task_is_ready_when_all_it_needs_is_done(done, expected):
    assert ready(lesson(*done)) == expected


@pytest.mark.req("C-02", "R-TF-28")
def test_children_without_edges_have_no_order_imposed():
    there = flow(children=(task("a"), task("b", "failed"), task("c"), task("d", "done")))
    assert ready(there) == ["a", "c"]


@pytest.mark.req("E13", "L21", "R-TS-03")
@pytest.mark.parametrize("status", ["failed", "waiting", "running", "pending"])
def test_only_done_is_done(status):
    """B needs A; an A that failed, waits or was set to running by hand does not make B ready."""
    there = flow(children=(task("a", status), task("b", deps=("a",))))
    assert ready(there) == (["a"] if status == "pending" else [])
    why = graph.blockers(there, there.children[1], AT)
    assert why == [graph.Blocker("dependency", f"a is {status}", "a")]


@pytest.mark.req("L21")
def test_a_dependency_that_a_hand_removed_blocks_and_is_named():
    there = flow(children=(task("b", deps=("a",)),))
    assert ready(there) == []
    assert graph.blockers(there, there.children[0], AT)[0].text == "a is missing"


@pytest.mark.req("R-TS-05", "R-TS-27")
def test_the_order_is_priority_then_the_natural_order_of_ids():
    ids = ["t10", "t2", "a", "t1", "t1b", "10", "9", "t", "t2.5", "t2.10"]
    there = flow(children=tuple(task(name) for name in ids))
    natural = ["9", "10", "a", "t", "t1", "t1b", "t2", "t2.5", "t2.10", "t10"]
    assert ready(there) == natural
    urgent = there.replace(
        children=tuple(
            each.replace(priority={"t10": 2, "t2": 2, "9": -1}.get(each.id, 0))
            for each in there.children
        )
    )
    assert ready(urgent) == ["t2", "t10", *(n for n in natural if n not in ("t2", "t10", "9")), "9"]


@given(st.lists(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True), unique=True))
def test_any_ids_can_be_ordered_and_numbers_count_by_value(ids):
    ordered = sorted(map(task, ["x7", "x10", *ids]), key=graph.rank)
    names = [each.id for each in ordered]
    assert names.index("x7") < names.index("x10")


@pytest.mark.req("R-TS-25")
@pytest.mark.parametrize(
    ("not_before", "expected"),
    [(EARLIER, ["t1"]), (AT, ["t1"]), (LATER, []), ("2026-09-06T10:00:00.000001Z", [])],
)
def test_a_task_is_not_ready_before_its_time(not_before, expected):
    there = lesson(t1={"not_before": not_before})
    assert ready(there) == expected
    kinds = [b.kind for b in graph.blockers(there, there.children[0], AT)]
    assert kinds == ([] if expected else ["not_before"])


@pytest.mark.parametrize(("until", "past"), [(LATER, False), (AT, True), (EARLIER, True)])
def test_a_claimed_task_is_not_ready_even_past_its_lease(until, past):
    there = lesson(t1={"claim": claim(until)})
    assert ready(there) == []
    (why,) = graph.blockers(there, there.children[0], AT)
    assert (why.kind, "w.12345678" in why.text) == ("claim", True)
    assert ("is past" in why.text) == past


@pytest.mark.req("C-01", "R-TS-08")
def test_running_is_never_ready():
    assert ready(lesson(t1={"status": "running"})) == []


def test_a_task_served_by_a_process_is_not_ready():
    there = lesson(t1={"process": "p-1"})
    assert ready(there) == []
    assert [b.kind for b in graph.blockers(there, there.children[0], AT)] == ["process"]


@pytest.mark.parametrize("status", ["waiting", "done", "failed"])
def test_a_flow_that_waits_or_has_ended_has_no_ready_task(status):
    there = flow(status, children=(task("t1"),))
    assert ready(there) == []
    assert graph.blockers(there, there.children[0], AT) == [
        graph.Blocker("flow", f"f-1 is {status}")
    ]


@given(st.data())
def test_a_task_is_ready_exactly_when_nothing_blocks_it(data):
    """`ready` and `blockers` are one rule, told twice."""
    count = data.draw(st.integers(1, 8))
    tasks = []
    for number in range(count):
        deps = data.draw(st.sets(st.integers(0, max(0, number - 1)), max_size=3)) if number else []
        status = data.draw(st.sampled_from(["pending", "pending", "done", "failed", "waiting"]))
        more = {
            "not_before": data.draw(st.sampled_from([None, EARLIER, AT, LATER])),
            "claim": data.draw(st.sampled_from([None, None, claim(EARLIER), claim(LATER)])),
            "process": data.draw(st.sampled_from([None, None, None, "p-1"])),
        }
        tasks.append(task(f"t{number}", status, deps=tuple(f"t{n}" for n in deps), **more))
    there = flow(
        data.draw(st.sampled_from(["running", "pending", "waiting"])), children=tuple(tasks)
    )
    free = {each.id for each in there.children if not graph.blockers(there, each, AT)}
    assert set(ready(there)) == free
    assert {t.id for t, why in graph.unfinished(there, AT) if not why} == free
    done = graph.completed(there)
    due = {t.id for t in there.children if t.claim is None and graph.is_due(t, done, AT)}
    assert free == (due if graph.is_open(there) else set())


# ── why ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TS-04", "L21")
def test_a_join_with_one_satisfied_edge_is_blocked_by_the_other():
    there = lesson("t1", "t2")
    (why,) = graph.blockers(there, there.children[3], AT)
    assert (why.kind, why.task, why.text) == ("dependency", "t3", "t3 is pending")


def test_every_obstacle_is_named():
    held = task("t2", claim=claim(LATER), not_before=LATER, deps=("t1",), process="p-1")
    there = flow("waiting", children=(task("t1"), held))
    kinds = [b.kind for b in graph.blockers(there, held, AT)]
    assert kinds == ["process", "not_before", "flow", "dependency"]
    alone = held.replace(process=None)
    assert [b.kind for b in graph.blockers(there, alone, AT)][:2] == ["claim", "not_before"]


def test_a_waiting_task_says_for_what():
    there = flow(children=(task("t1", "waiting"),))
    (why,) = graph.blockers(there, there.children[0], AT)
    assert why.text == "t1 is waiting: no key; until a key"


@pytest.mark.req("R-TS-04")
def test_the_chain_leads_down_to_what_can_be_done_each_task_once():
    there = lesson()
    found = [(depth, each.id) for depth, each, _ in graph.chain(there, there.children[4], AT)]
    assert found == [(0, "t5"), (1, "t4"), (2, "t2"), (3, "t1"), (2, "t3")]
    last = [why for _, each, why in graph.chain(there, there.children[4], AT) if each.id == "t1"]
    assert last == [[]]
