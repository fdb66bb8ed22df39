"""The users' own schemas, `types/<type>.schema.json`, and what they say of a flow's `data`.

Rules: draft 2020-12, at most 256 KiB, references within the document alone. A schema is a program
that somebody else wrote: it runs in a child process that opens nothing and has so much CPU time
and no more, and what comes back is a list of violations, or nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any

from gitflowstate import codec
from gitflowstate.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import NoReturn

    from jsonschema import SchemaError, ValidationError

MAX_SCHEMA = 256 * 2**10  # bytes
MAX_CPU_S = 0.75
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCES = ("$ref", "$dynamicRef")
_SHOWN = 100  # violations
_MOST = 10_000  # that are looked for: a set decides in which order jsonschema finds some
_LONG = 200  # characters of one, beyond which it is mostly the value
_FAILED = b"!"  # what the child answers with when the schema itself is at fault


def check_data(schema_bytes: bytes, data: dict[str, Any], type_name: str) -> None:
    """Refuse data that the schema of its type does not accept.

    Raises Invalid with up to 100 violations, their paths beginning with `data`; or, naming the
    file, for a schema that cannot be used or takes more than 0.75 s of CPU.
    """
    file = f"types/{type_name}.schema.json"
    schema = _loaded(schema_bytes, file)
    import jsonschema  # noqa: F401, PLC0415  slow to import; here once, not in every child

    answer = _confined(lambda: _answer(schema, data))
    if answer is None:
        raise _unusable(file, f"takes more than {MAX_CPU_S} s of CPU to check this data")
    if answer.startswith(_FAILED):
        raise _unusable(file, answer[1:].decode())
    found: list[dict[str, str]] = json.loads(answer)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise Invalid(
            f"{found[0]['path']}: {found[0]['message']}{more}",
            hint=f"{file} says what data of this type may hold",
            violations=found,
        )


def _unusable(file: str, said: str) -> Invalid:
    return Invalid(
        f"{file} {said}",
        hint=f"ask whoever keeps {file}; no data of this type can be recorded meanwhile",
        violations=[{"path": file, "message": said}],
    )


def _loaded(schema_bytes: bytes, file: str) -> Any:  # noqa: ANN401  any JSON
    try:
        schema = codec.load(schema_bytes, MAX_SCHEMA)
    except Invalid as error:
        raise _unusable(file, f"cannot be read: {error.message}") from None
    draft = schema.get("$schema", _DRAFT) if isinstance(schema, dict) else _DRAFT
    if draft != _DRAFT:
        raise _unusable(file, f"is not draft 2020-12: its $schema must be {_DRAFT}")
    for reference in _foreign(schema):
        raise _unusable(file, f"refers to {reference[:_LONG]!r}: a reference must begin with #")
    return schema


def _foreign(schema: Any) -> Iterator[str]:  # noqa: ANN401  any JSON
    """Yield references that lead out of the document."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            pending.extend(node.values())
            found = (node.get(name) for name in _REFERENCES)
            yield from (each for each in found if isinstance(each, str) and each[:1] != "#")


# ── in the child ────────────────────────────────────────────────────────────────────────────────


def _confined(work: Callable[[], bytes]) -> bytes | None:
    """Return what `work` returns in a child process, or None if that was killed.

    A thread cannot be stopped within a regular expression, a signal handler works in the main
    thread alone, and a fresh process costs a start of Python.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Since 3.12 Python warns of other threads; the child takes no lock that they could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _live(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else None


def _live(work: Callable[[], bytes], writing: int) -> NoReturn:
    """Be the child: answer and end, whatever happens, without the parent's exit handlers."""
    status = 1
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        answer = work()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
        status = 0
    finally:
        os._exit(status)


def _answer(schema: Any, data: dict[str, Any]) -> bytes:  # noqa: ANN401  any JSON
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415  slow to import
    from jsonschema.validators import extend  # noqa: PLC0415  slow to import
    from referencing import Registry  # noqa: PLC0415  slow to import
    from referencing.exceptions import Unresolvable  # noqa: PLC0415  slow to import

    judge = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # jsonschema says nothing
    try:
        Draft202012Validator.check_schema(schema)
        errors = judge(schema, registry=Registry()).iter_errors(data)
        found = sorted(islice(errors, _MOST), key=_place)[:_SHOWN]
    except SchemaError as error:
        where = _path(error.absolute_path) or "the document"
        return _FAILED + f"is no JSON Schema: {where}: {_said(error)}".encode()
    except Unresolvable as error:
        return _FAILED + f"refers to {error.ref!r}, which is not in it".encode()
    except RecursionError:
        return _FAILED + b"refers to itself without end"
    except Exception as error:  # noqa: BLE001  somebody else's program, run by somebody else's code
        return _FAILED + f"cannot be used: {type(error).__name__}".encode()
    return json.dumps([_violation(error) for error in found]).encode()


def _pattern(judge: Any, pattern: str, value: Any, _: Any) -> Iterator[Exception]:  # noqa: ANN401  any JSON
    """Judge a pattern as ECMA 262 means it, where `$` does not let a final newline pass."""
    from jsonschema import ValidationError  # noqa: PLC0415  slow to import

    whole = re.sub(r"(\\.|\[(?:\\.|[^\]\\])*\])|\$", lambda found: found[1] or r"\Z", pattern)
    if judge.is_type(value, "string") and not re.search(whole, value):
        yield ValidationError(f"does not match {pattern!r}")


def _violation(error: ValidationError) -> dict[str, str]:
    return {"path": _path(("data", *error.absolute_path)), "message": _said(error)}


def _place(error: ValidationError) -> list[tuple[bool, str | int]]:
    return [(isinstance(part, str), part) for part in error.absolute_path]


def _path(parts: Iterable[str | int]) -> str:
    return ".".join(str(part)[:_LONG] for part in parts)


def _said(error: ValidationError | SchemaError) -> str:
    said: str = error.message
    return said if len(said) <= _LONG else f"does not obey {error.validator!r} of the schema"
