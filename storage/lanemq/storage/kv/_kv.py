"""The key-value states of a store: brought up to the end of their logs, and kept durable.

A state is an index of its log like queues and rows are of the broker's, and its watermark is the
position in its own rows (``Meta.next``), which is written with the changes. What is durable of it
never lies before what is durable of the log: the log is flushed first, and RocksDB makes nothing
durable unasked. The log's files are kept until the states need them no more.
"""

import errno
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, final

import trio

from lanemq.local import get_logger

from .._config import StoreConfig
from ..disk._files import Files
from ..log._commit_log import CommitLog
from ..log._flusher import Flusher
from ..messages._messages import Appended
from ..messages._reader import Reader
from ._damage import Damage
from ._log import log_record
from ._outcomes import Outcome
from ._partition_states import PartitionStates
from ._redo import Redo
from ._retention import tight_bytes
from ._turn import LONG_BYTES, TURN_S, taken
from .engines._engine import Engine
from .engines._memory import MemoryEngine

LOGGER = get_logger(__name__)
FLUSH_BYTES: Final = 16 << 20
"""Bytes of changes after which the states are made durable."""
DIRTY_BYTES_MAX: Final = 64 << 20
"""Bytes of changes, not durable yet, beyond which no write is taken."""

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
        self.damage = Damage(self.kept, closed=self._close_for_damage)
        self.kept.on_fault = self.damage.note
        self.load = self.kept.load
        self.make = self.kept.make
        self.is_held = False
        """True while a flush makes the log durable: what is applied then would go before it."""
        self._pending: dict[str, deque[Appended]] = {}
        """Name of the partition -> records that are dispatched and not applied yet."""
        self._news = trio.Event()
        self._redo = Redo(self.kept, self.damage, followed=self)
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

    async def catch_up(self) -> None:
        """Apply what is in the logs and not in the states. Raises ``OSError``, of one that cannot
        be written, after the others, and ``StoreUnwritable``."""
        await self._redo.catch_up()

    async def catch_up_at_start(self) -> None:
        """Apply what is in the logs. What cannot be applied now waits for the tasks."""
        try:
            await self.catch_up()
        except OSError as error:
            LOGGER.error("keys are not open yet: %s", error)

    # From dispatch

    def take(self, dispatched: list[Appended]) -> None:
        """Apply the operations among the dispatched records."""
        if not self.states:
            return
        until_s, is_over = perf_counter() + TURN_S, False
        for name, messages in self._queues.of(dispatched).items():
            pending = self._pending.setdefault(name, deque())
            pending.extend(messages)
            is_long = any(message.size_bytes > LONG_BYTES for message in messages)
            if len(pending) == len(messages) and not (self.is_held or is_over or is_long):
                self._apply(name, until_s)
                is_over = perf_counter() > until_s  # the rest is left to ``run``
        if self._pending and not self.is_held:
            self._news.set()

    async def run(self) -> None:
        """Apply what is too much for the turn in which it was dispatched, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await trio.lowlevel.checkpoint()
            if not self.is_held:
                self._apply_pending()

    def _apply_pending(self) -> None:
        until_s = perf_counter() + TURN_S
        for name in list(self._pending):
            self._apply(name, until_s)
            if perf_counter() > until_s:
                break
        if self._pending:
            self._news.set()

    def _apply(self, name: str, until_s: float) -> None:
        """Apply what is pending of a partition, one record at least, until the turn is over."""
        state = self.states.get(name)
        if state is None:  # forgotten meanwhile
            del self._pending[name]
            return
        pending, shift = self._pending[name], self._queues.shift(name)
        position = pending[0].queue_offset + shift
        if name in self._behind or position != state.meta.next:
            self._fell_behind(name, f"record {state.meta.next} is next, and not {position}")
            return
        outcomes = []
        try:
            for message in taken(until_s, pending, lambda: state.is_enough):
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
        del self._pending[name]
        if pending:
            self._pending[name] = pending  # behind the other partitions
        self.tell(name, outcomes)

    def tell(self, name: str, outcomes: list[tuple[int, Outcome]]) -> None:
        """Report records that were applied; without outcomes after a redo."""
        for applied in self.on_applied:
            applied(name, outcomes)

    def _close_for_damage(self, name: str) -> None:
        if name in self.states:
            self._fell_behind(name, "its rows are damaged")

    def why_closed(self, name: str) -> str:
        """Return the reason why a partition takes no reads now; empty where it does."""
        if name in self.kept.stale:
            return "its state follows its log"
        return self.damage.why_closed(name)

    async def fix(self) -> None:
        """Set aside what is damaged and have it made again, until cancelled."""
        await self.damage.run(self._one_at_a_time)

    def _fell_behind(self, name: str, why: str) -> None:
        LOGGER.error("keys of namespace %s cannot be written, next try soon: %s", name, why)
        self._behind.add(name)
        self._pending.pop(name, None)
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
        if grows and self._memory_bytes > limit_bytes:
            return (
                f"the keys of all namespaces take more than {limit_bytes} bytes of memory "
                "(kvMemoryMaxBytes), their history too: compact it (compact, "
                "kvHistoryRevisions), delete some, or use kvEngine rocksdb"
            )
        return ""

    @property
    def is_tight(self) -> bool:
        """True where rows in memory take nearly as much as they may."""
        return self._memory_bytes > tight_bytes(self._config.kv_memory_max_bytes)

    @property
    def _memory_bytes(self) -> int:
        """The bytes of rows in memory; 0 where they are on the disk."""
        return self._engine.size_bytes if isinstance(self._engine, MemoryEngine) else 0

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
            self.is_held = True
            try:
                if self._flusher.flushed < self._log.end:
                    await self._flusher.flush()
                needed = self._dispatched_end()
                for name, state in self.states.items():
                    place = self.logs[name].place(state.meta.next)
                    if place is not None:
                        needed = min(needed, place)
                if self.damage.is_awaited:  # it is made of the log, from its begin
                    needed = min(needed, self._needed_from)
                finish = self._engine.freeze()
            finally:
                self.is_held = False
                self._apply_pending()
            await finish()
            self._needed_from = needed

    @property
    def needed_from(self) -> int:
        """Position of the broker's log from which on the states may need it after a crash."""
        return self._needed_from if self.in_use.is_set() else self._dispatched_end()

    def close(self) -> None:
        """Close the engine. Raises ``OSError``."""
        self.kept.close()
