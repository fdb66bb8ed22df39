"""strace, where it can be had; a test that needs it is skipped with the reason where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

import pytest


def needs_strace() -> None:
    """Skip the test where strace is not installed, or may trace nobody."""
    if why := _why_not():
        pytest.skip(why)


@cache
def _why_not() -> str:
    if shutil.which("strace") is None:
        return "strace is not installed"
    words = ["strace", "-f", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"strace cannot trace here: {done.stderr.strip()}" if done.returncode else ""
