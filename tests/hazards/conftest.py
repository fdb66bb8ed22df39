"""A repository whose every acknowledged revision is remembered, and checked after each test."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import clirun
import pytest
from flowrepo import Change, imported
from strikes import SETTINGS

READING = ("show", "brief", "diff", "export")


class Remembering(clirun.Cli):
    """The command line, on one repository; it keeps what writing verbs acknowledged."""

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.acked = []

    def run(self, *argv, **given):
        """Run a command in this process."""
        return self._remembered(argv, super().run(*argv, **given))

    def process(self, *argv, **given):
        """Run a command as the installed script."""
        return self._remembered(argv, super().process(*argv, **given))

    def _remembered(self, argv, result):
        if result.code or not argv or argv[0] in READING:
            return result
        if result.out.startswith("{"):
            data = json.loads(result.out).get("data", {})
            if isinstance(data, dict) and "changed" in data and not data.get("dry_run"):
                self.acked.append((data["id"], data["revision"]))
        found = re.match(
            r"([a-z0-9._-]+) r(\d+) (?:[a-z]+|\(already.*|.*unchanged\))$", result.out, re.MULTILINE
        )
        if found:
            self.acked.append((found[1], int(found[2])))
        return result


@pytest.fixture
def cli(tmp_path):
    """Return the command line on a fresh repository; afterwards it must be sound."""
    clirun.made(tmp_path / "work")
    cli = Remembering(tmp_path / "work")
    yield cli
    cli.sound(*cli.acked)


@pytest.fixture
def flow(cli):
    """Return the command line on a repository that holds the flow `plan`, of `local`."""
    cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
    return cli


@pytest.fixture
def memory(tmp_path):
    """Return a folder in memory, where there is that: thousands of commands are run in it."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp("-hazards", "gfs-", "/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def watched(memory):
    """Return the command line on a repository with a flow, and a channel that has told it."""
    clirun.made(memory / "work")
    cli = Remembering(memory / "work")
    cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
    imported(cli.gitdir, Change("gfs.toml", SETTINGS), text=b"settings\n")
    cli("watch", "team", "--once")
    yield cli
    cli.sound(*cli.acked)
