"""Clients are registered before they are answered, and hear when their group changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerIdList,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
)


async def members(client: Client, group: str = "g") -> list[str] | None:
    answer = await client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return None
    assert answer.code == 0
    return list(ConsumerIdList.decode(answer.body).consumer_id_list)


async def unregister(client: Client, **groups: str) -> None:
    fields = {"clientID": "id"} | groups
    assert (await client.call(RequestCode.UNREGISTER_CLIENT, fields)).code == 0


async def test_the_group_list_holds_the_caller_as_soon_as_its_heartbeat_is_answered(
    client: Client,
) -> None:
    assert await members(client) is None
    answer = await client.heartbeat("a@1", consumers={"g": {"T": "*"}})
    assert (answer.code, answer.body, answer.fields, answer.version) == (0, b"", {}, 409)
    assert await members(client) == ["a@1"]


async def test_the_retry_topic_has_a_route_from_the_first_heartbeat_on(
    broker: TestBroker, client: Client
) -> None:
    for _ in range(2):
        await client.heartbeat(consumers={"g": {"T": "*"}}, message_model="BROADCASTING")
    assert [topic.topic_name for topic in broker.announced] == ["%RETRY%g"]
    config = broker.context.topics.get("%RETRY%g")
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


async def test_everyone_in_the_group_hears_of_a_new_member(
    broker: TestBroker, client: Client
) -> None:
    await client.heartbeat("a", consumers={"g": {"T": "*"}})
    assert [(one.code, one.fields) for one in client.pushed] == [
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
    ]
    assert client.pushed[0].is_oneway
    client.pushed.clear()
    second = broker.connect()
    await second.heartbeat("b", consumers={"g": {"T": "*"}})
    assert await members(client) == ["a", "b"]
    assert len(client.pushed) == len(second.pushed) == 1


async def test_an_ordinary_heartbeat_tells_nobody(client: Client) -> None:
    for _ in range(3):
        await client.heartbeat("a", consumers={"g": {"T": "*"}}, producers=("pg",))
    assert len(client.pushed) == 1


async def test_a_closed_connection_is_a_departure(broker: TestBroker, client: Client) -> None:
    second = broker.connect()
    await client.heartbeat("a", consumers={"g": {"T": "*"}})
    await second.heartbeat("b", consumers={"g": {"T": "*"}}, producers=("pg",))
    await second.peer.stream.aclose()
    await wait_all_tasks_blocked()
    client.pushed.clear()
    assert await members(client) == ["a"]
    assert list(broker.context.clients.producer_groups()) == []


async def test_who_unregisters_is_gone_at_once_and_the_others_hear_of_it(
    broker: TestBroker, client: Client
) -> None:
    second = broker.connect()
    await client.heartbeat("a", consumers={"g": {"T": "*"}})
    await second.heartbeat("b", consumers={"g": {"T": "*"}}, producers=("pg",))
    await members(client)
    client.pushed.clear()
    await unregister(second, consumerGroup="g", producerGroup="pg")
    assert await members(client) == ["a"]
    assert [one.code for one in client.pushed] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    await unregister(client, consumerGroup="g")
    assert await members(client) is None


async def test_a_group_may_be_left_in_peace(broker: TestBroker, client: Client) -> None:
    broker.context.store.tables.groups.put(
        SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=False)
    )
    await client.heartbeat("a", consumers={"g": {"T": "*"}})
    assert client.pushed == []


async def test_a_silent_client_is_dropped_and_its_connection_closed(
    broker: TestBroker, client: Client, autojump_clock: MockClock
) -> None:
    second = broker.connect()
    await client.heartbeat("a", consumers={"g": {"T": "*"}})
    await second.heartbeat("b", consumers={"g": {"T": "*"}})
    for _ in range(5):
        await trio.sleep(30)
        await client.heartbeat("a", consumers={"g": {"T": "*"}})
    assert await members(client) == ["a"]
    with pytest.raises(EOFError):
        await second.peer.receive()


async def test_nobody_pays_for_subscriptions_that_another_member_left(broker: TestBroker) -> None:
    budget, group = broker.broker.server.budget, "g"
    stays = broker.connect(host="10.0.0.2")
    await stays.heartbeat("stays", consumers={group: {"T": "*"}})
    (connection,) = broker.broker.server.connections
    paid_bytes = budget.used_bytes

    async def come_and_go() -> None:
        goes = broker.connect(host="10.0.0.1")
        topics = {f"T{number}": "x" * 10_000 for number in range(4)}
        assert (await goes.heartbeat("goes", consumers={group: {"T": "*"} | topics})).code == 0
        await goes.peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert budget.used_bytes > paid_bytes + 40_000
        found = broker.context.clients.consumer_group(group)
        assert found is not None
        assert "T" in found.subscriptions  # those who stay may read on

    await come_and_go()
    assert connection.account.kept_bytes < paid_bytes
    await stays.heartbeat("stays", consumers={group: {"T": "*"}})
    assert budget.used_bytes == connection.account.kept_bytes == paid_bytes

    await come_and_go()
    budget.limit_bytes = 40_000
    budget.relieve()
    found = broker.context.clients.consumer_group(group)
    assert found is not None
    assert not found.subscriptions
    assert await members(stays, group) == ["stays"]
    await stays.heartbeat("stays", consumers={group: {"T": "*"}})
    assert set(found.subscriptions) == {"T"}
    assert budget.used_bytes == paid_bytes


async def test_an_empty_heartbeat_and_a_broken_one(client: Client) -> None:
    answer = await client.call(RequestCode.HEART_BEAT, body=b'{"clientID":"x"}')
    assert answer.code == 0
    answer = await client.call(RequestCode.HEART_BEAT, body=b"not json")
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("expression_type", "code"),
    [("TAG", 0), ("SQL92", ResponseCode.SYSTEM_ERROR)],
)
async def test_only_filters_by_tags_are_accepted_where_the_others_are_off(
    broker: TestBroker, client: Client, expression_type: str, code: int
) -> None:
    broker.context.config.enable_property_filter = False
    subscription = SubscriptionData("T", "a > 1", expression_type=expression_type)
    body = CheckClientRequestBody("id", "g", subscription).encode()
    answer = await client.call(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert answer.code == code
    if code:
        remark = "The broker does not support consumer to filter message by SQL92"
        assert answer.remark == remark


class TestLocks:
    QUEUES = (MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1))

    async def lock(self, client: Client, client_id: str) -> set[MessageQueue]:
        body = LockBatch("g", client_id, self.QUEUES).encode()
        answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
        assert answer.code == 0
        assert b"lockOKMQSet" in answer.body
        return set(LockBatchResult.decode(answer.body).lock_ok_mq_set)

    async def test_a_lock_is_held_renewed_given_back_and_forgotten(
        self, client: Client, autojump_clock: MockClock
    ) -> None:
        both = set(self.QUEUES)
        assert await self.lock(client, "x") == both
        assert await self.lock(client, "y") == set()
        await trio.sleep(59)
        assert await self.lock(client, "x") == both
        await trio.sleep(59)
        assert await self.lock(client, "y") == set()
        body = LockBatch("g", "x", self.QUEUES[:1]).encode()
        assert (await client.call(RequestCode.UNLOCK_BATCH_MQ, body=body)).code == 0
        assert await self.lock(client, "y") == {self.QUEUES[0]}
        await trio.sleep(60.5)
        assert await self.lock(client, "y") == both


async def test_a_heartbeat_with_many_new_groups_writes_the_tables_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path) as broker:
        client, tables = broker.connect(), broker.context.store.tables
        writes: list[str] = []

        def counted(name: str, write: Callable[..., Any]) -> Callable[..., Any]:
            async def count(*given: object) -> None:
                writes.append(name)
                await write(*given)

            return count

        for backend in (tables.topics.backend, tables.groups.backend):
            write = counted(backend.path.name, backend.write_off_loop)  # type: ignore[attr-defined]
            monkeypatch.setattr(backend, "write_off_loop", write)
        groups = {f"g{number}": {"T": "*"} for number in range(500)}
        assert (await client.heartbeat(consumers=groups)).code == 0
        assert broker.context.groups.get("g499") is not None
        assert len(writes) <= 2
        frames = [
            client.frame(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                body=SubscriptionGroupConfig(f"made{number}").encode(),
            )
            for number in range(20)
        ]
        writes.clear()
        await client.peer.send(*frames)
        answers: list[int] = []
        while len(answers) < len(frames):
            frame = await client.peer.receive()
            if not frame.is_oneway:  # the notes about the groups of the heartbeat
                answers.append(frame.code)
        assert answers == [0] * len(frames)
        assert 1 <= len(writes) <= 4
        kept = (tmp_path / "config" / "subscriptionGroup.json").read_bytes()
        assert b"made19" in kept
