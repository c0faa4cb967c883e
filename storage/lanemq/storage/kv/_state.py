"""The state machine of a partition: a record of its log makes a result and a change of the state.

It is pure: no clock, no randomness, no knowledge of where rows are kept or where records come
from. The same records make the same rows, byte for byte, whatever is between two batches.
"""

from collections.abc import Iterable, Iterator
from typing import Final, final

import msgspec

from lanemq.local import get_logger
from lanemq.wire.kv import OpType, WriteAnswer, encode_done, plain_put

from ._entries import Entries
from ._expiry import expire_some
from ._log import NO_OPERATION
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._recent import RecentRows
from ._sessions import GENERATION_MS, OpenSessions, Session
from ._steps import do_record
from ._sums import state_hash
from ._txn import encode_kept, outcome_again
from .engines._engine import Batch, Table
from .engines._rows import (
    HEADS,
    META,
    Meta,
    after_prefix,
    decode_meta,
    encode_row,
)

LOGGER: Final = get_logger(__name__, by_peers=True)
# Looked at for each record, and an attribute of an enum takes as long as a small function.
_APPLIED: Final = Status.APPLIED
_PUT_TYPE: Final = OpType.PUT
LOCAL: Final = (OSError, MemoryError, AssertionError, msgspec.MsgspecError)
"""Errors of this replica, as of a row that cannot be decoded: others can apply the record."""


@final
class State:
    """The state of one partition of a namespace, over the rows of an engine.

    ``apply`` collects changes, ``write`` hands them to the engine; reads come in between.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._batch = Batch(table)
        self._sessions = OpenSessions(self._batch)
        self._record: LogRecord = LogRecord(0, 0, NO_OPERATION, b"")
        self._unwritten: list[LogRecord] = []
        """Records applied since the last ``write``; one that could not be has no operation here."""
        self._kept = table.get(META)
        self.meta = self._kept_meta()
        self._entries = Entries(self._batch, self.meta)

    def _kept_meta(self) -> Meta:
        meta = decode_meta(self._kept)
        if not meta.has_heads:  # those of an earlier time, which another version has left behind
            self._batch.drop(HEADS, after_prefix(HEADS))
            meta.has_heads = True
        return meta

    def write(self) -> None:
        """Write what was applied since the last call. Raises ``OSError``: then the state is as
        before."""
        self._sessions.put_changed(self.meta)
        self._entries.update_sum()
        if not self.meta.is_bounded:
            self.meta.change_bytes = 0  # it is counted from there on
        row = self._batch.rows[META] = encode_row(self.meta)
        try:
            self._batch.write()
            self._kept = row
            self._unwritten.clear()
        except OSError:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Forget what was applied since the last ``write``, half a record perhaps."""
        self._batch.clear()
        self._sessions.clear()
        self._unwritten = []
        self.meta = self._kept_meta()
        self._entries.forget(self.meta)

    def follow(self, meta: Meta, *, lost_at: int | None = None) -> None:
        """Set the partition that this is the state of, and the queue that has its records.

        ``lost_at`` is the position up to which records are gone that the state would need: it is
        lost then. The rows stay until a clear, unserved. Raises ``OSError``; then the state is as
        before.
        """
        self.meta.partition, self.meta.partitions = meta.partition, meta.partitions
        self.meta.queue_id, self.meta.shift, self.meta.first = (
            meta.queue_id,
            meta.shift,
            meta.first,
        )
        if lost_at is not None:
            self.meta.lost = True
            self.meta.next = self.meta.changes_from = lost_at
        self.write()

    def freeze(self) -> Frozen:
        """Return the state as it is now, whatever is applied later. Release it soon."""
        return Frozen(self.table.snapshot(), decode_meta(encode_row(self.meta)))

    def mark_lost(self, position: int) -> None:
        """Forget everything: records up to ``position`` are gone that the state would need."""
        self._entries.clear()
        self.meta.lost = True
        self.meta.next = self.meta.changes_from = position
        self.write()

    def apply(self, record: LogRecord) -> Outcome:
        """Apply the record at ``meta.next``. Raises ``OSError``."""
        try:
            return self._apply(record)
        except LOCAL:
            raise
        except Exception as error:
            return self._pass_over(error)

    def _pass_over(self, error: Exception) -> Outcome:
        """Take a record that cannot be applied as no operation, as every replica does."""
        bad = self._record
        before = [one for one in self._unwritten if one is not bad]
        LOGGER.critical(
            "record %d of the keys %s cannot be applied, and changes nothing: %s: %s",
            bad.position,
            self.meta.identity,
            type(error).__name__,
            str(error)[:200],
        )
        self.roll_back()
        for record in before:
            self._apply(record)
        return self._apply(LogRecord(bad.position, 0, NO_OPERATION, b""))

    def _apply(self, record: LogRecord) -> Outcome:
        meta = self.meta
        self._record = record
        self._unwritten.append(record)
        assert record.position >= meta.next, "a record was applied already"
        self._entries.begin(record.position)
        meta.next = record.position + 1
        if record.time_ms > meta.clock_ms:
            meta.clock_ms = record.time_ms
        if meta.clock_ms - meta.generation_ms >= GENERATION_MS:
            self._sessions.begin_generation(meta)
        if record.bounds and not meta.is_bounded:
            meta.bounds_from, meta.change_bytes = record.position, 0
        if record.identity and (meta.lost or not meta.identity):
            meta.identity = meta.identity or record.identity
            # What was deleted or lost before is not known, but no record raised a version by more
            # than one.
            meta.floor = meta.top = max(meta.top, record.position)
        if 0 < meta.next_expiry_ms <= meta.clock_ms:
            expire_some(self._entries, self._batch)
        outcome = self._outcome(record)
        self._entries.history.prune(meta)
        return outcome

    def remember(self, *, rows: bool) -> None:
        """Begin or stop to keep written rows at hand for the next batches of a redo."""
        self._entries.recent = RecentRows() if rows else None

    def redo(self, records: Iterable[LogRecord]) -> None:
        """Apply records as ``apply`` does, but without outcomes: no caller waits for old ones."""
        left = iter(records)
        while True:
            try:
                self._redo(left)
                return
            except LOCAL:
                raise
            except Exception as error:
                self._pass_over(error)

    def _redo(self, records: Iterator[LogRecord]) -> None:
        meta, entries, sessions = self.meta, self._entries, self._sessions
        unwritten = self._unwritten
        changes_max, changed = entries.history.changes_max, dict[str, Session]()
        change_bytes = entries.history.change_bytes_near
        for record in records:
            self._record = record
            time_ms, client, sequence = record.time_ms, record.client, record.sequence
            if meta.clock_ms > time_ms:
                time_ms = meta.clock_ms
            step = plain_put(record.body) if client and record.op_type == _PUT_TYPE else None
            if (
                step is None
                or 0 < meta.next_expiry_ms <= time_ms
                or time_ms - meta.generation_ms >= GENERATION_MS
                or meta.changes + 1 >= changes_max
                or (meta.change_bytes > change_bytes and meta.bounds_from >= 0)
                or meta.stale_from >= 0
                or meta.lost
                or meta.deleted
                or record.identity
                or record.bounds
                or not (
                    session := changed.get(client) or sessions.of(client, meta.generation)
                ).awaits(sequence)
            ):
                changed.clear()
                self._apply(record)
                continue
            unwritten.append(record)
            if client not in changed:
                sessions.changed(client)
                changed[client] = session
            position = record.position
            assert position >= meta.next, "a record was applied already"
            entries.begin(position)
            meta.next, meta.clock_ms = position + 1, time_ms
            version = entries.put_for_ever(step.key, step.value)
            result, is_bounded = encode_done(position, version), meta.bounds_from >= 0
            session.add(sequence, result, waits=record.waits, is_bounded=is_bounded)

    def _outcome(self, record: LogRecord) -> Outcome:
        if self.meta.lost and record.op_type not in (
            OpType.CLEAR,
            OpType.IMPORT,
            OpType.BEGIN,
            OpType.DROP,
        ):
            return Outcome(Status.LOST, WriteAnswer(False, record.position))
        if not record.client:
            return do_record(self._entries, record)
        session = self._sessions.of(record.client, self.meta.generation)
        found = session.find(record.sequence)
        if found is not None:
            return outcome_again(record, found)
        if record.sequence <= session.floor:
            return Outcome(Status.FORGOTTEN, WriteAnswer(False, record.position))
        outcome = do_record(self._entries, record)
        if outcome.status is _APPLIED:
            is_bounded = self.meta.is_bounded
            kept = encode_kept(outcome.answer, keys=not is_bounded)
            session.add(record.sequence, kept, waits=record.waits, is_bounded=is_bounded)
            self._sessions.changed(record.client)
        return outcome

    @property
    def is_enough(self) -> bool:
        """True once what was applied is to be written, before more is: it will take a while."""
        return self._sessions.is_enough

    @property
    def expired(self) -> int:
        """The number of entries and leases that have ended by their time since it was opened."""
        return self._entries.expirations

    @property
    def hash(self) -> str:
        """The hash of entries, sessions and time. The same records give the same."""
        return state_hash(self.meta)
