"""What is wrong with a file, for `gfs check`: every violation, with its path and line.

Rule: `gfs.toml` goes by its name; any other file is what its keys say: an operation, the receipt
of a key, a list of documents as `gfs export` prints it, or else a flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitflowstate import boundary, loader, positions, settings
from gitflowstate.coherence import Fault
from gitflowstate.errors import Invalid
from gitflowstate.model import Flow, Receipt, Value
from gitflowstate.ops import Op

Violation = dict[str, Any]  # path, message, and line where there is one
MOST = 1000  # violations that are told apart


def check_file(name: str, data: bytes) -> list[Violation]:
    """Return every violation in a file, in the order of its lines; none where it is valid.

    At most 1,000 are told apart.
    """
    if name.rpartition("/")[2] == settings.FILE:
        return settings.check(data)
    try:
        raw = loader.lenient(data)  # what load would refuse in it is a float, which no field allows
    except Invalid as refusal:
        return _violations(refusal)
    text = data.decode()
    found = [*_violations(loader.repeated(text)), *_placed(text, list(_faults(raw)))]
    found.sort(key=lambda violation: violation.get("line", 0))
    if len(found) > MOST:
        found[MOST:] = [{"path": "", "message": f"and {len(found) - MOST:,} more violations"}]
    return found


def _violations(refusal: Invalid | None) -> list[Violation]:
    return list(refusal.details["violations"]) if refusal else []


def _faults(raw: Any) -> Iterator[Fault]:  # noqa: ANN401  any JSON
    if not isinstance(raw, list):
        yield from boundary.faults(_class_of(raw), raw)
        return
    for number, item in enumerate(raw):
        for loc, message in boundary.faults(_class_of(item), item):
            yield Fault((number, *loc), message)


def _class_of(raw: Any) -> type[Value]:  # noqa: ANN401  any JSON
    if isinstance(raw, dict) and "op" in raw:
        return Op
    if isinstance(raw, dict) and "request" in raw:
        return Receipt
    return Flow


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
