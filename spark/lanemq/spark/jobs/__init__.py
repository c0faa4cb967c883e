"""Jobs, each a function of a session with a typed result."""

from ._build import Built, build
from ._convert import ConvertedStore, ConvertedTable, convert
from ._diff import Diffed, QueueDifference, diff
from ._export import Exported, export
from ._kv import KeyDifference, KvDiffed, KvExported, KvImported, diff_kv, export_kv, import_kv
from ._lag import DeadLetters, Lag, Lagging, lag
from ._replay import ReplayedTopic, replay
from ._report import Reported, report
from ._stages import StageProgress
from ._verify import Damaged, VerifiedQueues, VerifiedStore, verify

__all__ = [
    "Built",
    "ConvertedStore",
    "ConvertedTable",
    "Damaged",
    "DeadLetters",
    "Diffed",
    "Exported",
    "KeyDifference",
    "KvDiffed",
    "KvExported",
    "KvImported",
    "Lag",
    "Lagging",
    "QueueDifference",
    "ReplayedTopic",
    "Reported",
    "StageProgress",
    "VerifiedQueues",
    "VerifiedStore",
    "build",
    "convert",
    "diff",
    "diff_kv",
    "export",
    "export_kv",
    "import_kv",
    "lag",
    "replay",
    "report",
    "verify",
]
