"""Snapshots of a partition in a queue of their own, for proxies that start.

A snapshot is a series of records, each with rows of the state, or with a piece of a long one; the
last one says how many there are, and has a checksum. Proxies may write snapshots at once: each has
an id. A record that comes twice, and a series without its end, are ignored. See ``StateCopy`` for
what is checked besides.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, final

import msgspec
import trio

from lanemq.storage.kv import Frozen, KvMeta, MemoryTable, StateCopy, read_rows
from lanemq.wire import RemoteProtocolError

from ._partition import LastRecord
from ._queue import LogQueue, NotYet, Stored

PART_BYTES: Final = 1 << 20
PART_BYTES_MIN: Final = 4 << 10
"""Parts are as short as this where the upstream broker takes no longer records."""
SUM_BYTES: Final = 16
OPEN_MAX: Final = 4
"""Series that are read at once; more proxies hardly write at the same time."""
SERIES_BYTES_MAX: Final = 1 << 30
PROPERTIES: Final = b"kv_opType\x01snapshot"


@final
class SnapshotPart(msgspec.Struct, frozen=True, array_like=True):
    """The body of a record."""

    id: str
    position: int
    """Number of records of the log that are in the snapshot."""
    index: int
    """Number of the part, from 0."""
    rows: list[tuple[bytes, bytes]]
    count: int = 0
    """In the last part: the number of parts."""
    checksum: bytes = b""
    """In the last part: a hash of the bodies of all others, in their order."""
    last: LastRecord | None = None
    """In the last part: the last record of the log that is in the snapshot."""
    told_ms: int = 0
    """In the last part: the time of the log."""
    told_stored_ms: int = 0
    """In the last part: when the record that told it was stored."""
    goes_on: bool = False
    """True where the next part begins with more of the last row here, under the same key."""
    birth: str = ""
    """In the last part: the birth of the log; earlier versions leave it out."""


@final
class Snapshot(NamedTuple):
    """A snapshot that is whole."""

    id: str
    position: int
    table: MemoryTable
    last: LastRecord
    told_ms: int
    told_stored_ms: int
    birth: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(SnapshotPart)


def snapshot_parts(
    frozen: Frozen,
    snapshot_id: str,
    *,
    last: LastRecord,
    told_ms: int,
    told_stored_ms: int,
    birth: str = "",
    part_bytes: int = PART_BYTES,
) -> Iterator[bytes]:
    """Yield the bodies of a snapshot's records; each takes a share of a turn of the loop.

    None has more than ``part_bytes`` of keys and rows, and some hundred bytes besides, but where a
    key alone has more.
    """
    position, index = frozen.meta.next, 0
    checksum = blake2b(digest_size=SUM_BYTES)
    for rows, goes_on in _rows(frozen, part_bytes):
        part = SnapshotPart(snapshot_id, position, index, rows, goes_on=goes_on)
        body = _ENCODER.encode(part)
        checksum.update(body)
        index += 1
        yield body
    yield _ENCODER.encode(
        SnapshotPart(
            snapshot_id,
            position,
            index,
            [],
            index + 1,
            checksum.digest(),
            last,
            told_ms,
            told_stored_ms,
            birth=birth,
        )
    )


def _rows(frozen: Frozen, part_bytes: int) -> Iterator[tuple[list[tuple[bytes, bytes]], bool]]:
    """Yield the rows of each part, and whether the last one goes on in the next."""
    cursor: bytes | None = None
    while True:
        page = read_rows(frozen, cursor)
        part: list[tuple[bytes, bytes]] = []
        size_bytes = 0
        for key, row in page.rows:
            if part and size_bytes + len(key) + len(row) > part_bytes:
                yield part, False
                part, size_bytes = [], 0
            room_bytes = max(PART_BYTES_MIN // 2, part_bytes - len(key))
            begin = 0
            while len(row) - begin > room_bytes:
                yield [(key, row[begin : begin + room_bytes])], True
                begin += room_bytes
            part.append((key, row[begin:]))
            size_bytes += len(key) + len(row) - begin
        if part:
            yield part, False
        cursor = page.cursor
        if cursor is None:
            return


@final
class _Series:
    """The parts of a snapshot that have come so far."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.bodies: dict[int, bytes] = {}
        self.size_bytes = 0


@final
class SnapshotReader:
    """Finds the latest whole snapshot among records, which are given in order."""

    def __init__(self) -> None:
        self._open: dict[str, _Series] = {}
        self.found: dict[str, tuple[SnapshotPart, list[bytes]]] = {}
        """The latest two whole series: last part, and the bodies of the others."""

    def add(self, stored: Stored) -> None:
        """Take a record; one that is no part of a snapshot is ignored."""
        try:
            part = _DECODER.decode(stored.body)
        except msgspec.MsgspecError:
            return
        series = self._open.get(part.id)
        if series is None:
            if part.index or part.id in self.found:
                return
            if len(self._open) >= OPEN_MAX:
                del self._open[next(iter(self._open))]
            series = self._open[part.id] = _Series(part.position)
        if part.position != series.position:
            return
        if not part.count:
            if part.index not in series.bodies:
                series.bodies[part.index] = stored.body
                series.size_bytes += len(stored.body)
                if series.size_bytes > SERIES_BYTES_MAX:
                    del self._open[part.id]
            return
        del self._open[part.id]
        bodies = [series.bodies[index] for index in sorted(series.bodies)]
        checksum = blake2b(b"".join(bodies), digest_size=SUM_BYTES).digest()
        if len(bodies) + 1 != part.count or checksum != part.checksum or part.last is None:
            return
        self.found[part.id] = part, bodies
        while len(self.found) > 2:
            del self.found[min(self.found, key=lambda one: self.found[one][0].position)]

    def ids(self) -> list[str]:
        """Return the snapshots, those of the longest logs first."""
        return sorted(self.found, key=lambda one: -self.found[one][0].position)

    def position_of(self, snapshot_id: str) -> int:
        """Return the number of records of the log that are in a snapshot."""
        return self.found[snapshot_id][0].position

    async def restore(self, snapshot_id: str, of: tuple[int, int]) -> Snapshot:
        """Make the state of a snapshot, a part in each turn of the loop.

        ``of`` is the partition, and how many there are. Raises ``RemoteProtocolError`` for rows
        that are not those of a state.
        """
        end, bodies = self.found[snapshot_id]
        table = MemoryTable({})
        copy = StateCopy(table)
        begun: list[bytes] = []
        for body in bodies:
            part = _DECODER.decode(body)
            rows = part.rows
            if begun and rows:
                rows[0] = rows[0][0], b"".join((*begun, rows[0][1]))
                begun = []
            if part.goes_on and rows:
                begun.append(rows.pop()[1])
            copy.put(rows)
            await trio.lowlevel.checkpoint()
        copy.finish(KvMeta(first=end.position, partition=of[0], partitions=of[1]))
        if end.last is None:
            raise RemoteProtocolError("the snapshot does not say what the last record was")
        return Snapshot(
            snapshot_id,
            end.position,
            table,
            end.last,
            end.told_ms,
            end.told_stored_ms,
            end.birth,
        )


async def read_snapshots(queue: LogQueue) -> SnapshotReader:
    """Read all that is in a queue of snapshots. Raises ``NotYet``."""
    reader, offset = SnapshotReader(), 0
    while True:
        pulled = await queue.pull(offset, wait_s=0.0)
        for stored in pulled.records:
            reader.add(stored)
            offset = stored.offset + 1
        if pulled.records:
            continue
        if offset >= pulled.end:
            return reader
        if offset >= pulled.begin:
            raise NotYet(f"the snapshots end at {pulled.end}, and record {offset} is not given")
        offset = pulled.begin
