"""The file of a namespace's snapshot, which exports write and imports read.

::

    "lanekvs" version (1 byte)
    block*      length (4 bytes, big-endian) and msgpack; the first is the header, a map,
                the others are arrays of entries
    0           (4 bytes)
    trailer     count of entries (8 bytes) and a BLAKE2b of 32 bytes over all that is before it
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, final

import msgspec

from .._errors import RemoteProtocolError
from ._names import OPERATION_BYTES_MAX
from ._operations import LoadedEntry, decode_load, encode_load

MAGIC: Final = b"lanekvs"
VERSION: Final = 1
LENGTH_BYTES: Final = 4
COUNT_BYTES: Final = 8
SUM_BYTES: Final = 32


@final
class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The subject of a snapshot."""

    namespace: str
    position: int
    """Number of records of the namespace's log that are in it, of all partitions together."""
    clock_ms: int
    """The time of the log, in milliseconds since 1970."""
    positions: list[int] = []
    """The number of each partition's records, in a namespace of several."""


@final
class SnapshotWriter:
    """Makes the bytes of a snapshot, block by block; ``write`` takes them."""

    def __init__(self, write: Callable[[bytes], object], header: SnapshotHeader) -> None:
        self._write = write
        self._sum = blake2b(digest_size=SUM_BYTES)
        self.count = 0
        """Number of entries so far."""
        self._put(MAGIC + bytes((VERSION,)))
        self._block(msgspec.msgpack.encode(header))

    def add(self, entries: Sequence[LoadedEntry]) -> None:
        """Write entries."""
        if entries:
            self.count += len(entries)
            self._block(encode_load(entries))

    def finish(self) -> str:
        """Write the trailer; returns the checksum in hexadecimal."""
        self._put(bytes(LENGTH_BYTES) + self.count.to_bytes(COUNT_BYTES, "big"))
        digest = self._sum.digest()
        self._write(digest)
        return digest.hex()

    def _block(self, data: bytes) -> None:
        self._put(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    def _put(self, data: bytes) -> None:
        self._sum.update(data)
        self._write(data)


@final
class SnapshotReader:
    """Reads a snapshot; ``read`` returns the number of bytes asked for, or fewer at the end.

    Raises ``RemoteProtocolError`` for what is not a snapshot, one of a later version, and one that
    is cut off or whose checksum does not match: that is known only once all blocks are read.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._sum = blake2b(digest_size=SUM_BYTES)
        head = self._take(len(MAGIC) + 1)
        if not head.startswith(MAGIC):
            raise RemoteProtocolError("it is not a snapshot of keys")
        if head[-1] != VERSION:
            raise RemoteProtocolError(
                f"the snapshot has version {head[-1]}, and only {VERSION} can be read: it was "
                "written by a later lanemq"
            )
        block = self._block()
        try:
            self.header = msgspec.msgpack.decode(block or b"", type=SnapshotHeader)
            """The subject of the snapshot."""
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"the snapshot's header cannot be read: {error}") from error
        self.checksum = ""
        """The checksum in hexadecimal, once all blocks are read."""

    def blocks(self) -> Iterator[list[LoadedEntry]]:
        """Iterate over the entries, many at a time."""
        count = 0
        while (block := self._block()) is not None:
            entries = decode_load(block)
            count += len(entries)
            yield entries
        expected = int.from_bytes(self._take(COUNT_BYTES), "big")
        digest = self._sum.digest()
        if self._read(SUM_BYTES) != digest:
            raise RemoteProtocolError("the snapshot is damaged: its checksum does not match")
        if self._read(1) or count != expected:
            raise RemoteProtocolError("the snapshot is damaged: its count of entries is wrong")
        self.checksum = digest.hex()

    def _block(self) -> bytes | None:
        size = int.from_bytes(self._take(LENGTH_BYTES), "big")
        if size > OPERATION_BYTES_MAX:
            raise RemoteProtocolError(f"the snapshot is damaged: it has a block of {size} bytes")
        return self._take(size) if size else None

    def _take(self, size_bytes: int) -> bytes:
        data = self._read(size_bytes)
        if len(data) < size_bytes:
            raise RemoteProtocolError("the snapshot is cut off")
        self._sum.update(data)
        return data
