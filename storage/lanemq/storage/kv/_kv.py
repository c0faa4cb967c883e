"""The key-value states of a store: brought up to the end of their logs, and kept durable.

A state is an index of its log like queues and rows are of the broker's, and its watermark is the
position in its own rows (``Meta.next``), which is written with the changes. What is durable of it
never lies before what is durable of the log: the log is flushed first, and RocksDB makes nothing
durable unasked. The log's files are kept until the states need them no more.
"""

import errno
import logging
from collections.abc import Callable
from typing import Final, final

import trio

from .._config import StoreConfig
from ..disk._files import Files
from ..log._commit_log import CommitLog
from ..log._flusher import Flusher
from ..messages._messages import Appended
from ..messages._reader import Reader
from ._log import log_record
from ._outcomes import Outcome
from ._partition_states import PartitionStates
from .engines._engine import Engine
from .engines._memory import MemoryEngine

LOGGER = logging.getLogger(__name__)
FLUSH_BYTES: Final = 16 << 20
"""Bytes of changes after which the states are made durable."""
DIRTY_BYTES_MAX: Final = 64 << 20
"""Bytes of changes, not durable yet, beyond which no write is taken."""
SLICE: Final = 256
HELD_S: Final = 0.002
"""Seconds until another look whether a flush still holds back what is dispatched."""

Applied = Callable[[str, list[tuple[int, Outcome]]], None]


@final
class KvStates:
    """The states of all partitions of a store. No method waits but those that are async."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: Files,
        clock_ms: Callable[[], int],
        log: CommitLog,
        reader: Reader,
        flusher: Flusher,
        dispatched_end: Callable[[], int],
    ) -> None:
        self._config = config
        self._log = log
        self._flusher = flusher
        self._dispatched_end = dispatched_end
        self.kept = PartitionStates(
            config,
            files=files,
            clock_ms=clock_ms,
            reader=reader,
            engine_opened=self._engine_opened,
        )
        """The states of the partitions, which come and go there."""
        self.states = self.kept.states
        """Name of the partition -> state."""
        self.in_use = self.kept.in_use
        self._queues = self.kept.queues
        self.logs = self._queues.logs
        """Name of the partition -> its log, or the part of it that is here."""
        self._behind = self.kept.behind
        self.load = self.kept.load
        self.make = self.kept.make
        self._held: dict[str, list[Appended]] | None = None
        self._one_at_a_time = trio.Lock()
        self._needed_from = 0
        self.on_applied: list[Applied] = []
        """Callbacks for records that were applied: the partition, and positions with outcomes.

        A redo has none: those who waited for theirs were told to ask again."""
        self.on_behind: list[Callable[[str], None]] = []
        """Callbacks for a partition whose records cannot be applied now, and wait in the log."""

    @property
    def _engine(self) -> Engine | None:
        return self.kept.engine

    def _engine_opened(self) -> None:
        self._needed_from = self._dispatched_end()

    # Following the logs

    async def catch_up(self) -> None:
        """Apply what is in the logs and not in the states. Raises ``OSError``, of one that cannot
        be written, after the others, and ``StoreUnwritable``."""
        failed: OSError | None = None
        for name in sorted(self._behind):
            state = self.states.get(name)
            if state is None:  # forgotten, while another one was brought up to its end
                continue
            state.remember(rows=True)
            try:
                taken = await self._catch_up(name)
            except OSError as error:
                LOGGER.error("namespace %s cannot follow its log: %s", name, error)
                failed = failed or error
                continue
            finally:
                state.remember(rows=False)
            LOGGER.info("namespace %s has followed its log: %d records", name, taken)
        if failed is not None:
            raise failed

    async def _catch_up(self, name: str) -> int:
        """Apply the records that a state has not; returns how many, roughly."""
        taken = 0
        while name in self._behind:
            if self._held is not None:  # what is applied now may not become durable
                await trio.sleep(HELD_S)
                continue
            if self._catch_up_some(name):
                break
            taken += SLICE
            if self.wants_flush:
                await self.flush()
            await trio.lowlevel.checkpoint()
        return taken

    def _catch_up_some(self, name: str) -> bool:
        """Apply some records; returns whether there are no more."""
        state, log = self.states[name], self.logs[name]
        _, end = log.bounds()
        records = log.read(state.meta.next, max(0, min(SLICE, end - state.meta.next)))
        try:
            if records:
                state.redo(records)
                state.write()
        except OSError:
            state.roll_back()
            raise
        if records:
            self._tell(name, [])
        if state.meta.next < end and records:
            return False
        if state.meta.next == end:
            self._behind.discard(name)
        return True

    # From dispatch

    def take(self, dispatched: list[Appended]) -> None:
        """Apply the operations among the dispatched records."""
        if not self.states:
            return
        for name, messages in self._queues.of(dispatched).items():
            if self._held is not None:
                self._held.setdefault(name, []).extend(messages)
            else:
                self._apply(name, messages)

    def _apply(self, name: str, messages: list[Appended]) -> None:
        state, shift = self.states[name], self._queues.shift(name)
        position = messages[0].queue_offset + shift
        if name in self._behind or position != state.meta.next:
            self._fell_behind(name, f"record {state.meta.next} is next, and not {position}")
            return
        outcomes = []
        try:
            for message in messages:
                data = self._log.read(message.log_position, message.size_bytes)
                if data is None:
                    raise OSError(errno.EIO, "the log cannot be read")
                record = log_record(message.queue_offset + shift, data)
                outcomes.append((record.position, state.apply(record)))
            state.write()
        except OSError as error:
            state.roll_back()
            self._fell_behind(name, str(error))
            return
        self._tell(name, outcomes)

    def _tell(self, name: str, outcomes: list[tuple[int, Outcome]]) -> None:
        for applied in self.on_applied:
            applied(name, outcomes)

    def _fell_behind(self, name: str, why: str) -> None:
        LOGGER.error("keys of namespace %s cannot be written, next try soon: %s", name, why)
        self._behind.add(name)
        for tell in self.on_behind:
            tell(name)

    # Durability

    @property
    def engine_name(self) -> str:
        """The name of the engine in use."""
        is_memory = self._engine is None or isinstance(self._engine, MemoryEngine)
        return "memory" if is_memory else "rocksdb"

    @property
    def is_behind(self) -> bool:
        """True while records wait in a log, since they could not be applied."""
        return bool(self._behind)

    def why_refused(self, name: str, *, grows: bool = True) -> str:
        """Return the reason why a partition takes no writes now; empty where it does.

        ``grows``: whether the write may add to what is kept.
        """
        if name in self._behind:
            return "earlier writes could not be applied yet"
        if self.dirty_bytes > DIRTY_BYTES_MAX:
            return "too much is not durable yet"
        limit_bytes = self._config.kv_memory_max_bytes
        if grows and isinstance(self._engine, MemoryEngine) and self._rows_bytes() > limit_bytes:
            return (
                f"the keys of all namespaces take more than {limit_bytes} bytes of memory "
                "(kvMemoryMaxBytes): delete some, or use kvEngine rocksdb"
            )
        return ""

    def _rows_bytes(self) -> int:
        return sum(
            state.meta.entry_bytes + state.meta.entries * 100 for state in self.states.values()
        )

    @property
    def dirty_bytes(self) -> int:
        return self._engine.dirty_bytes if self._engine is not None else 0

    @property
    def wants_flush(self) -> bool:
        """True when enough is written for a flush."""
        return self.dirty_bytes > FLUSH_BYTES

    async def flush(self) -> None:
        """Make durable what is applied, after the log. Raises ``OSError``, ``StoreUnwritable``.

        What is dispatched while the log is flushed is applied after that, or the state would
        become durable before its log.
        """
        if self._engine is None:
            return
        async with self._one_at_a_time:
            self._held = {}
            try:
                if self._flusher.flushed < self._log.end:
                    await self._flusher.flush()
                needed = self._dispatched_end()
                for name, state in self.states.items():
                    place = self.logs[name].place(state.meta.next)
                    if place is not None:
                        needed = min(needed, place)
                finish = self._engine.freeze()
            finally:
                held, self._held = self._held, None
                for name, messages in held.items():
                    if name in self.states:
                        self._apply(name, messages)
            await finish()
            self._needed_from = needed

    @property
    def needed_from(self) -> int:
        """Position of the broker's log from which on the states may need it after a crash."""
        return self._needed_from if self._engine is not None else self._dispatched_end()

    def close(self) -> None:
        """Close the engine. Raises ``OSError``."""
        self.kept.close()
