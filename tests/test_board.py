"""The board: what runs, what waits and for whom, what is finished, one harmless line each."""

from __future__ import annotations

import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, WAITING, dirtied, flows, times
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import prose
from gitflowstate.boardtext import FINISHED, LIMIT, board, board_text
from gitflowstate.model import Failure, Flow, Task, Waiting
from gitflowstate.tasktables import needed_for

MORE = {"running": "gfs list", "waiting": "gfs list --status waiting", "finished": "gfs list --all"}
DONE = EXAMPLE.replace(
    id="f-done", status="done", result_ref="out/report.md", next_action=None, revision=9
)
FAILED = DONE.replace(
    id="f-failed",
    status="failed",
    result_ref=None,
    failure=Failure(reason="No budget", recoverable="The table"),
    updated_at="2026-09-06T11:00:00Z",
)
FRESH = EXAMPLE.replace(id="f-new", status="pending", updated_at="2026-09-06T13:00:00Z")


def shown(some: list[Flow], width: int = 100, **options: object) -> str:
    limits = {name: options.pop(name) for name in ("limit", "finished") if name in options}
    return board_text(board(some, **limits), NOW, width, more=MORE, **options)


@pytest.mark.req("R-TF-51")
def test_a_board_reads_like_this():
    some = [DONE, WAITING.replace(id="f-wait"), FAILED, EXAMPLE, FRESH]
    assert shown(some, 88).splitlines() == [
        "Running (2)",
        "  pending  f-new             r4  architecture-...  10 min ago  Compare three data-pla...",
        "        next: Review child findings and draft a recommendation",
        "  stale    flow-example-001  r4  architecture-...  3 h ago     Compare three data-pla...",
        "        next: Review child findings and draft a recommendation",
        "",
        "Waiting (1)",
        "  waiting  f-wait  r5  architecture-...  3 h ago  Compare three data-platform archite...",
        "        needs a person, 1 h: A person picks one",
        "        because: Two options cost the same",
        "        next: Review child findings and draft a recommendation",
        "",
        "Finished (2)",
        "  failed  f-failed  r9  architecture-...  2 h ago  Compare three data-platform archit...",
        "        reason: No budget",
        "  done    f-done    r9  architecture-...  3 h ago  Compare three data-platform archit...",
        "        result: out/report.md",
    ]


@pytest.mark.req("R-TF-51")
def test_the_three_sections_are_there_even_where_nothing_is_in_them():
    assert shown([]) == "Running (0)\n\nWaiting (0)\n\nFinished (0)"


@pytest.mark.req("R-TF-51")
def test_tasks_that_wait_for_a_person_are_named_although_the_flow_runs():
    wait = Waiting(reason="r", condition="c", on="human")
    asked = tuple(
        Task(id=f"t{n}", goal="g", status="waiting", waiting=wait.replace(on=on))
        for n, on in enumerate(["human", "external", "human", "human", "human"])
    )
    flow = EXAMPLE.replace(children=asked)
    assert needed_for(flow) == ["t0", "t2", "t3", "t4"]
    assert "        needs a person for t0, t2, t3 and 1 more" in shown([flow]).splitlines()
    assert needed_for(DONE.replace(children=asked)) == []


def named(some: list[Flow], section: str, **options: int) -> list[str]:
    return [flow.id for flow in board(some, **options)[section].flows]


def test_people_and_the_longest_wait_come_first():
    wait = WAITING.waiting
    some = [
        WAITING.replace(id=name, waiting=wait.replace(on=on, since=since))
        for name, on, since in [
            ("a", "external", "2026-09-01T00:00:00Z"),
            ("b", "human", "2026-09-06T12:00:00Z"),
            ("c", "human", "2026-09-05T12:00:00.5Z"),
            ("d", "human", None),  # since its last change
            ("e", "agent", "2026-09-02T00:00:00Z"),
        ]
    ]
    assert named(some, "waiting") == ["c", "d", "b", "a", "e"]


def test_the_last_changed_and_the_last_ended_come_first():
    some = [
        flow.replace(id=f"{flow.status}-{n}", updated_at=f"2026-09-0{n}T00:00:00Z")
        for flow in (EXAMPLE, DONE, FAILED)
        for n in (1, 3, 2)
    ]
    assert named(some, "running") == ["running-3", "running-2", "running-1"]
    assert named(some, "finished", finished=3) == ["done-3", "failed-3", "done-2"]
    assert named(some[::-1], "finished", finished=3) == ["done-3", "failed-3", "done-2"]


def test_what_is_left_out_is_counted_with_the_command_that_shows_it():
    some = [DONE.replace(id=f"d{n}") for n in range(1200)]
    some += [EXAMPLE.replace(id=f"r{n}") for n in range(5)]
    lines = shown(some, finished=2, limit=4).splitlines()
    assert lines[-1] == "  1,198 more: gfs list --all"
    assert "  1 more: gfs list" in lines
    assert "Finished (1,200)" in lines
    assert "more" not in shown(some[:2], finished=2)
    assert shown(some[:2], finished=0).endswith("Finished (2)\n  2 more: gfs list --all")


@pytest.mark.req("L23")
def test_a_full_board_is_under_twenty_kilobytes():
    words = "\u6bd4\u8f03" * 500
    some = [
        flow.replace(id=f"{flow.status}-{n}".ljust(64, "0"), goal=words, progress=words, **more)
        for flow, more in ((EXAMPLE, {"next_action": words}), (WAITING, {}), (DONE, {}))
        for n in range(700)
    ]
    page = shown(some)
    assert len(page.encode()) < 20_000
    assert page.count("result:") == FINISHED
    assert page.count("needs a person") == LIMIT


def test_a_flow_changed_by_hand_is_marked():
    assert "r4 unmanaged" in shown([EXAMPLE], unmanaged={EXAMPLE.id})


def test_a_painted_board_keeps_its_columns():
    some = [EXAMPLE, WAITING, DONE]
    painted = shown(some, paint=lambda word: f"<{word}>")
    assert "<stale>" in painted
    assert painted.replace("<", "").replace(">", "") == shown(some)


@pytest.mark.req("F5", "F6")
@pytest.mark.parametrize("attack", [*ATTACKS, "[red]x[/]"])
def test_no_board_hands_a_command_to_the_terminal(attack):
    flow = dirtied(attack)
    statuses = ("running", "waiting", "done", "failed")
    page = shown([flow.replace(status=status) for status in statuses])
    assert not UNSAFE.search(page)
    assert "\t" not in page
    assert attack in page or not attack.isprintable()


@pytest.mark.req("F5")
@given(st.lists(flows, max_size=4, unique_by=lambda flow: flow.id), times, st.integers(20, 200))
def test_any_flows_make_a_harmless_board_within_the_width(some, now, width):
    page = board_text(board(some), now, width, more=MORE)
    assert not UNSAFE.search(page)
    lines = page.split("\n")
    heads = [line for line in lines if line.startswith("  ") and line[2] != " "]
    assert len(heads) == len(some)
    for line in set(lines) - set(heads):
        assert prose.cut(line, width) == line
    for flow in some:
        assert [flow.id, f"r{flow.revision}"] in [line.split()[1:3] for line in heads]
