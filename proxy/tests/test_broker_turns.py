"""No turn of a broker is long because of what peers have made at it.

Work is counted in calls of functions between two turns of the loop, as in ``test_longest_turns``.
"""

from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest
import trio

from lanemq.proxy.broker.cluster._registration import Registrar
from lanemq.proxy.broker.settings._config import BrokerConfig
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.proxy.sessions.state._clients import ClientRegistry
from lanemq.sdk import RemotingClient
from lanemq.storage import Supervisor
from lanemq.testkit.calls import calls_of_steps, calls_of_this_thread
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.testkit.reading_time import REQUEST_S, longest_step, slowness
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.bodies import (
    ConsumerData,
    ConsumerIdList,
    DataVersion,
    HeartbeatData,
    MessageQueue,
    ProducerData,
    ProducerTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    LOGICAL_QUEUES_MAP_MEMBER,
    LogicalQueues,
    Segment,
    logical_queues_by_topic,
    progress_topic,
)

CALLS_MAX: Final = 100_000
"""Calls between two turns, 10 ms at most."""

# Logical queues

TOPICS, QUEUES = 8, 2048


def logical_queues(topic: str, broker: str) -> LogicalQueues:
    return LogicalQueues.of(
        Segment(MessageQueue(topic, broker, number), number, 0, broker_address=f"{broker}:10911")
        for number in range(QUEUES)
    )


async def test_few_topics_of_very_many_logical_queues_are_told_beside_the_loop(
    tmp_path: Path,
) -> None:
    """Each segment costs as much as a topic."""
    known = {name: logical_queues(name, "broker-a") for name in (f"W{n}" for n in range(TOPICS))}
    asked: dict[int, dict[str, str]] = {
        RequestCode.GET_ALL_TOPIC_CONFIG: {},
        RequestCode.GET_CONSUME_STATS: {"consumerGroup": "g"},
        RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING: {"topic": "W0"},
    }
    async with open_test_broker(tmp_path) as broker:
        context = broker.context
        for name, queues in known.items():
            context.topics.put(TopicConfig(name, QUEUES, QUEUES))
            context.logical.mappings[name] = TopicMapping(name, "broker-a", queues)
            for number in range(QUEUES):
                context.store.tables.consumer_offsets.put("g", progress_topic(name, 0), number, 0)
        most = {}
        for code, fields in asked.items():
            client = broker.connect()
            with calls_of_steps() as steps:
                answer = await client.call(code, fields)
            assert answer.code == 0, answer.remark
            assert len(answer.body) > 50 * QUEUES
            most[code] = steps.most
        assert {code: calls for code, calls in most.items() if calls > CALLS_MAX} == {}


async def test_a_registration_of_very_many_logical_queues_is_made_beside_the_loop() -> None:
    known = {name: logical_queues(name, "broker-a") for name in (f"W{n}" for n in range(TOPICS))}
    topics = {name: TopicConfig(name, QUEUES, QUEUES) for name in known}
    registered = list[Frame]()

    class Client:
        def connection_number(self, address: str) -> int | None:
            return 1

        async def call(self, address: str, frame: Frame, timeout_s: float) -> Frame:
            await trio.lowlevel.checkpoint()
            registered.append(frame)
            return frame.reply()

    registrar = Registrar(
        config=BrokerConfig.from_properties({"namesrvAddr": "ns:0", "brokerName": "broker-a"}),
        client=cast("RemotingClient", Client()),
        address="10.0.0.9:10911",
        ha_address="10.0.0.9:10912",
        topics=lambda: TopicConfigWrapper(topics, DataVersion(1, 1)),
        logical_queues=lambda: known,
    )
    with calls_of_steps() as steps:
        async with trio.open_nursery() as running:
            running.start_soon(registrar.run, Supervisor())
            assert await registrar.registered(30)
            running.cancel_scope.cancel()
    extra = RegisterBrokerBody.decode(registered[0].body).topic_config_wrapper.extra
    assert logical_queues_by_topic(extra) == known
    assert steps.most <= CALLS_MAX


def put(segment: Segment, mapping: TopicMapping) -> TopicMapping:
    return mapping.put(segment)


WIDE_TOPICS, NARROW_TOPICS = 16, 20_000
"""Topics of 2,048 logical queues, or of one: about as many as a registration has room for."""


@pytest.mark.parametrize(("topics", "queues"), [(WIDE_TOPICS, QUEUES), (NARROW_TOPICS, 1)])
async def test_a_change_of_a_logical_queue_takes_short_turns_however_many_there_are(
    tmp_path: Path, topics: int, queues: int
) -> None:
    """The first change held the loop for 470 ms, others for 20 to 60 ms."""
    for number in range(8):  # a neighbour may slow one of them down
        taken = await turns_of_changes(tmp_path / str(number), topics, queues)
        allowed_s = REQUEST_S * slowness()
        if max(taken) <= 2 * allowed_s and min(taken) <= allowed_s:
            return
    raise AssertionError(taken)


async def turns_of_changes(folder: Path, topics: int, queues: int) -> list[float]:
    """Return the seconds of the longest turn of each of three changes, the first among them."""
    taken: list[float] = []
    async with open_test_broker(folder) as broker:
        logical = broker.context.logical
        for name in (f"W{number}" for number in range(topics)):
            known = LogicalQueues.of(
                Segment(MessageQueue(name, "broker-a", number), number, 0, broker_address="a:1")
                for number in range(queues)
            )
            logical.mappings[name] = TopicMapping(name, "broker-a", known)
        for number in range(3):
            queue = MessageQueue("W0", "broker-a", 0)
            changed = Segment(queue, 0, 0, broker_address=f"b:{number}")
            async with longest_step(taken), trio.open_nursery() as nursery:
                nursery.start_soon(logical.change, "W0", partial(put, changed))
        kept = broker.context.store.tables.topics.member(LOGICAL_QUEUES_MAP_MEMBER)
        assert isinstance(kept, dict)
        assert len(kept) == topics
        assert "b:2" in str(kept["W0"]["0"])
    return taken


async def test_the_progress_of_a_queue_that_moves_is_found_without_a_look_at_all_other_topics(
    broker: TestBroker,
) -> None:
    context = broker.context
    mapping = TopicMapping("W", "broker-a", logical_queues("W", "broker-a"))
    context.logical.mappings["W"] = mapping
    offsets = context.store.tables.consumer_offsets
    for group in range(100):
        for topic in range(200):
            offsets.put(f"g{group}", progress_topic(f"T{topic}", 0), 0, 1)
    for group in range(0, 100, 10):
        offsets.put(f"g{group}", progress_topic("W", 0), 7, group)
    segment = mapping.chain(7)[0]
    with calls_of_this_thread() as calls:
        found = context.logical_progress.of(mapping, segment)
    assert found == {f"g{group}": group for group in range(0, 100, 10)}
    assert calls.count <= 20 * 200


# Members of groups

MEMBERS = 5000


class Member:
    """A connection, as far as the registry of clients and descriptions of it know one."""

    closed = False

    def __init__(self, number: int) -> None:
        self.peer = HostAddress("10.0.0.1", number)
        self.account = self

    def add(self, size_bytes: int) -> None:
        """Charge nothing."""


def join(clients: ClientRegistry[Any], number: int, client_id: str) -> None:
    data = HeartbeatData(
        client_id,
        (ProducerData("p"),),
        (ConsumerData("g"),),
    )
    clients.heartbeat(Member(number), data, language="JAVA", version=1, now_s=0.0)


async def test_lists_of_very_many_members_are_made_in_turns_or_beside_the_loop(
    broker: TestBroker,
) -> None:
    for number in range(MEMBERS):
        join(broker.context.clients, number, f"c{number}")
    asked: dict[int, dict[str, str]] = {
        RequestCode.GET_CONSUMER_CONNECTION_LIST: {"consumerGroup": "g"},
        RequestCode.GET_PRODUCER_CONNECTION_LIST: {"producerGroup": "p"},
        RequestCode.GET_ALL_PRODUCER_INFO: {},
    }
    most = {}
    for code, fields in asked.items():
        with calls_of_steps() as steps:
            answer = await broker.connect().call(code, fields)
        assert answer.code == 0, answer.remark
        assert answer.body.count(b'"c4') == 1111
        most[code] = steps.most
    assert {code: calls for code, calls in most.items() if calls > 10_000} == {}


async def test_the_ids_of_very_many_members_are_written_once_for_all_who_ask(
    broker: TestBroker,
) -> None:
    """Each member asks after each change."""
    clients, fields = broker.context.clients, {"consumerGroup": "g"}
    for number in range(MEMBERS):
        join(clients, number, f"c{number}")
    for count in (MEMBERS, MEMBERS + 1):
        await broker.connect().call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        with calls_of_steps() as steps:
            answer = await broker.connect().call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        assert len(ConsumerIdList.decode(answer.body).consumer_id_list) == count
        assert steps.most <= 2000
        join(clients, MEMBERS, "another")


async def test_producers_of_very_many_groups_are_listed_in_turns(broker: TestBroker) -> None:
    clients = broker.context.clients
    for number in range(20):
        groups = tuple(ProducerData(f"p{number}-{group}") for group in range(1000))
        member: Any = Member(number)
        data = HeartbeatData(f"c{number}", groups, ())
        clients.heartbeat(member, data, language="JAVA", version=1, now_s=0.0)
    with calls_of_steps() as steps:
        answer = await broker.connect().call(RequestCode.GET_ALL_PRODUCER_INFO)
    assert len(ProducerTable.decode(answer.body).data) == 20_000
    assert steps.most < 20_000
