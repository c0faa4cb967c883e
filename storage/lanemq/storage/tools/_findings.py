"""What a tool found in a store, and what to do about it."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is; in bytes or units."""


class Severity(enum.Enum):
    """Whether something has to be done."""

    PROBLEM = "problem"
    """The store is not as it should be, and no start of a broker mends it by itself."""
    NOTE = "note"
    """Worth knowing; nothing has to be done, or the next start does it."""


class Part(enum.Enum):
    """What of a store something was found in."""

    LOG = "log"
    FILES = "queue files"
    ROCKSDB = "rocksdb"
    KEYS = "key index"
    TABLES = "tables"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    kind: str
    """A word for machines."""
    severity: Severity
    part: Part
    what: str
    """A sentence."""
    way_on: str = ""
    """What to do, where there is anything to do."""
    topic: str | None = None
    queue_id: int | None = None
    count: int = 1
    """How many messages, units, entries or bytes."""
    log_position: int | None = None
    """Of the first of them."""
    queue_offset: int | None = None
    """Of the first of them."""


REPAIR = "`lanemq store repair DIR` makes them anew from the log"
