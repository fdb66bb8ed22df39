"""`gfs run`: a start that does not come about, or is interrupted, and what it finds around it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from clirun import SCRIPT
from gitrepo import child, code_of
from processbench import CALL, ID, record
from runlab import eventually

from gitflowstate import processes, runfiles
from gitflowstate.adapters.process import Supervised
from gitflowstate.cli.launch import Launch

pytestmark = pytest.mark.usefixtures("on_paper")

RAN = ("--", "sh", "-c", "echo ran >> ran")


# ── what is never started ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_a_start_that_the_disk_refuses_has_failed_and_says_so(here):
    in_the_way = here.gitdir / runfiles.RUNS
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file")
    done = here.run(*CALL, "--json", *RAN)
    told = done.error
    assert done.code == 1
    assert told["message"].startswith(f"{ID} was not started: cannot make ")
    assert "Nothing was changed" not in told["hint"]
    assert (record(here)["state"], "started_at" in record(here)) == ("failed", False)
    assert record(here)["reason"].startswith("it was not started: ")
    in_the_way.unlink()
    assert here.run(*CALL, *RAN).code == 1  # the same record, and nothing runs
    assert not Path("ran").exists()
    assert here.run("run", "--session", "s", "--call-id", "d", *RAN).code == 0


@pytest.mark.req("R-TJ-02", "R-TJ-21")
def test_a_start_for_which_there_are_too_few_descriptors_is_none_and_may_be_repeated(here):
    limited = f'ulimit -n 12; exec {SCRIPT} "$@"'
    done = subprocess.run(
        ["sh", "-c", limited, "sh", *CALL, *RAN], capture_output=True, check=False
    )
    assert done.returncode == 75
    assert ID not in here.run("ps", "--all").out
    assert not Path("ran").exists()
    assert here.run(*CALL, *RAN).code == 0
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
            done = here.run(*CALL, *RAN)
            Path("said").write_text(done.err)
            os._exit(done.code)

        assert code_of(child(client)) == (143 if isinstance(error, SystemExit) else 130)
    said = Path("said").read_text()
    if step == "_has_taken":
        assert ID not in said
        assert here.run(*CALL, *RAN).code == 0
    elif step in ("_intended", "_request"):
        assert f"; {ID} is failed\n" in said
        assert here.run(*CALL, *RAN).code == 1
    else:
        assert f"gfs cancel {ID}" in said
        assert here.run(*CALL, *RAN).code == 0
    assert Path("ran").exists() == (step not in ("_intended", "_request"))


def test_an_end_whose_repository_has_gone_is_told_all_the_same(here):
    done = here.run(*CALL, "--", "sh", "-c", f"rm -r {here.folder}; exit 7")
    assert done.code == 5
    assert f"{ID}: its end is not recorded yet (failed, exit code 7)" in done.err
    assert "its repository has gone" in done.err


# ── what is around it ───────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TJ-01")
@pytest.mark.parametrize("path", ["", ".", "here"])
def test_a_supervisor_imports_nothing_from_the_folder_of_its_command(here, tmp_path, path):
    there = tmp_path / "there"
    there.mkdir()
    words = [sys.executable, "-m", "gitflowstate", *CALL, "--detach", "--"]
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
