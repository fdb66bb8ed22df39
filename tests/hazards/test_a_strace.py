"""Part A, once more from outside: real processes, killed by strace at calls of the kernel (A1, A2).

The table of system calls, through which the other tests strike, hides nothing: what Python and the
libraries call by themselves is struck here too. Calls are taken from a trace of a smooth run, and
those before the repository is first touched are left out.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections import Counter

import clirun
import pytest
import tracing
from gitrepo import fsck
from scaling import scale
from strikes import COMMANDS, FIRST, refs, settle

CALLS = (
    *("openat", "write", "pwrite64", "fsync", "fdatasync", "close", "rename", "renameat2", "link"),
    *("unlink", "unlinkat", "mkdir", "fchmod", "chmod", "flock", "fcntl", "ftruncate", "utimensat"),
    *("read", "pread64", "getdents64", "newfstatat", "fstat", "lseek"),
)
WRITING = ("write", "fsync", "rename", "link", "unlink", "mkdir", "fchmod", "flock")
POINTS = 20  # of each command


def traced(cli, words, *options) -> int:
    """Run a command below strace, as a process of its own; return its exit code."""
    under = ["strace", "-f", "--seccomp-bpf", "-qq", *options, clirun.SCRIPT, *words]
    env = os.environ | {"GFS_REPO": str(cli.folder)}
    return subprocess.run(under, env=env, capture_output=True, check=False).returncode


def points(cli, words, folder) -> list[tuple[str, int]]:
    """Return each call of a smooth run by its name and number, from the first on the repository."""
    log = folder / "trace"
    assert traced(cli, words, "-y", "-o", log, "-e", f"trace={','.join(CALLS)}") == 0
    seen, begun = Counter(), False
    found = []
    for line in log.read_text(errors="replace").splitlines():
        call = re.match(r"(\d+) +([a-z0-9]+)\(", line)
        if call:
            seen[call.groups()] += 1  # strace counts in each process, too
            begun = begun or str(cli.gitdir) in line
            found += [(call[2], seen[call.groups()])] * begun
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.req("A1", "A2", "F3")
@pytest.mark.parametrize("verb", COMMANDS)
def test_a1_a2_a_real_process_that_is_killed_at_a_call_of_the_kernel(watched, tmp_path, verb):
    tracing.needs_strace()
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    command, chance = COMMANDS[verb], random.Random(seed)
    command.before(watched, FIRST)
    found = points(watched, command.words(FIRST), tmp_path)
    writing = [point for point in found if point[0] in WRITING]
    half = scale(POINTS) // 2
    chosen = chance.sample(writing, min(half, len(writing))) + chance.sample(found, half)
    killed = 0
    for round_, (name, number) in enumerate(chosen):
        command.before(watched, round_)
        before = refs(watched)
        kill = f"inject={name}:signal=KILL:when={number}"
        code = traced(watched, command.words(round_), "-o", os.devnull, "-e", kill)
        # A Git that it called was killed, as that says itself or as nobody does.
        assert code in (0, -9) or (verb == "gc" and code in (6, 75)), (name, number)
        killed += code != 0
        settle(watched, command, round_, before, None, where=(name, number))
    fsck(watched.gitdir)
    assert killed >= len(chosen) // 2
