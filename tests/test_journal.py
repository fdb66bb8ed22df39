"""A journal is judged line by line: a torn tail is a warning with its place, all else is damage."""

from __future__ import annotations

import json

import pytest
from flowrepo import put
from hypothesis import given
from hypothesis import strategies as st
from processbench import STAMP, ProcessLab
from together import together

from gitflowstate import journal, processes, sessionlog
from gitflowstate.errors import Corrupt
from gitflowstate.processmodel import process_path

ONE = b'{"task_id": "t1", "status": "running"}\n'
TWO = b'{"task_id": "t1", "status": "completed", "elapsed_ms": 1.5}\n'
THREE = b'{"task_id": "t2", "status": "lost"}\n'


def check(data):
    return journal.check(data.splitlines(keepends=True))


def lines(facts):
    return "".join(map(journal.as_line, facts)).encode()


def test_a_sound_journal_says_what_each_task_is():
    found = check(ONE + TWO + THREE)
    assert (found.records, found.torn, found.unended) == (3, None, False)
    assert {name: last["status"] for name, last in found.tasks.items()} == {
        "t1": "completed",
        "t2": "lost",
    }
    assert check(b"").records == 0


@pytest.mark.req("R-TJ-18", "R-TJ-24", "R-TJ-25", "J15", "E5")
@pytest.mark.parametrize(
    "bad",
    [
        *(b"{", b"", b"   ", b"\x00\x00", b"\xff\xfe", b'{"task_id": "t1"', b'{"task_id": "t1"}x'),
        *(b"[]", b"null", b'"t1"', b"{}", b'{"task_id": 1}', b'{"task_id": ""}', b'{"task": "t1"}'),
        b"\xef\xbb\xbf" + ONE.strip(),
        *(b'{"task_id": "t3", "status": {}}', b'{"task_id": "t3", "state": 7}'),
        *(b'{"task_id": "t3", "task_id": "t4"}', b'{"task_id": "t3", "a": [{"b": 1, "b": 1}]}'),
        *(b'{"task_id": "t3", "elapsed_ms": NaN}', b'{"task_id": "t3", "a": [-Infinity]}'),
        *(TWO.strip(), ONE.strip(), b'{"task_id": "t1", "state": "lost"}'),
    ],
)
@pytest.mark.parametrize("after", [b"", THREE])
def test_a_complete_line_that_is_no_record_is_damage_wherever_it_stands(bad, after):
    with pytest.raises(Corrupt, match=f"line 3, at byte {len(ONE + TWO)}: ") as refused:
        check(ONE + TWO + bad + b"\n" + after)
    assert refused.value.details == {"line": 3, "offset": len(ONE + TWO)}


@pytest.mark.req("R-TJ-04", "E5")
def test_what_may_follow_an_end(lab):
    more = b'{"task_id": "t1", "status": "completed", "reason": "known later"}\n'
    none = b'{"task_id": "t1"}\n'  # what an edit by hand left
    assert check(ONE + TWO + more + none).records == 4
    with pytest.raises(Corrupt, match=r"line 5, .*: t1 is running after it had ended"):
        check(ONE + TWO + more + none + ONE)
    with pytest.raises(Corrupt, match=r"line 3, .*: the record of t1 stands twice"):
        check(ONE + THREE + ONE)
    process = lab.ended()
    path = process_path("s-1", process.id)
    lab.by_hand(put(path, json.loads(lab.shown(path)) | {"state": "running"}))
    with pytest.raises(Corrupt, match="line 4"):
        check(lines(sessionlog.facts(lab.store, "s-1")))


@pytest.mark.req("R-TJ-19", "J15", "E5")
@given(st.integers(1, len(THREE) - 2))
def test_a_record_that_was_cut_off_at_the_end_is_a_torn_tail(length):
    found = check(ONE + TWO + THREE[:length])
    assert (found.records, found.torn, found.unended) == (2, len(ONE + TWO), False)
    assert "t2" not in found.tasks


@pytest.mark.req("R-TJ-22")
def test_a_last_record_without_its_newline_is_kept():
    found = check(ONE + THREE[:-1])
    assert (found.records, found.torn, found.unended) == (2, None, True)
    assert found.tasks["t2"]["status"] == "lost"


@pytest.mark.req("R-TJ-25")
@pytest.mark.parametrize("bad", [b"[]", b"12", b"{}"])
def test_what_is_whole_and_no_record_is_no_torn_tail(bad):
    with pytest.raises(Corrupt, match="line 2"):
        check(ONE + bad)


def test_a_record_is_bounded():
    with pytest.raises(Corrupt, match="more than"):
        check(ONE + b'{"task_id": "' + b"x" * journal.LONGEST + b'"}\n')


@pytest.mark.req("R-TJ-18", "R-TJ-19", "R-TJ-24")
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 60))
def test_any_file_is_sound_or_torn_or_damaged(junk, at, length):
    data = ONE + TWO + THREE
    data = data[:at] + junk + data[at + length :]
    try:
        found = check(data)
    except Corrupt as error:
        found, offset = None, error.details["offset"]
    if found is None:
        assert 0 <= offset <= len(data)
        return
    kept = data if found.torn is None else data[: found.torn]
    assert check(kept).tasks == found.tasks
    assert found.torn is None or data[found.torn - 1 : found.torn] in (b"\n", b"")


# ── the facts of a session ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def lab(tmp_path):
    made = ProcessLab(tmp_path / "flows")
    yield made
    made.repo.close()


@pytest.mark.req("R-TJ-01", "R-TJ-03", "R-TJ-11", "C-11")
def test_a_session_has_every_fact_in_its_order(lab):
    ended = lab.ended()
    lab.ended(session="s-2")
    lost = processes.lost(lab.store, lab.start("c-2"), "died", **STAMP)
    found = sessionlog.facts(lab.store, "s-1")
    assert [(fact.id, fact.op, fact.process.state) for fact in found] == [
        (ended.id, "run intend", "starting"),
        (ended.id, "run start", "running"),
        (ended.id, "run settle", "completed"),
        (lost.id, "run intend", "starting"),
        (lost.id, "run start", "running"),
        (lost.id, "run lose", "lost"),
    ]
    told = [json.loads(line) for line in lines(found).splitlines()]
    assert [line.get("event_id") for line in told] == [None, None, ended.id, None, None, lost.id]
    assert told[2]["by"] == "ann"
    assert told[2]["exit_code"] == 0
    judged = check(lines(found))
    assert (judged.records, sorted(judged.tasks)) == (6, sorted([ended.id, lost.id]))


def test_an_edit_by_hand_is_a_fact_without_an_op(lab):
    process = lab.ended()
    path = process_path("s-1", process.id)
    lab.by_hand(put(path, json.loads(lab.shown(path)) | {"reason": "I know why"}))
    lab.by_hand(put(path, {}))
    lab.create()
    *_, edit, broken = sessionlog.facts(lab.store, "s-1")
    assert (edit.op, edit.by, edit.process.reason) == (None, None, "I know why")
    assert (broken.op, broken.process) == (None, None)
    assert check(lines([edit, broken])).records == 2


@pytest.mark.req("J15", "R-TJ-15")
def test_two_that_write_at_once_leave_every_record_whole(lab):
    def work(number):
        mine = ProcessLab(lab.folder, made=False)
        for turn in range(4):
            mine.ended(f"{number}-{turn}", f"s-{number}")
        mine.repo.close()

    together(lab, 2, work)
    for number in range(2):
        found = check(lines(sessionlog.facts(lab.store, f"s-{number}")))
        assert found.records == 12
        assert {last["state"] for last in found.tasks.values()} == {"completed"}
    assert lab.verify().problems == []
