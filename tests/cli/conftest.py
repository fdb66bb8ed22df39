"""A repository and the command line on it, for each test of a verb."""

from __future__ import annotations

import clirun
import pytest
from processbench import ProcessLab


@pytest.fixture
def gfs():
    """Return the installed script: arguments to (code, stdout, stderr)."""
    return clirun.process


@pytest.fixture
def cli(tmp_path) -> clirun.Cli:
    """Return the command line, in this process, on a fresh repository."""
    return clirun.made(tmp_path / "work")


@pytest.fixture
def flow(cli) -> clirun.Cli:
    """Return the command line on a repository that holds the flow `plan`, of `local`."""
    cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
    return cli


@pytest.fixture
def here(cli, tmp_path, monkeypatch) -> clirun.Cli:
    """Return the command line in a folder of its own, whose every process finds the repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GFS_REPO", str(cli.folder))
    return cli


@pytest.fixture
def lab(flow):
    """Return the facts of the repository, as a client records them."""
    made = ProcessLab(flow.folder, made=False)
    yield made
    made.repo.close()
