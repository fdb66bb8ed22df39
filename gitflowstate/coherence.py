"""The rules that join the fields of one object, judged on JSON that may be wrong elsewhere.

Rules: they are those of `codec.from_json`, which stops at the first one broken; here each one is
reported. Wrong types are stepped over, since they are reported as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gitflowstate.codec import Field, fields
from gitflowstate.kinds import KINDS
from gitflowstate.model import Value


class Fault(NamedTuple):
    """One violation: where, as keys and indexes, and what is wrong."""

    loc: tuple[str | int, ...]
    message: str

    @property
    def path(self) -> str:
        """Return the place as one text, such as `children.0.id`."""
        return ".".join(str(part) for part in self.loc)


def joined(cls: type[Value], raw: dict[str, Any]) -> Iterator[Fault]:
    """Yield what an object, given without its nulls, lacks for its status or holds twice."""
    yield from _misplaced(cls, raw)
    yield from _repeated(cls, raw)


def _misplaced(cls: type[Value], raw: dict[str, Any]) -> Iterator[Fault]:
    """Yield what a status lacks, and what belongs to another status."""
    status = raw.get("status")
    if not cls.NEEDS or not KINDS["Status"].accepts(status):
        return
    needed = cls.NEEDS.get(str(status), ())
    for name in needed:
        if name not in raw:
            yield Fault((name,), f"is missing: status {status} needs it")
    for name in cls.OWN:
        if name in raw and name not in needed:
            yield Fault((name,), f"does not belong to status {status}")


def _repeated(cls: type[Value], raw: dict[str, Any]) -> Iterator[Fault]:
    """Yield what a list holds twice: children by id, scalars by themselves."""
    for name, field in fields(cls).items():
        by = _unique_by(field)
        if by is None or not isinstance(raw.get(name), list):
            continue
        first: dict[str, int] = {}
        for number, item in enumerate(raw[name]):
            one = item.get(by[0]) if by and isinstance(item, dict) else item
            if isinstance(one, str) and first.setdefault(one, number) != number:
                yield Fault((name, number, *by), f"stands twice, first at {name}.{first[one]}")


def _unique_by(field: Field) -> tuple[str, ...] | None:
    """Return the way into an item to what is unique in a list, or None where nothing is."""
    if not field.many or (field.kind in KINDS and KINDS[field.kind].repeats):
        return None
    if field.nested is None:
        return ()
    return ("id",) if "id" in fields(field.nested) else None
