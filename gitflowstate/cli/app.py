"""The entry point: the table of verbs, and the one error boundary.

Rules: every deliberate error ends here as one clear message and its exit code; anything else is a
bug, reported without a traceback unless GFS_DEBUG=1; a verb's module is imported when it is called.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

from typer import Abort
from typer._click.core import Command, Context
from typer.core import TyperGroup, TyperOption
from typer.exceptions import TyperException

from gitflowstate.cli import output
from gitflowstate.errors import (
    INTERNAL,
    INTERRUPTED,
    TERMINATED,
    GfsError,
    Rejected,
    Unavailable,
    Usage,
)

# verb -> the module of gitflowstate.cli that holds it; also the order of the help.
VERBS = {
    "init": "repository",
    "create": "flow",
    "update": "flow",
    "note": "flow",
    "wait": "flow",
    "resume": "flow",
    "done": "ending",
    "fail": "ending",
    "reopen": "ending",
    "retry": "ending",
    "handoff": "flow",
    "take": "flow",
    "show": "reading",
    "list": "reading",
    "log": "past",
    "diff": "past",
    "changes": "past",
    "brief": "reading",
    "recover": "recovery",
    "plan": "planning",
    "task": "task",
    "next": "planning",
    "why": "planning",
    "graph": "planning",
    "work": "work",
    "board": "board",
    "run": "run",
    "ps": "ps",
    "logs": "logs",
    "cancel": "cancel",
    "inbox": "inbox",
    "journal": "journal",
    "watch": "watch",
    "channel": "channel",
    "check": "exchange",
    "schema": "exchange",
    "import": "exchange",
    "export": "exchange",
    "where": "repository",
    "demo": "demo",
    "clone": "sync",
    "sync": "sync",
    "verify": "repository",
    "adopt": "ending",
    "backup": "backup",
    "restore": "backup",
    "doctor": "doctor",
    "gc": "gc",
    "hooks": "hooks",
}
# The verbs that are words of a noun, such as `gfs task claim`: all in the noun's own module.
NOUNS = {
    "task": ("add", "claim", "renew", "release", "done", "fail", "wait", "resume", "retry"),
    "channel": ("list", "check", "reset"),
    "hooks": ("install", "remove", "check"),
}
_ECHOED = 20  # characters of an unknown option: it may be a text that begins with a dash
_SIGNALS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


class Verbs(TyperGroup):
    """The commands of gfs or of one noun, each imported when it is asked for."""

    def __init__(self, *, table: dict[str, str], **given: Any) -> None:  # noqa: ANN401  click's
        super().__init__(rich_markup_mode=None, **given)
        self.table = table

    def list_commands(self, ctx: Context) -> list[str]:
        """Return every verb, in the order of the help."""
        del ctx
        return list(self.table)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return a verb's command, importing its module now."""
        del ctx
        module = self.table.get(cmd_name)
        if module is None:
            return None
        found = import_module(f"gitflowstate.cli.{module}")
        if self.name == "gfs" and cmd_name in NOUNS:
            table = dict.fromkeys(NOUNS[cmd_name], module)
            return Verbs(table=table, name=cmd_name, help=found.__doc__)
        from gitflowstate.cli.verb import command

        attribute = cmd_name if hasattr(found, cmd_name) else f"{cmd_name}_"
        return command(cmd_name, getattr(found, attribute))

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Return the command that the arguments begin with, or suggest the nearest verb."""
        if args[0] not in self.table and not args[0].startswith("-"):
            raise _unknown(ctx.command_path, args[0], self.table)
        return super().resolve_command(ctx, args)


def _unknown(path: str, word: str, known: dict[str, str]) -> Usage:
    from difflib import get_close_matches

    from gitflowstate import secrets

    if secrets.find(word):
        word = "..."
    near = get_close_matches(word, known, n=1)
    hint = f"did you mean: {path} {near[0]}" if near else f"{path} --help lists the commands"
    following = [*path.split(), *(near or ["--help"])]
    return Usage(f"{path} has no command {word[:60]!r}", hint=hint, next=following)


def _group() -> Verbs:
    return Verbs(
        table=VERBS,
        name="gfs",
        help="Durable workflow state for AI agents, kept in Git.",
        params=[_version_option()],
        epilog="Example: gfs create 'Compare three options' --next 'Read the docs'",
    )


def _version_option() -> TyperOption:
    return TyperOption(
        param_decls=["version", "--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version.",
    )


def _print_version(ctx: Context, _param: Any, value: Any) -> None:  # noqa: ANN401  click's types
    if value:
        from gitflowstate import __version__

        output.success({"version": __version__}, f"gitflowstate {__version__}", as_json=False)
        ctx.exit()


def main() -> NoReturn:
    """Run the command line and leave with the documented exit code."""
    _fill_descriptors()
    _restore_signals()
    as_json = "--json" in _own_arguments()
    code = _guarded(as_json=as_json)
    _leave(code)


def _own_arguments() -> list[str]:
    argv = sys.argv[1:]
    return argv[: argv.index("--")] if "--" in argv else argv


def _fill_descriptors() -> None:
    """Open what the caller closed, lest a file of the repository become standard output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one


def _restore_signals() -> None:
    def terminate(*_: object) -> NoReturn:
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, terminate)


def _guarded(*, as_json: bool) -> int:  # noqa: PLR0911  one way out for each kind of error
    try:
        if not sys.argv[1:]:
            return _bare()
        result = _group().main(prog_name="gfs", standalone_mode=False)
    except GfsError as error:
        error.hint = error.hint or _help(error)
        output.failure(error, as_json=as_json)
        return error.code
    except TyperException as error:
        output.failure(_usage(error), as_json=as_json)
        return Usage.code
    except (KeyboardInterrupt, Abort):
        output.failure(_ended("interrupted", INTERRUPTED), as_json=as_json)
        return INTERRUPTED
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else INTERNAL
        if code in _SIGNALS:
            output.failure(_ended(_SIGNALS[code], code), as_json=as_json)
        return code
    except Exception as error:
        if os.environ.get("GFS_DEBUG") == "1":  # not by config, where the bug may be
            raise
        report = _unexpected(error)
        output.failure(report, as_json=as_json)
        return report.code
    return result if isinstance(result, int) else 0


def _bare() -> int:
    from gitflowstate.cli.welcome import welcome

    welcome()
    return 0


def _usage(error: TyperException) -> Usage:
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx else "gfs"
    following = [*command.split(), "--help"]
    return Usage(_said(error), hint=" ".join(following), next=following)


def _said(error: TyperException) -> str:
    """Return what is wrong with the arguments; they may be a text, or a secret, gone astray."""
    from gitflowstate import secrets

    said = error.format_message()
    kind = secrets.find(said)
    if kind:
        return f"the arguments are wrong, and one of them seems to hold a secret ({kind})"
    option = getattr(error, "option_name", "")
    return said.replace(option, f"{option[:_ECHOED]}...") if len(option) > _ECHOED else said


def _help(error: GfsError) -> str:
    """Return the next step for an error that has none of its own."""
    if error.code not in (Usage.code, Rejected.code):
        return "ask a person if it stays so"
    following = ["gfs", *(word for word in sys.argv[1:2] if word in VERBS), "--help"]
    error.details.setdefault("next", following)
    return f"change what is asked; {' '.join(following)} says what it takes"


def _ended(how: str, code: int) -> GfsError:
    error = GfsError(how, hint="run the same command again")
    error.code, error.name = code, how
    return error


def _unexpected(error: Exception) -> GfsError:
    # Imports open files, too, at any place: this is no bug but a limit of the process.
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Unavailable(
            f"too many files are open: {error.strerror}",
            hint="raise the limit (ulimit -n), then run the same command again",
        )
    return _bug(error)


def _bug(error: Exception) -> GfsError:
    import traceback

    from gitflowstate import __version__

    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119  start-up
    report = GfsError(
        f"a bug in gfs {__version__}: {type(error).__name__} at {where}: {str(error)[:200]}",
        hint="please report this line; GFS_DEBUG=1 shows the traceback",
    )
    report.code, report.name = INTERNAL, "internal"
    return report


def _leave(code: int) -> NoReturn:
    gc.freeze()
    sys.exit(code)
