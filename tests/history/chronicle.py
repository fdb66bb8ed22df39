"""The history of main as C git tells it: each commit with its op, and the flow before and after."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_FORMAT = "%H%x00%(trailers:key=Flow,valueonly)%x00%(trailers:key=Gfs-Op,valueonly)%x01"
_MARK = re.compile(r"^<!-- gfs:1 flow=(\S+) kind=(\w+) rev=(\d+) -->$", re.MULTILINE)


class Step(NamedTuple):
    """One commit that changed a flow; `place` counts from the first."""

    place: int
    commit: str
    flow: str
    revision: int
    op: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Trace:
    """What happened, in order."""

    def __init__(self, gitdir: Path) -> None:
        self._gitdir = gitdir
        self.last: dict[str, dict[str, Any]] = {}
        self._places: dict[str, int] = {}
        self.steps = [*self._read()]
        self.by_commit = {step.commit: step for step in self.steps}
        self.by_revision = {(step.flow, step.revision): step for step in self.steps}

    def place_of(self, commit: str) -> int:
        """Return where a commit stands in the history; KeyError if it does not."""
        return self._places[commit]

    def ops(self, ref: str) -> Iterator[dict[str, Any]]:
        """Yield the ops on a ref, the oldest first."""
        for _, _, op in self._log(ref):
            if op:
                yield json.loads(op)

    def marks(self, text: str, kind: str) -> list[tuple[str, int]]:
        """Return flow and revision of each message of a kind."""
        return [(flow, int(rev)) for flow, what, rev in _MARK.findall(text) if what == kind]

    def _log(self, ref: str) -> Iterator[list[str]]:
        raw = self._git("log", "--first-parent", "--reverse", f"--format={_FORMAT}", ref)
        for entry in raw.decode().split("\x01"):
            parts = entry.strip("\n").split("\0")
            if len(parts) == 3:
                yield [part.strip() for part in parts]

    def _read(self) -> Iterator[Step]:
        told = [*self._log("main")]
        documents = self._documents([(commit, flow) for commit, flow, _ in told if flow])
        for place, (commit, flow, op) in enumerate(told):
            self._places[commit] = place
            if not flow:
                continue
            after = documents[commit]
            revision = int(self._revision[commit])
            yield Step(place, commit, flow, revision, json.loads(op), self.last.get(flow), after)
            if after is not None:
                self.last[flow] = after

    def _documents(self, wanted: list[tuple[str, str]]) -> dict[str, dict[str, Any] | None]:
        """Return the flow that each commit left, wherever it is kept."""
        raw = self._git(
            "log", "--first-parent", "--format=%H %(trailers:key=Revision,valueonly)", "main"
        )
        pairs = (line.split() for line in raw.decode().splitlines() if line.strip())
        self._revision = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        asked = [f"{commit}:{top}/{_folder(flow)}/{flow}.json"
                 for commit, flow in wanted for top in ("flows", "archive")]  # fmt: skip
        raw = self._git("cat-file", "--batch", data="\n".join(asked).encode() + b"\n")
        found: dict[str, dict[str, Any] | None] = {commit: None for commit, _ in wanted}
        at = 0
        for line in asked:
            end = raw.index(b"\n", at)
            head = raw[at:end].split()
            at = end + 1
            if head[-1] != b"missing":
                size = int(head[2])
                found[line.partition(":")[0]] = json.loads(raw[at : at + size])
                at += size + 1
        return found

    def _git(self, *words: str, data: bytes | None = None) -> bytes:
        command = ["git", "-C", self._gitdir, *words]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def _folder(flow: str) -> str:
    import hashlib

    return hashlib.sha256(flow.encode()).hexdigest()[:2]
