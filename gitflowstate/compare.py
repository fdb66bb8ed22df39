"""Owns the difference of two versions of a flow, as text for people.

Rules: pure. It compares the JSON of both, field by field in the order of the file, so that a field
of a newer schema version is not missed. What is unseen in a text is made visible, never dropped,
since a difference might be just that.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import Any

from gitflowstate.codec import to_json
from gitflowstate.model import Flow
from gitflowstate.phrases import inline

_SHORT = 60  # characters that still fit twice on a line
_MOST_LINES = 400  # lines of a text that are compared one by one: difflib is not linear
_ABSENT = "(none)"


def diff(a: Flow | None, b: Flow) -> str:
    """Return what differs from `a` to `b`, without a final newline; `a` is None for a new flow.

    A changed field is `progress: old -> new`, a long text its removed and added lines, and tasks
    are told apart by id.
    """
    before = {} if a is None else to_json(a)
    lines = list(_fields("", before, to_json(b)))
    start = _ABSENT if a is None else f"r{a.revision}"
    if not lines:
        return f"{inline(b.id)} {start}: no difference"
    return "\n".join([f"{inline(b.id)} {start} -> r{b.revision}", *lines])


def _fields(path: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in [*new, *(name for name in old if name not in new)]:
        one, other = old.get(name), new.get(name)
        if not _same(one, other) and (path or name != "revision"):  # the first line has it
            yield from _difference(f"{path}{inline(name)}", one, other)


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401  any JSON
    return dumps(one) == dumps(other)  # 1 is not true


def _difference(path: str, old: Any, new: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
    if isinstance(old or new, dict) and isinstance(new or old, dict):
        yield from _fields(f"{path}.", old or {}, new or {})
    elif isinstance(old or new, list) and isinstance(new or old, list):
        yield from _lists(path, old or [], new or [])
    else:
        yield from _scalars(path, old, new)


def _lists(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    """Yield what was taken out of a list and put into it; items with an id are compared."""
    one, other = _keyed(old), _keyed(new)
    if [key for key in one if key in other] != [key for key in other if key in one]:
        yield f"{path}: the order changed"
    for key in one:
        if key not in other:
            yield f"{path}: - {_word(one[key])}"
    for key, item in other.items():
        if key not in one:
            yield f"{path}: + {_word(item)}"
        elif not _same(item, one[key]):
            yield from _difference(f"{path}[{inline(key[0])}]", one[key], item)


def _keyed(items: list[Any]) -> dict[tuple[str, int], Any]:
    """Return items by their id or else their content, and how often that came before."""
    seen: dict[str, int] = {}
    found: dict[tuple[str, int], Any] = {}
    for item in items:
        named = isinstance(item, dict) and isinstance(item.get("id"), str)
        key = item["id"] if named else dumps(item)
        seen[key] = seen.get(key, 0) + 1
        found[key, seen[key]] = item
    return found


def _scalars(path: str, old: Any, new: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
    texts = [value for value in (old, new) if isinstance(value, str)]
    if not any(len(text) > _SHORT or "\n" in text for text in texts):
        yield f"{path}: {_word(old)} -> {_word(new)}"
        return
    yield f"{path}:"
    one, other = (str(value).split("\n") if value is not None else [] for value in (old, new))
    yield from _text_lines(one, other)


def _text_lines(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines that differ, with one line around them."""
    if max(len(old), len(new)) > _MOST_LINES:
        yield f"  {len(old):,} lines -> {len(new):,} lines"
        return
    from difflib import unified_diff  # noqa: PLC0415  start-up: only long texts need it

    for line in list(unified_diff(old, new, lineterm="", n=1))[2:]:
        if not line.startswith("@@"):
            yield f"  {line[0]} {inline(line[1:])}"


def _word(value: Any) -> str:  # noqa: ANN401  any JSON
    if value is None:
        return _ABSENT
    if isinstance(value, str):
        return inline(value) or '""'
    if isinstance(value, dict) and value:
        return ", ".join(f"{inline(name)}: {_word(item)}" for name, item in value.items())
    return inline(dumps(value, ensure_ascii=False))
