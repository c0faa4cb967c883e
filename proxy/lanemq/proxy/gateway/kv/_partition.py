"""The state of one partition of keys, as the records of its upstream queue make it.

Pure: records and the time come in as arguments. The state machine is the broker's
(``lanemq.storage.kv``); a position of the log is an offset of the queue.
"""

import re
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from time import perf_counter
from typing import Final, Self, final

import msgspec

from lanemq.storage.kv import (
    META_ROW,
    TURN_S,
    KvMeta,
    KvState,
    LogRecord,
    MemoryTable,
    Outcome,
    Status,
    encode_row,
    operation_record,
    taken,
)
from lanemq.wire.kv import OpType
from lanemq.wire.message import decode_properties, encode_properties

from ...sessions.keys._checks import SHRINKING
from ._log_name import birth_of
from ._log_time import LogTime
from ._queue import Stored

RECENT_BYTES_MAX: Final = 8 << 20
"""Bytes of the latest records, which have the values of changes that watchers are told."""
RECORD_COSTS: Final = 256
"""Bytes that a record takes besides its body."""

MEMORY_BYTES_MAX: Final = 128 << 20
"""Bytes of the entries of a partition, about, beyond which proxies add none."""
ENTRY_COSTS: Final = 200
STRANGE_BYTES_MAX: Final = 2 * MEMORY_BYTES_MAX
"""Bytes beyond which no record adds anything: no proxy has written it. Whoever may write to the
upstream topic could otherwise fill the memory of all proxies."""
AHEAD_MS_MAX: Final = 10 * 365 * 86_400_000
"""Milliseconds by which a record's time may be ahead of the broker's clock at its storing: clocks
that are set make some, and no number of 15 digits is one."""

_AT_ANY_SIZE: Final = SHRINKING - {OpType.COMPACT}
"""Operations that count beyond it. A compaction makes no entries fewer, and earlier versions pass
over it there: all proxies make the same of a log."""
SNAPSHOT_PROPERTY: Final = "kv_snapshot"
"""Property of a record that says that a snapshot was written: how many records are in it."""

_SNAPSHOT: Final = SNAPSHOT_PROPERTY.encode()
_NUMBER: Final = re.compile("[0-9]{1,18}").fullmatch

WriteKey = tuple[str, int]
"""The id of a writer, and the number of the write."""
Applied = Callable[[WriteKey, Outcome, LogRecord | None], None]
"""Takes the outcome of a write, and the record that its result is of; None for one before those
that are known."""


@final
class LastRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record by which a log is known again."""

    offset: int
    digest: bytes

    @classmethod
    def of(cls, stored: Stored) -> Self:
        """Return that of a record."""
        digest = blake2b(stored.stored_ms.to_bytes(8, "big", signed=True), digest_size=16)
        digest.update(stored.body)
        digest.update(stored.properties)
        return cls(stored.offset, digest.digest())


def kept_bytes(meta: KvMeta) -> int:
    """Return the bytes of memory that a partition takes, about."""
    return meta.entry_bytes + (meta.entries + 2 * meta.leases) * ENTRY_COSTS


def snapshot_property(position: int) -> bytes:
    """Return the property of a record that says that there is a snapshot of so many records."""
    return encode_properties({SNAPSHOT_PROPERTY: str(position)}) + b"\x02"


@final
class RecentLog:
    """The latest records of a log, as many as fit into a few MiB; a ``KvLog``."""

    def __init__(self) -> None:
        self._records: deque[LogRecord] = deque()
        self._size_bytes = 0

    def add(self, record: LogRecord) -> None:
        """Keep a record, which follows the last one."""
        self._records.append(record)
        self._size_bytes += len(record.body) + RECORD_COSTS
        while self._size_bytes > RECENT_BYTES_MAX and len(self._records) > 1:
            self._size_bytes -= len(self._records.popleft().body) + RECORD_COSTS

    def bounds(self) -> tuple[int, int]:
        """Return the position of the first record that is kept, and the end."""
        if not self._records:
            return 0, 0
        return self._records[0].position, self._records[-1].position + 1

    def read(self, position: int, count: int) -> list[LogRecord]:
        """Return up to ``count`` records from a position on, which is within the bounds."""
        first, end = self.bounds()
        return [self._records[at - first] for at in range(position, min(position + count, end))]

    def time_of(self, position: int) -> int:
        """Return the log's time at a record that is within the bounds."""
        return self._records[position - self.bounds()[0]].time_ms

    def place(self, position: int) -> int | None:
        """Return None: what an upstream broker does with its log is its own affair."""
        return None


@final
class PartitionState:
    """A partition: its state, the time of its log, its latest records."""

    def __init__(
        self, partition: int = 0, partitions: int = 1, *, kept: MemoryTable | None = None
    ) -> None:
        """Begin with the rows of a snapshot, or with an empty state."""
        self._place = partition, partitions
        self._table = kept if kept is not None else self._empty(0)
        self.state = KvState(self._table)
        self.recent = RecentLog()
        self.time = LogTime()
        self._last: Stored | None = None
        """The latest record that was applied here."""
        self.restored: LastRecord | None = None
        """The last record of the snapshot that the state was made of."""
        self.snapshot: int | None = None
        """Number of records that are in the latest snapshot; None without one."""
        self.snapshot_ms = 0
        """The time of the log when it was written; without one, at the first record."""
        self.bytes_since = 0
        """Bytes of the records that were applied since then."""
        self.birth = ""
        """The birth of the log, which outlives a drop of the namespace; empty before the first
        record."""
        self.is_birth_told = True
        """False where the latest snapshot is of an earlier version, and does not say the birth."""

    def _empty(self, position: int) -> MemoryTable:
        partition, partitions = self._place
        meta = KvMeta(
            next=position, changes_from=position, partition=partition, partitions=partitions
        )
        return MemoryTable({META_ROW: encode_row(meta)})

    @property
    def last(self) -> LastRecord | None:
        """The latest record that was applied; None in an empty log."""
        return self.restored if self._last is None else LastRecord.of(self._last)

    @property
    def is_untouched(self) -> bool:
        """True if nothing was applied since the start."""
        return self._last is None

    def restore(
        self,
        last: LastRecord,
        *,
        told_ms: int,
        told_stored_ms: int,
        now_s: float,
        birth: str,
        first: str,
    ) -> None:
        """Take over what a snapshot says besides its rows.

        One of an earlier version says no ``birth``. Then it is that by the first record, and the
        identity of the namespace where that is gone, at all proxies: the next snapshot says it.
        """
        self.birth, self.is_birth_told = birth or first or self.state.meta.identity, bool(birth)
        self.restored = last
        self.snapshot, self.snapshot_ms = self.next, told_ms
        if told_ms:
            self.time.told(told_ms, told_stored_ms, now_s)

    @property
    def rows_bytes(self) -> int:
        """Bytes of memory that the rows of the state take, about."""
        return self._table.size_bytes

    @property
    def next(self) -> int:
        """The offset of the record to apply next."""
        return self.state.meta.next

    def apply(
        self, records: deque[Stored], now_s: float, applied: Applied, *, writer: str = ""
    ) -> None:
        """Apply records from the left, one at least, until the turn is over.

        ``applied`` is called for each write that has a writer. ``writer`` is the id of this
        proxy: the storing of its records without a time tells it the time that has passed.
        """
        until_s = perf_counter() + TURN_S
        told = []
        for stored in taken(until_s, records, lambda: self.state.is_enough):
            assert stored.offset == self.next, "records are applied one after another"
            record = self._record(stored)
            if self.state.meta.deleted and record.identity:
                # A namespace that was deleted begins again with the record of a new identity.
                self.state.write()
                self._table = self._empty(stored.offset)
                self.state = KvState(self._table)
            outcome = self.state.apply(record)
            if not stored.offset:
                self.birth = birth_of(stored)
            if record.time_ms:
                self.time.told(record.time_ms, stored.stored_ms, now_s)
            elif writer and record.client == writer and not self.time.is_known:
                leaps = not self.state.meta.next_expiry_ms
                self.time.probed(stored.stored_ms, now_s, may_leap=leaps)
            self.recent.add(record)
            self._last = stored
            self._count(stored, record.time_ms)
            if record.client:
                done = self._done_by(record, outcome)
                told.append(((record.client, record.sequence), outcome, done))
        self.state.write()
        for write in told:
            applied(*write)

    def _done_by(self, record: LogRecord, outcome: Outcome) -> LogRecord | None:
        position = outcome.answer.position
        if outcome.status is not Status.REPEATED or position == record.position:
            return record
        begin, end = self.recent.bounds()
        return self.recent.read(position, 1)[0] if begin <= position < end else None

    def _record(self, stored: Stored) -> LogRecord:
        """Read a record. What no proxy writes is as one without an operation, at every proxy."""
        # Only a record that tells the log's time moves it.
        record = operation_record(stored.offset, 0, stored.body, stored.properties)
        if record.time_ms > max(0, stored.stored_ms) + AHEAD_MS_MAX:
            return operation_record(stored.offset, 0, b"", b"")
        grows = record.op_type not in _AT_ANY_SIZE and bool(record.body)
        if grows and kept_bytes(self.state.meta) > STRANGE_BYTES_MAX:
            return operation_record(stored.offset, 0, b"", b"")
        return record

    def _count(self, stored: Stored, time_ms: int) -> None:
        """Count what a start would have to read, and note a snapshot."""
        self.bytes_since += len(stored.body) + RECORD_COSTS
        self.snapshot_ms = self.snapshot_ms or time_ms
        if _SNAPSHOT not in stored.properties:
            return  # nearly all
        told = decode_properties(stored.properties).get(SNAPSHOT_PROPERTY, "")
        position = int(told) if _NUMBER(told) else 0
        if (self.snapshot or 0) < position <= stored.offset:
            self.snapshot, self.snapshot_ms, self.bytes_since = position, time_ms, 0
            self.is_birth_told = True
