"""The command line as tests run it: in this process for most, as the installed script for some.

A `Cli` belongs to one flow repository. What every refusal must be is in `Cli.refuses`, what every
hazard test ends with is in `Cli.sound`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import re
import signal
import subprocess
import sysconfig
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import gitrepo
from flowrepo import revisions
from gitrepo import git

from gitflowstate.cli import app, inputs

SCRIPT = Path(sysconfig.get_path("scripts")) / "gfs"
DATA = Path(__file__).parent / "data"
FOUNDING = DATA / "flow-example-001.json"
TERMINAL_WIDTH = "100"
HEEDED = (signal.SIGINT, signal.SIGHUP)  # what nohup and a job in the background ignore
# What no message may lead to (hazard L22): nothing of ours deletes, forces or begins again.
HARMFUL = re.compile(
    r"\b(?:gfs|git(?: -\S+)*) +(?:init|clone|reset|checkout|clean|restore|prune|gc|rm|update-ref)\b"
    r"|\b(?:rm|rmdir|unlink|dd|mv|truncate|shred|chmod|chown) +[-/.\w]"
    r"|\bforce|\boverwrit|\bdelet|--hard|\bpush -f",
    re.IGNORECASE,
)


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one document that --json prints, on one line of ASCII."""
        assert self.out.isascii(), self.out
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert found["schema_version"] == 1
        body = "data" if found["ok"] else "error"
        assert set(found) - {"remote"} == {"schema_version", "ok", body}
        assert found["ok"] == (self.code == 0)
        return found

    @property
    def data(self) -> Any:
        """The answer of a verb that succeeded."""
        return self.envelope["data"]

    @property
    def error(self) -> dict[str, Any]:
        """The error of a verb that was refused."""
        found = self.envelope["error"]
        assert set(found) == {"code", "name", "message", "hint", "details"}
        assert found["code"] == self.code
        return found


def process(
    *argv: object,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    **options: Any,
) -> Result:
    """Run the installed script in a process of its own."""
    done = subprocess.run(
        [SCRIPT, *map(_argument, argv)],
        input=stdin,
        cwd=cwd,
        env=os.environ | (env or {}),
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def _argument(word: object) -> str | bytes:
    return word if isinstance(word, (str, bytes)) else str(word)


def here(
    *argv: object, stdin: bytes = b"", cwd: Path | None = None, env: dict[str, str] | None = None
) -> Result:
    """Run the same in this process, from `main` on."""
    words = [
        word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else str(word)
        for word in argv
    ]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin), "utf-8"),
        "stdout": out,
        "stderr": err,
    }
    environment = {"COLUMNS": TERMINAL_WIDTH} | (env or {})
    with (
        _process_state(cwd),
        patch.dict(os.environ, environment),
        patch.multiple("sys", argv=["gfs", *words], **streams),
    ):
        try:
            app.main()
        except SystemExit as leaving:
            code = leaving.code
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Result(code, *texts)


def as_json(argv: tuple[object, ...]) -> list[object]:
    """Return a command that answers with JSON, the option before what is passed on."""
    end = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:end], "--json", *argv[end:]]


@contextmanager
def _process_state(cwd: Path | None):
    """Undo what a command leaves to the end of its process."""
    folder, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    inputs._taken_by.clear()
    try:
        if cwd is not None:
            os.chdir(cwd)
        yield
    finally:
        os.chdir(folder)
        signal.signal(signal.SIGTERM, handler)
        gc.enable()
        gc.unfreeze()


@contextmanager
def heeding_signals():
    """Let a process that is started here heed signals which this run was started to ignore."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in HEEDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Cli:
    """The command line, on one flow repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gitdir = folder / ".git"

    def run(self, *argv: object, env: dict[str, str] | None = None, **given: Any) -> Result:
        """Run a command in this process."""
        return here(*argv, env={"GFS_REPO": str(self.folder)} | (env or {}), **given)

    def process(self, *argv: object, env: dict[str, str] | None = None, **given: Any) -> Result:
        """Run a command as the installed script."""
        return process(*argv, env={"GFS_REPO": str(self.folder)} | (env or {}), **given)

    def __call__(self, *argv: object, **given: Any) -> str:
        """Run a command that succeeds without a warning; return its output, whole lines."""
        result = self.run(*argv, **given)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def json(self, *argv: object, **given: Any) -> Any:
        """Run a command that succeeds; return the data of its envelope."""
        result = self.run(*as_json(argv), **given)
        assert (result.code, result.err) == (0, ""), result
        return result.data

    def refuses(self, code: int, *argv: object, **given: Any) -> dict[str, Any]:
        """Run a command that must be refused, as text and as JSON; return the error.

        It says what was refused, what is there now and the next step, which is no harmful one;
        both forms say the same; nothing is written.
        """
        before = self.state()
        said = self.run(*argv, **given)
        words = 2 if argv[0] in app.NOUNS else 1  # such as `gfs task claim`
        told = self.run(*argv[:words], "--json", *argv[words:], **given)
        assert self.state() == before
        assert (said.code, told.code) == (code, code), (said, told)
        assert (said.out, told.err) == ("", "")
        error = told.error
        lines = said.err.splitlines()
        assert lines[0] == f"error: {error['message']}"
        assert lines[-1] == f"hint: {error['hint']}"
        assert error["message"]
        assert error["hint"]
        assert "Traceback" not in said.err
        assert not HARMFUL.search(error["hint"]), error
        return error

    # ── what is there ───────────────────────────────────────────────────────────────────────────

    @property
    def head(self) -> str:
        """The commit that main names."""
        return (self.gitdir / "refs/heads/main").read_text().strip()

    def state(self) -> dict[str, bytes]:
        """Return every byte of objects, refs and view."""
        roots = ("objects", "refs", "packed-refs"), ("flows", "archive")
        folders = [
            *(self.gitdir / name for name in roots[0]),
            *(self.folder / name for name in roots[1]),
        ]
        files = [p for folder in folders for p in (folder, *folder.rglob("*")) if p.is_file()]
        return {str(path): path.read_bytes() for path in files}

    def git(self, *argv: object, **given: Any) -> str:
        """Run C git on the repository."""
        return git(self.gitdir, *argv, **given)

    def message(self, commit: str = "main") -> str:
        """Return the message of a commit."""
        return self.git("log", "-1", "--format=%B", commit)

    def op(self, commit: str = "main") -> dict[str, Any]:
        """Return the operation that a commit carries."""
        return json.loads(
            self.git("log", "-1", "--format=%(trailers:key=Gfs-Op,valueonly)", commit)
        )

    def flow(self, flow: str) -> dict[str, Any]:
        """Return the stored document of a flow, wherever it is kept."""
        found = [
            *self.folder.glob(f"flows/*/{flow}.json"),
            *self.folder.glob(f"archive/*/{flow}.json"),
        ]
        (file,) = found
        kept = self.git("show", f"main:{file.relative_to(self.folder)}")
        assert file.read_text() == kept + "\n"
        return json.loads(kept)

    def every_object(self) -> bytes:
        """Return the content of every object there is, unreachable ones too, one after another."""
        command = ["git", "-C", self.gitdir, "cat-file", "--batch-all-objects", "--batch"]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def sound(self, *acked: tuple[str, int]) -> None:
        """Check what every hazard test ends with.

        One more update succeeds; no lock is left; C git finds nothing wrong; each flow's revisions
        rise by one in the log and hold what was acknowledged; history replays.
        """
        again = self.run("create", "One more", "--id", "one-more")
        assert again.code == 0, again
        assert self.run("note", "one-more", os.urandom(4).hex()).code == 0
        left = {p.name for p in self.gitdir.rglob("*") if _is_left(p)}
        assert left == set()
        gitrepo.fsck(self.gitdir)
        told: dict[str, list[int]] = {}
        for flow in {"one-more", *(flow for flow, _ in acked)}:
            told[flow] = revisions(self.gitdir, flow)
            assert told[flow] == list(range(told[flow][0], told[flow][0] + len(told[flow])))
        assert all(revision in told[flow] for flow, revision in acked)
        assert self.run("verify").code == 0


def _is_left(path: Path) -> bool:
    # A dead writer's private files (gfs-ref-*, tmp_obj_*) lock nothing; later writers sweep them.
    return path.name == "gc.pid" or (path.suffix == ".lock" and path.name != "gfs.lock")


def made(folder: Path, *options: str) -> Cli:
    """Make a flow repository in a folder; return its command line."""
    done = here("init", folder, *options)
    assert done.code == 0, done
    return Cli(folder)
