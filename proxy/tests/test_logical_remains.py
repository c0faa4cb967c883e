"""Remains on a broker after its logical queues have left: named, with numbers and times."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk.admin import open_admin
from lanemq.testkit.logical.cluster import TOPIC, LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.sdk.admin import Remainder, remainders_at
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue, TopicConfig
from lanemq.wire.headers import EndTransaction
from lanemq.wire.logical import progress_topic
from lanemq.wire.message import decode_offset_id


async def left_at(cluster: LogicalCluster, name: str) -> dict[str, Remainder]:
    address, dial = cluster.name_server.address, cluster.network.dialer("10.0.9.8")
    async with open_admin(name_servers=address, dial=dial) as admin:
        return {one.what: one for one in await remainders_at(admin, name)}


@pytest.mark.slow
async def test_what_waits_on_a_drained_broker_is_named_with_its_number(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 10)
        for _ in range(3):
            answer = await cluster.send(source, b"later", properties={"DELAY": "18"})
            assert answer.code == 0
        for number in range(2):
            timer = {"TIMER_DELAY_SEC": "3600", "UNIQ_KEY": f"U{number}"}
            assert (await cluster.send(source, b"later", properties=timer)).code == 0
        soon = {"TIMER_DELAY_MS": "10", "UNIQ_KEY": "soon"}
        assert (await cluster.send(source, b"soon", properties=soon)).code == 0
        await trio.sleep(3)
        address, dial = cluster.name_server.address, cluster.network.dialer("10.0.9.8")
        async with open_admin(name_servers=address, dial=dial) as admin:
            for topic in ("%RETRY%g", "%DLQ%g", "plain"):
                await admin.put_topic(
                    cluster.brokers["broker1"].address,
                    TopicConfig(topic, read_queue_nums=1, write_queue_nums=1),
                )
            queue = MessageQueue(progress_topic(TOPIC, 0), "broker1", 0)
            await admin.put_offset(cluster.brokers["broker1"].address, "slow", queue, 4)
            queue = MessageQueue("plain", "broker1", 0)
            await admin.put_offset(cluster.brokers["broker1"].address, "g", queue, 1)
        client = await cluster.at("broker1")
        for topic, count in (("%RETRY%g", 2), ("%DLQ%g", 4)):
            for _ in range(count):
                assert (await client.send(topic, b"again", queue_id=0)).code == 0
        await cluster.migrate(0, "broker2")
        left = await left_at(cluster, "broker1")
        assert {what: one.count for what, one in left.items()} == {
            "delayed messages": 3,
            "messages with a timer": 2,
            "messages that wait for another try": 2,
            "dead letters": 4,
            "messages that a group has not read": 7,
            "offsets of groups in topics without logical queues": 1,
        }
        assert left["delayed messages"].last_time_ms > 0
        assert left["messages that a group has not read"].example == "slow of T"
        assert await left_at(cluster, "broker2") == {}


async def test_half_messages_are_named_until_their_transactions_end(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source = await cluster.normal(0)
        properties = {"TRAN_MSG": "true", "PGROUP": "pg"}
        halves = [
            await cluster.send(source, b"half", properties=properties | {"UNIQ_KEY": str(number)})
            for number in range(2)
        ]
        await cluster.migrate(0, "broker2")
        left = await left_at(cluster, "broker1")
        assert left["half messages of transactions"].count == 2
        client = await cluster.at("broker1")
        for half, state in zip(halves, (8, 12), strict=True):
            header = EndTransaction(
                producer_group="pg",
                tran_state_table_offset=int(half.fields["queueOffset"]),
                commit_log_offset=decode_offset_id(half.fields["msgId"])[1],
                commit_or_rollback=state,
                msg_id="id",
            )
            answer = await client.call(RequestCode.END_TRANSACTION, header.to_fields())
            assert answer.code == 0
        await trio.sleep(31)  # a broker notes every half a minute how far it is
        left = await left_at(cluster, "broker1")
        assert "half messages of transactions" not in left
