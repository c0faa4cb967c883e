"""An upstream queue in memory, with what can go wrong between it and a proxy.

Faults, each at random: a request or an answer is lost, an answer is late, an append that was given
up arrives later, a request is done twice, nothing answers for a while. The order of the queue is
the order in which appends arrive. The clock of the broker may be set.
"""

import random
from collections.abc import Callable
from typing import final

import trio

from lanemq.proxy.gateway.kv import NoAccount, NotYet, Pulled, Stored, TooLong

PULLED_MAX = 32
CALL_S = 3.0


@final
class UpstreamLog:
    """One queue, as its broker has it."""

    def __init__(
        self,
        rng: random.Random,
        *,
        begin_ms: int = 1_700_000_000_000,
        of: "UpstreamLog | None" = None,
    ) -> None:
        self.rng = rng
        self.records: list[Stored] = []
        self.begin = 0
        """The first record that is still there."""
        self.clock_ms: Callable[[], float] = lambda: begin_ms + trio.current_time() * 1000
        """The clock of the broker."""
        self.is_down = False
        self.asks_for_account = False
        """True for a broker that has accounts, and takes nothing of a proxy."""
        self.faults = 0.0
        """The probability of each fault."""
        self.record_bytes_max = 4 << 20
        """The longest record that the broker takes, bodies and properties together."""
        self.appends = 0
        """Number of appends that have arrived."""
        self.news = trio.Event()
        self._of = of
        self.snapshots = self if of is not None else UpstreamLog(rng, of=self)
        """The queue of snapshots at the same broker."""

    @property
    def is_away(self) -> bool:
        """True while the broker is down."""
        return self.is_down if self._of is None else self._of.is_down

    @property
    def fault_rate(self) -> float:
        """The probability of each fault."""
        return self.faults if self._of is None else self._of.faults

    def store(self, body: bytes, properties: bytes) -> None:
        """Append a record."""
        stored = Stored(len(self.records), round(self.clock_ms()), body, properties)
        self.records.append(stored)
        self.appends += 1
        news, self.news = self.news, trio.Event()
        news.set()

    def queue(self, nursery: trio.Nursery) -> "UpstreamLogQueue":
        """Return the queue as one proxy sees it; late requests run in ``nursery``."""
        return UpstreamLogQueue(self, nursery)


@final
class UpstreamLogQueue:
    """The queue as one proxy sees it; a ``LogQueue``."""

    def __init__(self, log: UpstreamLog, nursery: trio.Nursery) -> None:
        self._log = log
        self._nursery = nursery
        self.is_cut = False
        """True while this proxy cannot reach the broker."""

    def _happens(self) -> bool:
        return self._log.rng.random() < self._log.fault_rate

    async def _travels(self) -> None:
        await trio.sleep(self._log.rng.expovariate(1 / 0.001))
        if self._log.is_away or self.is_cut:
            raise NotYet("the broker cannot be reached")
        if self._log.asks_for_account:
            raise NoAccount("the cluster has accounts")
        if self._happens():
            await trio.sleep(CALL_S)
            raise NotYet("a message was lost")

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        log = self._log
        await self._travels()
        with trio.move_on_after(wait_s):
            while offset == len(log.records):
                await log.news.wait()
        found = log.records[offset : offset + PULLED_MAX] if offset >= log.begin else []
        answer = Pulled(found, log.begin, len(log.records))
        await self._travels()
        return answer

    async def append(self, body: bytes, properties: bytes) -> None:
        if len(body) + len(properties) > self._log.record_bytes_max:
            await self._travels()
            raise TooLong("the message is too long")
        if self._happens():  # it is on its way for longer than its sender waits
            self._nursery.start_soon(self._late, body, properties)
            await trio.sleep(CALL_S)
            raise NotYet("no answer")
        await self._travels()
        self._log.store(body, properties)
        if self._happens():
            self._log.store(body, properties)
        await self._travels()

    async def _late(self, body: bytes, properties: bytes) -> None:
        await trio.sleep(self._log.rng.uniform(0, 2 * CALL_S))
        if not self._log.is_away:
            self._log.store(body, properties)

    async def end(self) -> int:
        await self._travels()
        end = len(self._log.records)
        await self._travels()
        return end
