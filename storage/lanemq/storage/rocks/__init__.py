"""A store's consume queues in RocksDB, byte for byte what Apache RocketMQ 5.3.3 reads and writes.

Needs the package ``rocksdict``, which comes with ``lanemq[server]``; nothing outside of this
package imports it unless a store is configured to use RocksDB.
"""

from ._batch import Batch
from ._database import QueueDatabase, is_present, move_aside
from ._diff import (
    Difference,
    DiffReport,
    PlacedUnit,
    QueueDiff,
    UnitsView,
    diff_queue,
    diff_queue_stepwise,
    diff_report,
)
from ._queue_rows import QueueBounds, QueueRows, RowSpan
from ._rows import OffsetRow, QueueKeys, UnitRow
from ._rows_of_queue import RowsOfQueue

__all__ = [
    "Batch",
    "DiffReport",
    "Difference",
    "OffsetRow",
    "PlacedUnit",
    "QueueBounds",
    "QueueDatabase",
    "QueueDiff",
    "QueueKeys",
    "QueueRows",
    "RowSpan",
    "RowsOfQueue",
    "UnitRow",
    "UnitsView",
    "diff_queue",
    "diff_queue_stepwise",
    "diff_report",
    "is_present",
    "move_aside",
]
