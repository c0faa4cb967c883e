"""The store directory of a broker: log, queues, index, checkpoint and tables.

Byte for byte what Apache RocketMQ 4.9 and 5.3 read and write.
"""

from ._clock import system_clock_ms, wait_towards
from ._config import FlushMode, KvEngine, Stage, StoreConfig, StoreType, parse_delay_levels
from ._errors import (
    ConfigInvalid,
    MessageIllegal,
    StartRefused,
    StoreCorrupted,
    StoreError,
    StoreLocked,
    StoreUnopened,
    StoreUnwritable,
    disk_problem,
)
from ._layouts import Unit
from ._open import open_store
from ._statistics import RocksProgress, StoreStatistics
from ._store import Store
from ._tables import ConfigTables, DelayOffsetTable, GroupTable, OffsetTable, TopicTable
from .disk._files import Entry, File, Files, Lock, Usage
from .index._keys import KEYS_MAX as INDEXED_KEYS_MAX
from .kv._kv import KvStates
from .messages._messages import (
    Boundary,
    GetStatus,
    Got,
    NewBatch,
    NewMessage,
    Put,
    PutBatch,
    QueryResult,
)
from .messages._reader import ReadLimits
from .queues._queue_positions import LIGHT_QUEUES_MAX, light_positions, light_queues
from .queues.rocks._diff_report import DiffReport, QueueDiff
from .tables._document import Document
from .tasks._supervisor import Supervisor
from .timer._shape import Taken
from .timer._timers import Timers

__all__ = [
    "INDEXED_KEYS_MAX",
    "LIGHT_QUEUES_MAX",
    "Boundary",
    "ConfigInvalid",
    "ConfigTables",
    "DelayOffsetTable",
    "DiffReport",
    "Document",
    "Entry",
    "File",
    "Files",
    "FlushMode",
    "GetStatus",
    "Got",
    "GroupTable",
    "KvEngine",
    "KvStates",
    "Lock",
    "MessageIllegal",
    "NewBatch",
    "NewMessage",
    "OffsetTable",
    "Put",
    "PutBatch",
    "QueryResult",
    "QueueDiff",
    "ReadLimits",
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
    "StoreUnopened",
    "StoreUnwritable",
    "Supervisor",
    "Taken",
    "Timers",
    "TopicTable",
    "Unit",
    "Usage",
    "disk_problem",
    "light_positions",
    "light_queues",
    "open_store",
    "parse_delay_levels",
    "system_clock_ms",
    "wait_towards",
]
