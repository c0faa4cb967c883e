"""A logical listener as clients see it that know nothing of logical queues."""

from collections.abc import AsyncIterator

import pytest
import trio

from lanemq.proxy.listener._testing import BROKER_PORT, ListenerCluster, open_listener_cluster
from lanemq.wire import (
    ConsumerSendMsgBack,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    QueryMessage,
    ResetOffsetBody,
    TopicStatsTable,
    UpdateConsumerOffset,
    decode_messages,
    decode_offset_id,
)
from lanemq.wire.headers import GetTopicStatsInfo, ResetOffset
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER


@pytest.fixture
async def cluster(autojump_clock: object) -> AsyncIterator[ListenerCluster]:
    async with open_listener_cluster() as cluster:
        await cluster.create_topic("T")
        yield cluster


async def test_a_send_is_answered_in_the_numbers_of_the_logical_queue(
    cluster: ListenerCluster,
) -> None:
    client = await cluster.connect(1)
    for index in range(4):
        for number in range(3):
            answer = await client.send("T", b"%d-%d" % (index, number), queue_id=index)
            assert answer.code == 0, answer.remark
            assert answer.fields["queueId"] == str(index)
            assert answer.fields["queueOffset"] == str(number)
            host, _ = decode_offset_id(answer.fields["msgId"])
            assert str(host) == "10.0.1.1:10921"


async def test_messages_are_read_at_any_listener_wherever_they_are(
    cluster: ListenerCluster,
) -> None:
    sender, reader = await cluster.connect(1), await cluster.connect(2)
    for index in range(4):
        await sender.send("T", b"in %d" % index, queue_id=index)
    for index in range(4):
        answer = await reader.pull("T", index, 0)
        assert answer.code == 0, answer.remark
        (message,) = decode_messages(answer.body)
        assert (message.body, message.queue_id, message.queue_offset) == (
            b"in %d" % index,
            index,
            0,
        )
        assert str(message.store_host) == "10.0.1.2:10921"
        viewed = await sender.call(33, {"offset": str(message.log_position)})
        (again,) = decode_messages(viewed.body)
        assert (again.body, again.queue_id, again.queue_offset) == (b"in %d" % index, index, 0)
        assert again.log_position == message.log_position


async def test_a_pull_waits_for_the_next_message_and_is_answered_when_it_comes(
    cluster: ListenerCluster,
) -> None:
    """Here and at another broker, in the time of the message and not of the wait."""
    sender, reader = await cluster.connect(1), await cluster.connect(1)
    await reader.heartbeat("c", consumers={"g": {"T": "*"}})
    for index in (0, 3):
        async with trio.open_nursery() as nursery:

            async def pull(index: int = index) -> None:
                answer = await reader.pull("T", index, 0, sys_flag=2)
                (message,) = decode_messages(answer.body)
                assert (message.body, message.queue_id) == (b"late", index)

            nursery.start_soon(pull)
            await trio.sleep(1)
            begun_s = trio.current_time()
            await sender.send("T", b"late", queue_id=index)
        assert trio.current_time() - begun_s < 1


async def test_the_subscription_of_a_heartbeat_counts_at_every_broker(
    cluster: ListenerCluster,
) -> None:
    client = await cluster.connect(1)
    await client.heartbeat("c", consumers={"g": {"T": "TagB"}})
    for index in (0, 3):
        for tag in ("TagA", "TagB", "TagA"):
            await client.send("T", tag.encode(), {"TAGS": tag}, queue_id=index)
        answer = await client.pull("T", index, 0, sys_flag=0)
        assert [message.body for message in decode_messages(answer.body)] == [b"TagB"]
    assert (await client.pull("T", 3, 0, sys_flag=0, consumer_group="other")).code == 24


async def test_progress_is_the_same_at_every_listener(cluster: ListenerCluster) -> None:
    one, other = await cluster.connect(1), await cluster.connect(2)
    for index in range(4):
        for _ in range(3):
            await one.send("T", queue_id=index)
        header = UpdateConsumerOffset("g", "T", index, 2)
        assert (await one.call(15, header.to_fields())).code == 0
    for index in range(4):
        answer = await other.call(14, QueryConsumerOffset("g", "T", index).to_fields())
        assert (answer.code, answer.fields["offset"]) == (0, "2")
    answer = await other.call(14, QueryConsumerOffset("new", "T", 0).to_fields())
    assert (answer.code, answer.fields["offset"]) == (0, "0")  # a young queue
    fields = QueryConsumerOffset("new", "T", 0, set_zero_if_not_found=False).to_fields()
    assert (await other.call(14, fields)).code == 22


async def test_the_bounds_of_a_queue_are_logical(cluster: ListenerCluster) -> None:
    client = await cluster.connect(2)
    for _ in range(3):
        await client.send("T", queue_id=1)
    assert (await client.call(30, GetMaxOffset("T", 1).to_fields())).fields["offset"] == "3"
    assert (await client.call(31, GetMinOffset("T", 1).to_fields())).fields["offset"] == "0"
    stats = TopicStatsTable.decode(
        (await client.call(202, GetTopicStatsInfo(topic="T").to_fields())).body
    )
    places = {queue.queue_id: place for queue, place in stats.offset_table.items()}
    assert sorted(places) == [0, 1, 2, 3]
    assert {queue.broker_name for queue in stats.offset_table} == {LOGICAL_QUEUE_BROKER}
    assert (places[1].min_offset, places[1].max_offset) == (0, 3)
    assert places[1].last_update_timestamp > places[0].last_update_timestamp


async def test_a_message_given_back_comes_again_from_the_broker_that_has_it(
    cluster: ListenerCluster,
) -> None:
    client = await cluster.connect(1)
    await client.heartbeat("c", consumers={"g": {"T": "*"}})
    await client.send("T", b"again", queue_id=3)
    (message,) = decode_messages((await client.pull("T", 3, 0)).body)
    header = ConsumerSendMsgBack(
        offset=message.log_position, group="g", delay_level=1, origin_topic="T"
    )
    assert (await client.call(36, header.to_fields())).code == 0
    await trio.sleep(2)
    at_broker_2 = await cluster.connect(2, BROKER_PORT)
    (retried,) = decode_messages((await at_broker_2.pull("%RETRY%g", 0, 0)).body)
    assert (retried.body, retried.reconsume_times) == (b"again", 1)


async def test_messages_are_found_by_key_at_all_brokers(cluster: ListenerCluster) -> None:
    client = await cluster.connect(1)
    for index in range(4):
        await client.send("T", b"%d" % index, {"KEYS": "k"}, queue_id=index)
    header = QueryMessage("T", "k", 32, 0, 2**60)
    answer = await client.call(12, header.to_fields())
    found = decode_messages(answer.body)
    assert sorted((m.body, m.queue_id, m.queue_offset) for m in found) == [
        (b"%d" % index, index, 0) for index in range(4)
    ]


async def test_an_unknown_logical_queue_and_a_plain_topic_are_refused(
    cluster: ListenerCluster,
) -> None:
    client = await cluster.connect(1)
    answer = await client.send("T", queue_id=9)
    assert (answer.code, "queueId[9] is illegal" in (answer.remark or "")) == (1, True)
    answer = await client.send("plain", queue_id=0)
    assert (answer.code, "has no logical queues" in (answer.remark or "")) == (1, True)
    assert (await client.call(17)).code == 3


async def test_a_reset_tells_the_members_logical_offsets(cluster: ListenerCluster) -> None:
    client = await cluster.connect(1)
    await client.heartbeat("c", consumers={"g": {"T": "*"}})
    for index in range(4):
        await client.send("T", queue_id=index)
        await client.call(15, UpdateConsumerOffset("g", "T", index, 1).to_fields())
    header = ResetOffset(topic="T", group="g", timestamp=0, is_force=True)
    answer = await client.call(222, header.to_fields())
    targets = ResetOffsetBody.decode(answer.body).offset_table
    assert {queue.queue_id: offset for queue, offset in targets.items()} == dict.fromkeys(
        range(4), 0
    )
    assert {queue.broker_name for queue in targets} == {LOGICAL_QUEUE_BROKER}
    assert [frame.code for frame in client.pushed if frame.code == 220] == [220]
