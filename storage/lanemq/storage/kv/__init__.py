"""Key-value states: deterministic indexes of logs of operations."""

from ._bases import Base, BaseWriter
from ._copy import StateCopy, read_rows
from ._lease_reads import read_lease, read_leases
from ._log import KvLog, operation_properties, operation_record
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._past import Compacted
from ._ranges import RangeRead, Span
from ._reads import WatchedKeys, read_changes, read_entry, read_page, under_prefix
from ._retention import history_for_room, history_to_keep, tight_bytes
from ._state import State as KvState
from ._turn import TURN_S, taken
from .engines._engine import SnapshotGone
from .engines._memory_table import MemoryTable
from .engines._rows import META as META_ROW
from .engines._rows import NO_QUEUE, encode_row
from .engines._rows import Meta as KvMeta

__all__ = [
    "META_ROW",
    "NO_QUEUE",
    "TURN_S",
    "Base",
    "BaseWriter",
    "Compacted",
    "Frozen",
    "KvLog",
    "KvMeta",
    "KvState",
    "LogRecord",
    "MemoryTable",
    "Outcome",
    "RangeRead",
    "SnapshotGone",
    "Span",
    "StateCopy",
    "Status",
    "WatchedKeys",
    "encode_row",
    "history_for_room",
    "history_to_keep",
    "operation_properties",
    "operation_record",
    "read_changes",
    "read_entry",
    "read_lease",
    "read_leases",
    "read_page",
    "read_rows",
    "taken",
    "tight_bytes",
    "under_prefix",
]
