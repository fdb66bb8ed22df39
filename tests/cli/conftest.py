"""A repository and the command line on it, for each test of a verb."""

from __future__ import annotations

import clirun
import pytest


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
