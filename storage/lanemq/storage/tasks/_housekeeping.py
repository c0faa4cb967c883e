"""The background tasks of an open store, and its closing.

The order makes watermarks and checkpoint safe: log data, then queue and index data, then those
that say so. Source: RocketMQ 4.9.8, DefaultMessageStore.FlushConsumeQueueService and its timers.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from lanemq.local import get_logger

from .._config import StoreConfig
from .._errors import StoreUnwritable
from .._store_parts import StoreParts
from .._tables import ConfigTables
from ..index._index import TURN_MAX
from ..kv._kv import KvStates
from ..log._flusher import Flusher
from ..messages._appender import Appender
from ..queues.rocks._follower import RocksFollower
from ..tables._table import Table
from ..timer._timers import Timers
from ._retention import Retention
from ._supervisor import Supervisor

LOGGER = get_logger(__name__)
INDEX_INTERVAL_S: Final = 1.0
"""Seconds between two looks for messages that were too few to be indexed when they came."""
PROBE_BYTES: Final = 4096
ROCKS_RETRY_S: Final = 1.0
ROOM_INTERVAL_S: Final = 1.0
"""Seconds between two looks whether a disk that was full can be written again."""
KV_INTERVAL_S: Final = 0.5
ROCKS_DIRTY_BYTES_MAX: Final = 64 << 20
"""Bytes of the log at most that RocksDB has to redo after a crash."""


@final
class Housekeeping:
    """The background tasks of a store."""

    def __init__(
        self,
        config: StoreConfig,
        parts: StoreParts,
        *,
        appender: Appender,
        follower: RocksFollower | None,
        kv: KvStates | None,
        timers: Timers | None,
        flusher: Flusher,
        retention: Retention,
        tables: ConfigTables,
    ) -> None:
        self._config = config
        self._appender = appender
        self._parts = parts
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._follower = follower
        self._kv = kv
        self._timers = timers
        self._progress = parts.progress
        self._flusher = flusher
        self._retention = retention
        self._tables = tables
        self._one_at_a_time = trio.Lock()
        self._flush_rocks_at = 0
        self.supervisor = Supervisor()
        """The supervisor of the tasks."""

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks; they end when the nursery is cancelled."""
        try:
            self.check_disk()  # no message is taken that the next look would have refused
        except OSError as error:
            LOGGER.error("the disk cannot be checked, next try soon: %s", error)
        config = self._config
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "flushing the log": self._flusher.run,
            "writing the index": self._index_task,
            "writing the queues": self._queue_task,
            "keys": self._kv_task,
            "keeping timers": self._timers_task,
            "retention": self._clean_task,
            "removing files of deleted topics": self._parts.file_queues.removed.run,
            "looking for room on the disk": self._room_task,
            "writing the tables": lambda: self._persist(
                config.offsets_persist_interval_s, *self._tables.of_users
            ),
            "writing the delay offsets": lambda: self._persist(
                config.delay_offsets_persist_interval_s, self._tables.delay_offsets
            ),
        }
        if self._kv is not None:
            tasks["applying keys"] = self._kv.run
            tasks["setting damaged keys aside"] = self._kv.fix
        if self._follower is not None:
            follower = self._follower
            tasks["writing RocksDB"] = lambda: self._rocks_task(follower)
        for name, task in tasks.items():
            nursery.start_soon(self.supervisor.run, name, task)

    async def _persist(self, interval_s: float, *tables: Table) -> None:
        while True:
            await trio.sleep(interval_s)
            try:
                for table in tables:
                    name = f"writing {table.backend.path.name}"
                    await self.supervisor.turn(name, table.persist_in_turns)
                await self._tables.sync()
            except OSError as error:
                LOGGER.error("the tables cannot be written, next try soon: %s", error)

    async def _index_task(self) -> None:
        while self._index is not None:
            with trio.move_on_after(INDEX_INTERVAL_S):
                await self._index.waiting.many.wait()
            self._index.waiting.many = trio.Event()
            try:
                for _ in self._index.drained():
                    await trio.lowlevel.checkpoint()
            except OSError as error:
                self._appender.failed("the index cannot be written", error)

    async def _rocks_task(self, follower: RocksFollower) -> None:
        while True:
            try:
                await follower.run()
            except OSError as error:
                self._appender.failed("RocksDB cannot be written", error)
            await trio.sleep(ROCKS_RETRY_S)

    async def _kv_task(self) -> None:
        kv = self._kv
        while kv is not None:
            await trio.sleep(KV_INTERVAL_S)
            try:
                if kv.wants_flush:
                    await kv.flush()
                if kv.is_behind:
                    await kv.catch_up()
            except OSError as error:
                LOGGER.error("keys cannot be written, next try soon: %s", error)
            except StoreUnwritable:
                return  # as for the queues

    async def _timers_task(self) -> None:
        timers = self._timers
        while timers is not None:
            await trio.sleep(self._config.timer_flush_interval_s)
            try:
                if timers.has_changed:
                    await timers.flush(self._flusher.flush)
                timers.remove_unneeded(self._log.min_position)
            except OSError as error:
                LOGGER.error("timers cannot be written, next try soon: %s", error)
            except StoreUnwritable:
                return  # as for the queues

    async def _queue_task(self) -> None:
        thorough_at_s = trio.current_time() + self._config.queue_thorough_interval_s
        while True:
            await trio.sleep(self._config.queue_flush_interval_s)
            try:
                self._log.make_spare()
                await self._write_in_turns()
                if trio.current_time() >= thorough_at_s:
                    thorough_at_s += self._config.queue_thorough_interval_s
                    await self.flush_all()
                elif self._follower is not None and self._log.end >= self._flush_rocks_at:
                    await self.flush_all()
            except OSError as error:
                self._appender.failed("queues or index cannot be written", error)
            except StoreUnwritable:
                return  # the flusher has said why; nothing may follow a log that is not durable

    def _write_out(self) -> None:
        self._queues.write_out()
        if self._index is not None:
            self._index.write_out()

    async def _write_in_turns(self) -> None:
        await self._queues.write_in_turns()
        if self._index is not None:
            for _ in self._index.write_steps():
                await trio.lowlevel.checkpoint()

    async def keep_recovery(self) -> None:
        """Make the work of recovery durable, before anything is written.

        Else a loss of power might bring back what was cut off, behind newer records. Raises
        ``OSError``, ``StoreUnwritable``.
        """
        await self._log.segments.sync()
        await self.flush_all()

    async def flush_all(self) -> None:
        """Make everything durable, then the checkpoint. Raises ``OSError``, ``StoreUnwritable``."""
        async with self._one_at_a_time:
            has_files = self._config.stage.has_files
            await self._queues.write_in_turns()  # so that few are left to write in this turn
            bounds = await self._parts.file_queues.bounds() if has_files else {}
            # As of the moment of the bounds: no queue may end behind where its next redo begins.
            store_ms = self._appender.dispatcher.last_store_ms
            position = self._appender.dispatcher.dispatched_end
            await self._flusher.flush()
            if self._index is not None:
                for _ in self._index.drained():
                    await trio.lowlevel.checkpoint()
            await self._write_in_turns()
            await self._queues.sync()
            if self._index is not None:
                await self._index.sync()
                self._progress.index = position
            if self._follower is not None:
                self._flush_rocks_at = self._log.end + ROCKS_DIRTY_BYTES_MAX
                self._progress.rocksdb = await self._follower.index.flush()
            if has_files:
                self._progress.files = position
                self._progress.bounds = bounds
                self._parts.checkpoint.queue_ms = store_ms
            self._parts.checkpoint.log_ms = self._flusher.flushed_store_ms
            self._progress.checkpoint_ms = self._parts.checkpoint.latest_ms
            await self._progress.save(log_begin=self._log.segments.begin)
            self._parts.checkpoint.write()
            await self._parts.checkpoint.sync()
        if self._kv is not None:
            await self._kv.flush()

    async def _clean_task(self) -> None:
        await trio.sleep(self._config.first_clean_s)
        while True:
            try:
                removed = await self._retention.run_once()
                self.check_disk()
                if removed:
                    await self.flush_all()  # queues begin elsewhere, and a start should know
            except OSError as error:
                LOGGER.error("cleaning failed, next try soon: %s", error)
            except StoreUnwritable:
                return  # as for the queues
            await trio.sleep(self._config.clean_interval_s)

    async def _room_task(self) -> None:
        """Take messages again soon after the disk has room; cleanings are far apart."""
        while not self._flusher.failure:
            await trio.sleep(ROOM_INTERVAL_S)
            if not self._appender.reason:
                continue
            try:
                self.check_disk()
            except OSError as error:
                LOGGER.error("the disk cannot be checked, next try soon: %s", error)
            except StoreUnwritable:
                return  # as for the queues

    def check_disk(self) -> None:
        """Refuse messages while the disk is too full; take them again once writing works."""
        ratio = self._retention.disk_ratio()
        appender = self._appender
        if ratio > self._config.disk_full_ratio:
            appender.refuse(f"the disk is full to {ratio:.0%}")
        elif appender.reason and not self._flusher.failure and self._can_write():
            LOGGER.warning("messages are accepted again; they were refused: %s", appender.reason)
            appender.reason = ""

    def _can_write(self) -> bool:
        try:
            self._log.erase_rest()
            self._log.probe(PROBE_BYTES)
            if self._index is not None:
                self._index.drain(TURN_MAX)
            self._write_out()
            if self._follower is not None:
                self._follower.index.write_some()
        except OSError:
            return False
        return True

    async def close(self) -> bool:
        """Make everything durable; returns True if the store is now as a clean stop leaves it."""
        try:
            self._appender.commit()
            await self._tables.finish()
            self._log.remove_spare()
            if self._config.stage.has_files:
                self._progress.queues = self._parts.file_queues.digest()
            self._progress.log_begin = self._log.segments.begin
            await self.flush_all()
            if self._index is not None:  # slots that changed while others were written
                self._index.write_out()
                await self._index.sync()
            if self._timers is not None and self._timers.has_changed:
                await self._timers.flush(self._flusher.flush)
            await self._log.segments.sync()
        except (OSError, StoreUnwritable) as error:
            LOGGER.error("the store could not be closed cleanly: %s", error)
            return False
        except Exception:  # a bug; the next start looks at all of it as after a crash
            self.supervisor.failed("closing the store")
            return False
        return not self._appender.reason
