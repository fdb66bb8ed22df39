"""What a command does not do before it answers: import what it needs not, and collect garbage.

Judged by what is in memory after a command has run, through the entry that is installed: libraries
that are imported inside functions do not show before. `tests/cli/test_cli_process.py` has the
verbs of a flow; here are those of tasks, and how the two kinds of verbs differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
REPORT = """
import atexit, gc, json, sys
from gitflowstate.__main__ import main

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

before, enabled = collections(), gc.isenabled()
atexit.register(
    lambda: print(json.dumps([sorted(sys.modules), collections() - before, enabled]))
)
sys.argv[0] = "gfs"
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
