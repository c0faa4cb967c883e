"""Tools on a store directory that no broker has open: looking, checking, mending.

What only looks changes nothing, not even on a disk that would let it.
"""

from ._diff import StoreDiff, diff_store
from ._directory import Checkpoint, StoreDirectory, look_into, read_store
from ._dump import Dump, Lost, Selection, open_dump
from ._errors import NotAStore
from ._export import ExportedTable, export_in_place, export_tables, write_tables
from ._findings import Finding, Part, Progress, Severity
from ._inspect import Inspection, inspect_store
from ._repair import Action, RepairReport, repair_store
from ._stage import StageFound
from ._summaries import (
    GroupSummary,
    IndexSummary,
    LogSummary,
    QueueSummary,
    TableSummary,
)
from ._verify import VerifyReport, verify_store

__all__ = [
    "Action",
    "Checkpoint",
    "Dump",
    "ExportedTable",
    "Finding",
    "GroupSummary",
    "IndexSummary",
    "Inspection",
    "LogSummary",
    "Lost",
    "NotAStore",
    "Part",
    "Progress",
    "QueueSummary",
    "RepairReport",
    "Selection",
    "Severity",
    "StageFound",
    "StoreDiff",
    "StoreDirectory",
    "TableSummary",
    "VerifyReport",
    "diff_store",
    "export_in_place",
    "export_tables",
    "inspect_store",
    "look_into",
    "open_dump",
    "read_store",
    "repair_store",
    "verify_store",
    "write_tables",
]
