"""Stored records as columns: numpy finds the fields, Arrow holds the values.

Nothing here makes a Python object for each record, but for compressed bodies and checksums.
"""

from ._columns import TIMESTAMP, RecordColumns, Unreadable, times
from ._gather import ArrowArray
from ._heads import Records, decode_records, sound_records, walk_sizes
from ._logical import LogicalPlaces

__all__ = [
    "TIMESTAMP",
    "ArrowArray",
    "LogicalPlaces",
    "RecordColumns",
    "Records",
    "Unreadable",
    "decode_records",
    "sound_records",
    "times",
    "walk_sizes",
]
