"""Where schemas, hooks and examples are: package data of a wheel, the top level of a checkout."""

from __future__ import annotations

from pathlib import Path

from gitflowstate.errors import NotFound

_PACKAGE = Path(__file__).resolve().parent.parent


def resource(name: str) -> Path:
    """Return the path of a shipped file. Raises NotFound for an installation without it."""
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        if (root / name).exists():
            return root / name
    raise NotFound(f"{name} is missing from this installation", hint="install gitflowstate again")
