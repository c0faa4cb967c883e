"""The values of changes and of earlier entries, which are in the records of the log."""

from typing import final

from lanemq.wire.kv import (
    Action,
    Entry,
    LoadedEntry,
    OpType,
    Step,
    decode_load,
    decode_steps,
    decode_txn,
)

from ._log import KvLog
from ._state import State
from .engines._rows import ENTRY, HEAD, change_key, decode_change, entry_of, stored


@final
class Values:
    """The values that records have put. A record is read and decoded once for all that is asked
    of it, one after another."""

    def __init__(self, state: State, log: KvLog) -> None:
        self._table = state.table
        self._log = log
        self._position = -1
        self._op_type = ""
        self._steps: list[Step] | list[LoadedEntry] = []
        self._by_key: dict[bytes, bytes] | None = None
        self.read_bytes = 0
        """Bytes of the records that were read so far."""

    def find(self, key: bytes, position: int, step: int) -> bytes | None:
        """Return the value that a step of the record at ``position`` put; None for unknown.

        It is that of the entry, if that is still the same.
        """
        if position != self._position:
            row = self._table.get(ENTRY + key)
            if row is not None and stored(row).modified == position:
                return row[HEAD.size :]
            if not self._read(position):
                return None
        return self._steps[step].value

    def entry(self, key: bytes, head: bytes) -> Entry | None:
        """Return the entry that had a head; None where its value is no longer known."""
        position = entry_of(key, head).modified
        if position != self._position and not self._read(position):
            return None
        if self._by_key is None:
            self._by_key = self._put_by_record()
        value = self._by_key.get(key)
        return None if value is None else entry_of(key, head + value)

    def _read(self, position: int) -> bool:
        begin, end = self._log.bounds()
        records = self._log.read(position, 1) if begin <= position < end else []
        if not records:
            return False
        record = records[0]
        self._op_type, self._by_key = record.op_type, None
        if record.op_type == OpType.LOAD:
            self._steps = decode_load(record.body)
        elif record.op_type == OpType.TXN:
            self._steps = decode_txn(record.body).steps
        else:
            self._steps = decode_steps(record.op_type, record.body)
        self._position = position
        self.read_bytes += len(record.body)
        return True

    def _put_by_record(self) -> dict[bytes, bytes]:
        """Return what the record has put. Of a key that both lists of a transaction put, with two
        values, the row of the change says which did; where that is gone, the value is unknown."""
        values, several = dict[bytes, bytes](), set[bytes]()
        for one in self._steps:
            if isinstance(one, Step) and one.action is not Action.PUT:
                continue
            if values.get(one.key, one.value) != one.value and self._op_type == OpType.TXN:
                several.add(one.key)
            values[one.key] = one.value
        for key in several:
            del values[key]
        begin, end = change_key(self._position, 0), change_key(self._position + 1, 0)
        for _, row in self._table.items(begin, end) if several else ():
            change = decode_change(row)
            if change.key in several and change.step >= 0:
                values[change.key] = self._steps[change.step].value
        return values
