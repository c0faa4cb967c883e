"""What a store counted since it was opened."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(slots=True)
class Counters:
    """Changed by the parts of the store as they work."""

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
    """How much of the log is in RocksDB; all are positions of the log, counting bytes."""

    begin: int
    """Messages before it may be missing, but for those before ``filled``."""
    filled: int
    """How far history is in; 0 where none is being filled in."""
    end: int
    """From ``begin`` up to here all is in."""
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
    """A look at the store. Totals count from when it was opened."""

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
    """First byte of the log; -1 without files."""
    max_position: int
    """End of the log."""
    flushed_position: int
    """The log is durable up to here."""
    dispatch_behind_bytes: int
    """Log bytes whose queue units are not readable yet: always 0 between two commits."""
    index_backlog: int
    """Messages that wait to be indexed."""
    queues: int
    """Queues there are files or messages for."""
    log_files: int
    """Files of the commit log, a spare one included."""
