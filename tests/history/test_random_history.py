"""A random history keeps every promise, and the judge sees what breaks one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import clirun
import drive
import judge
import pytest
import tasksjudge
from chronicle import Trace
from flowrepo import Change, imported

HERE = Path(__file__).parent


def history(folder, seconds, seed):
    """Run one history in a fresh interpreter, as from the command line."""
    command = [sys.executable, HERE, f"--seconds={seconds}", f"--seed={seed}"]
    return subprocess.run(
        [*command, f"--folder={folder}"],
        env=os.environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds * 4 + 90,
    )


@pytest.mark.req("C7", "R-TF-14", "R-TF-44")
@pytest.mark.timeout(150)
def test_c7_a_short_history_keeps_every_promise(tmp_path):
    seed = int.from_bytes(os.urandom(2))
    done = history(tmp_path / "history", 3, seed)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.req("C7")
@pytest.mark.timeout(400)
def test_c7_a_long_history_keeps_every_promise(tmp_path):
    seed = int.from_bytes(os.urandom(2))
    done = history(tmp_path / "history", 20, seed)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


# ── the judge ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def past(tmp_path):
    """Return a true trace of one flow with two tasks, and what its writers were told."""
    cli = clirun.made(tmp_path / "flows")
    plan = b'[{"id":"t1","goal":"g"},{"id":"t2","goal":"g","deps":["t1"]}]'
    told = []

    def run(*words, **given):
        data = cli.json(*words, **given)
        moment = float(len(told))
        times = {"begun": moment + 0.1, "ended": moment + 0.9}
        told.append({"by": "ann", "words": [*words], "data": data, **times})
        return data

    run("create", "Goal", "--id", "f", "--next", "n", "--plan", "-", stdin=plan)
    attempt = run("task", "claim", "f", "--next")["attempt"]
    run("task", "done", "f", "t1", "--attempt", str(attempt), "--result", "r", "--key", "k")
    run("note", "f", "words")
    run("task", "claim", "f", "--next")
    run("show", "f")
    return Trace(cli.gitdir), told


def replaced(trace, place, **fields):
    """Change one step of a trace, its op included."""
    step = trace.steps[place]
    op = step.op | fields.pop("op", {})
    trace.steps[place] = step._replace(op=op, **fields)


def found(trace, told):
    """Return the names of the promises that are broken."""
    told = sorted(told, key=lambda each: each["ended"])
    both = (judge.rising, judge.acknowledged, judge.in_real_time, judge.once_for_each_key)
    broken = {each.__name__ for each in (*both, judge.notes_kept) if [*each(trace, told)]}
    alone = (tasksjudge.one_holder, tasksjudge.dependencies, tasksjudge.settled_by_holder)
    return broken | {each.__name__ for each in alone if [*each(trace)]}


def test_what_is_true_breaks_nothing(past):
    assert found(*past) == set()


def _undone(step):
    """Return the document before a step, with its first task as if it had no end."""
    first, *rest = step.before["children"]
    kept = {name: first[name] for name in ("id", "goal")} | {"status": "pending"}
    return {**step.before, "children": [kept, *rest]}


@pytest.mark.parametrize(
    ("lie", "broken"),
    [
        (lambda _, told: told[3]["data"].update(commit="0" * 40), {"acknowledged"}),
        (lambda _, told: told[3]["data"].update(revision=9), {"acknowledged"}),
        (lambda _, told: told[3].update(begun=9.0, ended=9.5), {"in_real_time"}),
        (lambda _, told: told[5]["data"]["flow"].update(revision=2), {"in_real_time"}),
        (lambda _, told: told[3]["words"].__setitem__(2, "others"), {"notes_kept"}),
        (lambda t, _: t.steps.pop(2), {"rising"}),
        (lambda t, _: replaced(t, 3, op={"key": t.steps[2].op["key"]}), {"once_for_each_key"}),
        (lambda t, _: replaced(t, 4, before=_undone(t.steps[4])), {"dependencies"}),
        (
            lambda t, _: replaced(t, 1, before=t.steps[1].after),
            {"one_holder"},
        ),
        (lambda t, _: replaced(t, 2, op={"attempt": 1}), {"settled_by_holder"}),
    ],
)
def test_what_is_not_true_is_seen(past, lie, broken):
    trace, told = past
    lie(trace, told)
    assert found(trace, told) == broken


@pytest.fixture
def watched(tmp_path):
    """Return what `judge.watched` needs: a history with one end, which a watcher has told."""
    made = drive.History(tmp_path, 1, 0)
    imported(made.cli.gitdir, Change("gfs.toml", drive.SETTINGS), text=b"settings\n")
    made.cli("create", "Goal", "--id", "f", "--next", "n")
    made.cli("watch", "file", "--once")
    made.cli("done", "f", "--result", "r")
    made.last = made.cli.run("watch", "file", "--once", "--json").data
    return made


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (lambda text: text, ""),
        (lambda text: text.replace("kind=final", "kind=status"), "was never told"),
        (lambda text: text + text, "was told 2 times"),
        (lambda text: text.replace("final rev=2", "final rev=1"), "where it had none"),
    ],
)
def test_an_end_that_was_not_told_once_is_seen(watched, lie, says):
    board = watched.cli.folder / "board.md"
    board.write_text(lie(board.read_text()))
    broken = [*judge.watched(watched, Trace(watched.cli.gitdir))]
    assert any(says in each for each in broken) if says else broken == []
