"""The package as strangers get it: a built wheel, in an environment of its own."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel alone beside the libraries that this environment has."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*command, str(folder), str(wheel)], check=True, capture_output=True)
    return folder


def gfs(installed, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "gitflowstate", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_what_installed_verbs_read_travels_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("schemas", "examples", "hooks"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"gitflowstate/_data/{path.relative_to(ROOT)}" in names
    assert "gitflowstate/py.typed" in names


@pytest.mark.long
def test_the_verbs_run_from_the_wheel_alone(installed, tmp_path):
    tour = gfs(installed, "demo", "tour", "--json", cwd=tmp_path)
    assert tour.returncode == 0, tour.stderr
    assert json.loads(tour.stdout)["data"]["commits"] == 10
    for name in ("flow", "op", "key", "plan", "envelope"):
        schema = gfs(installed, "schema", name, cwd=tmp_path)
        assert json.loads(schema.stdout)["$schema"].endswith("2020-12/schema")
    assert gfs(installed, "verify", "--repo", "tour", cwd=tmp_path).returncode == 0
