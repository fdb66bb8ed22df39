"""Refs, read strictly (architecture, write protocol, step 2).

Rule: only "no such file" means absent, and then packed-refs speaks; a link, other content or an
I/O error is never taken for an older value (hazards F5, A7, B7).
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from gitflowstate.errors import Corrupt, Rejected
from gitflowstate.syscalls import calls, lstat_or_none, read_regular, reported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitflowstate.objects import Oid

_OID = re.compile(rb"([0-9a-f]{40})\s*")
_COMPONENT = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\/]+")
_PACKED_LIMIT = 64 << 20


def check_name(name: str) -> None:
    """Refuse what Git does not take as the full name of a ref (hazard F9)."""
    if not _is_name(name):
        raise Rejected(f"{name!r} is not the full name of a ref", hint="Use refs/heads/NAME.")


def _is_name(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == "refs" and len(parts) > 2 and is_plain(name)  # noqa: PLR2004  refs/<kind>/<name>


def is_plain(name: str) -> bool:
    """Tell whether Git takes every part of a name; one that it does not take it passes over."""
    return ".." not in name and "@{" not in name and all(map(_is_component, name.split("/")))


def value_of(raw: bytes) -> Oid | None:
    """Return the id that the file of a ref holds, None for anything else."""
    match = _OID.fullmatch(raw)
    return match[1].decode("ascii") if match else None


def _is_component(part: str) -> bool:
    return (
        _COMPONENT.fullmatch(part) is not None
        and not part.startswith((".", "-"))
        and not part.endswith((".", ".lock"))
    )


def quoted(raw: bytes) -> str:
    """Return the beginning of what is no ref, as text."""
    return f'"{raw[:60].rstrip().decode("latin-1").encode("unicode_escape").decode("ascii")}"'


class Refs:
    """The refs of one repository."""

    def __init__(self, gitdir: str) -> None:
        self.gitdir = gitdir

    def read(self, name: str) -> Oid | None:
        """Return the commit a ref names, None if there is no such ref."""
        check_name(name)
        self.refuse_links(name)
        raw = read_regular(f"{self.gitdir}/{name}", 4096)
        if raw is None:
            return self._packed(name)
        value = value_of(raw)
        if value is None:
            raise Corrupt(
                f"{name} does not hold a commit id but {quoted(raw)}",
                hint="Call a person: the reflog and other clones know the last value.",
                ref=name,
            )
        return value

    def names(self, prefix: str) -> list[str]:
        """Return the refs below a prefix such as `refs/gfs`, in order; other files are none."""
        raw = read_regular(f"{self.gitdir}/packed-refs", _PACKED_LIMIT) or b""
        lines = (line.partition(b" ") for line in raw.split(b"\n") if line[:1] not in b"#^")
        packed = {os.fsdecode(name) for _, _, name in lines}
        found = {name for name in packed if name.startswith(f"{prefix}/")} | {*self._loose(prefix)}
        return sorted(name for name in found if _is_name(name))

    def _loose(self, folder: str) -> Iterator[str]:
        path = f"{self.gitdir}/{folder}"
        with reported("list", path):
            try:
                names = calls.listdir(path)
            except (FileNotFoundError, NotADirectoryError):
                return
        for name in names:
            info = lstat_or_none(f"{path}/{name}")
            if info is not None and stat.S_ISDIR(info.st_mode):
                yield from self._loose(f"{folder}/{name}")
            elif info is not None:
                yield f"{folder}/{name}"

    def refuse_links(self, name: str) -> None:
        """Refuse a ref whose folder is a symbolic link: it would be another repository's."""
        folders = name.split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            path = "/".join([self.gitdir, *folders[:depth]])
            with reported("look at", path):
                info = lstat_or_none(path)
            if info is None:
                return
            if stat.S_ISLNK(info.st_mode):
                raise Corrupt(f"{path} is a symbolic link", hint="Call a person.", path=path)

    def _packed(self, name: str) -> Oid | None:
        raw = read_regular(f"{self.gitdir}/packed-refs", _PACKED_LIMIT)
        if raw is None:
            return None
        wanted = b" " + name.encode()
        for line in raw.split(b"\n"):
            if line.endswith(wanted) and line[:1] not in (b"#", b"^"):
                match = _OID.fullmatch(line.removesuffix(wanted))
                if match is None or len(line) != 40 + len(wanted):
                    raise Corrupt(
                        f"packed-refs does not parse: {quoted(line)}",
                        hint="Call a person.",
                    )
                return match[1].decode("ascii")
        return None
