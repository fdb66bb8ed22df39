"""Hazards L1 to L3, L21, L23, L24, L26: tasks, many of them, what is only a copy, a new session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter

import clirun
import pytest
import time_machine
from aftermath import ageless
from clirun import FOUNDING, SCRIPT
from gitrepo import child, code_of
from scaling import scale

# ── L1 to L3: who may do what at the same time ──────────────────────────────────────────────────


def at_once(cli, *commands):
    """Run commands in processes that begin at once; return what each answered."""
    gate, opener = os.pipe()
    answers = [cli.folder.parent / f"answer-{number}" for number in range(len(commands))]

    def act(words, path):
        os.close(opener)
        os.read(gate, 1)
        path.write_text(json.dumps(cli.run(*words, "--json", env={"GFS_LOCK_TIMEOUT": "60"})))

    pids = [child(lambda each=each: act(*each)) for each in zip(commands, answers, strict=True)]
    os.close(gate)
    os.close(opener)
    assert [code_of(pid) for pid in pids] == [0] * len(commands)
    return [clirun.Result(*json.loads(path.read_text())) for path in answers]


def planned(cli, edges):
    tasks = [{"id": name, "goal": f"do {name}", "deps": deps} for name, deps in edges.items()]
    cli("plan", "plan", "-", stdin=json.dumps(tasks).encode())


@pytest.mark.req("L1", "C3")
@pytest.mark.parametrize("rounds", [1, pytest.param(scale(50), marks=pytest.mark.long)])
def test_l1_of_eight_callers_one_has_the_task_and_seven_are_told_who(flow, rounds):
    for round_ in range(rounds):
        flow("task", "add", "plan", "Do it", "--id", f"t{round_}")
        words = ("task", "claim", "plan", f"t{round_}")
        results = at_once(flow, *((*words, "--as", f"agent-{n}") for n in range(8)))
        assert Counter(result.code for result in results) == {0: 1, 4: 7}
        (won,) = (result.data for result in results if not result.code)
        assert {r.error["details"]["holder"] for r in results if r.code} == {won["worker"]}
        flow("task", "done", "plan", won["task"], "--result", "r", "--attempt", str(won["attempt"]))


@pytest.mark.req("L1", "C3")
@pytest.mark.parametrize("rounds", [1, pytest.param(scale(50), marks=pytest.mark.long)])
def test_l1_of_eight_callers_for_the_next_of_three_three_have_one_each(flow, rounds):
    for round_ in range(rounds):
        names = [f"t{round_}-{number}" for number in range(3)]
        for name in names:
            flow("task", "add", "plan", "Do it", "--id", name)
        results = at_once(flow, *([("task", "claim", "plan", "--next")] * 8))
        assert Counter(result.code for result in results) == {0: 3, 8: 5}
        won = [result.data for result in results if not result.code]
        assert sorted(each["task"] for each in won) == names
        for each in won:
            attempt = str(each["attempt"])
            flow("task", "done", "plan", each["task"], "--result", "r", "--attempt", attempt)


@pytest.mark.req("L2")
@pytest.mark.parametrize("rounds", [2, pytest.param(scale(200), marks=pytest.mark.long)])
def test_l2_two_fields_at_once_are_both_there_and_of_two_expectations_one_wins(flow, rounds):
    for round_ in range(rounds):
        before = flow.flow("plan")["revision"]
        both = (("--progress", f"p{round_}"), ("--next", f"n{round_}"))
        results = at_once(flow, *(("update", "plan", *each) for each in both))
        assert [result.code for result in results] == [0, 0]
        assert sorted(result.data["revision"] for result in results) == [before + 1, before + 2]
        found = flow.flow("plan")
        assert (found["progress"], found["next_action"]) == (f"p{round_}", f"n{round_}")
        expecting = ("--expect", str(before + 2))
        both = (("--progress", f"x{round_}"), ("--next", f"y{round_}"))
        results = at_once(flow, *(("update", "plan", *each, *expecting) for each in both))
        assert sorted(result.code for result in results) == [0, 4]
        assert flow.flow("plan")["revision"] == before + 3


@pytest.mark.req("L3")
def test_l3_a_holder_whose_claim_ran_out_is_refused_and_its_words_are_kept_as_a_note(cli):
    with time_machine.travel("2026-09-06T10:00:00Z", tick=False) as clock:
        cli("create", "Goal", "--id", "plan", "--next", "n")
        planned(cli, {"t1": []})
        first = cli.json("task", "claim", "plan", "t1", "--lease", "1m", "--as", "ann")
        clock.shift(61)
        second = cli.json("task", "claim", "plan", "t1", "--as", "bob")
        assert second["attempt"] > first["attempt"]
        late = ("plan", "t1", "--attempt", str(first["attempt"]), "--as", "ann")
        for words in (("done", *late, "--result", "out/late.md"), ("release", *late)):
            result = cli.run("task", *words, "--json")
            assert result.code == 4
            assert "is lost" in result.error["message"]
            claim = cli.flow("plan")["children"][0]["claim"]
            assert (claim["worker"], claim["attempt"]) == (second["worker"], second["attempt"])
        notes = [note["text"] for note in cli.flow("plan")["notes"]]
        assert len(notes) == 1
        assert "out/late.md" in notes[0]
        cli("task", "done", "plan", "t1", "--attempt", str(second["attempt"]), "--result", "r")


# ── L21: what is ready ──────────────────────────────────────────────────────────────────────────

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def ready(cli):
    return [task["id"] for task in cli.json("next", "plan")["ready"]]


@pytest.mark.req("L21", "R-TS-03")
def test_l21_a_diamond_opens_step_by_step_and_why_says_what_is_awaited(flow):
    planned(flow, DIAMOND)
    assert ready(flow) == ["a"]
    assert "a is pending" in flow("why", "plan", "b")
    flow("task", "done", "plan", "a", "--result", "r")
    assert ready(flow) == ["b", "c"]
    flow("task", "done", "plan", "b", "--result", "r")
    assert ready(flow) == ["c"]
    assert "c is pending" in flow("why", "plan", "d")
    flow("task", "fail", "plan", "c", "--reason", "broken")
    assert ready(flow) == []
    assert "c is failed" in flow("why", "plan", "d")
    flow("task", "add", "plan", "More", "--id", "e", "--dep", "b")
    assert ready(flow) == ["e"]
    flow("task", "retry", "plan", "c", "--reason", "again")
    assert ready(flow) == ["c", "e"]


@pytest.mark.req("L21", "E13")
@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ({"a": ["a"]}, "a"),
        ({"a": ["b"], "b": ["a"]}, "a"),
        ({"a": ["c"], "b": ["a"], "c": ["b"]}, "c"),
        ({"a": ["nobody"]}, "nobody"),
    ],
)
def test_l21_a_cycle_and_a_name_of_nobody_are_refused_and_named(flow, edges, said):
    tasks = [{"id": name, "goal": "g", "deps": deps} for name, deps in edges.items()]
    error = flow.refuses(3, "plan", "plan", "-", stdin=json.dumps(tasks).encode())
    assert said in error["message"]
    planned(flow, DIAMOND)
    assert "nobody" in flow.refuses(3, "task", "add", "plan", "G", "--dep", "nobody")["message"]


# ── L23: many ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def many(cli):
    """Return the command line on a repository with many flows of fifty tasks."""
    founding = json.loads(FOUNDING.read_text())
    task = {"goal": "g " * 40, "status": "pending", "deps": []}
    children = [{"id": f"t{number}"} | task for number in range(50)]
    flows = [founding | {"id": f"f{n:04}", "goal": "x " * 60, "children": children}
             for n in range(scale(70))]  # fmt: skip
    for start in range(0, len(flows), 50):
        cli("import", "-", stdin=json.dumps(flows[start : start + 50]).encode())
    return cli


@pytest.mark.req("L23")
def test_l23_what_is_printed_by_itself_stays_small_and_names_the_rest(many):
    for words in (("list",), ("brief",), ("board",), (), ("show", "f0001"), ("next", "f0001")):
        said = many.run(*words)
        assert said.code == 0
        assert len(said.out.encode()) < 20_000, words
    assert "--page 2" in many("list")
    assert len(many("brief", "--max-chars", "3000")) <= 3000
    shown = [flow["id"] for flow in many.json("list", "--page", "2")["flows"]]
    assert shown
    assert not {*shown} & {flow["id"] for flow in many.json("list")["flows"]}


# ── L24: what is only a copy ────────────────────────────────────────────────────────────────────

TRUTH = {"objects", "refs", "packed-refs", "HEAD", "config"}


def copies(cli):
    """Return every file that is not the repository itself."""
    within = [p for p in cli.gitdir.rglob("*") if p.relative_to(cli.gitdir).parts[0] not in TRUTH]
    beside = [p for p in cli.folder.rglob("*") if ".git" not in p.parts]
    return [path for path in within + beside if path.is_file() and not path.is_symlink()]


def _deleted(path):
    path.unlink(missing_ok=True)


def _zeroed(path):
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))


def _truncated(path):
    path.chmod(0o644)
    path.write_bytes(b"")


def _closed(path):
    path.chmod(0)


@pytest.mark.req("L24")
@pytest.mark.parametrize("harm", [_deleted, _zeroed, _truncated, _closed])
def test_l24_what_is_only_a_copy_may_be_lost_between_two_commands(flow, harm):
    flow("create", "Second", "--id", "second", "--next", "n")
    flow("done", "second", "--result", "r")
    flow("watch", "console", "--once")
    flow("gc")
    expected = ageless(flow("show", "plan")), flow("export", "--all")
    for path in copies(flow):
        if path.name == "gfs.lock" and harm is _closed:
            continue  # only its owner may say who locks
        harm(path)
    found = ageless(flow.run("show", "plan").out), flow.run("export", "--all").out
    assert found == expected
    assert flow.run("note", "plan", "x").out == "plan r2 pending\n"
    assert flow.run("watch", "console", "--once").code == 0
    assert flow.run("doctor", "--fix").code in (0, 1)
    assert flow.run("doctor").code == 0
    assert flow.flow("plan")["revision"] == 2
    assert flow.flow("second")["status"] == "done"


@pytest.mark.req("L24")
def test_l24_all_of_it_at_once(flow):
    for path in [*flow.gitdir.iterdir(), *flow.folder.iterdir()]:
        if path.name not in TRUTH | {".git"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert flow("note", "plan", "x") == "plan r2 pending\n"
    assert flow("note", "plan", "y") == "plan r3 pending\n"
    assert len(flow.flow("plan")["notes"]) == 2


# ── L26: a session that begins anew ─────────────────────────────────────────────────────────────


@pytest.mark.req("L26", "R-TF-02")
def test_l26_a_new_session_in_another_place_finds_every_open_flow(cli, tmp_path):
    with time_machine.travel("2020-01-01T00:00:00Z", tick=False):
        for number in range(3):
            cli("create", f"Goal {number}", "--id", f"f-{number}", env={"GFS_SESSION": "one"})
        cli("done", "f-2", "--result", "r", env={"GFS_SESSION": "one"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "new-home").mkdir()
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "new-home"), "GFS_SESSION": "two"}
    words = {"list": ["list", "--json"], "brief": ["brief", "--json"]}
    told = {}
    for name, argv in words.items():
        done = subprocess.run(
            [SCRIPT, *argv, "--repo", cli.folder],
            env=bare, cwd=tmp_path / "elsewhere", capture_output=True, check=True,
        )  # fmt: skip
        told[name] = json.loads(done.stdout)["data"]
    assert [flow["id"] for flow in told["list"]["flows"]] == ["f-0", "f-1"]
    assert sorted(told["brief"]["flows"]) == ["f-0", "f-1"]
    cli("gc")
    assert cli.run("doctor").code == 0
    assert {flow["id"] for flow in cli.json("list", "--all")["flows"]} == {"f-0", "f-1", "f-2"}
    assert cli.run("take", "f-0", "--reason", "mine", env={"GFS_SESSION": "two"}).code == 0
