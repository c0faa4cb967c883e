"""What a logical listener knows of its topics, and when it asks again."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy._testing import Peer
from lanemq.proxy.broker._testing import Client
from lanemq.proxy.simulation._logical import CLIENT_HOST, open_logical_cluster
from lanemq.proxy.simulation._processes import LOGICAL_PORT

pytestmark = pytest.mark.slow  # a cluster of its own


async def test_a21_a_broker_that_goes_as_soon_as_its_queue_has_hinders_nobody(
    autojump_clock: MockClock,
) -> None:
    """All within a second: what the listener asked before it all is no use any more."""
    async with open_logical_cluster("broker1", "broker2", "broker3") as cluster:
        await cluster.map_all(queues=1)
        dial = cluster.network.dialer(CLIENT_HOST)
        client = Client(Peer(await dial(cluster.brokers["broker1"].host, LOGICAL_PORT)))
        begun_s = trio.current_time()
        for offset, destination in enumerate(("broker3", "broker2")):
            answer = await client.send("T", queue_id=0)
            assert (answer.code, answer.fields["queueOffset"]) == (0, str(offset))
            await cluster.migrate(0, destination)
        await cluster.brokers["broker3"].kill()
        answer = await client.send("T", queue_id=0)
        assert (answer.code, answer.fields.get("queueOffset")) == (0, "2"), answer.remark
        assert trio.current_time() - begun_s < 1
