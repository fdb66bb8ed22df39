"""What every test stands on: a sealed environment, one scale, one profile for properties."""

from __future__ import annotations

import os
import time
from pathlib import Path

import hypothesis
import pytest
from processbench import CALL, ID, WAITS
from runlab import eventually
from scaling import scale as scaled

from gitflowstate import runlocks
from gitflowstate.syscalls import calls

# What of the developer's environment reaches a test, by prefix.
SEALED = ("GIT_", "GFS_", "XDG_", "GH_", "GITHUB_", "SSH_", "LC_", "PYTHON")
KEPT = ("GFS_TEST_SCALE", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE")
DROPPED = ("EMAIL", "LANG", "LANGUAGE", "EDITOR", "VISUAL", "PAGER", "COLUMNS", "LINES", "NO_COLOR")
IDENTITY = {"name": "A Tester", "email": "tester@example.invalid"}
GITCONFIG = """\
[user]
\tname = A Tester
\temail = tester@example.invalid
[init]
\tdefaultBranch = main
[commit]
\tgpgSign = false
[protocol "file"]
\tallow = always
"""

hypothesis.settings.register_profile(
    "gfs",
    derandomize="CI" in os.environ,  # a change is judged by the examples that judged the last one
    deadline=None,  # no test is about the speed of this machine
    max_examples=scaled(50),
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("gfs")


def sealed(home: Path) -> dict[str, str]:
    """Return the environment of a test whose home is `home`, and give that its `.gitconfig`."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(GITCONFIG)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not (name.startswith(SEALED) or name in DROPPED)
    }
    roles = {
        f"GIT_{role}_{part.upper()}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in IDENTITY.items()
    }
    return (
        kept
        | roles
        | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_STATE_HOME": str(home / ".state"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_EDITOR": "false",
            "GIT_PAGER": "cat",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
        }
    )


def _become(environment: dict[str, str]) -> None:
    # Pytest keeps the name of the running test there, and removes it itself.
    kept = {name: os.environ[name] for name in os.environ if name.startswith("PYTEST_")}
    if dict(os.environ) != environment | kept:
        os.environ.clear()
        os.environ.update(environment | kept)
    time.tzset()


@pytest.fixture(scope="session")
def sealed_environment(tmp_path_factory) -> dict[str, str]:
    """Return the one environment in which every test begins."""
    return sealed(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def _sealed(sealed_environment):
    """Begin in the sealed environment and the same folder, whatever the test before did."""
    here = Path.cwd()
    _become(sealed_environment)
    yield
    _become(sealed_environment)
    os.chdir(here)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Return a home of this test alone, for what writes there."""
    fresh = tmp_path / "home"
    for name, value in sealed(fresh).items():
        monkeypatch.setenv(name, value)
    return fresh


@pytest.fixture
def on_paper(monkeypatch):
    """Sync nothing: no power is cut here, and a disk takes its time."""
    monkeypatch.setattr(calls, "fsync", lambda _: None)


@pytest.fixture
def waiting(cli, tmp_path, monkeypatch):
    """Return the command line, beside a process that waits for a byte in `fifo`."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    cli(*CALL, "--detach", *WAITS)
    yield cli
    eventually(lambda: not runlocks.is_held(runlocks.lock_path(cli.gitdir, ID)))


@pytest.fixture(scope="session")
def scale():
    """Return `scaling.scale`: a count times GFS_TEST_SCALE."""
    return scaled


@pytest.fixture
def lab(tmp_path):
    """Return a repository that holds the flow `f-1`."""
    from flowrepo import Lab

    found = Lab(tmp_path / "work")
    found.create()
    yield found
    found.repo.close()


def pytest_configure(config):
    """Keep the folders of a plain run in memory where there is room; a long one is on the disk."""
    place = Path("/dev/shm")
    if "not long" in config.option.markexpr and os.access(place, os.W_OK):
        room = os.statvfs(place)
        if room.f_bavail * room.f_frsize > 4 << 30:  # one run takes less than 1 GiB
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))


def pytest_xdist_auto_num_workers(config):
    """Run half as many workers again as there are cores: much of the suite waits for processes."""
    del config
    return (os.cpu_count() or 2) * 3 // 2
