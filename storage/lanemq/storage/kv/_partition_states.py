"""The states of a store's partitions, which are opened, made, taken over and given away."""

import errno
from collections.abc import AsyncIterator, Callable, Container, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar, TypeVarTuple, final

import msgspec
import trio

from lanemq.local import get_logger
from lanemq.wire.kv import kv_namespace, parse_partition

from .._config import StoreConfig
from .._errors import StartRefused
from ..disk._files import Files
from ..messages._reader import Reader
from ._bases import BASES_DIRECTORY, Bases
from ._copy import ALL_BEGIN, ALL_END, StateCopy
from ._followed import FollowedQueues
from ._state import State
from .engines._engine import Engine, OnFault, Table, ignore_fault
from .engines._opening import EngineOpener
from .engines._rows import META, NO_QUEUE, Meta

LOGGER: Final = get_logger(__name__)
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


def _place(meta: Meta) -> Meta:
    """Return which partition a state is of, and where its log is, without what is in it."""
    return Meta(
        partition=meta.partition,
        partitions=meta.partitions,
        queue_id=meta.queue_id,
        shift=meta.shift,
        first=meta.first,
    )


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
        self.bases = Bases(files, self._opener.directory / BASES_DIRECTORY)
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
        self.stale: set[str] = set()
        """Those of them whose states may lack what was answered before: nobody may read them."""
        self.on_fault: OnFault = ignore_fault
        """Called for damage of an open database; see ``Engine.on_fault``."""
        self._gone: dict[str, Meta] = {}
        """Partitions whose states are away while the database is opened again."""

    def load(self, queues: Iterable[tuple[str, int]]) -> None:
        """Open the existing states. ``queues`` are those that the store has.

        Raises ``StartRefused``, ``StoreCorrupted``, ``StoreLocked``, ``ConfigInvalid`` and
        ``OSError``.
        """
        named = [(topic, queue_id) for topic, queue_id in queues if kv_namespace(topic)]
        if not named and not self._opener.has_files:
            return
        self.bases.load()
        self._take(self._opener.open())
        for name, state in self.states.items():
            if state.meta.queue_id != NO_QUEUE and not state.meta.deleted:
                self._check(name, state)
        self._unclaimed = self.queues.unclaimed(named)

    def _take(self, engine: Engine) -> None:
        """Take the states of an open database; one that cannot be read is set aside."""
        self.engine = engine
        self.in_use.set()
        for name, table in sorted(engine.tables().items()):
            try:
                if table.get(META) is not None:
                    self._add(name, table)
            except (OSError, msgspec.MsgspecError) as error:
                LOGGER.error(
                    "the state of namespace %s cannot be read, and is made again from its log: %s",
                    name,
                    error,
                )
                self._remove(name)
        engine.on_fault = self._fault

    def _fault(self, name: str | None, error: OSError) -> None:
        self.on_fault(name, error)

    async def open_again(self) -> dict[str, Meta]:
        """Close the database and open it again, without what cannot be read.

        Returns the places of the partitions that are gone. There are no states meanwhile. Raises
        ``OSError``, ``StoreError``: then the database is closed, and this can be called again.
        """
        async with self._makes_one:
            self._gone.update({name: _place(state.meta) for name, state in self.states.items()})
            for name in list(self.states):
                self._forget(name)
            engine, self.engine = self.engine, None
            if engine is not None:
                with suppress(OSError):  # it cannot write, which is why it is closed
                    await trio.to_thread.run_sync(engine.close)
            del engine
            self._take(await self._opener.open_again())
            gone = {name: self._gone[name] for name in self._gone if name not in self.states}
            self._gone.clear()
        return gone

    async def set_aside(self, name: str) -> Meta:
        """Remove the state of a partition with its rows; returns its place. Raises ``OSError``."""
        async with self._makes_one:
            state = self.states.get(name)
            self._forget(name)
            if self.engine is not None:
                in_thread = trio.to_thread.run_sync if self._opener.is_slow else _here
                await in_thread(self._remove, name)
        return Meta() if state is None else _place(state.meta)

    def _remove(self, name: str) -> None:
        """Remove the rows of a partition; all files stay beside as they are now."""
        self._opener.keep_files()
        if self.engine is not None:
            self.engine.replace(name)

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
                "again from the log, as far as it goes back"
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
        if state.meta.queue_id == NO_QUEUE or state.meta.deleted:
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
            self.stale.add(name)

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
            engine.on_fault = self._fault
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
        """Have a state follow no queue: its partition continues at another broker.

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
        self.caught_up(name)

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
        self.caught_up(name)

    def caught_up(self, name: str) -> None:
        """Note that a state has all that its log has."""
        self.behind.discard(name)
        self.stale.discard(name)

    def close(self) -> None:
        """Close the engine. Raises ``OSError``."""
        self.states.clear()
        self.queues.clear()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()
