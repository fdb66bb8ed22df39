"""The page docs/reference/commands.md, made from the verbs themselves.

Rule: `python -m gitflowstate.cli.reference` prints the page; a test compares the committed one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from typer._click.core import Command, Context

from gitflowstate.cli import verb
from gitflowstate.cli.app import VERBS, Verbs

_HEAD = """\
# Commands

This page is made from the code, by `python -m gitflowstate.cli.reference`; on a terminal
`gfs VERB --help` prints the same. `gitflowstate` and `git gfs` are the same command as `gfs`.

`gfs` alone says which repository this is and what can be done next. A success prints one line, such
as `flow-example-001 r5 running`, or one JSON document with `--json`; [exit codes](exit-codes.md)
says what an error prints. `ID` is a flow's id, or a beginning that no other id has. A text given
as `-` is read from standard input.
"""
_WRITING_LINK = "It also takes the [options of verbs that write](#options-of-verbs-that-write)."


def page() -> str:
    """Return the page as Markdown, with a final newline."""
    group = Verbs(table=VERBS, name="gfs")
    contexts = list(_contexts(group, Context(group, info_name="gfs")))
    shared = _shared(contexts)
    parts = [_HEAD, _index(contexts), *_shared_parts(shared, contexts[0])]
    parts += [_section(ctx, shared) for ctx in contexts]
    return "\n".join(parts)


def _contexts(group: Verbs, parent: Context) -> Iterator[Context]:
    """Yield a context for each verb, those of nouns such as `gfs task` included."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        ctx = Context(command, info_name=name, parent=parent)
        if isinstance(command, Verbs):
            yield from _contexts(command, ctx)
        else:
            yield ctx


def _shared(contexts: list[Context]) -> dict[str, Any]:
    """Return the options that verbs share, taken from a verb that has them all."""
    known = [*verb._COMMON, *verb._WRITING]  # noqa: SLF001  where they are declared
    for ctx in contexts:
        params = {param.name or "": param for param in ctx.command.params}
        if all(name in params for name in known):
            return {name: params[name] for name in known}
    return {}


def _index(contexts: list[Context]) -> str:
    rows = [
        f"| [`{ctx.command_path}`](#{ctx.command_path.replace(' ', '-')}) "
        f"| {_cell(_texts(ctx.command)[0])} |"
        for ctx in contexts
    ]
    return "\n".join(["| Verb | What it does |", "| --- | --- |", *rows, ""])


def _shared_parts(shared: dict[str, Any], ctx: Context) -> list[str]:
    common = verb._COMMON  # noqa: SLF001  where they are declared
    every = [param for name, param in shared.items() if name in common]
    writing = [param for name, param in shared.items() if name not in common]
    return [
        "\n".join(["## Options of every verb", "", *_table(every, ctx)]),
        "\n".join(["## Options of verbs that write", "", *_table(writing, ctx)]),
    ]


def _section(ctx: Context, shared: dict[str, Any]) -> str:
    usage = " ".join(ctx.command.collect_usage_pieces(ctx))
    about, example = _texts(ctx.command)
    own = [param for param in ctx.command.params if param.name not in shared]
    writes = any(param.name == "dry_run" for param in ctx.command.params)
    return "\n".join(
        [
            f"## {ctx.command_path}\n",
            f"    {ctx.command_path} {usage}\n",
            f"{about}\n",
            *_table(own, ctx),
            *([f"{_WRITING_LINK}\n"] if writes else []),
            *([f"Example: `{example}`\n"] if example else []),
        ]
    )


def _texts(command: Command) -> tuple[str, str]:
    """Return what a verb says of itself, and its example."""
    about, _, example = (command.help or "").partition("Example: ")
    return " ".join(about.split()), example.strip()


def _table(params: list[Any], ctx: Context) -> list[str]:
    records = [param.get_help_record(ctx) for param in params if param.name != "help"]
    rows = [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in filter(None, records)]
    return ["| Argument or option | Meaning |", "| --- | --- |", *rows, ""] if rows else []


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    sys.stdout.write(page())
