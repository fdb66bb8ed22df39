"""What is governed on main: the top-level names that are gfs's own, and what is kept in each."""

from __future__ import annotations

from gitflowstate.model import (
    FORMAT_PATH,
    UNUSABLE_PATH,
    Flow,
    Format,
    Plan,
    Receipt,
    Unusable,
    Value,
)
from gitflowstate.processmodel import Process

# top-level name in the tree of main -> the class of what is kept there
CLASSES: dict[str, type[Value]] = {
    "flows": Flow,
    "archive": Flow,
    "keys": Receipt,
    "plans": Plan,
    FORMAT_PATH: Format,
    UNUSABLE_PATH: Unusable,
    "processes": Process,
}
GOVERNED = tuple(CLASSES)
