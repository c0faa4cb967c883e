"""Sending: where to, how often, in what form, and what is refused before it is sent."""

from collections import Counter

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import (
    BrokerUnreachable,
    ClientClosed,
    InvalidName,
    Message,
    MessageQueue,
    MessageRejected,
    NoRoute,
    ProducerOptions,
    RefusedByBroker,
    RequestTimedOut,
    SendStatus,
    open_producer,
)
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RequestCode, SysFlag
from lanemq.wire.frame import Frame
from lanemq.wire.headers import SendMessage
from lanemq.wire.message import decode_offset_id

SEND = RequestCode.SEND_MESSAGE_V2
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
HEART_BEAT = RequestCode.HEART_BEAT


async def test_a_sent_message_is_stored_with_all_it_has(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    message = Message(
        topic="T",
        body=b"hello",
        tags="A",
        keys=("k1", "k2"),
        properties={"colour": "grün"},
        delay_level=3,
        flag=77,
        wait=False,
    )
    async with producer_of(cluster) as producer:
        result = await producer.send(message)
    assert result.status is SendStatus.OK
    assert result.queue == MessageQueue("T", "broker-a", 0)
    assert result.queue_offset == 0
    assert result.region == "DefaultRegion"
    (stored,) = cluster.broker.messages("T")
    assert stored.body == b"hello"
    assert stored.flag == 77
    assert stored.properties == {
        "UNIQ_KEY": result.message_id,
        "TAGS": "A",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "WAIT": "false",
        "colour": "grün",
    }
    assert decode_offset_id(result.offset_id)[1] == stored.log_position
    (sent,) = (r for r in cluster.broker.requests if r.code == RequestCode.SEND_MESSAGE_V2)
    header = SendMessage.from_letters(sent.fields)
    assert (header.producer_group, header.default_topic) == ("pg", "TBW102")
    assert (header.default_topic_queue_nums, header.batch) == (4, False)


async def test_nothing_is_sent_before_the_first_message(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster):
        await trio.sleep(100)
    assert cluster.dials == []


async def test_brokers_know_a_producer_with_its_first_message(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.send(Message(topic="T", body=b"x"))
        await wait_all_tasks_blocked()
        assert cluster.broker.producers == {"pg": {producer.client_id}}


async def test_brokers_of_topics_named_at_the_start_know_a_producer_that_sends_nothing(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.create_topic("T")
    other = cluster.add_broker()
    async with open_producer(
        "pg", topics=["T", "later"], name_servers=cluster.name_servers, dial=cluster.dial
    ) as producer:
        assert cluster.broker.producers == {"pg": {producer.client_id}}
        assert other.producers == {}
        other.create_topic("later")
        await trio.sleep(10)
        assert other.producers == {"pg": {producer.client_id}}
    with pytest.raises(InvalidName, match="bad topic"):
        await open_producer(
            "pg", topics=["bad topic"], name_servers=cluster.name_servers
        ).__aenter__()


async def test_heartbeats_follow_every_thirty_seconds_and_the_end_is_told(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.send(Message(topic="T", body=b"x"))
        await trio.sleep(95)
        assert cluster.broker.count(HEART_BEAT) == 4
        assert cluster.broker.producers == {"pg": {producer.client_id}}
    assert cluster.broker.requests[-1].code == RequestCode.UNREGISTER_CLIENT
    assert cluster.broker.requests[-1].fields == {
        "clientID": producer.client_id,
        "producerGroup": "pg",
    }


async def test_queues_take_turns(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    cluster.add_broker()
    cluster.create_topic("T", 3)
    async with producer_of(cluster) as producer:
        assert len(await producer.publish_queues("T")) == 6
        results = [await producer.send(Message(topic="T", body=b"x")) for _ in range(12)]
    assert set(Counter(result.queue for result in results).values()) == {2}


async def test_a_given_queue_is_the_only_one_tried(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    queue = MessageQueue("T", "broker-a", 2)
    async with producer_of(cluster) as producer:
        for _ in range(3):
            result = await producer.send(Message(topic="T", body=b"x"), queue=queue)
            assert result.queue == queue
        cluster.broker.refuse(SEND, 1)
        with pytest.raises(RefusedByBroker):
            await producer.send(Message(topic="T", body=b"x"), queue=queue)
        with pytest.raises(InvalidName, match="belongs to topic"):
            await producer.send(Message(topic="U", body=b"x"), queue=queue)
    assert cluster.broker.count(SEND) == 4


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205])
async def test_a_retriable_refusal_is_retried_on_another_broker(
    cluster: FakeCluster, autojump_clock: MockClock, code: int
) -> None:
    other = cluster.add_broker()
    cluster.create_topic("T", 4)
    cluster.broker.refuse(SEND, *[code] * 9)
    async with producer_of(cluster) as producer:
        results = [await producer.send(Message(topic="T", body=b"%d" % n)) for n in range(8)]
    assert {result.queue.broker_name for result in results} == {other.name}
    assert cluster.bodies("T") == [b"%d" % n for n in range(8)]


@pytest.mark.parametrize("code", [13, 3, 26])
async def test_a_final_refusal_is_raised_at_once(
    cluster: FakeCluster, autojump_clock: MockClock, code: int
) -> None:
    cluster.create_topic("T")
    cluster.broker.refuse(SEND, code)
    async with producer_of(cluster) as producer:
        with pytest.raises(RefusedByBroker) as caught:
            await producer.send(Message(topic="T", body=b"x"))
    assert caught.value.code == code
    assert cluster.broker.count(SEND) == 1


async def test_the_last_failure_tells_of_all_attempts(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_broker()
    cluster.create_topic("T")
    for broker in cluster.brokers:
        broker.refuse(SEND, *[14] * 9)
    async with producer_of(cluster) as producer:
        with pytest.raises(RefusedByBroker) as caught:
            await producer.send(Message(topic="T", body=b"x"))
    (note,) = caught.value.__notes__
    assert "after 3 of 3 attempts" in note
    assert "broker-a" in note
    assert "broker-b" in note


async def test_an_unreachable_broker_is_left_for_another(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_broker()
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.publish_queues("T")
        cluster.broker.reachable = False
        for number in range(8):
            await producer.send(Message(topic="T", body=b"%d" % number))
    assert len(cluster.brokers[1].messages("T")) == 8


async def test_all_attempts_share_one_time_limit(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    cluster.broker.mute(SEND, 9)
    async with producer_of(cluster) as producer:
        await producer.publish_queues("T")
        start = trio.current_time()
        with pytest.raises(RequestTimedOut):
            await producer.send(Message(topic="T", body=b"x"), timeout_s=2)
        assert trio.current_time() == start + 2


@pytest.mark.parametrize("status", list(SendStatus))
async def test_a_stored_message_has_a_status(
    cluster: FakeCluster, autojump_clock: MockClock, status: SendStatus
) -> None:
    cluster.create_topic("T", 1)
    sends = cluster.broker.handlers[SEND]

    def answer(frame: Frame, peer: Peer) -> Frame:
        stored = sends(frame, peer)
        assert stored is not None
        return frame.reply(status.value, stored.fields)

    cluster.broker.handlers[SEND] = answer
    async with producer_of(cluster) as producer:
        assert (await producer.send(Message(topic="T", body=b"x"))).status is status
    assert cluster.broker.count(SEND) == 1


async def test_a_status_other_than_ok_can_count_as_failed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    sends = cluster.broker.handlers[SEND]

    def late(frame: Frame, peer: Peer) -> Frame:
        stored = sends(frame, peer)
        assert stored is not None
        cluster.broker.handlers[SEND] = sends
        return frame.reply(10, stored.fields)

    cluster.broker.handlers[SEND] = late
    async with producer_of(cluster, ProducerOptions(retry_when_not_stored=True)) as producer:
        assert (await producer.send(Message(topic="T", body=b"x"))).status is SendStatus.OK
    assert cluster.broker.count(SEND) == 2


async def test_a_new_topic_goes_where_the_default_topic_is(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        assert len(await producer.publish_queues("New")) == 4
        await producer.send(Message(topic="New", body=b"x"))
        await trio.sleep(31)
        route = producer._client.routes.get("New")
        assert route is not None
        assert not route.is_default
    asked = [frame.fields["topic"] for frame in cluster.name_server_nodes[0].requests]
    assert asked[:2] == ["New", "TBW102"]
    assert cluster.bodies("New") == [b"x"]


async def test_a_topic_that_nobody_makes_is_an_error_that_says_what_to_do(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    del cluster.broker.topics["TBW102"]
    async with producer_of(cluster) as producer:
        with pytest.raises(NoRoute, match="create it first, as with put_topic"):
            await producer.send(Message(topic="Gone", body=b"x"))


async def test_a_read_only_topic_is_an_error(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.create_topic("T", perm=4)
    async with producer_of(cluster) as producer:
        with pytest.raises(NoRoute, match="none of its brokers is writable"):
            await producer.send(Message(topic="T", body=b"x"))


async def test_another_name_server_is_asked_when_one_fails(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    second = cluster.add_name_server()
    cluster.create_topic("T")
    cluster.name_server_nodes[0].reachable = False
    async with producer_of(cluster) as producer:
        await producer.send(Message(topic="T", body=b"x"))
        await trio.sleep(65)
    assert second.count(ROUTE) == 3  # and it stays with the one that answered
    assert cluster.dials.count("10.0.0.1:9876") == 1


async def test_no_name_server_at_all_is_an_error_that_names_them(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_name_server()
    for node in cluster.name_server_nodes:
        node.reachable = False
    async with producer_of(cluster) as producer:
        with pytest.raises(BrokerUnreachable) as caught:
            await producer.send(Message(topic="T", body=b"x"))
    assert "10.0.0.1:9876, 10.0.0.2:9876" in caught.value.__notes__[0]


async def test_a_known_route_survives_the_name_servers(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.send(Message(topic="T", body=b"1"))
        cluster.name_server_nodes[0].reachable = False
        cluster.name_server_nodes[0].cut()
        await trio.sleep(100)
        await producer.send(Message(topic="T", body=b"2"))
    assert cluster.bodies("T") == [b"1", b"2"]


async def test_long_bodies_are_compressed_and_short_ones_are_not(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with producer_of(cluster) as producer:
        for size in (4095, 4096, 100_000):
            await producer.send(Message(topic="T", body=b"a" * size))
    short, long, longer = cluster.broker.messages("T")
    assert (short.sys_flag, short.body) == (0, b"a" * 4095)
    assert long.sys_flag == longer.sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    assert len(longer.body) < 1000
    assert longer.decompressed_body() == b"a" * 100_000


async def test_a_batch_takes_consecutive_places(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    messages = [Message(topic="T", body=b"%d" % n, tags="A", keys=(f"k{n}",)) for n in range(5)]
    async with producer_of(cluster) as producer:
        result = await producer.send_batch(messages)
    stored = cluster.broker.messages("T")
    assert [message.body for message in stored] == [b"%d" % n for n in range(5)]
    assert [message.queue_offset for message in stored] == list(range(5))
    assert [message.keys for message in stored] == [(f"k{n}",) for n in range(5)]
    assert result.message_id.split(",") == [message.unique_key for message in stored]
    assert result.offset_id.split(",") == [message.offset_id for message in stored]
    assert cluster.broker.count(RequestCode.SEND_BATCH_MESSAGE) == 1


async def test_a_one_way_message_is_not_answered(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with producer_of(cluster) as producer:
        key = await producer.send_oneway(Message(topic="T", body=b"x"))
    await trio.testing.wait_all_tasks_blocked()
    (stored,) = cluster.broker.messages("T")
    assert stored.unique_key == key


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (Message(topic="", body=b"x"), InvalidName, "blank"),
        (Message(topic="a b", body=b"x"), InvalidName, "characters other than"),
        (Message(topic="a" * 128, body=b"x"), InvalidName, "128 characters"),
        (Message(topic="SCHEDULE_TOPIC_XXXX", body=b"x"), InvalidName, "belongs to the broker"),
        (Message(topic="%RETRY%g", body=b"x"), MessageRejected, "retry topic"),
        (Message(topic="T", body=bytes(5 << 20)), MessageRejected, "5242880 bytes"),
        (Message(topic="T", body=b"x", delay_level=19), MessageRejected, "from 0 to 18"),
        (Message(topic="T", body=b"x", tags="a\x01"), MessageRejected, "0x01"),
        (Message(topic="T", body=b"x", keys=("a b",)), MessageRejected, "blank"),
        (Message(topic="T", body=b"x", keys="ab"), MessageRejected, "tuple"),  # type: ignore[arg-type]
        (Message(topic="T", body=b"x", properties={"UNIQ_KEY": "1"}), MessageRejected, "UNIQ_KEY"),
        (Message(topic="T", body=b"x", properties={"a": ""}), MessageRejected, "empty"),
        (Message(topic="T", body=b"x", properties={"a": "\x02"}), MessageRejected, "0x02"),
        (Message(topic="T", body=b"x", properties={"a": "x" * 40000}), MessageRejected, "40"),
    ],
)
async def test_what_no_broker_would_take_is_not_sent(
    cluster: FakeCluster, message: Message, error: type[Exception], text: str
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        with pytest.raises(error, match=text):
            await producer.send(message)
    assert cluster.dials == []


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "at least one"),
        ([Message(topic="T", body=b""), Message(topic="U", body=b"")], "one topic"),
        ([Message(topic="T", body=b"", delay_level=1)], "delay"),
        ([Message(topic="T", body=b"", wait=w) for w in (True, False)], "wait"),
        ([Message(topic="T", body=bytes(3 << 20))] * 2, "in parts"),
    ],
)
async def test_what_is_no_batch_is_not_sent(
    cluster: FakeCluster, messages: list[Message], text: str
) -> None:
    async with producer_of(cluster) as producer:
        with pytest.raises(MessageRejected, match=text):
            await producer.send_batch(messages)
    assert cluster.dials == []


async def test_a_cancelled_send_does_not_harm_the_next(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with producer_of(cluster) as producer:
        await producer.publish_queues("T")
        cluster.broker.mute(SEND)
        with trio.move_on_after(1):
            await producer.send(Message(topic="T", body=b"1"))
        result = await producer.send(Message(topic="T", body=b"2"))
        assert result.queue_offset == 1


async def test_a_closed_producer_says_so(cluster: FakeCluster) -> None:
    async with producer_of(cluster) as producer:
        pass
    with pytest.raises(ClientClosed, match="block"):
        await producer.send(Message(topic="T", body=b"x"))


@pytest.mark.parametrize("group", ["", " ", "a b", "g" * 256])
async def test_a_bad_group_is_refused(group: str) -> None:
    with pytest.raises(InvalidName):
        async with open_producer(group, name_servers="h:1"):
            pass


@pytest.mark.parametrize("servers", ["", ";", [], "host", "h:1;h"])
async def test_bad_name_servers_are_refused(servers: str | list[str]) -> None:
    with pytest.raises(InvalidName):
        async with open_producer("g", name_servers=servers):
            pass


async def test_attempts_at_the_only_broker_give_it_time_to_come_back(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.publish_queues("T")
        cluster.broker.reachable = False
        cluster.broker.cut()

        async def restart() -> None:
            await trio.sleep(1.5)
            cluster.broker.reachable = True

        nursery.start_soon(restart)
        started_s = trio.current_time()
        await producer.send(Message(topic="T", body=b"x"))
        assert trio.current_time() - started_s < 3
    assert cluster.bodies("T") == [b"x"]


async def test_a_broker_that_stays_away_fails_the_send_within_its_time(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    async with producer_of(cluster) as producer:
        await producer.publish_queues("T")
        cluster.broker.reachable = False
        cluster.broker.cut()
        started_s = trio.current_time()
        with pytest.raises(BrokerUnreachable) as failed:
            await producer.send(Message(topic="T", body=b"x"), timeout_s=2)
        assert 1 < trio.current_time() - started_s <= 2
    assert "after 3 of 3 attempts" in failed.value.__notes__[0]


async def test_a_broker_that_hangs_leaves_time_for_another(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_broker()
    cluster.create_topic("T", 1)
    async with producer_of(cluster) as producer:
        for _ in cluster.brokers:
            await producer.send(Message(topic="T", body=b"first"))
        cluster.broker.mute(RequestCode.SEND_MESSAGE_V2, times=100)
        for _ in range(4):
            started_s = trio.current_time()
            result = await producer.send(Message(topic="T", body=b"x"))
            assert result.queue.broker_name == "broker-b"
            assert trio.current_time() - started_s <= 1.5
