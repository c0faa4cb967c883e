"""Transactions of the SDK on logical queues that move while they are undecided."""

import trio
from trio.testing import MockClock

from lanemq.sdk import (
    Message,
    ProducerOptions,
    ReceivedMessage,
    TransactionState,
    open_transaction_producer,
)
from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.simulation._processes import clock_ms
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER
from lanemq.wire.message import StoredMessage


async def stored_at(cluster: LogicalCluster, index: int) -> list[StoredMessage]:
    """The messages of the open segment of a logical queue."""
    return messages_of(await cluster.pull(await cluster.normal(index), 0))


async def test_a_transaction_is_committed_where_its_logical_queue_has_moved_to(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(messages=10) as cluster:
        await trio.sleep(3)  # name servers know the logical queues
        asked: list[bytes] = []

        async def check(message: ReceivedMessage) -> TransactionState:
            asked.append(message.body)
            return TransactionState.COMMIT

        async def moves(message: Message, transaction_id: str) -> TransactionState:
            await cluster.migrate(0, "broker2")
            return TransactionState.COMMIT

        async def forgets(message: Message, transaction_id: str) -> TransactionState:
            return TransactionState.UNKNOWN

        async with open_transaction_producer(
            "pg",
            check=check,
            name_servers=cluster.name_server.address,
            topics=[TOPIC],
            options=ProducerOptions(),
            dial=cluster.network.dialer("10.0.9.8"),
            clock_ms=clock_ms,
        ) as producer:
            origins = []
            for body, execute in (
                *((b"forgotten %d" % number, forgets) for number in range(4)),
                (b"moved", moves),
            ):
                message = Message(topic=TOPIC, body=body)
                result = await producer.send_in_transaction(message, execute)
                assert result.sent.queue.broker_name == LOGICAL_QUEUE_BROKER
                assert result.sent.origin is not None
                origins.append(result.sent.origin.broker_name)
            assert set(origins[:4]) == {"broker1", "broker2"}, "the producer takes queues in turn"
            await trio.sleep(61)  # two rounds of checks
            found = [m.body for index in (0, 1) for m in await stored_at(cluster, index)]
        expected = [b"forgotten %d" % number for number in range(4)]
        assert sorted(found) == [*expected, b"moved"]
        assert sorted(asked) == expected
