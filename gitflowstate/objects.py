"""Git objects on disk: loose ones read and written durably, packed ones looked up.

Rules: what is read is checked against its id, and never inflated past the limit of the caller;
what is written goes to a private name, is synced, and is renamed over the final one *always*, so
that an empty file which a power cut left there heals (architecture, write protocol, step 4).
"""

from __future__ import annotations

import errno
import hashlib
import zlib
from typing import TYPE_CHECKING

from gitflowstate.errors import Corrupt
from gitflowstate.syscalls import (
    CREATE_FLAGS,
    calls,
    fsync_folder,
    random_name,
    read_regular,
    remove_quietly,
    reported,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitflowstate.gitconfig import Modes
    from gitflowstate.packs import Packs

Oid = str

_HEADER_MAX = 32  # "commit 18446744073709551615\0" fits
_JUDGED = 64 << 20  # bytes of an object that is looked at only to be judged
_LEVEL = 1  # Git's own level for loose objects: speed


def object_id(kind: str, body: bytes) -> Oid:
    """Return the id that Git gives to an object."""
    return hashlib.sha1(header(kind, body) + body, usedforsecurity=False).hexdigest()


def header(kind: str, body: bytes) -> bytes:
    """Return the bytes that stand before the body of a stored object."""
    return f"{kind} {len(body)}\0".encode("ascii")


def flaw(oid: Oid, path: str) -> str | None:
    """Return what is wrong with the file of a loose object, None for nothing that can be seen.

    One that is gone, or larger than what is read at once, is not judged.
    """
    try:
        raw = read_regular(path, _JUDGED)
        if raw is None:
            return None
        kind, body = _inflate(oid, raw, _JUDGED)
    except Corrupt as error:
        return None if is_large(error) else error.message.rpartition(": ")[2]
    return None if object_id(kind, body) == oid else "its content has another id"


def is_large(error: Corrupt) -> bool:
    """Tell whether an object was only too large to be read, and may well be whole."""
    return "more than" in error.message


class Objects:
    """The object folder of one repository."""

    def __init__(self, folder: str, modes: Modes) -> None:
        self._folder = folder
        self._modes = modes
        self._packs: Packs | None = None

    def read(self, oid: Oid, kind: str, limit: int) -> bytes:
        """Return the body of an object; missing, broken, too large or another kind is Corrupt."""
        found, body = self._find(oid, limit)
        if found != kind:
            raise Corrupt(f"object {oid} is a {found}, not a {kind}", hint="Call a person.")
        if object_id(found, body) != oid:
            raise _broken(oid, "its content has another id")
        return body

    def kind(self, oid: Oid, limit: int) -> str:
        """Return what an object is; missing, broken or too large is Corrupt."""
        found, body = self._find(oid, limit)
        if object_id(found, body) != oid:
            raise _broken(oid, "its content has another id")
        return found

    def contains(self, oid: Oid) -> bool:
        """Return whether an object is stored, without reading it."""
        with reported("look at", self._path(oid)):
            try:
                calls.lstat(self._path(oid))
            except FileNotFoundError:
                return self._open_packs().contains(oid)
            return True

    def close(self) -> None:
        """Close the packs that were opened; they open again by themselves."""
        if self._packs is not None:
            self._packs.close()
            self._packs = None

    def _path(self, oid: Oid) -> str:
        return f"{self._folder}/{oid[:2]}/{oid[2:]}"

    def _find(self, oid: Oid, limit: int) -> tuple[str, bytes]:
        broken: Corrupt | None = None
        # The second round: a repack moved it between our look here and our look there.
        for _ in range(2):
            try:
                raw = read_regular(self._path(oid), limit + limit // 512 + 1024)
                if raw is not None:
                    return _inflate(oid, raw, limit)
            except Corrupt as error:
                broken = error  # a good packed copy is as good: ids are of content
            if (packed := self._open_packs().read(oid, limit)) is not None:
                return packed
            if broken:
                raise broken
        raise Corrupt(
            f"object {oid} is missing",
            hint="Call a person: fetch it from a clone that has it.",
            oid=oid,
        )

    def _open_packs(self) -> Packs:
        if self._packs is None:
            from gitflowstate.packs import Packs  # noqa: PLC0415  start-up: most objects are loose

            self._packs = Packs(f"{self._folder}/pack")
        return self._packs

    def write(self, objects: Mapping[Oid, bytes]) -> None:
        """Store objects (id to header and body) so that they survive a power cut.

        One fsync for each object, then one for each folder touched.
        """
        touched: dict[str, list[Oid]] = {}
        for oid, raw in objects.items():
            folder = f"{self._folder}/{oid[:2]}"
            if self._store(folder, oid[2:], zlib.compress(raw, _LEVEL)):
                touched.setdefault(self._folder, [])
            touched.setdefault(folder, []).append(oid)
        for folder, oids in touched.items():
            self._sync(folder, oids)

    def _store(self, folder: str, name: str, data: bytes) -> bool:
        """Write one object; return whether its folder had to be made."""
        temporary = f"{folder}/{random_name('tmp_obj_')}"
        made = False
        with reported("write", temporary):
            descriptor, made = self._create(folder, temporary)
            try:
                try:
                    write_all(descriptor, data)
                    self._modes.file(descriptor, 0o444)
                    calls.fsync(descriptor)
                finally:
                    calls.close(descriptor)
                calls.rename(temporary, f"{folder}/{name}")
            except BaseException:
                remove_quietly(temporary)
                raise
        return made

    def _create(self, folder: str, temporary: str) -> tuple[int, bool]:
        try:
            return calls.open(temporary, CREATE_FLAGS, 0o444), False
        except FileNotFoundError:
            pass
        # `git gc` removes an empty folder at any moment: make it, and once more.
        for last in (False, True):
            try:
                calls.mkdir(folder, 0o777)
                self._modes.folder(folder)
            except FileExistsError:
                pass
            try:
                return calls.open(temporary, CREATE_FLAGS, 0o444), True
            except FileNotFoundError:
                if last:
                    raise
        raise FileNotFoundError(errno.ENOENT, "folder vanishes", folder)

    def _sync(self, folder: str, oids: list[Oid]) -> None:
        with reported("sync", folder):
            try:
                fsync_folder(folder)
            except FileNotFoundError:
                # `git maintenance` heeds no gc.pid: it packs, durably, and removes what is empty.
                self.close()  # a pack that is still open may be gone itself
                if not all(map(self.contains, oids)):
                    raise


class Incoming(Objects):
    """The objects of a repository, and those of a push into it that nobody has accepted yet."""

    def __init__(self, folder: str, modes: Modes, incoming: str) -> None:
        super().__init__(folder, modes)
        self._incoming = Objects(incoming, modes)

    def read(self, oid: Oid, kind: str, limit: int) -> bytes:
        """Return the body of an object, wherever it is."""
        if self._incoming.contains(oid):
            return self._incoming.read(oid, kind, limit)
        return super().read(oid, kind, limit)

    def contains(self, oid: Oid) -> bool:
        """Return whether an object is in either place."""
        return self._incoming.contains(oid) or super().contains(oid)

    def close(self) -> None:
        """Close the packs of both."""
        self._incoming.close()
        super().close()


def _broken(oid: Oid, why: str) -> Corrupt:
    return Corrupt(
        f"object {oid} is corrupt: {why}",
        hint="Call a person: fetch it from a clone that has it.",
        oid=oid,
    )


def _inflate(oid: Oid, raw: bytes, limit: int) -> tuple[str, bytes]:
    """Return kind and body of a loose object."""
    if not raw:
        raise _broken(oid, "the file is empty")
    engine = zlib.decompressobj()
    try:
        start = engine.decompress(raw, _HEADER_MAX)
        head, nul, body = start.partition(b"\0")
        kind, _, size_text = head.decode("ascii").partition(" ")
        size = int(size_text)
        if not nul:
            raise _broken(oid, "it has no header")
        if size > limit:
            raise Corrupt(
                f"object {oid} is too large: {size} bytes are more than {limit}",
                hint="Ask a person to revert the commit that added it.",
                oid=oid,
            )
        if size > len(body):
            body += engine.decompress(engine.unconsumed_tail, size - len(body))
        # One byte more than declared: the end of the stream is only seen by asking for it.
        extra = engine.decompress(engine.unconsumed_tail, 1)
    except (zlib.error, ValueError) as error:
        raise _broken(oid, "it does not decode") from error
    if extra or len(body) != size or not engine.eof or engine.unused_data:
        raise _broken(oid, "its size is not the declared one")
    return kind, body
