"""The statistics of a store since it was opened."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(slots=True)
class Counters:
    """Counters that the parts of the store change as they work."""

    put_total: int = 0
    put_bytes: int = 0
    put_failed: int = 0
    get_found: int = 0
    get_missed: int = 0
    got_messages: int = 0
    got_bytes: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RocksProgress:
    """The part of the log that is in RocksDB, as log positions in bytes."""

    begin: int
    """Position before which messages may be missing, except those before ``filled``."""
    filled: int
    """Position up to which older messages are in; 0 where they are not filled in."""
    end: int
    """Position up to which everything from ``begin`` on is in."""
    log_begin: int
    log_end: int

    @property
    def missing_bytes(self) -> int:
        """Bytes of the log whose messages may be missing."""
        before = max(0, self.begin - max(self.filled, self.log_begin))
        return before + self.log_end - self.end


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """A snapshot of the store's statistics. Totals count from when it was opened."""

    put_messages_total: int
    """Messages committed."""
    put_bytes_total: int
    """Size of their records."""
    put_failed_total: int
    """Messages refused because the log could not be written."""
    get_found_total: int
    """Reads that found messages."""
    get_missed_total: int
    """Reads that found none."""
    got_messages_total: int
    """Messages read from queues."""
    got_bytes_total: int
    """Size of their records."""
    min_position: int
    """Position of the first byte of the log; -1 without files."""
    max_position: int
    """End of the log."""
    flushed_position: int
    """Position up to which the log is durable."""
    dispatch_behind_bytes: int
    """Log bytes whose queue units are not readable yet: always 0 between two commits."""
    index_backlog: int
    """Messages that wait to be indexed."""
    queues: int
    """Number of queues that have files or messages."""
    log_files: int
    """Files of the commit log, a spare one included."""
    damaged_pieces: int
    """Pieces of the log, messages nearly always, that the start found damaged."""
