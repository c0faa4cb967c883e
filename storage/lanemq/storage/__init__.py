"""The store directory of a broker: log, queues, index, checkpoint and tables.

Byte for byte what Apache RocketMQ 4.9 and 5.3 read and write.
"""

from ._clock import system_clock_ms
from ._config import FlushMode, Stage, StoreConfig, StoreType, parse_delay_levels
from ._consume_queue import Unit
from ._document import Document
from ._errors import (
    ConfigInvalid,
    MessageIllegal,
    StartRefused,
    StoreCorrupted,
    StoreError,
    StoreLocked,
    StoreUnwritable,
)
from ._files import Files
from ._messages import Boundary, GetStatus, Got, NewMessage, Put, QueryResult
from ._open import open_store
from ._statistics import RocksProgress, StoreStatistics
from ._store import Store
from ._tables import ConfigTables, DelayOffsetTable, GroupTable, OffsetTable, TopicTable

__all__ = [
    "Boundary",
    "ConfigInvalid",
    "ConfigTables",
    "DelayOffsetTable",
    "Document",
    "Files",
    "FlushMode",
    "GetStatus",
    "Got",
    "GroupTable",
    "MessageIllegal",
    "NewMessage",
    "OffsetTable",
    "Put",
    "QueryResult",
    "RocksProgress",
    "Stage",
    "StartRefused",
    "Store",
    "StoreConfig",
    "StoreCorrupted",
    "StoreError",
    "StoreLocked",
    "StoreStatistics",
    "StoreType",
    "StoreUnwritable",
    "TopicTable",
    "Unit",
    "open_store",
    "parse_delay_levels",
    "system_clock_ms",
]
