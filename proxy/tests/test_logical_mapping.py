"""The mapping of logical queues at a broker: set up, shown, kept, registered, given up."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.broker.logical.migration import _reconcile
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.proxy.logical.rules._view import is_settled
from lanemq.proxy.net._dispatch import Outcome
from lanemq.proxy.net._session import Session
from lanemq.storage import StoreType
from lanemq.testkit.logical.cluster import TOPIC, LogicalCluster, open_logical_cluster
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue, RegisterBrokerBody, TopicConfig, TopicConfigWrapper
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CreateTopic, DeleteTopic
from lanemq.wire.logical import (
    Segment,
    SegmentState,
    UpdateLogicalQueueMapping,
    check_queues,
    logical_queues_by_topic,
)


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    async with open_logical_cluster() as cluster:
        yield cluster


def begun(broker: str, address: str, queue_id: int, index: int) -> Segment:
    """A segment as mapping makes it."""
    return Segment(
        MessageQueue(TOPIC, broker, queue_id),
        logical_index=index,
        delta=0,
        state=SegmentState.NORMAL,
        broker_address=address,
    )


async def test_two_brokers_with_two_queues_each(cluster: LogicalCluster) -> None:
    await cluster.map_all(queues=2)
    seen: list[Segment] = []
    for name, broker in cluster.brokers.items():
        queues = await cluster.query(name)
        assert queues is not None
        assert not check_queues(queues)
        first = len(seen)
        assert queues.segments == tuple(
            begun(name, broker.address, queue_id, first + queue_id) for queue_id in (0, 1)
        )
        seen += queues.segments
    assert len(seen) == 4


async def test_remarks_are_those_that_tools_match(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=2)
    client = await cluster.at("broker1")
    code = RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING
    for body in (b"", b"[]", b'{"topic":'):
        answer = await client.call(code, body=body)
        assert (answer.code, answer.remark) == (1, "decode null")
    remarks = []
    for queue_id, index, topic in (
        (0, 0, TOPIC),
        (0, 0, TOPIC),
        (0, 0, "unknown"),
        (1, 0, TOPIC),
        (0, -1, TOPIC),
        (0, -1, TOPIC),
    ):
        answer = await cluster.map("broker1", queue_id, index, topic)
        remarks.append((answer.code, answer.remark))
    assert remarks == [
        (0, "set up"),
        (0, "already set up"),
        (1, "topic not exist"),
        (1, "duplicate logicalQueueOffset found"),
        (0, "deleted"),
        (0, "deleted"),
    ]
    delete = RequestCode.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING
    await cluster.map("broker1", 0, 0)
    await cluster.map("broker1", 1, 1)
    answer = await client.call(delete, {"topic": TOPIC})
    assert (answer.code, answer.remark) == (1, "still 2 message queues")
    for queue_id in (0, 1):
        await cluster.map("broker1", queue_id, -1)
    for remark in ("deleted", "already deleted"):
        answer = await client.call(delete, {"topic": TOPIC})
        assert (answer.code, answer.remark) == (0, remark)


async def test_a_topic_without_logical_queues_is_told_as_the_text_null(
    cluster: LogicalCluster,
) -> None:
    await cluster.create_topic(queues=1)
    client = await cluster.at("broker1")
    code = RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING
    for topic in (TOPIC, "unknown"):
        answer = await client.call(code, {"topic": topic})
        assert (answer.code, answer.body) == (0, b"null")


async def test_topics_of_the_brokers_own_have_no_logical_queues(cluster: LogicalCluster) -> None:
    client = await cluster.at("broker1")
    await client.heartbeat(consumers={"g": {TOPIC: "*"}})
    for topic in ("%RETRY%g", "SELF_TEST_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        answer = await cluster.map("broker1", 0, 0, topic)
        assert answer.code == 1
        assert await cluster.query("broker1", topic) is None


async def test_a_queue_that_the_topic_does_not_have_is_refused(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=2)
    assert (await cluster.map("broker1", 2, 0)).code == 1
    assert await cluster.query("broker1") is None


async def test_a_taken_place_is_refused_and_nothing_changes(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=2)
    await cluster.map("broker1", 0, 0)
    before = await cluster.query("broker1")
    assert (await cluster.map("broker1", 1, 0)).code == 1
    assert await cluster.query("broker1") == before


async def test_a_queue_that_is_taken_out_is_an_ordinary_one_again(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=1)
    await cluster.map("broker1", 0, 0)
    await cluster.map("broker1", 0, -1)
    context = cluster.brokers["broker1"].running.context
    mapping = context.logical.get(TOPIC)
    assert mapping is not None
    assert mapping.latest(0) is None
    segment = begun("broker1", "", 0, 0)
    assert (await cluster.send(segment)).code == 0
    # What it holds is part of whatever logical queue it begins next: offsets stay equal.
    assert (await cluster.map("broker1", 0, 5)).remark == "set up"
    assert (await cluster.chain("broker1", 5))[0].to_logical(0) == 0
    # A queue with messages that still takes more is not taken out by mistake.
    assert (await cluster.map("broker1", 0, -1)).code == 1
    assert (await cluster.map("broker1", 0, -1, force=True)).remark == "deleted"
    assert not await cluster.chain("broker1", 5)
    assert (await cluster.send(segment)).code == 0


async def test_a_queue_moves_to_another_logical_queue_while_neither_has_a_history(
    cluster: LogicalCluster,
) -> None:
    await cluster.create_topic(queues=2)
    await cluster.map("broker1", 0, 0)
    assert (await cluster.map("broker1", 0, 3)).remark == "set up"
    queues = await cluster.query("broker1")
    assert queues is not None
    assert [segment.logical_index for segment in queues.segments] == [3]


async def test_an_unmapped_queue_of_the_topic_takes_messages_as_ever(
    cluster: LogicalCluster,
) -> None:
    await cluster.create_topic(queues=2)
    await cluster.map("broker1", 0, 0)
    segment = begun("broker1", "", 1, 0)
    for flagged in (True, False):
        answer = await cluster.send(segment, flagged=flagged)
        assert (answer.code, answer.fields["queueId"]) == (0, "1")
        assert "REDIRECT" not in answer.fields
    assert len(await cluster.chain("broker1", 0)) == 1


async def test_a_restart_brings_the_mapping_back(cluster: LogicalCluster) -> None:
    await cluster.map_all(queues=2)
    for how in ("kill", "power"):
        for name, broker in cluster.brokers.items():
            before = await cluster.query(name)
            await broker.kill()
            await broker.restart("power" if how == "power" else "kill")
            cluster.forget()
            assert await cluster.query(name) == before
            assert before is not None


async def test_both_forms_of_the_kept_mapping_are_read(cluster: LogicalCluster) -> None:
    await cluster.map_all(queues=1)
    broker = cluster.brokers["broker1"]
    before = await cluster.query("broker1")
    await broker.stop()
    path = broker.config.store_path_root_dir / "config" / "topics.json"
    data = broker.files.read_all(path)
    assert data is not None
    assert b'"0":[' in data.replace(b" ", b"").replace(b"\t", b"").replace(b"\n", b"")
    broker.files.write_all(path, data.replace(b'"0"', b"0"))  # as Java brokers write it
    await broker.start()
    cluster.forget()
    assert await cluster.query("broker1") == before


async def test_the_address_is_that_of_today_after_a_restart_elsewhere(
    cluster: LogicalCluster,
) -> None:
    await cluster.map_all(queues=1)
    broker = cluster.brokers["broker1"]
    await broker.stop()
    broker.host = "10.0.1.77"
    await broker.start()
    cluster.forget()
    assert (await cluster.chain("broker1", 0))[0].broker_address == "10.0.1.77:10911"


async def test_a_disk_that_fails_changes_nothing(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=1)
    files = cluster.brokers["broker1"].files
    files.space_bytes = 0
    answer = await cluster.map("broker1", 0, 0)
    assert answer.code == 1
    files.space_bytes = None
    assert await cluster.query("broker1") is None
    assert (await cluster.map("broker1", 0, 0)).remark == "set up"


async def test_only_own_segments_are_registered_and_all_are_handed_to_slaves(
    cluster: LogicalCluster,
) -> None:
    await cluster.map_all(queues=1)
    logical = cluster.brokers["broker1"].running.context.logical
    foreign = begun("broker9", "10.0.9.9:1", 4, 0).with_delta(9)
    seen = watch_registrations(cluster)
    await logical.change(TOPIC, lambda mapping: mapping.put(foreign))
    await trio.sleep(1)
    told = [registered for registered in seen if registered.broker == "broker1"]
    assert told[-1].owners == {"broker1"}
    client = await cluster.at("broker1")
    answer = await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    wrapper = TopicConfigWrapper.decode(answer.body)
    mapped = logical_queues_by_topic(wrapper.extra)
    assert mapped is not None
    assert [segment.broker_name for segment in mapped[TOPIC].segments] == ["broker1", "broker9"]


async def test_a_broker_with_logical_queues_never_registers_in_the_compressed_form(
    autojump_clock: MockClock,
) -> None:
    async with open_logical_cluster("broker1", compressed_register=True) as cluster:
        seen = watch_registrations(cluster)
        await cluster.create_topic(queues=1)
        await trio.sleep(1)
        assert seen[-1].compressed
        await cluster.map("broker1", 0, 0)
        await trio.sleep(60)
        assert len(seen) > 2
        assert [registered.compressed for registered in seen[1:]] == [False] * (len(seen) - 1)
        assert all(registered.mapped == {TOPIC: [0]} for registered in seen[1:])


async def test_what_a_name_server_missed_is_told_again(cluster: LogicalCluster) -> None:
    seen = watch_registrations(cluster)
    await cluster.create_topic(queues=3)
    await cluster.map("broker1", 0, 0)
    await cluster.name_server.kill()
    await cluster.map("broker1", 1, 1)
    await cluster.map("broker1", 2, 2)
    await cluster.name_server.start()
    seen = watch_registrations(cluster)
    await trio.sleep(10)
    told = [registered for registered in seen if registered.broker == "broker1"]
    assert told[0].mapped == {TOPIC: [0, 1, 2]}


async def test_giving_up_logical_queues_is_told_explicitly(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=1)
    await cluster.map("broker1", 0, 0)
    seen = watch_registrations(cluster)
    await cluster.map("broker1", 0, -1)
    client = await cluster.at("broker1")
    answer = await client.call(RequestCode.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING, {"topic": TOPIC})
    assert answer.remark == "deleted"
    assert seen[-1].mapped == {TOPIC: []}
    assert await cluster.query("broker1") is None


async def test_a_deleted_topic_leaves_no_mapping_behind(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=1)
    await cluster.map("broker1", 0, 0)
    seen = watch_registrations(cluster)
    client = await cluster.at("broker1")
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    assert (await client.call(code, DeleteTopic(topic=TOPIC).to_fields())).code == 0
    assert await cluster.query("broker1") is None
    assert seen[-1].mapped == {TOPIC: []}
    await cluster.create_topic(queues=1)
    broker = cluster.brokers["broker1"]
    await broker.kill()
    await broker.restart("kill")
    cluster.forget()
    assert await cluster.query("broker1") is None


async def test_a_topic_keeps_the_queues_that_are_mapped(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=3)
    await cluster.map("broker1", 1, 0)
    client = await cluster.at("broker1")

    async def resize(queues: int) -> int:
        header = CreateTopic(
            topic=TOPIC,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        return (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields())).code

    assert await resize(1) == 1
    assert await resize(2) == 0
    assert await resize(8) == 0
    assert len(await cluster.query("broker1") or ()) == 1


class Registered:
    """One registration as it was sent: ``mapped`` is topic -> indices, None without any map."""

    def __init__(self, broker: str, body: bytes, *, compressed: bool) -> None:
        self.broker = broker
        self.compressed = compressed
        read = RegisterBrokerBody.decode_compressed if compressed else RegisterBrokerBody.decode
        mapped = logical_queues_by_topic(read(body).topic_config_wrapper.extra)
        self.mapped = None if mapped is None else {name: list(q) for name, q in mapped.items()}
        queues = (mapped or {}).values()
        self.owners = {segment.broker_name for found in queues for segment in found.segments}


def watch_registrations(cluster: LogicalCluster) -> list[Registered]:
    """Collect the registrations of brokers from now on, while the name server runs."""
    seen: list[Registered] = []
    handlers = cluster.name_server.running.handlers.table
    register = handlers[RequestCode.REGISTER_BROKER]

    def watched(frame: Frame, session: Session) -> Outcome:
        compressed = frame.fields.get("compressed") == "true"
        seen.append(Registered(frame.fields["brokerName"], frame.body, compressed=compressed))
        return register(frame, session)

    handlers[RequestCode.REGISTER_BROKER] = watched
    return seen


async def test_a_change_of_one_mapping_leaves_the_kept_ones_of_other_topics_as_they_are(
    cluster: LogicalCluster,
) -> None:
    for topic in (TOPIC, "other"):
        await cluster.map_all(queues=1, topic=topic)
    topics = cluster.brokers["broker1"].running.context.store.tables.topics

    def kept(topic: str) -> object:
        member = topics.member("logicalQueuesInfoMap")
        assert isinstance(member, dict)
        return member[topic]

    before = {topic: kept(topic) for topic in (TOPIC, "other")}
    await cluster.map("broker1", 0, -1)
    assert kept("other") is before["other"]  # so its text needs not be made again
    assert kept(TOPIC) != before[TOPIC]


@pytest.mark.parametrize("store_type", list(StoreType))
async def test_a_mapping_outlives_the_broker_in_both_kinds_of_store(
    tmp_path: Path, store_type: StoreType
) -> None:
    settings: dict[str, Any] = {"store_type": store_type, "export_json_on_shutdown": False}
    body = UpdateLogicalQueueMapping("T", 1, 3).encode()
    async with open_test_broker(tmp_path, **settings) as broker:
        broker.context.topics.put(TopicConfig("T"))
        code = RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING
        assert (await broker.connect().call(code, body=body)).code == 0
        before = broker.context.logical.mappings
    async with open_test_broker(tmp_path, **settings) as broker:
        (segment,) = broker.context.logical.mappings["T"].own()
        assert (segment.queue_id, segment.logical_index) == (1, 3)
        assert broker.context.logical.mappings.keys() == before.keys()


async def test_a_topic_in_which_nothing_is_to_do_is_not_looked_at_again(
    cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.map_all(queues=2)
    looked = list[tuple[str, int]]()

    def note(mapping: TopicMapping) -> bool:
        looked.append((mapping.broker_name, id(mapping)))
        return is_settled(mapping)

    monkeypatch.setattr(_reconcile, "is_settled", note)
    await trio.sleep(120)  # forty looks of each broker
    assert {name for name, _ in looked} == set(cluster.brokers)
    assert len(looked) == len(set(looked)), "each mapping once"
    assert len(looked) < 8
