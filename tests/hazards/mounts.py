"""File systems of a test's own: on an image, in memory, or another view of a folder.

Where they cannot be had, which mostly means that the tests do not run as root, the test is skipped
with the reason that mount gave.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

SIZES = {"ext4": 24, "xfs": 300, "btrfs": 128}  # MiB, the least that mkfs takes or a little more


@contextmanager
def mounted(folder: Path, *options: object) -> Iterator[Path]:
    """Mount something on a new folder for a while; skip the test where that is not possible."""
    folder.mkdir(exist_ok=True)
    done = _run("mount", *options, folder)
    if done.returncode:
        pytest.skip(f"mount is not possible here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        if _run("umount", folder).returncode:
            _run("umount", "--lazy", folder)


def remounted(folder: Path, options: str) -> None:
    """Change the options of a mounted file system."""
    done = _run("mount", "-o", f"remount,{options}", folder)
    assert done.returncode == 0, done.stderr


def image(path: Path, kind: str) -> Path:
    """Return a file that holds an empty file system; skip the test where it cannot be made."""
    maker = shutil.which(f"mkfs.{kind}", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if maker is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    with path.open("wb") as file:
        file.truncate(SIZES[kind] << 20)
    subprocess.run([maker, "-q", path], check=True, capture_output=True)
    return path


def in_memory(folder: Path, size: str) -> AbstractContextManager[Path]:
    """Mount so much memory on a new folder."""
    return mounted(folder, "-t", "tmpfs", "-o", f"size={size},mode=755", "none")


def _run(*words: object) -> subprocess.CompletedProcess[str]:
    given = [str(word) for word in words]
    return subprocess.run(given, capture_output=True, text=True, check=False)
