"""The lock of a process and the record of its end: whole or absent, and what each proves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from gitrepo import become_nobody, child, code_of, let_others_in
from hypothesis import given
from hypothesis import strategies as st
from runlab import ID

from gitflowstate import runfiles, runlocks
from gitflowstate.runfiles import Exit

words = st.text(st.characters(codec="utf-8"), max_size=30)
ends = st.builds(
    Exit,
    st.sampled_from(["completed", "failed", "cancelled", "timed_out"]),
    st.just("2026-09-06T10:00:00Z"),
    pid=st.none() | st.integers(0, 2**40),
    ticks=st.none() | st.integers(0, 2**53 - 1),
    started_at=st.none() | st.just("2026-09-06T09:00:00Z"),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    sent=st.sampled_from([(), ("SIGTERM",), ("SIGTERM", "SIGKILL")]),
    reason=st.none() | words,
    output_bytes=st.integers(0, 2**53 - 1),
    output_truncated=st.booleans(),
)


@given(ends)
def test_a_record_says_what_was_written(end):
    again = runfiles.parsed(end.text())
    folded = None if end.reason is None else " ".join(end.reason.split())
    assert again.__dict__ == {**end.__dict__, "reason": folded}
    assert again.text() == end.text()


@given(ends, st.data())
def test_no_part_of_a_record_is_one(end, data):
    text = end.text()
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises((ValueError, KeyError)):
        runfiles.parsed(text[:cut])


@pytest.mark.parametrize(
    "text",
    ["", "x", "gitflowstate exit 1\nend\n", "gitflowstate exit 2\nstate failed\nend\n", "\0"],
)
def test_what_is_no_record_is_refused(tmp_path, text):
    folder = Path(runfiles.run_folder(tmp_path, ID))
    folder.mkdir(parents=True)
    (folder / "exit").write_text(text)
    with pytest.raises(ValueError, match=r"record|unpack"):
        runfiles.read_exit(tmp_path, ID)


@pytest.mark.req("F1")
@pytest.mark.parametrize(
    "changes",
    [
        {"state": "lost"},
        {"state": "odd"},
        {"finished_at": "yesterday"},
        {"finished_at": "2026-9-06T10:00:000Z"},
        {"started_at": "2026-13-06T10:00:00Z"},
        {"exit_code": "-1"},
        {"pid": "9007199254740992"},
        {"output_bytes": "٣"},
    ],
)
def test_a_record_with_a_value_that_none_has_is_refused(changes):
    told = {"state": "failed", "finished_at": "2026-09-06T10:00:00Z"} | changes
    end = Exit(told.pop("state"), told.pop("finished_at"), **told)
    with pytest.raises(ValueError, match=r"record|time data"):
        runfiles.parsed(end.text())


@pytest.mark.req("F1")
@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_no_record_and_holds_nobody(tmp_path, plant):
    folder = Path(runfiles.run_folder(tmp_path, ID))
    folder.mkdir(parents=True)
    plant(folder / "exit")
    with pytest.raises((OSError, ValueError), match=r"regular|symbolic"):
        runfiles.read_exit(tmp_path, ID)


@pytest.mark.req("R-TJ-17", "R-TJ-22")
def test_a_record_that_was_not_finished_is_absent(tmp_path):
    folder = Path(runfiles.run_folder(tmp_path, ID))
    folder.mkdir(parents=True)
    end = Exit("completed", "2026-09-06T10:00:00Z", exit_code=0)

    def dies():
        real = runfiles.os.fsync

        def kill(descriptor):
            real(descriptor)
            os.kill(os.getpid(), signal.SIGKILL)

        runfiles.os.fsync = kill
        runfiles.write_exit(str(folder), end)

    assert code_of(child(dies)) == -signal.SIGKILL
    assert runfiles.read_exit(tmp_path, ID) is None
    runfiles.write_exit(str(folder), end)
    assert runfiles.read_exit(tmp_path, ID).text() == end.text()


@pytest.mark.req("C-12")
def test_what_the_lock_proves(tmp_path):
    assert runfiles.fate(tmp_path, ID) is None
    path = runlocks.lock_path(tmp_path, ID)
    held = runlocks.hold(path)
    assert runfiles.fate(tmp_path, ID) is True
    assert runlocks.hold(path) == -1
    runlocks.forget(tmp_path, ID)
    assert runfiles.fate(tmp_path, ID) is True  # it is the holder's
    assert runlocks.left(tmp_path) == []
    os.close(held)
    assert runfiles.fate(tmp_path, ID) is False
    assert runlocks.left(tmp_path) == [ID]
    runlocks.forget(tmp_path, ID)
    runlocks.forget(tmp_path, ID)
    assert runfiles.fate(tmp_path, ID) is None


@pytest.mark.req("J12")
def test_a_lock_that_was_dropped_while_it_was_opened_is_taken_anew(tmp_path, monkeypatch):
    path = runlocks.lock_path(tmp_path, ID)
    os.close(runlocks.hold(path))
    real = runlocks.fcntl.flock

    def late(descriptor, how):
        monkeypatch.setattr(runlocks.fcntl, "flock", real)
        runlocks.forget(tmp_path, ID)  # by somebody else, just now
        real(descriptor, how)

    monkeypatch.setattr(runlocks.fcntl, "flock", late)
    held = runlocks.hold(path)
    assert os.path.samestat(os.fstat(held), Path(path).stat())
    assert runlocks.is_held(path)
    os.close(held)


def test_two_who_ask_at_once_do_not_take_each_other_for_the_holder(tmp_path):
    path = runlocks.lock_path(tmp_path, ID)
    os.close(runlocks.hold(path))
    asking = os.open(path, os.O_RDWR)
    runlocks.fcntl.flock(asking, runlocks.fcntl.LOCK_SH)
    assert runlocks.is_held(path) is False
    os.close(asking)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_a_lock_that_says_nothing_is_decided_by_itself(tmp_path, text):
    path = Path(runlocks.lock_path(tmp_path, ID))
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert runlocks.holder(tmp_path, ID) == {}
    assert runfiles.fate(tmp_path, ID) is False


def test_who_holds_a_lock_is_known_to_workers_too(tmp_path):
    from gitflowstate.workers import Workers

    held = runlocks.hold(runlocks.lock_path(tmp_path, ID))
    runlocks.write_holder(held, b'{"session": "s"')
    runlocks.write_holder(held, b'{"session": "\\u00fc", "host": "h"')
    told = runlocks.holder(tmp_path, ID)
    assert (told["session"], told["host"], told["pid"]) == ("ü", "h", os.getpid())
    assert not Workers(tmp_path).is_dead(ID)
    os.close(held)
    assert Workers(tmp_path).is_dead(ID)


def test_the_first_wish_to_cancel_stands(tmp_path):
    assert runfiles.cancellation(str(tmp_path)) is None
    runfiles.cancel(str(tmp_path), "cancelled by ann\nand more")
    runfiles.cancel(str(tmp_path), "cancelled by bob")
    assert runfiles.cancellation(str(tmp_path)) == "cancelled by ann and more"
    assert [path.name for path in tmp_path.iterdir()] == ["cancel"]


@pytest.mark.req("C-12")
def test_who_may_only_read_sees_who_holds_a_lock(tmp_path):
    let_others_in(tmp_path / "x")
    path = runlocks.lock_path(tmp_path, ID)
    held = runlocks.hold(path)
    Path(path).chmod(0o444)

    def others(expected):
        become_nobody()
        assert runlocks.is_held(path) is expected
        assert (runlocks.left(tmp_path) == [ID]) == (expected is False)

    assert code_of(child(lambda: others(True))) == 0
    os.close(held)
    assert code_of(child(lambda: others(False))) == 0
    Path(path).chmod(0)
    assert code_of(child(lambda: others(True))) == 0  # it proves no death
    assert runlocks.is_held(f"{path}/none") is None


@pytest.mark.req("R-TJ-12", "R-TJ-22")
def test_a_record_has_its_room_before_it_is_written(tmp_path):
    runfiles.reserve_exit(str(tmp_path))
    reserved = (tmp_path / "exit.new").stat()
    assert reserved.st_blocks * 512 >= 8192
    end = Exit("failed", "2026-09-06T10:00:00Z", exit_code=7, reason="x" * 4000)
    runfiles.write_exit(str(tmp_path), end)
    assert (tmp_path / "exit").stat().st_ino == reserved.st_ino
    assert (tmp_path / "exit").read_text() == end.text()
