"""Conversions of a store's queues at rest, from files to RocksDB and back."""

from ._conversion import Conversion
from ._to_files import convert_to_files
from ._to_rocksdb import convert_to_rocksdb

__all__ = ["Conversion", "convert_to_files", "convert_to_rocksdb"]
