"""The commit log: every message of the broker, one after another.

Source: RocketMQ 4.9.8, CommitLog, of which this is the part that writes and reads bytes.
"""

from typing import Final, final

from lanemq.wire.message import MAGIC_BLANK

from .._layouts import BLANK_HEADER_BYTES
from ._segments import Segments
from ._tail_cache import TailCache

MAGIC_BLANK_BYTES: Final = MAGIC_BLANK.to_bytes(4, "big", signed=True)


@final
class CommitLog:
    """The log, written by one task. Readers see it up to ``end``; the next record goes to ``next``.

    Records between the two are in ``pending`` until ``commit`` writes them.
    """

    __slots__ = ("_batches", "_tail", "end", "file_end", "next", "pending", "segments")

    def __init__(self, segments: Segments, *, tail_cache_bytes: int) -> None:
        self.segments = segments
        self._tail = TailCache(tail_cache_bytes)
        self.pending: list[bytes] = []
        self._batches: list[tuple[int, list[bytes]]] = []  # of files that were filled meanwhile
        self.end = 0
        self.next = 0
        self.file_end = 0

    @property
    def min_position(self) -> int:
        """Position of the first byte that a file holds; -1 without files."""
        return self.segments.begin if len(self.segments) else -1

    def start_at(self, position: int) -> None:
        """Set the end of the log that recovery found."""
        self.end = self.next = position
        self.file_end = self.segments.end_of(position)

    def room(self, size_bytes: int) -> int:
        """Find room for a record or a whole batch; return its position: ``next``, or the next file.

        A record that does not fit with an end-of-file header behind it begins a new file.
        """
        if size_bytes + BLANK_HEADER_BYTES > self.file_end - self.next:
            rest_bytes = self.file_end - self.next
            if rest_bytes:
                self.pending.append(rest_bytes.to_bytes(4, "big") + MAGIC_BLANK_BYTES)
                self._batches.append((self._pending_start(), self.pending))
                self.pending = []
            self.next = self.file_end
            self.file_end += self.segments.file_bytes
        return self.next

    def _pending_start(self) -> int:
        # All of a batch but a blank header's unspecified rest lies in one piece.
        if not self._batches:
            return self.end
        last_start, _ = self._batches[-1]
        return self.segments.end_of(last_start)

    def commit(self) -> None:
        """Write what is pending, with one call but where a file was filled.

        Raises ``OSError``: then nothing is pending any more, ``next`` is back at ``end`` and
        the bytes behind ``end`` are zeros again, if the disk lets us.
        """
        batches = self._batches
        if self.pending:
            batches.append((self._pending_start(), self.pending))
        done = []
        try:
            for start, parts in batches:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                self.segments.write(start, data)
                done.append((start, data))
        except OSError:
            self.pending = []
            self._batches = []
            self.start_at(self.end)
            self.erase_rest()
            raise
        for start, data in done:
            self._tail.append(start, data)
        self.pending = []
        batches.clear()
        self.end = self.next

    def erase_rest(self) -> None:
        """Zero the bytes behind ``end``, so that half of a failed write is not taken for
        records."""
        if len(self.segments):
            self.segments.erase(self.end)

    def probe(self, size_bytes: int) -> None:
        """Write zeros behind ``end``, where they change nothing. Raises ``OSError``."""
        room = self.segments.end_of(self.end) - self.end
        self.segments.write(self.end, bytes(min(size_bytes, room)))

    def read(self, position: int, size_bytes: int) -> bytes | None:
        """Return bytes below ``end``; None where the log no longer has all of them."""
        if position + size_bytes > self.end or size_bytes <= 0:
            return None
        data = self._tail.read(position, size_bytes)
        if data is None:
            data = self.segments.read(position, size_bytes)
            if len(data) < size_bytes:
                return None
        return data

    def make_spare(self) -> None:
        """Make the file behind the one in use, so that no message waits for it."""
        if len(self.segments) and self.segments.capacity_end == self.segments.end_of(self.end):
            self.segments.make(self.segments.capacity_end)

    def remove_spare(self) -> None:
        """Remove the unused file that ``make_spare`` made; a file always stays."""
        self.segments.remove_behind(max(self.end, self.segments.begin + 1))
