"""How a function becomes a verb: the options all verbs share, and the session it runs in.

Rule: a command's module is imported, and its parameters are built, only when it is the one called.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo

from gitflowstate.cli.session import Session
from gitflowstate.errors import INTERRUPTED

F = TypeVar("F", bound=Callable[..., Any])

_COMMON: dict[str, tuple[Any, Any]] = {
    "json_": (Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False),
    "repo": (
        Annotated[str | None, typer.Option("--repo", metavar="DIR", help="The repository.")],
        None,
    ),
    "as_": (
        Annotated[str | None, typer.Option("--as", metavar="ACTOR", help="Who acts.")],
        None,
    ),
}
_WRITING: dict[str, tuple[Any, Any]] = {
    "expect": (
        Annotated[
            int | None,
            typer.Option("--expect", metavar="N", help="Refuse unless the revision is N."),
        ],
        None,
    ),
    "key": (
        Annotated[
            str | None,
            typer.Option("--key", metavar="K", help="Idempotency key: the repeat is harmless."),
        ],
        None,
    ),
    "dry_run": (
        Annotated[bool, typer.Option("--dry-run", help="Print diff and message; write nothing.")],
        False,
    ),
    "allow_secret": (
        Annotated[
            str | None,
            typer.Option("--allow-secret", metavar="REASON", help="For a false alarm; recorded."),
        ],
        None,
    ),
    "offline": (
        Annotated[
            bool, typer.Option("--offline", help="With a remote: queue it here, for gfs sync.")
        ],
        False,
    ),
}


# A path stays as the locale has it, since that is how it is opened.
_PATHS = ("repo", "directory", "file", "files", "data", "plan", "command")


def _decoded(value: Any) -> Any:  # noqa: ANN401  whatever the shell passed
    """Return text as UTF-8, whatever the locale says; what is not, a field's rule refuses."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        return os.fsencode(value).decode()
    except UnicodeError:
        return value


def reads(function: F) -> F:
    """Mark a verb that only reads, or whose writes are not one op: no --expect, no --key."""
    function.__options__ = _COMMON  # type: ignore[attr-defined]
    return function


def writes(function: F) -> F:
    """Mark a verb that records one op, or one for each document."""
    function.__options__ = _WRITING | _COMMON  # type: ignore[attr-defined]
    return function


def command(name: str, function: Callable[..., Any]) -> TyperCommand:
    """Return the command for a verb, its parameters built from the function's annotations."""
    options: dict[str, tuple[Any, Any]] = function.__options__  # type: ignore[attr-defined]

    def call(**given: Any) -> int | None:  # noqa: ANN401  whatever the verb takes
        given = {
            option: value if option in _PATHS else _decoded(value)
            for option, value in given.items()
        }
        shared = {option: given.pop(option) for option in options}
        try:
            with Session(verb=name, writes="dry_run" in options, **shared) as session:
                code: int | None = function(session, **given)
                return code
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None  # before typer ends it without a word

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for option, (kind, default) in options.items()
    ]
    keyword = [param.replace(kind=inspect.Parameter.KEYWORD_ONLY) for param in own]
    call.__signature__ = inspect.Signature([*keyword, *added])  # type: ignore[attr-defined]
    call.__annotations__ = {}
    call.__doc__ = function.__doc__
    info = CommandInfo(name=name, callback=call)
    built = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
    assert isinstance(built, TyperCommand)
    return built
