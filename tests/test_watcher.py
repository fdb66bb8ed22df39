"""The watcher: real repositories, a channel that keeps its messages, and whatever goes wrong."""

from __future__ import annotations

import os

import pytest
from flowrepo import AT, imported, put
from gitrepo import MAIN, child, code_of, git
from watchbench import FAULTS, NAME, REF, Bench, Clock, Postbox

from gitflowstate import codec
from gitflowstate.adapters.memory import MemoryChannel
from gitflowstate.cursors import CURSOR_PATH, receipt_path
from gitflowstate.cursorstore import CursorStore
from gitflowstate.delivery import Gone, HoldOff, Refused, Unauthorised, Unknown
from gitflowstate.git import Repository
from gitflowstate.looking import begin_anew
from gitflowstate.ops import Done, Note, Reopen, Resume, Wait
from gitflowstate.watchops import Ack

LONG_AGO = "2026-09-01T10:00:00Z"


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.lab.repo.close()


@pytest.fixture
def began(bench):
    """A bench whose first pass is over, with one flow that was reported."""
    bench.lab.create()
    bench.began()
    return bench


def waits(bench, flow="f-1", at=AT, on="human"):
    bench.lab.commit(Wait, flow, reason="no answer", until="an answer", on=on, at=at)


def told(report):
    return [(each.kind, each.revision) for each in report.told]


# ── what is sent ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-40", "R-TF-41")
def test_a_flow_is_reported_and_then_edited(bench):
    bench.lab.create()
    assert told(bench.watch()) == [("status", 1)]
    assert told(bench.watch()) == []
    bench.lab.update("half way")
    bench.clock.move(120)
    assert told(bench.watch()) == [("status", 2)]
    assert bench.box.kinds() == [("status", 2)]
    assert "half way" in bench.box.messages()[0]["text"]
    assert bench.receipt().revision == 2
    bench.sound()


@pytest.mark.req("R-TF-42")
def test_progress_is_coalesced(began):
    for text in ("one", "two", "three"):
        began.lab.update(text)
    assert told(began.watch()) == [("status", 4)]
    assert began.box.kinds() == [("status", 4)]
    assert began.receipt().revision == 4


@pytest.mark.req("R-TF-43")
def test_the_interval_is_kept_and_what_it_holds_back_is_owed(began):
    began.lab.update("one")
    began.watch()
    began.lab.update("two")
    began.clock.move(60)
    before = began.tip()
    report = began.watch()
    assert (told(report), report.owed) == ([], ("f-1",))
    assert began.tip() == before
    began.clock.move(50)
    assert told(began.watch()) == [("status", 3)]
    began.lab.update("three")
    assert told(began.watch(interval_s=0)) == [("status", 4)]


@pytest.mark.req("R-TF-44")
def test_an_end_is_a_new_message_and_the_last_edit(began):
    began.lab.done()
    began.clock.move(1)
    assert told(began.watch()) == [("final", 2), ("status", 2)]
    assert began.box.kinds() == [("status", 2), ("final", 2)]
    assert told(began.watch()) == []


@pytest.mark.req("R-TF-44", "L13")
def test_a_flow_that_lives_and_ends_between_two_passes_is_one_message(began):
    began.lab.create("f-2")
    began.lab.update("quick", "f-2")
    began.lab.done("f-2")
    assert told(began.watch()) == [("final", 3)]
    assert began.box.kinds("f-2") == [("final", 3)]


@pytest.mark.req("R-TF-44")
def test_a_channel_that_is_down_for_ten_passes_gets_the_end_on_the_eleventh(began):
    began.lab.done()
    for _ in range(10):
        began.box.script = [("post", FAULTS["not sent"]()), ("edit", FAULTS["not sent"]())]
        report = began.watch()
        assert (told(report), report.failed, report.owed) == ([], 2, ("f-1",))
        assert began.receipt().terminal_revision is None
        began.clock.move(120)
    assert told(began.watch()) == [("final", 2), ("status", 2)]
    began.sound()


def test_waiting_on_a_human_is_a_new_message_each_time(began):
    waits(began)
    assert told(began.watch()) == [("waiting", 2), ("status", 2)]
    began.lab.commit(Note, text="still waiting")
    began.clock.move(120)
    assert told(began.watch()) == [("status", 3)]
    began.lab.commit(Resume)
    waits(began, at="2026-09-06T11:00:00Z")
    began.clock.move(120)
    assert told(began.watch()) == [("waiting", 5), ("status", 5)]
    assert began.box.kinds() == [("status", 5), ("waiting", 2), ("waiting", 5)]


@pytest.mark.req("R-TF-44")
def test_the_next_end_of_a_reopened_flow_is_announced_again(began):
    began.lab.done()
    began.watch()
    began.lab.commit(Reopen, reason="a mistake", next="look again")
    began.clock.move(120)
    assert told(began.watch()) == [("status", 3)]
    began.lab.done()
    assert told(began.watch()) == [("final", 4), ("status", 4)]
    assert began.box.kinds() == [("status", 4), ("final", 2), ("final", 4)]


def test_a_flow_that_was_reopened_and_ended_between_two_passes(began):
    began.lab.done()
    began.watch()
    began.lab.commit(Reopen, reason="a mistake", next="look again")
    began.lab.done()
    assert told(began.watch()) == [("final", 4), ("status", 4)]


@pytest.mark.req("R-TF-49")
def test_the_same_record_gives_the_same_bytes(bench, tmp_path):
    bench.lab.create()
    bench.lab.update("half way")
    bench.watch()
    (tmp_path / "other").mkdir()
    other = Bench(tmp_path / "other")
    other.lab.create()
    other.lab.update("half way")
    other.clock.move(10_000)
    other.watch("w2")
    assert other.box.messages() == bench.box.messages()
    other.lab.repo.close()


@pytest.mark.req("R-TF-47", "R-TF-48", "R-TF-13")
def test_main_is_the_same_before_and_after(began):
    began.lab.update("one")
    before = git(began.lab.gitdir, "for-each-ref", "refs/heads")
    tree = git(began.lab.gitdir, "ls-tree", "-r", "main")
    began.watch()
    assert git(began.lab.gitdir, "for-each-ref", "refs/heads") == before
    assert git(began.lab.gitdir, "ls-tree", "-r", "main") == tree
    assert began.lab.verify().problems == []
    began.sound()


def test_a_channel_that_cannot_edit_gets_new_messages(tmp_path):
    bench = Bench(tmp_path, edits=False, searches=False)
    bench.lab.create()
    bench.watch()
    bench.lab.update("one")
    bench.clock.move(120)
    bench.watch()
    bench.lab.done()
    assert told(bench.watch()) == [("final", 3)]
    assert bench.box.kinds() == [("status", 1), ("status", 2), ("final", 3)]
    assert "edit" not in bench.box.calls
    bench.lab.repo.close()


def test_filters_and_targets_are_respected(bench):
    bench.lab.create("f-1", labels=("a",))
    bench.lab.create("f-2", labels=("b",))
    report = bench.watch(labels=("b",), target=lambda flow: f"place of {flow.id}")
    assert [each.flow for each in report.told] == ["f-2"]
    assert bench.box.messages()[0]["target"] == "place of f-2"
    assert report.owed == ()


def test_a_flow_that_cannot_be_used_is_named_and_told_of_once_it_is_mended(began):
    began.lab.create("f-2")
    began.lab.by_hand(began.lab.edited("f-1", goal="other"))
    report = began.watch()
    assert [each.flow for each in report.told] == ["f-2"]
    assert any("f-1" in text for text in report.warnings)
    began.lab.by_hand(began.lab.edited("f-1", revision=7, progress="mended"))
    began.clock.move(120)
    assert told(began.watch()) == [("status", 7)]


# ── what is written ─────────────────────────────────────────────────────────────────────────────


def test_a_pass_that_owes_nothing_writes_nothing(began):
    before = began.tip()
    began.box.calls.clear()
    for _ in range(3):
        assert began.watch().told == ()
    assert (began.tip(), began.box.calls) == (before, [])


@pytest.mark.req("R-TF-41")
def test_what_will_be_sent_is_recorded_before_and_what_was_sent_after(began):
    began.lab.create("f-2")
    seen = []

    def look(when):
        store = CursorStore(began.lab.repo, NAME)
        announced = {(i.flow, i.kind) for i in began.cursor.hold.notices}
        seen.append((when, ("f-2", "status") in announced, store.delivery("f-2")))

    began.box.around = look
    began.watch()
    assert [(when, announced) for when, announced, _ in seen if "post" in when] == [
        ("before post", True), ("after post", True),
    ]  # fmt: skip
    assert all(receipt is None for *_, receipt in seen)
    assert began.receipt("f-2").revision == 1
    assert began.cursor.hold is None


def test_each_message_is_acknowledged_before_the_next_is_sent(began):
    for number in range(2, 5):
        began.lab.create(f"f-{number}")
    acked = []
    began.box.around = lambda when: (
        acked.append(len(began.subjects())) if "before post" in when else None
    )
    began.watch()
    assert acked == [acked[0], acked[0] + 1, acked[0] + 2]


def test_a_long_walk_is_recorded_though_nothing_is_owed(began, monkeypatch):
    monkeypatch.setattr("gitflowstate.watcher.LONG_WALK", 3)
    for number in range(4):
        began.lab.note(str(number))
    rules = {"statuses": ("done",)}
    before = began.cursor.head
    began.watch(**rules)
    assert began.cursor.head == began.lab.head != before
    tip = began.tip()
    began.watch(**rules)
    assert began.tip() == tip


def test_many_messages_are_announced_in_parts(bench, monkeypatch):
    monkeypatch.setattr("gitflowstate.passing.BATCH", 3)
    for number in range(8):
        bench.lab.create(f"f-{number}")
    assert len(bench.watch().told) == 8
    assert [s for s in bench.subjects() if "hold" in s] == [
        "team hold: 2 messages", "team hold: 3 messages", "team hold: 3 messages",
    ]  # fmt: skip
    assert (bench.cursor.hold, bench.cursor.owed) == (None, ())


def test_a_slow_pass_renews_its_hold(bench):
    for number in range(4):
        bench.lab.create(f"f-{number}")
    bench.box.around = lambda when: bench.clock.move(100) if when == "after post" else None
    assert len(bench.watch().told) == 4
    holds = [s for s in bench.subjects() if "hold" in s]
    assert holds == ["team hold: 2 messages", "team hold: 4 messages"]


# ── the first pass ──────────────────────────────────────────────────────────────────────────────


def ended(bench, flow, at):
    bench.lab.create(flow, at=at)
    from gitflowstate.ops import Done

    bench.lab.commit(Done, flow, result="r", at=at)


def test_the_first_pass_takes_old_ends_as_known_and_says_how_many(bench):
    ended(bench, "f-old", LONG_AGO)
    ended(bench, "f-new", "2026-09-05T11:00:00Z")
    bench.lab.create("f-live", at=LONG_AGO)
    report = bench.watch()
    assert {(each.flow, each.kind) for each in report.told} == {
        ("f-new", "final"), ("f-live", "status"),
    }  # fmt: skip
    assert report.skipped == 1
    assert bench.watch().skipped == 0
    bench.sound()


def test_what_was_taken_as_known_can_be_sent_later(bench):
    ended(bench, "f-old", LONG_AGO)
    assert bench.watch().skipped == 1
    assert bench.box.messages() == []
    assert told(bench.watch(backfill=True)) == [("final", 2)]
    assert told(bench.watch(backfill=True)) == []
    assert bench.box.kinds("f-old") == [("final", 2)]
    bench.sound()


def test_a_first_pass_may_send_everything(bench):
    ended(bench, "f-old", LONG_AGO)
    report = bench.watch(backfill=True)
    assert (told(report), report.skipped) == ([("final", 2)], 0)


def test_a_first_pass_with_nothing_to_say_is_still_the_first(bench):
    """Else what ends before the second pass would be taken as known, and be lost."""
    bench.watch()
    assert bench.cursor.head == bench.lab.head
    ended(bench, "f-1", bench.clock.now())
    bench.clock.move(7 * 86_400)
    assert told(bench.watch()) == [("final", 2)]


def test_what_is_known_is_not_repeated_when_everything_is_compared(bench, monkeypatch):
    monkeypatch.setattr("gitflowstate.looking.CHUNK", 2)
    for number in range(5):
        ended(bench, f"f-{number}", LONG_AGO)
    assert bench.watch().skipped == 5
    assert bench.cursor.acknowledged == 3
    rewritten(bench)
    assert bench.watch().told == ()
    bench.lab.commit(Reopen, "f-1", reason="r", next="n")
    bench.lab.done("f-1")
    assert [(each.flow, each.kind) for each in bench.watch().told] == [("f-1", "final")]
    bench.sound()


# ── unknown outcomes ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-52", "R-TF-53", "L13")
def test_a_message_whose_answer_was_lost_is_found_at_once(began):
    began.lab.create("f-2")
    began.box.script = [("post", "lost")]
    report = began.watch()
    assert (told(report), report.uncertain) == ([("status", 1)], 0)
    assert began.box.kinds("f-2") == [("status", 1)]
    assert began.box.calls[-2:] == ["post", "find"]


@pytest.mark.req("R-TF-53")
def test_a_message_that_may_be_there_is_sent_again_after_two_looks(began):
    began.lab.create("f-2")
    began.box.script = [("post", FAULTS["unknown"]())]
    report = began.watch()
    assert (told(report), report.uncertain, report.owed) == ([], 1, ("f-2",))
    (intent,) = began.cursor.hold.notices
    assert (intent.flow, intent.sought) == ("f-2", began.clock.now())
    began.clock.move(29)
    began.box.calls.clear()
    report = began.watch("w2")
    assert (told(report), report.uncertain, began.box.calls) == ([], 1, ["find"])
    began.clock.move(1)
    assert told(began.watch("w3")) == [("status", 1)]
    assert began.box.kinds("f-2") == [("status", 1)]
    assert began.cursor.hold is None
    began.sound()


def test_a_message_that_appears_late_is_adopted_by_the_second_look(tmp_path):
    """With the channel of the product, which shows a new message only after some searches."""
    bench = Bench(tmp_path)
    bench.box = MemoryChannel(after=[Unknown("no answer")], lag=1)
    bench.lab.create()
    assert bench.watch().uncertain == 1
    bench.clock.move(120)
    assert told(bench.watch()) == [("status", 1)]
    assert len(bench.box.messages) == 1
    assert bench.receipt().message == bench.box.messages[0].id
    bench.lab.repo.close()


def test_a_channel_that_cannot_search_gets_it_again(tmp_path):
    bench = Bench(tmp_path, searches=False)
    bench.lab.create()
    bench.box.script = [("post", "lost")]
    assert bench.watch().uncertain == 1
    assert told(bench.watch()) == [("status", 1)]
    assert len(bench.box.messages()) == 2
    bench.lab.repo.close()


def test_a_look_that_fails_after_a_lost_answer_keeps_the_doubt(began):
    began.lab.create("f-2")
    began.box.script = [("find", lambda: None), ("post", "lost"), ("find", FAULTS["not sent"]())]
    assert began.watch().uncertain == 1
    assert began.cursor.hold.notices[0].sought is None
    assert told(began.watch()) == [("status", 1)]
    assert began.box.kinds("f-2") == [("status", 1)]


@pytest.mark.req("L16")
def test_a_look_that_is_told_to_wait_ends_the_pass_and_keeps_the_doubt(began):
    began.lab.create("f-2")
    began.lab.create("f-3")
    silence = FAULTS["silence"]()
    began.box.script = [("find", lambda: None), ("post", "lost"), ("find", silence)]
    report = began.watch()
    assert (told(report), report.uncertain) == ([], 1)
    assert began.cursor.budget.until >= silence.until
    assert began.box.kinds("f-3") == []  # nothing left after it was asked to wait


@pytest.mark.req("R-TF-52")
def test_an_edit_whose_answer_was_lost_is_made_again(began):
    began.lab.update("one")
    began.box.script = [("edit", "lost")]
    report = began.watch()
    assert (told(report), report.failed) == ([], 1)
    assert told(began.watch()) == [("status", 2)]
    assert began.box.kinds() == [("status", 2)]


def test_a_later_revision_is_told_in_place_of_one_that_may_be_there(began):
    began.lab.create("f-2")
    began.box.script = [("post", "lost"), ("find", FAULTS["not sent"]())]
    began.box.script.insert(0, ("find", lambda: None))
    began.watch()
    began.lab.update("later", "f-2")
    assert told(began.watch()) == [("status", 2)]
    assert began.box.kinds("f-2") == [("status", 2)]


def test_an_entry_into_waiting_that_may_be_announced_is_found_under_its_revision(began):
    waits(began)
    began.box.script = [("find", lambda: None), ("post", "lost"), ("find", FAULTS["not sent"]())]
    began.watch()
    began.lab.commit(Note, text="still waiting")
    began.clock.move(120)
    began.watch()
    assert [kind for kind, _ in began.box.kinds()].count("waiting") == 1
    assert began.receipt().waiting_since == AT


def test_another_entry_into_waiting_is_another_message(began):
    waits(began)
    began.box.script = [("find", lambda: None), ("post", "lost"), ("find", FAULTS["not sent"]())]
    began.watch()
    began.lab.commit(Resume)
    waits(began, at="2026-09-06T11:00:00Z")
    began.clock.move(120)
    assert ("waiting", 4) in told(began.watch())
    assert [kind for kind, _ in began.box.kinds()].count("waiting") == 2


def test_looks_go_back_far_enough_whatever_the_clock_did(began):
    began.lab.create("f-2")
    began.clock.move(365 * 86_400)
    began.box.script = [("post", FAULTS["unknown"]())]
    began.watch()
    began.clock.move(-365 * 86_400)
    began.box.since.clear()
    began.watch()
    real = began.clock.now()
    assert began.box.since
    assert all(since is not None and since < real for since in began.box.since)


# ── several, gone, edited ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-53")
def test_of_several_messages_the_oldest_is_kept(began):
    notice = began.box.messages()[0]
    for name in ("m00002", "m00003"):
        (began.box.folder / name).write_text(codec.compact(notice).decode())
    forget(began)
    began.lab.update("one")
    began.clock.move(120)
    began.watch()
    assert began.box.kinds() == [("status", 2)]
    first_lines = [each["text"].partition("\n")[0] for each in began.box.messages()]
    assert ["Superseded" in line for line in first_lines] == [False, True, True]
    assert began.receipt().message == "m00001"


def test_a_removed_status_message_is_made_again_once(began):
    for text in ("one", "two", "three"):
        for message in began.box.folder.glob("m*"):
            message.rename(began.box.folder / f"removed-{message.name}")
        began.lab.update(text)
        began.clock.move(120)
        began.watch()
    assert began.box.messages() == []
    assert began.receipt().gone == 2
    began.lab.update("four")
    began.clock.move(120)
    assert began.watch() == began.watch()
    began.lab.done()
    assert told(began.watch()) == [("final", 6)]
    assert began.box.kinds() == [("final", 6)]


def test_a_message_edited_by_a_human_is_written_over(began):
    began.box.rewrite("m00001", "my own words")
    began.lab.update("one")
    report = began.watch()
    assert "my own words" not in began.box.messages()[0]["text"]
    assert began.box.kinds() == [("status", 2)]
    assert report.warnings == ("f-1: its status message was edited by hand; rewritten",)
    began.clock.move(600)
    began.lab.update("two")
    assert began.watch().warnings == ()


def test_what_cannot_be_compared_is_no_warning(tmp_path):
    bench = Bench(tmp_path, searches=False)
    bench.lab.create()
    bench.began()
    bench.box.rewrite("m00001", "my own words")
    bench.lab.update("one")
    assert bench.watch().warnings == ()
    assert "digest" not in bench.box.calls


def test_a_found_message_edited_by_a_human_is_written_over_and_said(began):
    text = began.box.messages()[0]["text"]
    began.box.rewrite("m00001", text + "\nmy own words")
    forget(began)
    report = began.watch()
    assert began.box.messages()[0]["text"] == text
    assert any("edited by hand" in warning for warning in report.warnings)


def test_a_message_is_not_taken_back_to_an_earlier_revision(began):
    began.lab.update("one")
    began.watch()
    forget(began)
    imported(began.lab.gitdir, text=b"x\n", parents=(f"{began.lab.head}~1",))
    began.watch()
    assert began.box.kinds() == [("status", 2)]


def forget(bench):
    """Remove the cursor, as a person may."""
    git(bench.lab.gitdir, "update-ref", "-d", REF)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_message_is_parked_and_the_others_go_on(began):
    began.lab.create("f-2")
    began.lab.create("f-3")
    began.box.script = [("post", Refused("the issue is locked"))]
    report = began.watch()
    assert [each.flow for each in report.told] == ["f-3"]
    assert report.parked == {"f-2": "the issue is locked"}
    assert began.cursor.owed == ("f-2",)
    assert began.watch().parked == {"f-2": "the issue is locked"}
    began.clock.move(299)
    assert began.watch().told == ()
    began.clock.move(1)
    assert told(began.watch()) == [("status", 1)]
    assert began.watch().parked == {}
    assert began.receipt("f-2").parked is None


def test_tries_of_what_is_parked_come_more_and_more_seldom(began):
    began.lab.create("f-2")
    waits_s = []
    for _ in range(4):
        began.box.script = [("post", Refused("gone"))]
        began.watch()
        parked = began.receipt("f-2").parked
        waits_s.append(parked.tries)
        assert began.watch().told == ()
        began.clock.moment = Clock(parked.next).moment
    assert waits_s == [1, 2, 3, 4]
    assert parked.since == "2026-09-06T10:10:00Z"


@pytest.mark.req("R-TF-44")
def test_an_end_that_is_parked_is_never_dropped(began):
    began.lab.done()
    began.box.script = [("post", Refused("locked")), ("edit", Refused("locked"))]
    assert began.watch().parked == {"f-1": "locked"}
    for _ in range(3):
        began.lab.create(f"f-x{_}")
        began.clock.move(30 * 86_400)
        began.box.script = [("post", Refused("locked"))]
        began.watch()
    began.clock.move(86_400)
    assert ("final", 2) in told(began.watch())
    assert began.watch().parked == {}


def test_the_fallback_is_told_what_the_channel_will_not_take(began):
    began.has_fallback = True
    began.lab.create("f-2")
    began.box.script = [("post", Refused("gone"))]
    began.watch()
    assert began.spare.kinds("f-2") == [("status", 1)]
    began.lab.done("f-2")
    began.box.script = [("post", Refused("gone"))]
    began.watch()
    assert began.spare.kinds("f-2") == [("status", 1), ("final", 2)]
    assert began.spare.closed == 2
    assert list(began.watch().parked) == ["f-2"]


def test_the_fallback_is_told_once_however_often_it_is_tried(began):
    began.has_fallback = True
    began.lab.create("f-2")
    for _ in range(3):
        began.box.script = [("post", Refused("gone"))]
        began.watch()
        began.clock.move(86_400)
    assert began.receipt("f-2").parked.tries == 3
    assert began.spare.kinds("f-2") == [("status", 1)]


def test_a_fallback_that_fails_is_said_and_no_more(began):
    began.has_fallback = True
    began.lab.create("f-2")
    began.box.script = [("post", Refused("gone"))]
    began.spare.script = [("post", FAULTS["not sent"]())]
    report = began.watch()
    assert list(report.parked) == ["f-2"]
    assert any("fallback" in warning for warning in report.warnings)


@pytest.mark.req("C-21")
def test_silence_is_kept_and_the_next_run_keeps_it_too(began):
    for number in range(2, 5):
        began.lab.create(f"f-{number}")
    began.lab.done()
    began.box.script = [("post", FAULTS["silence"]())]
    report = began.watch()
    assert (told(report), report.silent_until) == ([], "2026-09-06T11:00:00Z")
    began.box.calls.clear()
    began.clock.move(1800)
    report = began.watch("w2")
    assert (report.told, report.silent_until) == ((), "2026-09-06T11:00:00Z")
    assert report.owed == ("f-1", "f-2", "f-3", "f-4")
    assert began.box.calls == []
    began.clock.move(1800)
    assert len(began.watch("w3").told) == 5
    assert began.cursor.budget.until is None


def test_silence_that_goes_on_is_doubled(began):
    began.lab.done()
    untils = []
    for _ in range(4):
        moment = untils[-1] if untils else "2026-09-06T11:00:00Z"
        began.box.script = [("post", HoldOff(moment, "slow down", guessed=True))]
        began.clock.moment = Clock(moment).moment
        began.watch()
        untils.append(began.cursor.budget.until)
    assert untils == [
        "2026-09-06T11:00:00Z", "2026-09-06T11:02:00Z", "2026-09-06T11:06:00Z",
        "2026-09-06T11:14:00Z",
    ]  # fmt: skip


def test_what_the_channel_says_itself_is_never_doubled(began):
    began.lab.done()
    for _ in range(5):
        until = began.clock.later(5)
        began.box.script = [("post", HoldOff(until, "slow down"))]
        began.watch()
        assert began.cursor.budget.until == until
        began.clock.move(6)
    assert [each.kind for each in began.watch().told] == ["final", "status"]


def test_wrong_credentials_stop_the_run_and_leave_the_cursor(began):
    began.lab.create("f-2")
    began.lab.create("f-3")
    before = began.cursor
    began.box.script = [("post", Unauthorised("GFS_TOKEN"))]
    with pytest.raises(Unauthorised, match="GFS_TOKEN"):
        began.watch()
    assert began.cursor == before
    assert began.box.kinds("f-3") == []
    assert began.box.closed == 2
    assert len(began.watch("w2").told) == 2


def test_a_channel_that_cannot_be_opened_touches_nothing(began):
    began.lab.create("f-2")
    before = began.tip()
    watcher = began.watcher()

    def refuse(_):
        raise Unauthorised("GFS_TOKEN")

    watcher.channel = refuse
    with pytest.raises(Unauthorised):
        watcher.run()
    assert began.tip() == before


def test_three_failures_in_a_row_end_the_pass(began):
    for number in range(2, 9):
        began.lab.create(f"f-{number}")
    began.box.script = [("find", FAULTS["not sent"]())] * 3
    report = began.watch()
    assert (report.told, report.failed, len(report.owed)) == ((), 3, 7)
    assert len(began.watch().told) == 7


def test_a_failure_among_successes_does_not_end_the_pass(began):
    for number in range(2, 9):
        began.lab.create(f"f-{number}")
    fine = lambda: None  # noqa: E731
    began.box.script = [("post", what) for _ in range(3) for what in (FAULTS["not sent"](), fine)]
    report = began.watch()
    assert (len(report.told), report.failed) == (4, 3)


def test_the_hour_is_counted_across_runs(bench):
    for number in range(5):
        bench.lab.create(f"f-{number}")
    assert len(bench.watch(per_hour=3).told) == 3
    bench.clock.move(1800)
    report = bench.watch("w2", per_hour=3)
    assert (report.told, len(report.owed)) == ((), 2)
    bench.clock.move(1801)
    assert bench.watch("w3", per_hour=3).told == ()  # counted in parts of five minutes
    bench.clock.move(300)
    assert len(bench.watch("w4", per_hour=3).told) == 2


def test_a_message_that_may_have_been_sent_counts(bench):
    for number in range(4):
        bench.lab.create(f"f-{number}")
    bench.box.script = [("post", Unknown("no answer"))]
    report = bench.watch(per_hour=3)
    assert (len(report.told), report.uncertain) == (2, 1)
    bench.clock.move(60)
    assert bench.watch("w2", per_hour=3).told == ()


# ── what keeps others waiting ───────────────────────────────────────────────────────────────────


def test_what_was_sent_before_credentials_failed_counts(bench):
    for number in range(3):
        bench.lab.create(f"f-{number}")
    bench.box.script = [("post", lambda: None), ("post", FAULTS["unauthorised"]())]
    with pytest.raises(Unauthorised):
        bench.watch(per_hour=3)
    assert [each.count for each in bench.cursor.budget.sent] == [1]


class PartlyDown(Postbox):
    """A channel that gives no answer about some flows."""

    down: tuple[str, ...] = ()

    def find(self, notice, since):
        if notice.flow in self.down:
            raise Unknown("no answer")
        return super().find(notice, since)


def test_flows_about_which_no_answer_comes_keep_no_other_waiting(bench):
    names = [f"f-{number}" for number in range(5)]
    for name in names:
        bench.lab.create(name)
        bench.lab.done(name)
    bench.box = PartlyDown(bench.folder / "partly")
    bench.box.down = tuple(names[:3])
    assert bench.watch().failed == 3
    assert bench.cursor.budget.failed == bench.box.down
    bench.watch("w2")
    assert [bench.box.kinds(name) for name in names] == [[], [], [], *[[("final", 2)]] * 2]
    bench.box.down = ()
    bench.watch("w3")
    assert [bench.box.kinds(name) for name in names] == [[("final", 2)]] * 5
    assert bench.cursor.budget.failed == ()


@pytest.mark.req("R-TF-44")
def test_a_flow_that_cannot_be_read_for_a_while_is_told_of_once_it_can(began):
    began.lab.create("f-2")
    began.lab.done("f-2")
    blob = git(began.lab.gitdir, "rev-parse", "main:archive/" + _shard("f-2") + "/f-2.json").strip()
    path = began.lab.gitdir / "objects" / blob[:2] / blob[2:]
    path.rename(began.folder / "kept")
    began.lab.create("f-3")
    report = began.watch()
    assert any("f-2" in warning for warning in report.warnings)
    assert began.box.kinds("f-3") == [("status", 1)]
    (began.folder / "kept").rename(path)
    began.clock.move(600)
    began.watch()
    assert began.box.kinds("f-2") == [("final", 2)]
    assert began.cursor.owed == ()


def _shard(flow):
    return receipt_path(flow).split("/")[1]


def test_an_end_that_is_parked_is_told_to_the_fallback_once(began):
    began.has_fallback = True
    began.lab.done()
    for _ in range(4):
        began.box.script = [(verb, FAULTS["refused"]()) for verb in ("find", "edit", "post")]
        began.watch()
        began.clock.move(90_000)
    assert began.spare.kinds() == [("final", 2)]


def test_a_flow_whose_place_changed_gets_its_message_there(began):
    began.lab.update("one")
    began.watch(target=lambda _: "here")
    began.clock.move(600)
    (began.box.folder / "m00001").unlink()  # another place has other messages
    began.box.script = [("edit", AssertionError("there is nothing to edit"))]
    began.lab.update("two")
    assert [each.kind for each in began.watch(target=lambda _: "there").told] == ["status"]
    assert began.box.calls[-2:] == ["find", "post"]


def test_a_parked_message_is_tried_at_once_where_the_place_changed(began):
    began.watch(target=lambda _: "here")
    began.lab.update("one")
    began.box.script = [("edit", FAULTS["refused"]()), ("digest", lambda: None)]
    assert began.watch(target=lambda _: "here").parked
    began.clock.move(30)
    began.lab.update("two")
    report = began.watch(target=lambda _: "there", interval_s=0)
    assert (report.parked, [each.kind for each in report.told]) == ({}, ["status"])


def test_another_end_of_a_rewritten_history_is_a_new_message(began):
    began.lab.update("one")
    back = began.lab.head
    began.lab.commit(Done, result="out/first.md")
    began.watch()
    assert began.box.kinds() == [("status", 3), ("final", 3)]
    git(began.lab.gitdir, "update-ref", MAIN, back)
    began.lab.commit(Done, result="out/second.md")
    began.clock.move(600)
    report = began.watch()
    assert began.box.kinds() == [("status", 3), ("final", 3), ("final", 3)]
    assert "second.md" in began.box.messages()[0]["text"]
    assert not any("by hand" in warning for warning in report.warnings)


def test_a_message_of_a_try_without_answer_is_not_taken_for_edited_by_hand(began):
    began.lab.update("one")
    began.box.script = [("edit", "lost")]
    assert began.watch().failed == 1
    began.clock.move(600)
    began.lab.update("two")
    report = began.watch()
    assert (report.warnings, began.box.kinds()) == ((), [("status", 3)])


def test_a_channel_that_wants_to_hear_of_more_compares_every_flow(bench):
    bench.lab.create("long-gone")
    bench.lab.done("long-gone")
    bench.lab.create("typed", labels=("right",))
    bench.clock.move(3 * 86_400)
    bench.lab.create("runs", at=bench.clock.now())
    bench.lab.create("ended", at=bench.clock.now())
    bench.lab.commit(Done, "ended", result="x", at=bench.clock.now())
    bench.watch(labels=("right",))
    assert [mark.flow for mark in bench.box.marks()] == ["typed"]
    bench.clock.move(600)
    bench.watch("w2", labels=("right",))
    assert len(bench.box.messages()) == 1
    report = bench.watch("w3")
    assert sorted(mark.flow for mark in bench.box.marks()) == ["ended", "runs", "typed"]
    assert report.owed == ()
    assert bench.watch("w4").told == ()


# ── two at once ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-46", "L14")
def test_a_second_watcher_stops_before_any_message(began):
    began.lab.create("f-2")
    inner = []

    def second(when):
        if when == "before post" and not inner:
            inner.append(None)
            inner.append(began.watch("w2"))

    began.box.around = second
    report = began.watch("w1")
    assert inner[1].held_by == "w1"
    assert inner[1].told == ()
    assert told(report) == [("status", 1)]
    assert began.box.kinds("f-2") == [("status", 1)]


def test_a_hold_that_was_lost_sends_nothing_more(began):
    for number in range(2, 6):
        began.lab.create(f"f-{number}")
    second = []

    def stall(when):
        if when == "after post" and not second:
            second.append(None)
            began.clock.move(600)
            second.append(began.watch("w2"))

    began.box.around = stall
    report = began.watch("w1")
    assert (second[1].told[0].flow, second[1].uncertain) == ("f-2", 3)
    assert (told(report), report.held_by) == ([("status", 1)], "w2")
    began.box.around = lambda _: None
    began.clock.move(30)
    assert len(began.watch("w3").told) == 3
    for number in range(2, 6):
        assert began.box.kinds(f"f-{number}") == [("status", 1)]
    began.sound()


@pytest.mark.req("R-TF-46", "L14")
def test_two_processes_at_once_send_one_message_each_time(began):
    for round_ in range(5):
        began.lab.create(f"g-{round_}")
        began.clock.move(1000)
        pids = [child(lambda name=name: elsewhere(began, name)) for name in ("w1", "w2")]
        assert [code_of(pid) for pid in pids] == [0, 0]
        assert began.box.kinds(f"g-{round_}") == [("status", 1)]
    began.sound()


def elsewhere(bench, holder):
    """Make a pass in a process of its own."""
    with Repository.open(bench.lab.gitdir) as repo:
        bench.watcher(holder, repo=repo).run()


def test_a_cursor_that_changed_meanwhile_is_looked_at_again(began):
    """Between the look and the hold another watcher made a whole pass."""
    began.lab.create("f-2")
    watcher = began.watcher("w1")
    opened = watcher.channel

    def late(cursor):
        if not began.box.kinds("f-2"):
            assert told(began.watch("w2")) == [("status", 1)]
        return opened(cursor)

    watcher.channel = late
    assert watcher.run().told == ()
    assert began.box.kinds("f-2") == [("status", 1)]


def test_a_watcher_that_sees_less_than_was_told_sends_nothing(began):
    """It took its view of the flows before the other did, and the hold after it."""
    began.lab.done()
    old = began.watcher("w1")
    began.lab.commit(Reopen, reason="a mistake", next="look again")
    began.clock.move(600)
    assert told(began.watch("w2")) == [("status", 3)]
    report = old.run()
    assert (report.told, report.held_by) == ((), "a watcher that has seen more")
    assert began.box.kinds() == [("status", 3)]


def test_a_cursor_that_moves_on_while_a_watcher_tries_again_ends_its_pass(began):
    began.lab.done()
    watcher = began.watcher("w1")
    opened = watcher.channel

    def late(cursor):
        if began.box.kinds() != [("status", 2), ("final", 2)]:
            began.watch("w2")
        return opened(cursor)

    watcher.channel = late
    assert watcher.run().held_by == "a watcher that has seen more"
    assert began.box.kinds() == [("status", 2), ("final", 2)]


def test_what_was_acknowledged_late_is_not_sent_again(began):
    """By a watcher whose hold had run out: its receipt comes between the look and the hold."""
    began.lab.create("f-2")
    watcher = began.watcher("w2")
    opened = watcher.channel

    def late(cursor):
        about = {"channel": NAME, "flow": "f-2", "revision": 1, "kind": "status"}
        digest = codec.digest(codec.encode(began.lab.store.flow("f-2")))
        op = Ack(at=AT, by="w1", **about, message="m00009", digest=digest, edits=True)
        CursorStore(began.lab.repo, NAME).commit(op)
        return opened(cursor)

    watcher.channel = late
    assert watcher.run().told == ()
    assert began.box.kinds("f-2") == []


def test_what_was_told_before_a_new_beginning_counts_for_nothing(tmp_path):
    bench = Bench(tmp_path, searches=False)
    bench.lab.create()
    bench.lab.done()
    bench.watch()
    op = begin_anew(bench.cursor, NAME, "ann", bench.clock.now())
    CursorStore(bench.lab.repo, NAME).commit(op)
    assert told(bench.watch()) == [("final", 2)]
    assert told(bench.watch()) == []
    assert bench.receipt().generation == bench.cursor.generation == 1
    bench.lab.repo.close()


# ── history, holes, clocks ──────────────────────────────────────────────────────────────────────


def rewritten(bench):
    """Rewrite main: the same tree and message, and no history."""
    message = git(bench.lab.gitdir, "log", "-1", "--format=%B", "main")
    imported(bench.lab.gitdir, *tree_of(bench), text=message.encode() + b"\n", parents=())


def tree_of(bench):
    paths = git(bench.lab.gitdir, "ls-tree", "-r", "--name-only", "main").splitlines()
    from flowrepo import Change

    return [Change(path, bench.lab.shown(path)) for path in paths]


@pytest.mark.req("R-TF-45", "L12")
def test_after_a_forced_push_every_flow_is_compared_and_that_is_said_once(began):
    began.lab.create("f-2")
    began.lab.done("f-2")
    began.watch()
    ended_ = began.box.kinds("f-2")
    began.lab.create("f-3")
    rewritten(began)
    report = began.watch()
    assert [each.flow for each in report.told] == ["f-3"]
    assert any("rewritten" in warning for warning in report.warnings)
    assert began.watch().warnings == ()
    assert began.box.kinds("f-2") == ended_ == [("final", 2)]


@pytest.mark.req("L12")
def test_what_was_rolled_back_and_done_otherwise_is_told(began):
    began.lab.done()
    began.watch()
    old = began.lab.head
    git(began.lab.gitdir, "update-ref", "refs/heads/main", f"{old}~1")
    from gitflowstate.ops import Done

    began.lab.commit(Done, "f-1", result="out/other.md")
    report = began.watch()
    assert ("final", 2) in told(report)
    assert "out/other.md" in began.box.messages()[-1]["text"]


@pytest.mark.req("R-TF-45")
def test_without_a_head_unacknowledged_ends_are_found(began):
    began.lab.create("f-2")
    began.lab.done("f-2")
    edited = codec.to_json(began.cursor)
    del edited["head"]
    imported(began.lab.gitdir, put(CURSOR_PATH, edited), ref=REF, parents=(f"{REF}^0",))
    report = began.watch()
    assert [(each.flow, each.kind) for each in report.told] == [("f-2", "final")]


@pytest.mark.req("L12")
def test_a_head_whose_objects_are_gone(began):
    began.lab.done()
    began.watch()
    head = began.cursor.head
    rewritten(began)
    path = began.lab.gitdir / "objects" / head[:2] / head[2:]
    path.unlink()
    report = began.watch()
    assert (report.told, len(report.warnings)) == ((), 1)
    assert began.watch().warnings == ()


@pytest.mark.req("L12")
def test_a_cursor_that_was_removed_repeats_no_end_that_can_be_found(began):
    began.lab.create("f-2")
    began.lab.done("f-2")
    began.watch()
    forget(began)
    began.lab.update("on")
    began.box.calls.clear()
    report = began.watch()
    assert began.box.kinds("f-2") == [("final", 2)]
    assert began.box.kinds("f-1") == [("status", 2)]
    assert {each.flow for each in report.told} == {"f-1", "f-2"}
    assert "post" not in began.box.calls


@pytest.mark.parametrize("path", [CURSOR_PATH, receipt_path("f-1")])
def test_a_document_of_the_cursor_that_cannot_be_read(began, path):
    began.lab.done()
    began.watch()
    before = began.box.kinds()
    imported(began.lab.gitdir, put(path, {"odd": 1}), ref=REF, parents=(f"{REF}^0",))
    began.lab.create("f-2")
    began.box.calls.clear()
    report = began.watch()
    assert began.box.kinds("f-2") == [("status", 1)]
    assert began.box.kinds() == before
    assert began.box.calls.count("post") == 1
    if path == CURSOR_PATH:
        assert any("hole" in warning for warning in report.warnings)


def test_a_cursor_whose_commit_is_gone(began):
    began.lab.done()
    began.watch()
    before = began.box.kinds()
    tip = began.tip()
    (began.lab.gitdir / "objects" / tip[:2] / tip[2:]).unlink()
    report = began.watch()
    assert began.box.kinds() == before
    assert any("hole" in warning for warning in report.warnings)
    assert began.watch().warnings == ()


@pytest.mark.parametrize("held", ["", "garbage\n", "ref: refs/heads/main\n", "0" * 39])
def test_a_cursor_whose_ref_holds_no_commit_id(began, held):
    began.lab.done()
    began.watch()
    told = began.box.kinds()
    (began.lab.gitdir / REF).write_text(held)
    began.lab.create("f-2")
    report = began.watch()
    assert began.box.kinds() == told
    assert began.box.kinds("f-2") == [("status", 1)]
    assert any("does not hold a commit id" in warning for warning in report.warnings)
    [kept] = (began.lab.gitdir / "gfs/stale").iterdir()
    assert kept.read_text() == held
    assert began.watch().warnings == ()


def test_an_older_cursor_that_appears_below_a_lying_ref_counts(began):
    git(began.lab.gitdir, "pack-refs", "--all")
    began.lab.done()
    began.watch()
    told = began.box.kinds()
    (began.lab.gitdir / REF).write_text("garbage\n")
    began.lab.create("f-2")
    report = began.watch()
    assert began.box.kinds() == told
    assert report.warnings
    subjects = git(began.lab.gitdir, "log", "--format=%s", REF).splitlines()
    assert sum("begin" in subject for subject in subjects) == 1


def test_a_clock_that_was_set_back_a_year_stops_nothing(began):
    began.lab.update("one")
    began.watch()
    began.clock.move(-365 * 86_400)
    began.lab.update("two")
    began.lab.create("f-2", at=began.clock.now())
    began.lab.done("f-2")
    assert told(began.watch()) == [("final", 2), ("status", 3)]
    began.lab.done()
    assert told(began.watch()) == [("final", 4), ("status", 4)]


def test_a_hold_of_a_clock_that_was_set_back_is_over(began):
    began.lab.create("f-2")
    killed_at(began, "after post")
    began.clock.move(-365 * 86_400)
    began.watch("w2")
    assert began.box.kinds("f-2") == [("status", 1)]
    assert began.receipt("f-2").revision == 1


def test_a_clock_ahead_of_all_flows_takes_only_old_ends_as_known(bench):
    bench.clock.move(3650 * 86_400)
    ended(bench, "f-1", AT)
    bench.lab.create("f-2")
    assert bench.watch().skipped == 1
    bench.clock.move(-3650 * 86_400)
    bench.lab.done("f-2")
    assert ("final", 2) in told(bench.watch())


def killed_at(bench, moment, holder="w1"):
    """Make a pass that dies at a moment."""

    def die(when):
        if when == moment:
            os._exit(9)

    def work():
        bench.box.around = die
        elsewhere(bench, holder)

    assert code_of(child(work)) == 9


def test_an_interrupted_pass_gives_its_hold_back(began):
    began.lab.create("f-2")
    began.lab.create("f-3")

    def interrupt():
        raise KeyboardInterrupt

    began.box.script = [("post", lambda: None), ("post", interrupt)]
    with pytest.raises(KeyboardInterrupt):
        began.watch()
    hold = began.cursor.hold
    assert [(i.flow, i.kind) for i in hold.notices] == [("f-3", "status")]
    assert began.receipt("f-2").revision == 1
    began.watch("w2")
    began.clock.move(30)
    assert told(began.watch("w3")) == [("status", 1)]


def test_a_bug_in_a_channel_gives_the_hold_back(began):
    began.lab.create("f-2")
    began.box.script = [("post", ZeroDivisionError())]
    with pytest.raises(ZeroDivisionError):
        began.watch()
    assert [i.flow for i in began.cursor.hold.notices] == ["f-2"]
    assert began.box.closed == 2


def test_gone_while_it_is_adopted_is_tried_again(began):
    forget(began)
    began.lab.update("one")
    began.box.script = [("edit", Gone("removed"))]
    report = began.watch()
    assert (report.told, report.failed) == ((), 1)
    assert told(began.watch()) == [("status", 2)]


# ── previews ────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_shows_what_would_be_sent_and_writes_nothing(bench):
    ended(bench, "f-old", LONG_AGO)
    bench.lab.create()
    report, planned = bench.watcher().preview(60_000)
    assert (bench.tip(), bench.box.calls) == (None, [])
    assert report.skipped == 1
    bench.watch()
    assert [each.notice.text for each in planned] == [m["text"] for m in bench.box.messages()]
    assert planned[0].edits is None
    bench.lab.update("one")
    bench.clock.move(120)
    tip = bench.tip()
    _, planned = bench.watcher().preview(60_000)
    assert bench.tip() == tip
    assert [(each.notice.kind, each.edits) for each in planned] == [("status", "m00001")]
    _, planned = bench.watcher(backfill=True).preview(60_000)
    assert [each.notice.kind for each in planned] == ["final", "status"]
