"""`gfs work`: a command for each task, what its codes mean, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from clirun import SCRIPT, Cli, Result, heeding_signals

EDGES = {"t1": [], "t2": ["t1"], "t3": ["t1"], "t4": ["t2", "t3"], "t5": ["t4"]}


@pytest.fixture
def lesson(flow) -> Cli:
    """Return the command line on a flow `plan` with the five tasks of the lesson."""
    return planned(flow, EDGES)


def planned(cli: Cli, edges, **fields) -> Cli:
    tasks = [
        {"id": name, "goal": f"do {name}", "deps": deps} | fields.get(name, {})
        for name, deps in edges.items()
    ]
    cli("plan", "plan", "-", stdin=json.dumps(tasks).encode())
    return cli


def tasks(cli: Cli) -> dict[str, dict]:
    return {task["id"]: task for task in cli.flow("plan")["children"]}


@pytest.mark.req("R-TS-05", "R-TS-07", "R-TS-29")
def test_the_command_runs_for_each_task_in_order(lesson, tmp_path):
    log = tmp_path / "log"
    script = f'jq -r .task.id >> {log}; echo "out/$GFS_TASK_ID.md"'
    said = lesson("work", "plan", "--as", "ann", "--", "sh", "-c", script)
    assert said == "plan r12 running: all 5 tasks are done\n"
    assert log.read_text().split() == [*EDGES]
    assert {t["result_ref"] for t in tasks(lesson).values()} == {f"out/{n}.md" for n in EDGES}
    assert {t["finished_by"] for t in tasks(lesson).values()} == {"ann"}
    lesson.sound(("plan", 12))
    assert [*(lesson.gitdir / "gfs/workers").iterdir()] == []


@pytest.mark.req("R-TS-10", "R-TS-11")
def test_working_again_does_nothing_more(lesson):
    lesson("work", "plan", "--", "true")
    head = lesson.head
    assert lesson("work", "plan", "--", "false") == "plan r12 running: all 5 tasks are done\n"
    assert lesson.head == head


def test_one_task_is_no_plural(flow):
    planned(flow, {"t1": []})
    assert flow.message().startswith("plan r2 plan: plan 1, 1 task\n")
    told = flow.run("work", "plan", "--", "false").err
    assert told.startswith("error: plan: 1 of 1 task is not done: ")
    flow("task", "retry", "plan", "t1", "--reason", "again")
    assert flow("work", "plan", "--", "true").endswith(" its one task is done\n")


@pytest.mark.req("R-TS-21")
def test_the_work_follows_the_repository_and_no_copy_of_it(lesson):
    """The plain file for people is changed to say that all is done, and running."""
    (shown,) = lesson.folder.glob("flows/*/plan.json")
    document = json.loads(shown.read_text())
    for number, task in enumerate(document["children"]):
        task.update({"status": "done", "result_ref": "r"} if number % 2 else {"status": "running"})
    shown.chmod(0o644)
    shown.write_text(json.dumps(document))
    told = lesson.run("work", "plan", "--json", "--", "true")
    assert told.data["completed"] == 5
    assert {task["result_ref"] for task in tasks(lesson).values()} == {"none"}


def test_the_answer_as_json(lesson):
    found = lesson.run("work", "plan", "--json", "--jobs", "3", "--", "true")
    assert found.data == {"id": "plan", "revision": 12, "completed": 5, "open": []}


def test_a_template_names_the_results(lesson):
    lesson("work", "plan", "--result-template", "out/{flow}/{id}", "--", "echo", "ignored")
    assert tasks(lesson)["t3"]["result_ref"] == "out/plan/t3"


@pytest.mark.req("R-TS-19", "C-17", "X-04")
def test_what_cannot_go_on_is_left_with_8_and_the_reasons(lesson):
    script = 'echo the password is hunter2; test "$GFS_TASK_ID" != t2'
    result = lesson.run("work", "plan", "--json", "--", "sh", "-c", script)
    assert result.code == 8
    assert result.error["details"]["blocked"] == [
        "t2: t2 is failed: exit code 1",
        "t4: t2 is failed",
        "t5: t4 is pending",
    ]
    assert result.error["details"]["completed"] == 2
    assert result.error["details"]["next"] == ["gfs", "why", "plan"]
    assert (tasks(lesson)["t2"]["failures"], tasks(lesson)["t2"]["reason"]) == (3, "exit code 1")
    told = lesson.run("work", "plan", "--", "false")
    assert told.err.splitlines()[0] == (
        "error: plan: 3 of 5 tasks are not done: "
        "t2: t2 is failed: exit code 1; t4: t2 is failed; t5: t4 is pending"
    )


@pytest.mark.req("R-TS-27")
def test_a_task_that_takes_too_long_has_timed_out(flow):
    planned(flow, {"t1": []}, t1={"timeout_s": 1, "max_attempts": 1})
    assert flow.run("work", "plan", "--", "sleep", "1000").code == 8
    failed = tasks(flow)["t1"]
    assert (failed["outcome"], failed["reason"]) == ("timed_out", "timed out after 1 s")


def test_no_wait_leaves_what_is_not_due_yet(flow):
    planned(flow, {"t1": []}, t1={"not_before": "2099-01-01T00:00:00Z"})
    error = flow.run("work", "plan", "--json", "--no-wait", "--", "true").error
    assert error["details"]["blocked"] == ["t1: t1 is not to begin before 2099-01-01T00:00:00Z"]


def test_a_flow_without_tasks_has_nothing_to_work_on(flow):
    error = flow.refuses(8, "work", "plan", "--", "true")
    assert error["details"]["next"] == ["gfs", "plan", "plan", "FILE"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("plan",)),
        (2, ("plan", "--jobs", "0", "--", "true")),
        (2, ("plan", "--lease", "soon", "--", "true")),
        (5, ("nothing", "--", "true")),
    ],
)
def test_nonsense_is_refused(lesson, code, words):
    lesson.refuses(code, "work", *words)


# ── being stopped ───────────────────────────────────────────────────────────────────────────────


def working(cli: Cli, folder, *options: str) -> subprocess.Popen[bytes]:
    """Start a worker whose two tasks run for ever; return it once both do."""
    script = f"cd {folder}; echo $$ > $GFS_TASK_ID.new; mv $GFS_TASK_ID.new $GFS_TASK_ID; sleep 99"
    words = [SCRIPT, "work", "plan", "--jobs", "2", *options, "--", "sh", "-c", script]
    with heeding_signals():
        process = subprocess.Popen(
            words,
            env=os.environ | {"GFS_REPO": str(cli.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    deadline = time.monotonic() + 60
    while not all((folder / name).exists() for name in ("t1", "t2")):
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    return process


def ended(process: subprocess.Popen[bytes], number: int) -> Result:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return Result(process.returncode, out.decode(), err.decode())


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.req("R-TS-11")
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 143, "terminated"),  # its terminal was closed
    ],
)
def test_a_worker_that_is_stopped_gives_its_claims_back(flow, tmp_path, number, code, said):
    planned(flow, {"t1": [], "t2": []}, t2={"on_interrupt": "hold"})
    result = ended(working(flow, tmp_path), number)
    assert (result.code, result.out) == (code, "")
    assert result.err == f"error: {said}\nhint: run the same command again\n"
    for name in ("t1", "t2"):
        assert not is_there(int((tmp_path / name).read_text()))
    assert tasks(flow)["t1"] == {"id": "t1", "goal": "do t1", "status": "pending"}
    # It was killed on its way: on hold that is for a person to judge.
    assert (tasks(flow)["t2"]["status"], "claim" in tasks(flow)["t2"]) == ("waiting", False)
    assert [row["task"] for row in flow.json("recover", "plan")["tasks"]] == ["t2"]
    assert [*(flow.gitdir / "gfs/workers").iterdir()] == []
    assert flow.run("work", "plan", "--", "true").code == 8
    flow("recover", "plan", "--task", "t2", "--decide", "retry", "--reason", "nothing was sent")
    assert flow("work", "plan", "--", "true").endswith("all 2 tasks are done\n")
    flow.sound(("plan", flow.flow("plan")["revision"]))


@pytest.mark.req("C-12", "R-TS-11")
def test_the_claims_of_a_killed_worker_are_taken_over_at_once(flow, tmp_path):
    """Long before their leases end; its tasks outlive it, which is why a task can run twice."""
    planned(flow, {"t1": [], "t2": []})
    process = working(flow, tmp_path, "--lease", "1d")
    process.kill()
    process.wait()  # not for its output: that its tasks hold open
    process.stdout.close()
    process.stderr.close()
    assert all("claim" in task for task in tasks(flow).values())
    assert flow("work", "plan", "--no-wait", "--", "true").endswith("all 2 tasks are done\n")
    assert {task["interruptions"] for task in tasks(flow).values()} == {1}
    for name in ("t1", "t2"):
        os.killpg(int((tmp_path / name).read_text()), signal.SIGKILL)


@pytest.mark.req("R-TS-27", "C3")
def test_two_workers_share_the_tasks(flow, tmp_path):
    edges = {f"t{n}": [f"t{n - 3}"] if n >= 3 else [] for n in range(12)}
    planned(flow, edges)
    words = [
        SCRIPT,
        "work",
        "plan",
        "--jobs",
        "2",
        "--",
        "sh",
        "-c",
        f"echo $GFS_TASK_ID >> {tmp_path}/log",
    ]
    env = os.environ | {"GFS_REPO": str(flow.folder)}
    both = [subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=90) for process in both] == [0, 0]
    assert sorted((tmp_path / "log").read_text().split()) == sorted(edges)
    flow.sound(("plan", flow.flow("plan")["revision"]))
