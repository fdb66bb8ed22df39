"""Which adapter a channel of `gfs.toml` is, made with what it needs of the outside.

Rule: an adapter, and the library behind it, is imported only when a channel of its kind is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from gitflowstate.delivery import Unauthorised
from gitflowstate.errors import Invalid, Usage
from gitflowstate.ports import Channel, Clock
from gitflowstate.settingforms import ChannelSettings

GITHUB_TOKENS = ("GFS_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")


class Outside(NamedTuple):
    """What a channel is given of the outside."""

    environ: Mapping[str, str]
    clock: Clock
    folder: Path
    show: Callable[[str], None] | None
    author: str | None


def make(
    name: str,
    settings: ChannelSettings,
    environ: Mapping[str, str],
    *,
    clock: Clock,
    folder: Path = Path(),
    show: Callable[[str], None] | None = None,
    author: str | None = None,
) -> Channel:
    """Return the channel that the settings describe; nothing is sent yet.

    `folder` is where a file of the channel is kept, `show` prints for a person, `author` is whose
    messages an earlier run learned to be its own. Raises Usage for a
    kind that this version has not or whose library is not installed, Unauthorised where a variable
    is empty, Invalid where what it holds cannot be used.
    """
    maker = _MAKERS.get(settings.kind)
    if maker is None:
        raise Usage(
            f"channel {name} is of kind {settings.kind}, which this version has not",
            hint=f"the kinds are {', '.join(KINDS)}",
        )
    return maker(name, settings, Outside(environ, clock, folder, show, author))


def _console(name: str, settings: ChannelSettings, outside: Outside) -> Channel:
    from gitflowstate.adapters.board import Board  # noqa: PLC0415  the rule of this module
    from gitflowstate.adapters.console import ConsoleChannel  # noqa: PLC0415  the same

    board = Board(name, outside.folder, settings.file) if settings.file else None
    return ConsoleChannel(name, board, outside.show)


def _webhook(name: str, settings: ChannelSettings, outside: Outside) -> Channel:
    from gitflowstate import addresses  # noqa: PLC0415  the rule of this module
    from gitflowstate.adapters.webhook import WebhookChannel  # noqa: PLC0415  the same

    variable = settings.secret_env or ""
    secret = _held(variable, outside)
    url = settings.target or _held(settings.url_env or "", outside)
    try:
        place = addresses.place(url)
    except ValueError as rule:
        where = settings.url_env or f"channels.{name}.target"
        violation = {"path": where, "message": str(rule)}
        raise Invalid(f"{where} {rule}", violations=[violation]) from None
    allowed = [addresses.network(each) for each in settings.allow_addresses]
    return WebhookChannel(name, place, secret, outside.clock, variable=variable, allowed=allowed)


def _chat(name: str, settings: ChannelSettings, outside: Outside) -> Channel:
    try:
        from gitflowstate.adapters.chat import ChatChannel  # noqa: PLC0415  the rule of this module
    except ImportError:
        raise _needs_chat(name) from None
    variable = settings.url_env or ""
    return ChatChannel(name, _held(variable, outside), variable=variable)


def _slack(name: str, settings: ChannelSettings, outside: Outside) -> Channel:
    try:
        from gitflowstate.adapters.slack import SlackChannel  # noqa: PLC0415  as above
    except ImportError:
        raise _needs_chat(name) from None
    variable = settings.token_env or ""
    token = _held(variable, outside)
    return SlackChannel(name, settings.target or "", token, outside.clock, variable=variable)


def _github(name: str, settings: ChannelSettings, outside: Outside) -> Channel:
    from gitflowstate.adapters import github, githubwire  # noqa: PLC0415  the rule of this module

    names = [settings.token_env] if settings.token_env else GITHUB_TOKENS
    variable = next((each for each in names if outside.environ.get(each)), names[0])
    wire = githubwire.Wire(_held(variable, outside), _api_url(name, settings, outside))
    return github.GitHubChannel(
        name,
        settings.target,
        wire,
        outside.clock,
        variable=variable,
        author_id=outside.author,
        unasked=settings.author_id or github.ACTIONS_BOT,
    )


def _api_url(name: str, settings: ChannelSettings, outside: Outside) -> str:
    """Return where the token goes: the environment says so, and the file may only agree (G3).

    Raises Invalid.
    """
    from gitflowstate import addresses  # noqa: PLC0415  the rule of this module
    from gitflowstate.adapters.githubwire import API_URL  # noqa: PLC0415  the same

    url = outside.environ.get("GITHUB_API_URL") or API_URL
    try:
        place = addresses.place(url)
    except ValueError as rule:
        raise Invalid(f"GITHUB_API_URL {rule}") from None
    if place.scheme != "https" and not (place.literal and place.literal.is_loopback):
        raise Invalid("GITHUB_API_URL must begin with https://: a token is sent there")
    wanted = settings.base_url
    if wanted is not None and addresses.place(f"{wanted.rstrip('/')}/") != addresses.place(
        f"{url.rstrip('/')}/"
    ):
        raise Invalid(
            f"channels.{name}.base_url is not where the environment lets the token go",
            hint="set GITHUB_API_URL to the same URL, if that host may have the token",
        )
    return url


def _held(variable: str, outside: Outside) -> str:
    """Return the one line of text that a variable holds. Raises Unauthorised, naming it."""
    value = outside.environ.get(variable, "").strip()
    if not value or not value.isascii() or not value.isprintable():
        raise Unauthorised(variable, missing=not value)
    return value


def _needs_chat(name: str) -> Usage:
    return Usage(
        f"channel {name!r} needs the chat extra",
        hint="install gitflowstate as you did, with its extra: pip install '.[chat]' in a checkout",
    )


_MAKERS: dict[str, Callable[[str, ChannelSettings, Outside], Channel]] = {
    "console": _console,
    "webhook": _webhook,
    "chat": _chat,
    "slack": _slack,
    "github": _github,
}
KINDS = tuple(_MAKERS)
# How long one message may be, known before a channel is made.
LIMITS = {"console": 60_000, "webhook": 60_000, "chat": 1500, "slack": 12_000, "github": 60_000}
