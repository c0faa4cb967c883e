"""Writes whose outcome is waited for, and whether a record of the log is the one that was written.

The id of a proxy as a writer is in the log, which everybody reads: whoever may write to the
upstream topic can use its next numbers. So an outcome counts for a write of the proxy's own only
if what was done is what it says.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Self, final

import trio
from attrs import define, field

from lanemq.storage.kv import LogRecord, Outcome, Status, operation_properties, operation_record
from lanemq.wire.kv import WriteAnswer

from ._partition import WriteKey

_DONE: Final = frozenset({Status.APPLIED, Status.REPEATED})


class Said(NamedTuple):
    """The operation that a record says, and who or what it is of."""

    op_type: str
    body: bytes
    identity: str
    lessor: str

    @classmethod
    def by(cls, record: LogRecord) -> Self:
        """Return what a record says."""
        return cls(record.op_type, record.body, record.identity, record.lessor)

    @classmethod
    def of(cls, op_type: str, body: bytes, *, identity: str, lessor: str) -> Self:
        """Return what the record of a write will say."""
        properties = operation_properties(op_type, identity=identity, lessor=lessor)
        return cls.by(operation_record(0, 0, body, properties))


@final
@define(eq=False)
class Waiting:
    """A write that is waited for."""

    said: Said | None
    """None for one that a client has numbered: what comes under its numbers is its own affair."""
    outcome: Outcome | None = None
    applied: trio.Event = field(factory=trio.Event)
    count: int = 0

    def take(self, outcome: Outcome, done: LogRecord | None) -> None:
        """Take the outcome of a record with the write's number. ``done`` is the record that its
        result is of; None for one that is no longer known.

        One that did something else has the number now: nothing of the write is or will be done.
        """
        if self.outcome is not None:
            return
        if self.said is not None:
            not_done = WriteAnswer(False, outcome.answer.position)
            if done is None:
                outcome = Outcome(Status.FORGOTTEN, not_done)
            elif Said.by(done) != self.said:
                if outcome.status not in _DONE:
                    return  # nor has it the number
                outcome = Outcome(Status.TAKEN, not_done)
        self.outcome = outcome
        self.applied.set()


@final
class WaitingWrites:
    """The writes to one partition that are waited for, by writer and number."""

    def __init__(self) -> None:
        self._waiting: dict[WriteKey, Waiting] = {}

    def take(self, key: WriteKey, outcome: Outcome, done: LogRecord | None) -> None:
        """Take the outcome of a record; see ``Waiting.take``."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.take(outcome, done)

    @contextmanager
    def wait_for(self, key: WriteKey, said: Said | None) -> Iterator[Waiting]:
        """Wait for a write within the block; several may wait for the same."""
        waiting = self._waiting.setdefault(key, Waiting(said))
        waiting.count += 1
        try:
            yield waiting
        finally:
            waiting.count -= 1
            if not waiting.count and self._waiting.get(key) is waiting:
                del self._waiting[key]
