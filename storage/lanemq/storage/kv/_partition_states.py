"""The states of a store's partitions, which are opened, made, taken over and given away."""

import errno
import logging
from collections.abc import AsyncIterator, Callable, Container, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, TypeVarTuple, final

import trio

from lanemq.wire.kv import kv_namespace, parse_partition

from .._config import StoreConfig
from .._errors import StartRefused
from ..disk._files import Files
from ..messages._reader import Reader
from ._copy import ALL_BEGIN, ALL_END, StateCopy
from ._followed import FollowedQueues
from ._state import State
from .engines._engine import Engine, Table
from .engines._opening import EngineOpener
from .engines._rows import NO_QUEUE, Meta

LOGGER: Final = logging.getLogger(__name__)
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


async def _here(do: Callable[[*_Ts], _T], *given: *_Ts) -> _T:
    return do(*given)


@final
class PartitionStates:
    """The states by the names of their partitions, and the queue that each follows."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: Files,
        clock_ms: Callable[[], int],
        reader: Reader,
        engine_opened: Callable[[], None],
    ) -> None:
        """Call ``engine_opened`` when the first state makes the database."""
        self._opener = EngineOpener(config, files=files, clock_ms=clock_ms)
        self._engine_opened = engine_opened
        self._makes_one = trio.Lock()
        self.engine: Engine | None = None
        self.in_use = trio.Event()
        """Set when the database is open: from then on there may be states."""
        self.states: dict[str, State] = {}
        """Name of the partition -> state."""
        self.queues = FollowedQueues(reader)
        self._copied: set[str] = set()
        """Partitions that are being taken over: nobody else may write their rows."""
        self._unclaimed: list[tuple[str, int]] = []
        self.behind: set[str] = set()
        """Partitions with records in their logs that have to be applied yet."""

    def load(self, queues: Iterable[tuple[str, int]]) -> None:
        """Open the existing states. ``queues`` are those that the store has.

        Raises ``StartRefused``, ``StoreCorrupted``, ``StoreLocked``, ``ConfigInvalid`` and
        ``OSError``.
        """
        named = [(topic, queue_id) for topic, queue_id in queues if kv_namespace(topic)]
        if not named and not self._opener.has_files:
            return
        engine = self.engine = self._opener.open()
        self.in_use.set()
        for name in sorted(engine.names()):
            self._add(name, engine.table(name))
        for name, state in self.states.items():
            if state.meta.queue_id != NO_QUEUE:
                self._check(name, state)
        self._unclaimed = self.queues.unclaimed(named)

    def add_missing(self, mapped: Container[str]) -> None:
        """Add a state for the log of a namespace that has none, as if it were its only one.

        Not so for the topics in ``mapped``, which have logical queues: those who know these make
        states of the logs. Raises ``OSError``.
        """
        namespaces = {parse_partition(name)[0] for name in self.states}
        for topic, queue_id in self._unclaimed:
            namespace = kv_namespace(topic)
            is_only = namespace not in namespaces and not queue_id
            if namespace and is_only and topic not in mapped and self.engine is not None:
                self._add(namespace, self.engine.table(namespace))

    def _check(self, name: str, state: State) -> None:
        _, end = self.queues.logs[name].bounds()
        if state.meta.next > end:
            raise StartRefused(
                f"the keys of namespace {name} have {state.meta.next} records of their log "
                f"in them, but the log has {end}: bring back the log that belongs to "
                f"{self._opener.directory}; or move that directory away, and they are made "
                "anew from the log, as far as it goes back"
            )

    def _add(self, name: str, table: Table, meta: Meta | None = None) -> State:
        state = State(table)
        if meta is not None:
            state.follow(meta)
        self.states[name] = state
        self._follow(name, state)
        return state

    def _follow(self, name: str, state: State) -> None:
        loser = self.queues.follow(name, state.meta)
        if loser is not None:
            self.release(loser)
        if state.meta.queue_id == NO_QUEUE:
            return
        begin, end = self.queues.logs[name].bounds()
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
            self.behind.add(name)

    async def make(self, name: str, meta: Meta | None = None) -> State:
        """Return the state of a partition, which is made if it is missing.

        ``meta`` says which partition it is, and which queue has its records; without, it is the
        whole namespace, in queue 0. The first one makes the database, in a thread: files are
        synced a dozen times for it. Raises ``OSError``, ``StoreError``.
        """
        async with self._makes_one:
            if name in self._copied:
                raise OSError(errno.EBUSY, f"partition {name} is being taken over")
            state = self.states.get(name)
            if state is None:
                state = self._add(name, await self._table(name), meta)
            elif meta is not None:
                self.follow(name, meta)
        return state

    async def _table(self, name: str) -> Table:
        in_thread = trio.to_thread.run_sync if self._opener.is_slow else _here
        if self.engine is None:
            engine = await in_thread(self._opener.open)
            self._engine_opened()
            self.engine = engine
            self.in_use.set()
        return await in_thread(self.engine.table, name)

    def follow(self, name: str, meta: Meta, *, lost_at: int | None = None) -> None:
        """Have a state follow the queue that ``meta`` names, from the record that it needs next.

        What is in that queue already waits for ``catch_up``. A state that needs records from
        before is lost; ``lost_at`` says that it is, and where its log goes on. Raises ``OSError``.
        """
        state = self.states[name]
        state.follow(meta, lost_at=lost_at)
        self._follow(name, state)

    def release(self, name: str) -> None:
        """Have a state follow no queue: its partition goes on at another broker.

        Raises ``OSError``.
        """
        state = self.states[name]
        meta = Meta(
            partition=state.meta.partition,
            partitions=state.meta.partitions,
            queue_id=NO_QUEUE,
        )
        state.follow(meta)
        self.queues.follow(name, meta)
        self.behind.discard(name)

    @asynccontextmanager
    async def copying(self, name: str) -> AsyncIterator[StateCopy]:
        """Take a partition over within the block; what is here of it goes. Raises ``OSError``,
        ``StoreError``."""
        async with self._makes_one:
            table = await self._table(name)
            self._forget(name)
            self._copied.add(name)
        try:
            yield StateCopy(table)
        finally:
            self._copied.discard(name)

    async def copied(self, name: str, copy: StateCopy, meta: Meta) -> State:
        """Make a finished copy the state of a partition, which follows ``meta``'s queue.

        Raises ``OSError``, and ``RemoteProtocolError`` for a copy that is not what it should be.
        """
        copy.finish(meta)
        return self._add(name, await self._table(name))

    def drop(self, name: str) -> None:
        """Remove the state of a partition that another broker has. Raises ``OSError``."""
        table = self.states[name].table
        self._forget(name)
        table.write([(ALL_BEGIN, ALL_END)], {})

    def _forget(self, name: str) -> None:
        self.states.pop(name, None)
        self.queues.forget(name)
        self.behind.discard(name)

    def close(self) -> None:
        """Close the engine. Raises ``OSError``."""
        self.states.clear()
        self.queues.clear()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()
