"""The cursor of a channel obeys the law of flows: documents, operations, commits that replay."""

from __future__ import annotations

import json

import pytest
from flowrepo import AT, Lab, imported, put
from gitrepo import fsck, git
from hypothesis import given
from hypothesis import strategies as st
from laws.strategies import values
from watchbench import NAME, REF

from gitflowstate import codec, cursormachine, history, message
from gitflowstate.cursormachine import HOLD_S, MUTED, held
from gitflowstate.cursors import (
    CURSOR_PATH,
    Acknowledged,
    Budget,
    Cursor,
    Delivery,
    Intent,
    Lease,
    acknowledged_path,
    receipt_path,
)
from gitflowstate.cursorstore import CursorStore, definition, verify
from gitflowstate.errors import Corrupt, Rejected, Stale
from gitflowstate.git import Repository
from gitflowstate.store import Store
from gitflowstate.watchops import UNION, Ack, Advance, Begin, Hold, Mute, Park, Skip

DIGEST = "d" * 64
LATER = "2026-09-06T10:05:00Z"


def made(kind, /, **fields):
    """Return an op on the cursor."""
    return codec.checked(kind(**{"at": AT, "by": "watch", "channel": NAME} | fields))


def ack(kind="status", revision=1, flow="f-1", message="m1", **fields):
    about = {"flow": flow, "revision": revision, "kind": kind, "message": message}
    return made(Ack, **about, digest=DIGEST, **{"edits": True} | fields)


def hold(holder="w1", **fields):
    return made(Hold, **{"holder": holder, "until": LATER, "notices": ()} | fields)


def intent(**fields):
    return Intent(**{"flow": "f-1", "kind": "status", "revision": 1, "at": AT} | fields)


def digest_of(cursor):
    return codec.digest(codec.encode(cursor))


def run(op, *documents):
    """Apply an op to the documents; return the state afterwards."""
    there = {CURSOR_PATH: None}
    for document in documents:
        path = receipt_path("f-1") if isinstance(document, Delivery) else CURSOR_PATH
        there[path] = document
    state = {path: there.get(path) for path in cursormachine.reads(op)}
    return cursormachine.apply(op, state)


CURSOR = Cursor(schema_version=1, head="a" * 40, owed=("f-1", "f-3"))


@pytest.fixture
def lab(tmp_path):
    made_ = Lab(tmp_path / "flows")
    yield made_
    made_.repo.close()


@pytest.fixture
def store(lab):
    return CursorStore(lab.repo, NAME)


# ── documents ───────────────────────────────────────────────────────────────────────────────────


def test_the_bytes_of_a_cursor_and_of_a_receipt():
    cursor = CURSOR.replace(hold=Lease(by="w1", until=LATER, notices=(intent(),)))
    assert (
        codec.encode(cursor).decode()
        == """\
{
  "schema_version": 1,
  "head": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "owed": [
    "f-1",
    "f-3"
  ],
  "hold": {
    "by": "w1",
    "until": "2026-09-06T10:05:00Z",
    "notices": [
      {
        "flow": "f-1",
        "kind": "status",
        "revision": 1,
        "at": "2026-09-06T10:00:00Z"
      }
    ]
  }
}
"""
    )
    receipt = run(ack())[receipt_path("f-1")]
    assert json.loads(codec.encode(receipt)) == {
        "schema_version": 1, "revision": 1, "message": "m1", "digest": DIGEST, "sent_at": AT,
    }  # fmt: skip
    assert len(codec.encode(receipt)) < 400


@pytest.mark.parametrize("cls", [Cursor, Delivery, Acknowledged])
@given(data=st.data())
def test_documents_come_back_from_their_bytes(cls, data):
    value = data.draw(values(cls))
    assert codec.decode(cls, codec.encode(value)) == value


def test_each_class_is_found_where_it_is_declared():
    """Two modules may have a class of one name, as the ops and the documents have."""
    assert codec.fields(Hold)["notices"].nested is Intent
    assert codec.fields(Cursor)["hold"].nested is Lease
    assert codec.fields(Skip)["ended"].nested is Acknowledged
    assert codec.fields(Advance)["budget"].nested is Budget


# ── operations ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-41")
def test_an_acknowledgement_never_moves_back():
    first = run(ack(revision=5))[receipt_path("f-1")]
    again = run(ack(revision=4, message="m2"), first)[receipt_path("f-1")]
    assert (again.revision, again.message) == (5, "m2")


def test_what_was_acknowledged_is_already_so():
    op = ack("final", revision=3)
    state = run(op)
    assert cursormachine.apply(op, state) is state


def test_an_end_leaves_the_status_message_owed():
    receipt = run(ack(revision=2))[receipt_path("f-1")]
    ended = run(ack("final", revision=3, message="m2"), receipt)[receipt_path("f-1")]
    assert (ended.revision, ended.terminal_revision) == (2, 3)
    assert (ended.message, ended.notice) == ("m1", "m2")


def test_without_a_status_message_an_end_is_all():
    ended = run(ack("final", revision=3))[receipt_path("f-1")]
    assert (ended.revision, ended.terminal_revision, ended.message) == (3, 3, None)


def test_a_channel_that_cannot_edit_keeps_no_status_message():
    receipt = run(ack(revision=2, edits=False))[receipt_path("f-1")]
    assert (receipt.revision, receipt.message, receipt.sent_at) == (2, None, AT)


def test_an_entry_into_waiting_is_kept_until_the_flow_goes_on():
    receipt = run(ack("waiting", since=AT))[receipt_path("f-1")]
    assert receipt.waiting_since == AT
    still = run(ack(revision=2, since=AT), receipt)[receipt_path("f-1")]
    assert still.waiting_since == AT
    assert run(ack(revision=3), still)[receipt_path("f-1")].waiting_since is None


def test_a_receipt_of_an_earlier_generation_counts_for_nothing():
    old = run(ack("final", revision=9))[receipt_path("f-1")]
    fresh = run(ack(revision=2, generation=1, message="m7"), old)[receipt_path("f-1")]
    assert (fresh.revision, fresh.terminal_revision, fresh.generation) == (2, None, 1)


def park(**fields):
    about = {"flow": "f-1", "revision": 2, "kind": "final", "reason": "locked", "next": LATER}
    return made(Park, **about | fields)


def test_parking_counts_its_tries_and_an_arrival_ends_it():
    first = run(park())[receipt_path("f-1")]
    second = run(park(at=LATER, reason="still locked"), first)[receipt_path("f-1")]
    assert (second.parked.tries, second.parked.since) == (2, AT)
    assert second.parked.reason == "still locked"
    assert run(ack("final", revision=2), second)[receipt_path("f-1")].parked is None


def test_a_status_message_that_was_removed_twice_is_muted():
    receipt = run(ack(replaced=True), run(ack())[receipt_path("f-1")])[receipt_path("f-1")]
    assert receipt.gone == 1
    muted = run(made(Mute, flow="f-1", revision=2), receipt)[receipt_path("f-1")]
    assert (muted.gone, muted.message) == (MUTED, None)


@pytest.mark.parametrize(
    ("now_", "skew", "stands"),
    [
        (AT, 0, True),
        ("2026-09-06T10:04:59Z", 0, True),
        (LATER, 0, False),
        (LATER, 900, True),
        ("2026-09-06T10:19:59Z", 900, True),
        ("2026-09-06T10:20:00Z", 900, False),
        ("2025-09-06T10:00:00Z", 900, False),  # the clock was set back a year
        ("2026-09-06T09:59:59Z", 0, True),  # its holder read the clock a second later
        ("2026-09-06T09:55:00Z", 0, True),
        ("2026-09-06T09:54:59Z", 0, False),
        ("2026-09-06T09:50:00Z", 900, True),
    ],
)
def test_how_long_a_hold_stands(now_, skew, stands):
    assert held(Lease(by="w1", until=LATER), now_, skew) is stands


def test_a_hold_reaches_no_further_than_it_may():
    assert HOLD_S == 300
    assert not held(None, AT)


@pytest.mark.req("R-TF-46", "L14")
def test_one_watcher_holds_a_cursor():
    taken = run(hold(seen=digest_of(CURSOR)), CURSOR)[CURSOR_PATH]
    with pytest.raises(Stale) as refusal:
        run(hold("w2", seen=digest_of(taken)), taken)
    assert refusal.value.details["held_by"] == "w1"
    over = run(hold("w2", at=LATER, seen=digest_of(taken)), taken)[CURSOR_PATH]
    assert over.hold.by == "w2"


def test_a_hold_is_taken_on_what_was_seen():
    with pytest.raises(Stale) as refusal:
        run(hold(seen=digest_of(CURSOR.replace(owed=()))), CURSOR)
    assert "held_by" not in refusal.value.details


def test_a_hold_that_was_lost_is_not_renewed():
    taken = run(hold(seen=digest_of(CURSOR)), CURSOR)[CURSOR_PATH]
    assert run(hold(until="2026-09-06T10:07:00Z"), taken)[CURSOR_PATH].hold.until > LATER
    theirs = run(hold("w2", at=LATER, seen=digest_of(taken)), taken)[CURSOR_PATH]
    for late in (hold(at="2026-09-06T11:00:00Z"), made(Advance, holder="w1")):
        with pytest.raises(Stale) as refusal:
            run(late, theirs)
        assert refusal.value.details["held_by"] == "w2"


def test_advancing_gives_the_hold_back():
    taken = run(hold(notices=(intent(),), seen=digest_of(CURSOR)), CURSOR)[CURSOR_PATH]
    op = made(Advance, holder="w1", head="b" * 40, owe=("f-2",), settled=("f-1",), author_id="7")
    after = run(op, taken)[CURSOR_PATH]
    assert after == Cursor(schema_version=1, head="b" * 40, owed=("f-2", "f-3"), author_id="7")
    unsure = run(op.replace(notices=(intent(sought=AT),)), taken)[CURSOR_PATH]
    assert unsure.hold == Lease(by="w1", until=AT, notices=(intent(sought=AT),))
    assert not held(unsure.hold, AT)


def test_beginning_again_keeps_what_is_under_way():
    cursor = CURSOR.replace(acknowledged=2, budget=Budget(sent=3), author_id="7")
    state = run(made(Begin, chunks=2), cursor)
    after = state[CURSOR_PATH]
    assert (after.head, after.cutoff, after.acknowledged) == (None, None, 0)
    assert (after.owed, after.budget, after.author_id) == (CURSOR.owed, Budget(sent=3), "7")
    assert [state[acknowledged_path(n)] for n in range(2)] == [None, None]


def test_beginning_anew_forgets_all_but_the_author():
    cursor = CURSOR.replace(hold=Lease(by="w", until=AT), author_id="7", generation=4)
    after = run(made(Begin, anew=True, cutoff=AT), cursor)[CURSOR_PATH]
    assert after == Cursor(schema_version=1, cutoff=AT, generation=5, author_id="7")


def skip(number=0, **flows):
    return made(Skip, chunk=number, ended=Acknowledged(schema_version=1, flows=flows))


def test_what_is_skipped_is_listed():
    state = run(skip(0, f1=3), Cursor(schema_version=1))
    assert state[CURSOR_PATH].acknowledged == 1
    assert state[acknowledged_path(0)].flows == {"f1": 3}


@pytest.mark.parametrize("op", [skip(1), made(Begin, chunks=1)])
def test_two_who_begin_at_once_do_not_mix(op):
    with pytest.raises(Stale):
        run(op, CURSOR)


@pytest.mark.parametrize("op", [hold(seen=DIGEST), skip(), made(Advance, holder="w")])
def test_only_begin_may_be_the_first(op):
    with pytest.raises(Rejected):
        run(op)


@pytest.mark.parametrize("op", [ack(), hold(seen=DIGEST)])
def test_what_a_newer_version_wrote_is_not_written(op):
    newer = {"schema_version": 2, "colour": "red"}
    document = codec.from_json(Delivery if isinstance(op, Ack) else Cursor, newer)
    with pytest.raises(Rejected) as refusal:
        run(op, document)
    assert "upgrade" in refusal.value.hint


# ── commits ─────────────────────────────────────────────────────────────────────────────────────


def test_the_message_of_a_commit(lab, store):
    store.commit(made(Begin))
    store.commit(ack(revision=5, flow="flow-example-001"))
    text = git(lab.gitdir, "log", "-1", "--format=%B", REF)
    subject, _, trailers = text.partition("\n\n")
    assert subject == "team ack: flow-example-001 r5 status"
    assert [line.partition(":")[0] for line in trailers.splitlines()] == [
        "Channel", "Actor", "Gfs-Rules", "Gfs-Op",
    ]  # fmt: skip
    assert trailers.splitlines()[0] == "Channel: team"
    record = message.decode_message(text.encode(), {})
    assert record is not None
    assert (record.channel, record.flow, record.op) == (
        NAME, None, ack(revision=5, flow="flow-example-001"),
    )  # fmt: skip
    assert git(lab.gitdir, "log", "-1", "--format=%an|%cn", REF) == "watch|gitflowstate"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Channel: team\n", b"Channel: other\n"),
        (b"Channel: team\n", b""),
        (b"Channel: team\n", b"Channel: team\nFlow: f-1\nRevision: 1\nStatus: done\n"),
    ],
)
def test_trailers_that_do_not_agree_are_refused(lab, store, old, new):
    store.commit(made(Begin))
    text = lab.repo.commit(lab.repo.ref(REF)).message
    spoiled = text.replace(old, new)
    assert spoiled != text
    cursor = put(CURSOR_PATH, codec.to_json(store.load()))
    imported(lab.gitdir, cursor, text=spoiled, ref=REF, parents=())
    report = verify(lab.repo, lab.repo.ref(REF), NAME)
    assert report.problems or report.unmanaged


def everything(store):
    """Commit one op of each kind."""
    store.commit(made(Begin))
    store.commit(skip(0, **{f"f-{n}": n + 1 for n in range(500)}))
    seen = digest_of(store.load())
    store.commit(hold(notices=(intent(),), seen=seen))
    store.commit(ack())
    store.commit(park())
    store.commit(made(Mute, flow="f-1", revision=1))
    store.commit(made(Advance, holder="w1", head="b" * 40, owe=("f-1",)))


def test_every_commit_of_a_cursor_replays(lab, store):
    everything(store)
    head = lab.repo.ref(REF)
    report = verify(lab.repo, head, NAME)
    assert (report.commits, report.problems, report.unmanaged) == (len(UNION), [], [])
    tags = {message.decode_trailers(step.commit.message)["Gfs-Op"].split('"op":"')[1].split('"')[0]
            for step in history.steps(lab.repo, head, definition(NAME).governed)}  # fmt: skip
    assert tags == {op.TAG for op in UNION}
    fsck(lab.gitdir)


def test_a_long_list_is_not_in_the_message(lab, store):
    everything(store)
    body = git(lab.gitdir, "log", "--format=%B", "--grep=team skip", REF)
    assert "500 flows that had ended" in body
    assert len(body) < 1000
    assert len(store.acknowledged(1)) == 500


def test_the_audit_of_main_is_about_main(lab, store):
    lab.create()
    before = lab.verify()
    everything(store)
    assert lab.verify() == before


def test_an_op_belongs_on_its_own_ref(lab, store):
    """A commit that carries an operation of another family is reported, and raises nothing."""
    store.commit(made(Begin))
    ours = lab.repo.commit(lab.repo.ref(REF))
    lab.create()
    flow = lab.repo.commit(lab.head)
    wrong = imported(lab.gitdir, text=ours.message)
    (problem,) = history.verify(lab.repo, wrong).problems
    assert "begin is no operation on refs/heads/main" in problem["problem"]
    imported(lab.gitdir, text=flow.message, ref=REF, parents=(f"{REF}^0",))
    (problem,) = verify(lab.repo, lab.repo.ref(REF), NAME).problems
    assert f"create is no operation on {REF}" in problem["problem"]
    other = CursorStore(lab.repo, "other")
    other.commit(made(Begin, channel="other"))
    (problem,) = verify(lab.repo, lab.repo.ref("refs/gfs/cursors/other"), NAME).problems
    assert "begin is no operation on" in problem["problem"]


def test_the_audit_finds_a_document_that_no_operation_gave(lab, store):
    everything(store)
    forged = json.loads(codec.encode(store.delivery("f-1"))) | {"revision": 99}
    text = git(lab.gitdir, "log", "-1", "--grep=team mute", "--format=%B", REF).encode() + b"\n"
    imported(
        lab.gitdir, put(receipt_path("f-1"), forged), text=text, ref=REF, parents=(f"{REF}^0",)
    )
    (problem,) = verify(lab.repo, lab.repo.ref(REF), NAME).problems
    assert "does not account for" in problem["problem"]


def test_a_cursor_that_was_edited_by_hand_is_used_as_it_stands(lab, store):
    everything(store)
    edited = json.loads(codec.encode(store.delivery("f-1"))) | {"revision": 2, "gone": 0}
    imported(lab.gitdir, put(receipt_path("f-1"), edited), ref=REF, parents=(f"{REF}^0",))
    assert store.delivery("f-1").revision == 2
    store.commit(ack(revision=3, message="m9"))
    report = verify(lab.repo, lab.repo.ref(REF), NAME)
    assert (len(report.unmanaged), report.problems) == (1, [])


# ── what cannot be read ─────────────────────────────────────────────────────────────────────────


def test_there_is_no_cursor_before_the_first_pass(store):
    assert store.load() is None
    assert store.delivery("f-1") is None
    assert store.acknowledged(1) == {}
    assert store.problems == []


def test_a_document_that_does_not_decode_counts_as_absent_and_is_said(lab, store):
    everything(store)
    broken = [put(receipt_path("f-1"), {"schema_version": 1, "colour": "red"})]
    imported(lab.gitdir, *broken, ref=REF, parents=(f"{REF}^0",))
    assert store.delivery("f-1") is None
    assert store.delivery("f-1") is None
    (problem,) = store.problems
    assert receipt_path("f-1") in problem
    assert store.load() is not None
    store.commit(ack(revision=4))
    assert store.delivery("f-1").revision == 4
    report = verify(lab.repo, lab.repo.ref(REF), NAME)
    assert (len(report.unmanaged), report.problems) == (1, [])


def test_a_head_that_is_gone_is_followed_by_a_new_beginning(lab, store):
    everything(store)
    tip = lab.repo.ref(REF)
    (lab.gitdir / "objects" / tip[:2] / tip[2:]).unlink()
    assert store.load() is None
    assert store.problems
    store.commit(made(Begin))
    assert store.load() == Cursor(schema_version=1)
    report = verify(lab.repo, lab.repo.ref(REF), NAME)
    assert (report.commits, report.problems) == (1, [])


def test_a_tree_that_is_gone_is_followed_by_a_new_beginning(lab, store):
    everything(store)
    tree = git(lab.gitdir, "rev-parse", f"{REF}^{{tree}}")
    (lab.gitdir / "objects" / tree[:2] / tree[2:]).unlink()
    with Repository.open(lab.gitdir) as repo:
        again = CursorStore(repo, NAME)
        assert again.load() is None
        again.commit(made(Begin))
        assert again.load() == Cursor(schema_version=1)
        assert verify(repo, repo.ref(REF), NAME).problems == []


def test_a_ref_that_lies_is_kept_aside_and_begun_anew(lab, store):
    everything(store)
    (lab.gitdir / REF).write_text("nonsense\n")
    assert store.load() is None
    assert "does not hold a commit id" in store.problems[0]
    assert (lab.gitdir / REF).read_text() == "nonsense\n"
    store.commit(made(Begin))
    assert store.load() is not None
    [kept] = (lab.gitdir / "gfs/stale").iterdir()
    assert kept.read_text() == "nonsense\n"


@pytest.mark.parametrize("what", ["link", "folder", "empty folder"])
def test_what_is_no_file_in_the_place_of_a_ref_is_kept_aside(lab, store, what):
    path = lab.gitdir / REF
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        path.symlink_to(lab.folder)
    else:
        path.mkdir()
    if what == "folder":
        (path / "kept").write_text("mine")
    assert store.load() is None
    store.commit(made(Begin))
    assert store.load() is not None
    [kept] = (lab.gitdir / "gfs/stale").iterdir()
    assert kept.is_symlink() == (what == "link")
    assert what != "folder" or (kept / "kept").read_text() == "mine"


def test_a_ref_that_holds_something_else_is_said(lab, store):
    lab.create()
    (lab.gitdir / REF).parent.mkdir(parents=True, exist_ok=True)
    (lab.gitdir / REF).write_text(f"{lab.head}\n")
    assert store.load() is None
    assert store.problems == ["the ref of team holds no cursor: it begins anew"]


def test_a_cursor_with_lists_beyond_measure_is_none(lab, store):
    everything(store)
    cursor = {"schema_version": 1, "acknowledged": 2**53 - 1}
    imported(lab.gitdir, put(CURSOR_PATH, cursor), ref=REF, parents=(f"{REF}^0",))
    assert store.load() is None
    assert "acknowledged" in store.problems[0]
    store.commit(made(Begin))
    assert store.load() is not None


def test_flows_stay_unforgiving(lab):
    """Being expendable is a property of cursors: main's head that is gone stays Corrupt."""
    lab.create()
    (lab.gitdir / "objects" / lab.head[:2] / lab.head[2:]).unlink()
    with Repository.open(lab.gitdir, writing=True) as repo, pytest.raises(Corrupt):
        Store(repo).commit(lab_op())


def lab_op():
    from flowrepo import created

    return created("f-9")


def test_a_newer_rule_set_at_the_head_is_not_written_on(lab, store):
    everything(store)
    text = git(lab.gitdir, "log", "-1", "--format=%B", REF).replace("Gfs-Rules: 1", "Gfs-Rules: 2")
    imported(lab.gitdir, text=text.encode() + b"\n", ref=REF, parents=(f"{REF}^0",))
    with pytest.raises(Rejected):
        store.commit(ack(revision=4))
    assert store.delivery("f-1") is not None
