"""One peer fills what it can of each table, and another one works all the same."""

import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.broker.kv import _namespaces
from lanemq.proxy.broker.state import _creations, _unknown_progress
from lanemq.proxy.nameserver._kv import NAMESPACES_MAX, KVConfig
from lanemq.proxy.nameserver._kv_requests import KVRequests
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._quotas import PeerQuota
from lanemq.proxy.net.transport._listen import listen
from lanemq.proxy.sessions.keys._snapshots import SNAPSHOTS_MAX, Snapshots
from lanemq.proxy.sessions.keys._watches import WATCHES_MAX
from lanemq.proxy.sessions.state import _locks
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.brokers import Client, open_test_broker
from lanemq.testkit.proxy.keys import Keys, keys_of
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import request
from lanemq.wire.headers import CreateTopic, QueryMessage, UpdateConsumerOffset
from lanemq.wire.kv import Action, OpType, Step
from lanemq.wire.requests import Port

SUCCESS, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY


@given(st.integers(1, 300), st.lists(st.integers(0, 5)), st.sampled_from([4, 1, 1 / 3]))
def test_places_are_counted_and_leave_some_to_the_next_owner(
    most: int, owners: list[int], share: float
) -> None:
    places, model = PeerQuota[int](most, share=share), Counter[int]()
    for owner in owners * 10:
        if places.has_room(owner):
            places.take(owner)
            model[owner] += 1
            assert model[owner] <= 1 + most / (1 + share)
        assert len(places) == model.total() <= most
        assert places.held_by(owner) == model[owner]
    assert len(places) == most or places.has_room(-1)
    for owner in list(model.elements()):
        places.give_back(owner)
    assert len(places) == 0


async def test_watches_of_one_connection_leave_places_and_end_with_it(tmp_path: Path) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        await keys.put(b"k", b"v")
        next_position = (await keys.status()).position
        greedy = broker.connect()
        fields = {
            "namespace": "default",
            "position": str(next_position),
            "waitMillis": "60000",
            "prefix": "",
        }
        frames = [greedy.frame(RequestCode.KV_WATCH, fields) for _ in range(WATCHES_MAX)]
        await greedy.peer.send(*frames)
        busy = await greedy.peer.receive()
        assert busy.code == BUSY
        assert "its share of" in (busy.remark or "")
        assert (await keys.watch(next_position, wait_ms=1)).code == SUCCESS
        assert (await keys.get(b"k")) is not None
        await greedy.peer.stream.aclose()
        await wait_all_tasks_blocked()
        again = broker.connect()
        await again.peer.send(again.frame(RequestCode.KV_WATCH, fields))
        await keys.put(b"k", b"w")
        assert (await again.peer.receive()).code == SUCCESS


async def test_snapshots_of_one_connection_leave_places_and_end_with_it(tmp_path: Path) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        for number in range(3):
            await keys.put(b"k%d" % number, b"v")

        async def snapshot(keys: Keys) -> int:
            return (await keys.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")).code

        for _ in range(SNAPSHOTS_MAX):  # connections that end leave nothing behind
            greedy = Keys(broker.connect())
            while (code := await snapshot(greedy)) == SUCCESS:
                pass
            assert code == BUSY
            other = Keys(broker.connect())
            assert await snapshot(other) == SUCCESS
            await other.client.peer.stream.aclose()
            await greedy.client.peer.stream.aclose()
            await wait_all_tasks_blocked()
        assert await snapshot(keys) == SUCCESS


def test_snapshots_of_a_namespace_that_goes_give_their_places_back() -> None:
    snapshots, session = Snapshots(), Mock(closed=False, on_close=[])
    for _ in range(2 * SNAPSHOTS_MAX):
        snapshots.add("n", Mock(), 0.0, session)
        snapshots.drop("n")
    snapshots.add("n", Mock(), 0.0, session)


async def test_locks_of_one_connection_leave_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_locks, "LOCKS_MAX", 100)

    async def lock(client: Client, name: str, first: int, count: int) -> int:
        queues = tuple(MessageQueue("T", "broker-a", first + n) for n in range(count))
        body = LockBatch(consumer_group="g", client_id=name, mq_set=queues).encode()
        answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
        assert answer.code == SUCCESS
        return len(LockBatchResult.decode(answer.body).lock_ok_mq_set)

    async with open_test_broker(tmp_path) as broker:
        greedy, other = broker.connect(), broker.connect()
        held = sum([await lock(greedy, f"id{n}", 100 * n, 50) for n in range(10)])
        assert 20 <= held <= 21
        assert await lock(other, "other", 5000, 4) == 4
        assert await lock(other, "other", 5000, 4) == 4, "renewed"
        body = LockBatch(
            consumer_group="g",
            client_id="id0",
            mq_set=tuple(MessageQueue("T", "broker-a", n) for n in range(50)),
        ).encode()
        await greedy.call(RequestCode.UNLOCK_BATCH_MQ, body=body)
        assert await lock(greedy, "id0", 9000, 5) == 5


async def test_searches_of_one_connection_take_their_turns_behind_those_of_others(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path) as broker:
        await broker.connect().send(properties={"KEYS": "k"})
        query = QueryMessage(
            topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=1 << 62
        ).to_fields()
        greedy, other = broker.connect(), broker.connect()
        await greedy.peer.send(
            *(greedy.frame(RequestCode.QUERY_MESSAGE, query) for _ in range(2000))
        )
        assert (await other.call(RequestCode.QUERY_MESSAGE, query)).code == SUCCESS


async def test_connections_of_one_address_leave_some_to_others(nursery: trio.Nursery) -> None:
    server = Server(Handlers(Port.BROKER), name="test", budget=Budget(accounts_max=8))
    listener = listen("127.0.0.1", 0)
    await nursery.start(server.serve, [listener])
    address = listener.getsockname()
    opened = []
    for host in ["127.0.0.1"] * 10 + ["127.0.0.2"]:
        connection = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        await connection.bind((host, 0))
        await connection.connect(address)
        opened.append(connection)
    await wait_all_tasks_blocked()
    hosts = Counter(one.session.peer.host for one in server.connections)
    assert hosts == {"127.0.0.1": 7, "127.0.0.2": 1}
    for connection in opened:
        connection.close()
    nursery.cancel_scope.cancel()


# What outlives its connection


async def test_topics_and_groups_of_one_address_leave_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path) as broker:
        topics, groups = broker.context.topics, broker.context.groups
        existing = len(broker.context.store.tables.topics.configs)
        monkeypatch.setattr(_creations, "CREATED_MAX", existing + 100)
        codes = Counter[int]()
        for number in range(40):  # each by a connection of its own
            greedy = broker.connect("10.0.0.1")
            codes[(await greedy.send(f"T{number}")).code] += 1
            await greedy.peer.stream.aclose()
        assert codes == {SUCCESS: 21, BUSY: 19}
        refused = await broker.connect("10.0.0.1").send("T39")
        assert "10.0.0.1 have created 21 topics" in (refused.remark or "")
        assert (await broker.connect("10.0.0.1").send("T0")).code == SUCCESS
        assert (await broker.connect("10.0.0.2").send("U0")).code == SUCCESS
        operator = broker.connect("10.0.0.1")
        fields = CreateTopic(
            topic="V",
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        ).to_fields()
        assert (await operator.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == SUCCESS
        for topic in ("T0", "T2"):
            deleted = await operator.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
            assert deleted.code == SUCCESS
        assert (await operator.send("T38")).code == SUCCESS
        assert (await operator.send("T39")).code == BUSY
        assert topics.get("T39") is None

        monkeypatch.setattr(_creations, "CREATED_MAX", 100)
        pulled = Counter[int]()
        for number in range(40):
            pulled[(await operator.pull("T1", consumer_group=f"g{number}")).code] += 1
        assert pulled[BUSY] > 19
        assert groups.get("g39") is None
        assert groups.get("g0") is not None
        other = broker.connect("10.0.0.2")
        assert (await other.pull("T1", consumer_group="other")).code != BUSY
        beat = await operator.heartbeat(consumers={f"h{n}": {"T1": "*"} for n in range(100)})
        assert beat.code == SUCCESS
        assert groups.get("h99") is None


async def test_namespaces_of_one_address_leave_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_namespaces, "PARTITIONS_HERE_MAX", 8)
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (_, broker):

        async def make(host: str, name: str) -> int:
            keys = Keys(broker.connect(host), name)
            return (await keys.write(OpType.PUT, Step(b"k", Action.PUT, b"v"))).code

        codes = [await make("10.0.0.1", f"n{number}") for number in range(8)]
        assert codes == [SUCCESS] * 7 + [BUSY]
        assert await make("10.0.0.1", "n0") == SUCCESS
        assert await make("10.0.0.2", "other") == SUCCESS


async def test_a_configuration_of_one_address_leaves_some_to_others(
    connect: Connect,
) -> None:
    handlers = Handlers(Port.NAME_SERVER)
    KVRequests(KVConfig(None)).add_to(handlers)
    server = Server(handlers, name="test")
    greedy, other = connect(server, host="10.0.0.1"), connect(server, host="10.0.0.2")

    async def put(peer: Peer, namespace: str, key: str, size: int = 1) -> int:
        entry = {"namespace": namespace, "key": key, "value": "v" * size}
        return (await peer.call(request(RequestCode.PUT_KV_CONFIG, entry))).code

    codes = [await put(greedy, f"N{number}", "k") for number in range(NAMESPACES_MAX)]
    assert Counter(codes) == {SUCCESS: 97, ResponseCode.SYSTEM_ERROR: 31}
    assert await put(other, "other", "k") == SUCCESS
    codes = [await put(greedy, "N0", f"k{number}", 60_000) for number in range(40)]
    assert 24 <= codes.count(SUCCESS) <= 27
    assert await put(greedy, "N0", "k0", 60_000) == SUCCESS, "no more than before"
    assert await put(other, "other", "k", 60_000) == SUCCESS
    entry = {"namespace": "N0", "key": "k0"}
    deleted = await other.call(request(RequestCode.DELETE_KV_CONFIG, entry))
    assert deleted.code == SUCCESS
    assert await put(greedy, "N0", "new", 50_000) == SUCCESS


def commit_of(group: str, topic: str, queue_id: int) -> dict[str, str]:
    return UpdateConsumerOffset(group, topic, queue_id, 1).to_fields()


async def test_progress_of_strategies_that_nobody_uses_is_bounded_by_the_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_unknown_progress, "OFFSETS_MAX", 20)
    monkeypatch.setattr(_unknown_progress, "STAGE_GROUPS_MAX", 4)
    async with open_test_broker(tmp_path) as broker:
        greedy = broker.connect("10.0.0.1")
        await greedy.send("T")
        await greedy.pull("T", consumer_group="known")
        codes = Counter[int]()
        for number in range(30):
            asked = commit_of(f"%STAGE%|{number}|known", "T", 0)
            answer = await greedy.call(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
            codes[answer.code] += 1
        assert codes[BUSY] >= 16
        assert codes[SUCCESS] == 30 - codes[BUSY]
        again = commit_of("%STAGE%|0|known", "T", 1)
        assert (await greedy.call(RequestCode.UPDATE_CONSUMER_OFFSET, again)).code == SUCCESS


async def test_progress_that_nobody_can_use_of_one_address_leaves_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_unknown_progress, "OFFSETS_MAX", 100)
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    async with open_test_broker(tmp_path) as broker:
        greedy, other = broker.connect("10.0.0.1"), broker.connect("10.0.0.2")
        await greedy.send("T")
        await greedy.pull("T", consumer_group="known")
        offsets = broker.context.store.tables.consumer_offsets
        unknown: list[Callable[[int], dict[str, str]]] = [
            lambda n: commit_of(f"g{n}", "T", 0),
            lambda n: commit_of("known", f"nosuch{n}", 0),
            lambda n: commit_of("known", "%RETRY%" + str(n), 0),
            lambda n: commit_of("known", f"%LQ%{n}%T", 0),
            lambda n: commit_of("known", "T", 4 + n),
            lambda n: commit_of("known", "T", -1 - n),
        ]
        codes = Counter[int]()
        for number in range(20):
            for make in unknown:
                codes[(await greedy.call(update, make(number))).code] += 1
        assert codes == {SUCCESS: 21, BUSY: 99}
        assert sum(map(len, offsets.as_table().values())) == 21
        refused = await greedy.call(update, commit_of("g99", "T", 0))
        assert "group g99 in T/0" in (refused.remark or "")
        assert "21 such offsets from 10.0.0.1" in (refused.remark or "")
        clone = {"srcGroup": "known", "destGroup": "nobody", "topic": "T", "offline": "true"}
        for queue_id in range(4):  # what exists is always kept
            kept = await greedy.call(update, commit_of("known", "T", queue_id))
            assert kept.code == SUCCESS
        assert (await greedy.call(RequestCode.CLONE_GROUP_OFFSET, clone)).code == BUSY
        assert offsets.topics_of("nobody") == ()
        beat = await greedy.heartbeat(consumers={"fresh": {"T": "*"}})
        assert beat.code == SUCCESS
        assert (await greedy.call(update, commit_of("fresh", "T", 0))).code == SUCCESS
        assert (await greedy.call(update, commit_of("g0", "T", 0))).code == SUCCESS, "as before"
        assert (await other.call(update, commit_of("g99", "T", 0))).code == SUCCESS

        deleted = {"groupName": "known", "removeOffset": "true"}
        assert (await greedy.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, deleted)).code == SUCCESS
        monkeypatch.setattr(_unknown_progress, "SWEEP_S", 0.0)
        assert (await greedy.call(update, commit_of("g98", "T", 0))).code == SUCCESS

        long = await greedy.call(update, commit_of("x" * 1000, "T", 0))
        assert long.code == ResponseCode.SYSTEM_ERROR
        assert "1000 bytes" in (long.remark or "")
