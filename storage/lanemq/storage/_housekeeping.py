"""The tasks of an open store, and how it is closed.

The order makes watermarks and checkpoint safe: log data, then queue and index data, then those
that say so. Source: RocketMQ 4.9.8, DefaultMessageStore.FlushConsumeQueueService and its timers.
"""

import logging
from collections.abc import Callable
from typing import Final, final

import trio

from ._appender import Appender
from ._checkpoint import Checkpoint
from ._commit_log import CommitLog
from ._config import Stage, StoreConfig
from ._errors import StoreUnwritable
from ._flusher import Flusher
from ._index import Index
from ._queues import Queues
from ._retention import Retention
from ._rocks_follower import RocksFollower
from ._tables import ConfigTables
from ._watermarks import Progress

LOGGER = logging.getLogger(__name__)
INDEX_INTERVAL_S: Final = 0.25
INDEX_SLICE: Final = 200
PROBE_BYTES: Final = 4096
ROCKS_RETRY_S: Final = 1.0
ROCKS_DIRTY_BYTES_MAX: Final = 64 << 20
"""Of the log: a crash costs RocksDB no more than this to redo."""


@final
class Housekeeping:
    """What runs beside the users of a store."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        appender: Appender,
        log: CommitLog,
        queues: Queues,
        rocks: RocksFollower | None,
        index: Index | None,
        checkpoint: Checkpoint,
        progress: Progress,
        flusher: Flusher,
        retention: Retention,
        tables: ConfigTables,
    ) -> None:
        self._config = config
        self._appender = appender
        self._log = log
        self._queues = queues
        self._rocks = rocks
        self._index = index
        self._checkpoint = checkpoint
        self._progress = progress
        self._flusher = flusher
        self._retention = retention
        self._tables = tables
        self._one_at_a_time = trio.Lock()
        self._flush_rocks_at = 0

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks; they end when the nursery is cancelled."""
        config = self._config
        nursery.start_soon(self._flusher.run)
        nursery.start_soon(self._index_task)
        nursery.start_soon(self._queue_task)
        nursery.start_soon(self._clean_task)
        if self._rocks is not None:
            nursery.start_soon(self._rocks_task, self._rocks)
        self._every(nursery, config.offsets_persist_interval_s, self._persist_tables)
        self._every(
            nursery,
            config.delay_offsets_persist_interval_s,
            self._tables.delay_offsets.persist,
        )

    def _every(self, nursery: trio.Nursery, interval_s: float, action: Callable[[], None]) -> None:
        async def repeat() -> None:
            while True:
                await trio.sleep(interval_s)
                try:
                    action()
                    await self._tables.sync()
                except OSError as error:
                    LOGGER.error("the tables cannot be written, next try soon: %s", error)

        nursery.start_soon(repeat)

    def _persist_tables(self) -> None:
        for table in self._tables.all:
            if table is not self._tables.delay_offsets:
                table.persist()

    async def _index_task(self) -> None:
        while self._index is not None:
            await trio.sleep(INDEX_INTERVAL_S)
            try:
                while self._index.backlog:
                    self._index.drain(INDEX_SLICE)
                    await trio.lowlevel.checkpoint()
            except OSError as error:
                self._appender.refuse(f"the index cannot be written: {error}")

    async def _rocks_task(self, rocks: RocksFollower) -> None:
        while True:
            try:
                await rocks.run()
            except OSError as error:
                self._appender.refuse(f"RocksDB cannot be written: {error}")
            await trio.sleep(ROCKS_RETRY_S)

    async def _queue_task(self) -> None:
        thorough_at_s = trio.current_time() + self._config.queue_thorough_interval_s
        while True:
            await trio.sleep(self._config.queue_flush_interval_s)
            try:
                self._log.make_spare()
                self._write_out()
                if trio.current_time() >= thorough_at_s:
                    thorough_at_s += self._config.queue_thorough_interval_s
                    await self.flush_all()
                elif self._rocks is not None and self._log.end >= self._flush_rocks_at:
                    await self.flush_all()
            except OSError as error:
                self._appender.refuse(f"queues or index cannot be written: {error}")
            except StoreUnwritable:
                return  # the flusher has said why; nothing may follow a log that is not durable

    def _write_out(self) -> None:
        self._queues.write_out()
        if self._index is not None:
            self._index.write_out()

    async def keep_recovery(self) -> None:
        """Make durable what recovery did, before anything is written.

        Else a loss of power might bring back what was cut off, behind newer records. Raises
        ``OSError``, ``StoreUnwritable``.
        """
        await self._log.segments.sync()
        await self.flush_all()

    async def flush_all(self) -> None:
        """Make everything durable, then the checkpoint. Raises ``OSError``, ``StoreUnwritable``."""
        async with self._one_at_a_time:
            store_ms = self._appender.last_store_ms
            position = self._appender.dispatched_end
            await self._flusher.flush()
            if self._index is not None:
                self._index.drain()
            self._write_out()
            await self._queues.sync()
            if self._index is not None:
                await self._index.sync()
                self._progress.index = position
            if self._rocks is not None:
                self._flush_rocks_at = self._log.end + ROCKS_DIRTY_BYTES_MAX
                self._progress.rocksdb = await self._rocks.index.flush()
            if self._config.stage is not Stage.ROCKSDB:
                self._progress.files = position
                self._checkpoint.queue_ms = store_ms
            log_ms = self._flusher.flushed_store_ms
            self._progress.checkpoint_ms = log_ms
            await self._progress.save(log_begin=self._log.segments.begin)
            self._checkpoint.log_ms = log_ms
            self._checkpoint.write()
            await self._checkpoint.sync()

    async def _clean_task(self) -> None:
        await trio.sleep(self._config.first_clean_s)
        while True:
            try:
                await self._retention.run_once()
                self.check_disk()
            except OSError as error:
                LOGGER.error("cleaning failed, next try soon: %s", error)
            await trio.sleep(self._config.clean_interval_s)

    def check_disk(self) -> None:
        """Refuse messages while the disk is too full; take them again once writing works."""
        ratio = self._retention.disk_ratio()
        appender = self._appender
        if ratio > self._config.disk_full_ratio:
            appender.refuse(f"the disk is full to {ratio:.0%}")
        elif appender.reason and not self._flusher.failure and self._can_write():
            LOGGER.warning("messages are taken again; they were refused: %s", appender.reason)
            appender.reason = ""

    def _can_write(self) -> bool:
        try:
            self._log.erase_rest()
            self._log.probe(PROBE_BYTES)
            if self._index is not None:
                self._index.drain()
            self._write_out()
            if self._rocks is not None:
                self._rocks.index.write_some()
        except OSError:
            return False
        return True

    async def close(self) -> bool:
        """Make everything durable; whether the store is now as a clean stop leaves it."""
        try:
            self._appender.commit()
            await self._tables.finish()
            self._log.remove_spare()
            await self.flush_all()
            await self._log.segments.sync()
        except (OSError, StoreUnwritable) as error:
            LOGGER.error("the store could not be closed cleanly: %s", error)
            return False
        return not self._appender.reason
