"""Sessions at a shell as files: each command must print exactly what the file has below it.

A line `$ command` is run; the lines below are its output, errors after answers, and `[4]` for an
exit code other than 0. `<<< 'text'` is standard input, `export A=B` and `unset A` hold from there
on. What differs from run to run stands in angle brackets. GFS_TEST_REWRITE=1 writes the files anew:
read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import time_machine
from clirun import DATA, here

FILES = sorted(Path(__file__).parent.glob("*.txt"))
REWRITE = os.environ.get("GFS_TEST_REWRITE") == "1"
VARYING = (
    (r"\b[0-9a-f]{40}\b|^[0-9a-f]{10}(?= )", "<commit>"),
    (r"\bf-[0-9a-hjkmnp-tv-z]{6}\b", "<minted>"),
    (r"(?<=[a-z0-9])\.[0-9a-hjkmnp-tv-z]{8}\b", ".<run>"),
    (r'(?<="version": ")[^"]+', "<version>"),
)
START = "2026-09-06T12:00:00Z"  # a minute goes by with each command


class Shell:
    """A cold shell that knows only gfs, git, export and unset."""

    def __init__(self, folder: Path, clock: time_machine.Traveller) -> None:
        self.folder = folder
        self.clock = clock
        self.env = {"HOME": str(folder)}

    def run(self, line: str) -> str:
        """Return what a command prints, and how it ended."""
        line, _, given = line.partition(" <<< ")
        (stdin,) = shlex.split(given) or [""]
        name, *words = shlex.split(os.path.expandvars(line))
        if name == "export":
            self.env.update(word.split("=", 1) for word in words)
            return ""
        if name == "unset":
            for word in words:
                self.env.pop(word)
            return ""
        self.clock.shift(60)
        code, text = self._run(name, words, stdin.encode())
        return self._steady(text) + (f"[{code}]\n" if code else "")

    def _run(self, name: str, words: list[str], stdin: bytes) -> tuple[int, str]:
        if name == "gfs":
            result = here(*words, stdin=stdin, cwd=self.folder, env=self.env)
            return result.code, result.out + result.err
        assert name == "git"
        done = subprocess.run(
            [name, *words],
            cwd=self.folder,
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _steady(self, text: str) -> str:
        text = text.replace(str(self.folder), "<dir>")
        for pattern, word in VARYING:
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        return text


def told(path: Path, shell: Shell) -> str:
    """Return a transcript as its commands give it today; a blank line stands above a comment."""
    lines = [""]
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("$ "):
            lines += [line, shell.run(line[2:].rstrip("\n"))]
        elif line.startswith("# "):
            lines += ["" if lines[-1][:2] in ("", "# ") else "\n", line]
    return "".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transcript_is_what_happens(path, tmp_path):
    shutil.copy(DATA / "flow-example-001.json", tmp_path)
    with time_machine.travel(START, tick=False) as clock:
        found = told(path, Shell(tmp_path, clock))
    if REWRITE:
        path.write_text(found)
    assert found == path.read_text()


def test_there_are_transcripts():
    assert {path.stem for path in FILES} >= {"story", "errors", "documents"}
