"""The closed union of operations, by the one word for each."""

from __future__ import annotations

from gitflowstate import ops, taskops
from gitflowstate.ops import Op

UNION: tuple[type[Op], ...] = (*ops.UNION, *taskops.UNION)
BY_TAG: dict[str, type[Op]] = {op.TAG: op for op in UNION}
