"""lanemq.sdk.kv for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""

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

from ...kv._observe import LeaderSeen
from ...kv._offset_store import KvOffsetStore
from ...kv._results import BatchResult, CasResult, TxnResult
from ...kv.requests._errors import (
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
from ...kv.requests._namespaces import NamespaceInfo
from ._held import Checkpoint, Leaders, Lease, Lock, Watch
from ._open import open_kv_store
from ._store import KeyValueStore

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
