"""An operator who gives topics more queues, also at a broker that joins."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import MessageQueue, TopicConfig

from ..storage.disk import Crash
from ._network import Network
from ._processes import BrokerProcess
from ._queue_lists import GROWING, STEADY, TOPICS

HOST: Final = "10.0.9.250"
FIRST: Final = ("broker1", "broker3")
LATE: Final = "broker2"
"""A broker that joins later, whose name sorts between those of others."""
QUEUES: Final = 2
QUEUES_MAX: Final = 12
"""Most queues of a topic at one broker."""
AT_ONCE_MEAN_S: Final = 0.001
"""Mean pause between the growth of a topic at one broker and at another."""
AGAIN_S: Final = 1.0
SYNC_S: Final = 5.0


@final
class Growth:
    """The numbers of queues of each topic at each broker."""

    def __init__(
        self, network: Network, name_servers: str, brokers: dict[str, BrokerProcess], rng: Random
    ) -> None:
        self._network = network
        self._name_servers = name_servers
        self._brokers = brokers
        self._rng = rng
        self._counts: dict[str, dict[str, int]] = {topic: {} for topic in TOPICS}
        self._putting: defaultdict[tuple[str, str], trio.Lock] = defaultdict(trio.Lock)
        self.times = 0
        """Number of times that a topic has grown."""

    def has_joined(self, broker: str) -> bool:
        return broker in self._counts[GROWING]

    def queues(self, topic: str) -> set[MessageQueue]:
        """Return the queues of a topic as brokers know them."""
        return {
            MessageQueue(topic, broker, number)
            for broker, count in self._counts[topic].items()
            for number in range(count)
        }

    async def create(self) -> None:
        """Make the topics at the brokers that are there from the beginning."""
        for topic in TOPICS:
            for name in FIRST:
                self._counts[topic][name] = QUEUES
                await self._put(topic, name)

    async def join(self) -> None:
        """Let the late broker join, and make a topic there."""
        await self._brokers[LATE].start()
        self._counts[GROWING][LATE] = self._rng.randint(1, QUEUES)
        self.times += 1
        await self._put(GROWING, LATE)

    async def grow(self) -> None:
        """Give a topic more queues: every third time at its end only, else at some brokers at
        about the same time, one of which is not the last."""
        topic = STEADY if self.times % 3 == 2 else GROWING
        names = sorted(self._counts[topic])
        chosen = names[-1:]
        if topic == GROWING:
            others = self._rng.sample(names, self._rng.randint(0, len(names)))
            chosen = list(dict.fromkeys((*others, self._rng.choice(names[:-1]))))
        await self.grow_at(topic, chosen)

    async def grow_at(self, topic: str, brokers: Sequence[str]) -> None:
        """Give a topic more queues at some brokers, one soon after the other."""
        self.times += 1
        async with trio.open_nursery() as nursery:
            for name in brokers:
                more = self._counts[topic][name] + self._rng.randint(1, 2)
                self._counts[topic][name] = min(more, QUEUES_MAX)
                nursery.start_soon(self._put, topic, name)
                await trio.sleep(self._rng.expovariate(1 / AT_ONCE_MEAN_S))

    async def _put(self, topic: str, name: str) -> None:
        """Return once the topic has its queues for good."""
        broker = self._brokers[name]
        async with self._putting[topic, name]:  # else an earlier number could come last
            while not await self._tried(topic, broker):  # noqa: ASYNC110 - it may be down
                await trio.sleep(AGAIN_S)

    async def _tried(self, topic: str, broker: BrokerProcess) -> bool:
        if not broker.is_up:
            return False
        running = broker.running
        count = self._counts[topic][broker.name]
        config = TopicConfig(topic, read_queue_nums=count, write_queue_nums=count)
        dial = self._network.dialer(HOST)
        try:
            async with open_admin(name_servers=self._name_servers, dial=dial) as admin:
                await admin.put_topic(broker.address, config)
            with trio.move_on_after(SYNC_S) as sync:
                await running.context.store.tables.sync()
        except (LanemqError, Crash):
            return False
        return broker.is_up and broker.running is running and not sync.cancelled_caught
