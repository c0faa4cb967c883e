"""The part of the log that a start dispatches again."""

from ..._config import Stage
from ...log._records import record_at
from ..reading._directory import StoreDirectory
from ..reading._rows_view import RowsView
from ..reading._stage import read_watermarks


def redo_start(store: StoreDirectory) -> int:
    """Return the log position, in bytes, from which a start dispatches again at the latest.

    After a clean stop nowhere: what is missing below the newest unit stays missing.
    Source: RocketMQ 4.9.8, CommitLog.recoverAbnormally.
    """
    log = store.log
    if store.is_clean:
        return log.capacity_end
    recovery_ms = store.checkpoint().redone_from_ms
    for start in reversed(log.starts):
        first = record_at(log, start)
        if first is not None and 0 < first.store_timestamp_ms <= recovery_ms:
            return start
    return log.begin


def indexed_to(store: StoreDirectory, rows: RowsView | None, stage: Stage) -> int:
    """Return the log position from which on the next start makes units, in the index that brokers
    of a stage read; 0 where that is not to be known."""
    noted = read_watermarks(store)
    if noted is not None and noted.checkpoint_ms != store.checkpoint().latest_ms:
        noted = None  # another broker ran since
    if stage.has_files:
        start = redo_start(store)
        return start if noted is None else min(start, noted.files)
    if rows is None:
        return 0
    mark = rows.watermark()
    return mark if noted is None else min(mark, noted.rocksdb.end if noted.rocksdb else 0)
