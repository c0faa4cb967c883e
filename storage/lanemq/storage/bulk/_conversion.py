"""What a conversion did."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final


@final
@dataclass(slots=True)
class Conversion:
    """Positions count bytes of the log."""

    to: str
    """``rocksdb`` or ``files``."""
    log_begin: int = 0
    log_end: int = 0
    began_at: int = 0
    """All before it was there already."""
    units_copied: int = 0
    """Made from the other index."""
    units_from_log: int = 0
    """Made from records of the log."""
    blank_units: int = 0
    """Slots of messages that are gone, which keep the others in their places."""
    queues: int = 0
    """Queues that got units."""
    moved_aside: Path | None = None
    """Where a RocksDB is that could not be opened."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """What was found that a person should know."""

    @property
    def units(self) -> int:
        return self.units_copied + self.units_from_log
