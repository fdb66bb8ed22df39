"""What is wrong with a file, for `gfs check`: every violation, with its path and line.

Rule: `gfs.toml` goes by its name; any other file is what its keys say, or what they leave open its
name: a document of ours, an operation, or a list of them as `gfs export` prints it; else a flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitflowstate import boundary, loader, positions, settings
from gitflowstate.coherence import Fault
from gitflowstate.cursors import CURSOR_PATH, Acknowledged, Cursor, Delivery
from gitflowstate.errors import Invalid
from gitflowstate.inbox import Reader
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
from gitflowstate.ops import Op
from gitflowstate.processmodel import Process

Violation = dict[str, Any]  # path, message, and line where there is one
MOST = 1000  # violations that are told apart
# The first class one of whose fields is there is the one that is meant.
_MARKS: dict[type[Value], frozenset[str]] = {
    Op: frozenset({"op"}),
    Receipt: frozenset({"request"}),
    Process: frozenset({"argv", "call_id", "boot_id"}),
    Reader: frozenset({"events"}),
    Flow: frozenset({"goal", "children", "status", "owner"}),
    Plan: frozenset({"tasks"}),
    Cursor: frozenset({"head", "owed", "hold", "budget", "author_id", "cutoff", "acknowledged"}),
    Delivery: frozenset(
        {"terminal_revision", "terminal_digest", "message", "notice", "sent_at", "parked", "gone"}
    ),
    Format: frozenset({"format"}),
}
_NAMES = {FORMAT_PATH: Format, UNUSABLE_PATH: Unusable, CURSOR_PATH: Cursor}


def check_file(name: str, data: bytes) -> list[Violation]:
    """Return every violation in a file, in the order of its lines; none where it is valid.

    At most 1,000 are told apart.
    """
    name = name.rpartition("/")[2]
    if name == settings.FILE:
        return settings.check(data)
    try:
        raw = loader.lenient(data)  # what load would refuse in it is a float, which no field allows
    except Invalid as refusal:
        return _violations(refusal)
    text = data.decode()
    found = [*_violations(loader.repeated(text)), *_placed(text, list(_faults(raw, name)))]
    found.sort(key=lambda violation: violation.get("line", 0))
    if len(found) > MOST:
        found[MOST:] = [{"path": "", "message": f"and {len(found) - MOST:,} more violations"}]
    return found


def _violations(refusal: Invalid | None) -> list[Violation]:
    return list(refusal.details["violations"]) if refusal else []


def _faults(raw: Any, name: str) -> Iterator[Fault]:  # noqa: ANN401  any JSON
    if not isinstance(raw, list):
        yield from _of_one(raw, name)
        return
    for number, item in enumerate(raw):
        for loc, message in _of_one(item, ""):
            yield Fault((number, *loc), message)


def _of_one(raw: Any, name: str) -> list[Fault]:  # noqa: ANN401  any JSON
    cls = _class_of(raw, name)
    if cls is Plan and "flow" not in raw:  # as `gfs plan` takes it, which knows the flow
        raw = {"schema_version": Plan.VERSION, "flow": "f"} | raw
    return boundary.faults(cls, raw)


def _class_of(raw: Any, name: str) -> type[Value]:  # noqa: ANN401  any JSON
    if not isinstance(raw, dict):
        return Flow
    for cls, fields in _MARKS.items():
        if not fields.isdisjoint(raw):
            return cls
    if "flows" in raw and name not in _NAMES:
        return Acknowledged if isinstance(raw["flows"], dict) else Unusable
    return _NAMES.get(name, Flow)


def _placed(text: str, faults: list[Fault]) -> list[Violation]:
    """Return violations with the line of their value, or of the nearest that is there."""
    wanted = {loc[:end] for loc, _ in faults for end in range(len(loc) + 1)}
    lines = positions.lines(text, wanted) if wanted else {}
    return [
        {"path": fault.path, "message": fault.message, "line": _nearest(lines, fault.loc)}
        for fault in faults
    ]


def _nearest(lines: dict[tuple[str | int, ...], int], loc: tuple[str | int, ...]) -> int:
    return next(lines[loc[:end]] for end in range(len(loc), -1, -1) if loc[:end] in lines)
