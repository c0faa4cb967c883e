"""lanemq.sdk.kv for programs without an event loop.

Written by sdk/tools/generate_faces.py.
"""

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

from ...kv._offset_store import KvOffsetStore
from ...kv._results import BatchResult, CasResult
from ...kv.requests._errors import (
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
from ._open import open_kv_store
from ._store import Checkpoint, KeyValueStore, Lock, Watch

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
