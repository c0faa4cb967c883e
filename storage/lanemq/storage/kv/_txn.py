"""Transactions: comparisons and operations on the entries of a state, in one record of its log."""

from typing import Final, final

import msgspec

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    ONE_STEP,
    PAGE_BYTES_MAX,
    ChangeKind,
    Compare,
    Operation,
    OperationKind,
    OperationResult,
    OpType,
    Target,
    Txn,
    TxnAnswer,
    WriteAnswer,
    decode_answer,
    decode_steps,
    decode_txn,
    encode_answer,
)

from ._entries import Entries
from ._heads import Found
from ._outcomes import LogRecord, Outcome, Status
from .engines._rows import HEAD, entry_with, stored

_FIELDS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
ROWS_BYTES_MAX: Final = 16 << 20
"""Bytes of entries that one transaction reads: they are read in one turn of the loop."""
KEPT_BYTES_MAX: Final = 2 << 10
"""Bytes of an answer that is kept with all values for a request that is repeated."""


class TooLarge(Exception):  # noqa: N818 - named for what happened
    """The entries of a transaction are larger than one record may read; nothing was done."""


@final
class _Rows:
    """The rows of entries that a transaction looks at, each read once, and each value copied
    once."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._rows: dict[bytes, Found | None] = {}
        self._values: dict[bytes, bytes] = {}
        self._size_bytes = 0

    def get(self, key: bytes) -> Found | None:
        """Return what is known of the row of a live entry. Raises ``TooLarge``."""
        if key in self._rows:
            return self._rows[key]
        row = self._rows[key] = self._entries.live(key)
        self._size_bytes += 0 if row is None else row.size_bytes
        if self._size_bytes > ROWS_BYTES_MAX:
            raise TooLarge
        return row

    def value(self, key: bytes, row: Found) -> bytes:
        """Return the value in the row of an entry."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._entries.row(key, row)[HEAD.size :]
        return value

    def changed(self, key: bytes) -> None:
        """Note that an operation has written an entry."""
        self._rows[key] = self._entries.live(key)
        self._values.pop(key, None)


def do_txn(entries: Entries, txn: Txn, record: LogRecord) -> TxnAnswer:
    """Do the transaction of a record. Raises ``TooLarge``, ``NoLease``, ``TooManyKeys``."""
    rows = _Rows(entries)
    holds = all(_holds(one, rows) for one in txn.compares)
    operations, first = (txn.then, 0) if holds else (txn.otherwise, len(txn.then))
    for one in operations:  # nothing is done before all of them are known to be small enough
        rows.get(one.key)
    leased = [
        (one.step.lease, one.key, rows.get(one.key))
        for one in operations
        if one.ttl_ms < 0 and one.kind is OperationKind.PUT
    ]
    entries.leases.check(leased, record.lessor)
    results, left_bytes = [], PAGE_BYTES_MAX
    for number, one in enumerate(operations, first):
        if one.kind is OperationKind.GET:
            result = _read(one.key, rows, left_bytes)
            if result.entry is not None:
                left_bytes -= len(result.entry.value)
        else:
            result = _write(entries, one, rows.get(one.key), number)
            rows.changed(one.key)
        results.append(result)
    return TxnAnswer(holds, record.position, results=tuple(results))


def _write(entries: Entries, one: Operation, row: Found | None, number: int) -> OperationResult:
    if one.kind is OperationKind.PUT:
        return OperationResult(entries.put(one.step, row, number))
    if row is None:
        return OperationResult()
    entries.remove(one.key, row, ChangeKind.DELETE)
    return OperationResult(stored(row.head).version)


def _read(key: bytes, rows: _Rows, left_bytes: int) -> OperationResult:
    row = rows.get(key)
    if row is None:
        return OperationResult()
    is_cut = row.size_bytes - HEAD.size > left_bytes
    value = b"" if is_cut else rows.value(key, row)
    entry = entry_with(key, value, *HEAD.unpack(row.head))
    return OperationResult(entry.version, entry, is_cut)


def _holds(compare: Compare, rows: _Rows) -> bool:
    row = rows.get(compare.key)
    if compare.target is Target.VALUE:
        return row is not None and compare.holds(rows.value(compare.key, row))
    if row is None:
        return compare.holds(0)
    if compare.target is Target.EXISTS:
        return compare.holds(1)
    head = stored(row.head)
    if compare.target is Target.LEASE:
        return compare.holds(head.lease)
    is_version = compare.target is Target.VERSION
    return compare.holds(head.version if is_version else head.modified + 1)


def encode_kept(answer: TxnAnswer | WriteAnswer, *, keys: bool) -> bytes:
    """Encode an answer for its writer's session: values there were, and long ones that were read,
    are left out, and without ``keys`` the keys of these, too: the repeated request has them."""
    if isinstance(answer, WriteAnswer):
        if answer.value is not None:
            answer = WriteAnswer(answer.done, answer.position, answer.results)
        return encode_answer(answer)
    encoded = encode_answer(answer)
    if len(encoded) <= KEPT_BYTES_MAX:
        return encoded
    return encode_answer(answer.without_values(keys=keys))


def outcome_again(record: LogRecord, kept: bytes) -> Outcome:
    """Return the outcome of a record whose number has the answer ``kept`` already."""
    answer = _decode_kept(record.op_type, record.body, kept)
    if answer is None:
        return Outcome(Status.TAKEN, WriteAnswer(False, record.position))
    return Outcome(Status.REPEATED, answer)


def _decode_kept(op_type: str, body: bytes, kept: bytes) -> TxnAnswer | WriteAnswer | None:
    """Decode ``encode_kept``; None where it cannot be the answer to this operation, as it is one
    to a transaction or none, or has another number of results."""
    answer = decode_answer(kept, TxnAnswer)
    is_txn = len(_FIELDS.decode(kept)) > len(WriteAnswer.__struct_fields__)
    try:
        if op_type == OpType.TXN:
            txn = decode_txn(body)
            operations = txn.then if answer.done else txn.otherwise
            is_its = is_txn and len(answer.results) == len(operations)
            return answer.with_keys(operations) if is_its else None
        expected = _count(op_type, body)
    except RemoteProtocolError:
        return None  # one that was done could be read
    return None if is_txn or len(answer.steps) != expected else decode_answer(kept, WriteAnswer)


def _count(op_type: str, body: bytes) -> int:
    """Return the number of results of an operation. Raises ``RemoteProtocolError``."""
    if op_type in ONE_STEP:
        return 1
    return len(decode_steps(op_type, body)) if op_type == OpType.BATCH else 0
