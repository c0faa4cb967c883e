"""Conversions of a store's queues at rest, from files to RocksDB and back."""

from .checks._conversion import Conversion
from .checks._result_check import ResultRefused
from .files._to_files import convert_to_files
from .rows._built_tables import BuiltQueue, BuiltTable, MakeTables, QueueBegins, TablesPlan
from .rows._to_rocksdb import convert_to_rocksdb
from .units._sorted_table import SortedTable, queue_keys

__all__ = [
    "BuiltQueue",
    "BuiltTable",
    "Conversion",
    "MakeTables",
    "QueueBegins",
    "ResultRefused",
    "SortedTable",
    "TablesPlan",
    "convert_to_files",
    "convert_to_rocksdb",
    "queue_keys",
]
