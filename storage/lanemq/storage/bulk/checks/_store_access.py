"""A conversion's access to a store: the watermarks, the stage and the topics."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import final

import msgspec

from lanemq.local import sync_path

from ..._errors import StoreError
from ...checkpoint._watermarks import WatermarkFile, Watermarks
from ...disk._real_files import RealFiles
from ...queues.rocks._cover import RocksCover
from ...queues.rocks._queue_rows import QueueRows
from ...tools.reading._directory import StoreDirectory
from ...tools.reading._metadata import read_tables
from ...tools.reading._stage import derive_stage
from ._survey import Survey


@final
class KnownWatermarks:
    """The file ``config/dispatchWatermark.json``, which only our own brokers write. Raises
    ``OSError``."""

    def __init__(self, root: Path) -> None:
        self._file = WatermarkFile(RealFiles(), root)
        self.found: Watermarks | None = self._file.load()
        """The watermarks; None for another broker's store, whose next start finds out by itself."""

    @property
    def deleted(self) -> Mapping[str, int]:
        """Topic -> end of the log when it was deleted."""
        return self.found.deleted if self.found is not None else {}

    def set_rocksdb(self, cover: RocksCover | None) -> None:
        """Note durably the part of the log that RocksDB has, or that it is unknown."""
        if self.found is not None:
            self._write(msgspec.structs.replace(self.found, rocksdb=cover))

    def set_files(self, log_position: int, digest: str | None = None) -> None:
        """Note durably the watermark of the queue files.

        ``digest`` is theirs (``QueueTable.digest``), and empty where nobody knows it; None leaves
        it as it is. Their bounds are those of another watermark, and are forgotten.
        """
        if self.found is not None:
            digest = self.found.queues if digest is None else digest
            self._write(
                msgspec.structs.replace(self.found, files=log_position, queues=digest, bounds={})
            )

    def _write(self, watermarks: Watermarks) -> None:
        self._file.write(watermarks)
        sync_path(self._file.path)
        sync_path(self._file.path.parent)
        self.found = watermarks


def reads_rows(store: StoreDirectory, rows: QueueRows, found: Survey) -> bool:
    """Return whether brokers of the store's stage read its queues in RocksDB."""
    stage = derive_stage(
        store,
        files_end=found.files_end,
        rocksdb_end=rows.watermark() or 0,
        log_end=found.log_end,
    )
    return stage.stage.reads_rows


def known_topics(config: Path) -> set[str]:
    """Return the existing topics by either kind of tables; fewer where they cannot be read."""
    topics: set[str] = set()
    for from_rocksdb in (False, True):
        with suppress(StoreError, OSError):
            topics |= read_tables(config, from_rocksdb=from_rocksdb)["topics"].entries.keys()
    return topics
