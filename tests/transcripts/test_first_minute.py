"""The agent's first minute: a cold shell that reads nothing but what `gfs` prints finishes a flow.

Nothing below knows a verb or an option: commands are taken from the output as it stands, and only
the words in capitals are filled in.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import clirun
import pytest

# What an agent would put for a word in capitals; ID is what was printed last.
FILLED = {
    "DIR": "flows",
    "GOAL": "Compare three options",
    "FIRST STEP": "Read the docs",
    "WHAT IS DONE": "Docs read",
    "WHAT IS NEXT": "Compare costs",
    "TEXT": "Costs compared",
    "WHY": "A question",
    "CONDITION": "Ana answers",
    "REF": "reports/options.md",
    "WHAT": "the notes",
}


class ColdShell:
    """A real shell with nothing set, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = dict(os.environ)
        self.env["PATH"] = f"{clirun.SCRIPT.parent}{os.pathsep}{self.env['PATH']}"
        self.exports = []
        self.open = []

    def run(self, line):
        """Fill in a line and run it; return what it printed."""
        commands = [self._filled(command) for command in line.split("; ")]
        done = subprocess.run(
            ["sh", "-c", "\n".join(["set -e", *self.exports, *commands])],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), (commands, done)
        self.exports += [command for command in commands if command.startswith("export ")]
        self._look(done.stdout)
        return done.stdout

    def _filled(self, command):
        return shlex.join(self._word(word) for word in shlex.split(command))

    def _word(self, word):
        if word == "ID":
            return self.open[-1]
        return FILLED[word] if re.fullmatch("[A-Z][A-Z ]+", word) else word

    def _look(self, text):
        """See which flow a success line is about, and whether it is still open."""
        found = re.match(r"(\S+) r\d+ (pending|running|waiting|done|failed)$", text, re.MULTILINE)
        if found and found[1] not in self.open:
            self.open.append(found[1])
        if found and found[2] in ("done", "failed"):
            self.open.remove(found[1])


def alone(text):
    """Return the commands that stand on indented lines of their own."""
    return re.findall(r"^  (gfs [^\n]*?)(?: {2,}[a-z][^\n]*)?$", text, re.MULTILINE)


def following(text):
    """Return what is printed as the exact next command."""
    (found,) = re.findall(r"^next: (.*)$", text, re.MULTILINE)
    return found


def snippet(text):
    """Return the commands that the snippet for AGENTS.md names, in its order."""
    return re.findall(r"`(gfs [^`]+)`", text[text.index("For AGENTS.md:") :])


@pytest.mark.req("R-TF-30", "R-TF-31")
def test_a_cold_shell_finishes_a_flow(tmp_path):
    shell = ColdShell(tmp_path)
    made = shell.run(alone(shell.run("gfs"))[0])
    created = shell.run(following(made))
    shell.run(following(created))
    inside = shell.run("gfs")
    for command in alone(inside):
        shell.run(command)
    commands = snippet(inside)
    for command in commands:
        shell.run(command)
    assert shell.open == []
    assert len(commands) == 7
    cli = clirun.Cli(tmp_path / "flows")
    ended = cli.json("list", "--all")["flows"]
    assert sorted(flow["status"] for flow in ended) == ["done", "failed"]
    assert all(flow["revision"] > 2 for flow in ended)
    cli.sound(*((flow["id"], flow["revision"]) for flow in ended))


def test_each_error_on_the_way_leads_on(tmp_path):
    # What an agent tries before it has read anything: each hint is one more thing it can do.
    first = clirun.process("list", cwd=tmp_path)
    assert "gfs alone says how to begin" in first.err
    assert "gfs --help lists the commands" in clirun.process("start", cwd=tmp_path).err
