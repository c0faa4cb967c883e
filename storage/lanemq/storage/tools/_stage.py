"""Which stage of the upgrade to RocksDB a store was last run in; it says so nowhere."""

from dataclasses import dataclass
from typing import final

from .._config import Stage
from .._files import RealFiles
from .._layouts import BLANK_SIZE
from .._watermarks import WatermarkFile, Watermarks
from ._directory import StoreDirectory
from ._metadata import TABLES, has_table_database
from ._rocks_view import has_database


@final
@dataclass(frozen=True, slots=True)
class StageFound:
    """A stage, and what tells it."""

    stage: Stage
    why: str
    is_sure: bool = True
    """Whether nothing speaks against it."""


def read_watermarks(store: StoreDirectory) -> Watermarks | None:
    """What lanemq noted about its indexes; None where it never ran, or another broker since."""
    return WatermarkFile(RealFiles(), store.root).load()


def files_end(store: StoreDirectory) -> int:
    """Position behind the newest message that has a unit in a file; -1 without any."""
    newest = -1
    for queue in store.queues():
        unit = queue.unit(queue.end() - 1) if len(queue.pieces) else None
        if unit is not None and 0 < unit.size_bytes < BLANK_SIZE:
            newest = max(newest, unit.log_position + unit.size_bytes)
        queue.close()
    return newest


def derive_stage(
    store: StoreDirectory, *, files_end: int, rocksdb_end: int | None, log_end: int | None = None
) -> StageFound:
    """``files_end``, ``rocksdb_end``: position behind the newest message that the index has.

    ``rocksdb_end`` is None where the RocksDB cannot be read; ``log_end``, where it is known,
    tells of files that were left behind.
    """
    noted = read_watermarks(store)
    if noted is not None and noted.checkpoint_ms == store.checkpoint().log_timestamp_ms:
        return StageFound(Stage(noted.stage), "lanemq noted it in config/dispatchWatermark.json")
    tables = any(has_table_database(store.config, kind) for kind in TABLES)
    if not has_database(store.consume_queue):
        if tables and log_end is not None and files_end < log_end:
            return StageFound(
                Stage.ROCKSDB,
                "tables are in RocksDB, and the queue files do not go to the end; the queues'"
                " RocksDB is missing",
                is_sure=False,
            )
        return StageFound(Stage.FILES, "there is no RocksDB in consumequeue")
    if not tables:
        return StageFound(
            Stage.BOTH,
            "there is a RocksDB in consumequeue, but no tables are in RocksDB",
        )
    if rocksdb_end is None:
        return StageFound(
            Stage.ROCKSDB,
            "tables are in RocksDB; the queues' RocksDB cannot be read",
            is_sure=False,
        )
    if rocksdb_end > files_end:
        return StageFound(
            Stage.ROCKSDB, "tables are in RocksDB, and its queues go on where the files end"
        )
    if rocksdb_end < files_end:
        return StageFound(
            Stage.FILES,
            "the queue files go on where RocksDB ends: it was left again",
            is_sure=False,
        )
    return StageFound(
        Stage.ROCKSDB, "tables are in RocksDB; both kinds of queues end alike", is_sure=False
    )
