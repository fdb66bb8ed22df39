"""The graph as a picture: it fits, it parses, and no text of a user is more than text in it."""

from __future__ import annotations

import re

import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, flows, texts
from hypothesis import given

from gitflowstate import due
from gitflowstate.drawing import FORMS, dot, levels, mermaid, text
from gitflowstate.model import Claim, Flow, Task
from gitflowstate.phrases import MARKS

LESSON = {"t1": (), "t2": ("t1",), "t3": ("t1",), "t4": ("t2", "t3"), "t5": ("t4",)}


def drawn(form: str, flow: Flow) -> str:
    return FORMS[form](flow, due.task_states(flow, NOW))


def of(edges, *done: str, goal: str = "Do it") -> Flow:
    tasks = tuple(
        Task(
            id=name, goal=f"{goal} {name}", status="done" if name in done else "pending", deps=deps
        )
        for name, deps in edges.items()
    )
    return EXAMPLE.replace(children=tasks)


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def test_the_lesson_in_text():
    flow = of(LESSON, "t1")
    held = Claim(worker="w.12345678", by="w", attempt=9, until="2026-09-06T14:00:00Z")
    flow = flow.replace(
        children=(*flow.children[:1], flow.children[1].replace(claim=held), *flow.children[2:])
    )
    assert drawn("text", flow) == (
        "[x] t1 Do it t1\n"
        "  [>] t2 Do it t2 <- t1\n"
        "  [ ] t3 Do it t3 <- t1\n"
        "    [-] t4 Do it t4 <- t2, t3\n"
        "      [-] t5 Do it t5 <- t4\n"
        "\n"
        "[x] done  [>] claimed  [ ] ready  [-] blocked"
    )


@pytest.mark.parametrize(
    "edges",
    [
        {f"task-{n:03}": (f"task-{n - 1:03}",) if n else () for n in range(30)},
        {f"task-{n:03}": tuple(f"task-{m:03}" for m in range(n)) for n in range(30)},
        {f"task-{n:03}": () for n in range(30)},
    ],
    ids=["chain", "all before", "none"],
)
def test_thirty_tasks_fit_on_one_screen(edges):
    """80 columns, two lines for the legend, and a goal that says something on every line."""
    picture = drawn("text", of(edges, goal="A goal of many words that nobody will read to its end"))
    lines = picture.split("\n")
    assert len(lines) == 32
    assert max(map(len, lines)) <= 80
    assert all("A goal of" in line for line in lines[:30])


def test_levels_are_the_longest_way_to_a_task_and_each_is_in_the_order_of_work():
    flow = of({"t10": (), "t2": (), "a": ("t2",), "b": ("a", "t10"), "c": ("t10", "gone")})
    urgent = flow.children[0].replace(priority=1)
    found = levels((urgent, *flow.children[1:]))
    assert [[task.id for task in level] for level in found] == [["t10", "t2"], ["a", "c"], ["b"]]


def test_a_cycle_made_by_hand_is_drawn_all_the_same():
    flow = of({"a": ("b",), "b": ("a",), "c": ()})
    assert [[task.id for task in level] for level in levels(flow.children)] == [["c"], ["a", "b"]]
    assert "a" in drawn("text", flow)


def test_a_long_chain_neither_recurses_nor_drifts_off_the_screen():
    flow = of({f"t{n}": (f"t{n - 1}",) if n else () for n in range(2000)})
    assert len(levels(flow.children)) == 2000
    lines = drawn("text", flow).split("\n")
    assert max(map(len, lines)) <= 80


@pytest.mark.req("L23")
def test_l23_of_a_large_graph_the_most_urgent_tasks_are_drawn_in_their_order():
    flow = of({f"t{n}": (f"t{n - 1}",) if n else () for n in range(2000)})
    states = dict.fromkeys((task.id for task in flow.children), "done")
    states |= {"t1500": "failed", "t1700": "ready", "t1600": "waiting"}
    picture = FORMS["text"](flow, states)
    assert len(picture) < 20_000
    *lines, left, _, _ = picture.split("\n")
    names = [int(line.split("]")[1].split()[0][1:]) for line in lines]
    assert names == sorted(names)
    assert names[-3:] == [1500, 1600, 1700]
    assert left == f"{2000 - len(names):,} more: gfs show {flow.id} --json"


def test_many_dependencies_are_counted():
    names = tuple(f"t{n}" for n in range(9))
    line = drawn("text", of(dict.fromkeys(names, ()) | {"end": names})).split("\n")[9]
    assert line == "  [-] end Do it end <- t0, t1, t2, t3, t4, t5 and 3 more"
    long = of(dict.fromkeys(("a" * 64, "b" * 64), ()) | {"end": ("a" * 64, "b" * 64)})
    assert f"<- {'a' * 64} and 1 more" in drawn("text", long)


@pytest.mark.parametrize("form", FORMS)
def test_every_state_has_a_mark_and_a_name(form):
    """Whatever `due` says of a task, each picture can show it."""
    for state in due.TASK_STATES:
        picture = FORMS[form](of({"t1": ()}), {"t1": state})
        assert state in picture
        assert MARKS[state] in picture or form != "text"


def test_no_tasks_are_no_picture():
    assert [drawn(form, of({})) for form in ("text", "mermaid")] == ["", ""]


# ── Mermaid and dot ─────────────────────────────────────────────────────────────────────────────

LABEL = r"[^\"\\<>`#;&{}\[\]@|\n]*"
MERMAID = re.compile(
    r"flowchart TD\n"
    rf'(?:  n\d+\["{LABEL}"\]:::[a-z]+\n)+'
    r"(?:  n\d+ --> n\d+\n)*"
    r"(?:  classDef [a-z]+ fill:#[0-9a-f]{6},stroke:#[0-9a-f]{3,6}\n)+"
)
DOT = re.compile(
    r"digraph flow \{\n  rankdir=LR;\n  node \[shape=box\];\n"
    rf'(?:  "[a-z0-9._-]+" \[label="{LABEL}\\n[a-z]+"\];\n)*'
    r'(?:  "[a-z0-9._-]+" -> "[a-z0-9._-]+";\n)*\}\n'
)


def test_the_lesson_in_mermaid_and_dot():
    flow = of(LESSON, "t1")
    assert MERMAID.fullmatch(drawn("mermaid", flow) + "\n")
    assert DOT.fullmatch(drawn("dot", flow) + "\n")
    edges = {(dep, name) for name, deps in LESSON.items() for dep in deps}
    assert {*re.findall(r'"(t\d)" -> "(t\d)"', drawn("dot", flow))} == edges
    numbered = {(f"n{int(a[1]) - 1}", f"n{int(b[1]) - 1}") for a, b in edges}
    assert {*re.findall(r"(n\d) --> (n\d)", drawn("mermaid", flow))} == numbered


HOSTILE = [
    *ATTACKS,
    '"] --> x[" click me',
    "<script>alert(1)</script>",
    "`**bold**` @everyone fixes #1",
    'end\n"]; evil -> "',
    "\\",
    "\\N%%{init: {}}%%",
    "https://example.invalid/x",
    "a;b|c&d",
]


@pytest.mark.req("F3")
@pytest.mark.parametrize("goal", HOSTILE)
def test_hostile_text_stays_text(goal):
    flow = of(LESSON, "t1", goal=goal)
    assert MERMAID.fullmatch(drawn("mermaid", flow) + "\n")
    assert DOT.fullmatch(drawn("dot", flow) + "\n")
    lines = drawn("text", flow).split("\n")
    assert len(lines) == 7
    assert not UNSAFE.search("".join(lines))


@given(flows, texts)
def test_any_flow_can_be_drawn_and_nothing_escapes(flow, goal):
    flow = flow.replace(children=tuple(task.replace(goal="g" + goal) for task in flow.children))
    states = due.task_states(flow, NOW)
    assert not UNSAFE.search(text(flow, states))
    assert len(text(flow, states).split("\n")) == (len(flow.children) + 2 if flow.children else 1)
    if flow.children:
        assert MERMAID.fullmatch(mermaid(flow, states) + "\n")
    assert DOT.fullmatch(dot(flow, states) + "\n")
