"""Tools on a store directory that no broker has open: looking, checking, fixing.

Tools that only look change nothing, not even on a writable disk.
"""

from .._layouts import BLANK_SIZE
from ..derive._sequence import Sequences
from ..derive._units import DerivedUnit
from ..log._records import is_blank
from ..queues._queue_positions import UNPLACED
from ..queues._tags import delivery_delay_ms
from ._diff import StoreDiff, diff_store
from ._dump import Dump, Lost, Selection, open_dump
from ._export import ExportedTable, export_in_place, export_tables, find_stage, write_tables
from ._import import ImportedTable, import_in_place
from ._inspect import Inspection, inspect_store
from ._summaries import (
    GroupSummary,
    IndexSummary,
    LogSummary,
    QueueSummary,
    TableSummary,
)
from ._unit_facts import UnitFacts, find_unit_facts
from .checks._findings import Finding, Part, Progress, Severity
from .checks._kv_check import KvReport, NamespaceReport, verify_kv
from .checks._verify import VerifyReport, verify_store
from .reading._directory import StoreCheckpoint, StoreDirectory, look_into, read_store
from .reading._errors import NotAStore
from .reading._kv_states import kv_entries, read_kv
from .reading._metadata import read_logical_queues
from .reading._rows_view import RowsView
from .reading._scan import Damage, DamageKind, LogScan, ScannedLog, find_record
from .reading._settings import BrokerSettings, read_properties, read_settings
from .reading._stage import StageFound
from .rebuild._repair import repair_store
from .rebuild._repair_report import Action, RepairReport

__all__ = [
    "BLANK_SIZE",
    "UNPLACED",
    "Action",
    "BrokerSettings",
    "Damage",
    "DamageKind",
    "DerivedUnit",
    "Dump",
    "ExportedTable",
    "Finding",
    "GroupSummary",
    "ImportedTable",
    "IndexSummary",
    "Inspection",
    "KvReport",
    "LogScan",
    "LogSummary",
    "Lost",
    "NamespaceReport",
    "NotAStore",
    "Part",
    "Progress",
    "QueueSummary",
    "RepairReport",
    "RowsView",
    "ScannedLog",
    "Selection",
    "Sequences",
    "Severity",
    "StageFound",
    "StoreCheckpoint",
    "StoreDiff",
    "StoreDirectory",
    "TableSummary",
    "UnitFacts",
    "VerifyReport",
    "delivery_delay_ms",
    "diff_store",
    "export_in_place",
    "export_tables",
    "find_record",
    "find_stage",
    "find_unit_facts",
    "import_in_place",
    "inspect_store",
    "is_blank",
    "kv_entries",
    "look_into",
    "open_dump",
    "read_kv",
    "read_logical_queues",
    "read_properties",
    "read_settings",
    "read_store",
    "repair_store",
    "verify_kv",
    "verify_store",
    "write_tables",
]
