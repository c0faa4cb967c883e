"""The findings of a tool in a store, with advice."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

Progress = Callable[[str, int, int], None]
"""Callback for progress: the name of the work, the part done, and the total, in bytes or units."""


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


class Severity(enum.Enum):
    """The severity of a finding."""

    PROBLEM = "problem"
    """The store has a fault that no start of a broker fixes by itself."""
    NOTE = "note"
    """A remark; nothing has to be done, or the next start does it."""


class Part(enum.Enum):
    """The part of a store that a finding concerns."""

    LOG = "log"
    FILES = "queue files"
    ROCKSDB = "rocksdb"
    KEYS = "key index"
    TABLES = "tables"
    KV = "keys and values"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    kind: str
    """A word for machines."""
    severity: Severity
    part: Part
    what: str
    """The finding in a sentence."""
    way_on: str = ""
    """The next step, where there is anything to do."""
    topic: str | None = None
    queue_id: int | None = None
    count: int = 1
    """Number of messages, units, entries or bytes."""
    log_position: int | None = None
    """Log position of the first of them."""
    queue_offset: int | None = None
    """Queue offset of the first of them."""


REPAIR = "`repair_store` makes them again from the log"
