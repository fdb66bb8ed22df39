"""Captured output: the first part, the last part, how much; and what a disk does to it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from unittest.mock import patch

import pytest
from gitrepo import child, code_of
from hypothesis import given
from hypothesis import strategies as st
from runlab import ID, SHELL, Run, ended

from gitflowstate import capture as module
from gitflowstate import outputs, runfiles
from gitflowstate.capture import LAZY_S, SEGMENT, Capture

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path) -> Path:
    made = Path(runfiles.run_folder(tmp_path, ID))
    made.mkdir(parents=True)
    return made


def kept(tmp_path) -> bytes:
    return b"".join(piece.data for piece in outputs.pieces(tmp_path, ID))


def pattern(size: int, offset: int = 0) -> bytes:
    """Return bytes that say where in the whole they are."""
    first = offset // 8
    return b"".join(b"%07d\n" % n for n in range(first, (offset + size) // 8 + 1))[offset % 8 :][
        :size
    ]


def test_what_fits_is_kept_whole(tmp_path, folder):
    capture = Capture(str(folder))
    data = pattern(SEGMENT + 100)
    for start in range(0, len(data), 50_000):
        capture.take(data[start : start + 50_000], start / 1e6)
    capture.flush(9.0)
    capture.close()
    assert kept(tmp_path) == data
    assert (capture.total, capture.truncated, capture.problem) == (len(data), False, "")


SMALL = 1 << 16
CHUNK = SMALL // 16


@pytest.mark.req("J7", "X-36")
@given(st.lists(st.tuples(st.integers(1, SMALL), st.booleans()), max_size=12))
def test_of_a_torrent_both_ends_are_kept_and_every_byte_is_where_it_says(tmp_path_factory, steps):
    tmp_path = tmp_path_factory.mktemp("torrent")
    folder = Path(runfiles.run_folder(tmp_path, ID))
    folder.mkdir(parents=True)
    with patch.multiple(module, SEGMENT=SMALL, _EAGER=CHUNK):
        capture, now, total = Capture(str(folder)), 0.0, 0
        for size, late in steps:
            now += LAZY_S if late else 0
            for at in range(0, size, CHUNK):
                capture.take(pattern(min(CHUNK, size - at), total + at), now)
            total += size
        capture.flush(now)
        capture.close()
    found = [*outputs.pieces(tmp_path, ID)]
    assert all(piece.data == pattern(len(piece.data), piece.offset) for piece in found)
    assert (capture.total, outputs.kept(tmp_path, ID).total) == (total, total)
    size = sum(len(piece.data) for piece in found)
    assert capture.truncated == (size < total)
    assert size >= min(total, 2 * SMALL - CHUNK)
    assert size <= 4 * SMALL
    assert not found or found[0].offset == 0


def test_a_reader_begins_anywhere(tmp_path, folder):
    capture = Capture(str(folder))
    for number in range(3):
        capture.take(pattern(SEGMENT, number * SEGMENT), float(number))
    capture.flush(9.0)
    since = 2 * SEGMENT - 5
    data = b"".join(piece.data for piece in outputs.pieces(tmp_path, ID, since))
    assert data == pattern(3 * SEGMENT - since, since)
    assert outputs.tail(tmp_path, ID, 8) == pattern(8, 3 * SEGMENT - 8).decode()
    (folder / "output.odd").write_text("none of ours")
    assert outputs.kept(tmp_path, ID).total == 3 * SEGMENT
    assert outputs.kept(tmp_path, "p-none") == (0, None)


@pytest.mark.req("X-36")
def test_a_disk_that_takes_no_more_changes_nothing_for_the_process(tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        end, run = ended(tmp_path, *SHELL, "head -c 3000000 /dev/zero; echo last; exit 7")
        assert (end.state, end.exit_code, end.output_bytes) == ("failed", 7, 3_000_005)
        assert end.output_truncated
        assert end.reason == "its output is incomplete: File too large"
        assert len(run.out) == 3_000_005

    assert code_of(child(limited)) == 0
    assert len(kept(tmp_path)) >= MIB


def test_a_folder_that_has_gone_changes_nothing_for_the_process(tmp_path):
    run = Run(tmp_path, *SHELL, "cat fifo; echo more; exit 7")
    os.mkfifo(tmp_path / "fifo")
    run.go()
    outputs.expire(tmp_path, ID)
    (tmp_path / "fifo").write_text("x")
    run.folder.mkdir()
    end = run.end()
    assert (end.exit_code, end.output_bytes) == (7, 6)


@pytest.mark.req("J7")
def test_a_supervisor_stays_small_whatever_is_written(tmp_path):
    run = Run(tmp_path, "head", "-c", str(300 * MIB), "/dev/zero", passing=False).go()
    end = run.client.end(lambda _: True, lambda _: True)
    status = Path(f"/proc/{run.client.pid}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) * 1024 < 60 * MIB
    assert end.output_bytes == 300 * MIB
    run.end()
