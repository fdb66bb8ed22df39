"""Owns `gfs.toml`, the file in which people say who is told of flows, and how patient to be.

Rules: every violation is told at once, by the path of its key, and never with a value, which may be
a secret by mistake; a channel that is wrong costs that channel alone. Tokens stand in variables of
the environment whose names begin with GFS_, so that no file of a repository can ask for another
secret of its reader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from gitflowstate import settingrules
from gitflowstate.coherence import Fault
from gitflowstate.errors import Invalid, NotFound
from gitflowstate.settingforms import CONSOLE, ChannelSettings, Policy

__all__ = ["FILE", "ChannelSettings", "Policy", "Settings", "Violation", "check", "parse"]

FILE = "gfs.toml"
MAX_BYTES = 65_536
_HINT = f"mend {FILE} and push it; gfs check {FILE} says everything that is wrong with it"

Violation = dict[str, Any]  # path, message, and line where there is one


class Settings:
    """What `gfs.toml` says, or what holds without it.

    `channels` are those that can be used, `broken` says of each other one what is wrong with it.
    """

    def __init__(
        self,
        channels: Mapping[str, ChannelSettings] | None = None,
        policy: Policy | None = None,
        faults: Collection[Fault] = (),
    ) -> None:
        self._faults = list(faults)
        self._policy = policy or Policy()
        self.broken: dict[str, str] = {}
        for name, found in _by_channel(self._faults).items():
            self.broken[name] = _said(found)
        self.channels = {
            name: each for name, each in (channels or {}).items() if name not in self.broken
        }
        if CONSOLE not in self.broken:
            self.channels.setdefault(CONSOLE, ChannelSettings(CONSOLE))

    @property
    def violations(self) -> list[Violation]:
        """Return everything that is wrong with the file."""
        return [{"path": fault.path, "message": fault.message} for fault in self._faults]

    @property
    def policy(self) -> Policy:
        """Return the policy. Raises Invalid where it is wrong, or stands under a wrong name."""
        wrong = [fault for fault in self._faults if fault.loc[0] != "channels"]
        if wrong:
            raise _refusal(wrong)
        return self._policy

    def channel(self, name: str) -> ChannelSettings:
        """Return a channel. Raises Invalid for one that is wrong, NotFound for an unknown one."""
        if name in self.broken:
            raise _refusal(_by_channel(self._faults)[name])
        if name not in self.channels:
            hint = f"the channels are {', '.join(sorted(self.channels))}; {FILE} may name others"
            raise NotFound(f"there is no channel {name}", hint=hint)
        return self.channels[name]


def parse(data: bytes) -> Settings:
    """Return what the bytes of `gfs.toml` say; what is wrong in it is kept in the settings.

    Raises Invalid for what is no TOML at all, since then nothing is known.
    """
    channels, policy, faults = settingrules.judged(_toml(data))
    return Settings(channels, policy, faults)


def check(data: bytes) -> list[Violation]:
    """Return every violation in the bytes of `gfs.toml`."""
    try:
        return parse(data).violations
    except Invalid as refusal:
        return list(refusal.details["violations"])


# ── TOML ────────────────────────────────────────────────────────────────────────────────────────


def _toml(data: bytes) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  start-up: most repositories have no such file

    if len(data) > MAX_BYTES:
        raise _broken(f"has {len(data):,} bytes; the limit is {MAX_BYTES:,}")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _broken(f"byte {error.start} is not UTF-8", line=line) from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+), column \d+", str(error))
        line = int(where[1]) if where else data.count(b"\n") + 1
        raise _broken(f"is not TOML, at line {line}", line=line) from None
    except RecursionError:
        raise _broken("is nested too deeply") from None


def _broken(rule: str, **place: int) -> Invalid:
    violation = {"path": "", "message": rule, **place}
    return Invalid(f"{FILE} {rule}", hint=_HINT, violations=[violation])


def _refusal(found: list[Fault]) -> Invalid:
    violations = [{"path": fault.path, "message": fault.message} for fault in found]
    return Invalid(f"{FILE}: {_said(found)}", hint=_HINT, violations=violations)


def _said(found: list[Fault]) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0].path} {found[0].message}{more}"


def _by_channel(faults: list[Fault]) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = {}
    for fault in faults:
        if fault.loc[0] == "channels" and len(fault.loc) > 1:
            found.setdefault(str(fault.loc[1]), []).append(fault)
    return found
