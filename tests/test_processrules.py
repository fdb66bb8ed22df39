"""The life of a process is the promised table, and its task follows it in the same commit."""

from __future__ import annotations

from hashlib import sha256

import pytest
from samples import AT, LATER, fallen, flow, path_of, task

from gitflowstate import codec, machine
from gitflowstate.errors import Corrupt, NotFound, Rejected, Stale
from gitflowstate.kinds import ENDS, KINDS
from gitflowstate.model import Claim
from gitflowstate.processmodel import Process, process_id, process_path, session_folder
from gitflowstate.processops import BY_TAG

# What one op makes of a process in each state: "-" is refused, "=" nothing to do. The ops are those
# of `op`; the process found was made by the same ones.
PROMISED = """
               none      starting   running    completed  failed  cancelled  timed_out  lost
    run-intend starting  =          =          =          =       =          =          =
    run-start  -         running    =          -          -       -          -          -
    run-settle -         completed  completed  =          -       -          -          -
    run-lose   -         lost       lost       -          -       -          -          =
"""
STATES = PROMISED.split("\n")[1].split()
CELLS = [
    (tag.replace("-", " "), found, outcome)
    for tag, *row in (line.split() for line in PROMISED.strip().splitlines()[1:])
    for found, outcome in zip(STATES, row, strict=True)
]
_OF_TAG = {
    "run intend": {"argv": ("make",), "cwd": "/src", "host": "h", "boot_id": "b"},
    "run start": {"pid": 7, "ticks": 9, "started_at": AT},
    "run settle": {"state": "completed", "finished_at": AT, "exit_code": 0},
    "run lose": {"reason": "its supervisor died"},
}
SERVES = {"flow": "f-1", "task": "t1"}


def op(tag, **changes):
    about = {"at": LATER, "by": "ann", "session_id": "s-1", "process": "p-1"}
    return codec.checked(BY_TAG[tag](**about | _OF_TAG[tag] | changes))


def process(state="running", **changes):
    """Return the process that `op` intends, in a state."""
    fields = {"argv": ("make",), "cwd": "/src", "host": "h", "boot_id": "b", "created_at": AT}
    if state != "starting":
        fields |= {"pid": 7, "ticks": 9, "started_at": AT}
    if state in ENDS:
        fields |= {"finished_at": AT, "exit_code": None if state == "lost" else 0}
    about = {"schema_version": 1, "id": "p-1", "state": state, "session_id": "s-1"}
    return codec.checked(Process(**about | fields | changes))


def run(wanted, *documents):
    """Apply an op among documents; return the state afterwards."""
    there = {place(document): document for document in documents}
    state = {path: there.get(path) for path in machine.reads(wanted)}
    return machine.apply(wanted, state)


def place(document):
    if isinstance(document, Process):
        return process_path(document.session_id, document.id)
    return path_of(document)


def after(wanted, *documents):
    found = run(wanted, *documents)[process_path("s-1", "p-1")]
    assert isinstance(found, Process)
    return found


def task_after(wanted, *documents):
    found = machine.find("f-1", run(wanted, *documents))
    return found, found.children[0]


def served(**changes):
    """Return a flow whose first task is served by the process."""
    held = Claim(worker="p-1", by="ann", attempt=3, until=LATER)
    return flow(children=(task(claim=held, process="p-1"), task("t2")), **changes)


@pytest.mark.req("R-TJ-03", "R-TJ-04", "X-60")
@pytest.mark.parametrize(("tag", "found", "outcome"), CELLS)
def test_the_table_is_the_promised_one(tag, found, outcome):
    there = [] if found == "none" else [process(found)]
    if outcome == "-":
        with pytest.raises(Rejected, match=rf"no process p-1|p-1 is {found}"):
            run(op(tag), *there)
    elif outcome == "=":
        assert after(op(tag), *there) is there[0]
    else:
        assert after(op(tag), *there).state == outcome


@pytest.mark.req("R-TJ-04")
def test_a_process_that_was_intended_settles_in_every_end_but_lost():
    for state in KINDS["ProcessState"].values:
        if state in ENDS and state != "lost":
            assert after(op("run settle", state=state), process()).state == state
        else:
            with pytest.raises(Rejected, match=f"may not make p-1 {state}"):
                run(op("run settle", state=state), process())


@pytest.mark.req("R-TJ-05", "R-TJ-10", "J17")
@pytest.mark.parametrize("state", KINDS["ProcessState"].values)
@pytest.mark.parametrize(
    "other",
    [{"argv": ("make", "all")}, {"cwd": "/"}, {"timeout_s": 3}, {"notify": "manual"}, SERVES],
)
def test_the_same_call_for_something_else_is_refused_for_ever(state, other):
    if "task" in other:
        other = other | {"until": LATER}
    with pytest.raises(Stale, match=f"another command: p-1, which is {state}") as refused:
        run(op("run intend", **other), process(state))
    assert refused.value.details["process"] == "p-1"
    assert set(refused.value.details["differs"]) <= {*other}


@pytest.mark.req("R-TJ-05", "R-TJ-06", "J16")
def test_the_id_is_of_session_and_call_together():
    ids = [
        process_id(*pair) for pair in [("s", "c"), ("s", "d"), ("t", "c"), ("sc", ""), ("s", "")]
    ]
    assert len({*ids}) == len(ids)
    odd = process_id("s", "a/b\n" + "x" * 10_000)
    assert all(KINDS["Id"].accepts(name) for name in [*ids, odd])
    assert process_id("s", "c") == "p-" + sha256(b"s\0c").hexdigest()[:12]


def test_a_session_that_is_no_id_has_a_folder_all_the_same():
    assert session_folder("s-1").endswith("/s-1")
    odd = session_folder("../../etc")
    assert len(odd.split("/")) == 3
    assert ".." not in odd
    assert session_folder("S") != session_folder("s")


# ── an end ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("J9", "J8", "R-TJ-04")
def test_an_end_keeps_what_was_told_and_the_identity():
    told = {"exit_code": 137, "sent": ("SIGTERM", "SIGKILL"), "reason": "too long"}
    told |= {"output_ref": "gfs/runs/p-1", "output_bytes": 9, "output_truncated": True}
    ended = after(op("run settle", state="failed", pid=1, **told), process())
    assert {name: getattr(ended, name) for name in told} == told
    assert (ended.pid, ended.ticks, ended.started_at) == (7, 9, AT)
    killed = after(op("run settle", state="failed", exit_code=None, signal="SIGKILL"), process())
    assert (killed.exit_code, killed.signal) == (None, "SIGKILL")


@pytest.mark.req("J11")
def test_an_end_brings_the_identity_whose_record_was_lost():
    told = {"pid": 8, "ticks": 5, "started_at": AT}
    ended = after(op("run settle", **told), process("starting"))
    assert (ended.pid, ended.ticks, ended.started_at) == (8, 5, AT)
    never = after(op("run settle", state="failed", exit_code=None), process("starting"))
    assert (never.pid, never.started_at) == (None, None)


@pytest.mark.req("R-TJ-07", "R-TJ-09")
@pytest.mark.parametrize("state", ["starting", "running"])
def test_lost_claims_nothing_about_how_it_ended(state):
    lost = after(op("run lose"), process(state))
    assert (lost.exit_code, lost.signal) == (None, None)
    assert (lost.reason, lost.finished_at) == ("its supervisor died", LATER)


# ── the task that it serves ─────────────────────────────────────────────────────────────────────

SERVING = process(**SERVES)


def test_an_intent_claims_the_task_in_the_same_commit():
    wanted = op("run intend", **SERVES, until=LATER)
    there, first = task_after(wanted, flow("pending", children=(task(),)))
    assert (first.process, first.claim.worker, first.claim.attempt) == ("p-1", "p-1", 4)
    assert (there.status, there.revision, first.status) == ("running", 4, "pending")
    assert after(wanted, flow(children=(task(),))).task == "t1"


HELD = Claim(worker="w.1", by="bob", attempt=2, until="2026-09-06T12:00:00Z")


@pytest.mark.parametrize(
    ("there", "error"),
    [
        ([], NotFound),
        ([flow(children=())], NotFound),
        ([flow("done", children=(task(),))], Rejected),
        ([flow("waiting", children=(task(),))], Rejected),
        ([flow(children=(task("t1", "done"),))], Rejected),
        ([flow(children=(task(deps=("t2",)), task("t2")))], Rejected),
        ([flow(children=(task(claim=HELD),))], Stale),
        ([flow(children=(task(claim=HELD.replace(worker="p-2"), process="p-2"),))], Stale),
        ([flow(children=(task(claim=HELD.replace(until=AT), on_interrupt="hold"),))], Stale),
        ([flow(children=(task(),)), fallen()], Corrupt),
    ],
)
def test_a_task_that_cannot_be_claimed_forbids_the_start(there, error):
    with pytest.raises(error):
        run(op("run intend", **SERVES, until=LATER), *there)


def test_a_process_may_belong_to_a_flow_and_change_nothing_of_it():
    there = flow(children=(task(),))
    state = run(op("run intend", flow="f-1"), there)
    assert machine.find("f-1", state) is there
    with pytest.raises(NotFound, match="no flow f-1"):
        run(op("run intend", flow="f-1"))
    with pytest.raises(Corrupt, match="edited by hand"):
        run(op("run intend", flow="f-1"), there, fallen())
    with pytest.raises(Rejected, match="of no flow"):
        run(op("run intend", task="t1", until=LATER))


ENDED_AS = {
    "completed": ("done", "completed", "process:p-1"),
    "failed": ("failed", "errored", None),
    "cancelled": ("failed", "cancelled", None),
    "timed_out": ("failed", "timed_out", None),
}


@pytest.mark.req("C-08")
@pytest.mark.parametrize("state", ENDED_AS)
def test_an_end_settles_the_task_whoever_records_it(state):
    ended = op("run settle", **SERVES, by="bob", state=state)
    there, first = task_after(ended, SERVING, served())
    assert (first.status, first.outcome, first.result_ref) == ENDED_AS[state]
    assert (there.revision, first.claim, first.finished_by) == (4, None, "bob")
    if first.status == "failed":
        assert first.reason == f"its process p-1 {state} with exit code 0"


def test_a_task_is_done_with_the_result_that_was_named():
    ended = op("run settle", **SERVES, result="out/report.md")
    assert task_after(ended, SERVING, served())[1].result_ref == "out/report.md"


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"signal": "SIGKILL", "exit_code": None}, "its process p-1 was ended by SIGKILL"),
        ({"reason": "no such file"}, "its process p-1 failed: no such file"),
        ({"reason": "x" * 1000}, f"its process p-1 failed: {'x' * 976}"),
    ],
)
def test_a_failed_task_says_why(told, reason):
    ended = op("run settle", **SERVES, state="failed", **told)
    assert task_after(ended, SERVING, served())[1].reason == reason


@pytest.mark.req("R-TJ-07", "C-08")
def test_the_task_of_a_lost_process_waits_for_a_person():
    _, first = task_after(op("run lose", **SERVES), SERVING, served())
    assert (first.status, first.claim, first.process) == ("waiting", None, "p-1")
    assert (first.waiting.on, first.waiting.condition) == ("human", "gfs recover decides")
    assert "p-1 is lost" in first.waiting.reason


@pytest.mark.req("R-TJ-07")
@pytest.mark.parametrize("tag", ["run settle", "run lose"])
def test_an_end_must_name_the_task_that_it_would_leave_behind(tag):
    with pytest.raises(Rejected, match="serves f-1/t1, not None/None"):
        run(op(tag), SERVING)


@pytest.mark.parametrize(
    "there",
    [
        [],
        [served(status="done", result_ref="a", next_action=None)],
        [flow(children=(task("t2"),))],
        [flow(children=(task("t1", "failed", process="p-1"),))],
        [flow(children=(task(claim=HELD.replace(worker="p-2"), process="p-2"),))],
    ],
)
@pytest.mark.parametrize("tag", ["run settle", "run lose"])
def test_an_end_is_recorded_whatever_became_of_the_task(tag, there):
    state = run(op(tag, **SERVES), SERVING, *there)
    assert state[process_path("s-1", "p-1")].state in ENDS
    for document in there:
        assert machine.find("f-1", state) is document


def test_a_task_that_cannot_be_done_then_waits_for_a_person():
    """An edit by hand gave it a dependency meanwhile."""
    held = served().children[0].replace(deps=("t2",))
    there = flow(children=(held, task("t2")))
    _, first = task_after(op("run settle", **SERVES), SERVING, there)
    assert (first.status, first.claim) == ("waiting", None)
    assert "completed" in first.waiting.reason


@pytest.mark.req("D2")
def test_the_end_of_a_process_waits_for_a_flow_that_was_edited_by_hand():
    with pytest.raises(Corrupt, match="edited by hand"):
        run(op("run settle", **SERVES), SERVING, served(), fallen())


def test_a_document_of_a_newer_version_is_not_written():
    newer = Process(**process().__dict__ | {"schema_version": 2})
    with pytest.raises(Rejected, match="newer gitflowstate"):
        run(op("run lose"), newer)


def test_an_intent_is_bounded_and_an_end_is_not():
    with pytest.raises(Rejected, match="would have"):
        run(op("run intend", argv=("x" * 2**20,)))
    with pytest.raises(Rejected, match="no command"):
        run(op("run intend", argv=()))
    large = process(argv=("x" * (2**20 - 400),))
    assert after(op("run lose", reason="y" * 1000), large).state == "lost"
