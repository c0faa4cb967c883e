"""Requests 18 and 225 put several topics or groups, all or none; 2001 to 2004 say what is so."""

import errno
from itertools import pairwise

import pytest
import trio

from lanemq.proxy.net._turns import PARTS_OF_A_TURN
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.wire import RequestCode, fastjson
from lanemq.wire.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfig,
    TopicConfigList,
)
from lanemq.wire.headers import ConsumerSendMsgBack

TOPICS, GROUPS = (
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
)


async def test_a_list_of_topics_is_put(broker: TestBroker, client: Client) -> None:
    topics = (TopicConfig("a", 2, 3), TopicConfig("b", 1, 1, perm=4, order=True))
    answer = await client.call(TOPICS, body=TopicConfigList(topics).encode())
    assert answer.code == 0, answer.remark
    found = [broker.context.topics.get(topic.topic_name) for topic in topics]
    assert found == list(topics)
    announced = {topic.topic_name for topic in broker.announced}
    assert {"a", "b"} <= announced


@pytest.mark.parametrize(
    "bad",
    [TopicConfig("SCHEDULE_TOPIC_XXXX"), TopicConfig("x y"), TopicConfig("c", 10**6, 1)],
)
async def test_of_a_list_with_a_bad_topic_none_is_put(
    broker: TestBroker, client: Client, bad: TopicConfig
) -> None:
    body = TopicConfigList((TopicConfig("good"), bad)).encode()
    answer = await client.call(TOPICS, body=body)
    assert answer.code == 1
    assert broker.context.topics.get("good") is None


def listed(code: RequestCode, *names: str) -> bytes:
    """The body of a request that puts topics or groups of these names."""
    if code == TOPICS:
        return TopicConfigList(tuple(map(TopicConfig, names))).encode()
    return SubscriptionGroupList(tuple(map(SubscriptionGroupConfig, names))).encode()


@pytest.mark.parametrize("code", [TOPICS, GROUPS])
async def test_a_list_is_on_the_disk_before_it_is_answered(
    broker: TestBroker, client: Client, code: RequestCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = broker.context.store.tables
    path = (tables.topics if code == TOPICS else tables.groups).backend.path
    assert (await client.call(code, body=listed(code, "first", "second"))).code == 0
    kept = path.read_bytes()
    assert b'"first"' in kept
    assert b'"second"' in kept

    async def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tables, "write_wanted", full)
        answer = await client.call(code, body=listed(code, "third"))
    assert answer.code == 1
    assert "topics and groups cannot be written" in (answer.remark or "")


async def test_no_send_to_a_topic_counts_before_the_topic_is_on_the_disk(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic whose creation could not be written is there, but not after a kill."""
    topics = broker.context.store.tables.topics
    path = topics.backend.path
    assert (await client.send("known")).code == 0

    async def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(topics.backend, "write_off_loop", full)
        for _ in range(3):
            refused = await client.send("fresh")
            assert refused.code == 1
            assert "topics and groups cannot be written" in (refused.remark or "")
        assert (await client.send("known")).code == 0, "it is on the disk"
        assert (await client.pull("known", consumer_group="g")).code != 1
    assert b'"fresh"' not in path.read_bytes()
    assert (await client.send("fresh")).code == 0
    assert b'"fresh"' in path.read_bytes()
    assert (await client.send("fresh")).code == 0


async def test_a_heartbeat_waits_for_no_retry_topic_that_cannot_be_written(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost with one: the next heartbeat makes it again."""
    assert (await client.send("T")).code == 0
    (sent,) = await client.all_messages("T")
    assert (await client.heartbeat(consumers={"known": {"T": "*"}})).code == 0

    async def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    back = ConsumerSendMsgBack(offset=sent.log_position, group="g", delay_level=1).to_fields()
    assert (await client.call(GROUPS, body=listed(GROUPS, "g"))).code == 0
    with monkeypatch.context() as patched:
        backend = broker.context.store.tables.topics.backend
        patched.setattr(backend, "write_off_loop", full)
        assert (await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 1
        assert (await client.heartbeat(consumers={"g": {"T": "*"}})).code == 0
        assert (await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 1
    assert (await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 0


@pytest.mark.parametrize("code", [TOPICS, GROUPS])
async def test_a_long_list_is_put_in_short_turns(
    broker: TestBroker, client: Client, code: RequestCode
) -> None:
    """Others are served meanwhile, and each turn takes a bounded number of entries."""
    count = 10 * PARTS_OF_A_TURN
    names = [f"long{number}" for number in range(count)]
    body = listed(code, *names)
    seen: list[int] = []

    def there() -> int:
        if code == TOPICS:
            return sum(broker.context.topics.get(name) is not None for name in names)
        return sum(broker.context.groups.get(name) is not None for name in names)

    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while True:
                seen.append(there())
                await trio.lowlevel.checkpoint()

        nursery.start_soon(watch)
        answer = await client.call(code, body=body)
        nursery.cancel_scope.cancel()
    assert answer.code == 0, answer.remark
    assert there() == count
    steps = [after - before for before, after in pairwise(seen)]
    assert max(steps) <= 2 * PARTS_OF_A_TURN  # trio may run one task twice before another


async def test_a_list_of_groups_is_put(broker: TestBroker, client: Client) -> None:
    groups = (
        SubscriptionGroupConfig("a", retry_queue_nums=2),
        SubscriptionGroupConfig("b", consume_enable=False),
    )
    answer = await client.call(GROUPS, body=SubscriptionGroupList(groups).encode())
    assert answer.code == 0, answer.remark
    for group in groups:
        kept = broker.context.groups.get(group.group_name)
        assert kept is not None
        assert kept.retry_queue_nums == group.retry_queue_nums
        assert kept.consume_enable == group.consume_enable


async def test_of_a_list_with_a_bad_group_none_is_put(broker: TestBroker, client: Client) -> None:
    for bad in (
        SubscriptionGroupConfig("x y"),
        SubscriptionGroupConfig("long", extra={"more": "x" * 100_000}),
    ):
        body = SubscriptionGroupList((SubscriptionGroupConfig("good"), bad)).encode()
        answer = await client.call(GROUPS, body=body)
        assert answer.code == 1
        assert broker.context.store.tables.groups.get("good") is None


async def test_reads_of_old_messages_have_no_limits_and_that_is_said(client: Client) -> None:
    answer = await client.call(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    assert answer.code == 0
    found = fastjson.loads(answer.body)
    assert isinstance(found, dict)
    assert (found["runtimeTable"], found["configTable"]) == ({}, {})
    for code in (
        RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        RequestCode.SET_COMMITLOG_READ_MODE,
    ):
        answer = await client.call(code, body=b"g=100")
        assert answer.code == 1
        assert "does not limit reads of old messages" in (answer.remark or "")
