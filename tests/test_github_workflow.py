"""The workflow and the action of examples/github: their steps are run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import clirun
import pytest
import yaml
from fakes.github import BOT, FakeClock, GitHub
from flowrepo import Change, imported
from gitrepo import git

from gitflowstate import marker

ROOT = Path(__file__).parents[1]
WORKFLOW, ACTION = ROOT / "examples/github/gfs-watch.yml", ROOT / "examples/github/action.yml"
PLACE = ".github/workflows/gfs-watch.yml"
TOKEN = "token-for-tests-0123456789"
CURSOR = "refs/gfs/cursors/github"


def loaded(path):
    return yaml.safe_load(path.read_text("utf-8"))


class Runner:
    """A machine of GitHub's, fresh for each run, beside the repository at its origin."""

    def __init__(self, folder, server, steps):
        self.folder = folder
        self.origin = folder / "octo" / "hello"
        self.server = server
        self.steps = steps
        self.runs = 0
        self.contexts = {
            "github.server_url": f"file://{folder}",
            "github.repository": "octo/hello",
            "github.token": TOKEN,
            "inputs.token": TOKEN,
            "inputs.channel": "",
            "inputs.source": "",
            "vars.GITFLOWSTATE_SOURCE": "",
        }
        self.path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.refused = None

    def run(self):
        """Run every step in order; return what they printed, and the folder they worked in."""
        self.runs += 1
        work, temp = self.folder / f"work{self.runs}", self.folder / f"temp{self.runs}"
        work.mkdir()
        temp.mkdir()
        printed = [self._step(step, work, temp) for step in self.steps]
        for path in (*work.rglob("*"), *temp.rglob("*")):
            assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
        return "".join(printed)

    def _step(self, step, work, temp):
        script = temp / "step.sh"
        script.write_text(step["run"])
        options = ["--noprofile", "--norc", "-eo", "pipefail"] if "shell" in step else ["-e"]
        ran = subprocess.run(
            ["bash", *options, script],
            cwd=work,
            env=self._environment(temp) | self._own(step),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert (ran.returncode != 0) == (step["name"] == self.refused), (ran.stdout, ran.stderr)
        assert TOKEN not in ran.stdout + ran.stderr
        return ran.stdout

    def _environment(self, temp):
        return {
            "PATH": self.path,
            "HOME": str(temp),
            "RUNNER_TEMP": str(temp),
            "GITHUB_API_URL": self.server.url,
            "GITHUB_ACTIONS": "true",
        }

    def _own(self, step):
        return {name: self._evaluated(text) for name, text in step.get("env", {}).items()}

    def _evaluated(self, text):
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self._value(found[1]), text)

    def _value(self, expression):
        values = (
            part.strip("'") if part.startswith("'") else self.contexts[part]
            for part in expression.split(" || ")
        )
        return next(filter(None, values), "")


@pytest.fixture
def flows(tmp_path):
    """The command line on a repository with a workflow and a flow about an issue."""
    cli = clirun.made(tmp_path / "flows", "--github")
    cli("create", "Compare", "--id", "plan", "--next", "Read", "--issue", "octo/hello#12")
    return cli


@pytest.fixture(
    params=[WORKFLOW, pytest.param(ACTION, marks=pytest.mark.long)], ids=["workflow", "action"]
)
def runner(request, tmp_path, flows):
    server = GitHub({TOKEN: None}, FakeClock(datetime.now(UTC)))
    whole = loaded(request.param)
    steps = whole["runs"]["steps"] if "runs" in whole else whole["jobs"]["watch"]["steps"]
    made = Runner(tmp_path, server, steps)
    made.contexts["inputs.channel"] = "github" if "runs" in whole else ""
    made.origin.parent.mkdir()
    git(tmp_path, "init", "-q", "--bare", "-b", "main", made.origin)
    pushed(flows, made)
    yield made
    server.stop()
    assert server.violations == []


def pushed(flows, runner):
    git(flows.gitdir, "push", "-q", f"file://{runner.origin}", "main")


def refs(runner):
    return git(runner.origin, "for-each-ref", "--format=%(refname) %(objectname)")


@pytest.mark.req("R-TF-47", "R-TF-48", "L11")
def test_each_step_runs_as_it_stands_and_the_second_run_sends_and_pushes_nothing(flows, runner):
    assert "github: 1 sent" in runner.run()
    (body,) = runner.server.bodies(BOT)
    assert marker.read(body) == ("plan", "status", 1)
    told, asked = refs(runner), len(runner.server.requests)
    assert CURSOR in told
    assert "github: nothing sent" in runner.run()
    assert (refs(runner), len(runner.server.requests)) == (told, asked)
    flows("done", "plan", "--result", "out.md")
    pushed(flows, runner)
    assert "github: 2 sent" in runner.run()
    kinds = [marker.read(each)[1:] for each in runner.server.bodies(BOT)]
    assert kinds == [("status", 2), ("final", 2)]


def bare(folder):
    """Return a PATH without gfs: the machine's own programs, and this Python."""
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python3").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def wheel(folder):
    """Return a wheel with a command gfs that says where it came from."""
    path, info = folder / "standin-1-py3-none-any.whl", "standin-1.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("standin.py", "def main(): print('from the wheel')\n")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: standin\nVersion: 1\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/entry_points.txt", "[console_scripts]\ngfs = standin:main\n")
        made.writestr(f"{info}/RECORD", "")
    return path


def test_nothing_is_installed_but_what_somebody_named(runner, tmp_path):
    runner.path = bare(tmp_path / "bare")
    assert shutil.which("gfs", path=runner.path) is None
    runner.steps, rest = runner.steps[:1], runner.steps[1:]
    runner.refused = runner.steps[0]["name"]
    assert "::error::" in runner.run()
    assert not (tmp_path / "temp1" / "gfs").exists()
    runner.refused = None
    by_variable = "vars.GITFLOWSTATE_SOURCE" in runner.steps[0]["env"]["SOURCE"]
    runner.contexts["vars.GITFLOWSTATE_SOURCE" if by_variable else "inputs.source"] = str(
        wheel(tmp_path)
    )
    runner.steps += rest
    assert "from the wheel" in runner.run()


def test_the_workflow_may_do_what_it_needs_and_no_more():
    whole = loaded(WORKFLOW)
    assert whole["permissions"] == {}
    job = whole["jobs"]["watch"]
    assert job["permissions"] == {"contents": "write", "issues": "write"}
    assert whole["concurrency"] == {"group": "gfs-watch", "cancel-in-progress": False}
    assert list(whole[True]) == ["push", "schedule", "workflow_dispatch"]  # YAML reads `on` so
    for step in [*job["steps"], *loaded(ACTION)["runs"]["steps"]]:
        assert "uses" not in step
        assert "${{" not in step["run"]


@pytest.mark.req("R-TF-48")
def test_init_adds_the_workflow_and_a_channel_as_people_do(flows, tmp_path):
    assert flows.git("show", f"main:{PLACE}") == WORKFLOW.read_text("utf-8").strip()
    assert 'kind = "github"' in flows.git("show", "main:gfs.toml")
    assert flows.git("log", "--format=%s", "main", "--", PLACE) == "Watch flows from GitHub Actions"
    flows("verify", "--strict")
    flows.sound(("plan", 1))
    before = flows.head
    told = flows("init", tmp_path / "flows", "--github")
    assert "nothing was added" in told
    assert flows.head == before


def test_init_leaves_what_people_made_of_the_files_and_says_what_a_push_needs(tmp_path):
    plain = clirun.made(tmp_path / "plain")
    told = plain.json("init", tmp_path / "plain", "--github")
    assert told["added"] == [PLACE, "gfs.toml"]
    assert "scope workflow" in plain("init", tmp_path / "other", "--github")
    assert told["missing"] is None


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (b"[policy]\nskew = 5\n", "has no channel github"),
        (b'[channels.issues]\nkind = "github"\n', "has no channel github"),
        (b'[channels.github]\nkind = "console"\n', "is of kind console"),
        (b'[channels.github]\nkind = "github"\ntarget = "x"\n', "must be an issue"),
        (b"nonsense", "is not TOML"),
        (b'[channels.github]\nkind = "github"\n', None),
    ],
)
def test_init_says_where_a_file_of_people_has_nobody_for_the_workflow(tmp_path, there, said):
    own = clirun.made(tmp_path / "own")
    imported(own.gitdir, Change("gfs.toml", there))
    told = own.run("init", tmp_path / "own", "--github", "--json")
    assert told.data["added"] == [PLACE]
    assert own.git("show", "main:gfs.toml") == there.decode().strip()
    if said is None:
        assert (told.data["missing"], told.err) == (None, "")
    else:
        assert said in told.data["missing"]
        assert "gfs.toml needs a table [channels.github]" in told.err


def test_a_hint_keeps_the_options_that_were_asked_for(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    told = clirun.here("init", "--github", "--json")
    assert "gfs init --github DIR" in told.error["hint"]
    git(tmp_path, "init", "-q", "other")
    told = clirun.here("init", "other", "--github", "--no-view", "--json")
    assert f"gfs init --no-view --github {tmp_path}/other/.gfs" in told.error["hint"]
