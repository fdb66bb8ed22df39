"""Packed objects, looked up through dulwich while others repack.

Rules: an entry's declared sizes are checked before anything is inflated (a delta may promise
gigabytes in a few bytes); an object that is not found is looked for once more in a fresh listing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.object_format import SHA1
from dulwich.objects import ObjectID, RawObjectID
from dulwich.pack import OFS_DELTA, REF_DELTA, apply_delta, load_pack_index, unpack_object

from gitflowstate.errors import Corrupt, GfsError
from gitflowstate.syscalls import READ_FLAGS, calls, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dulwich.pack import PackIndex

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_MAX_CHAIN = 4095  # Git's own bound
_CHAIN_BYTES = 64 << 20
_SIZE_BYTES = 10  # a 64-bit size takes ten groups of seven bits


class _Entry(NamedTuple):
    kind: int
    base: int | bytes | None
    data: bytes


class _Pack:
    """One pack and its index, both opened at once: a repack may remove them at any moment."""

    def __init__(self, stem: str) -> None:
        self.path = f"{stem}.pack"
        self._descriptor = calls.open(self.path, READ_FLAGS)
        try:
            self._index: PackIndex = load_pack_index(f"{stem}.idx", SHA1)
        except BaseException:
            calls.close(self._descriptor)
            raise

    def close(self) -> None:
        self._index.close()
        calls.close(self._descriptor)

    def offset(self, oid: bytes) -> int | None:
        try:
            return self._index.object_offset(ObjectID(oid))
        except KeyError:
            return None

    def object_at(self, offset: int, limit: int) -> tuple[str, bytes]:
        deltas: list[bytes] = []
        left = _CHAIN_BYTES
        while True:
            entry = self._entry(offset, min(left, max(limit, _CHAIN_BYTES // 4)))
            left -= len(entry.data)
            base = entry.base
            if base is None:
                break
            deltas.append(entry.data)
            if len(deltas) > _MAX_CHAIN:
                raise Corrupt(f"a delta chain in {self.path} has no end", hint="Call a person.")
            offset = (
                offset - base
                if isinstance(base, int)
                else self._index.object_offset(RawObjectID(base))
            )
        data = entry.data
        for delta in reversed(deltas):
            self._check(_delta_size(delta), max(limit, _CHAIN_BYTES // 4))
            data = b"".join(apply_delta(data, delta))
        self._check(len(data), limit)
        return _KINDS[entry.kind], data

    def _check(self, size: int, limit: int) -> None:
        if size > limit:
            raise Corrupt(
                f"an object in {self.path} has {size} bytes, more than {limit}",
                hint="Ask a person to revert the commit that added it.",
            )

    def _entry(self, offset: int, limit: int) -> _Entry:
        size, _ = _varint(calls.pread(self._descriptor, _SIZE_BYTES, offset), 4)
        self._check(size, limit)
        unpacked, _ = unpack_object(self._reader(offset), hashlib.sha1)
        kind = unpacked.pack_type_num
        if kind not in _KINDS and kind not in (OFS_DELTA, REF_DELTA):
            raise Corrupt(f"an object in {self.path} has no known kind", hint="Call a person.")
        return _Entry(kind, unpacked.delta_base, b"".join(unpacked.decomp_chunks))

    def _reader(self, offset: int) -> Callable[[int], bytes]:
        position = offset

        def read(size: int) -> bytes:
            nonlocal position
            data = calls.pread(self._descriptor, size, position)
            position += len(data)
            return data

        return read


def _varint(data: bytes, first_bits: int) -> tuple[int, int]:
    """Return a size of seven bits a byte (the first may have fewer), and how long it was."""
    size, shift = data[0] & ((1 << first_bits) - 1), first_bits
    used = 1
    while data[used - 1] & 0x80:
        size |= (data[used] & 0x7F) << shift
        shift += 7
        used += 1
    return size, used


def _delta_size(delta: bytes) -> int:
    """Return the size of what a delta makes: its second number."""
    _, used = _varint(delta, 7)
    size, _ = _varint(delta[used:], 7)
    return size


class Packs:
    """Every pack of one repository."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: dict[str, _Pack] = {}
        self._rescan()

    def read(self, oid: str, limit: int) -> tuple[str, bytes] | None:
        """Return kind and body of a packed object, not yet checked against its id."""
        broken: Corrupt | None = None
        for pack, offset in self._locate(oid):
            try:
                return self._read_at(pack, oid, offset, limit)
            except Corrupt as error:
                broken = error  # another pack may hold a good copy
        if broken:
            raise broken
        return None

    def _read_at(self, pack: _Pack, oid: str, offset: int, limit: int) -> tuple[str, bytes]:
        try:
            with reported("read", pack.path):
                return pack.object_at(offset, limit)
        except GfsError:
            raise
        except Exception as error:  # dulwich raises many kinds for broken bytes
            raise Corrupt(
                f"object {oid} in {pack.path} is corrupt: it does not decode",
                hint="Call a person: fetch it from a clone that has it.",
                path=pack.path,
                oid=oid,
            ) from error

    def contains(self, oid: str) -> bool:
        """Return whether an object is packed."""
        return next(self._locate(oid), None) is not None

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._open.popitem()[1].close()

    def __del__(self) -> None:
        self.close()

    def _locate(self, oid: str) -> Iterator[tuple[_Pack, int]]:
        """Yield every place of an object; the folder is listed again if none is known."""
        name = oid.encode("ascii")
        found = False
        for _ in range(2):
            for pack in list(self._open.values()):
                if (offset := pack.offset(name)) is not None:
                    found = True
                    yield pack, offset
            if found or not self._rescan():
                return

    def _rescan(self) -> bool:
        """Open the packs that are new; return whether there were any."""
        with reported("list", self._folder):
            try:
                names = calls.listdir(self._folder)
            except FileNotFoundError:
                return False
        stems = {name.removesuffix(".idx") for name in names if name.endswith(".idx")}
        new = [stem for stem in sorted(stems) if stem not in self._open and self._open_pack(stem)]
        return bool(new)

    def _open_pack(self, stem: str) -> bool:
        path = f"{self._folder}/{stem}"
        with reported("open", path):
            try:
                self._open[stem] = _Pack(path)
            except FileNotFoundError:
                return False  # repacked between the listing and the opening: look elsewhere
            except OSError:
                raise
            except Exception:  # noqa: BLE001  dulwich raises many kinds for a broken index
                return False  # its objects are missing then, and said so one by one
        return True
