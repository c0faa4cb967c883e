"""The source ``rocketmq-store``: store directories as tables, without a broker."""

from ._build import TablePart, build_table, table_parts
from ._counts import topic_counts
from ._files import Entry, StoreFiles, open_file_system, write_file
from ._log_writer import LogRecord, LogWriter
from ._source import StoreSource
from ._state import (
    CloseState,
    close_state,
    is_store,
    local_directory,
    log_begin,
    queue_sources,
    require_store,
)

__all__ = [
    "CloseState",
    "Entry",
    "LogRecord",
    "LogWriter",
    "StoreFiles",
    "StoreSource",
    "TablePart",
    "build_table",
    "close_state",
    "is_store",
    "local_directory",
    "log_begin",
    "open_file_system",
    "queue_sources",
    "require_store",
    "table_parts",
    "topic_counts",
    "write_file",
]
