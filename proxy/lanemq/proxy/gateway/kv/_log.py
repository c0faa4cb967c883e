"""One partition of keys over one upstream queue: follows it, writes to it, reads linearizably.

Records are applied as pulls bring them. A write is a record of the queue, and answered when it is
applied here; so the order in the queue decides, and all proxies agree. Every write has a writer
and a number: one whose answer was lost is appended again, and done once.
"""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage.kv import (
    KvState,
    Outcome,
    Status,
    history_for_room,
    operation_properties,
    tight_bytes,
)
from lanemq.wire.kv import Beginning, OpType, WriteWindow, encode_beginning, encode_compact

from ._ends import QueueEnds
from ._follower import PAUSES_S, Follower
from ._numbers import taken
from ._partition import MEMORY_BYTES_MAX, WriteKey, kept_bytes
from ._queue import LogQueue, NotYet
from ._waiting import Said, WaitingWrites

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
AGAIN_S: Final = 3.0
"""Seconds after which a write that was taken, and is not seen in the log, is appended again."""
TICK_S: Final = 0.25
"""Seconds between two looks whether an entry's time has come."""
KEEPS_ALIVE: Final = "+"
"""End of the id under which a proxy writes keep-alives, which clients send without a number."""
QUIET_MS: Final = 10_000
"""Milliseconds without a time in the log after which a proxy writes it, while entries can expire:
what a starting proxy has to take from the broker's clock is no longer."""


@final
class PartitionLog:
    """A partition over its queue; ``run`` is its task."""

    def __init__(
        self,
        queue: LogQueue,
        snapshots: LogQueue,
        *,
        name: str,
        writer: str,
        identity: Callable[[], Awaitable[str]],
        partition: int = 0,
        partitions: int = 1,
        rng: random.Random | None = None,
    ) -> None:
        """``writer`` is the id of this proxy as a writer; ``identity`` returns the identity of the
        namespace, for a log that has none yet."""
        self._queue = queue
        self.name = name
        self._writer = writer
        self._identity = identity
        self._place = partition, partitions
        self._rng = rng or random.Random()
        self._waiting = WaitingWrites()
        self._ends = QueueEnds(queue)
        self._numbers = WriteWindow()
        self._alive = WriteWindow()
        """Those of the keep-alives of clients, of which there may be thousands."""
        self._probing = trio.Lock()
        self.follower = Follower(
            queue,
            snapshots,
            name=name,
            writer=writer,
            place=self._place,
            applied=self._waiting.take,
            rng=self._rng,
        )

    @property
    def state(self) -> KvState:
        """The state now; after a wait ask for it again."""
        return self.follower.kept.state

    async def run(self) -> None:
        """Follow the log, and keep its time, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.follower.run)
            nursery.start_soon(self._begin)
            nursery.start_soon(self._tick)

    # Writes

    async def write(
        self,
        op_type: str,
        body: bytes,
        *,
        key: bytes | None = None,
        client: str = "",
        sequence: int = 0,
        waits: int = 0,
        named: bytes = b"",
        lessor: str = "",
    ) -> Outcome:
        """Write, and return the outcome once it is applied; without a client as this proxy.
        ``named`` are more properties of the record, ``lessor`` is who asks for a lease.

        It is tried until that is so: the caller limits the time. If it is cancelled, the write may
        have been done, or may be yet. Raises ``TooLong``.
        """
        await self._timed()
        if client:
            write = partial(self._write, op_type, body, key, lessor=lessor)
            return await write((client, sequence), waits, is_own=False)
        # What clients have written without a number of their own does not hold up the proxy's own.
        name, numbers = (self._writer, self._numbers)
        if op_type == OpType.ALIVE:
            name, numbers = self._writer + KEEPS_ALIVE, self._alive
        write = partial(self._write, op_type, body, key, named=named, lessor=lessor)
        return await self._write_own(write, name, numbers)

    async def _write_own(
        self,
        write: Callable[[WriteKey, int], Awaitable[Outcome]],
        name: str,
        numbers: WriteWindow,
        *,
        is_besides: bool = False,
    ) -> Outcome:
        """Write with a number of this proxy's, and again where somebody else has taken it."""
        while True:
            async with taken(numbers, is_besides=is_besides) as number:
                outcome = await write((name, number), numbers.waits)
            if outcome.status is not Status.TAKEN:
                return outcome

    async def _write(
        self,
        op_type: str,
        body: bytes,
        key: bytes | None,
        writer: WriteKey,
        waits: int,
        *,
        is_own: bool = True,
        tells: bool = True,
        named: bytes = b"",
        identity: str = "",
        lessor: str = "",
    ) -> Outcome:
        failures = 0
        said = Said.of(op_type, body, identity=identity, lessor=lessor) if is_own else None
        with self._waiting.wait_for(writer, said) as waiting:
            while True:
                if tells:
                    await self._timed()  # again: the log may have been broken meanwhile
                    if waiting.outcome is not None:
                        return waiting.outcome
                time_ms = self.follower.kept.time.now_ms(trio.current_time()) if tells else None
                properties = operation_properties(
                    op_type,
                    key=key,
                    client=writer[0],
                    sequence=writer[1],
                    waits=waits,
                    identity=identity,
                    time_ms=time_ms,
                    lessor=lessor,
                    bounds=not self.state.meta.is_bounded,
                )
                try:
                    await self._queue.append(body, named + properties)
                    with trio.move_on_after(AGAIN_S):
                        await waiting.applied.wait()
                except NotYet as error:
                    if not failures:
                        LOGGER.warning("keys %s cannot be written now: %s", self.name, error)
                    # It may be in the log all the same.
                    with trio.move_on_after(PAUSES_S[min(failures, len(PAUSES_S) - 1)]):
                        await waiting.applied.wait()
                    failures += 1
                if waiting.outcome is not None:
                    return waiting.outcome

    async def _begin(self) -> None:
        """Write the first record of an empty log, which says what it is; find out the time."""
        while True:
            opened = self.follower.opened
            await self._timed()
            if not self.state.meta.identity:
                await self.begin_again()
            while self.follower.opened is opened:
                await self.follower.news.wait()

    async def _timed(self) -> None:
        """Wait until the log is known, and its time."""
        while not (self.follower.opened.is_set() and self.follower.kept.time.is_known):
            await self.follower.opened.wait()
            async with self._probing:
                await self._probed()

    async def _probed(self) -> None:
        """Write a record without a time, so that its storing tells the time that has passed."""
        while not self.follower.kept.time.is_known:
            op_type, body, identity = OpType.TICK, b"", ""
            if not self.state.meta.next:
                op_type, identity = OpType.BEGIN, await self._identity()
                body = encode_beginning(Beginning(*self._place, position=0))
            write = partial(self._write, op_type, body, None, tells=False, identity=identity)
            await self._write_own(write, self._writer, self._numbers, is_besides=True)

    async def begin_again(self) -> None:
        """Begin the namespace with a new identity: it has none yet, or was deleted.

        One of several partitions gets the identity that the first one has.
        """
        identity = await self._identity()
        write = partial(self._write, OpType.TICK, b"", None, identity=identity)
        await self._write_own(write, self._writer, self._numbers)

    def why_full(self) -> str:
        """Return the reason why no write is taken that may add an entry; empty if it is."""
        if max(kept_bytes(self.state.meta), self.follower.kept.rows_bytes) <= MEMORY_BYTES_MAX:
            return ""
        return (
            f"the keys of {self.name} take more than {MEMORY_BYTES_MAX >> 20} MiB of memory: "
            "delete some, or compact their history"
        )

    @property
    def _is_tight(self) -> bool:
        return self.follower.kept.rows_bytes > tight_bytes(MEMORY_BYTES_MAX)

    async def _make_room(self) -> None:
        """Compact the history where memory is tight, before writes are refused for it. Of proxies
        that do so at once, the later ones find it done."""
        if self._is_open and self._is_tight and self.state.meta.stale_from < 0:
            revision = history_for_room(self.state)
            if revision is not None:
                await self.write(OpType.COMPACT, encode_compact(revision))

    # Time

    async def _tick(self) -> None:
        """Let the log know the time where an entry's time has come; a record ends some of the
        entries and leases that are due together, so the next one follows at once."""
        while True:
            await trio.sleep(TICK_S * self._rng.uniform(0.5, 1.5))
            while self._is_due():
                await self.write(OpType.TICK, b"")
            await self._make_room()

    @property
    def _is_open(self) -> bool:
        """True while the log can be written, and its time is known."""
        follower = self.follower
        return follower.kept.time.is_known and follower.opened.is_set() and not follower.why

    def _is_due(self) -> bool:
        kept = self.follower.kept
        if not self._is_open:
            return False
        if self.state.meta.stale_from >= 0 and self._is_tight:
            return True  # each record frees a part of what a compaction has left behind
        expiry_ms = self.state.meta.next_expiry_ms
        now_ms = kept.time.now_ms(trio.current_time())
        return expiry_ms > 0 and (expiry_ms <= now_ms or now_ms - kept.time.told_ms > QUIET_MS)

    # Reads

    async def current(self) -> KvState:
        """Return the state once it has every write that was answered before this call, by any
        proxy. The caller limits the time. What it raises while it waits is no error."""
        while True:
            opened = self.follower.opened
            await opened.wait()
            end = await self._ends.next_end()
            while self.follower.opened is opened and self.state.meta.next < end:
                await self.follower.news.wait()
            if self.follower.opened is opened:
                return self.state
