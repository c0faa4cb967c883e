"""Key-value states: deterministic indexes of logs of operations."""

from ._copy import StateCopy, read_rows
from ._engine import SnapshotGone
from ._log import KvLog, operation_properties
from ._outcomes import Frozen, LogRecord, Outcome, Status
from ._reads import read_changes, read_entry, read_page
from ._rows import NO_QUEUE
from ._rows import Meta as KvMeta
from ._state import State as KvState

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
