"""The key-value states of a store: brought up to the end of their logs, and kept durable.

A state is an index of its log like queues and rows are of the broker's, and its watermark is the
position in its own rows (``Meta.next``), which is written with the changes. What is durable of it
never lies before what is durable of the log: the log is flushed first, and RocksDB makes nothing
durable unasked. The log's files are kept until the states need them no more.
"""

import errno
import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar, TypeVarTuple, final

import trio

from lanemq.wire.kv import kv_namespace, kv_topic

from .._config import StoreConfig
from .._errors import StartRefused
from .._files import Files
from ..log._commit_log import CommitLog
from ..log._flusher import Flusher
from ..log._messages import Appended
from ..log._reader import Reader
from ._engine import Engine, Table
from ._log import QUEUE_ID, QueueLog, log_record
from ._memory import MemoryEngine
from ._opening import EngineOpener
from ._outcomes import Outcome
from ._state import State

LOGGER = logging.getLogger(__name__)
FLUSH_BYTES: Final = 16 << 20
"""Bytes of changes after which the states are made durable."""
DIRTY_BYTES_MAX: Final = 64 << 20
"""Bytes of changes, not durable yet, beyond which no write is taken."""
SLICE: Final = 256

Applied = Callable[[str, list[tuple[int, Outcome]]], None]
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


async def _here(do: Callable[[*_Ts], _T], *given: *_Ts) -> _T:
    return do(*given)


@final
class KvStates:
    """The states of all namespaces of a store. No method waits but those that are async."""

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
        self._reader = reader
        self._flusher = flusher
        self._dispatched_end = dispatched_end
        self._opener = EngineOpener(config, files=files, clock_ms=clock_ms)
        self._makes_one = trio.Lock()
        self._engine: Engine | None = None
        self._by_topic: dict[str, str] = {}
        self.states: dict[str, State] = {}
        """Namespace -> state."""
        self.logs: dict[str, QueueLog] = {}
        """Namespace -> its log."""
        self._behind: set[str] = set()
        self._held: dict[str, list[Appended]] | None = None
        self._one_at_a_time = trio.Lock()
        self._needed_from = 0
        self.on_applied: list[Applied] = []
        """Callbacks for records that were applied: the namespace, and positions with outcomes."""
        self.on_behind: list[Callable[[str], None]] = []
        """Callbacks for a namespace whose records cannot be applied now, and wait in the log."""

    # The start

    def load(self, queues: Iterable[tuple[str, int]]) -> None:
        """Open the states of the namespaces that there are, by their rows or by their queues.

        Raises ``StartRefused``, ``StoreCorrupted``, ``StoreLocked``, ``ConfigInvalid`` and
        ``OSError``.
        """
        named = [kv_namespace(topic) for topic, queue_id in queues if queue_id == QUEUE_ID]
        names = {name for name in named if name}
        if not names and not self._opener.has_files:
            return
        engine = self._engine = self._opener.open()
        for name in sorted(names.union(engine.names())):
            state = self._add(name, engine.table(name))
            begin, end = self.logs[name].bounds()
            if state.meta.next > end:
                raise StartRefused(
                    f"the keys of namespace {name} have {state.meta.next} records of their log "
                    f"in them, but the log has {end}: bring back the log that belongs to "
                    f"{self._opener.directory}; or move that directory away, and they are made "
                    "anew from the log, as far as it goes back"
                )
            if state.meta.next < begin and not state.meta.lost:
                LOGGER.critical(
                    "the keys of namespace %s are lost: records %d to %d are neither in %s nor "
                    "in the log; nothing of it is served: bring back that directory from a copy",
                    name,
                    state.meta.next,
                    begin,
                    self._opener.directory,
                )
            if state.meta.next < begin:
                state.mark_lost(begin)
            if state.meta.next < end:
                self._behind.add(name)

    def _add(self, name: str, table: Table) -> State:
        state = self.states[name] = State(table)
        self.logs[name] = QueueLog(self._reader, name)
        self._by_topic[kv_topic(name)] = name
        return state

    async def make(self, name: str) -> State:
        """Return the state of a namespace, which is made if it is missing.

        The first one makes the database, in a thread: files are synced a dozen times for it.
        Raises ``OSError``, ``StoreError``.
        """
        async with self._makes_one:
            state = self.states.get(name)
            if state is not None:
                return state
            in_thread = trio.to_thread.run_sync if self._opener.is_slow else _here
            if self._engine is None:
                engine = await in_thread(self._opener.open)
                self._needed_from = self._dispatched_end()
                self._engine = engine
            return self._add(name, await in_thread(self._engine.table, name))

    async def catch_up(self) -> None:
        """Apply what is in the logs and not in the states. Raises ``OSError``,
        ``StoreUnwritable``."""
        for name in sorted(self._behind):
            taken = 0
            while not self._catch_up_some(name):
                taken += SLICE
                if self.wants_flush:
                    await self.flush()
                await trio.lowlevel.checkpoint()
            LOGGER.info("namespace %s has followed its log: %d records", name, taken)

    def _catch_up_some(self, name: str) -> bool:
        """Apply some records; returns whether there are no more."""
        state, log = self.states[name], self.logs[name]
        _, end = log.bounds()
        records = log.read(state.meta.next, max(0, min(SLICE, end - state.meta.next)))
        try:
            outcomes = [(record.position, state.apply(record)) for record in records]
            if outcomes:
                state.write()
        except OSError:
            state.roll_back()
            raise
        if outcomes:
            self._tell(name, outcomes)
        if state.meta.next < end and records:
            return False
        if state.meta.next == end:
            self._behind.discard(name)
        return True

    # From dispatch

    def take(self, dispatched: list[Appended]) -> None:
        """Apply those of the dispatched records that are operations."""
        names = self._by_topic
        if not names:
            return
        found: dict[str, list[Appended]] = {}
        for message in dispatched:
            if message.queue.topic in names and message.is_queued:
                found.setdefault(names[message.queue.topic], []).append(message)
        for name, messages in found.items():
            if self._held is not None:
                self._held.setdefault(name, []).extend(messages)
            else:
                self._apply(name, messages)

    def _apply(self, name: str, messages: list[Appended]) -> None:
        state = self.states[name]
        messages = [message for message in messages if message.queue.queue_id == QUEUE_ID]
        if not messages:
            return
        if name in self._behind or messages[0].queue_offset != state.meta.next:
            self._fell_behind(
                name, f"record {state.meta.next} is next, and not {messages[0].queue_offset}"
            )
            return
        outcomes = []
        try:
            for message in messages:
                data = self._log.read(message.log_position, message.size_bytes)
                if data is None:
                    raise OSError(errno.EIO, "the log cannot be read")
                record = log_record(message.queue_offset, data)
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
        """Whether records wait in a log, since they could not be applied."""
        return bool(self._behind)

    def why_refused(self, name: str, *, grows: bool = True) -> str:
        """Return the reason why a namespace takes no writes now; empty where it does.

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
        """Whether enough is written for a flush."""
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
                    self._apply(name, messages)
            await finish()
            self._needed_from = needed

    @property
    def needed_from(self) -> int:
        """Position of the broker's log from which on the states may need it after a crash."""
        return self._needed_from if self._engine is not None else self._dispatched_end()

    def close(self) -> None:
        """Close the engine. Raises ``OSError``."""
        self.states.clear()
        self._by_topic.clear()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
