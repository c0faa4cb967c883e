"""Single pulls: one request of a group about one queue."""

from trio.testing import MockClock

from lanemq.sdk import MessageQueue
from lanemq.sdk.pull import PullStatus, open_puller
from lanemq.testkit.sdk.cluster import FakeCluster

QUEUE = MessageQueue("T", "broker-a", 0)


async def test_each_request_is_of_one_queue_and_names_its_offset(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(3):
        cluster.broker.put("T", 0, b"%d" % number)
    async with open_puller(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, auto_commit=False
    ) as puller:
        assert await puller.queues_of("T") == (QUEUE,)
        pulled = await puller.pull(QUEUE, 1, tags="*", max_count=10, timeout_s=5.0)
        assert pulled.status is PullStatus.FOUND
        assert [message.body for message in pulled.messages] == [b"1", b"2"]
        assert pulled.next_offset == await puller.max_offset(QUEUE) == 3
        pulled = await puller.pull(QUEUE, 3, tags="*", max_count=10, timeout_s=5.0)
        assert pulled.status is PullStatus.NO_NEW_MSG
        assert pulled.messages == []
        assert await puller.committed(QUEUE) is None
        await puller.commit(QUEUE, 2)
        assert await puller.committed(QUEUE) == 2
