"""The brief: what a new session needs, never longer than it may be, and honest about the rest."""

from __future__ import annotations

import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, WAITING, dirtied, entries, flows, texts, times
from hypothesis import given, settings
from hypothesis import strategies as st

from gitflowstate.brief import brief
from gitflowstate.codec import encode
from gitflowstate.listing import LogEntry
from gitflowstate.model import Claim, Failure, Note, Task


def _large(tasks: int = 50, number: int = 0):
    """Return a flow of so many tasks: a third done, the others open."""
    children = tuple(
        Task(id=f"t{at}", goal=f"Step {at}", status="done", result_ref=f"out/{at}.md")
        if at % 3 == 0
        else Task(id=f"t{at}", goal=f"Step {at} of a long piece of work", status="pending")
        for at in range(tasks)
    )
    return WAITING.replace(id=f"flow-{number}", children=children)


@pytest.mark.req("R-TF-31", "R-TF-32")
def test_a_new_session_reads_this():
    failed = Task(
        id="t4", goal="Price it", status="failed", outcome="uncertain", reason="no answer"
    )
    next_ = Task(id="t5", goal="Write it", status="pending", deps=("task-002",))
    flow = WAITING.replace(
        children=(*EXAMPLE.children, failed, next_),
        notes=(Note(at="2026-09-06T12:10:00Z", by="rev", text="Mind\nthe cost"),),
    )
    seen = LogEntry("0a1b2c3", "2026-09-06T12:00:00Z", "arch", 5, "wait", "Two cost the same")
    by_hand = LogEntry("4d5e6f7", "2026-09-06T12:40:00Z", "Jo", None, "", "typo", True)
    assert brief([flow], NOW, changes={flow.id: [seen, by_hand]}).splitlines() == [
        "flow-example-001 r5 waiting",
        "goal: Compare three data-platform architecture options",
        "next: Review child findings and draft a recommendation",
        "waiting on human since 1 h: Two options cost the same",
        "until: A person picks one",
        "progress: Requirements captured; comparison in progress",
        "owner: architecture-session, updated 3 h ago",
        "open: task-002 stale: Assess integration options (set to running by hand)",
        "open: t5 blocked: Write it (needs task-002)",
        "failed: t4: Price it (uncertain: no answer)",
        "done: task-001 -> artifacts/constraints.md: Compare operating constraints",
        "changed: r5 wait by arch: Two cost the same",
        "changed: unmanaged by Jo: typo",
        "note by rev, 1 h ago: Mind the cost",
    ]


@pytest.mark.req("R-TF-31", "R-TF-37")
def test_a_stale_flow_and_a_flow_changed_by_hand_are_named_so():
    assert brief([EXAMPLE], NOW).startswith("flow-example-001 r4 running (stale)\n")
    assert "unmanaged: last changed by hand" in brief([EXAMPLE], NOW, unmanaged=[EXAMPLE.id])
    claim = Claim(worker="w.1", by="w", attempt=2, until="2026-09-06T12:10:00Z")
    flow = EXAMPLE.replace(children=(Task(id="a", goal="A", status="pending", claim=claim),))
    assert "open: a stale: A (by w.1, lease ended 2026-09-06 12:10:00+00:00 (1 h ago))" in brief(
        [flow], NOW
    )


@pytest.mark.req("R-TF-31")
def test_how_a_flow_ended_belongs_to_its_core():
    failure = Failure(reason="No budget", recoverable="The constraints")
    failed = EXAMPLE.replace(status="failed", failure=failure, next_action=None)
    lines = brief([failed], NOW, 200).splitlines()
    assert lines[0] == "flow-example-001 r4 failed"
    assert "failure: No budget" in lines
    done = EXAMPLE.replace(status="done", result_ref="out/report.md", next_action=None)
    assert "result: out/report.md" in brief([done], NOW, 200).splitlines()


@pytest.mark.req("R-TF-32")
def test_what_was_cut_is_counted():
    flow = _large(60).replace(
        notes=tuple(Note(at=NOW, by="jo", text=f"note {at}") for at in range(8))
    )
    text = brief([flow], NOW, 1500)
    done = sum(line.startswith("done: ") for line in text.splitlines())
    opened = sum(line.startswith("open: ") for line in text.splitlines())
    last = text.splitlines()[-1]
    assert opened == 40
    assert 0 < done < 20
    assert last.startswith(f"cut: {20 - done} done tasks, 8 notes, ")
    assert last.endswith("; see gfs show flow-0")


@pytest.mark.req("R-TF-32")
def test_texts_are_shortened_only_as_far_as_it_takes():
    text = brief([_large(60)], NOW, 3000)
    assert text.splitlines()[-1] == "cut: 40 long texts; see gfs show flow-0"
    assert text.count(" blocked: Step ") == 40
    assert "long texts" not in brief([_large(60)], NOW, 6000)


@pytest.mark.req("R-TF-32")
def test_only_the_latest_notes_come_in_and_the_others_are_counted():
    notes = tuple(Note(at=NOW, by="jo", text=f"note {at}") for at in range(8))
    lines = brief([EXAMPLE.replace(notes=notes)], NOW).splitlines()
    assert [line[-6:] for line in lines if line.startswith("note ")] == [
        f"note {at}" for at in range(3, 8)
    ]
    assert lines[-1] == "cut: 3 notes; see gfs show flow-example-001"


@pytest.mark.req("R-TF-32")
def test_the_most_recent_results_stay_longest_and_a_reference_is_never_halved():
    children = tuple(
        Task(
            id=f"t{at}",
            goal="x" * 300,
            status="done",
            result_ref=f"out/{at}-{'y' * 60}.md",
            finished_at=f"2026-09-06T{at:02}:00:00Z",
        )
        for at in range(10)
    )
    text = brief([EXAMPLE.replace(children=children)], NOW, 800)
    kept = [line.split(" ")[1] for line in text.splitlines() if line.startswith("done: ")]
    assert 0 < len(kept) < 10
    assert kept == [f"t{at}" for at in range(10 - len(kept), 10)]
    for line in text.splitlines():
        if line.startswith("done: "):
            assert f"{'y' * 60}.md: x" in line


@pytest.mark.req("R-TF-32")
def test_open_tasks_outlast_all_but_goal_status_and_next_action():
    text = brief([_large(12)], NOW, 420)
    assert text.splitlines()[:3] == [
        "flow-0 r5 waiting",
        "goal: Compare three data-platform architecture options",
        "next: Review child findings and draft a recommendation",
    ]
    assert sum(line.startswith("open: ") for line in text.splitlines()) == 8
    assert "done: " not in text


@pytest.mark.req("R-TF-32", "R-TF-31")
def test_a_blocker_is_not_drowned_by_two_thousand_open_tasks():
    text = brief([_large(2000)], NOW)
    assert "until: A person picks one" in text
    assert "667 done tasks" in text.splitlines()[-1]
    assert len(text) > 3800


@pytest.mark.req("R-TF-32")
def test_of_open_tasks_those_that_need_somebody_come_before_those_that_wait():
    ready = tuple(
        Task(id=f"t{at:03}", goal="x" * 99, status="pending", deps=("none",)) for at in range(200)
    )
    stale = Task(id="held", goal="x" * 99, status="running")
    assert "open: held stale" in brief([EXAMPLE.replace(children=(*ready, stale))], NOW, 400)


@pytest.mark.req("L23", "R-TF-32")
def test_two_thousand_flows_of_fifty_tasks_fit():
    many = [_large(50, number) for number in range(2000)]
    text = brief(many, NOW)
    assert 3000 < len(text) < 4000
    assert [line for line in text.splitlines() if line.startswith("flow-")] == [
        f"flow-{number} r5 waiting" for number in range(19)
    ]
    assert text.count("\nnext: ") == 19
    assert text.splitlines()[-1].startswith("cut: 1,981 flows, ")
    assert text.endswith("; see gfs list")


def test_nothing_is_said_of_a_flow_that_cannot_be_named():
    assert brief([EXAMPLE.replace(id="f" * 64)], NOW, 75) == "cut: 1 flow; see gfs list"


def test_without_flows_it_says_so():
    assert brief([], NOW) == "no flows"


@pytest.mark.req("R-TF-32")
def test_result_texts_and_free_data_stay_out():
    assert "secret-data" not in brief([EXAMPLE.replace(data={"k": "secret-data"})], NOW)


@pytest.mark.req("R-TF-33")
def test_a_brief_changes_nothing():
    before = encode(WAITING)
    brief([WAITING], NOW)
    assert encode(type(WAITING)(**WAITING.__dict__)) == before


@pytest.mark.req("F5")
@pytest.mark.parametrize("attack", [*ATTACKS, "x\nnext: lie\n\nflow-9 r9 done", "a\tb"])
def test_no_text_acts_on_the_terminal_or_poses_as_a_line(attack):
    hostile = LogEntry("0a1b2c3", NOW, attack, 1, attack, attack)
    text = brief([dirtied(attack)], NOW, changes={"f-1": [hostile]})
    assert not UNSAFE.search(text)
    assert "\t" not in text
    assert "\n\n" not in text
    assert sum(line.startswith("next:") for line in text.splitlines()) == 1


@pytest.mark.req("F6")
def test_markup_is_shown_as_it_was_typed():
    assert brief([dirtied("[red]x[/]")], NOW).count("[red]x[/]") >= 15


_briefed = st.lists(flows, max_size=5)
_long = st.integers(0, 3000).flatmap(lambda n: texts.map(lambda text: (text + "é\u0301x ") * n))


@pytest.mark.req("R-TF-32")
@settings(deadline=None)
@given(_briefed, times, st.integers(0, 3000), st.lists(entries, max_size=5))
def test_no_brief_is_longer_than_it_may_be_or_does_harm(some, now, most, news):
    changes = {flow.id: news for flow in some}
    text = brief(some, now, most, changes=changes)
    assert len(text + "\n") <= max(most, 1)
    assert not UNSAFE.search(text)
    assert text == brief(some, now, most, changes=changes)


@pytest.mark.req("R-TF-32")
@settings(deadline=None)
@given(flows, times, st.integers(200, 2000), _long)
def test_goal_status_and_next_action_are_always_there(flow, now, most, long):
    flow = flow.replace(goal="goal" + long, next_action="next" + long)
    text = brief([flow], now, most)
    lines = text.split("\n")
    assert len(text) < most
    assert lines[0].startswith(f"{flow.id} r{flow.revision} {flow.status}")
    assert lines[1].startswith("goal: goal")
    assert lines[2].startswith("next: next")


@pytest.mark.req("R-TF-32")
@settings(deadline=None)
@given(flows, times, st.integers(200, 2000))
def test_whatever_is_missing_is_admitted(flow, now, most):
    text = brief([flow], now, most)
    listed = sum(line.startswith(("open: ", "done: ", "failed: ")) for line in text.split("\n"))
    notes = sum(line.startswith("note by ") for line in text.split("\n"))
    complete = listed == len(flow.children) and notes == len(flow.notes)
    assert complete or text.split("\n")[-1].startswith("cut: ")
