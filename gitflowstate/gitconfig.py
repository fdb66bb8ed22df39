"""A repository's own `config` file: read strictly, without includes, and without running anything.

Only what decides whether and how we may write is looked at. `include.path` is not followed: it
may name a pipe or another user's file (hazard G5).
"""

from __future__ import annotations

import stat

from gitflowstate.errors import Corrupt
from gitflowstate.syscalls import calls, read_regular

Config = dict[str, str]

_LIMIT = 1 << 20
_TRUE = {"true", "yes", "on", "1"}
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_GROUP, _EVERYBODY = 0o660, 0o664


def read_config(path: str) -> Config:
    """Return `section.sub.key` to value, the last one winning; a key without value is `true`."""
    raw = read_regular(path, _LIMIT)
    if raw is None:
        return {}
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    config: Config = {}
    section = ""
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        rest = line.strip()
        if rest.startswith("["):
            section, rest = _section(rest, path)
        if rest and rest[0] not in "#;":
            key, equals, value = rest.partition("=")
            name = f"{section}.{key.strip().lower()}"
            config[name] = _value(value) if equals else "true"
    return config


def _section(line: str, path: str) -> tuple[str, str]:
    """Split `[a "b"] rest` into `a.b` and the rest; the subsection keeps its case."""
    name, quote, tail = line[1:].partition('"')
    if "]" in name or not quote:
        name, bracket, rest = line[1:].partition("]")
        if not bracket:
            raise Corrupt(f"{path} does not parse: {line[:60]!r}", hint="Call a person.")
        return name.strip().lower(), rest.strip()
    sub = ""
    letters = iter(tail)
    for letter in letters:
        if letter == '"':
            break
        sub += next(letters, "") if letter == "\\" else letter
    rest = "".join(letters).lstrip()
    if not rest.startswith("]"):
        raise Corrupt(f"{path} does not parse: {line[:60]!r}", hint="Call a person.")
    return f"{name.strip().lower()}.{sub}", rest[1:].strip()


def _value(text: str) -> str:
    """Take quotes, escapes and a trailing comment off a value."""
    out = ""
    kept = 0  # trailing blanks outside quotes are dropped
    quoted = False
    letters = iter(text.strip())
    for letter in letters:
        if letter == '"':
            quoted = not quoted
            kept = len(out)
        elif letter == "\\":
            out += _ESCAPES.get(next(letters, ""), "")
            kept = len(out)
        elif letter in "#;" and not quoted:
            break
        else:
            out += letter
            kept = len(out) if quoted or not letter.isspace() else kept
    return out[:kept]


def is_true(config: Config, key: str) -> bool:
    """Return whether a key is set to a word that Git takes as true."""
    return config.get(key, "").lower() in _TRUE


class Modes:
    """File modes as `core.sharedRepository` asks for; by default the umask rules alone."""

    def __init__(self, shared: str = "") -> None:
        self._exact, self._bits = _shared_bits(shared.lower())

    def file(self, descriptor: int, mode: int) -> None:
        """Give an open new file its mode; writable by its group only if it is by its owner."""
        if self._bits:
            calls.fchmod(descriptor, self._adjusted(mode))

    def folder(self, path: str) -> None:
        """Give a new folder its mode, inherited by what is made in it."""
        if self._bits:
            calls.chmod(path, self._adjusted(0o777 & ~_umask_of(path)) | stat.S_ISGID)

    def _adjusted(self, mode: int) -> int:
        bits = self._bits if mode & stat.S_IWUSR else self._bits & ~0o222
        if mode & stat.S_IXUSR:
            bits |= (bits & 0o444) >> 2
        return bits if self._exact else mode | bits


def _shared_bits(word: str) -> tuple[bool, int]:
    """Return whether the bits replace the mode, and the bits; 0 leaves everything to the umask."""
    if word in {"group", "true", "yes", "on", "1"}:
        return False, _GROUP
    if word in {"all", "world", "everybody", "2"}:
        return False, _EVERYBODY
    if word.startswith("0") and word.isdigit() and int(word, 8) & 0o600 == 0o600:  # noqa: PLR2004  owner reads and writes
        return True, int(word, 8) & 0o666
    return False, 0


def _umask_of(path: str) -> int:
    """Return the permission bits that the umask took from a new folder."""
    return 0o777 & ~stat.S_IMODE(calls.lstat(path).st_mode)
