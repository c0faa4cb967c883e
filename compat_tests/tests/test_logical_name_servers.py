"""Older clients and logical queues while the only name server is killed and started again."""

from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat._errors import CommandRefused
from lanemq.compat.cells._consumers import Consumer
from lanemq.compat.cells._producers import Producer
from lanemq.compat.logical._bench import OLD, until_logical
from lanemq.compat.logical._brokers import several_brokers
from lanemq.compat.servers._clusters import running
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk.admin import open_admin

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

QUEUES: Final = 4
"""On each of the two brokers."""
KILLS: Final = 3
AWAY_S: Final = 1.0
SENT_BETWEEN: Final = 500
"""Messages that are sent between two kills, and after the last one."""


class Sending:
    """One producer that sends to one queue after the other."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []
        self.is_over = False

    async def send(self, producer: Producer, topic: str) -> None:
        """Send until it is over, and note every refusal."""
        number = 0
        while not self.is_over:
            body = b"%d" % number
            number += 1
            try:
                await producer.send(Outgoing(topic, body))
            except CommandRefused as error:
                self.refused.append(str(error))
            else:
                self.acknowledged.append(body)

    async def more(self, count: int) -> None:
        """Wait until so many further sends have ended."""
        wanted = len(self.acknowledged) + len(self.refused) + count

        async def ended() -> bool:
            return len(self.acknowledged) + len(self.refused) >= wanted

        await until(ended, within_s=240)


@pytest.mark.parametrize("server", ["lanemq", "apache-4.9.7"])
async def test_kills_of_the_name_server_fail_no_send(server: str, tmp_path: Path) -> None:
    """Logical queues at lanemq; with Apache's servers, the control, those of a plain topic."""
    cluster = await trio.to_thread.run_sync(several_brokers, server, tmp_path)
    async with (
        running(cluster, logs=Path("compat-logs"), graceful=False),
        open_client(OLD, tmp_path) as driver,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        AsyncExitStack() as opened,
    ):
        cell = Cell("name_servers", driver, cluster)
        topic = cell.name("topic")
        await cluster.control.create_topic(topic, QUEUES)
        if server == "lanemq":
            assert await admin.map_logical_queues(topic) == 2 * QUEUES
            await until_logical(admin, topic, 2 * QUEUES)
        consumer: Consumer = await opened.enter_async_context(cell.consumer(topic, orderly=True))
        producer = await opened.enter_async_context(cell.producer())
        name_server, sending = cluster.daemons[0], Sending()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sending.send, producer, topic)
            for _ in range(KILLS):
                await sending.more(SENT_BETWEEN)
                await name_server.kill()
                await trio.sleep(AWAY_S)
                await name_server.start()
            await sending.more(SENT_BETWEEN)
            sending.is_over = True
        assert not sending.refused, Counter(sending.refused).most_common(3)

        async def all_came() -> bool:
            return set(sending.acknowledged) <= set(consumer.bodies)

        await until(all_came, within_s=240)
        by_queue = defaultdict(list)
        for message in consumer.consumed:
            by_queue[message.broker_name, message.queue_id].append(message.queue_offset)
        for offsets in by_queue.values():
            assert list(dict.fromkeys(offsets)) == list(range(len(set(offsets))))
