"""`gfs run`: a start that does not come about, or is interrupted, and what it finds around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clirun import SCRIPT
from gitrepo import child, code_of
from runlab import eventually

from gitflowstate import processes, runfiles
from gitflowstate.adapters.process import Supervised
from gitflowstate.cli.launch import Launch
from gitflowstate.processmodel import process_id, process_path
from gitflowstate.syscalls import calls

C = ("run", "--session", "s", "--call-id", "c")
ID = process_id("s", "c")
RAN = ("--", "sh", "-c", "echo ran >> ran")


@pytest.fixture(autouse=True)
def _on_paper(monkeypatch):
    """Nothing here is about power cuts, and a disk takes its time."""
    monkeypatch.setattr(calls, "fsync", lambda _: None)


@pytest.fixture
def here(cli, tmp_path, monkeypatch):
    """Return the command line, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GFS_REPO", str(cli.folder))
    return cli


def record(cli) -> dict:
    """Return the document of the process, as C git reads it."""
    return json.loads(cli.git("show", f"main:{process_path('s', ID)}"))


# ── what is never started ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_a_start_that_the_disk_refuses_has_failed_and_says_so(here):
    in_the_way = here.gitdir / runfiles.RUNS
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file")
    done = here.run("run", "--json", *C[1:], *RAN)
    told = done.error
    assert done.code == 1
    assert told["message"].startswith(f"{ID} was not started: cannot make ")
    assert "Nothing was changed" not in told["hint"]
    assert (record(here)["state"], "started_at" in record(here)) == ("failed", False)
    assert record(here)["reason"].startswith("it was not started: ")
    in_the_way.unlink()
    assert here.run(*C, *RAN).code == 1  # the same record, and nothing runs
    assert not Path("ran").exists()
    assert here.run("run", "--session", "s", "--call-id", "d", *RAN).code == 0


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_a_start_for_which_there_are_too_few_descriptors_is_none_and_may_be_repeated(here):
    limited = f'ulimit -n 12; exec {SCRIPT} "$@"'
    done = subprocess.run(["sh", "-c", limited, "sh", *C, *RAN], capture_output=True, check=False)
    assert done.returncode == 75
    assert ID not in here.run("ps", "--all").out
    assert not Path("ran").exists()
    assert here.run(*C, *RAN).code == 0
    assert record(here)["state"] == "completed"


# ── what is interrupted ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("J11", "R-TJ-09")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)], ids=["INT", "TERM"])
@pytest.mark.parametrize("step", ["_has_taken", "_intended", "_request", "blocked", "started"])
def test_who_interrupts_a_start_is_told_what_became_of_it(here, monkeypatch, step, error):
    holder = {"blocked": Supervised, "started": processes}.get(step, Launch)
    real = getattr(holder, step)

    def interrupted(*given, **named):
        real(*given, **named)
        raise error

    with monkeypatch.context() as once:
        once.setattr(holder, step, interrupted)

        def client():  # whose end closes what it has of a supervisor
            done = here.run(*C, *RAN)
            Path("said").write_text(done.err)
            os._exit(done.code)

        assert code_of(child(client)) == (143 if isinstance(error, SystemExit) else 130)
    said = Path("said").read_text()
    if step == "_has_taken":
        assert ID not in said
        assert here.run(*C, *RAN).code == 0
    elif step in ("_intended", "_request"):
        assert f"; {ID} is failed\n" in said
        assert here.run(*C, *RAN).code == 1
    else:
        assert f"gfs cancel {ID}" in said
        assert here.run(*C, *RAN).code == 0
    assert Path("ran").exists() == (step not in ("_intended", "_request"))


def test_an_end_whose_repository_has_gone_is_told_all_the_same(here):
    done = here.run(*C, "--", "sh", "-c", f"rm -r {here.folder}; exit 7")
    assert done.code == 5
    assert f"{ID}: its end is not recorded yet (failed, exit code 7)" in done.err
    assert "its repository has gone" in done.err


# ── what is around it ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-01")
@pytest.mark.parametrize("path", ["", ".", "here"])
def test_a_supervisor_imports_nothing_from_the_folder_of_its_command(here, tmp_path, path):
    there = tmp_path / "there"
    there.mkdir()
    words = [sys.executable, "-m", "gitflowstate", *C, "--detach", "--"]
    script = (
        # what only a supervisor imports, once nobody else can do its work
        f"printf 'open({str(tmp_path / 'imported')!r}, \"w\")' > jsonschema.py; "
        "cp jsonschema.py difflib.py; mkdir gitflowstate; cp jsonschema.py gitflowstate/late.py; "
        "cp jsonschema.py gitflowstate/__init__.py; cp jsonschema.py struct.py; "
        "cp jsonschema.py dulwich.py; cp jsonschema.py socket.py; exit 7"
    )
    env = os.environ | {"PYTHONPATH": str(there) if path == "here" else path}
    subprocess.run([*words, "sh", "-c", script], cwd=there, env=env, check=True)
    eventually(lambda: record(here)["state"] != "running")
    assert record(here)["exit_code"] == 7
    assert not (tmp_path / "imported").exists()
