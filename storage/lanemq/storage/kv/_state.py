"""The state machine of a partition: a record of its log makes a result and a change of the state.

It is pure: no clock, no randomness, no knowledge of where rows are kept or where records come
from. The same records make the same rows, byte for byte, whatever is between two batches.
"""

from collections.abc import Iterable
from typing import Final, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    OF_LEASES,
    Action,
    Beginning,
    OpType,
    TxnAnswer,
    WriteAnswer,
    decode_beginning,
    decode_compact,
    decode_drop,
    decode_load,
    decode_steps,
    decode_txn,
    encode_done,
    plain_put,
)

from ._entries import Entries
from ._expiry import expire_some
from ._leases import NoLease, TooManyKeys, TooManyLeases
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._recent import RecentRows
from ._sessions import GENERATION_MS, OpenSessions, Session
from ._steps import do_lease, do_steps
from ._sums import NOTHING, moved, state_hash
from ._txn import TooLarge, do_txn, encode_kept, outcome_again
from .engines._engine import Batch, Table
from .engines._rows import (
    META,
    SESSION,
    Meta,
    after_prefix,
    decode_meta,
    encode_row,
)

# Looked at for each record, and an attribute of an enum takes as long as a small function.
_APPLIED: Final = Status.APPLIED
_PUT: Final = Action.PUT
_PUT_TYPE: Final = OpType.PUT
_DELETE: Final = Action.DELETE
_REFUSED: Final = {
    RemoteProtocolError: Status.IGNORED,
    TooLarge: Status.TOO_LARGE,
    NoLease: Status.NO_LEASE,
    TooManyKeys: Status.TOO_MANY_KEYS,
    TooManyLeases: Status.TOO_MANY_LEASES,
}
"""The kinds of records that are refused before anything is done, by what says so."""
_ENDS_OF_IMPORTS: Final = frozenset({OpType.CLEAR, OpType.IMPORT, OpType.IMPORTED})


@final
class State:
    """The state of one partition of a namespace, over the rows of an engine.

    ``apply`` collects changes, ``write`` hands them to the engine; reads come in between.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._batch = Batch(table)
        self._sessions = OpenSessions(self._batch)
        self._kept = table.get(META)
        self.meta = decode_meta(self._kept)
        self._entries = Entries(self._batch, self.meta)

    def write(self) -> None:
        """Write what was applied since the last call. Raises ``OSError``: then the state is as
        before."""
        self._put_sessions()
        self._entries.update_sum()
        row = self._batch.rows[META] = encode_row(self.meta)
        try:
            self._batch.write()
            self._kept = row
        except OSError:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Forget what was applied since the last ``write``, half a record perhaps."""
        self._batch.clear()
        self._sessions.clear()
        self.meta = decode_meta(self._kept)
        self._entries.forget(self.meta)

    def _put_sessions(self) -> None:
        changes = self._sessions.put_changed()
        if changes:
            sums, now = list(self.meta.session_sums), self.meta.generation % 2
            sums[now] = moved(sums[now], changes)
            self.meta.session_sums = (sums[0], sums[1])

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
        """Apply the record at ``meta.next``."""
        meta = self.meta
        assert record.position >= meta.next, "a record was applied already"
        self._entries.begin(record.position)
        meta.next = record.position + 1
        if record.time_ms > meta.clock_ms:
            meta.clock_ms = record.time_ms
        if meta.clock_ms - meta.generation_ms >= GENERATION_MS:
            self._begin_generation()
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
        meta, entries, sessions = self.meta, self._entries, self._sessions
        changes_max, changed = entries.history.changes_max, dict[str, Session]()
        for record in records:
            time_ms, client, sequence = record.time_ms, record.client, record.sequence
            if meta.clock_ms > time_ms:
                time_ms = meta.clock_ms
            step = plain_put(record.body) if client and record.op_type == _PUT_TYPE else None
            if (
                step is None
                or 0 < meta.next_expiry_ms <= time_ms
                or time_ms - meta.generation_ms >= GENERATION_MS
                or meta.changes + 1 >= changes_max
                or meta.stale_from >= 0
                or meta.lost
                or meta.deleted
                or record.identity
                or not (
                    session := changed.get(client) or sessions.of(client, meta.generation)
                ).awaits(sequence)
            ):
                changed.clear()
                self.apply(record)
                continue
            if client not in changed:
                sessions.changed(client)
                changed[client] = session
            position = record.position
            assert position >= meta.next, "a record was applied already"
            entries.begin(position)
            meta.next, meta.clock_ms = position + 1, time_ms
            version = entries.put_for_ever(step.key, step.value)
            session.add(sequence, encode_done(position, version), waits=record.waits)

    def _outcome(self, record: LogRecord) -> Outcome:
        if self.meta.lost and record.op_type not in (
            OpType.CLEAR,
            OpType.IMPORT,
            OpType.BEGIN,
            OpType.DROP,
        ):
            return Outcome(Status.LOST, WriteAnswer(False, record.position))
        if not record.client:
            return self._do(record)
        session = self._sessions.of(record.client, self.meta.generation)
        found = session.find(record.sequence)
        if found is not None:
            return outcome_again(record, found)
        if record.sequence <= session.floor:
            return Outcome(Status.FORGOTTEN, WriteAnswer(False, record.position))
        outcome = self._do(record)
        if outcome.status is _APPLIED:
            session.add(record.sequence, encode_kept(outcome.answer), waits=record.waits)
            self._sessions.changed(record.client)
        return outcome

    def _do(self, record: LogRecord) -> Outcome:
        """Do what a record says. Other processes may have written to its topic: what is no
        operation does nothing."""
        if self.meta.deleted:
            return Outcome(Status.DELETED, WriteAnswer(False, record.position))
        answer: WriteAnswer | TxnAnswer
        try:
            if record.op_type == OpType.LOAD:
                self._entries.load(decode_load(record.body))
                answer = WriteAnswer(True, record.position)
            elif record.op_type == OpType.BEGIN:
                self._begin(decode_beginning(record.body), record.position)
                answer = WriteAnswer(True, record.position)
            elif record.op_type == OpType.DROP:
                done = self._drop(decode_drop(record.body), record.position)
                answer = WriteAnswer(done, record.position)
            elif record.op_type == OpType.COMPACT:
                revision = decode_compact(record.body)
                status = self._entries.history.compact(self.meta, revision, record.position)
                return Outcome(status, WriteAnswer(status is _APPLIED, record.position))
            elif record.op_type == OpType.TXN:
                answer = do_txn(self._entries, decode_txn(record.body), record)
            elif record.op_type in OF_LEASES:
                done = do_lease(self._entries, self._batch, record)
                answer = WriteAnswer(done, record.position)
            else:
                steps = decode_steps(record.op_type, record.body)
                if record.op_type in (OpType.CLEAR, OpType.IMPORT):
                    self._entries.clear()
                    self.meta.changes_from = record.position + 1
                if record.op_type in _ENDS_OF_IMPORTS:
                    self.meta.importing = record.op_type == OpType.IMPORT
                answer = do_steps(self._entries, steps, record)
        except tuple(_REFUSED) as error:
            return Outcome(_REFUSED[type(error)], WriteAnswer(False, record.position))
        return Outcome(_APPLIED, answer)

    def _begin(self, beginning: Beginning, position: int) -> None:
        if beginning.position == position:
            self.meta.partition = beginning.partition
            self.meta.partitions = beginning.partitions

    def _drop(self, identity: str, position: int) -> bool:
        """Delete everything, if the namespace is the one that is meant; return whether it is."""
        if identity != self.meta.identity:
            return False
        self._entries.clear()
        self.meta.changes_from = position + 1
        self.meta.deleted = True
        return True

    def _begin_generation(self) -> None:
        self._put_sessions()
        meta = self.meta
        meta.generation += 1
        meta.generation_ms = meta.clock_ms
        prefix = SESSION + bytes((meta.generation % 2,))
        self._batch.drop(prefix, after_prefix(prefix))
        sums = list(meta.session_sums)
        sums[meta.generation % 2] = NOTHING
        meta.session_sums = (sums[0], sums[1])

    @property
    def expired(self) -> int:
        """The number of entries and leases that have ended by their time since it was opened."""
        return self._entries.expirations

    @property
    def hash(self) -> str:
        """The hash of entries, sessions and time. The same records give the same."""
        return state_hash(self.meta)
