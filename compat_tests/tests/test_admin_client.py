"""Every request of AdminClient, answered by lanemq and by Apache in the same way."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from lanemq.compat import (
    Cluster,
    apache_cluster,
    lanemq_cluster,
    running,
)
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_S, until
from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    NoRoute,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import (
    AdminClient,
    PullStatus,
    TrackType,
    UnknownCluster,
    message_id,
    open_admin,
    reset_offsets_by_time,
    tracks_of,
)
from lanemq.wire.bodies import MessageQueue, SubscriptionGroupConfig, TopicConfig

TOPIC, GROUP = "T", "g"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
HOUR_MS = 3_600_000


APACHE = (pytest.mark.peers, pytest.mark.slow)


@pytest.fixture(
    params=[
        pytest.param("lanemq", marks=pytest.mark.slow),
        pytest.param("apache-4.9.7", marks=APACHE),
        pytest.param("apache-5.3.3", marks=APACHE),
    ]
)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    name: str = request.param
    if name == "lanemq":
        cluster = lanemq_cluster(tmp_path / "c", settings={"brokerName": "broker-a"})
    else:
        request.getfixturevalue("java")
        # Without its timer store 5.3.3 cannot delete a topic.
        settings = {**TEST_STORE, "timerWheelEnable": "true"}
        version = name.removeprefix("apache-")
        cluster = await trio.to_thread.run_sync(
            lambda: apache_cluster(version, tmp_path / "c", settings=settings)
        )
    async with running(cluster, graceful=False):
        yield cluster


@asynccontextmanager
async def consumer(cluster: Cluster) -> AsyncIterator[None]:
    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        pass

    options = PushOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offset_persist_interval_s=0.5,
        pull_suspend_s=0.5,
        client=PATIENT_CLIENT,
    )
    async with open_push_consumer(
        GROUP,
        name_servers=cluster.name_server,
        subscriptions={TOPIC: "*"},
        listener=ConcurrentListener(handle),
        options=options,
    ):
        yield


async def test_an_administrator_can_do_everything(cluster: Cluster) -> None:
    async with open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin:
        [broker] = await admin.masters("DefaultCluster")
        assert await admin.broker_addresses("DefaultCluster") == [broker]
        assert await admin.broker_name(broker) == "broker-a"
        assert await admin.address_of("broker-a") == broker
        with pytest.raises(UnknownCluster, match="knows: DefaultCluster"):
            await admin.masters("Default")
        await topics(admin, broker)
        await groups(admin, broker)
        await messages(admin, broker, cluster)
        await progress(admin, broker, cluster)
        await configuration(admin, broker)
        await name_server(admin)
        await deletion(admin, broker)


async def topics(admin: AdminClient, broker: str) -> None:
    await admin.put_topic(broker, TopicConfig(TOPIC, 1, 1))

    async def routed() -> bool:
        return TOPIC in await admin.topics()

    await until(routed)
    assert TOPIC in await admin.topics_of_cluster("DefaultCluster")
    route = await admin.route(TOPIC)
    assert [broker.broker_name for broker in route.broker_datas] == ["broker-a"]
    with pytest.raises(NoRoute, match="no route at name server"):
        await admin.route("absent")
    configs = (await admin.topic_configs(broker)).topic_config_table
    assert configs[TOPIC].read_queue_nums == 1
    with suppress(RefusedByBroker):  # 4.9 does not know the question
        assert (await admin.topic_config(broker, TOPIC)).write_queue_nums == 1
    assert "TBW102" in await admin.system_topics(broker)
    await admin.clean_expired_queues(broker)
    await admin.clean_unused_topics(broker)
    await admin.delete_expired_log(broker)
    with pytest.raises(RefusedByBroker):
        await admin.put_topic(broker, TopicConfig("SELF_TEST_TOPIC"))


async def groups(admin: AdminClient, broker: str) -> None:
    await admin.put_group(broker, SubscriptionGroupConfig(GROUP, retry_max_times=3))
    table = (await admin.groups(broker)).subscription_group_table
    assert table[GROUP].retry_max_times == 3
    assert await admin.consumer_connections(broker, GROUP) is None


async def messages(admin: AdminClient, broker: str, cluster: Cluster) -> None:
    client = ClientOptions(
        heartbeat_interval_s=0.2, call_timeout_s=PATIENT_S, remoting=PATIENT_CLIENT.remoting
    )
    options = ProducerOptions(client=client, send_timeout_s=PATIENT_S)
    async with open_producer("pg", name_servers=cluster.name_server, options=options) as producer:
        for n in range(3):
            message = Message(topic=TOPIC, body=b"%d" % n, tags=f"t{n}", keys=("key", f"k{n}"))
            sent = await producer.send(message, queue=QUEUE)

        async def registered() -> bool:
            return "pg" in (await admin.producers(broker)).data

        await until(registered)
        [connection] = (await admin.producer_connections(broker, "pg")).connection_set
        assert connection.client_id

    async def indexed() -> bool:  # a broker notes keys one by one, and this one last
        return len(await admin.messages_by_key(TOPIC, "k2")) == 1

    await until(indexed)
    assert len(await admin.messages_by_key(TOPIC, "key")) == 3
    [found] = await admin.messages_by_key(TOPIC, "k2")
    assert message_id(found) == sent.message_id
    assert await admin.messages_by_key(TOPIC, "k") == []
    [found] = await admin.messages_by_unique_key(TOPIC, sent.message_id)
    assert (found.body, found.offset_id) == (b"2", sent.offset_id)
    assert await admin.message(sent.offset_id) == found
    assert await admin.message(sent.message_id, topic=TOPIC) == found
    assert await admin.message_at(broker, 1 << 40) is None

    assert await admin.min_offset(broker, QUEUE) == 0
    assert await admin.max_offset(broker, QUEUE) == 3
    assert await admin.search_offset(broker, QUEUE, 0) == 0
    pulled = await admin.pull(broker, QUEUE, 0)
    assert (pulled.status, pulled.next_offset) == (PullStatus.FOUND, 3)
    assert [message.body for message in pulled.messages] == [b"0", b"1", b"2"]
    pulled = await admin.pull(broker, QUEUE, 0, expression="t1 || t2", max_count=32)
    assert [message.body for message in pulled.messages] == [b"1", b"2"]
    assert (await admin.pull(broker, QUEUE, 0, expression="none")).status is (
        PullStatus.NO_MATCHED_MSG
    )
    assert (await admin.pull(broker, QUEUE, 3)).status is PullStatus.NO_NEW_MSG
    assert (await admin.pull(broker, QUEUE, 9)).status is PullStatus.OFFSET_ILLEGAL
    units = await admin.queue_units(broker, QUEUE, 1, 5)
    assert [unit.physic_size for unit in units.queue_data] == [
        message.size_bytes for message in (await admin.pull(broker, QUEUE, 1)).messages
    ]
    [bounds] = (await admin.topic_status(TOPIC)).offset_table.values()
    assert (bounds.min_offset, bounds.max_offset) == (0, 3)
    assert abs(bounds.last_update_timestamp - time.time() * 1000) < HOUR_MS

    async def reported() -> bool:
        try:
            return int((await admin.runtime(broker))["putMessageTimesTotal"]) >= 3
        except RefusedByBroker:
            return False  # 4.9 has nothing to report in its first second

    await until(reported)

    async def counted() -> bool:  # soon, for they are forgotten after a minute
        try:
            data = await admin.statistics(broker, "TOPIC_PUT_NUMS", TOPIC)
        except RefusedByBroker:
            return False
        return data.stats_minute.sum == 3  # Apache's are up to ten seconds late

    await until(counted)


async def progress(admin: AdminClient, broker: str, cluster: Cluster) -> None:
    async with consumer(cluster):

        async def consumed() -> bool:
            try:
                table = (await admin.progress(GROUP, topic=TOPIC)).offset_table
            except NoRoute:
                return False  # the name server is told of the group's retries by and by
            return QUEUE in table and table[QUEUE].consumer_offset == 3

        await until(consumed)
        connections = await admin.connections(GROUP)
        assert connections is not None
        [member] = connections.connection_set
        assert connections.subscription_table[TOPIC].sub_string == "*"
        info = await admin.running_info(broker, GROUP, member.client_id)
        assert QUEUE in info.mq_table
        assert GROUP in await admin.groups_of_topic(broker, TOPIC)

        async def told() -> bool:  # Apache's broker leaves out who answers late
            held = await admin.consumer_offsets(broker, GROUP, TOPIC)
            return member.client_id in held and held[member.client_id][QUEUE] == 3

        await until(told)
        [newest] = await admin.messages_by_key(TOPIC, "k2")
        result = await admin.consume_directly(broker, GROUP, member.client_id, newest.offset_id)
        assert result.consume_result == "CR_SUCCESS"
        tracks = {track.group: track.type for track in await tracks_of(admin, newest)}
        assert tracks[GROUP] is TrackType.CONSUMED
    stats = await admin.consume_stats_of_all(broker)
    of_group = [item[GROUP] for item in stats.consume_stats_list if GROUP in item]
    assert of_group
    [span] = (await admin.time_span(broker, GROUP, TOPIC)).consume_time_span_set
    assert span.message_queue == QUEUE
    await admin.clone_offsets(broker, GROUP, "clone", TOPIC)
    table = (await admin.consume_stats(broker, "clone", topic=TOPIC)).offset_table
    assert table[QUEUE].consumer_offset == 3

    async def nobody() -> bool:
        return await admin.connections(GROUP) is None

    await until(nobody)
    [newest] = await admin.messages_by_key(TOPIC, "k2")
    tracks = {track.group: track.type for track in await tracks_of(admin, newest)}
    assert tracks[GROUP] is TrackType.NOT_ONLINE
    for timestamp_ms, offset in ((0, 0), (-1, 3)):
        done = await reset_offsets_by_time(admin, GROUP, TOPIC, timestamp_ms)
        assert done.online is None
        assert done.offline is not None
        assert {row.queue: row.rollback_offset for row in done.offline}[QUEUE] == offset
        table = (await admin.consume_stats(broker, GROUP, topic=TOPIC)).offset_table
        assert table[QUEUE].consumer_offset == offset


async def configuration(admin: AdminClient, broker: str) -> None:
    config = await admin.config(broker)
    assert config["brokerName"] == "broker-a"
    # Without the second, Apache's broker makes a group again that has just been deleted, where a
    # pull of a consumer that is gone has been held, or its heartbeat comes late
    # (SubscriptionGroupManager.findSubscriptionGroupConfig).
    off = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}
    await admin.update_config(broker, off)
    config = await admin.config(broker)
    assert {key: config[key] for key in off} == off


async def name_server(admin: AdminClient) -> None:
    assert await admin.value("space", "key") is None
    await admin.put_value("space", "key", "a value")
    assert await admin.value("space", "key") == "a value"
    assert await admin.values("space") == {"key": "a value"}
    await admin.delete_value("space", "key")
    assert await admin.value("space", "key") is None
    assert await admin.add_order_config("order", "a:4", replace=False) == "a:4"
    assert await admin.add_order_config("order", "b:2;a:1", replace=False) == "a:1;b:2"
    [address] = admin.name_servers
    wiped = (await admin.wipe_write_permission("broker-a"))[address]
    assert wiped > 0
    assert (await admin.route(TOPIC)).queue_datas[0].perm == 4
    assert (await admin.add_write_permission("broker-a"))[address] == wiped
    assert (await admin.route(TOPIC)).queue_datas[0].perm == 6


async def deletion(admin: AdminClient, broker: str) -> None:
    await admin.delete_group(broker, GROUP, remove_offsets=True)
    assert GROUP not in (await admin.groups(broker)).subscription_group_table
    await admin.delete_topic(broker, TOPIC)
    await admin.delete_route(TOPIC)
    with pytest.raises(NoRoute):
        await admin.route(TOPIC)
