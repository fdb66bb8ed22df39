"""The crash sweep of the lesson: every cell of its table, in real processes and a real kill -9.

The plain suite runs the crashes after two tasks, which is the lesson's own example, and one smooth
run; the whole table is one of the long matrices.
"""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from types import ModuleType

import pytest
from gitrepo import git

from gitflowstate.model import flow_path

SWEEP = Path(__file__).parents[1] / "examples/crash-sweep/sweep.py"
ORDER = ["t1", "t2", "t3", "t4", "t5"]
POINTS = range(5)
EXAMPLE = 2  # the crash that the lesson tells in full


@pytest.fixture(scope="session")
def sweep() -> ModuleType:
    """Return the example, as a module."""
    spec = importlib.util.spec_from_file_location("sweep", SWEEP)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def points(*shown: int) -> list[object]:
    """Return every crash point; those that are not shown are long."""
    return [k if k in shown else pytest.param(k, marks=pytest.mark.long) for k in POINTS]


@pytest.mark.req("R-TS-14", "R-TS-15")
@pytest.mark.parametrize("kind", ["disk", pytest.param("memory", marks=pytest.mark.long)])
def test_a_smooth_run_is_the_same_with_every_store(sweep, kind):
    """The same program, the same order, the same cost."""
    cell = sweep.cell(kind)
    assert (str(cell), cell.order) == ("5 + 0", ORDER)
    assert (cell.counts["save"], cell.counts["load"], cell.counts["decompose"]) == (6, 1, 1)


@pytest.mark.req("R-TS-02", "R-TS-07", "R-TS-10", "R-TS-11", "R-TS-12")
@pytest.mark.parametrize("k", points(EXAMPLE))
def test_on_disk_only_the_task_in_flight_is_lost(sweep, k):
    cell = sweep.cell("disk", survives=k)
    assert str(cell) == "5 + 1"
    assert cell.order == [*ORDER[:k], f"{ORDER[k]}!", *ORDER[k:]]
    assert (cell.counts["save"], cell.counts["load"], cell.counts["decompose"]) == (6, 2, 1)
    assert k != EXAMPLE or " ".join(cell.order) == "t1 t2 t3! t3 t4 t5"


@pytest.mark.req("R-TS-13", "R-TS-26")
@pytest.mark.parametrize("k", points(EXAMPLE))
def test_in_memory_every_completed_task_runs_again_and_the_plan_is_made_again(sweep, k):
    cell = sweep.cell("memory", survives=k)
    assert str(cell) == f"{5 + k} + 1"
    assert cell.order == [*ORDER[:k], f"{ORDER[k]}!", *ORDER]
    assert (cell.counts["load"], cell.counts["decompose"]) == (2, 2)
    assert k != EXAMPLE or " ".join(cell.order) == "t1 t2 t3! t1 t2 t3 t4 t5"


@pytest.mark.req("R-TS-24")
@pytest.mark.parametrize("k", points(EXAMPLE))
def test_a_plan_that_is_saved_once_does_not_save_the_work(sweep, k):
    """Persisting only the plan is not enough."""
    cell = sweep.cell("plan-once", survives=k)
    assert str(cell) == f"{5 + k} + 1"
    assert cell.order == [*ORDER[:k], f"{ORDER[k]}!", *ORDER]
    assert cell.counts["decompose"] == 1


@pytest.mark.req("R-TS-16", "C-04")
@pytest.mark.parametrize("k", points(EXAMPLE))
def test_a_crash_between_an_execution_and_its_save_runs_one_completed_task_twice(sweep, k):
    """Atomic writes do not close this gap: `on_interrupt: hold` is for tasks that mind."""
    cell = sweep.cell("disk", dies_before=k + 1)
    assert str(cell) == "6 + 0"
    assert cell.order == [*ORDER[: k + 1], *ORDER[k:]]
    assert (cell.counts["save"], cell.counts["load"], cell.counts["decompose"]) == (6, 2, 1)


@pytest.mark.long
def test_the_table_that_the_example_prints_is_the_one_of_the_lesson(sweep):
    assert sweep.table() == [
        ["none", "5 + 0", "5 + 0", "5 + 0", "-"],
        ["0", "5 + 1", "5 + 1", "5 + 1", "t1"],
        ["1", "5 + 1", "6 + 1", "6 + 1", "t2"],
        ["2", "5 + 1", "7 + 1", "7 + 1", "t3"],
        ["3", "5 + 1", "8 + 1", "8 + 1", "t4"],
        ["4", "5 + 1", "9 + 1", "9 + 1", "t5"],
        *[[f"save {k}", "6 + 0", "", "", f"t{k}"] for k in range(1, 6)],
    ]


@pytest.mark.req("R-TS-02", "R-TS-03", "R-TS-08")
@pytest.mark.parametrize("k", points(EXAMPLE))
def test_what_is_on_disk_after_the_crash(sweep, tmp_path, k):
    """The whole plan; what is completed is done, and the task in flight is pending."""
    assert sweep._child("disk", tmp_path, k, sweep.NEVER) == -signal.SIGKILL
    tasks = json.loads(git(tmp_path / "flows", "show", f"main:{flow_path('lesson')}"))["children"]
    assert {task["id"]: tuple(task.get("deps", ())) for task in tasks} == sweep.EDGES
    assert [task["status"] for task in tasks] == ["done"] * k + ["pending"] * (5 - k)
    assert [task["id"] for task in tasks if "claim" in task] == [ORDER[k]]
