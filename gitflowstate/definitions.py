"""What makes one family of documents: its ref, its operations, and the law that they obey.

Rule: `store` and `history` know families by their definition alone; that of main is `FLOWS`, that
of a channel's cursor is in `cursorstore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gitflowstate import machine
from gitflowstate.governed import CLASSES, GOVERNED
from gitflowstate.machine import State
from gitflowstate.model import Value
from gitflowstate.ops import FlowOp, Init, Observe, Op, ProcessOp

MAIN = "refs/heads/main"


class Definition(NamedTuple):
    """One family of documents on one ref: what an op reads and does, and which may come first.

    `governed` are the top-level names that belong to gfs, `classes` what is kept in each.
    `judged`: edits by hand are judged, and recorded before the next op. `expendable`: what cannot
    be read counts as absent, and a head that cannot be read is followed by a new beginning.
    """

    ref: str
    reads: Callable[[Op], tuple[str, ...]]
    apply: Callable[[Op, State], State]
    ops: tuple[type[Op], ...]
    first: tuple[type[Op], ...]
    governed: tuple[str, ...]
    classes: Mapping[str, type[Value]]
    judged: bool = False
    expendable: bool = False


FLOWS = Definition(
    MAIN,
    machine.reads,
    machine.apply,
    (Init, Observe, FlowOp, ProcessOp),
    (Init,),
    GOVERNED,
    CLASSES,
    judged=True,
)
