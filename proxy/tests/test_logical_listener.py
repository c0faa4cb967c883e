"""A logical listener as clients see it that know nothing of logical queues."""

import random
from itertools import pairwise

import pytest
import trio

from lanemq.testkit.logical.cluster import CLIENT_HOST, LogicalCluster, open_logical_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire.bodies import ResetOffsetBody, RouteData, TopicStatsTable
from lanemq.wire.headers import (
    ConsumerSendMsgBack,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumerOffset,
    QueryMessage,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, MigrateLogicalQueue
from lanemq.wire.message import decode_messages, decode_offset_id

pytestmark = [
    pytest.mark.slow,  # a cluster of its own for every test
    pytest.mark.mapped_cluster(queues=2),  # 0 and 1 at the first broker, 2 and 3 at the second
]


async def connect(cluster: LogicalCluster, broker: int, *, version: int = 407) -> Client:
    """A client of the listener of broker number ``broker``."""
    dial = cluster.network.dialer(CLIENT_HOST)
    stream = await dial(cluster.brokers[f"broker{broker}"].host, LOGICAL_PORT)
    return Client(Peer(stream), version=version)


async def test_a_send_is_answered_in_the_numbers_of_the_logical_queue(
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 1)
    for index in range(4):
        for number in range(3):
            answer = await client.send("T", b"%d-%d" % (index, number), queue_id=index)
            assert answer.code == 0, answer.remark
            assert answer.fields["queueId"] == str(index)
            assert answer.fields["queueOffset"] == str(number)
            host, _ = decode_offset_id(answer.fields["msgId"])
            assert str(host) == "10.0.1.1:10921"


async def test_messages_are_read_at_any_listener_wherever_they_are(
    cluster: LogicalCluster,
) -> None:
    sender, reader = await connect(cluster, 1), await connect(cluster, 2)
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


async def test_names_of_offsets_are_no_topics_and_no_groups_at_a_listener(
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 1)
    for name in ("%STAGE%g", "%STAGE%|fast|g", "%BROKER_STAGE%g", "%LQ%0%T"):
        assert (await client.send(name)).code != 0, name
        settings = {"topic": name, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        settings |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
        assert (await client.call(17, settings)).code != 0, name
        assert (await client.heartbeat("c", consumers={name: {"T": "*"}})).code != 0, name
    assert (await client.heartbeat("c", consumers={"g": {"T": "*"}})).code == 0


async def test_a_pull_waits_for_the_next_message_and_is_answered_when_it_comes(
    cluster: LogicalCluster,
) -> None:
    """Here and at another broker, in the time of the message and not of the wait."""
    sender, reader = await connect(cluster, 1), await connect(cluster, 1)
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
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 1)
    await client.heartbeat("c", consumers={"g": {"T": "TagB"}})
    for index in (0, 3):
        for tag in ("TagA", "TagB", "TagA"):
            await client.send("T", tag.encode(), {"TAGS": tag}, queue_id=index)
        answer = await client.pull("T", index, 0, sys_flag=0)
        assert [message.body for message in decode_messages(answer.body)] == [b"TagB"]
    assert (await client.pull("T", 3, 0, sys_flag=0, consumer_group="other")).code == 24


async def test_progress_is_the_same_at_every_listener(cluster: LogicalCluster) -> None:
    one, other = await connect(cluster, 1), await connect(cluster, 2)
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


async def test_the_bounds_of_a_queue_are_logical(cluster: LogicalCluster) -> None:
    client = await connect(cluster, 2)
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


async def test_times_are_searched_as_in_a_queue_of_one_broker(
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 2)
    times: list[int] = []

    async def write(*pauses_s: float) -> None:
        for pause_s in pauses_s:
            await trio.sleep(pause_s)
            assert (await client.send("T", queue_id=0)).fields["queueOffset"] == str(len(times))
            pulled = await client.pull("T", 0, len(times))
            times.extend(message.store_timestamp_ms for message in decode_messages(pulled.body))

    async def check() -> None:
        middles = [(one + other) // 2 for one, other in pairwise(times)]
        nearer = [middle + 1 for middle in middles]
        for time_ms in (*middles, *nearer, (1 << 63) - 1):
            by_side = {
                "UPPER": max((n for n, at in enumerate(times) if at <= time_ms), default=0),
                None: min(range(len(times)), key=lambda n: abs(times[n] - time_ms)),
            }
            for side, expected in by_side.items():
                answer = await client.call(29, SearchOffset("T", 0, time_ms, side).to_fields())
                assert answer.code == 0, answer.remark
                assert answer.fields["offset"] == str(expected), (side, time_ms, times)

    await write(0.2, 0.6)
    await cluster.migrate(0, "broker2")
    await check()  # its end is empty
    await write(0.8)
    await check()


async def test_the_end_is_not_that_of_a_segment_that_is_continued_by_now(
    cluster: LogicalCluster,
) -> None:
    client, other = await connect(cluster, 1), await connect(cluster, 2)
    await client.send("T", queue_id=0)
    target = await cluster.destination(0, "broker2")
    answer = await cluster.prepare(await cluster.normal(0), target)
    move = MigrateLogicalQueue.decode(answer.body)
    end = GetMaxOffset("T", 0).to_fields()
    assert (await other.call(30, end)).fields["offset"] == "1"  # and it looks at the route
    assert move.destination is not None
    await cluster.commit(move.source, move.destination)
    for _ in range(3):
        assert (await client.send("T", queue_id=0)).code == 0
    await trio.sleep(1)
    assert (await other.call(30, end)).fields["offset"] == "4"


async def test_a_message_given_back_comes_again_from_the_broker_that_has_it(
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 1)
    await client.heartbeat("c", consumers={"g": {"T": "*"}})
    await client.send("T", b"again", queue_id=3)
    (message,) = decode_messages((await client.pull("T", 3, 0)).body)
    header = ConsumerSendMsgBack(
        offset=message.log_position, group="g", delay_level=1, origin_topic="T"
    )
    assert (await client.call(36, header.to_fields())).code == 0
    await trio.sleep(2)
    at_broker_2 = await cluster.at("broker2")
    (retried,) = decode_messages((await at_broker_2.pull("%RETRY%g", 0, 0)).body)
    assert (retried.body, retried.reconsume_times) == (b"again", 1)


async def test_messages_are_found_by_key_at_all_brokers(cluster: LogicalCluster) -> None:
    client = await connect(cluster, 1)
    for index in range(4):
        await client.send("T", b"%d" % index, {"KEYS": "k"}, queue_id=index)
    header = QueryMessage("T", "k", 32, 0, 2**60)
    answer = await client.call(12, header.to_fields())
    found = decode_messages(answer.body)
    assert sorted((m.body, m.queue_id, m.queue_offset) for m in found) == [
        (b"%d" % index, index, 0) for index in range(4)
    ]


async def test_an_unknown_logical_queue_and_a_plain_topic_are_refused(
    cluster: LogicalCluster,
) -> None:
    client = await connect(cluster, 1)
    answer = await client.send("T", queue_id=9)
    assert (answer.code, "queueId[9] is illegal" in (answer.remark or "")) == (1, True)
    answer = await client.send("plain", queue_id=0)
    assert (answer.code, "has no logical queues" in (answer.remark or "")) == (1, True)
    assert (await client.call(17)).code == 3


async def test_a_reset_tells_the_members_logical_offsets(cluster: LogicalCluster) -> None:
    client = await connect(cluster, 1)
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


async def test_a_queue_moves_under_its_clients_and_they_see_one_queue(
    cluster: LogicalCluster,
) -> None:
    """Sends go on while the queue moves there and back; offsets are dense, order is kept."""
    sender, reader = await connect(cluster, 1), await connect(cluster, 2)
    sent = 0

    async def send(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            answer = await sender.send("T", b"%d" % sent, queue_id=0)
            assert (answer.code, answer.fields["queueId"]) == (0, "0"), answer.remark
            assert answer.fields["queueOffset"] == str(sent)
            sent += 1

    await send(5)
    for destination in ("broker2", "broker1", "broker2"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, 20)
            await cluster.migrate(0, destination)
        await send(3)
    offset = 0
    seen: list[int] = []
    while offset < sent:
        answer = await reader.pull("T", 0, offset)
        assert answer.code in (0, 20), answer
        for message in decode_messages(answer.body):
            assert (message.queue_id, message.queue_offset) == (0, len(seen))
            seen.append(int(message.body))
        assert answer.fields["minOffset"] == "0"
        offset = int(answer.fields["nextBeginOffset"])
    assert seen == list(range(sent))
    assert (await reader.call(30, GetMaxOffset("T", 0).to_fields())).fields["offset"] == str(sent)
    assert (await reader.call(31, GetMinOffset("T", 0).to_fields())).fields["offset"] == "0"


async def test_a_pull_that_waits_is_answered_across_the_end_of_a_segment(
    cluster: LogicalCluster,
) -> None:
    sender, reader = await connect(cluster, 1), await connect(cluster, 2)
    await reader.heartbeat("c", consumers={"g": {"T": "*"}})
    await sender.send("T", b"first", queue_id=0)
    async with trio.open_nursery() as nursery:

        async def pull() -> None:
            while True:  # as clients do: "nothing new" is answered when the queue is sealed, too
                answer = await reader.pull("T", 0, 1, sys_flag=2)
                assert answer.code in (0, 19)
                assert answer.fields["nextBeginOffset"] == ("2" if answer.code == 0 else "1")
                if answer.code == 0:
                    break
            (message,) = decode_messages(answer.body)
            assert (message.body, message.queue_id, message.queue_offset) == (b"second", 0, 1)

        nursery.start_soon(pull)
        await trio.sleep(1)
        begun_s = trio.current_time()
        await cluster.migrate(0, "broker2")
        await sender.send("T", b"second", queue_id=0)
    assert trio.current_time() - begun_s < 2


async def test_progress_stays_where_it_is_when_the_queue_moves(cluster: LogicalCluster) -> None:
    one, other = await connect(cluster, 1), await connect(cluster, 2)
    for _ in range(3):
        await one.send("T", queue_id=0)
    await one.call(15, UpdateConsumerOffset("g", "T", 0, 2).to_fields())
    for destination, committed in (("broker2", 2), ("broker1", 3)):
        await cluster.migrate(0, destination)
        found = await other.call(14, QueryConsumerOffset("g", "T", 0).to_fields())
        assert found.fields["offset"] == str(committed)
        await one.call(15, UpdateConsumerOffset("g", "T", 0, 3).to_fields())


async def test_a_group_that_was_reset_to_the_beginning_begins_there(
    cluster: LogicalCluster,
) -> None:
    """Offset 0 is an offset, also where an earlier segment's broker keeps a greater one."""
    one, other = await connect(cluster, 1), await connect(cluster, 2)
    for _ in range(3):
        await one.send("T", queue_id=0)
    await one.call(15, UpdateConsumerOffset("g", "T", 0, 2).to_fields())
    await cluster.migrate(0, "broker2")
    await other.call(15, UpdateConsumerOffset("g", "T", 0, 0).to_fields())
    found = await other.call(14, QueryConsumerOffset("g", "T", 0).to_fields())
    assert (found.code, found.fields["offset"]) == (0, "0")


async def test_a_group_goes_on_where_it_was_in_the_physical_queue(
    autojump_clock: object,
) -> None:
    async with open_logical_cluster() as cluster:
        await cluster.create_topic(queues=1)
        physical = await cluster.at("broker1", version=407)
        for _ in range(3):
            await physical.send("T", queue_id=0)
        await physical.call(15, UpdateConsumerOffset("g", "T", 0, 2).to_fields())
        for index, name in enumerate(cluster.brokers):
            await cluster.map(name, 0, index)
        client = await connect(cluster, 2)
        found = await client.call(14, QueryConsumerOffset("g", "T", 0).to_fields())
        assert found.fields["offset"] == "2"

        target = await cluster.destination(0, "broker2")
        await cluster.map("broker2", target.queue_id, -1)  # a migration that is called off
        assert len(await cluster.chain("broker2", 0)) == 1
        await trio.sleep(31)  # brokers register, and listeners ask again
        client = await connect(cluster, 1)
        found = await client.call(14, QueryConsumerOffset("g", "T", 0).to_fields())
        assert found.fields["offset"] == "2"


async def test_an_operator_hands_a_message_of_any_broker_to_a_consumer(
    cluster: LogicalCluster,
) -> None:
    consumer, operator = await connect(cluster, 1), await connect(cluster, 1)
    await consumer.heartbeat("c", consumers={"g": {"T": "*"}})
    sent = await operator.send("T", b"again", queue_id=3)
    fields = {"consumerGroup": "g", "clientId": "c", "msgId": sent.fields["msgId"]}

    async def take() -> None:
        asked = await consumer.peer.receive()
        (message,) = decode_messages(asked.body)
        assert (asked.code, message.body, message.queue_id) == (309, b"again", 3)
        assert asked.fields.keys() == {*fields, "brokerName"}  # the signature is the operator's
        await consumer.peer.send(asked.reply(body=b"consumed"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        answer = await operator.call(309, fields | {"AccessKey": "key", "Signature": "secret"})
    assert (answer.code, answer.body) == (0, b"consumed")
    assert (await operator.call(309, fields | {"clientId": "nobody"})).code == 1

    old = await connect(cluster, 1, version=61)
    await old.heartbeat("old", consumers={"g": {"T": "*"}})
    refused = await operator.call(309, fields | {"clientId": "old"})
    assert (refused.code, "V3_1_8_SNAPSHOT" in (refused.remark or "")) == (1, True)


async def test_losing_a_listener_costs_a_reconnect(cluster: LogicalCluster) -> None:
    """The next one knows the progress, and messages by what the first one called them."""
    client = await connect(cluster, 1)
    sent = await client.send("T", b"kept", queue_id=3)
    await client.call(15, UpdateConsumerOffset("g", "T", 3, 1).to_fields())
    await cluster.brokers["broker1"].kill()
    other = await connect(cluster, 2)
    found = await other.call(14, QueryConsumerOffset("g", "T", 3).to_fields())
    assert found.fields["offset"] == "1"
    _, position = decode_offset_id(sent.fields["msgId"])
    (message,) = decode_messages((await other.call(33, {"offset": str(position)})).body)
    assert (message.body, message.queue_id, message.queue_offset) == (b"kept", 3, 0)
    dial = cluster.network.dialer(CLIENT_HOST)
    name_server = Client(Peer(await dial(cluster.name_server.host, 9876)))
    route = RouteData.decode((await name_server.call(105, {"topic": "T"})).body)
    assert [broker.broker_addrs[0] for broker in route.broker_datas] == ["10.0.1.2:10921"]
    (queues,) = route.queue_datas
    assert (queues.broker_name, queues.read_queue_nums) == (LOGICAL_QUEUE_BROKER, 4)


async def test_half_messages_are_refused_and_not_stored_as_plain_ones(
    cluster: LogicalCluster,
) -> None:
    """Their ends and checks would name places of brokers that the client does not know."""
    client = await connect(cluster, 1)
    properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "key-1"}
    for index in range(4):
        answer = await client.send("T", b"half", properties, queue_id=index, sys_flag=4)
        assert answer.code == 16
        assert "sending transaction message is forbidden" in (answer.remark or "")
        assert await client.messages("T", index) == []


@pytest.mark.parametrize("moves", [1, 2])
async def test_a_filter_passes_over_sealed_segments_that_have_nothing_for_it(
    moves: int, cluster: LogicalCluster
) -> None:
    """At either listener, the reader goes on behind a segment without a wanted message."""
    sender = await connect(cluster, 1)
    await sender.heartbeat("c", consumers={"g": {"T": "TagB"}})
    for destination in ("broker2", "broker1")[:moves]:
        for _ in range(3):
            await sender.send("T", b"A", {"TAGS": "TagA"}, queue_id=0)
        await cluster.migrate(0, destination)
    await sender.send("T", b"B", {"TAGS": "TagB"}, queue_id=0)
    for number in (1, 2):
        reader = await connect(cluster, number)
        await reader.heartbeat("c", consumers={"g": {"T": "TagB"}})
        offset, bodies = 0, list[bytes]()
        for _ in range(10):
            answer = await reader.pull("T", 0, offset, sys_flag=0)
            bodies += [message.body for message in decode_messages(answer.body)]
            offset = int(answer.fields["nextBeginOffset"])
            if offset == 3 * moves + 1:
                break
        assert (offset, bodies) == (3 * moves + 1, [b"B"])


@pytest.mark.parametrize("seed", range(6))
async def test_a_filter_finds_each_wanted_message_once_in_any_history(
    seed: int, cluster: LogicalCluster
) -> None:
    """Moves, stretches with and without wanted messages, and readers that follow all the while."""
    chance = random.Random(seed)
    sender, place, sent = await connect(cluster, 1), 1, 0
    wanted, readers = list[bytes](), [await connect(cluster, number) for number in (1, 2)]
    found: list[list[bytes]] = [[], []]
    offsets = [0, 0]
    for reader in readers:
        await reader.heartbeat("c", consumers={"g": {"T": "TagB"}})

    async def read(number: int, pulls: int) -> None:
        for _ in range(pulls):
            answer = await readers[number].pull("T", 0, offsets[number], sys_flag=0)
            assert answer.code in (0, 19, 20), answer
            found[number] += [message.body for message in decode_messages(answer.body)]
            offsets[number] = int(answer.fields["nextBeginOffset"])

    for _ in range(8):
        share = chance.choice((0, 0, 0.2, 1))
        for _ in range(chance.randrange(12)):
            tag, body = ("TagB" if chance.random() < share else "TagA"), b"%d" % sent
            assert (await sender.send("T", body, {"TAGS": tag}, queue_id=0)).code == 0
            if tag == "TagB":
                wanted.append(body)
            sent += 1
        if chance.random() < 0.7:
            place = 3 - place
            await cluster.migrate(0, f"broker{place}")
        await read(0, chance.randrange(3))
    for number in (0, 1):
        await read(number, 30)
    assert (offsets, found) == ([sent, sent], [wanted, wanted])


async def test_a_pull_from_a_queue_without_a_readable_segment_is_held_for_a_moment(
    cluster: LogicalCluster,
) -> None:
    """Older clients ask again at once, and hold a closed queue as any other."""
    reader = await connect(cluster, 2)
    await reader.heartbeat("c", consumers={"g": {"T": "*"}})
    source = await cluster.normal(0)
    assert (await cluster.prepare(source, await cluster.destination(0, "broker2"))).code == 0
    for sys_flag, held_s in ((2, 1), (0, 0)):
        begun_s = trio.current_time()
        answer = await reader.pull("T", 0, 0, sys_flag=sys_flag)
        assert (answer.code, answer.fields["nextBeginOffset"]) == (19, "0")
        assert trio.current_time() - begun_s == pytest.approx(held_s, abs=0.5)
