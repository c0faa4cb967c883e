"""Older clients and the listeners of logical queues, when one of these is killed."""

import math
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat._errors import CommandRefused
from lanemq.compat.cells._consumers import Consumer
from lanemq.compat.cells._producers import Producer
from lanemq.compat.logical._bench import Bench, servers
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk.admin import open_admin

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

VERSIONS: Final = ("3.2.6", "4.9.7")
SENDERS: Final = 2
QUEUES: Final = 4
"""On each of the two brokers."""


class Sending:
    """Messages that go to whatever queue the client chooses, each sent once."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self.dying_s = self.dead_s = math.inf
        """Times before the kill, and when the clients know of it, once it has been."""
        self.is_over = False

    async def send(self, producer: Producer, topic: str, name: str) -> None:
        """Send until it is over. A refusal is raised, and fails the test.

        But for that of a message that had been read, and not answered, when its reader died: 4.9.7
        waits for the answer until all of the time for the send is over.
        """
        number = 0
        while not self.is_over:
            body, begun_s = f"{name}:{number}".encode(), trio.current_time()
            number += 1
            try:
                await producer.send(Outgoing(topic, body))
            except CommandRefused:
                if begun_s > self.dead_s or trio.current_time() < self.dying_s:
                    raise
                continue
            self.acknowledged.append(body)
            await trio.sleep(0.005)

    async def more(self, count: int) -> None:
        """Wait until so many further messages are acknowledged."""
        wanted = len(self.acknowledged) + count

        async def come() -> bool:
            return len(self.acknowledged) >= wanted

        await until(come, within_s=240)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_listener_s_sigkill_fails_no_send_that_may_choose_its_queue(
    version: str, tmp_path: Path
) -> None:
    """With its broker: the half of the queues that are on it is away, and comes back."""
    async with (
        servers(tmp_path, settings={"logicalQueueBrokers": "4"}) as cluster,
        open_client(f"java-{version}", tmp_path) as driver,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        AsyncExitStack() as opened,
    ):
        at = Bench(cluster, Cell("listeners", driver, cluster), admin)
        topic = at.cell.name("topic")
        await cluster.control.create_topic(topic, QUEUES)
        assert await admin.map_logical_queues(topic) == 2 * QUEUES
        await at.until_routed(topic, 2 * QUEUES)
        route = await admin.route(topic)
        assert [data.read_queue_nums for data in route.queue_datas] == [2] * 4
        assert len({data.broker_addrs[0] for data in route.broker_datas}) == 4
        consumer: Consumer = await opened.enter_async_context(at.cell.consumer(topic))
        sending = Sending()
        async with trio.open_nursery() as nursery:
            for number in range(SENDERS):
                producer = await opened.enter_async_context(at.cell.producer())
                nursery.start_soon(sending.send, producer, topic, str(number))
            await sending.more(100)
            victim = cluster.brokers["broker1"]
            sending.dying_s = trio.current_time()
            await victim.kill()
            await sending.more(20)  # then their clients have seen the ends of the connections
            sending.dead_s = trio.current_time()
            await sending.more(480)
            await victim.start()
            await sending.more(300)
            sending.is_over = True

        async def all_came() -> bool:
            return set(sending.acknowledged) <= set(consumer.bodies)

        await until(all_came, within_s=240)
        assert set(Counter(consumer.bodies)) >= set(sending.acknowledged)
