"""A listener without a broker of its own: every broker is remote, reached by links or otherwise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from typing import Final, final

import pytest
import trio
from msgspec.structs import replace

from lanemq.proxy.logical.listener import LogicalListener
from lanemq.proxy.logical.listener.brokers._broker import (
    Reach,
    SegmentBroker,
    Unreachable,
    answer_to,
)
from lanemq.proxy.logical.listener.brokers._questions import BY_KEY, VIEW, AskedT, Question, ToldT
from lanemq.proxy.net._answers import Answer
from lanemq.proxy.net._session import Session
from lanemq.proxy.process._own_broker import listener_host, own_broker
from lanemq.sdk import open_remoting_client
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.logical.cluster import CLIENT_HOST, TOPIC, LogicalCluster
from lanemq.testkit.proxy.brokers import Client, pull_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.headers import (
    GetMaxOffset,
    GetMinOffset,
    Header,
    PullMessageResponse,
    QueryConsumerOffset,
    QueryMessage,
    QueryMessageResponse,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER
from lanemq.wire.message import decode_messages, encode_record

pytestmark = [
    pytest.mark.slow,  # a cluster of its own for every test
    pytest.mark.mapped_cluster("broker1", "broker2", queues=2),
]

HOST: Final = "10.0.5.5"
ADDRESS: Final = HostAddress(HOST, 10921)
MANY: Final = 2**15 * encode_record(
    topic=TOPIC.encode(),
    body=b"",
    properties=b"",
    queue_id=0,
    flag=0,
    queue_offset=0,
    log_position=0,
    sys_flag=0,
    born_timestamp_ms=1,
    born_host=ADDRESS.packed,
    store_timestamp_ms=2,
    store_host=ADDRESS.packed,
    reconsume_times=0,
    prepared_transaction_offset=0,
)
WAYS: Final = ("its own and a link", "links", "upstream connections")


@final
class UpstreamBrokers:
    """Brokers that each client of a listener reaches by a connection of its own.

    Nothing in the listener knows this kind; Apache's brokers are reached like this by a gateway.
    """

    def __init__(self, cluster: LogicalCluster) -> None:
        self._cluster = cluster
        self.connections: dict[tuple[Session | None, str], Client] = {}
        """Client's session (None for the listener's own questions) and address -> connection."""

    def reach(self, name: str, address: str | None) -> SegmentBroker:
        return UpstreamBroker(self, name, address)

    async def connection(self, session: Session | None, address: str) -> Client:
        known = self.connections.get((session, address))
        if known is None:
            host, port = address.split(":")
            stream = await self._cluster.network.dialer(HOST)(host, int(port))
            known = self.connections[session, address] = Client(Peer(stream))
        return known


@final
class UpstreamBroker:
    def __init__(self, brokers: UpstreamBrokers, name: str, address: str | None) -> None:
        self._brokers, self._name, self._address = brokers, name, address

    async def call(
        self, question: Question[AskedT, ToldT], asked: AskedT, timeout_s: float
    ) -> ToldT:
        return answer_to(question, await self._request(None, question.encode(asked)))

    async def ask(self, frame: Frame, session: Session, timeout_s: float) -> Frame:
        return await self._request(session, frame)

    async def _request(self, session: Session | None, frame: Frame) -> Frame:
        if self._address is None:
            raise Unreachable(self._name, "no address")
        client = await self._brokers.connection(session, self._address)
        if frame.flag & FLAG_ONEWAY:
            await client.peer.send(frame)
            return frame.reply()
        return replace(await client.peer.call(frame), opaque=frame.opaque)


@final
class StrangeBroker:
    """A broker that answers with all the shortest records that a frame has room for."""

    def __init__(self, known: SegmentBroker) -> None:
        self._known = known

    async def call(
        self, question: Question[AskedT, ToldT], asked: AskedT, timeout_s: float
    ) -> ToldT:
        told = {BY_KEY: QueryMessageResponse(1, 1).to_fields(), VIEW: dict[str, str]()}
        if question not in told:
            return await self._known.call(question, asked, timeout_s)
        return answer_to(question, Frame(0, fields=told[question], body=MANY))

    async def ask(self, frame: Frame, session: Session, timeout_s: float) -> Answer:
        if frame.code == RequestCode.PULL_MESSAGE:
            # Of a segment with one message some may be behind its end.
            return frame.reply(fields=PullMessageResponse(0, 1 << 20, 0, 1).to_fields(), body=MANY)
        return await self._known.ask(frame, session, timeout_s)


@asynccontextmanager
async def listening(
    cluster: LogicalCluster, *, reach: Reach | None, with_own: bool
) -> AsyncIterator[LogicalListener]:
    """Run one more listener, by the clients and groups of broker1."""
    broker = cluster.brokers["broker1"].running

    async with (
        open_remoting_client(dial=cluster.network.dialer(HOST)) as client,
        trio.open_nursery() as nursery,
    ):
        listener = LogicalListener(
            listener_host(broker),
            client,
            address=ADDRESS,
            own=own_broker(broker) if with_own else None,
            reach=reach,
        )
        nursery.start_soon(listener.run)
        yield listener
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(listener: LogicalListener) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        mine, theirs = trio.testing.memory_stream_pair()

        async def serve() -> None:
            await listener.server.serve_stream(theirs, peer=HostAddress(CLIENT_HOST, 5000))

        nursery.start_soon(serve)
        yield Client(Peer(mine))
        nursery.cancel_scope.cancel()


async def read(client: Client, index: int) -> list[bytes]:
    """The messages of a whole logical queue, whose numbers are right."""
    bodies: list[bytes] = []
    while (answer := await client.pull(TOPIC, index, len(bodies))).code == 0:
        for message in decode_messages(answer.body):
            assert (message.queue_id, message.queue_offset) == (index, len(bodies))
            bodies.append(message.body)
    return bodies


OFFSETS: Final = {
    QueryConsumerOffset: RequestCode.QUERY_CONSUMER_OFFSET,
    GetMaxOffset: RequestCode.GET_MAX_OFFSET,
    GetMinOffset: RequestCode.GET_MIN_OFFSET,
    SearchOffset: RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
}


async def offset(client: Client, header: Header) -> int:
    """The offset that a question is answered with."""
    return int((await client.call(OFFSETS[type(header)], header.to_fields())).fields["offset"])


def commit(offset: int) -> dict[str, str]:
    return UpdateConsumerOffset("g", TOPIC, 0, offset).to_fields()


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_is_answered_the_same_however_brokers_are_reached(
    way: str, cluster: LogicalCluster
) -> None:
    upstream = UpstreamBrokers(cluster)
    reach = upstream.reach if way == WAYS[2] else None
    async with (
        listening(cluster, reach=reach, with_own=way == WAYS[0]) as listener,
        connected(listener) as client,
    ):
        for index in range(4):
            for number in range(3):
                answer = await client.send(
                    TOPIC, b"%d-%d" % (index, number), {"KEYS": "k"}, queue_id=index
                )
                assert answer.code == 0, answer.remark
                assert answer.fields["queueId"] == str(index)
                assert answer.fields["queueOffset"] == str(number)
        await cluster.migrate(0, "broker2")
        last = await client.send(TOPIC, b"behind the cut", {"KEYS": "k"}, queue_id=0)
        assert (last.code, last.fields["queueOffset"]) == (0, "3")
        queues = [[b"%d-%d" % (index, number) for number in range(3)] for index in range(4)]
        queues[0].append(b"behind the cut")
        assert [await read(client, index) for index in range(4)] == queues

        by_id = ViewMessage(int(last.fields["msgId"][-16:], 16)).to_fields()
        found = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, by_id)
        assert [message.body for message in decode_messages(found.body)] == [b"behind the cut"]
        by_key = QueryMessage(TOPIC, "k", 32, 0, 2**62).to_fields()
        found = await client.call(RequestCode.QUERY_MESSAGE, by_key)
        bodies = sorted(message.body for message in decode_messages(found.body))
        assert bodies == sorted(chain.from_iterable(queues))

        await client.peer.send(
            client.frame(RequestCode.UPDATE_CONSUMER_OFFSET, commit(2), oneway=True)
        )
        assert await offset(client, QueryConsumerOffset("g", TOPIC, 0)) == 2
        answer = await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit(3))
        assert answer.code == 0
        assert await offset(client, QueryConsumerOffset("g", TOPIC, 0)) == 3
        assert await offset(client, GetMaxOffset(TOPIC, 0)) == 4
        assert await offset(client, GetMinOffset(TOPIC, 0)) == 0
        assert await offset(client, SearchOffset(TOPIC, 0, 0)) == 0
        named = tuple(MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, index) for index in range(4))
        lock = LockBatch("g", "id", named).encode()
        locked = await client.call(RequestCode.LOCK_BATCH_MQ, body=lock)
        assert len(LockBatchResult.decode(locked.body).lock_ok_mq_set) == 4
        assert (await client.call(RequestCode.UNLOCK_BATCH_MQ, body=lock)).code == 0
    if way == WAYS[2]:
        sessions = {session for session, _ in upstream.connections}
        assert None in sessions
        assert len(sessions) == 2, "the client has one of its own"


async def test_a_broker_without_address_is_unreachable_and_the_client_may_try_again(
    cluster: LogicalCluster,
) -> None:
    for name in ("broker1", "broker2"):
        cluster.network.part(HOST, cluster.brokers[name].host)
    async with (
        listening(cluster, reach=None, with_own=False) as listener,
        connected(listener) as client,
    ):
        answer = await client.send(TOPIC, b"lost", queue_id=0)
    assert answer.code == 14, answer.remark  # SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_very_many_records_of_a_broker_are_rewritten_in_short_turns(
    cluster: LogicalCluster, is_sealed: bool
) -> None:
    """Whoever registers as a broker may answer with 16 MiB of them, however few were asked for."""
    upstream = UpstreamBrokers(cluster)

    def reach(name: str, address: str | None) -> SegmentBroker:
        return StrangeBroker(upstream.reach(name, address))

    async with (
        listening(cluster, reach=reach, with_own=False) as listener,
        connected(listener) as client,
    ):
        assert (await client.send(TOPIC, b"one", queue_id=0)).code == 0
        if is_sealed:
            await cluster.migrate(0, "broker2")
            assert (await client.send(TOPIC, b"two", queue_id=0)).code == 0
        by_key = QueryMessage(TOPIC, "k", 32, 0, 2**62).to_fields()
        most = {}
        for code, fields in (
            (RequestCode.PULL_MESSAGE, pull_header(TOPIC, 0, 0).to_fields()),
            (RequestCode.QUERY_MESSAGE, by_key),
            (RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(0).to_fields()),
        ):
            with calls_of_steps() as steps:
                answer = await client.call(code, fields)
            assert answer.code == 0, answer.remark
            assert len(answer.body) >= len(MANY)
            most[code] = steps.most
        assert {code: calls for code, calls in most.items() if calls > 20_000} == {}
