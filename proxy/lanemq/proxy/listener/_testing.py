"""What tests of logical listeners need: a cluster in memory, each broker with a listener."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import RemotingClient, open_remoting_client
from lanemq.wire import Frame, RequestCode, TopicConfig, request
from lanemq.wire.logical import UpdateLogicalQueueMapping

from .._testing import Peer
from ..broker._testing import Client
from ..simulation._network import Network
from ..simulation._processes import BROKER_PORT, LOGICAL_PORT, BrokerProcess, NameServerProcess

CLIENT_HOST: Final = "10.0.9.1"
TIMEOUT_S: Final = 30.0


@final
class ListenerCluster:
    """A name server, and brokers ``broker1``, ``broker2``, ... at hosts ``10.0.1.N``."""

    def __init__(self, network: Network, remoting: RemotingClient) -> None:
        self.network = network
        self.remoting = remoting
        self.brokers: list[BrokerProcess] = []
        self.name_server = ""

    async def connect(self, broker: int, port: int = LOGICAL_PORT, **options: object) -> Client:
        """A client of broker number ``broker``'s listener, or of another of its ports."""
        stream = await self.network.dialer(CLIENT_HOST)(self.brokers[broker - 1].host, port)
        return Client(Peer(stream), **options)  # type: ignore[arg-type]

    async def ask(self, broker: int, frame: Frame) -> Frame:
        """The answer of a broker's own port; raises where it refuses."""
        return await self.remoting.call(self.brokers[broker - 1].address, frame, TIMEOUT_S)

    async def create_topic(self, topic: str, queues: int = 2) -> None:
        """Make a topic on every broker and map its queues: logical queue by logical queue."""
        index = 0
        for number, broker in enumerate(self.brokers, 1):
            broker.running.context.topics.put(
                TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
            )
            for queue_id in range(queues):
                body = UpdateLogicalQueueMapping(topic, queue_id, index).encode()
                await self.ask(
                    number,
                    request(RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING, body=body),
                )
                index += 1


@asynccontextmanager
async def open_listener_cluster(
    brokers: int = 2, **settings: object
) -> AsyncIterator[ListenerCluster]:
    """Run it for the length of the block, under whatever clock there is."""
    network, rng = Network(Random(1)), Random(2)
    async with (
        trio.open_nursery() as nursery,
        open_remoting_client(dial=network.dialer("10.0.9.9")) as remoting,
    ):
        cluster = ListenerCluster(network, remoting)
        name_server = NameServerProcess("ns", "10.0.0.1", network, nursery)
        await name_server.start()
        cluster.name_server = name_server.address
        for number in range(1, brokers + 1):
            broker = BrokerProcess(
                f"broker{number}",
                f"10.0.1.{number}",
                network,
                nursery,
                name_servers=name_server.address,
                rng=rng,
                **settings,
            )
            await broker.start()
            cluster.brokers.append(broker)
        yield cluster
        nursery.cancel_scope.cancel()


__all__ = ["BROKER_PORT", "ListenerCluster", "open_listener_cluster"]
