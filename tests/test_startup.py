"""What a command does not do: import what it needs not, collect garbage, take itself apart.

Judged by what is in memory after a command has run, through the entry that is installed: libraries
that are imported inside functions do not show before. `tests/cli/test_cli_process.py` has the
verbs of a flow; here are those of tasks, and how the two kinds of verbs differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "asyncio",
    "dulwich.object_store",
    "dulwich.pack",
    "ghapi",
    "jsonschema",
    "psutil",
    "pydantic",
    "pydantic_core",
    "rich",
    "rfc8785",
    "sqlite3",
}
# What keeps one writer apart from another, and what is looked at before anything is written.
WRITERS = {"filelock", "gitflowstate.locks", "gitflowstate.secrets", "gitflowstate.view", "secrets"}
FULL = Path("/dev/full")
REPORT = """
import gc, json, os, sys
from gitflowstate import __main__ as entry

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

def leave(code):
    print(json.dumps([sorted(sys.modules), collections() - before, enabled]), flush=True)
    os._exit(code)

before, enabled = collections(), gc.isenabled()
entry._exit, sys.argv[0] = leave, "gfs"
entry.main()
"""
# What is registered for the exit runs, or not.
LEAVING = """
import atexit, gc, sys
from gitflowstate.__main__ import main
atexit.register(print, "taken apart")
sys.argv[0] = "gfs"
{}
main()
"""


def run(folder, *words, given=b""):
    """Run a command; return what it printed, the modules it had, how often garbage was sought."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *words],
        env=os.environ | {"GFS_REPO": str(folder)},
        input=given,
        capture_output=True,
        check=True,
    )
    *said, report = done.stdout.decode().splitlines()
    modules, collected, enabled = json.loads(report)
    assert enabled, "the switch is the entry's to throw"
    return "\n".join(said), set(modules), collected


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sealed_environment):
    place = tmp_path_factory.mktemp("startup") / "repo"
    tasks = [{"id": f"t{number}", "goal": "Read"} for number in range(1, 5)]
    assert "new flow repository" in run(place, "init", str(place))[0]
    run(place, "create", "Compare", "--id", "f-1")
    run(place, "plan", "f-1", "-", given=json.dumps({"tasks": tasks}).encode())
    run(place, "task", "claim", "f-1", "t1")
    return place


READING = [("show", "f-1"), ("show", "f-1", "--json"), ("list",), ("next", "f-1"), ("why", "f-1")]
WRITING = [
    ("update", "f-1", "--progress", "Half of it"),
    ("note", "f-1", "Seen"),
    ("task", "claim", "f-1", "--next"),
    ("task", "done", "f-1", "t1", "--result", "a.md"),
]


@pytest.mark.parametrize("words", [*READING, *WRITING], ids=" ".join)
def test_nothing_heavy_is_imported_and_no_garbage_is_sought(folder, words):
    said, modules, collected = run(folder, *words)
    assert said
    assert "gitflowstate.store" in modules
    assert not HEAVY & modules
    assert collected == 0


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reader_brings_nothing_that_only_writers_need(folder, words):
    assert not WRITERS & run(folder, *words)[1]


def test_a_writer_brings_all_of_it(folder):
    """So the names above are not misspelt."""
    modules = run(folder, "note", "f-1", "Seen again")[1]
    assert modules >= WRITERS


def left(folder, how, *words, stdout=subprocess.PIPE):
    """Run a command after some other statements; return its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVING.format(how), *words],
        env=os.environ | {"GFS_REPO": str(folder)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(("show", "f-1", "--path"), 0, "f-1.json"), (("show", "f-2", "--json"), 5, '"not-found"')],
)
def test_a_command_leaves_at_once_with_its_code_and_all_it_said(folder, words, code, said):
    status, out, _ = left(folder, "", *words)
    assert status == code
    assert said in out
    assert "taken apart" not in out


@pytest.mark.parametrize(
    "how",
    [
        "sys.setprofile(lambda *_: None)",
        "sys.settrace(lambda *_: None)",
        "gc.disable = lambda: None  # as if the verb had turned it on again",
    ],
)
def test_who_is_watched_or_stays_ends_as_any_program(folder, how):
    status, out, _ = left(folder, how, "show", "f-1", "--path")
    assert status == 0
    assert out.endswith("taken apart\n")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is full")
def test_an_answer_that_could_not_be_given_is_no_success(folder):
    with FULL.open("wb") as full:
        status, _, error = left(folder, "", "show", "f-1", "--path", stdout=full)
    assert status != 0
    assert "No space left" in error
