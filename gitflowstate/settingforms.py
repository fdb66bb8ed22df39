"""Owns the keys of `gfs.toml`: what each may hold, which channels take it, and their defaults.

Rule: the tables CHANNEL and POLICY are the one declaration; `settings` judges by them, the JSON
Schema is made from them, and a test compares the reference page with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gitflowstate.kinds import END, KINDS

CHANNEL_KINDS = ("console", "webhook", "chat", "slack", "github")
CONSOLE = "console"  # a channel that is there without any file
RESERVED = ("inbox",)  # the cursors of sessions
MAX_SPAN_S = 999_999_999  # under 32 years
MAX_ITEMS = 100
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


# What holds for a kind of channel where the file does not say. What cannot be edited is kept to
# what is worth a message of its own.
DEFAULTS: dict[str, dict[str, Any]] = {
    "chat": {"url_env": "GFS_CHAT_URL", "statuses": ("waiting", "done", "failed")},
    "slack": {"token_env": "GFS_SLACK_TOKEN"},
    "webhook": {"secret_env": "GFS_WEBHOOK_SECRET"},
}


class ChannelSettings(NamedTuple):
    """What is known of one channel; times are in seconds, an empty filter lets every flow pass."""

    kind: str
    target: str | None = None
    min_interval: int = 110
    every: int = 120
    labels: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    fallback: str | None = None
    file: str | None = None
    url_env: str | None = None
    token_env: str | None = None
    secret_env: str | None = None
    allow_addresses: tuple[str, ...] = ()
    base_url: str | None = None
    author_id: str | None = None


class Policy(NamedTuple):
    """How patient to be, in seconds; `skew` is None where what suits the repository is used."""

    stale_after: int = 3600
    skew: int | None = None


class Form(NamedTuple):
    """What a key may hold: `read` returns the value, None for what is not of the form.

    Where one rule says too little, `read` raises ValueError with a better one.
    """

    rule: str
    read: Callable[[object], object | None]
    schema: dict[str, Any]


class Key(NamedTuple):
    """One key: its form, what it is for, and the kinds of channel that take it, or all."""

    form: Form
    about: str
    kinds: tuple[str, ...] = ()
    needed: bool = False


def seconds(raw: object) -> int | None:
    """Return a length of time in seconds, from a number of them or a text such as 2m."""
    if type(raw) is int and 0 <= raw <= MAX_SPAN_S:
        return raw
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", raw) if isinstance(raw, str) else None
    whole = int(found[1]) * _UNITS[found[2]] if found else MAX_SPAN_S + 1
    return whole if whole <= MAX_SPAN_S else None


def _some_seconds(raw: object) -> int | None:
    return seconds(raw) or None


def _of_kind(kind: str) -> Callable[[object], object | None]:
    return lambda raw: raw if KINDS[kind].accepts(raw) else None


def _matching(pattern: str) -> Callable[[object], object | None]:
    return lambda raw: raw if isinstance(raw, str) and re.match(pattern, raw) else None


def _listed(read: Callable[[object], object | None]) -> Callable[[object], object | None]:
    def all_of(raw: object) -> object | None:
        if not isinstance(raw, list) or not 0 < len(raw) <= MAX_ITEMS:
            return None
        items = tuple(map(read, raw))
        return None if None in items or len(set(items)) != len(items) else items

    return all_of


def _address(raw: object) -> object | None:
    from gitflowstate.addresses import network  # noqa: PLC0415  start-up: few channels list any

    return str(network(raw)) if isinstance(raw, str) else None


def _url(raw: object) -> object | None:
    from gitflowstate.addresses import place  # noqa: PLC0415  as above

    return raw if isinstance(raw, str) and place(raw) else None


def _target(raw: object) -> object | None:
    return raw if KINDS["Ref"].accepts(raw) else None


def _author(raw: object) -> object | None:
    text = str(raw) if type(raw) is int else raw
    return text if isinstance(text, str) and re.match(f"^[1-9][0-9]{{0,15}}{END}", text) else None


def _text(rule: str, read: Callable[[object], object | None], pattern: str | None = None) -> Form:
    return Form(rule, read, {"type": "string", **({"pattern": pattern} if pattern else {})})


def _list(rule: str, item: Callable[[object], object | None], **schema: Any) -> Form:  # noqa: ANN401  JSON
    array = {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "uniqueItems": True}
    return Form(rule, _listed(item), {**array, "items": {"type": "string", **schema}})


def _span(rule: str, read: Callable[[object], int | None], least: int) -> Form:
    number = {"type": "integer", "minimum": least, "maximum": MAX_SPAN_S}
    return Form(rule, read, {"anyOf": [number, {"type": "string", "pattern": _SPAN_PATTERN}]})


_SPAN_PATTERN = f"^[0-9]{{1,9}}[smhd]{END}"
_VARIABLE_PATTERN = f"^GFS_[A-Z0-9_]{{1,60}}{END}"
# An issue of GitHub; nothing in it can leave its place in the path of a URL.
ISSUE_PATTERN = (
    r"(?P<owner>[A-Za-z0-9][A-Za-z0-9_-]{0,99})/(?P<repo>(?!\.{1,2}#)[A-Za-z0-9._-]{1,100})"
    r"#(?P<number>[1-9][0-9]{0,9})"
)
SLACK_PATTERN = r"[CDG][A-Z0-9]{2,30}"  # the id of a channel of Slack's
_PART = "[A-Za-z0-9_][A-Za-z0-9._-]*"
_FILE_PATTERN = rf"^(?=[^\n]{{1,200}}{END})(?:{_PART}/)*{_PART}\.md{END}"

SPAN = _span('a length of time: seconds, or such as "110s", "2m", "1h", "1d"', seconds, 0)
SOME_SPAN = _span('a length of time above 0, such as 120 or "2m"', _some_seconds, 1)
VARIABLE = _text(
    "the name of a variable that begins with GFS_", _matching(_VARIABLE_PATTERN), _VARIABLE_PATTERN
)
KIND = Form(
    f"one of {', '.join(CHANNEL_KINDS)}",
    lambda raw: raw if raw in CHANNEL_KINDS else None,
    {"enum": list(CHANNEL_KINDS)},
)
NAMES = _list(f"a list of 1 to {MAX_ITEMS} different names", _of_kind("Name"))
STATUSES = _list(
    f"a list of different words out of {', '.join(KINDS['Status'].values)}",
    _of_kind("Status"),
    enum=list(KINDS["Status"].values),
)
ADDRESSES = _list("a list of different IP addresses, or networks such as 10.1.0.0/16", _address)
FILE = _text(
    "a path below the folder, of letters, digits and ._-, that ends in .md",
    _matching(_FILE_PATTERN),
    _FILE_PATTERN,
)

CHANNEL: dict[str, Key] = {
    "kind": Key(KIND, "What the channel is.", needed=True),
    "target": Key(
        _text(KINDS["Ref"].rule, _target),
        "Where messages go: the URL of a webhook, the id of a Slack channel, an issue.",
        ("webhook", "slack", "github"),
    ),
    "min_interval": Key(
        SPAN,
        "How long the status message of one flow stays as it is, however much happens. An end, and "
        "waiting for a person, are told at once.",
    ),
    "every": Key(SOME_SPAN, "How often a watcher that stays looks again."),
    "labels": Key(NAMES, "Only flows that have one of these labels."),
    "owners": Key(NAMES, "Only flows of these owners."),
    "statuses": Key(STATUSES, "Only flows in one of these statuses."),
    "fallback": Key(
        _text("the name of another channel", _of_kind("Id")),
        "The channel that is told what this one will not take.",
    ),
    "file": Key(FILE, "Also keep a Markdown file with one section for each flow.", ("console",)),
    "url_env": Key(
        VARIABLE,
        "The variable that holds the URL, since such a URL is a secret.",
        ("chat", "webhook"),
    ),
    "token_env": Key(VARIABLE, "The variable that holds the token.", ("slack", "github")),
    "secret_env": Key(VARIABLE, "The variable that holds the key of the signatures.", ("webhook",)),
    "allow_addresses": Key(
        ADDRESSES,
        "Addresses and networks that are not public and may be connected to all the same.",
        ("webhook",),
    ),
    "base_url": Key(
        _text("a URL that begins with https:// or http://", _url),
        "Where the interface of the host is, where that is not its public one.",
        ("github",),
    ),
    "author_id": Key(
        Form("the number of a user", _author, {"type": ["integer", "string"]}),
        "Whose messages are our own, where the token cannot ask.",
        ("github",),
    ),
}

POLICY: dict[str, Key] = {
    "stale_after": Key(SOME_SPAN, "How long a flow may stand still before it counts as stale."),
    "skew": Key(SPAN, "How far apart the clocks of two machines may be."),
}


def json_schema() -> dict[str, Any]:
    """Return what of the file a JSON Schema can say, for editors."""
    return {
        "title": "Settings",
        "description": "gfs.toml: who is told of flows, and how patient to be.",
        "$comment": "Judged by gfs check alone: what belongs to one kind of channel, what channels"
        " may not share, addresses, and what looks like a secret.",
        "type": "object",
        "properties": {
            "channels": {
                "type": "object",
                "description": "Who is told of flows, by a name of yours.",
                "propertyNames": {"pattern": KINDS["Id"].pattern, "not": {"const": "inbox"}},
                "additionalProperties": {"$ref": "#/$defs/Channel"},
            },
            "policy": {"$ref": "#/$defs/Policy"},
        },
        "additionalProperties": False,
        "$defs": {
            "Channel": _object("Channel", "One channel.", CHANNEL),
            "Policy": _object("Policy", "How patient to be.", POLICY),
        },
    }


def _object(title: str, about: str, keys: dict[str, Key]) -> dict[str, Any]:
    return {
        "title": title,
        "description": about,
        "type": "object",
        "required": [name for name, key in keys.items() if key.needed],
        "properties": {
            name: {"description": key.about, **key.form.schema} for name, key in keys.items()
        },
        "additionalProperties": False,
    }
