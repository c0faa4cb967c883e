"""The outcomes of the records of a namespace's log."""

import enum
from typing import NamedTuple, final

import msgspec

from lanemq.wire.kv import WriteAnswer

from .engines._engine import RowsView
from .engines._rows import Meta


@final
class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a namespace's log, whatever log that is."""

    position: int
    """Its number in the log, from 0."""
    time_ms: int
    """The time it was stored, in milliseconds since 1970."""
    op_type: str
    body: bytes
    client: str = ""
    """The id of the writer; empty for one that does not retry."""
    sequence: int = 0
    waits: int = 0
    """The lowest sequence number that the writer still waits for."""


@final
class Status(enum.Enum):
    """The kind of a record."""

    APPLIED = enum.auto()
    REPEATED = enum.auto()
    """A write that had been applied before: the result is the first one's."""
    FORGOTTEN = enum.auto()
    """A write so old that nobody knows whether it was applied. Nothing was done."""
    IGNORED = enum.auto()
    """No operation. Nothing was done."""
    LOST = enum.auto()
    """The state is lost. Nothing was done."""


class Frozen(NamedTuple):
    """A state at one moment, for reading."""

    table: RowsView
    meta: Meta


@final
class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a record."""

    status: Status
    answer: WriteAnswer
