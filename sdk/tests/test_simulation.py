"""Whole clients against a cluster that misbehaves: nothing acknowledged is lost, and once the
cluster is well again everything is consumed.

The faults are drawn by Hypothesis, the clock is simulated, and trio's scheduling is replayed with
them; a failing example can be run again. Faults: connections cut in both directions, brokers and
name servers unreachable for seconds, answers that never come, refusals, consumers that are
cancelled in the middle and started again.
"""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    Outcome,
    PushOptions,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

TOPIC = "T"
TROUBLE_S = 60.0
CODES = [
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.PULL_MESSAGE,
    RequestCode.HEART_BEAT,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.CONSUMER_SEND_MSG_BACK,
]


class Simulation:
    """Two brokers, a producer, and consumers that come, go and fail."""

    def __init__(self, nursery: trio.Nursery, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = FakeCluster(nursery)
        self.cluster.add_name_server()
        self.cluster.add_name_server()
        for _ in range(2):
            self.cluster.add_broker()
        self.cluster.create_topic(TOPIC, 3)
        self.troubled = True
        self.acknowledged: set[bytes] = set()
        self.consumed: Counter[bytes] = Counter()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.produce)
            for _ in range(3):
                nursery.start_soon(self.consume_in_turns)
            nursery.start_soon(self.make_trouble)
            await trio.sleep(TROUBLE_S)
            self.troubled = False
            with trio.move_on_after(3600):
                # What was sent back twice comes within 40 s, a stuck request times out in 30.
                while self.acknowledged - set(self.consumed):  # noqa: ASYNC110 - simulated time
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()

    async def produce(self) -> None:
        async with producer_of(self.cluster) as producer:
            for number in range(150):
                body = b"%d" % number
                try:
                    await producer.send(Message(topic=TOPIC, body=body))
                except LanemqError:
                    pass
                else:
                    self.acknowledged.add(body)
                await trio.sleep(self.random.expovariate(3))

    async def handle(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await trio.sleep(self.random.expovariate(0.5))  # seconds; so that crashes find some at work
        for message in messages:
            if self.random.random() < 0.1 and message.reconsume_times < 2:
                return Outcome.RETRY
            self.consumed[message.body] += 1
        return None

    async def consume_in_turns(self) -> None:
        options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, shutdown_grace_s=1)
        while True:
            life_s = self.random.uniform(1, 40) if self.troubled else 1e6
            try:
                with trio.move_on_after(life_s):
                    async with push_consumer_of(
                        self.cluster,
                        ConcurrentListener(self.handle, concurrency=4),
                        options,
                        subscriptions={TOPIC: "*"},
                    ):
                        if self.random.random() < 0.5:
                            await trio.sleep(life_s / 2)  # and end in good order
                        else:
                            await trio.sleep_forever()
            except LanemqError:
                await trio.sleep(1)

    async def make_trouble(self) -> None:
        chance, cluster = self.random, self.cluster
        nodes = [*cluster.brokers, *cluster.name_server_nodes]
        while self.troubled:
            await trio.sleep(chance.expovariate(1))
            node = chance.choice(nodes)
            match chance.randrange(5):
                case 0:
                    node.cut()
                case 1:
                    node.reachable = False
                    node.cut()
                    await trio.sleep(chance.uniform(0, 5))
                    node.reachable = True
                case 2:
                    node.mute(chance.choice(CODES))
                case 3:
                    node.refuse(chance.choice(CODES), chance.choice([1, 2, 14, 16]))
                case 4:
                    cluster.connect_delay_s = chance.choice([0, 0.05, 2])


async def simulate(seed: int) -> Simulation:
    async with trio.open_nursery() as nursery:
        simulation = Simulation(nursery, seed)
        await simulation.run()
        nursery.cancel_scope.cancel()
    return simulation


def check(seed: int) -> None:
    simulation = trio.run(simulate, seed, clock=MockClock(autojump_threshold=0))
    stored = set(simulation.cluster.bodies(TOPIC))
    assert simulation.acknowledged <= stored
    assert simulation.acknowledged - set(simulation.consumed) == set()
    assert set(simulation.consumed) <= stored


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**64 - 1), schedule=st.random_module())
def test_nothing_acknowledged_is_lost_and_all_is_consumed_in_the_end(
    seed: int, schedule: object
) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**64 - 1), schedule=st.random_module())
def test_the_same_for_longer(seed: int, schedule: object) -> None:
    check(seed)
