"""Keys and values at a broker of lanemq: small state, locks, checkpoints, without ZooKeeper."""

from lanemq.wire.kv import (
    Action,
    Change,
    ChangeKind,
    Compare,
    Entry,
    LeaseStatus,
    LoadedEntry,
    NamespaceStatus,
    Operation,
    OperationResult,
    Page,
    RangePage,
    Step,
    StepResult,
)

from ._checkpoint import Checkpoint
from ._lease import Lease
from ._lock import Lock
from ._observe import Leaders, LeaderSeen
from ._offset_store import KvOffsetStore
from ._open import open_kv_store
from ._results import BatchResult, CasResult, TxnResult
from ._store import KeyValueStore
from ._watch import Watch
from .requests._errors import (
    CheckpointMoved,
    KvCompacted,
    KvNotSupported,
    KvRejected,
    KvStateLost,
    KvWriteForgotten,
    LeaseLost,
    LockLost,
    LockNotAcquired,
    NamespaceSplit,
    NoLease,
    NoNamespace,
)
from .requests._namespaces import NamespaceInfo

__all__ = [
    "Action",
    "BatchResult",
    "CasResult",
    "Change",
    "ChangeKind",
    "Checkpoint",
    "CheckpointMoved",
    "Compare",
    "Entry",
    "KeyValueStore",
    "KvCompacted",
    "KvNotSupported",
    "KvOffsetStore",
    "KvRejected",
    "KvStateLost",
    "KvWriteForgotten",
    "LeaderSeen",
    "Leaders",
    "Lease",
    "LeaseLost",
    "LeaseStatus",
    "LoadedEntry",
    "Lock",
    "LockLost",
    "LockNotAcquired",
    "NamespaceInfo",
    "NamespaceSplit",
    "NamespaceStatus",
    "NoLease",
    "NoNamespace",
    "Operation",
    "OperationResult",
    "Page",
    "RangePage",
    "Step",
    "StepResult",
    "TxnResult",
    "Watch",
    "open_kv_store",
]
