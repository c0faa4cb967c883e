"""The outcomes of the records of a namespace's log."""

import enum
from typing import NamedTuple, final

import msgspec

from lanemq.wire.kv import TxnAnswer, WriteAnswer

from .engines._engine import Snapshot
from .engines._rows import Meta


@final
class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a namespace's log, whatever log that is."""

    position: int
    """Its number in the log, from 0."""
    time_ms: int
    """The log's time, in milliseconds since 1970: that of its storing, or what it tells."""
    op_type: str
    body: bytes
    client: str = ""
    """The id of the writer; empty for one that does not retry."""
    sequence: int = 0
    waits: int = 0
    """The lowest sequence number that the writer still waits for."""
    identity: str = ""
    """The identity of the namespace, in the record that says it; the first one counts."""
    apart_ms: int = 0
    """The log's time less that of its storing."""
    lessor: str = ""
    """The account or address that has asked for it, where it is about leases; see ``lessor_of``."""
    bounds: bool = False
    """True where bounds in bytes begin, unless they have before; see ``BOUNDS_PROPERTY``."""

    @property
    def stored_ms(self) -> int:
        """The time it was stored, by the broker's clock."""
        return self.time_ms - self.apart_ms


@final
class Status(enum.Enum):
    """The kind of a record."""

    APPLIED = enum.auto()
    REPEATED = enum.auto()
    """A write that had been applied before: the result is the first one's."""
    TAKEN = enum.auto()
    """A write with the number of another one that had been applied before. Nothing was done."""
    FORGOTTEN = enum.auto()
    """A write so old that nobody knows whether it was applied. Nothing was done."""
    IGNORED = enum.auto()
    """No operation. Nothing was done."""
    LOST = enum.auto()
    """The state is lost. Nothing was done."""
    DELETED = enum.auto()
    """The namespace was deleted before. Nothing was done."""
    TOO_LARGE = enum.auto()
    """A transaction whose entries are larger than one may read. Nothing was done."""
    NO_LEASE = enum.auto()
    """A write under a lease that is not there, or is another account's. Nothing was done."""
    TOO_MANY_KEYS = enum.auto()
    """A write after which a lease would have too many keys. Nothing was done."""
    TOO_MANY_LEASES = enum.auto()
    """A grant beyond the share of its lessor, or of what a partition keeps. Nothing was done."""
    COMPACTED = enum.auto()
    """A compact to a revision whose history is forgotten already. Nothing was done."""
    AHEAD = enum.auto()
    """A compact to a revision that is not there yet. Nothing was done."""


class Frozen(NamedTuple):
    """A state at one moment, for reading."""

    table: Snapshot
    meta: Meta


@final
class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a record."""

    status: Status
    answer: WriteAnswer | TxnAnswer
