"""Answers whose messages stay in the log until there is room to send them.

A message may have megabytes, and any number of consumers may wait for the same one. Each of
their answers is the bytes in front of the stored ones, and where in the log those are: they
are read in pieces, when the peer takes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, final

LARGE_BYTES: Final = 128 << 10
"""Least bytes of a record for a stored answer; a pull of several records has at most twice that."""

_CHUNK_BYTES: Final = 256 << 10
_POSITION_AT: Final = 28  # of a record: its own position in the log, i64
_REWRITTEN_BYTES: Final = 1024
"""Position in a record before which its reader may be given other bytes."""

ReadLog = Callable[[int, int], bytes | None]
"""Reads a number of bytes of the log from a position on; None where it does not have them."""


class RecordGone(Exception):  # noqa: N818 - says what happened
    """The record was removed from the log before its reader had taken it."""


@final
@dataclass(eq=False, repr=False, slots=True)
class StoredReply:
    """An encoded answer whose ``len`` counts all of its bytes, wherever they are."""

    _head: bytes
    _read: ReadLog
    _position: int
    stored_bytes: int
    """Number of bytes that are in the log only."""

    def __len__(self) -> int:
        return len(self._head) + self.stored_bytes

    def chunks(self) -> Iterator[bytes]:
        """Iterate over the answer in pieces, the first without anything of the log. Raises
        ``RecordGone``."""
        yield self._head
        position, end = self._position, self._position + self.stored_bytes
        while position < end:
            chunk = self._read(position, min(_CHUNK_BYTES, end - position))
            if chunk is None:
                raise RecordGone(f"the log no longer has position {position}")
            yield chunk
            position += len(chunk)

    def whole(self) -> bytes:
        """Return the whole answer. Raises ``RecordGone``."""
        return b"".join(self.chunks())


def stored_reply(reply: bytes, record: bytes, read: ReadLog) -> bytes | StoredReply:
    """Make a stored reply of ``reply``, which ends with ``record``, perhaps rewritten for its
    reader.

    Only fields near the record's beginning may have been rewritten. A small one is given back
    as it is, and so is one whose record has another length now, or that has several records.
    """
    if len(record) < LARGE_BYTES or int.from_bytes(record[:4], "big") != len(record):
        return reply
    tail_bytes = len(record) - _REWRITTEN_BYTES
    if not reply.endswith(record[_REWRITTEN_BYTES:]):
        return reply
    position = int.from_bytes(record[_POSITION_AT : _POSITION_AT + 8], "big", signed=True)
    return StoredReply(reply[:-tail_bytes], read, position + _REWRITTEN_BYTES, tail_bytes)
