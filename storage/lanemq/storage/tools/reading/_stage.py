"""The stage of the upgrade to RocksDB in which a store was last run, derived from its content."""

from dataclasses import dataclass
from typing import final

from ..._config import Stage
from ..._layouts import BLANK_SIZE
from ...checkpoint._watermarks import WatermarkFile, Watermarks
from ...disk._real_files import RealFiles
from ._directory import StoreDirectory
from ._rocks_view import has_database


@final
@dataclass(frozen=True, slots=True)
class StageFound:
    """A stage, and the evidence for it."""

    stage: Stage
    why: str
    is_sure: bool = True
    """True if no evidence contradicts it."""


def read_watermarks(store: StoreDirectory) -> Watermarks | None:
    """Read lanemq's notes on its indexes; None where it never ran, or another broker ran since."""
    return WatermarkFile(RealFiles(), store.root).load()


def files_end(store: StoreDirectory) -> int:
    """Return the position behind the newest message that has a unit in a file; -1 without any."""
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
    """Derive the stage; ``files_end`` and ``rocksdb_end`` are the positions behind each index's
    newest message.

    ``rocksdb_end`` is None where the RocksDB cannot be read; ``log_end``, where it is known,
    tells of files that were left behind.
    """
    noted = read_watermarks(store)
    if noted is not None and noted.checkpoint_ms == store.checkpoint().latest_ms:
        return StageFound(Stage(noted.stage), "lanemq noted it in config/dispatchWatermark.json")
    tables = store.has_rocksdb_tables
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
