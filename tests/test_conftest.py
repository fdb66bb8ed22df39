"""The seal holds: nothing of the developer's environment reaches a test, nor one test another."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest


def test_git_sees_our_identity_and_no_configuration_but_ours():
    told = subprocess.run(
        ["git", "config", "--list", "--show-origin"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.split("\t")[0] for line in told.stdout.splitlines()} == {
        f"file:{os.environ['HOME']}/.gitconfig"
    }
    assert "user.email=tester@example.invalid" in told.stdout


@pytest.mark.parametrize("round_", [1, 2])
def test_what_a_test_leaves_behind_is_gone(round_):
    assert "GFS_REPO" not in os.environ
    assert "GIT_DIR" not in os.environ
    assert time.tzname == ("UTC", "UTC")
    assert Path.home().name != "root"
    os.environ["GFS_REPO"] = "/nowhere"
    os.environ["GIT_DIR"] = "/nowhere"
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.chdir("/")


def test_the_folder_is_the_one_the_run_began_in(request):
    assert Path.cwd() == request.config.invocation_params.dir


def test_a_home_of_its_own_is_used_by_git(home):
    subprocess.run(["git", "config", "--global", "user.name", "Else"], check=True)
    assert "Else" in (home / ".gitconfig").read_text()


def test_the_scale_multiplies_and_keeps_at_least_one(scale, monkeypatch):
    monkeypatch.setattr("scaling.SCALE", 0.001)
    assert scale(20) == 1
    monkeypatch.setattr("scaling.SCALE", 3.0)
    assert scale(20) == 60
