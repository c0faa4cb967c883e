"""Keys and values at a broker of lanemq: small state, locks, checkpoints, without ZooKeeper."""

from lanemq.wire.kv import (
    Action,
    Change,
    ChangeKind,
    Entry,
    LoadedEntry,
    NamespaceStatus,
    Page,
    Step,
    StepResult,
)

from ._checkpoint import Checkpoint
from ._lock import Lock
from ._offset_store import KvOffsetStore
from ._results import BatchResult, CasResult
from ._store import KeyValueStore, open_kv_store
from ._watch import Watch
from .requests._errors import (
    CheckpointMoved,
    KvCompacted,
    KvNotSupported,
    KvRejected,
    KvStateLost,
    KvWriteForgotten,
    LockLost,
    LockNotAcquired,
    NoNamespace,
)

__all__ = [
    "Action",
    "BatchResult",
    "CasResult",
    "Change",
    "ChangeKind",
    "Checkpoint",
    "CheckpointMoved",
    "Entry",
    "KeyValueStore",
    "KvCompacted",
    "KvNotSupported",
    "KvOffsetStore",
    "KvRejected",
    "KvStateLost",
    "KvWriteForgotten",
    "LoadedEntry",
    "Lock",
    "LockLost",
    "LockNotAcquired",
    "NamespaceStatus",
    "NoNamespace",
    "Page",
    "Step",
    "StepResult",
    "Watch",
    "open_kv_store",
]
