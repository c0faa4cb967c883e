"""Key-value states: deterministic indexes of logs of operations."""

from ._engine import SnapshotGone
from ._log import KvLog, operation_properties
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._reads import read_changes, read_entry, read_page
from ._state import State as KvState

__all__ = [
    "Frozen",
    "KvLog",
    "KvState",
    "LogRecord",
    "Outcome",
    "SnapshotGone",
    "Status",
    "operation_properties",
    "read_changes",
    "read_entry",
    "read_page",
]
