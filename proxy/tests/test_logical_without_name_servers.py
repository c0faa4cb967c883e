"""A logical listener while no name server answers, and right after one was started again.

Name servers keep nothing on a disk: one that has just started knows no topic, then some of the
brokers. Whatever a client asks of a listener is answered by what the listener knows.
"""

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Final

import pytest
import trio

from lanemq.proxy.logical.listener.brokers._accounts import UNHEARD_S
from lanemq.proxy.logical.listener.brokers._routes import FRESH_S, LogicalRoutes
from lanemq.testkit.logical.cluster import CLIENT_HOST, TOPIC, LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster, tools
from lanemq.testkit.proxy.brokers import Client, pull_header, send_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT, NameServerProcess
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, MessageQueue, TopicStatsTable
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    ConsumerSendMsgBack,
    GetConsumeStats,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumerOffset,
    QueryMessage,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER
from lanemq.wire.message import BatchEntry, decode_messages, encode_batch

pytestmark = pytest.mark.slow  # a cluster of its own

BROKERS: Final = ("broker1", "broker2", "broker3")
"""Logical queue 0 begins at the first and ends at the second, 1 is at that too, 2 at the third."""
QUEUES: Final = 3
GROUP: Final = "g"
SHOWN_S: Final = 40.0
"""Seconds after which a name server that was started again shows what it knows."""

Outage = Callable[[LogicalCluster], Awaitable[None]]


async def connect(cluster: LogicalCluster, name: str) -> Client:
    """Return a client of a broker's listener, of version 4.9.7."""
    dial = cluster.network.dialer(CLIENT_HOST)
    return Client(Peer(await dial(cluster.brokers[name].host, LOGICAL_PORT)))


async def filled(cluster: LogicalCluster) -> None:
    """Give each queue two messages, and let the first continue at another broker."""
    clients = {name: await connect(cluster, name) for name in BROKERS}
    for index in range(QUEUES):
        for number in range(2):
            if (index, number) == (0, 1):
                await cluster.migrate(0, "broker2", others=list(BROKERS))
            answer = await clients["broker1"].send(
                TOPIC, b"%d" % number, {"KEYS": "k"}, queue_id=index
            )
            assert answer.code == 0, answer.remark
        for client in clients.values():  # each listener has seen the queue
            assert len((await client.pull(TOPIC, index, 1)).body) > 0
    await trio.sleep(SHOWN_S)


async def no_answer(cluster: LogicalCluster) -> None:
    """The name server is killed."""
    await cluster.name_server.kill()
    await trio.sleep(2 * FRESH_S)


async def no_connection(cluster: LogicalCluster) -> None:
    """Packets to the name server are lost."""
    for broker in cluster.brokers.values():
        cluster.network.part(broker.host, cluster.name_server.host)
    await trio.sleep(2 * FRESH_S)


async def nothing_known(cluster: LogicalCluster) -> None:
    """The name server is killed, and starts again."""
    await cluster.name_server.kill()
    await trio.sleep(FRESH_S + 1)
    await cluster.name_server.start()


def one_known(name: str) -> Outage:
    """The name server starts again, and hears of one broker only."""

    async def outage(cluster: LogicalCluster) -> None:
        await cluster.name_server.kill()
        for other, broker in cluster.brokers.items():
            if other != name:
                cluster.network.part(broker.host, cluster.name_server.host)
        await cluster.name_server.start()

    outage.__doc__ = f"The name server starts again, and hears of {name} only."
    return outage


OUTAGES: Final = {
    "killed": no_answer,
    "parted": no_connection,
    "empty": nothing_known,
    **{f"knows {name} only": one_known(name) for name in BROKERS},
}


async def restarted(cluster: LogicalCluster) -> None:
    """Restart all brokers, and their listeners with them."""
    for broker in cluster.brokers.values():
        await broker.kill()
    for broker in cluster.brokers.values():
        await broker.restart("kill")
    cluster.forget()


async def ask_everything(client: Client, index: int, end: int) -> int:
    """Make each request about a logical queue with ``end`` messages; return the next end."""

    async def ask(code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
        begun_s = trio.current_time()
        answer = await client.call(code, fields, body)
        assert answer.code == 0, (RequestCode(code).name, index, answer.code, answer.remark)
        assert trio.current_time() - begun_s < 2, (RequestCode(code).name, index)
        return answer

    queue = TOPIC, index
    assert (await client.heartbeat("c", consumers={GROUP: {TOPIC: "*"}})).code == 0
    header = send_header(TOPIC, {"KEYS": "k"}, queue_id=index)
    answer = await ask(RequestCode.SEND_MESSAGE_V2, header.to_letters(), b"x")
    assert answer.fields["queueOffset"] == str(end)
    answer = await ask(RequestCode.SEND_MESSAGE, header.to_fields(), b"x")
    assert answer.fields["queueOffset"] == str(end + 1)
    batch = send_header(TOPIC, queue_id=index, batch=True)
    body = encode_batch([BatchEntry(0, b"y", b"")])
    answer = await ask(RequestCode.SEND_BATCH_MESSAGE, batch.to_letters(), body)
    assert answer.fields["queueOffset"] == str(end + 2)
    end += 3

    offset, found = 0, []
    while offset < end:
        answer = await client.call(
            RequestCode.PULL_MESSAGE, pull_header(TOPIC, index, offset).to_fields()
        )
        assert answer.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
        found += decode_messages(answer.body) if answer.code == 0 else []
        offset = int(answer.fields["nextBeginOffset"])
    assert [message.queue_offset for message in found] == list(range(end))

    first, last = found[0], found[-1]
    fields = UpdateConsumerOffset(GROUP, *queue, end - 1).to_fields()
    await ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    answer = await ask(
        RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(GROUP, *queue).to_fields()
    )
    assert answer.fields["offset"] == str(end - 1)
    answer = await ask(RequestCode.GET_MAX_OFFSET, GetMaxOffset(*queue).to_fields())
    assert answer.fields["offset"] == str(end)
    answer = await ask(RequestCode.GET_MIN_OFFSET, GetMinOffset(*queue).to_fields())
    assert answer.fields["offset"] == "0"
    fields = SearchOffset(*queue, last.store_timestamp_ms).to_fields()
    answer = await ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
    assert found[int(answer.fields["offset"])].store_timestamp_ms == last.store_timestamp_ms
    fields = GetEarliestMsgStoretime(*queue).to_fields()
    answer = await ask(RequestCode.GET_EARLIEST_MSG_STORETIME, fields)
    assert answer.fields["timestamp"] == str(first.store_timestamp_ms)
    named = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, index)
    body = LockBatch(GROUP, "c", (named,)).encode()
    answer = await ask(RequestCode.LOCK_BATCH_MQ, {}, body)
    assert b'"queueId":%d' % index in answer.body
    await ask(RequestCode.UNLOCK_BATCH_MQ, {}, body)
    for message in (first, last):
        fields = ViewMessage(message.log_position).to_fields()
        answer = await ask(RequestCode.VIEW_MESSAGE_BY_ID, fields)
        assert decode_messages(answer.body) == [message]
        fields = ConsumerSendMsgBack(
            offset=message.log_position, group=GROUP, delay_level=1, origin_topic=TOPIC
        ).to_fields()
        await ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    await ask(RequestCode.QUERY_MESSAGE, QueryMessage(TOPIC, "k", 32, 0, 2**60).to_fields())
    answer = await ask(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfo(topic=TOPIC).to_fields())
    ends = {
        place.queue_id: told.max_offset
        for place, told in TopicStatsTable.decode(answer.body).offset_table.items()
    }
    assert ends[index] == end
    fields = GetConsumeStats(consumer_group=GROUP, topic=TOPIC).to_fields()
    await ask(RequestCode.GET_CONSUME_STATS, fields)
    await ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": TOPIC, "group": GROUP})
    reset = ResetOffset(topic=TOPIC, group=GROUP, timestamp=-1, is_force=True)
    await ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset.to_fields())
    return end


@pytest.mark.parametrize("lasts_s", [0.0, SHOWN_S + FRESH_S])
@pytest.mark.parametrize("outage", OUTAGES)
async def test_everything_is_answered_without_name_servers(
    outage: str, lasts_s: float, autojump_clock: object
) -> None:
    """At once, and when a name server that was started again takes what it has for everything."""
    async with mapped_cluster(*BROKERS) as cluster:
        await filled(cluster)
        clients = [await connect(cluster, name) for name in BROKERS]
        await OUTAGES[outage](cluster)
        await trio.sleep(lasts_s)
        ends = [2] * QUEUES
        for client, index in product(clients, range(QUEUES)):
            ends[index] = await ask_everything(client, index, ends[index])


@pytest.mark.parametrize("outage", OUTAGES)
async def test_a_listener_that_starts_then_knows_what_its_broker_has_on_the_disk(
    outage: str, autojump_clock: object
) -> None:
    """Any other queue is refused with the code that clients of all versions try elsewhere."""
    async with mapped_cluster(*BROKERS) as cluster:
        await filled(cluster)
        await OUTAGES[outage](cluster)
        await restarted(cluster)
        ends = [2] * QUEUES
        for name, index in ("broker1", 0), ("broker2", 0), ("broker2", 1), ("broker3", 2):
            client = await connect(cluster, name)
            ends[index] = await ask_everything(client, index, ends[index])
        for name, index in product(BROKERS, range(QUEUES)):
            answer = await (await connect(cluster, name)).send(TOPIC, queue_id=index)
            assert answer.code in (0, ResponseCode.SERVICE_NOT_AVAILABLE), answer.remark


async def test_a_topic_that_was_deleted_is_gone_at_all_listeners(autojump_clock: object) -> None:
    """The brokers say so: it does not matter that a name server that lost a topic says the same."""
    async with mapped_cluster(*BROKERS, auto_create_topic_enable=False) as cluster:
        await filled(cluster)
        async with tools(cluster) as admin:
            for broker in cluster.brokers.values():
                await admin.delete_topic(broker.address, TOPIC)
        await trio.sleep(FRESH_S + 1)
        for name in BROKERS:
            assert await routes_of(cluster, name).find(TOPIC) is None
            answer = await (await connect(cluster, name)).send(TOPIC, queue_id=0)
            assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_segments_of_a_broker_that_will_not_come_back_are_kept_for_a_minute(
    autojump_clock: object,
) -> None:
    """A name server that was started again cannot tell a broker that is late from a lost one."""
    async with mapped_cluster(*BROKERS) as cluster:
        await filled(cluster)
        routes = routes_of(cluster, "broker3")
        await cluster.name_server.kill()
        await cluster.brokers["broker1"].kill()
        await cluster.name_server.start()
        await trio.sleep(SHOWN_S)
        for is_kept, pause_s in ((True, UNHEARD_S / 2), (True, UNHEARD_S), (False, 0)):
            view = await routes.refresh(TOPIC)
            assert view is not None
            names = [segment.broker_name for segment in view.queues[0]]
            assert names == (["broker1", "broker2"] if is_kept else ["broker2"])
            await trio.sleep(pause_s)


async def test_a_name_server_that_lost_a_topic_does_not_outvote_one_that_has_it(
    autojump_clock: object,
) -> None:
    """Whichever comes first in the list; the one with the topic is asked first from then on."""
    async with mapped_cluster(*BROKERS) as cluster, trio.open_nursery() as nursery:
        other = NameServerProcess("other", "10.0.0.2", cluster.network, nursery)
        await other.start()
        routes = routes_of(cluster, "broker1")
        routes._name_servers.insert(0, other.address)
        assert await routes.refresh(TOPIC) is not None
        assert await routes.confirm(TOPIC, 0)
        assert routes._name_servers == [cluster.name_server.address, other.address]
        await other.stop()


def routes_of(cluster: LogicalCluster, name: str) -> LogicalRoutes:
    return cluster.brokers[name].logical_listener.routes
