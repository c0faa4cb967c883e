"""Jobs, each a function of a session with a typed result."""

from ._archive import Archived, archive, archive_rows
from ._audit import Audited, AuditedMessage, audit, audit_rows, trace_records
from ._build import Built, build
from ._compare import archive as archived
from ._convert import ConvertedStore, ConvertedTable, convert
from ._count import count
from ._diff import Diffed, QueueDifference, diff
from ._doctor import Worker, doctor
from ._export import Exported, export
from ._find import FoundMessage, find, find_rows
from ._kv import KeyDifference, KvDiffed, KvExported, KvImported, diff_kv, export_kv, import_kv
from ._lag import DeadLetters, Lag, Lagging, lag
from ._match import Compared, MessageDifference, compare, compare_rows
from ._replay import ReplayedTopic, replay
from ._report import Reported, report
from ._restore import Restored, restore, restore_rows
from ._stages import StageProgress
from ._verify import Damaged, VerifiedQueues, VerifiedStore, verify

__all__ = [
    "Archived",
    "Audited",
    "AuditedMessage",
    "Built",
    "Compared",
    "ConvertedStore",
    "ConvertedTable",
    "Damaged",
    "DeadLetters",
    "Diffed",
    "Exported",
    "FoundMessage",
    "KeyDifference",
    "KvDiffed",
    "KvExported",
    "KvImported",
    "Lag",
    "Lagging",
    "MessageDifference",
    "QueueDifference",
    "ReplayedTopic",
    "Reported",
    "Restored",
    "StageProgress",
    "VerifiedQueues",
    "VerifiedStore",
    "Worker",
    "archive",
    "archive_rows",
    "archived",
    "audit",
    "audit_rows",
    "build",
    "compare",
    "compare_rows",
    "convert",
    "count",
    "diff",
    "diff_kv",
    "doctor",
    "export",
    "export_kv",
    "find",
    "find_rows",
    "import_kv",
    "lag",
    "replay",
    "report",
    "restore",
    "restore_rows",
    "trace_records",
    "verify",
]
