"""Connections under TLS carry the same conversation, and only with those who are trusted."""

import ssl
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from lanemq.sdk import (
    BrokerUnreachable,
    ClientOptions,
    ConsumeFrom,
    LitePullOptions,
    open_remoting_client,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.frame import request

CERTIFICATE = Path(__file__).parent / "tls" / "server.pem"
KEY = CERTIFICATE.with_name("server.key")
ROUTE = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})


@pytest.fixture
def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


class TlsNetwork:
    """The network of a cluster whose servers speak TLS, or, if ``plain``, do not."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.plain = False
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(CERTIFICATE, KEY)

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        node = self.cluster.nodes[f"{host}:{port}"]
        ours, theirs = memory_stream_pair()
        if self.plain:
            self.cluster.nursery.start_soon(self._misunderstand, theirs)
        else:
            stream = trio.SSLStream(theirs, self.context, server_side=True, https_compatible=True)
            self.cluster.nursery.start_soon(node.serve, stream)
        return ours

    @staticmethod
    async def _misunderstand(stream: trio.abc.Stream) -> None:
        await stream.receive_some()  # a handshake makes no frame
        await stream.aclose()


@pytest.fixture
def network(cluster: FakeCluster) -> TlsNetwork:
    return TlsNetwork(cluster)


async def test_a_consumer_reads_over_tls(
    cluster: FakeCluster, network: TlsNetwork, trusting: ssl.SSLContext, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    body = bytes(range(256)) * 1000
    cluster.broker.put("T", 0, body)
    options = LitePullOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET, client=ClientOptions(tls=trusting)
    )
    async with lite_pull_consumer_of(cluster, options, dial=network.dial) as consumer:
        await consumer.subscribe("T")
        (message,) = await consumer.poll()
        assert message.body == body
    assert cluster.broker.offsets["lg", "T", 0] == 1


async def test_a_server_that_is_not_trusted_is_not_talked_to(
    cluster: FakeCluster, network: TlsNetwork, autojump_clock: MockClock
) -> None:
    strict = ssl.create_default_context()
    async with open_remoting_client(tls=strict, dial=network.dial) as client:
        refused = "no TLS: the server's certificate is refused: self-signed"
        with pytest.raises(BrokerUnreachable, match=refused):
            await client.call(cluster.name_servers, ROUTE)


async def test_a_certificate_for_another_name_is_refused(
    cluster: FakeCluster,
    network: TlsNetwork,
    trusting: ssl.SSLContext,
    autojump_clock: MockClock,
) -> None:
    second = cluster.add_name_server()  # 10.0.0.2, which the certificate does not name
    async with open_remoting_client(tls=trusting, dial=network.dial) as client:
        with pytest.raises(BrokerUnreachable, match="certificate is not valid for"):
            await client.call(second.address, ROUTE)


async def test_a_server_without_tls_is_unreachable_with_it(
    cluster: FakeCluster,
    network: TlsNetwork,
    trusting: ssl.SSLContext,
    autojump_clock: MockClock,
) -> None:
    network.plain = True
    async with open_remoting_client(tls=trusting, dial=network.dial) as client:
        with pytest.raises(BrokerUnreachable):
            await client.call(cluster.name_servers, ROUTE)


async def test_a_connection_that_ends_without_farewell_is_made_anew(
    cluster: FakeCluster,
    network: TlsNetwork,
    trusting: ssl.SSLContext,
    autojump_clock: MockClock,
) -> None:
    cluster.create_topic("T", 1)
    async with open_remoting_client(tls=trusting, dial=network.dial) as client:
        for _ in range(3):
            answer = await client.call(cluster.name_servers, ROUTE)
            assert answer.code == 0
            cluster.name_server_nodes[0].cut()
            await trio.sleep(0.1)
            assert client.connected_addresses == ()
