"""What a process writes, kept on disk up to a cap: its first part and its last, and how much.

Rules: every byte is counted, and taken whatever the disk says; what lies between the two parts is
dropped, and the names of the files say where. Each file `output.<offset>` holds a stretch of the
output from that offset on. Standard library alone, and cheap: a supervisor imports it.
"""

from __future__ import annotations

import posix as os  # `os` itself is a tenth of what a supervisor costs

SEGMENT = 4 << 20  # bytes of one file; the first is kept, and of the others the last ones
PREFIX = "output."
LAZY_S = 0.25  # a torrent of output reaches the disk so often, and not every byte of it
_EAGER = 1 << 16


class Capture:
    """Keeps the output of one process in its folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.total = 0
        self.problem = ""
        self._kept = 0
        self._pending: list[bytes] = []
        self.waiting = 0  # bytes that are not on the disk yet
        self._segments: list[tuple[int, int]] = []  # offset and size
        self._file = -1
        self._flushed = 0.0

    @property
    def truncated(self) -> bool:
        """Tell whether not all of the output is kept."""
        return self._kept + self.waiting < self.total

    @property
    def due(self) -> float:
        """Return when what is in memory shall be on the disk (monotonic clock); 0 if all is."""
        return self._flushed + LAZY_S if self.waiting else 0.0

    def take(self, data: bytes, now: float) -> None:
        """Take some output; `now` is by the monotonic clock."""
        self.total += len(data)
        self._pending.append(data)
        self.waiting += len(data)
        is_first_part = self.total - self.waiting < SEGMENT
        if self.due <= now or (self.waiting >= _EAGER and is_first_part):
            self.flush(now)
        while self.waiting - len(self._pending[0] if self._pending else b"") > SEGMENT:
            self.waiting -= len(self._pending.pop(0))

    def flush_due(self, now: float) -> None:
        """Write what is still in memory if its time has come."""
        if self.waiting and self.due <= now:
            self.flush(now)

    def flush(self, now: float) -> None:
        """Write what is still in memory."""
        self._flushed = now
        offset = self.total - self.waiting
        for data in self._pending:
            self._write(data, offset)
            offset += len(data)
        self._pending.clear()
        self.waiting = 0

    def _write(self, data: bytes, offset: int) -> None:
        try:
            self._turn_to(offset)
            view = memoryview(data)
            while view:
                written = os.write(self._file, view)
                view = view[written:]
                self._grow(written)
        except OSError as error:
            # The next piece gets a file of its own: there is a gap before it.
            self.problem = self.problem or os.strerror(error.errno or 0)
            self._give_up()

    def _turn_to(self, offset: int) -> None:
        """Have the file open to which the byte at the offset goes."""
        if self._file >= 0:
            begin, size = self._segments[-1]
            if begin + size == offset and size < SEGMENT:
                return
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(f"{self.folder}/{PREFIX}{offset:015d}", flags, 0o644)
        self._segments.append((offset, 0))
        self._prune()

    def _grow(self, count: int) -> None:
        begin, size = self._segments[-1]
        self._segments[-1] = begin, size + count
        self._kept += count

    def _prune(self) -> None:
        """Drop the oldest after the first, as long as the rest is a whole segment."""
        while sum(size for _, size in self._segments[2:]) >= SEGMENT:
            begin, size = self._segments.pop(1)
            self._kept -= size
            os.unlink(f"{self.folder}/{PREFIX}{begin:015d}")

    def _give_up(self) -> None:
        self.close()
        if self._segments and self._segments[-1][1] == 0:
            offset, _ = self._segments.pop()
            os.unlink(f"{self.folder}/{PREFIX}{offset:015d}")

    def close(self) -> None:
        """Close the file that is open."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
