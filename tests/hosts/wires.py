"""A remote behind each transport, and hosts that share it: each a clone with an agent of its own.

A host is a real process (`agent.py`), which can be killed at any time and goes on where its own
log of acknowledgements ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import clirun
import pytest
from fakes.githttp import PASSWORD, GitHttp
from fakes.gitservers import GitDaemon, Sshd, need_sshd
from flowrepo import revisions
from gitrepo import MAIN, fsck, git
from hostbench import remote

KINDS = ("path", "file", "http", "password", "ssh", "git")
AGENT = Path(__file__).with_name("agent.py")


class Wire(NamedTuple):
    """A bare repository, the URL under which hosts reach it, and the variables they need."""

    bare: Path
    url: str
    env: dict[str, str]
    server: Any = None


@contextlib.contextmanager
def opened(kind: str, folder: Path) -> Iterator[Wire]:
    """Yield a bare repository behind one transport; it logs how its refs move."""
    served = folder / "served"
    served.mkdir()
    bare = remote(served, "flows.git")
    with contextlib.ExitStack() as stack:
        yield _wire(kind, folder, bare, stack)


def _wire(kind: str, folder: Path, bare: Path, stack: contextlib.ExitStack) -> Wire:
    def kept(server: Any) -> Any:
        stack.callback(server.stop)
        return server

    match kind:
        case "path":
            return Wire(bare, str(bare), {})
        case "file":
            return Wire(bare, f"file://{bare}", {})
        case "http":
            server = kept(GitHttp(bare.parent))
            return Wire(bare, server.url(bare.name), {}, server)
        case "password":
            server = kept(GitHttp(bare.parent, password=PASSWORD))
            return Wire(bare, server.url(bare.name), {"GFS_GIT_TOKEN": PASSWORD}, server)
        case "git":
            server = kept(GitDaemon(bare.parent))
            return Wire(bare, server.url(bare.name), {}, server)
        case "ssh":
            need_sshd()
            server = kept(Sshd(folder / "sshd"))
            return Wire(bare, server.url(bare), {"GFS_SSH_COMMAND": server.command}, server)
    pytest.fail(kind)


# ── hosts ───────────────────────────────────────────────────────────────────────────────────────


class Host(clirun.Cli):
    """One machine: a clone, and the variables of its wire."""

    def __init__(self, folder: Path, wire: Wire) -> None:
        super().__init__(folder)
        self.wire = wire

    def run(self, *argv: object, env: dict[str, str] | None = None, **given: Any) -> clirun.Result:
        """Run a command in this process."""
        return super().run(*argv, env=self.wire.env | (env or {}), **given)

    def process(
        self, *argv: object, env: dict[str, str] | None = None, **given: Any
    ) -> clirun.Result:
        """Run a command as the installed script."""
        return super().process(*argv, env=self.wire.env | (env or {}), **given)

    def state(self) -> dict[str, bytes]:
        """Return every byte of refs and view; what was not published leaves objects behind."""
        return {path: data for path, data in super().state().items() if "/objects/" not in path}

    def agent(self, name: str, commands: list[list[str]], **how: Any) -> Agent:
        """Return an agent that will run commands one after another; see `agent.py`."""
        return Agent(self, name, commands, how)


def founded(folder: Path, wire: Wire) -> Host:
    """Return the host that begins the remote."""
    done = clirun.here("init", folder, "--remote", wire.url, env=wire.env)
    assert done.code == 0, done
    return Host(folder, wire)


def cloned(folder: Path, wire: Wire) -> Host:
    """Return a host that clones the remote."""
    done = clirun.here("clone", wire.url, folder, env=wire.env)
    assert done.code == 0, done
    return Host(folder, wire)


def sharing(folder: Path, wire: Wire, *flows: str) -> tuple[Host, Host]:
    """Return two hosts that share flows, the first of which made them."""
    first = founded(folder / "a", wire)
    for flow in flows:
        first("create", f"Do {flow}", "--id", flow, "--next", "begin")
    return first, cloned(folder / "b", wire)


class Agent:
    """A process that runs commands on a host, and can be killed and started again."""

    def __init__(
        self, host: Host, name: str, commands: list[list[str]], how: dict[str, Any]
    ) -> None:
        self.commands = commands
        self._log = host.folder.parent / f"{host.folder.name}-{name}.log"
        self._script = self._log.with_suffix(".json")
        self._script.write_text(json.dumps({"log": str(self._log), "commands": commands} | how))
        self._env = os.environ | host.wire.env | {"GFS_REPO": str(host.folder)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Agent:
        """Let it run, from where its log ends."""
        paths = [str(Path(clirun.__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = self._env | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen([sys.executable, AGENT, self._script], env=env)
        return self

    def kill(self) -> bool:
        """Kill it; tell whether it still ran."""
        assert self._process
        self._process.kill()
        return self._process.wait() != 0

    @property
    def running(self) -> bool:
        """Tell whether it runs."""
        return self._process is not None and self._process.poll() is None

    def finish(self) -> list[dict[str, Any]]:
        """Wait for its end; return what each command answered."""
        assert self._process
        assert self._process.wait(timeout=600) == 0
        return self.answers

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What each command answered so far, oldest first; a torn last line is none."""
        if not self._log.exists():
            return []
        lines = self._log.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]


# ── what must hold ──────────────────────────────────────────────────────────────────────────────


def forced(bare: Path, ref: str = MAIN) -> list[str]:
    """Return the lines of a reflog that do not move the ref forward along first parents."""
    order = git(bare, "rev-list", "--first-parent", "--reverse", ref).splitlines()
    place = {oid: number for number, oid in enumerate(order)} | {"0" * 40: -1}
    lines = (bare / "logs" / ref).read_text().splitlines()
    moves = [(line, *line.split(" ", 2)[:2]) for line in lines]
    return [
        line
        for line, old, new in moves
        if old not in place or new not in place or place[old] >= place[new]
    ]


def sound(wire: Wire, *hosts: Host, flows: dict[str, int]) -> None:
    """Check what every test ends with.

    Each flow has just that many revisions, each by one commit; history is linear, moved forward
    alone and replays everywhere; C git finds nothing wrong on either side.
    """
    for flow, count in flows.items():
        assert revisions(wire.bare, flow) == [*range(1, count + 1)]
    assert git(wire.bare, "rev-list", "--count", "--min-parents=2", MAIN) == "0"
    assert forced(wire.bare) == []
    fsck(wire.bare)
    for host in hosts:
        host("sync")
        assert host.head == git(wire.bare, "rev-parse", MAIN)
        assert host.run("verify", "--strict").code == 0
        fsck(host.gitdir)
