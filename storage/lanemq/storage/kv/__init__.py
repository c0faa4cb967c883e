"""Key-value states: deterministic indexes of logs of operations."""

from ._copy import StateCopy, read_rows
from ._log import KvLog, operation_properties
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._reads import read_changes, read_entry, read_page
from ._state import State as KvState
from .engines._engine import SnapshotGone
from .engines._rows import NO_QUEUE
from .engines._rows import Meta as KvMeta

__all__ = [
    "NO_QUEUE",
    "Frozen",
    "KvLog",
    "KvMeta",
    "KvState",
    "LogRecord",
    "Outcome",
    "SnapshotGone",
    "StateCopy",
    "Status",
    "operation_properties",
    "read_changes",
    "read_entry",
    "read_page",
    "read_rows",
]
