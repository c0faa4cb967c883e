"""Memory of subscriptions and groups is charged to their connection, and ends with it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.broker.handlers._heartbeat_limits import GROUPS_MAX, SUBSCRIPTIONS_MAX
from lanemq.proxy.broker.handlers._lock_requests import QUEUES_MAX
from lanemq.proxy.broker.handlers.sends._send_special import BATCH_MESSAGES_MAX
from lanemq.proxy.net._dispatch import BODY_BYTES_MAX
from lanemq.proxy.sessions.state._consumer_filters import EXPRESSION_CHARS_MAX
from lanemq.proxy.sessions.state._pull_filters import KEPT_BYTES, KEPT_MAX
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatch,
    MessageQueue,
    SubscriptionData,
)
from lanemq.wire.message import BatchEntry, encode_batch

LONG_TAGS = "a || " * (EXPRESSION_CHARS_MAX // 5) + "bbbbb"
LONG_SQL = "a = 1 OR " * (EXPRESSION_CHARS_MAX // 9) + "b = 2   "


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_test_broker(tmp_path) as broker:
        await broker.connect().send()
        yield broker


@pytest.mark.parametrize(("text", "kind"), [(LONG_TAGS, "TAG"), (LONG_SQL, "SQL92")])
async def test_a_subscription_that_is_too_long_is_refused(
    broker: TestBroker, text: str, kind: str
) -> None:
    assert len(text) > EXPRESSION_CHARS_MAX
    client = broker.connect()
    refused = await client.pull(subscription=text, expression_type=kind)
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    fits = text[:1000].rpartition(" ")[0].rpartition(" ")[0]
    taken = await client.pull(subscription=fits.removesuffix(" OR"), expression_type=kind)
    assert taken.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)


async def test_what_pulls_bring_along_is_charged_bounded_and_ends_with_the_connection(
    broker: TestBroker,
) -> None:
    budget, client = broker.context.budget, broker.connect()
    for number in range(3 * KEPT_MAX):
        await client.pull(subscription=f"tag{number}")
        await client.pull(subscription=f"a = {number}", expression_type="SQL92")
        assert 0 < budget.used_bytes <= KEPT_MAX * (KEPT_BYTES + 64 * 8)
    await client.peer.stream.aclose()
    await wait_all_tasks_blocked()
    assert budget.used_bytes == 0


async def test_a_heartbeat_that_is_too_long_registers_nothing(broker: TestBroker) -> None:
    client = broker.connect()
    groups = tuple(f"{number:020}" for number in range(BODY_BYTES_MAX // 20))
    refused = await client.heartbeat(producers=groups)
    assert (refused.code, broker.context.budget.used_bytes) == (ResponseCode.SYSTEM_ERROR, 0)
    assert refused.remark is not None
    assert str(BODY_BYTES_MAX) in refused.remark
    assert list(broker.context.clients.producer_groups()) == []


async def test_groups_beyond_the_budget_are_told_that_the_broker_is_busy(
    broker: TestBroker,
) -> None:
    budget, client = broker.context.budget, broker.connect()
    budget.limit_bytes = 2 << 20
    codes = [
        (await client.heartbeat(producers=tuple(f"{batch}-{n}" for n in range(500)))).code
        for batch in range(6)
    ]
    assert codes[:3] == [0, 0, 0]
    assert codes[-1] == ResponseCode.SYSTEM_BUSY
    assert budget.used_bytes <= budget.limit_bytes
    assert (await broker.connect().heartbeat("other", producers=("p",))).code == 0
    await client.peer.stream.aclose()
    await wait_all_tasks_blocked()
    assert budget.used_bytes < 2000


async def test_one_connection_is_in_so_many_groups_only(broker: TestBroker) -> None:
    """They are registered in one turn, and end in one."""
    client = broker.connect()
    names = [f"g{number}" for number in range(GROUPS_MAX)]
    assert (await client.heartbeat(consumers={name: {"T": "*"} for name in names[1:]})).code == 0
    assert (await client.heartbeat(producers=("p",))).code == 0
    assert (await client.heartbeat(producers=("p",), consumers={"g1": {"T": "a"}})).code == 0
    for refused in (
        await client.heartbeat(consumers={"g0": {"T": "*"}}),
        await client.heartbeat(producers=("p", "q")),
    ):
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert f"{GROUPS_MAX + 1} groups" in (refused.remark or "")
    assert broker.context.groups.get("g0") is None
    assert (await broker.connect().heartbeat("other", consumers={"g0": {"T": "*"}})).code == 0


async def test_heartbeats_beside_each_other_bring_no_more_groups(broker: TestBroker) -> None:
    """Many groups are made in turns: what is checked before the first holds behind the last."""
    client, count = broker.connect(), GROUPS_MAX // 2 + 1
    frames = [
        client.frame(RequestCode.HEART_BEAT, body=heartbeat_of(number * count, count))
        for number in range(4)
    ]
    await client.peer.send(*frames)
    codes = list[int]()
    while len(codes) < len(frames):
        answer = await client.peer.receive()
        if answer.is_response:  # else a note about a group
            codes.append(answer.code)
    assert sorted(codes) == [0, *[ResponseCode.SYSTEM_BUSY] * 3]
    groups = broker.context.clients
    there = sum(groups.consumer_group(f"g{n}") is not None for n in range(4 * count))
    assert there == count


def heartbeat_of(first: int, count: int) -> bytes:
    subscription = SubscriptionData.of_tags("T", "*", sub_version=1)
    consumers = (
        ConsumerData(group_name=f"g{number}", subscription_data_set=(subscription,))
        for number in range(first, first + count)
    )
    return HeartbeatData("id", consumer_data_set=tuple(consumers)).encode()


@pytest.mark.slow
async def test_one_heartbeat_has_so_many_subscriptions_only(broker: TestBroker) -> None:
    client = broker.connect()
    topics = {f"T{number}": "*" for number in range(SUBSCRIPTIONS_MAX // 2)}
    assert (await client.heartbeat(consumers={"g": topics, "h": topics})).code == 0
    refused = await client.heartbeat(consumers={"g": topics, "i": {**topics, "T": "*"}})
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert broker.context.clients.consumer_group("i") is None


@pytest.mark.slow
async def test_one_request_locks_so_many_queues_only(broker: TestBroker) -> None:
    client = broker.connect()
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        for count, expected in ((QUEUES_MAX, 0), (QUEUES_MAX + 1, ResponseCode.SYSTEM_ERROR)):
            queues = (MessageQueue("T", "broker-a", queue_id) for queue_id in range(count))
            body = LockBatch("g", "id", tuple(queues)).encode()
            answer = await client.call(code, body=body)
            assert answer.code == expected, answer.remark


async def test_tags_that_a_client_did_not_hash_are_hashed_for_its_group(
    broker: TestBroker,
) -> None:
    client = broker.connect()
    await client.send("T", properties={"TAGS": "wanted"})
    await client.send("T", properties={"TAGS": "other"})
    for text, expected in (("wanted", 1), ("other || wanted", 2), ("*", 3)):
        await client.heartbeat(consumers={"g": {"T": text}})
        group = broker.context.clients.consumer_group("g")
        assert group is not None
        subscription = group.subscriptions["T"]
        object.__setattr__(subscription, "code_set", frozenset())
        object.__setattr__(subscription, "sub_string", text)
        assert len(await client.messages("T", 0, 0, sys_flag=0, sub_version=1)) == expected


async def test_a_batch_has_so_many_messages_and_so_much_in_common_only(tmp_path: Path) -> None:
    entry = encode_batch([BatchEntry(0, b"x", b"")])
    common = {"e": "x" * 30_000}
    async with open_test_broker(tmp_path, mapped_file_size_commit_log=8 << 20) as broker:
        client = broker.connect()
        for number, properties, code in (
            (BATCH_MESSAGES_MAX, {}, 0),
            (BATCH_MESSAGES_MAX + 1, {}, ResponseCode.MESSAGE_ILLEGAL),
            (100, common, 0),
            (200, common, ResponseCode.MESSAGE_ILLEGAL),
        ):
            answer = await client.send(body=entry * number, properties=properties, batch=True)
            assert answer.code == code, answer.remark
        assert "properties for each" in (answer.remark or "")
