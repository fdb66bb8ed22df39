"""The judge of `gfs.toml`: what is wrong with a table of keys, with a channel, and among channels.

Rule: it goes on after a violation, and never repeats a value, which may be a secret by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gitflowstate.coherence import Fault
from gitflowstate.kinds import KINDS
from gitflowstate.settingforms import (
    CHANNEL,
    CONSOLE,
    DEFAULTS,
    ISSUE_PATTERN,
    POLICY,
    RESERVED,
    SLACK_PATTERN,
    ChannelSettings,
    Key,
    Policy,
)

TABLES = ("channels", "policy")
# A service counts and bounds what one token sends, and a channel keeps that count alone.
_UNSHARED = {"chat": "url_env", "slack": "token_env", "github": "token_env"}
# Of those that a channel without token_env reads, the one that another channel can name.
_GITHUB_TOKEN = "GFS_GITHUB_TOKEN"  # noqa: S105  a name


def judged(raw: dict[str, Any]) -> tuple[dict[str, ChannelSettings], Policy, list[Fault]]:
    """Return the channels, the policy, and everything that is wrong with them."""
    unknown = [name for name in raw if name not in TABLES]
    faults = [Fault((name,), _unknown(name, TABLES, "no table")) for name in unknown]
    own = _table(raw.get("policy", {}), ("policy",), faults)
    policy = Policy(**_judged(own, POLICY, ("policy",), faults))
    channels = dict(_channels(_table(raw.get("channels", {}), ("channels",), faults), faults))
    faults += _among(channels, faults)
    return channels, policy, faults


def _table(raw: object, at: tuple[str, ...], faults: list[Fault]) -> dict[str, Any]:
    if isinstance(raw, dict):
        return raw
    faults.append(Fault(at, "must be a table"))
    return {}


def _judged(
    raw: dict[str, Any], keys: Mapping[str, Key], at: tuple[str, ...], faults: list[Fault]
) -> dict[str, Any]:
    """Return the keys of a table that are right, and add what is wrong with the others."""
    found: dict[str, Any] = {}
    for name, value in raw.items():
        said = _unknown(name, keys, "no key") if name not in keys else _secret(value)
        if said is None:
            said, found[name] = _read(keys[name], value)
        if said is not None:
            found.pop(name, None)
            faults.append(Fault((*at, name), said))
    needed = [name for name, key in keys.items() if key.needed and name not in raw]
    faults += [Fault((*at, name), "is missing") for name in needed]
    return found


def _read(key: Key, value: object) -> tuple[str | None, object]:
    try:
        found = key.form.read(value)
    except ValueError as rule:
        return str(rule), None
    return (f"must be {key.form.rule}" if found is None else None), found


def _unknown(name: str, known: Collection[str], what: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  start-up: few files have a wrong key

    near = get_close_matches(name, known, n=1)
    return (
        f"is {what}; did you mean {near[0]}?"
        if near
        else f"is {what}; there are {', '.join(known)}"
    )


def _secret(value: object) -> str | None:
    from gitflowstate import secrets  # noqa: PLC0415  start-up: few repositories have channels

    texts = value if isinstance(value, list) else [value]
    kinds = [secrets.find(text) for text in texts if isinstance(text, str)]
    kind = next(filter(None, kinds), None)
    return kind and f"seems to hold a secret ({kind}): put it into a variable of the environment"


# ── channels ────────────────────────────────────────────────────────────────────────────────────


def _channels(raw: dict[str, Any], faults: list[Fault]) -> Iterator[tuple[str, ChannelSettings]]:
    for name, table in raw.items():
        at = ("channels", name)
        if not KINDS["Id"].accepts(name):
            faults.append(Fault(at, f"must have a name of {KINDS['Id'].rule}"))
        elif name in RESERVED:
            faults.append(Fault(at, "is a reserved name"))
        own = _judged(_table(table, at, faults), CHANNEL, at, faults)
        kind = own.get("kind")
        if kind is not None:
            yield name, ChannelSettings(**{**DEFAULTS.get(kind, {}), **own})
            faults += [Fault((*at, key), said) for key, said in _of_kind(kind, own, table)]


def _of_kind(kind: str, own: dict[str, Any], given: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys that the kind of a channel does not take, lacks, or takes in another form.

    `given` are all keys, `own` the values of those that are right by themselves.
    """
    for name in own:
        kinds = CHANNEL[name].kinds
        if kinds and kind not in kinds:
            yield name, f"does not belong to kind {kind}, but to {', '.join(kinds)}"
    if kind == "webhook":
        yield from _of_webhook(own, given)
    elif kind == "slack":
        if "target" not in given:
            yield "target", "is missing: it is the id of the Slack channel"
        elif re.fullmatch(SLACK_PATTERN, own.get("target", "C01")) is None:
            yield "target", "must be the id of a Slack channel, such as C0123456789"
    elif kind == "github" and re.fullmatch(ISSUE_PATTERN, own.get("target", "o/r#1")) is None:
        yield "target", "must be an issue, such as owner/repo#12"


def _of_webhook(own: dict[str, Any], given: Collection[str]) -> Iterator[tuple[str, str]]:
    from gitflowstate import addresses  # noqa: PLC0415  start-up: few channels are webhooks

    if ("target" in given) == ("url_env" in given):
        yield "target", "must be the URL, unless url_env names the variable that holds it"
    elif "target" in own:
        allowed = [addresses.network(each) for each in own.get("allow_addresses", ())]
        try:
            address = addresses.place(own["target"]).literal
        except ValueError as rule:
            yield "target", str(rule)
        else:
            if address is not None and not addresses.is_permitted(str(address), allowed):
                yield "target", "has an address that is not public; allow_addresses may list it"


def _among(channels: Mapping[str, ChannelSettings], faults: list[Fault]) -> Iterator[Fault]:
    """Yield what is wrong between channels: a fallback that is none, a token that two share."""
    named = {*channels, CONSOLE, *(str(fault.loc[1]) for fault in faults if fault.loc[1:])}
    first: dict[str, str] = {}
    for name, own in channels.items():
        at = ("channels", name)
        if own.fallback is not None and own.fallback not in named - {name}:
            yield Fault((*at, "fallback"), "must be the name of another channel")
        key = _UNSHARED.get(own.kind)
        variable = key and (getattr(own, key) or _GITHUB_TOKEN)  # the other kinds have a default
        if key and variable and first.setdefault(variable, name) != name:
            said = f"must name another variable than that of channels.{first[variable]}"
            yield Fault((*at, key), f"{said}: one budget is kept for each")
