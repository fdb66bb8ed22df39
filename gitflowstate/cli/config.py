"""The outside facts of one run: its environment, the real clock, chance.

Rules: nothing else in gitflowstate reads any of them, but for NO_COLOR, and GFS_DEBUG once there is
a bug, which may be here; an empty variable is an absent one; what is refused is named by its
variable or argument. What arguments name, standard input and files, is read by `inputs`.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from gitflowstate import location
from gitflowstate.cli.inputs import plain
from gitflowstate.errors import Denied, Invalid, NotFound, Usage
from gitflowstate.kinds import check
from gitflowstate.location import Location

DEFAULT_ACTOR = "local"
DEFAULT_LOCK_TIMEOUT_S = 10.0
DEFAULT_REMOTE_TIMEOUT_S = 30.0
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_MAX_TIMEOUT_S = 86_400.0


# ── the environment ─────────────────────────────────────────────────────────────────────────────


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def actor(as_: str | None = None) -> str:
    """Return who acts: --as, GFS_ACTOR, GFS_SESSION, then `local` (architecture, section 9).

    Raises Invalid, naming where it came from, for what is not one plain line.
    """
    if as_ is not None:
        return _name(as_, "--as")
    for source in ("GFS_ACTOR", "GFS_SESSION"):
        value = _variable(source)
        if value is not None:
            return _name(value, source)
    return DEFAULT_ACTOR


def session() -> str | None:
    """Return the session that GFS_SESSION names, if any. Raises Invalid."""
    value = _variable("GFS_SESSION")
    return None if value is None else _name(value, "GFS_SESSION")


def process_session(given: str | None) -> str:
    """Return whose process it is: --session, GFS_SESSION, then `local`. Raises Invalid."""
    if given is not None:
        return _name(given, "--session")
    return session() or DEFAULT_ACTOR


def _name(value: str, source: str) -> str:
    try:
        value = plain(value, source)
        check("Name", value, source)
    except Invalid as refusal:
        if source.startswith("GFS_"):
            refusal.hint = f"set {source} to one line of at most 128 characters, or unset it"
        raise
    return value


def trust() -> frozenset[str]:
    """Return the repositories whose foreign owner GFS_TRUST accepts.

    Raises Usage for a path that is not absolute: what it means would depend on where one stands.
    """
    paths = [path for path in os.environ.get("GFS_TRUST", "").split(os.pathsep) if path]
    for path in paths:
        if not Path(path).is_absolute():
            hint = "set GFS_TRUST to absolute paths, separated by colons"
            raise Usage(f"GFS_TRUST: {path} is not an absolute path", hint=hint)
    return frozenset(os.path.normpath(path) for path in paths)


def lock_timeout() -> float:
    """Return how long to wait for the repository lock, in seconds (GFS_LOCK_TIMEOUT)."""
    return _seconds("GFS_LOCK_TIMEOUT", DEFAULT_LOCK_TIMEOUT_S)


def _seconds(name: str, default: float) -> float:
    """Return the seconds that a variable holds. Raises Usage."""
    value = _variable(name)
    if value is None:
        return default
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_TIMEOUT_S:  # not-a-number compares false too
        raise Usage(
            f"{name} must be seconds from 0 to 86400, not {value[:40]!r}",
            hint=f"set {name} to seconds, such as 10, or unset it",
        )
    return seconds


def remote_timeout() -> float:
    """Return how long to wait for the remote, in seconds (GFS_REMOTE_TIMEOUT)."""
    return _seconds("GFS_REMOTE_TIMEOUT", DEFAULT_REMOTE_TIMEOUT_S)


def offline() -> bool:
    """Return whether the remote is not to be asked (GFS_OFFLINE=1). Raises Usage."""
    said = os.environ.get("GFS_OFFLINE", "")
    if said not in ("", "0", "1"):
        raise Usage(f"GFS_OFFLINE is {said[:20]!r}", hint="set it to 1, or to nothing")
    return said == "1"


def debug() -> bool:
    """Return whether a bug shows its traceback (GFS_DEBUG=1)."""
    return os.environ.get("GFS_DEBUG") == "1"


def environment() -> dict[str, str]:
    """Return the variables that hold something, for channels and for Git."""
    return {name: value for name, value in os.environ.items() if value}


def working_folder() -> Path:
    """Return the folder this runs in. Raises NotFound if it was removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise NotFound(
            "the working folder does not exist any more", hint="change to another folder"
        ) from None
    except PermissionError as error:
        raise Denied(
            f"the working folder cannot be read: {error.strerror}", hint="change to another folder"
        ) from error


def find(repo: str | None = None) -> Location:
    """Return which repository this run is about: --repo, GFS_REPO, or what is found from here.

    Raises NotFound (architecture, section 4, Which repository).
    """
    named = _variable("GFS_REPO") if repo is None else repo
    if named is None:
        return location.above(working_folder(), trust())
    if not named:
        raise Usage("--repo needs a folder")
    return location.at(Path(named), trust())


# ── clock and chance ────────────────────────────────────────────────────────────────────────────


def now() -> str:
    """Return the present time in UTC, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time()))


def zone() -> tzinfo:
    """Return the time zone of this machine, for people; documents are in UTC."""
    from gitflowstate.cli.localtime import LocalTime

    return LocalTime()


def later(seconds: int) -> str:
    """Return the time in UTC that is so many seconds from now. Raises Usage past the year 9999."""
    try:
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise Usage(f"{seconds} seconds from now is no time") from None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


class Clock:
    """The real time, for what takes a clock."""

    def now(self) -> str:
        """Return the time in UTC."""
        return now()

    def later(self, seconds: int) -> str:
        """Return the time that is so many seconds from now."""
        return later(seconds)


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(value: str, name: str) -> int:
    """Return a span such as 90, 90s, 30m, 2h or 1d in seconds. Raises Usage."""
    number, unit = (value[:-1], value[-1:]) if value[-1:] in _UNITS else (value, "s")
    if not (number.isascii() and number.isdigit()) or int(number) == 0 or len(number) > 9:  # noqa: PLR2004  under 32 years
        raise Usage(f"{name} must be a span such as 90s, 30m, 2h or 1d, not {value[:40]!r}")
    return int(number) * _UNITS[unit]


def time_of(value: str | None, name: str) -> str | None:
    """Return a time argument in UTC: with an offset, or a span from now. Raises Usage."""
    if value is None:
        return None
    if value[-1:] in _UNITS and value[:-1].isdigit():
        return later(seconds_of(value, name))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Usage(f"{name} must be a time such as 2026-09-06T10:00:00Z, or a span") from None
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def mint_worker(name: str) -> str:
    """Return a name that is unique to one run: `<name>.<8 random characters>`."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return f"{plain[:100]}.{''.join(_CROCKFORD[byte % 32] for byte in os.urandom(8))}"


def mint_flow_id(length: int = 6) -> str:
    """Return a new flow id of so many Crockford base32 characters; 8 after a collision."""
    return "f-" + "".join(_CROCKFORD[byte % 32] for byte in os.urandom(length))
