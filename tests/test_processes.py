"""A process in a repository: recorded before it exists, found by its call, ended once."""

from __future__ import annotations

import json

import pytest
from flowrepo import AT, put
from gitrepo import MAIN, git
from processbench import STAMP, ProcessLab
from together import together

from gitflowstate import processes
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, NotFound, Rejected, Stale
from gitflowstate.processmodel import has_ended, process_id, process_path, session_folder
from gitflowstate.taskops import TaskAdd, TaskClaim, TaskDone, TaskExpire


@pytest.fixture
def lab(tmp_path):
    made = ProcessLab(tmp_path / "flows")
    yield made
    made.repo.close()


def raw(lab, process):
    return json.loads(lab.shown(process_path(process.session_id, process.id)))


# ── the same call ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-01", "R-TJ-02", "R-TJ-03", "R-TJ-11")
def test_each_fact_is_a_commit_and_the_document_is_the_last_one(lab):
    first = lab.intend()
    assert first.fresh
    assert raw(lab, first.process)["state"] == "starting"
    running = lab.start()
    assert (running.id, raw(lab, running)["pid"]) == (first.process.id, 7)
    ended = lab.end(running)
    assert raw(lab, ended) == {
        "schema_version": 1, "id": running.id, "state": "completed", "session_id": "s-1",
        "call_id": "c-1", "argv": ["make"], "cwd": "/src", "host": "h", "boot_id": "b", "pid": 7,
        "ticks": 9, "created_at": AT, "started_at": AT, "finished_at": AT, "exit_code": 0,
    }  # fmt: skip
    tags = [f"{running.id} run {what}" for what in ("settle", "start", "intend")]
    assert [subject.partition(":")[0] for subject in lab.messages()[:3]] == tags
    assert git(lab.gitdir, "log", "-1", "--format=%(trailers:key=Process,valueonly)") == running.id
    assert lab.verify().problems == []


@pytest.mark.req("R-TJ-05", "R-TJ-10", "J1")
@pytest.mark.parametrize("state", ["starting", "running", "completed", "lost"])
def test_the_same_call_gives_the_same_record_whatever_became_of_it(lab, state):
    process = lab.intend().process if state == "starting" else lab.start()
    if state == "completed":
        process = lab.end(process)
    elif state == "lost":
        process = processes.lost(lab.store, process, "its supervisor died", **STAMP)
    head = lab.head
    again = lab.intend()
    assert (again.process, again.fresh) == (process, False)
    assert again.process.state == state
    other = ProcessLab(lab.folder, made=False)  # after a restart
    assert other.intend() == again
    other.repo.close()
    assert lab.head == head


@pytest.mark.req("R-TJ-05")
def test_the_same_call_with_another_command_is_refused(lab):
    process = lab.ended()
    with pytest.raises(Stale, match=f"another command: {process.id}"):
        lab.intend(argv=["make", "all"])


@pytest.mark.req("R-TJ-06")
def test_the_same_call_of_another_session_is_another_process(lab):
    one, other = lab.intend(session="s-1"), lab.intend(session="s-2")
    assert one.fresh
    assert other.fresh
    assert one.process.id != other.process.id
    assert processes.find_by_id(lab.store, "s-2", process_id("s-2", "c-1")) == other.process


def test_a_call_without_an_id_is_another_one_each_time(lab):
    assert lab.intend(None).process.id != lab.intend(None).process.id


@pytest.mark.req("R-TJ-05", "R-TJ-15", "J12")
def test_of_many_that_start_one_call_at_once_one_may(lab):
    def intend(_number):
        mine = ProcessLab(lab.folder, made=False)
        found = mine.intend()
        mine.repo.close()
        return found.process.id, found.fresh

    answers = together(lab, 4, intend)
    assert len({name for name, _ in answers}) == 1
    assert [fresh for _, fresh in answers].count(True) == 1


@pytest.mark.req("J16", "R-TJ-06")
def test_a_call_id_and_a_command_may_hold_anything(lab):
    odd = ["a/b\nc", "x" * 10_000, "\x1b[0m", "\udcff", "$'\\x1b[0m'", "", "ü"]
    for call in odd:
        found = lab.intend(call, argv=["printf", *odd])
        assert found.fresh
        assert not lab.intend(call, argv=["printf", *odd]).fresh
    kept = [processes.find_by_id(lab.store, "s-1", process_id("s-1", call)) for call in odd]
    assert len({process.call_id for process in kept}) == len(odd)
    assert len(set(raw(lab, found.process)["argv"])) == len(odd) + 1
    assert lab.verify().problems == []
    lab.sound()


def test_a_long_argument_is_in_the_document_alone(lab):
    script = "echo " + "x" * 5000
    lab.intend(argv=["sh", "-c", script, "sh", "sh"])
    message = git(lab.gitdir, "log", "-1", "--format=%B", MAIN)
    assert len(message) < 2000
    assert lab.verify().problems == []


@pytest.mark.req("G1")
def test_a_secret_in_a_command_is_refused_before_anything_is_written(lab):
    head = lab.head
    token = "ghp_" + "a1B2" * 9
    with pytest.raises(Rejected, match="secret"):
        lab.intend(argv=["curl", "-H", f"Authorization: {token}"])
    assert lab.head == head
    assert lab.intend(argv=["echo", token], allow_secret="an example").fresh


# ── its end ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-04", "X-60")
def test_the_first_recorded_end_stands_and_is_the_answer(lab):
    process = lab.start()
    ended = lab.end(process, "failed", exit_code=7)
    head = lab.head
    assert lab.end(process) == ended
    assert processes.lost(lab.store, process, "late", **STAMP) == ended
    assert lab.end(process, "failed", exit_code=7) == ended
    assert lab.head == head
    with pytest.raises(Rejected, match="failed"):
        processes.started(lab.store, process, processes.Identity(7, 9, AT), **STAMP)


@pytest.mark.req("R-TJ-03")
def test_an_end_tells_the_identity_of_which_no_start_was_recorded(lab):
    told = lab.end(lab.intend().process, identity=processes.Identity(7, 9, AT))
    assert (told.pid, told.ticks, told.started_at) == (7, 9, AT)
    assert raw(lab, told)["ticks"] == 9


@pytest.mark.req("X-42", "G1")
@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("no such file: \x1b[31mx\n", "no such file: "),
        ("\udcff", ""),
        ("x" * 5000, "x" * 1000),
        ("token ghp_" + "a1B2" * 9, "a secret"),
        (" \n", None),
    ],
)
def test_no_reason_keeps_an_end_from_being_recorded(lab, reason, kept):
    ended = lab.end(lab.start(), "failed", exit_code=None, reason=reason)
    assert ended.state == "failed"
    assert ended.reason is None if kept is None else kept in ended.reason
    assert "ghp_" not in str(ended.reason)
    assert lab.verify().problems == []


@pytest.mark.req("R-TJ-04")
def test_what_was_never_intended_cannot_end(lab):
    process = ProcessLab(lab.folder.parent / "other").start()
    with pytest.raises(Rejected, match="no process"):
        lab.end(process)


@pytest.mark.req("R-TJ-08")
def test_the_task_of_a_process_is_nobody_elses_until_it_ends(lab):
    lab.create(owner="local")
    lab.commit(TaskAdd, task="t1", goal="g")
    process = lab.start(flow="f-1", task="t1")
    late = {"at": "2030-01-01T00:00:00Z"}
    claimed = lab.store.flow("f-1").children[0].claim
    for refused, fields in (
        (TaskClaim, {"worker": "w.1", "until": "2031-01-01T00:00:00Z"}),
        (TaskDone, {"result": "r"}),
        (TaskDone, {"result": "r", "attempt": claimed.attempt}),
        (TaskExpire, {"attempt": claimed.attempt, "proof": "time"}),
        (TaskExpire, {"attempt": claimed.attempt, "proof": "lock"}),
    ):
        with pytest.raises(Stale, match=process.id):
            lab.commit(refused, task="t1", **fields, **late)
    lab.end(process)
    task = lab.store.flow("f-1").children[0]
    assert (task.status, task.claim, task.result_ref) == ("done", None, f"process:{process.id}")
    assert lab.verify().problems == []


@pytest.mark.req("R-TJ-07")
def test_a_person_settles_the_task_of_a_lost_process(lab):
    lab.create(owner="local")
    lab.commit(TaskAdd, task="t1", goal="g")
    processes.lost(lab.store, lab.start(flow="f-1", task="t1"), "no power", **STAMP)
    assert lab.store.flow("f-1").children[0].status == "waiting"
    lab.commit(TaskDone, task="t1", result="out/it-was-there.md")
    assert lab.store.flow("f-1").children[0].status == "done"


def test_the_end_of_a_process_of_an_archived_flow_is_recorded(lab):
    lab.create(owner="local")
    lab.commit(TaskAdd, task="t1", goal="g")
    process = lab.start(flow="f-1", task="t1")
    from gitflowstate.ops import Done

    lab.commit(Done, result="r", cancel_children=True)
    assert lab.end(process).state == "completed"
    flow = "%(trailers:key=Flow,valueonly)"
    assert git(lab.gitdir, "log", "-1", f"--format={flow}", MAIN) == ""
    assert lab.verify().problems == []
    lab.sound()


def test_a_process_may_be_about_a_flow_that_has_ended_and_changes_nothing_in_it(lab):
    from gitflowstate.ops import Done

    lab.create(owner="local")
    lab.commit(TaskAdd, task="t1", goal="g")
    lab.commit(Done, result="r", cancel_children=True)
    flow = lab.store.flow("f-1")
    assert lab.ended(flow="f-1").state == "completed"
    assert lab.store.flow("f-1") == flow
    with pytest.raises(Rejected):
        lab.intend("c-2", flow="f-1", task="t1")
    assert lab.verify().problems == []


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def test_a_process_is_found_by_a_unique_prefix(lab):
    process = lab.start()
    lab.start("c-2", session="S 2")
    assert processes.get(lab.store, process.id[:8]) == process
    with pytest.raises(NotFound, match="2 processes begin with 'p-'"):
        processes.get(lab.store, "p-")
    with pytest.raises(NotFound, match="there is no process 'p-x'"):
        processes.get(lab.store, "p-x")


@pytest.mark.req("R-TJ-15")
def test_what_another_process_recorded_is_seen(lab):
    other = ProcessLab(lab.folder, made=False)
    process = lab.start()
    assert [*processes.listing(other.store)] == [process]
    assert [p for p in processes.listing(other.store) if not has_ended(p)] == [process]
    lab.end(process)
    assert [p for p in processes.listing(other.store) if not has_ended(p)] == []
    other.repo.close()


@pytest.mark.req("R-TJ-18")
@pytest.mark.parametrize("content", [b"{}\n", b"", b"\x00" * 40, b'{"schema_version": 1'])
def test_nothing_is_started_in_a_session_with_a_process_that_cannot_be_read(lab, content):
    process = lab.ended()
    path = process_path("s-1", process.id)
    lab.by_hand(put(path, {})._replace(content=content))
    head = lab.head
    with pytest.raises(Corrupt, match="nothing is started in session s-1") as refused:
        lab.intend("c-2")
    assert refused.value.details["path"] == path
    assert (lab.head, lab.shown(path)) == (head, content)
    assert isinstance(next(processes.listing(lab.store, "s-1")), Broken)
    assert lab.intend("c-2", session="s-2").fresh  # another session goes on


def test_a_process_that_stands_in_another_session_cannot_be_read(lab):
    process = lab.ended()
    moved = f"{session_folder('s-2')}/{process.id}.json"
    content = lab.shown(process_path("s-1", process.id))
    lab.by_hand(put(moved, {})._replace(content=content))
    (item,) = processes.listing(lab.store, "s-2")
    assert "belongs at" in item.said


@pytest.mark.req("R-TJ-14")
def test_a_look_up_reads_one_document_however_many_there_are(lab, monkeypatch):
    lab.ended("c-0")
    for number in range(1, 12):
        lab.intend(f"c-{number}")
    asked = []
    real = lab.repo.blob
    monkeypatch.setattr(lab.repo, "blob", lambda oid, *more: asked.append(oid) or real(oid, *more))
    monkeypatch.setattr("gitflowstate.documents._memo", type(processes.documents._memo)())
    assert not lab.intend("c-0").fresh
    assert len(asked) <= 2
