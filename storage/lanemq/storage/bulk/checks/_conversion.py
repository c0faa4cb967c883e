"""The report of a conversion."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from lanemq.local import DIRECTORY_MODE

from ...derive._sequence import DamagedOffset
from ...disk._backups import KEPT
from ...tools.rebuild._losses import Loss


@final
@dataclass(slots=True)
class Conversion:
    """The report of a conversion. Positions count bytes of the log."""

    to: str
    """``rocksdb`` or ``files``."""
    log_begin: int = 0
    log_end: int = 0
    began_at: int = 0
    """Position before which everything was there already."""
    units_copied: int = 0
    """Number of units made from the other index."""
    units_from_log: int = 0
    """Number of units made from records of the log."""
    blank_units: int = 0
    """Number of slots of messages that are gone, which keep the others in their places."""
    queues: int = 0
    """Number of queues that got units."""
    kept: Path | None = None
    """The directory of everything that was replaced; None where nothing was."""
    unplaced: list[Loss] = field(default_factory=list)
    """Number of messages in the log that could not be read before, and got no unit either."""
    damaged: list[DamagedOffset] = field(default_factory=list)
    """Messages whose offset is damaged, so that nothing tells their place."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """Observations that a person should know."""

    @property
    def units(self) -> int:
        return self.units_copied + self.units_from_log


def unless_empty(path: Path) -> Path | None:
    """Return the directory; None where nothing was replaced, and it was removed."""
    if any(path.iterdir()):
        return path
    path.rmdir()
    return None


def new_kept_directory(root: Path) -> Path:
    """Make a directory for what a conversion replaces."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime())
    number = 0
    while True:
        path = root / f"{KEPT}{stamp}{f'-{number}' if number else ''}"
        try:
            path.mkdir(DIRECTORY_MODE)
        except FileExistsError:
            number += 1
        else:
            return path
