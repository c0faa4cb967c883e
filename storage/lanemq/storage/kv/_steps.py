"""Steps of writes, and operations on leases, on the entries of a state."""

from typing import Final

from lanemq.wire.kv import Action, ChangeKind, OpType, Step, StepResult, WriteAnswer, decode_terms

from ._entries import Entries
from ._expiry import end_lease
from ._outcomes import LogRecord
from .engines._engine import Batch
from .engines._rows import HEAD, stored

# Looked at for each record, and an attribute of an enum takes as long as a small function.
_PUT: Final = Action.PUT
_DELETE: Final = Action.DELETE


def do_lease(entries: Entries, batch: Batch, record: LogRecord) -> bool:
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
    end_lease(entries, batch, terms.lease, ChangeKind.DELETE)
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
                entries.put(step, entries.live_row(step.key), 0)
                if step.ttl_ms
                else entries.put_for_ever(step.key, step.value)
            )
            return WriteAnswer(True, position, (StepResult(version),))
    rows = [entries.live_row(step.key) for step in steps]
    results = [
        StepResult(stored(row).version if row is not None else 0, _holds(step, row))
        for step, row in zip(steps, rows, strict=True)
    ]
    if not all(result.holds for result in results):
        row = rows[0] if len(steps) == 1 else None
        value = None if row is None else row[HEAD.size :]
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


def _holds(step: Step, row: bytes | None) -> bool:
    if step.if_version is not None:
        version = stored(row).version if row is not None else 0
        if version != step.if_version:
            return False
    return step.if_value is None or (row is not None and row[HEAD.size :] == step.if_value)
