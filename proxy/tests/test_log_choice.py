"""The choice of a new log's broker: all proxies come to the same, whatever each has heard of."""

import random
from collections import deque
from collections.abc import Mapping
from typing import Final
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.gateway.kv import NotYet, Pulled, Stored
from lanemq.proxy.gateway.kv._choice import (
    BEGUN,
    ENDED,
    KEPT,
    LogSplit,
    LogState,
    chosen,
    marked,
    state_of,
)
from lanemq.proxy.gateway.kv._partition import PartitionState
from lanemq.storage.kv import operation_properties
from lanemq.testkit.proxy.upstream_log import UpstreamLog, UpstreamLogQueue
from lanemq.wire.kv import OpType

NAMES: Final = ("broker-a", "broker-b", "broker-c")
TOPIC: Final = "LANEMQ_PROXY_queues"
AGAIN_S: Final = 0.005
APPEARS: Final = 100.0
"""Brokers and proxies that appear in a second."""


class Cluster:
    """Brokers that are heard of at two name servers, each at some time."""

    def __init__(self, rng: random.Random, nursery: trio.Nursery) -> None:
        self.rng = rng
        self.nursery = nursery
        self.logs = {name: UpstreamLog(rng) for name in NAMES}
        self.heard_s = {
            name: [rng.expovariate(APPEARS), rng.expovariate(APPEARS)] for name in NAMES
        }

    def proxy(self) -> "Proxy":
        return Proxy(self)


class Proxy:
    """The brokers of a cluster as one proxy hears of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queues = {
            name: log.queue(cluster.nursery) for name, log in sorted(cluster.logs.items())
        }
        self._order = cluster.rng.sample((0, 1), 2)

    async def queues(self) -> Mapping[str, UpstreamLogQueue]:
        found: dict[str, UpstreamLogQueue] = {}
        for server in self._order:
            await trio.sleep(self._cluster.rng.expovariate(1000))
            now_s = trio.current_time()
            for name, times in self._cluster.heard_s.items():
                if times[server] <= now_s:
                    found[name] = self._queues[name]
        return found

    async def create(self, broker: str) -> None:
        await trio.sleep(self._cluster.rng.expovariate(1000))

    async def is_writable(self, broker: str) -> bool:
        return True


async def choose(cluster: Cluster, found: list[str]) -> None:
    rng = random.Random(cluster.rng.getrandbits(32))
    await trio.sleep(rng.expovariate(APPEARS))
    proxy = cluster.proxy()
    while True:
        try:
            found.append(await chosen(proxy, TOPIC, partitions=1, named=None, rng=rng))
        except NotYet:
            await trio.sleep(AGAIN_S * rng.random())
        else:
            return


async def _chosen_by(seed: int, proxies: int, faults: float) -> list[str]:
    rng, found = random.Random(seed), list[str]()
    async with trio.open_nursery() as nursery:
        cluster = Cluster(rng, nursery)
        for log in cluster.logs.values():
            log.faults = faults
        async with trio.open_nursery() as choosing:
            for _ in range(proxies):
                choosing.start_soon(choose, cluster, found)
        await trio.sleep(20)  # what was late has come
        for log in cluster.logs.values():
            log.faults = 0
        await choose(cluster, found)
        nursery.cancel_scope.cancel()
    return found


def chosen_by(seed: int, proxies: int, faults: float = 0.0) -> set[str]:
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio._core._run._r.seed(seed)
    clock = MockClock(autojump_threshold=0)
    return {*trio.run(_chosen_by, seed, proxies, faults, clock=clock)}


@pytest.mark.parametrize("faults", [0.0, 0.05])
@pytest.mark.parametrize("proxies", [2, 3])
def test_all_proxies_choose_the_same_broker(proxies: int, faults: float) -> None:
    brokers = set()
    for seed in range(60):
        found = chosen_by(seed, proxies, faults)
        assert len(found) == 1, f"seed {seed}: {found}"
        brokers |= found
    assert len(brokers) > 1, "they had heard of different brokers"


async def without_an_end(proxy: Proxy) -> str:
    """As a proxy that looks for other logs, and leaves those that have only begun alone."""
    queues = await proxy.queues()
    states = {name: await state_of(queue) for name, queue in queues.items()}
    begun = [name for name, state in states.items() if state is LogState.BEGUN]
    kept = [name for name, state in states.items() if state is LogState.KEPT]
    if kept:
        return min(kept)
    mine = min(begun or states or {"": LogState.NONE})
    if not mine:
        raise NotYet
    await queues[mine].append(b"", marked(KEPT if begun else BEGUN, identity="i"))
    raise NotYet


def test_logs_that_only_begin_and_are_looked_for_would_be_two() -> None:
    async def other(proxy: Proxy, topic: str, **_: object) -> str:
        return await without_an_end(proxy)

    with patch(f"{__name__}.chosen", other):
        assert any(len(chosen_by(seed, 3)) > 1 for seed in range(400))


class Queue:
    """A queue as its broker has it."""

    def __init__(self, *properties: bytes, begin: int = 0) -> None:
        self.begin = begin
        self.records = [Stored(at, 1, b"", one) for at, one in enumerate(properties)]

    async def pull(self, offset: int, *, wait_s: float) -> Pulled:
        # Two in each answer, and none of those that are gone.
        found = [one for one in self.records if one.offset >= max(offset, self.begin)][:2]
        return Pulled(found, self.begin, len(self.records))

    async def append(self, body: bytes, properties: bytes) -> None:
        self.records.append(Stored(len(self.records), 1, body, properties))

    async def end(self) -> int:
        return len(self.records)


BEGINS: Final = marked(BEGUN, identity="0011223344556677")
WRITE: Final = operation_properties(OpType.TICK)


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        ((), LogState.NONE),
        ((BEGINS,), LogState.BEGUN),
        ((BEGINS,) * 5, LogState.BEGUN),
        ((BEGINS, marked(KEPT)), LogState.KEPT),
        ((BEGINS, BEGINS, BEGINS, marked(ENDED), marked(KEPT)), LogState.ENDED),
        ((BEGINS, marked(KEPT), marked(ENDED)), LogState.KEPT),
        ((BEGINS, WRITE, marked(ENDED)), LogState.KEPT),
        ((WRITE,), LogState.KEPT),
    ],
)
async def test_the_first_record_that_does_not_begin_a_log_decides(
    properties: tuple[bytes, ...], state: LogState
) -> None:
    assert await state_of(Queue(*properties)) is state


async def test_a_log_whose_beginning_is_gone_is_kept() -> None:
    assert await state_of(Queue(BEGINS, marked(KEPT), WRITE, begin=2)) is LogState.KEPT


class Fixed:
    """The brokers of a cluster that does not change."""

    def __init__(self, *drained: str, **queues: Queue) -> None:
        self._drained = drained
        self._queues = queues
        self.created: list[str] = []

    async def queues(self) -> Mapping[str, Queue]:
        return self._queues

    async def create(self, broker: str) -> None:
        self.created.append(broker)

    async def is_writable(self, broker: str) -> bool:
        return broker not in self._drained


async def choice(candidates: Fixed, named: str | None = None) -> str:
    return await chosen(candidates, TOPIC, partitions=1, named=named, rng=random.Random(0))


async def test_a_log_is_begun_at_the_first_broker_or_where_it_is_wanted(
    autojump_clock: MockClock,
) -> None:
    for named, broker in ((None, "a"), ("b", "b")):
        candidates = Fixed(b=Queue(), a=Queue())
        assert await choice(candidates, named) == broker
        assert candidates.created == [broker]
        records = (await candidates.queues())[broker].records
        state = PartitionState()
        state.apply(deque(records), 0.0, lambda key, outcome, done: None)
        # The first key has version 1, as in a log that is begun by its first write.
        assert (state.state.meta.top, bool(state.state.meta.identity)) == (0, True)
    with pytest.raises(NotYet, match="no master of broker c"):
        await choice(Fixed(a=Queue()), "c")
    with pytest.raises(NotYet, match="no master of any broker"):
        await choice(Fixed())


async def test_no_log_begins_at_a_drained_broker(autojump_clock: MockClock) -> None:
    assert await choice(Fixed("a", a=Queue(), b=Queue())) == "b"
    assert await choice(Fixed("a", a=Queue(BEGINS), b=Queue())) == "a"  # it has begun there before
    for named in (None, "a"):
        with pytest.raises(NotYet, match="a is drained, or its brokerPermission"):
            await choice(Fixed("a", a=Queue()), named)


async def test_a_log_that_was_begun_and_left_goes_on(autojump_clock: MockClock) -> None:
    assert await choice(Fixed(a=Queue(), b=Queue(BEGINS))) == "b"
    assert await choice(Fixed(a=Queue(BEGINS), b=Queue(BEGINS))) == "a"
    assert await choice(Fixed(a=Queue(BEGINS, marked(ENDED)), b=Queue(BEGINS))) == "b"
    assert await choice(Fixed(a=Queue(BEGINS, marked(ENDED)), b=Queue())) == "b"


async def test_two_logs_in_use_are_for_an_operator_to_judge() -> None:
    with pytest.raises(LogSplit, match="a and b: delete it"):
        await choice(Fixed(a=Queue(WRITE), b=Queue(BEGINS, WRITE)))
    with pytest.raises(NotYet, match="has ended at all brokers"):
        await choice(Fixed(a=Queue(BEGINS, marked(ENDED))))
