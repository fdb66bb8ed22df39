"""The outside facts of a run: actor, settings, clock, ids and arguments."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
import time_machine

from gitflowstate.cli import config, inputs
from gitflowstate.errors import Invalid, NotFound, Usage
from gitflowstate.kinds import KINDS

LIMIT = 4 * 2**20


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "_taken_by", [])
    monkeypatch.chdir(tmp_path)


# ── who ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_actor_is_as_then_actor_then_session_then_local(monkeypatch):
    assert config.actor() == "local"
    monkeypatch.setenv("GFS_SESSION", "session-7")
    assert config.actor() == "session-7"
    monkeypatch.setenv("GFS_ACTOR", "Zoë, architect")
    assert config.actor() == "Zoë, architect"
    assert config.actor("reviewer") == "reviewer"
    assert config.session() == "session-7"


def test_an_empty_variable_is_an_absent_one(monkeypatch):
    for name in ("GFS_ACTOR", "GFS_SESSION", "GFS_REPO", "GFS_TRUST", "GFS_LOCK_TIMEOUT"):
        monkeypatch.setenv(name, "")
    assert config.actor() == "local"
    assert config.session() is None
    assert config.trust() == frozenset()
    assert config.lock_timeout() == 10.0
    with pytest.raises(NotFound):
        config.find()


@pytest.mark.req("F7")
@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "a\rb", "a\n", "a\0b", "a\x1b[31m", "a\x85b", "a\u2028b", "x" * 129]
)
def test_an_actor_is_one_plain_line(monkeypatch, name):
    with pytest.raises(Invalid, match=r"^--as: must be one line"):
        config.actor(name)
    if name and "\0" not in name:
        monkeypatch.setenv("GFS_ACTOR", name)
        with pytest.raises(Invalid, match=r"^GFS_ACTOR: must be one line") as caught:
            config.actor()
        assert caught.value.hint.startswith("set GFS_ACTOR to ")
        monkeypatch.setenv("GFS_SESSION", name)
        with pytest.raises(Invalid, match=r"^GFS_SESSION: must be one line"):
            config.session()


@pytest.mark.req("E3")
def test_an_actor_that_is_not_utf8_is_named(monkeypatch):
    monkeypatch.setitem(os.environb, b"GFS_ACTOR", b"a\xff")
    with pytest.raises(Invalid, match=r"^GFS_ACTOR: .*not UTF-8"):
        config.actor()


# ── other settings ──────────────────────────────────────────────────────────────────────────────


def test_trust_is_a_list_of_absolute_paths(monkeypatch):
    monkeypatch.setenv("GFS_TRUST", f"/srv/a/{os.pathsep}/srv/b/../c{os.pathsep}")
    assert config.trust() == {"/srv/a", "/srv/c"}


def test_trust_in_a_relative_path_is_refused(monkeypatch):
    monkeypatch.setenv("GFS_TRUST", f"/srv/a{os.pathsep}flows")
    with pytest.raises(Usage, match="GFS_TRUST: flows is not an absolute path"):
        config.trust()


@pytest.mark.parametrize(("value", "seconds"), [("0", 0.0), ("2.5", 2.5), ("86400", 86400.0)])
def test_the_lock_timeout_is_in_seconds(monkeypatch, value, seconds):
    monkeypatch.setenv("GFS_LOCK_TIMEOUT", value)
    assert config.lock_timeout() == seconds


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan", "86401", "1 s"])
def test_a_lock_timeout_that_would_not_end_is_refused(monkeypatch, value):
    monkeypatch.setenv("GFS_LOCK_TIMEOUT", value)
    with pytest.raises(Usage, match="GFS_LOCK_TIMEOUT") as caught:
        config.lock_timeout()
    assert caught.value.hint == "set GFS_LOCK_TIMEOUT to seconds, such as 10, or unset it"


def test_debugging_is_asked_for_by_one(monkeypatch):
    assert not config.debug()
    monkeypatch.setenv("GFS_DEBUG", "1")
    assert config.debug()


# ── clock and chance ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-04", "L20", "B9")
@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 9, 6, 10, 0, 0, 999_999, tzinfo=UTC), "2026-09-06T10:00:00Z"),
        (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "2026-03-29T01:30:00Z"),  # no such local hour
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00Z"),
        (datetime(2040, 2, 29, tzinfo=UTC), "2040-02-29T00:00:00Z"),
    ],
)
def test_now_is_utc_in_whole_seconds_in_any_zone(monkeypatch, moment, written):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    with time_machine.travel(moment, tick=False):
        assert config.now() == written
    assert KINDS["Time"].accepts(written)


def test_minted_ids_obey_the_rule_and_differ():
    minted = {config.mint_flow_id() for _ in range(500)}
    assert len(minted) > 490  # of 2^30
    assert all(re.fullmatch("f-[0-9a-hjkmnp-tv-z]{6}", flow) for flow in minted)
    assert all(KINDS["Id"].accepts(flow) for flow in minted)
    assert set("".join(minted)[2:]) >= set("0123456789abcdefghjkmnpqrstvwxyz")
    assert re.fullmatch("f-[0-9a-hjkmnp-tv-z]{8}", config.mint_flow_id(8))


# ── text and files ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def standard_input(monkeypatch):
    def holds(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return holds


@pytest.mark.parametrize("value", ["", "plain", "-\n", "--", "two\nlines\n", "日本語 🎉"])
def test_a_text_argument_is_taken_as_it_is(value):
    assert inputs.text(value, "--goal") == value


def test_no_argument_is_no_text():
    assert inputs.text(None, "--goal") is None


@pytest.mark.parametrize(
    ("given", "read"), [(b"a\n", "a"), (b"a\n\n", "a\n"), (b"a", "a"), (b"\n", ""), (b"", "")]
)
def test_a_dash_is_standard_input_without_one_final_newline(standard_input, given, read):
    standard_input(given)
    assert inputs.text("-", "--goal") == read


def test_standard_input_is_read_for_one_argument_alone(standard_input):
    standard_input(b"the goal\n")
    inputs.text("-", "GOAL")
    with pytest.raises(Usage, match=r"^--next: standard input was read for GOAL"):
        inputs.text("-", "--next")


def test_nothing_but_a_dash_reads_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert inputs.text("x", "--goal") == "x"
    with pytest.raises(Usage, match="standard input is closed"):
        inputs.text("-", "--goal")


@pytest.mark.req("E7")
def test_more_than_4_mib_of_standard_input_is_refused(standard_input):
    standard_input(b"x" * (LIMIT + 1))
    with pytest.raises(Invalid, match=r"^--goal: has more than 4,194,304 bytes"):
        inputs.text("-", "--goal")


@pytest.mark.req("E7")
def test_4_mib_of_standard_input_are_read(standard_input):
    standard_input(b"x" * LIMIT)
    assert len(inputs.text("-", "--goal")) == LIMIT


@pytest.mark.req("E3")
def test_standard_input_that_is_not_utf8_is_refused(standard_input):
    standard_input(b"abc\xff")
    with pytest.raises(Invalid, match=r"^--goal: byte 3 of standard input is not UTF-8"):
        inputs.text("-", "--goal")


@pytest.mark.req("E3")
@pytest.mark.parametrize("value", ["a\udcff", "\ud800"])
def test_an_argument_that_is_not_utf8_is_refused_by_name(value):
    with pytest.raises(Invalid, match=r"^--goal: character . is not UTF-8"):
        inputs.text(value, "--goal")


@pytest.mark.req("L25")
def test_utf8_arrives_whole_under_the_c_locale():
    program = "import sys; from gitflowstate.cli import inputs; "
    program += "sys.stdout.buffer.write(inputs.text(sys.argv[1], '--goal').encode())"
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", program, "größer 🎉".encode()]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == "größer 🎉"


def test_a_file_argument_is_its_bytes(tmp_path):
    (tmp_path / "plan.json").write_bytes(b'{"a": 1}\xff\n')
    assert inputs.read_file("plan.json", "FILE") == b'{"a": 1}\xff\n'


def test_a_file_argument_may_be_a_pipe_or_standard_input(tmp_path, standard_input):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"from a pipe",))
    writer.start()
    assert inputs.read_file(str(pipe), "FILE") == b"from a pipe"
    writer.join()
    standard_input(b"from outside\n")
    assert inputs.read_file("-", "FILE") == b"from outside\n"


@pytest.mark.parametrize("path", ["missing.json", ".", "", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_named(path):
    with pytest.raises(Usage, match=r"^FILE: cannot read"):
        inputs.read_file(path, "FILE")


@pytest.mark.req("E7")
def test_a_file_is_read_no_further_than_4_mib(tmp_path):
    with (tmp_path / "big").open("wb") as file:
        file.truncate(1 << 40)  # sparse: reading it all would never end
    with pytest.raises(Invalid, match=r"^--data: has more than"):
        inputs.read_file("big", "--data")
