"""One partition of keys over one upstream queue: follows it, writes to it, reads linearizably.

Records are applied as pulls bring them. A write is a record of the queue, and answered when it is
applied here; so the order in the queue decides, and all proxies agree. Every write has a writer
and a number: one whose answer was lost is appended again, and done once.
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage.kv import KvState, Outcome, operation_properties
from lanemq.wire.kv import Beginning, OpType, encode_beginning

from ._ends import QueueEnds
from ._follower import PAUSES_S, Follower
from ._numbers import Numbers
from ._partition import WriteKey
from ._queue import LogQueue, NotYet

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
AGAIN_S: Final = 3.0
"""Seconds after which a write that was taken, and is not seen in the log, is appended again."""
MEMORY_BYTES_MAX: Final = 128 << 20
"""Bytes of the entries of a partition, about, beyond which none is added."""
ENTRY_COSTS: Final = 200
TICK_S: Final = 0.25
"""Seconds between two looks whether an entry's time has come."""
QUIET_MS: Final = 10_000
"""Milliseconds without a time in the log after which a proxy writes it, while entries can expire:
what a starting proxy has to take from the broker's clock is no longer."""


@final
@define(eq=False)
class _Waiting:
    outcome: Outcome | None = None
    applied: trio.Event = field(factory=trio.Event)
    count: int = 0


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
        self._waiting: dict[WriteKey, _Waiting] = {}
        self._ends = QueueEnds(queue)
        self._numbers = Numbers()
        self.follower = Follower(
            queue,
            snapshots,
            name=name,
            writer=writer,
            place=self._place,
            applied=self._applied,
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

    def _applied(self, key: WriteKey, outcome: Outcome) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.outcome is None:
            waiting.outcome = outcome
            waiting.applied.set()

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
        await self.follower.opened.wait()
        if not self.follower.kept.time.is_known:
            await self._probed()
        if client:
            writer = client, sequence
            return await self._write(op_type, body, key, writer, waits, lessor=lessor)
        async with self._numbers.taken() as number:
            writer = self._writer, number
            waits = self._numbers.waits
            return await self._write(op_type, body, key, writer, waits, named=named, lessor=lessor)

    async def _write(
        self,
        op_type: str,
        body: bytes,
        key: bytes | None,
        writer: WriteKey,
        waits: int,
        *,
        tells: bool = True,
        named: bytes = b"",
        identity: str = "",
        lessor: str = "",
    ) -> Outcome:
        failures = 0
        with self._waits_for(writer) as waiting:
            while True:
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

    @contextmanager
    def _waits_for(self, writer: WriteKey) -> Iterator[_Waiting]:
        waiting = self._waiting.setdefault(writer, _Waiting())
        waiting.count += 1
        try:
            yield waiting
        finally:
            waiting.count -= 1
            if not waiting.count and self._waiting.get(writer) is waiting:
                del self._waiting[writer]

    async def _begin(self) -> None:
        """Write the first record of an empty log, which says what it is; find out the time."""
        while True:
            opened = self.follower.opened
            await opened.wait()
            await self._probed()
            if not self.state.meta.identity:
                identity = await self._identity()
                async with self._numbers.taken() as number:
                    await self._write(
                        OpType.TICK,
                        b"",
                        None,
                        (self._writer, number),
                        self._numbers.waits,
                        identity=identity,
                    )
            while self.follower.opened is opened:
                await self.follower.news.wait()

    async def _probed(self) -> None:
        """Write a record without a time, so that its storing tells the time that has passed."""
        while not self.follower.kept.time.is_known:
            op_type, body, identity = OpType.TICK, b"", ""
            if not self.state.meta.next:
                op_type, identity = OpType.BEGIN, await self._identity()
                body = encode_beginning(Beginning(*self._place, position=0))
            async with self._numbers.taken() as number:
                await self._write(
                    op_type,
                    body,
                    None,
                    (self._writer, number),
                    self._numbers.waits,
                    tells=False,
                    identity=identity,
                )

    async def begin_again(self) -> None:
        """Begin the namespace again, which was deleted, with a new identity.

        One of several partitions gets the identity that the first one has.
        """
        identity = await self._identity()
        async with self._numbers.taken() as number:
            writer = self._writer, number
            await self._write(
                OpType.TICK, b"", None, writer, self._numbers.waits, identity=identity
            )

    def why_full(self) -> str:
        """Return the reason why no write is taken that may add an entry; empty if it is."""
        meta = self.state.meta
        count = meta.entries + 2 * meta.leases
        if meta.entry_bytes + count * ENTRY_COSTS <= MEMORY_BYTES_MAX:
            return ""
        return (
            f"the keys of {self.name} take more than {MEMORY_BYTES_MAX >> 20} MiB of memory: "
            "delete some"
        )

    # Time

    async def _tick(self) -> None:
        """Let the log know the time where an entry's time has come; a record ends some of the
        entries and leases that are due together, so the next one follows at once."""
        while True:
            await trio.sleep(TICK_S * self._rng.uniform(0.5, 1.5))
            while self._is_due():
                await self.write(OpType.TICK, b"")

    def _is_due(self) -> bool:
        kept = self.follower.kept
        if not (kept.time.is_known and self.follower.opened.is_set()) or self.follower.why:
            return False
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
