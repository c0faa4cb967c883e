"""A proxy that keeps the order of queues, in front of brokers whose topics grow."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trio
from click.testing import CliRunner
from msgspec.structs import replace

from lanemq.proxy.gateway import GatewayFamilies, RunningGateway, open_gateway
from lanemq.proxy.gateway._answers import SeenAnswers
from lanemq.proxy.gateway._broker_port import BrokerPort
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.order import AddedRequests, Passed, PortQueues, added_name
from lanemq.proxy.net._loop_watch import LoopWatch
from lanemq.proxy.net.http._exposition import render
from lanemq.proxy.process import RunningBroker
from lanemq.sdk import Message, ReceivedMessage, open_producer, open_push_consumer
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.proxy.brokers import Client, send_header
from lanemq.testkit.proxy.gateways import Cluster, clustered, gateway_config, until
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire import Refused, RequestCode, ResponseCode, Version, fastjson
from lanemq.wire.bodies import (
    BrokerData,
    ConsumeStats,
    LockBatchResult,
    MessageQueue,
    MessageQueueAssignment,
    QueryAssignmentResult,
    RouteData,
    TopicConfig,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.message import decode_messages, decode_offset_id

Code = RequestCode
NAMES: Final = ("broker-a", "broker-b")
LATE: Final = added_name(0)
Queue = tuple[str, int]


@dataclass
class Grown:
    """Two brokers, and a proxy that keeps the order of topic T, of which broker-a got two more."""

    cluster: Cluster
    brokers: list[RunningBroker]
    proxy: RunningGateway
    dial: Dial

    async def client(self, name: str, proxy: RunningGateway | None = None) -> Client:
        """Connect to where clients see a broker."""
        port = (proxy or self.proxy).brokers.ports[BrokerKey(name, 0)].address.port
        return Client(await self.dial(port))

    async def direct(self, at: int = 0) -> Client:
        return Client(await self.dial(self.brokers[at].port))


async def put(broker: RunningBroker, topic: str, queues: int) -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
        config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
        await admin.put_topic(str(broker.address), config)


async def route_of(dial: Dial, proxy: RunningGateway, topic: str = "T") -> RouteData:
    client = Client(await dial(proxy.address.port))
    answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert answer.code == 0, answer.remark
    return RouteData.decode(answer.body)


async def queues_of(dial: Dial, proxy: RunningGateway, topic: str = "T") -> list[Queue]:
    """Return the queues as clients sort them."""
    route = await route_of(dial, proxy, topic)
    return sorted(
        (one.broker_name, number)
        for one in route.queue_datas
        for number in range(one.read_queue_nums)
    )


def numbered(*counts: tuple[str, int]) -> list[Queue]:
    return [(name, number) for name, count in counts for number in range(count)]


@asynccontextmanager
async def grown(tmp_path: Path, dial: Dial) -> AsyncIterator[Grown]:
    async with clustered(tmp_path) as cluster:
        brokers = [await cluster.broker(name) for name in NAMES]
        for broker in brokers:
            await put(broker, "T", 2)
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        await until(lambda: not proxy.routes.why_not_ready)
        assert await queues_of(dial, proxy) == numbered(("broker-a", 2), ("broker-b", 2))
        await put(brokers[0], "T", 4)
        seen = numbered(("broker-a", 2), ("broker-b", 2), (LATE, 2))
        assert await queues_of(dial, proxy) == seen
        yield Grown(cluster, brokers, proxy, dial)


async def test_new_queues_are_seen_at_the_end_by_every_proxy_and_after_a_restart(
    tmp_path: Path, dial: Dial
) -> None:
    seen = numbered(("broker-a", 2), ("broker-b", 2), (LATE, 2))
    async with grown(tmp_path, dial) as at:
        async with open_gateway(at.cluster.config(logical=True)) as second:
            assert await queues_of(dial, second) == seen
            await put(at.brokers[1], "T", 3)
            more = [*seen, (added_name(1), 0)]
            # Both find it at once: one of them gives the queue its place.
            assert await queues_of(dial, second) == more
            await until(lambda: at.proxy.orders is not None and at.proxy.orders.width == 2)
            assert await queues_of(dial, at.proxy) == more
        async with open_gateway(at.cluster.config(logical=True)) as third:
            assert await queues_of(dial, third) == more
            route = await route_of(dial, third)
            (late,) = (one for one in route.broker_datas if one.broker_name == LATE)
            own = third.brokers.ports[BrokerKey(LATE, 0)]
            assert late.broker_addrs == {0: str(own.address)}
            assert own.upstream == "broker-a"


async def test_two_proxies_that_see_growth_at_once_agree(tmp_path: Path, dial: Dial) -> None:
    async with clustered(tmp_path) as cluster:
        brokers = [await cluster.broker(name) for name in NAMES]
        proxies = [await cluster.proxy(logical=True, settle_seconds=0) for _ in range(2)]
        topics = [f"T{number}" for number in range(6)]
        for broker in brokers:
            for topic in topics:
                await put(broker, topic, 2)
        for topic in topics:
            await queues_of(dial, proxies[0], topic)
        found: dict[tuple[int, str], list[Queue]] = {}
        rng = random.Random(7)

        async def look(number: int, topic: str) -> None:
            found[number, topic] = await queues_of(dial, proxies[number], topic)

        for step in range(3):
            for topic in topics:
                await put(rng.choice(brokers), topic, 3 + step)
            async with trio.open_nursery() as nursery:
                for topic in topics:
                    for number in range(2):
                        nursery.start_soon(look, number, topic)
        for topic in topics:
            last = [await queues_of(dial, proxy, topic) for proxy in proxies]
            assert last[0] == last[1]
            for number in range(2):
                seen = found[number, topic]
                assert last[0][: len(seen)] == seen


async def test_a_send_goes_to_the_brokers_queue_and_is_read_by_the_clients_number(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late, direct = await at.client(LATE), await at.direct()
        for fields in (
            send_header("T", queue_id=1).to_letters() | {"n": LATE},
            send_header("T", queue_id=1).to_fields() | {"bname": LATE},
        ):
            code = Code.SEND_MESSAGE_V2 if "e" in fields else Code.SEND_MESSAGE
            sent = await late.call(code, fields, b"late")
            assert (sent.code, sent.fields["queueId"]) == (0, "1"), sent.remark
        sent = await late.call(
            Code.SEND_MESSAGE_V2, send_header("T", queue_id=-1).to_letters(), b""
        )
        assert sent.fields["queueId"] in {"0", "1"}
        host, position = decode_offset_id(sent.fields["msgId"])
        assert host == at.proxy.brokers.ports[BrokerKey(LATE, 0)].address
        found = await late.call(Code.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        assert decode_messages(found.body)[0].queue_id == int(sent.fields["queueId"])
        seen, stored = await late.messages("T", queue_id=1), await direct.messages("T", queue_id=3)
        assert [one.body for one in seen][:2] == [b"late", b"late"]
        assert [one.body for one in seen] == [one.body for one in stored]
        assert {one.queue_id for one in seen} == {1}
        assert {one.queue_id for one in stored} == {3}
        assert not await (await at.client("broker-a")).messages("T", queue_id=1)


async def test_progress_and_offsets_are_those_of_the_brokers_queue(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late, direct = await at.client(LATE), await at.direct()
        for _ in range(3):
            await late.send("T", queue_id=1)
        queue = {"topic": "T", "queueId": "1"}
        assert (await late.call(Code.GET_MAX_OFFSET, queue)).fields["offset"] == "3"
        assert (await late.call(Code.GET_MIN_OFFSET, queue)).fields["offset"] == "0"
        for code in (Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_EARLIEST_MSG_STORETIME):
            told = await late.call(code, {**queue, "timestamp": "0"})
            own = await direct.call(code, {"topic": "T", "queueId": "3", "timestamp": "0"})
            assert told.code == 0
            assert told.fields == own.fields
        commit = {**queue, "consumerGroup": "g", "commitOffset": "2"}
        await direct.heartbeat("d", consumers={"g": {"T": "*"}})
        assert (await late.call(Code.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        asked = {"topic": "T", "queueId": "3", "consumerGroup": "g"}
        assert (await direct.call(Code.QUERY_CONSUMER_OFFSET, asked)).fields["offset"] == "2"
        asked["queueId"] = "1"
        assert (await late.call(Code.QUERY_CONSUMER_OFFSET, asked)).fields["offset"] == "2"


async def test_locks_are_those_of_the_brokers_queue(tmp_path: Path, dial: Dial) -> None:
    async with grown(tmp_path, dial) as at:
        late, direct = await at.client(LATE), await at.direct()

        async def lock(client: Client, name: str, queue_id: int, who: str) -> list[Queue]:
            queue = {"topic": "T", "brokerName": name, "queueId": queue_id}
            body = json.dumps({"consumerGroup": "g", "clientId": who, "mqSet": [queue]})
            answer = await client.call(Code.LOCK_BATCH_MQ, {}, body.encode())
            assert answer.code == 0, answer.remark
            locked = LockBatchResult.decode(answer.body).lock_ok_mq_set
            return [(one.broker_name, one.queue_id) for one in locked]

        assert await lock(late, LATE, 1, "proxied") == [(LATE, 1)]
        assert await lock(direct, "broker-a", 3, "direct") == []
        assert await lock(direct, "broker-a", 1, "direct") == [("broker-a", 1)]
        queue = {"topic": "T", "brokerName": LATE, "queueId": 1}
        body = json.dumps({"consumerGroup": "g", "clientId": "proxied", "mqSet": [queue]})
        assert (await late.call(Code.UNLOCK_BATCH_MQ, {}, body.encode())).code == 0
        assert await lock(direct, "broker-a", 3, "direct") == [("broker-a", 3)]


def locks(*queues: int) -> Frame:
    """Return a request for locks of queues at the added broker."""
    wanted = [{"topic": "T", "brokerName": LATE, "queueId": number} for number in queues]
    body = {"consumerGroup": "g", "clientId": "c", "mqSet": wanted}
    return request(Code.LOCK_BATCH_MQ, {}, body=json.dumps(body).encode())


@asynccontextmanager
async def shared(tmp_path: Path, dial: Dial) -> AsyncIterator[Grown]:
    """Run three brokers, where T is seen at an added broker for broker-a, and U for broker-b."""
    async with clustered(tmp_path) as cluster:
        brokers = [await cluster.broker(name) for name in ("broker-a", "broker-b", "broker-c")]
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        await until(lambda: not proxy.routes.why_not_ready)
        for topic, at in (("T", 0), ("U", 1)):
            await put(brokers[2], topic, 1)
            await queues_of(dial, proxy, topic)
            await put(brokers[at], topic, 2)
            seen = numbered(("broker-c", 1), (LATE, 2))
            assert await queues_of(dial, proxy, topic) == seen
        assert proxy.orders is not None
        await until(lambda: proxy.orders and len(proxy.orders.behind_one(0)) == 2)
        yield Grown(cluster, brokers, proxy, dial)


async def test_topics_share_an_added_broker(tmp_path: Path, dial: Dial) -> None:
    async with shared(tmp_path, dial) as at:
        late = await at.client(LATE)
        for topic, number in (("T", 0), ("U", 1)):
            direct = await at.direct(number)
            sent = await late.send(topic, topic.encode(), queue_id=1)
            assert (sent.code, sent.fields["queueId"]) == (0, "1"), sent.remark
            (stored,) = await direct.messages(topic, queue_id=1)
            (seen,) = await late.messages(topic, queue_id=1)
            assert seen.body == stored.body == topic.encode()
            # The message is found by its id, though both brokers' logs begin at 0.
            _, position = decode_offset_id(sent.fields["msgId"])
            assert seen.log_position == position != stored.log_position
            found = await late.call(Code.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
            assert [one.body for one in decode_messages(found.body)] == [topic.encode()]
            back = {"offset": str(position), "group": "g", "delayLevel": "0", "originTopic": "X"}
            await direct.heartbeat("d", consumers={"g": {topic: "*"}})
            assert (await late.call(Code.CONSUMER_SEND_MSG_BACK, back)).code == 0
            half = await late.send(
                topic, b"half", {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "u"}, sys_flag=4
            )
            end = {
                "producerGroup": "p",
                "tranStateTableOffset": half.fields["queueOffset"],
                "commitLogOffset": str(decode_offset_id(half.fields["msgId"])[1]),
                "commitOrRollback": "8",
                "fromTransactionCheck": "false",
                "msgId": "u",
                "transactionId": "u",
            }
            answer = await late.call(Code.END_TRANSACTION, end)
            assert answer.code == 0, answer.remark
            assert [one.body for one in await direct.messages(topic, queue_id=0)] == [b"half"]
        untagged = await late.call(Code.VIEW_MESSAGE_BY_ID, {"offset": "0"})
        assert untagged.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "broker-a, broker-b" in (untagged.remark or "")


async def test_locks_of_queues_at_several_brokers_are_one_answer(
    tmp_path: Path, dial: Dial
) -> None:
    async with shared(tmp_path, dial) as at:
        late = await at.client(LATE)

        async def lock(client: Client, name: str, who: str, code: int) -> list[tuple[str, str]]:
            queues = [{"topic": topic, "brokerName": name, "queueId": 1} for topic in "TU"]
            body = json.dumps({"consumerGroup": "g", "clientId": who, "mqSet": queues})
            answer = await client.call(code, {}, body.encode())
            assert answer.code == 0, answer.remark
            if code == Code.UNLOCK_BATCH_MQ:
                return []
            locked = LockBatchResult.decode(answer.body).lock_ok_mq_set
            return sorted((one.topic, one.broker_name) for one in locked)

        both = [("T", LATE), ("U", LATE)]
        assert await lock(late, LATE, "proxied", Code.LOCK_BATCH_MQ) == both
        for number, topic in enumerate("TU"):
            direct, name = await at.direct(number), f"broker-{'ab'[number]}"
            held = await lock(direct, name, "direct", Code.LOCK_BATCH_MQ)
            assert (topic, name) not in held
        await lock(late, LATE, "proxied", Code.UNLOCK_BATCH_MQ)
        for number, topic in enumerate("TU"):
            direct, name = await at.direct(number), f"broker-{'ab'[number]}"
            held = await lock(direct, name, "direct", Code.LOCK_BATCH_MQ)
            assert (topic, name) in held
        assert await lock(late, LATE, "proxied", Code.LOCK_BATCH_MQ) == []


async def test_members_of_a_group_are_those_at_a_broker_of_its_topic(
    tmp_path: Path, dial: Dial
) -> None:
    async with shared(tmp_path, dial) as at:
        late = await at.client(LATE)
        asked = {"consumerGroup": "g"}
        for number, topic in enumerate("TU"):
            own = await at.client(f"broker-{'ab'[number]}")
            await own.heartbeat(f"at-{topic}", consumers={"g": {topic: "*"}})
        # Which broker has all members of the group is not known before the client names a topic.
        answer = await late.call(Code.GET_CONSUMER_LIST_BY_GROUP, asked)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        for topic in "TU":
            await late.heartbeat("c", consumers={"g": {topic: "*"}})
            answer = await late.call(Code.GET_CONSUMER_LIST_BY_GROUP, asked)
            assert json.loads(answer.body) == {"consumerIdList": [f"at-{topic}"]}


async def test_a_broker_that_is_down_holds_up_no_other_behind_the_same_added_one(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shared(tmp_path, dial) as at:
        late = await at.client(LATE)
        for topic in "TU":
            assert (await late.send(topic, queue_id=0)).code == 0
        port = at.proxy.brokers.ports[BrokerKey("broker-a", 0)]
        assert isinstance(port, BrokerPort)
        # The proxy looks every two seconds, and would find the broker where it is.
        monkeypatch.setattr(at.proxy.brokers, "note_all", lambda *_: None)
        at.proxy.brokers.note(BrokerData("c", "broker-a", {0: "127.0.0.1:9"}))
        await until(lambda: at.proxy.brokers.ports[BrokerKey(LATE, 0)].links == 1)
        assert (await late.send("U", queue_id=0)).code == 0
        answer = await late.send("T", queue_id=0)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "broker-a" in (answer.remark or "")
        at.proxy.brokers.note(BrokerData("c", "broker-a", {0: str(at.brokers[0].address)}))
        await until(lambda: not port.problem)
        assert (await late.send("T", queue_id=0)).code == 0
        assert (await late.send("U", queue_id=0)).code == 0


async def test_locks_of_many_queues_take_short_turns(tmp_path: Path, dial: Dial) -> None:
    async with grown(tmp_path, dial) as at:
        await put(at.brokers[0], "T", 2000)
        assert len(await queues_of(dial, at.proxy)) == 2002
        late = await at.client(LATE)
        answer = await late.peer.call(locks(*range(1998)))
        assert answer.code == 0, answer.remark
        locked = LockBatchResult.decode(answer.body).lock_ok_mq_set
        assert {(one.broker_name, one.queue_id) for one in locked} == set(numbered((LATE, 1998)))
        answer = await late.peer.call(locks(*range(1999)))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE

        assert at.proxy.orders is not None
        port, turns = AddedRequests(at.proxy.orders, LATE, random.Random(0)), 0
        assert port.is_long(locks(*range(1998)))
        async with trio.open_nursery() as nursery:

            async def count() -> None:
                nonlocal turns
                while True:
                    await trio.lowlevel.checkpoint()
                    turns += 1

            nursery.start_soon(count)
            passed = await port.long_request(locks(*range(1998)))
            nursery.cancel_scope.cancel()
        assert turns >= 15
        assert isinstance(passed, Passed)
        assert b'"queueId": 1999' in passed.frame.body


async def test_locks_of_more_queues_than_anybody_has_are_refused(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late = await at.client(LATE)
        answer = await late.peer.call(locks(*[0] * 20_000))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "at most" in (answer.remark or "")


async def test_a_client_is_one_member_though_it_registers_at_both_ports(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        own, late, direct = await at.client("broker-a"), await at.client(LATE), await at.direct()
        for client in (own, late):
            await client.heartbeat("c", consumers={"g": {"T": "*"}})
        for client in (own, late, direct):
            answer = await client.call(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
            assert json.loads(answer.body) == {"consumerIdList": ["c"]}
        gone = {"clientID": "c", "consumerGroup": "g"}
        assert (await late.call(Code.UNREGISTER_CLIENT, gone)).code == 0
        answer = await direct.call(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
        assert json.loads(answer.body) == {"consumerIdList": ["c"]}


async def test_statistics_have_each_queue_once(tmp_path: Path, dial: Dial) -> None:
    """A topic's by the names that clients know; a group's by the broker's, with its numbers."""
    async with grown(tmp_path, dial) as at:
        own, late = await at.client("broker-a"), await at.client(LATE)
        await late.send("T", queue_id=1)
        await own.heartbeat("c", consumers={"g": {"T": "*"}})
        commit = {"topic": "T", "queueId": "1", "consumerGroup": "g", "commitOffset": "1"}
        await late.call(Code.UPDATE_CONSUMER_OFFSET, commit)
        found: list[set[Queue]] = []
        progress: list[dict[Queue, int]] = []
        for client in (own, late):
            topic = await client.call(Code.GET_TOPIC_STATS_INFO, {"topic": "T"})
            stats = TopicStatsTable.decode(topic.body).offset_table
            found.append({(one.broker_name, one.queue_id) for one in stats})
            group = await client.call(Code.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "T"})
            consumed = ConsumeStats.decode(group.body).offset_table
            progress.append(
                {
                    (one.broker_name, one.queue_id): value.consumer_offset
                    for one, value in consumed.items()
                }
            )
        assert found == [set(numbered(("broker-a", 2))), set(numbered((LATE, 2)))]
        assert set(progress[0]) == set(numbered(("broker-a", 4)))
        assert progress[0]["broker-a", 3] == 1
        assert not progress[1]


async def test_statistics_of_many_queues_take_short_turns(tmp_path: Path, dial: Dial) -> None:
    async with grown(tmp_path, dial) as at:
        await put(at.brokers[0], "T", 2000)
        assert len(await queues_of(dial, at.proxy)) == 2002
        own, late = await at.client("broker-a"), await at.client(LATE)
        counts = []
        for client in (own, late):
            answer = await client.call(Code.GET_TOPIC_STATS_INFO, {"topic": "T"})
            stats = TopicStatsTable.decode(answer.body).offset_table
            counts.append((len(stats), {one.broker_name for one in stats}))
        assert counts == [(2, {"broker-a"}), (1998, {LATE})]


async def test_a_reset_reaches_the_client_with_the_names_that_it_has(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        own, late, tool = [await at.client(one) for one in ("broker-a", LATE, "broker-a")]
        for _ in range(2):
            await late.send("T", queue_id=1)
        await own.heartbeat("c", consumers={"g": {"T": "*"}})
        for client, queue_id in ((own, "0"), (own, "1"), (late, "0"), (late, "1")):
            commit = {"topic": "T", "queueId": queue_id, "consumerGroup": "g", "commitOffset": "0"}
            await client.call(Code.UPDATE_CONSUMER_OFFSET, commit)
        reset = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
        at_late = await late.call(Code.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert json.loads(at_late.body) == {"offsetTable": {}}
        answer = await tool.call(Code.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert answer.code == 0, answer.remark
        name = b'"brokerName":"' + LATE.encode() + b'","queueId":1'
        assert name in answer.body
        pushed = await own.peer.receive()
        assert pushed.code == Code.RESET_CONSUMER_CLIENT_OFFSET
        assert name in pushed.body


async def test_a_reset_of_very_many_queues_takes_short_turns(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body of 15 MiB held the event loop for 1.6 seconds."""
    async with grown(tmp_path, dial) as at:
        assert at.proxy.orders is not None
        queues = PortQueues(at.proxy.orders, "broker-a", "broker-a")
        seen = SeenAnswers(at.brokers[0].address, {}, queues)
        queue = b'{"brokerName":"broker-a","queueId":3,"topic":"T"}:0'
        body = b'{"offsetTable":{' + b",".join([queue] * 3000) + b"}}"
        frame = request(Code.RESET_CONSUMER_CLIENT_OFFSET, {"topic": "T"}, body=body)
        assert seen.is_long(None, frame)
        assert not seen.is_long(None, replace(frame, body=body[:1000]))
        assert not seen.is_long(None, replace(frame, code=Code.NOTIFY_CONSUMER_IDS_CHANGED))
        monkeypatch.setattr(LoopWatch, "has_time", False)
        turns = 0

        class Turns(trio.abc.Instrument):
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                nonlocal turns
                turns += 1

        trio.lowlevel.add_instrument(instrument := Turns())
        made = await seen.long_frame(None, frame)
        trio.lowlevel.remove_instrument(instrument)
        assert turns >= 3000
        assert made == seen.request(frame)
        assert made.body.count(b'"brokerName":"' + LATE.encode() + b'","queueId":1') == 3000


async def test_a_check_of_a_transaction_names_the_queue_that_was_sent_to(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late, direct = await at.client(LATE), await at.direct()
        properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "u"}
        half = await late.send("T", b"half", properties, queue_id=1, sys_flag=4)
        assert (half.code, half.fields["queueId"]) == (0, "1")
        _, position = decode_offset_id(half.fields["msgId"])
        end = {
            "producerGroup": "p",
            "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": str(position),
            "commitOrRollback": "8",
            "fromTransactionCheck": "false",
            "msgId": "u",
            "transactionId": "u",
            "bname": LATE,
        }
        assert (await late.call(Code.END_TRANSACTION, end)).code == 0
        assert [one.body for one in await direct.messages("T", queue_id=3)] == [b"half"]
        assert [one.body for one in await late.messages("T", queue_id=1)] == [b"half"]


@pytest.mark.parametrize("code", [Code.CHECK_TRANSACTION_STATE, Code.CONSUME_MESSAGE_DIRECTLY])
async def test_a_message_that_a_broker_asks_about_has_the_queue_that_clients_see(
    code: int, tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        direct, orders = await at.direct(), at.proxy.orders
        assert orders is not None
        for queue_id in (1, 3):
            await direct.send("T", b"asked", queue_id=queue_id)
        port = PortQueues(orders, "broker-a", "broker-a")
        found = []
        for queue_id in (1, 3):
            answer = await direct.pull("T", queue_id)
            asked = request(code, {"brokerName": "broker-a"}, body=answer.body)
            seen = port.broker_request(asked)
            (message,) = decode_messages(seen.body)
            found.append((seen.fields["brokerName"], message.queue_id))
        assert found == [("broker-a", 1), (LATE, 1)]


@pytest.mark.parametrize(
    "code",
    [Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER, Code.POP_MESSAGE, 31999],
)
async def test_what_is_for_the_broker_itself_is_refused_with_the_way_on(
    code: int, tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late = await at.client(LATE)
        answer = await late.call(code, {"topic": "T", "queueId": "0"})
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "ask that broker" in (answer.remark or "")
        assert "broker-a" in (answer.remark or "")


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("T", "2"), ("T", "-5"), ("Other", "0"), ("", "0"), ("T", "x")]
)
async def test_a_queue_that_is_not_known_there_is_refused(
    topic: str, queue_id: str, tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        late = await at.client(LATE)
        answer = await late.call(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
        assert answer.code in {ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR}
        queue = {"topic": topic, "brokerName": LATE, "queueId": 7}
        body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": [queue]}).encode()
        assert (await late.call(Code.LOCK_BATCH_MQ, {}, body)).code != 0


async def test_clients_of_lanemq_send_to_all_queues_and_read_all(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        servers = str(at.proxy.address)
        seen: set[bytes] = set()

        async def take(messages: Sequence[ReceivedMessage]) -> None:
            seen.update(one.body for one in messages)

        async with (
            open_producer("p", name_servers=servers, options=PATIENT_PRODUCER) as producer,
            open_push_consumer("g", name_servers=servers, subscriptions={"T": "*"}, listener=take),
        ):
            sent = {b"%d" % number for number in range(24)}
            places = set[Queue]()
            for body in sent:
                queue = (await producer.send(Message(topic="T", body=body))).queue
                places.add((queue.broker_name, queue.queue_id))
            assert places == set(numbered(("broker-a", 2), ("broker-b", 2), (LATE, 2)))
            await until(lambda: seen == sent)


@pytest.mark.parametrize(
    ("mode", "seen"),
    [("PULL", [("broker-a", 1), (LATE, 1)]), ("POP", [("broker-a", 1), ("broker-a", 3)])],
)
async def test_queues_assigned_for_pop_have_the_names_by_which_brokers_know_them(
    mode: str, seen: list[Queue], tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        orders = at.proxy.orders
        assert orders is not None
        assigned = tuple(
            MessageQueueAssignment(MessageQueue("T", "broker-a", number), mode) for number in (1, 3)
        )
        frame = request(Code.QUERY_ASSIGNMENT, {}).reply(
            body=QueryAssignmentResult(assigned).encode()
        )
        for name in ("broker-a", LATE):
            port = PortQueues(orders, name, "broker-a")
            answer = port.answer(Code.QUERY_ASSIGNMENT, 0, frame)
            found = QueryAssignmentResult.decode(answer.body).message_queue_assignments
            places = [(one.message_queue.broker_name, one.message_queue.queue_id) for one in found]
            assert sorted(places) == seen
            assert {one.mode for one in found} == {mode}


async def test_a_search_by_key_finds_a_message_once(tmp_path: Path, dial: Dial) -> None:
    async with grown(tmp_path, dial) as at:
        late = await at.client(LATE)
        await late.send("T", b"k", {"KEYS": "key"}, queue_id=0)
        async with open_admin(name_servers=str(at.proxy.address), timeout_s=PATIENT_S) as admin:
            found = await admin.messages_by_key("T", "key")
        assert [one.body for one in found] == [b"k"]


async def test_topics_wait_until_their_queues_have_stayed_the_same(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        brokers = [await cluster.broker(name) for name in NAMES]
        async with open_gateway(cluster.config(logical=True, settle_seconds=0)) as first:
            await until(lambda: not first.routes.why_not_ready)  # it has begun the log
        proxy = await cluster.proxy(logical=True, settle_seconds=3600)
        await put(brokers[1], "T", 2)
        assert await queues_of(dial, proxy) == numbered(("broker-b", 2))
        await put(brokers[0], "T", 2)
        # The topic is still being made.
        assert await queues_of(dial, proxy) == numbered(("broker-a", 2), ("broker-b", 2))
        assert proxy.orders is not None
        assert proxy.orders.of("T") is None
        assert not proxy.orders.behind


async def test_nothing_is_told_while_the_order_is_not_known(tmp_path: Path, dial: Dial) -> None:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(clustered(tmp_path))
        async with cluster.open_broker("broker-a") as first:
            await put(first, "T", 2)
            async with open_gateway(cluster.config(logical=True, settle_seconds=0)) as proxy:
                await queues_of(dial, proxy)
        # The log is at a broker that is down.
        other = await cluster.broker("broker-b")
        await put(other, "T", 2)
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        client = Client(await dial(proxy.address.port))
        asked = {"topic": "T"}
        answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, asked)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "the order of queues is not known yet" in (answer.remark or "")
        assert "the order of queues is not known yet" in proxy.routes.why_not_ready
        await cluster.broker("broker-a")
        await until(lambda: not proxy.routes.why_not_ready)
        assert (await client.call(Code.GET_ROUTEINFO_BY_TOPIC, asked)).code == 0


async def test_an_order_whose_log_was_deleted_begins_with_that_of_the_cluster(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        brokers = [await cluster.broker(name) for name in NAMES]
        for broker in brokers:
            await put(broker, "T", 2)
        config = cluster.config(logical=True, settle_seconds=0)
        async with open_gateway(config) as proxy:
            await until(lambda: not proxy.routes.why_not_ready)
            await queues_of(dial, proxy)
            await put(brokers[0], "T", 4)
            assert (LATE, 1) in await queues_of(dial, proxy)
        async with open_admin(name_servers=config.upstream, timeout_s=PATIENT_S) as admin:
            for topic in ("LANEMQ_PROXY_queues", "LANEMQ_PROXY_%SNAPSHOTS%queues"):
                await admin.delete_topic(str(brokers[0].address), topic)
                await admin.delete_route(topic)
        async with open_gateway(config) as proxy:
            await until(lambda: not proxy.routes.why_not_ready)
            assert await queues_of(dial, proxy) == numbered(("broker-a", 4), ("broker-b", 2))
            await put(brokers[0], "T", 5)
            assert (LATE, 0) in await queues_of(dial, proxy)


@pytest.mark.parametrize("is_kept", [False, True])
async def test_no_route_is_told_whose_order_was_lost_while_name_servers_were_asked(
    is_kept: bool, tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with grown(tmp_path, dial) as at:
        routes, orders = at.proxy.routes, at.proxy.orders
        assert orders is not None
        follower, ask = orders._keys.logs[0].follower, routes._name_servers.ask

        async def broken(frame: Frame) -> Frame:
            answer = await ask(frame)
            follower._restart()  # the log's broker has lost records
            if is_kept:
                raise Refused(ResponseCode.SYSTEM_ERROR, "no name server answers")
            return answer

        monkeypatch.setattr(routes._name_servers, "ask", broken)
        client = Client(await dial(at.proxy.address.port))
        answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "the order of queues is not known yet" in (answer.remark or "")


@pytest.mark.parametrize(
    ("version", "fields", "is_standard"),
    [
        (Version.V4_9_4 - 1, {}, False),
        (Version.V4_9_4, {}, True),
        (Version.V4_9_4 - 1, {"acceptStandardJsonOnly": "true"}, True),
    ],
)
async def test_routes_are_in_the_form_of_json_that_the_client_reads(
    version: int, fields: dict[str, str], is_standard: bool, tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        client = Client(await dial(at.proxy.address.port))
        frame = request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", **fields})
        await client.peer.send(replace(frame, version=version))
        answer = await client.peer.receive()
        assert LATE.encode() in answer.body
        assert fastjson.is_quick(answer.body) is is_standard


async def test_kept_routes_are_in_the_order_too(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: str, __: Frame) -> Frame:
        raise Refused(ResponseCode.SYSTEM_ERROR, "a test")

    async with grown(tmp_path, dial) as at:
        seen = await queues_of(dial, at.proxy)
        # Whatever the proxy asks on its own account meanwhile: it does so every two seconds.
        monkeypatch.setattr(at.proxy.routes._name_servers, "_call", refuse)
        assert await queues_of(dial, at.proxy) == seen
        assert at.proxy.routes.seen.kept == 1


async def test_a_proxy_behind_one_that_keeps_the_order_does_not_keep_it_again(
    tmp_path: Path, dial: Dial
) -> None:
    async with grown(tmp_path, dial) as at:
        config = gateway_config(str(at.proxy.address), logical=True)
        async with open_gateway(config) as second:
            client = Client(await dial(second.address.port))
            answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "--logical" in (answer.remark or "")
        async with open_gateway(gateway_config(str(at.proxy.address))) as plain:
            assert await queues_of(dial, plain) == await queues_of(dial, at.proxy)
            late = await at.client(LATE, plain)
            assert (await late.send("T", queue_id=1)).fields["queueId"] == "1"
            assert len(await (await at.direct()).messages("T", queue_id=3)) == 1


async def test_proxies_that_differ_say_so(
    tmp_path: Path, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    async with grown(tmp_path, dial) as at:
        other = str(at.proxy.address)
        async with (
            open_gateway(at.cluster.config(peers=other, leave_seconds=0)) as without,
            open_gateway(at.cluster.config(peers=other, logical=True, leave_seconds=0)) as same,
        ):
            await until(lambda: without.peers.living and same.peers.living)
            ((_, _, problem),) = without.peers.known()
            assert "it runs with --logical, and this one without" in problem
            assert problem in caplog.text
            ((_, _, problem),) = same.peers.known()
            assert not problem
            async with open_admin(name_servers=str(without.address), timeout_s=PATIENT_S) as admin:
                status = await admin.proxy_status(str(without.address))
            assert "--logical" in status.proxies[0].problem


async def test_the_status_tells_of_topics_in_another_order(tmp_path: Path, dial: Dial) -> None:
    async with grown(tmp_path, dial) as at:
        assert at.proxy.orders is not None
        await until(lambda: at.proxy.orders.others)  # type: ignore[union-attr]
        async with open_admin(name_servers=str(at.proxy.address), timeout_s=PATIENT_S) as admin:
            status = await admin.proxy_status(str(at.proxy.address))
        assert status.queue_log is not None
        assert status.queue_log.lag == 0
        assert not status.queue_log.problem
        assert status.topics_in_other_order == 1
        metrics = b"".join(await render(GatewayFamilies(at.proxy).all())).decode()
        assert "lanemq_proxy_topics_in_other_order 1" in metrics
        assert "lanemq_proxy_order_known 1" in metrics
        command = ["proxyStatus", "-n", str(at.proxy.address)]
        result = await trio.to_thread.run_sync(CliRunner().invoke, admin_command, command)
        assert result.exit_code == 0
        assert f"{LATE}: broker-a 2-3" in result.stdout
        assert "topics in an order other than the cluster's: 1" in result.stdout
        (topic,) = status.topics
        assert (topic.topic, topic.queues) == ("T", 6)
        (added,) = topic.added
        assert (added.added_broker, added.broker_name, added.start, added.count) == (
            LATE,
            "broker-a",
            2,
            2,
        )
