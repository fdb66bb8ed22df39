"""What the tests of repositories share: C git, publishing, wrong objects, and children."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import traceback
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path

from gitflowstate.syscalls import calls

MAIN = "refs/heads/main"


def git(where, *arguments, data=None, check=True) -> str:
    """Run C git in a folder; return what it printed."""
    done = subprocess.run(
        ["git", "-C", where, *arguments], capture_output=True, input=data, check=check
    )
    return done.stdout.decode("utf-8", "replace").strip()


def fsck(gitdir) -> None:
    """Let C git check every object."""
    done = subprocess.run(
        ["git", "-C", gitdir, "fsck", "--strict"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def commit_on(repo, old, changes, text="change"):
    """Stage a commit of the changes on another."""
    staged = repo.stage(repo.commit(old).tree if old else None, changes)
    return repo.commit_object(staged, [old] if old else [], text.encode(), "t", 1_800_000_000)


def publish(repo, changes, text="change", ref=MAIN) -> str:
    """Commit the changes on a ref; return the commit."""
    old = repo.ref(ref)
    staged = commit_on(repo, old, changes, text)
    assert repo.publish(ref, old, staged, text)
    return staged.commit


def publish_on(repo, old, text, ref=MAIN) -> bool:
    """Commit a text on an old head of a ref; tell whether the ref was still there."""
    staged = commit_on(repo, old, {f"flows/{text}.json": text.encode()}, text)
    return repo.publish(ref, old, staged, text)


def texts(repo, ref=MAIN) -> list[str]:
    """Return the messages on a ref, oldest first."""
    return [c.message.decode() for c in repo.lineage(repo.ref(ref), [])][::-1]


def loose(repo, oid) -> Path:
    """Return where a loose object is."""
    return repo.gitdir / "objects" / oid[:2] / oid[2:]


def overwrite(path, data) -> None:
    """Write over a file that is not meant to be."""
    path.chmod(0o644)
    path.write_bytes(data)


def store(repo, kind, body: bytes) -> str:
    """Store any object, however wrong."""
    raw = b"%s %d\0" % (kind.encode(), len(body)) + body
    oid = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    path = loose(repo, oid)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(raw))
    return oid


def tree_of(repo, *entries) -> str:
    """Store a tree of (mode, name, id) in the order given."""
    body = b"".join(
        b"%o %s\0" % (mode, os.fsencode(name)) + bytes.fromhex(oid) for mode, name, oid in entries
    )
    return store(repo, "tree", body)


def in_front(tmp_path, script: str) -> dict[str, str]:
    """Return an environment in which `git` is a script; `$REAL` is the real one."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    real = shutil.which("git")
    (folder / "git").write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def gc(gitdir) -> int:
    """Let C git collect garbage; return its exit code."""
    return subprocess.run(
        ["git", "-C", gitdir, "gc", "-q"], stderr=subprocess.DEVNULL, check=False
    ).returncode


def child(work) -> int:
    """Fork; the child runs `work` and ends with 0 if that returns. Returns its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the runner has threads, we use none
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()  # what a runner shows of a failed test
            os._exit(code)
    return pid


def code_of(pid) -> int:
    """Wait for a child; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dead_pid() -> int:
    """Return the pid of a process that has ended."""
    pid = child(lambda: None)
    os.waitpid(pid, 0)
    return pid


def let_others_in(path) -> None:
    """Let every user reach a path of the test's own folder."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if mode & 0o055 != 0o055:
            parent.chmod(mode | 0o055)


def become_nobody() -> None:
    """Give up root for good: root is never refused by a mode."""
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


@contextmanager
def before(name, ending, act):
    """Run `act` once, before the first call `name` with an argument that ends so."""
    real = getattr(calls, name)
    done = []

    def through(*arguments):
        if not done and any(str(argument).endswith(ending) for argument in arguments):
            done.append(1)
            act()
        return real(*arguments)

    setattr(calls, name, through)
    try:
        yield
    finally:
        setattr(calls, name, real)
    assert done


@contextmanager
def intercepted(act):
    """Send every call of the table through `act(number, name, real, arguments)`."""
    saved, numbers = dict(vars(calls)), itertools.count()

    def through(name, real):
        return lambda *arguments: act(next(numbers), name, real, arguments)

    for name, real in saved.items():
        setattr(calls, name, through(name, real))
    try:
        yield
    finally:
        for name, real in saved.items():
            setattr(calls, name, real)
