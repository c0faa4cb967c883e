"""The operations of records on the entries of a state."""

from typing import Final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    LOAD_ENTRIES_MAX,
    OF_LEASES,
    Action,
    Beginning,
    ChangeKind,
    OpType,
    Step,
    StepResult,
    TxnAnswer,
    WriteAnswer,
    decode_beginning,
    decode_compact,
    decode_drop,
    decode_load,
    decode_steps,
    decode_terms,
    decode_txn,
)

from ._entries import Entries
from ._expiry import end_lease
from ._heads import Found
from ._leases import NoLease, TooManyKeys, TooManyLeases
from ._outcomes import LogRecord, Outcome, Status
from ._txn import TooLarge, do_txn
from .engines._rows import HEAD, stored

# Looked at for each record, and an attribute of an enum takes as long as a small function.
_PUT: Final = Action.PUT
_DELETE: Final = Action.DELETE
_APPLIED: Final = Status.APPLIED
_REFUSED: Final = {
    RemoteProtocolError: Status.IGNORED,
    TooLarge: Status.TOO_LARGE,
    NoLease: Status.NO_LEASE,
    TooManyKeys: Status.TOO_MANY_KEYS,
    TooManyLeases: Status.TOO_MANY_LEASES,
}
"""The kinds of records that are refused before anything is done, by what says so."""
_ENDS_OF_IMPORTS: Final = frozenset({OpType.CLEAR, OpType.IMPORT, OpType.IMPORTED})


def do_record(entries: Entries, record: LogRecord) -> Outcome:
    """Do what a record says. Other processes may have written to its topic: what is no operation
    does nothing."""
    meta = entries.meta
    if meta.deleted:
        return Outcome(Status.DELETED, WriteAnswer(False, record.position))
    answer: WriteAnswer | TxnAnswer
    try:
        if record.op_type == OpType.LOAD:
            most = LOAD_ENTRIES_MAX if meta.is_bounded else None
            entries.load(decode_load(record.body, most=most))
            answer = WriteAnswer(True, record.position)
        elif record.op_type == OpType.BEGIN:
            _begin(entries, decode_beginning(record.body), record.position)
            answer = WriteAnswer(True, record.position)
        elif record.op_type == OpType.DROP:
            done = _drop(entries, decode_drop(record.body), record.position)
            answer = WriteAnswer(done, record.position)
        elif record.op_type == OpType.COMPACT:
            revision = decode_compact(record.body)
            status = entries.history.compact(meta, revision, record.position)
            return Outcome(status, WriteAnswer(status is _APPLIED, record.position))
        elif record.op_type == OpType.TXN:
            answer = do_txn(entries, decode_txn(record.body), record)
        elif record.op_type in OF_LEASES:
            answer = WriteAnswer(do_lease(entries, record), record.position)
        else:
            steps = decode_steps(record.op_type, record.body)
            if record.op_type in (OpType.CLEAR, OpType.IMPORT):
                entries.clear()
                meta.changes_from = record.position + 1
            if record.op_type in _ENDS_OF_IMPORTS:
                meta.importing = record.op_type == OpType.IMPORT
            answer = do_steps(entries, steps, record)
    except tuple(_REFUSED) as error:
        return Outcome(_REFUSED[type(error)], WriteAnswer(False, record.position))
    return Outcome(_APPLIED, answer)


def _begin(entries: Entries, beginning: Beginning, position: int) -> None:
    if beginning.position == position:
        entries.meta.partition = beginning.partition
        entries.meta.partitions = beginning.partitions


def _drop(entries: Entries, identity: str, position: int) -> bool:
    """Delete everything, if the namespace is the one that is meant; return whether it is."""
    if identity != entries.meta.identity:
        return False
    entries.clear()
    entries.meta.changes_from = position + 1
    entries.meta.deleted = True
    return True


def do_lease(entries: Entries, record: LogRecord) -> bool:
    """Grant, keep alive or end a lease; returns False for a grant of one that is there.

    Raises ``RemoteProtocolError``, ``NoLease``, ``TooManyLeases``.
    """
    terms, leases = decode_terms(record.op_type, record.body), entries.leases
    if record.op_type == OpType.LEASE:
        return leases.grant(terms, record.lessor)
    if record.op_type == OpType.ALIVE:
        leases.keep_alive(terms, record.lessor)
        return True
    leases.own(terms.lease, record.lessor, of_any=terms.of_any)
    end_lease(entries, terms.lease, ChangeKind.DELETE)
    return True


def do_steps(entries: Entries, steps: list[Step], record: LogRecord) -> WriteAnswer:
    """Do steps. Raises ``NoLease``, ``TooManyKeys`` before the first of them."""
    position = record.position
    if len(steps) == 1:
        step = steps[0]
        if (
            step.action is _PUT
            and step.ttl_ms >= 0
            and step.if_version is None
            and step.if_value is None
        ):
            version = (
                entries.put(step, entries.live(step.key), 0)
                if step.ttl_ms
                else entries.put_for_ever(step.key, step.value)
            )
            return WriteAnswer(True, position, (StepResult(version),))
    rows = [entries.live(step.key) for step in steps]
    results = [
        StepResult(_version(row), _holds(entries, step, row))
        for step, row in zip(steps, rows, strict=True)
    ]
    if not all(result.holds for result in results):
        only = rows[0] if len(steps) == 1 else None
        value = None if only is None else entries.row(steps[0].key, only)[HEAD.size :]
        return WriteAnswer(False, position, tuple(results), value)
    leased = [
        (step.lease, step.key, row)
        for step, row in zip(steps, rows, strict=True)
        if step.ttl_ms < 0 and step.action is _PUT
    ]
    entries.leases.check(leased, record.lessor)
    done = []
    for number, (step, row) in enumerate(zip(steps, rows, strict=True)):
        if step.action is _PUT:
            done.append(StepResult(entries.put(step, row, number)))
            continue
        if step.action is _DELETE and row is not None:
            entries.remove(step.key, row, ChangeKind.DELETE)
        done.append(results[number])
    return WriteAnswer(True, position, tuple(done))


def _version(row: Found | None) -> int:
    return stored(row.head).version if row is not None else 0


def _holds(entries: Entries, step: Step, row: Found | None) -> bool:
    if step.if_version is not None and _version(row) != step.if_version:
        return False
    if step.if_value is None:
        return True
    # One of another length is not looked at: so no more bytes are than the record has.
    if row is None or row.size_bytes - HEAD.size != len(step.if_value):
        return False
    return entries.row(step.key, row)[HEAD.size :] == step.if_value
