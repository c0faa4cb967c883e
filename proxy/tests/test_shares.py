"""One peer fills what it can of each table, and another one works all the same."""

import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.broker.kv import _namespaces
from lanemq.proxy.broker.state import _creations, _progress_room, _unknown_progress
from lanemq.proxy.logical.listener.brokers import _known, _routes
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver._kv_draft import NAMESPACES_MAX
from lanemq.proxy.nameserver._kv_requests import KVRequests
from lanemq.proxy.nameserver.logical import _heard
from lanemq.proxy.nameserver.logical._heard import HeardMasters
from lanemq.proxy.nameserver.logical._listeners import LISTENERS_MAX, Listeners
from lanemq.proxy.nameserver.logical._registration import LogicalRegistration
from lanemq.proxy.nameserver.logical._room import Held, Room
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.limits import _rotation
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._owned_entries import OwnedEntries
from lanemq.proxy.net.limits._quotas import PeerQuota
from lanemq.proxy.net.transport._listen import listen
from lanemq.proxy.sessions.keys import _watches
from lanemq.proxy.sessions.keys._snapshots import SNAPSHOTS_MAX, Snapshots
from lanemq.proxy.sessions.keys._watches import WATCHES_MAX
from lanemq.proxy.sessions.state import _lock_charges
from lanemq.proxy.sessions.state._locks import LOCK_BYTES
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.brokers import Client, open_test_broker
from lanemq.testkit.proxy.keys import Keys, keys_of
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    RouteData,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import CreateTopic, QueryMessage, UpdateConsumerOffset
from lanemq.wire.kv import Action, OpType, Step
from lanemq.wire.logical import (
    LOGICAL_QUEUES_MEMBER,
    LogicalListenerReport,
    LogicalQueues,
    Segment,
)
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
    for owner in (0, -1):
        room = places.room(owner)
        for _ in range(room):
            assert places.has_room(owner)
            places.take(owner)
        assert not places.has_room(owner)
        model[owner] += room
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


async def test_snapshots_of_all_connections_of_one_address_leave_places(tmp_path: Path) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        for number in range(3):
            await keys.put(b"k%d" % number, b"v")
        greedy = [Keys(broker.connect("10.9.9.9")) for _ in range(SNAPSHOTS_MAX)]
        asked = [await one.ask(RequestCode.KV_SCAN, limit=1, snapshot="new") for one in greedy]
        codes = Counter(one.code for one in asked)
        assert codes == {SUCCESS: 13, BUSY: 3}
        assert "13 snapshots are kept for the connections from 10.9.9.9" in (asked[-1].remark or "")
        other = Keys(broker.connect("10.1.1.1"))
        assert (await other.ask(RequestCode.KV_SCAN, limit=1, snapshot="new")).code == SUCCESS
        for one in greedy[:2]:
            await one.client.peer.stream.aclose()
        await wait_all_tasks_blocked()
        again = await greedy[-1].ask(RequestCode.KV_SCAN, limit=1, snapshot="new")
        assert again.code == SUCCESS


async def test_watches_of_all_connections_of_one_address_leave_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watches, "WATCHES_MAX", 16)
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY) as (keys, broker):
        await keys.put(b"k", b"v")
        fields = {
            "namespace": "default",
            "position": str((await keys.status()).position),
            "waitMillis": "60000",
            "prefix": "",
        }
        greedy = [broker.connect("10.9.9.9") for _ in range(16)]
        for one in greedy:
            await one.peer.send(one.frame(RequestCode.KV_WATCH, fields))
            await wait_all_tasks_blocked()
        for one in greedy[13:]:
            assert (await one.peer.receive()).code == BUSY
        other = broker.connect("10.1.1.1")
        await other.peer.send(other.frame(RequestCode.KV_WATCH, fields))
        await wait_all_tasks_blocked()
        await keys.put(b"k", b"w")
        for one in (*greedy[:13], other):
            assert (await one.peer.receive()).code == SUCCESS


def test_snapshots_of_a_namespace_that_goes_give_their_places_back() -> None:
    snapshots, session = Snapshots(), Mock(closed=False, on_close=[])
    frozen = Mock(table=Mock(pinned_bytes=0))
    for _ in range(2 * SNAPSHOTS_MAX):
        snapshots.add("n", frozen, 0.0, session)
        snapshots.drop("n")
    snapshots.add("n", frozen, 0.0, session)


async def lock(client: Client, name: str, first: int, count: int) -> int:
    queues = tuple(MessageQueue("T", "broker-a", first + n) for n in range(count))
    body = LockBatch(consumer_group="g", client_id=name, mq_set=queues).encode()
    answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == SUCCESS
    return len(LockBatchResult.decode(answer.body).lock_ok_mq_set)


async def test_locks_that_connections_left_are_charged_to_their_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They outlive them by a minute: other connections would take as many again, for nothing."""
    monkeypatch.setattr(_lock_charges, "LOCKS_MAX", 100)
    async with open_test_broker(tmp_path) as broker:
        budget, held = broker.broker.context.budget, 0
        stays = broker.connect()
        assert (await stays.send()).code == 0
        idle_bytes = budget.used_bytes
        for number in range(10):
            client = broker.connect(host="10.9.9.9")
            held += await lock(client, "greedy", 100 * number, 50)
            await client.peer.stream.aclose()
            await wait_all_tasks_blocked()
        assert 70 <= held <= 76, "three quarters of all"
        assert await lock(stays, "other", 5000, 4) == 4
        assert await lock(stays, "other", 0, 1) == 0
        assert budget.peers == 1
        assert budget.used_bytes - idle_bytes > held * LOCK_BYTES
        monkeypatch.setattr(budget, "limit_bytes", idle_bytes + held * LOCK_BYTES)
        budget.relieve()
        assert budget.used_bytes - idle_bytes < 5 * 2 * LOCK_BYTES
        assert await lock(stays, "other", 0, 1) == 1, "the locks that were left have ended"


async def test_locks_of_one_connection_leave_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock_charges, "LOCKS_MAX", 100)
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


@pytest.mark.parametrize("count", [1, 2])
async def test_connections_of_one_address_leave_some_to_others(
    nursery: trio.Nursery, count: int
) -> None:
    """Whichever of a process's servers they come to, since these share its descriptors."""
    budget, addresses = Budget(accounts_max=8), []
    servers = [Server(Handlers(Port.BROKER), name="test", budget=budget) for _ in range(count)]
    for server in servers:
        listener = listen("127.0.0.1", 0)
        await nursery.start(server.serve, [listener])
        addresses.append(listener.getsockname())
    opened = []
    for number, host in enumerate(["127.0.0.1"] * 10 + ["127.0.0.2"]):
        connection = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        await connection.bind((host, 0))
        await connection.connect(addresses[number % count])
        opened.append(connection)
    await wait_all_tasks_blocked()
    hosts = Counter(one.session.peer.host for server in servers for one in server.connections)
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


async def test_a_request_without_room_looks_at_a_step_of_what_nobody_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_unknown_progress, "OFFSETS_MAX", 100)
    monkeypatch.setattr(_unknown_progress, "SWEEP_S", 0.0)
    monkeypatch.setattr(_unknown_progress, "SWEEP_STEP", 5)
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    async with open_test_broker(tmp_path) as broker:
        greedy = broker.connect("10.0.0.1")
        await greedy.send("T")
        for number in range(21):
            assert (await greedy.call(update, commit_of(f"g{number}", "T", 0))).code == SUCCESS
        deleted = {"groupName": "g20", "removeOffset": "true"}
        assert (await greedy.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, deleted)).code == SUCCESS
        codes = [(await greedy.call(update, commit_of("new", "T", 0))).code for _ in range(5)]
        assert codes == [BUSY] * 4 + [SUCCESS], "the last one is in the fifth step"


async def test_progress_of_known_groups_has_a_bound_and_leaves_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group's topic takes eight places, and each of its queues one."""
    monkeypatch.setattr(_progress_room, "PLACES_MAX", 120)
    monkeypatch.setattr(_progress_room, "SWEEP_S", 0.0)
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    async with open_test_broker(tmp_path) as broker:
        greedy, other = broker.connect("10.0.0.1"), broker.connect("10.0.0.2")
        offsets = broker.context.store.tables.consumer_offsets
        await greedy.send("T")
        await greedy.send("U")
        await greedy.heartbeat(consumers={f"g{n}": {"T": "*"} for n in range(20)})
        codes = Counter[int]()
        for number in range(20):
            asked = commit_of(f"g{number}", "T", 0)
            codes[(await greedy.call(update, asked)).code] += 1
        assert codes == {SUCCESS: 11, BUSY: 9}, "three quarters of all places, at the most"
        asked = commit_of("g12", "U", 0)
        assert (await greedy.call(update, asked)).code == BUSY
        assert (await greedy.call(update, commit_of("g0", "T", 0))).code == SUCCESS, "as before"
        await greedy.pull("U", consumer_group="g12", commit_offset=1, sys_flag=1)
        assert offsets.topics_of("g12") == ()
        moved = {"topic": "U", "timestamp": "0", "isForce": "true", "queueId": "0", "offset": "0"}
        reset = await greedy.call(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, moved | {"group": "nobody"}
        )
        assert (reset.code, offsets.topics_of("nobody")) == (BUSY, ())
        clone = {"srcGroup": "g0", "destGroup": "g13", "offline": "true"}
        assert (await greedy.call(RequestCode.CLONE_GROUP_OFFSET, clone)).code == BUSY
        assert offsets.topics_of("g13") == ()
        assert (await other.call(update, commit_of("g13", "T", 0))).code == SUCCESS

        for group in ("g1", "g2", "g3"):
            deleted = {"groupName": group, "removeOffset": "true"}
            await greedy.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, deleted)
        assert (await greedy.call(update, commit_of("g12", "U", 0))).code == SUCCESS


class NameServers:
    """Name servers that know topic T, and take long to say that they do not know another."""

    def __init__(self) -> None:
        queues = LogicalQueues.of([Segment(MessageQueue("T", "b", 0), 0, 0)])
        extra = {LOGICAL_QUEUES_MEMBER: queues.to_json()}
        self._route = RouteData((), (BrokerData("c", "b", {0: "h:1"}),), extra=extra).encode()

    async def call(self, _address: str, frame: Frame, *_: object, **__: object) -> Frame:
        if frame.fields.get("topic") == "T":
            return frame.reply(body=self._route)
        if frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            await trio.sleep(1)
            return frame.reply(ResponseCode.TOPIC_NOT_EXIST)
        return frame.reply(body=ClusterInfo().encode())


async def test_topics_that_one_address_has_a_listener_ask_for_leave_places_to_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the questions nor what is remembered of the answers keeps others from theirs."""
    monkeypatch.setattr(_known, "UNKNOWN_MAX", 50)
    host = "10.9.9.9"
    monkeypatch.setattr(_routes, "asking_host", lambda: host)
    client: Any = NameServers()
    routes = _routes.LogicalRoutes(client, ["10.0.0.9:9876"], None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(routes.run)
        for number in range(500):
            nursery.start_soon(routes.find, f"unknown{number}")
        await wait_all_tasks_blocked()
        host, begun_s = "10.1.1.1", trio.current_time()
        assert await routes.find("T") is not None
        assert trio.current_time() - begun_s < 0.1
        await trio.sleep(60)  # all are answered
        assert routes.get("T") is not None
        assert len(routes._known) == 51
        nursery.cancel_scope.cancel()


async def test_a_listener_keeps_a_bounded_number_of_topics_to_ask_for_and_no_endless_names(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rotation, "WAITING_MAX", 100)
    host = "10.9.9.9"
    monkeypatch.setattr(_routes, "asking_host", lambda: host)
    client: Any = NameServers()
    routes = _routes.LogicalRoutes(client, ["10.0.0.9:9876"], None)
    refused, codes = list[str](), set[int]()

    async def find(topic: str) -> None:
        try:
            await routes.find(topic)
        except Refused as error:
            codes.add(error.code)
            refused.append(topic)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(routes.run)
        for number in range(300):
            nursery.start_soon(find, f"unknown{number}")
        await wait_all_tasks_blocked()
        assert 200 <= len(refused) < 300
        assert codes == {BUSY}
        asked = len(routes._asking)
        host = "10.1.1.1"
        assert await routes.find("T") is not None
        assert await routes.find("x" * 1_000_000) is None
        assert len(routes._asking) == asked
        await trio.sleep(60)  # all are answered
        host, before = "10.9.9.9", len(refused)
        await find(refused[0])
        assert len(refused) == before, "there is room again"
        nursery.cancel_scope.cancel()
    assert all(len(topic) < 100 for topic in routes._known._known)


def test_whoever_brings_too_many_entries_loses_its_own_oldest() -> None:
    owner: str | None = "10.1.1.1"
    entries = OwnedEntries[str, int](100, lambda: owner)
    for number in range(5):
        entries.put(f"mine{number}", number)
    owner = "10.9.9.9"
    for number in range(500):
        entries.put(f"theirs{number}", number, spares={"theirs0"}.__contains__)
    assert [key for key in entries if key.startswith("mine")] == [f"mine{n}" for n in range(5)]
    theirs = [key for key in entries if key.startswith("theirs")]
    assert 70 < len(theirs) < 80
    assert theirs[0] == "theirs0", "it is spared"
    assert theirs[-1] == "theirs499"
    owner = "10.1.1.1"
    entries.put("theirs499", -1)
    assert entries.pop("theirs499") == -1
    assert entries.pop("theirs499") is None
    entries.put("mine5", 5)
    assert (entries.get("mine5"), len(entries)) == (5, len(theirs) + 5)
    owner = "10.2.2.2"
    for number in range(100):
        entries.put(f"others{number}", number)
    assert len(entries) <= 100
    before = len(entries)
    entries.put("awaited", 0, spares=lambda key: key.startswith("others"))
    assert len(entries) == before + 1, "somebody waits for each of the others"
    assert all(f"mine{n}" in entries for n in range(6))


def test_listeners_of_one_address_leave_places_to_others_and_old_ones_give_way() -> None:
    registered = set[str]()
    listeners = Listeners(registered.__contains__)

    def report(number: int, host: str, *, is_here: bool = True) -> bool:
        address = f"h:{number}"
        if is_here:
            registered.add(address)
        said = LogicalListenerReport(f"l:{number}", number)
        return listeners.report(f"b{number}", 0, "c", address, said, host)

    def oldest() -> str:
        found = listeners.whole({"c"}, registered.__contains__)
        assert found is not None
        return found.address

    taken = sum(report(number, "10.9.9.9") for number in range(LISTENERS_MAX))
    assert taken < LISTENERS_MAX
    assert all(report(1000 + number, "10.1.1.1") for number in range(LISTENERS_MAX // 10))
    assert not report(2000, "10.9.9.9")
    assert report(0, "10.9.9.9")  # what it has it may say again
    assert oldest() == "l:0"
    registered.discard("h:0")
    assert report(2001, "10.9.9.9")  # the one that is gone has given way
    assert oldest() == "l:1"
    assert not report(2002, "10.9.9.9")
    assert listeners.report("b1", 0, "c", "h:1", None, "10.9.9.9")
    assert oldest() == "l:2"


def test_logical_queues_of_one_address_leave_room_to_others_and_masters_without_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under ever new names: they stay when their brokers have left."""
    monkeypatch.setattr(_heard, "HEARD_MAX", 50)
    registered, room_bytes = {"h:0"}, 1000
    room = Room()
    heard = HeardMasters(registered.__contains__, room)

    def said(number: int, host: str, *, maps: bool) -> LogicalRegistration:
        name = f"T{number}"
        mapped = {name: LogicalQueues.of([Segment(MessageQueue(name, f"b{number}", 0), 0, 0)])}
        return LogicalRegistration(
            cluster="c",
            broker_name=f"b{number}",
            broker_id=0,
            address=f"h:{number}",
            host=host,
            data_version=DataVersion(1, 1),
            queues=mapped if maps else {},
            sizes={name: 10} if maps else {},
        )

    def register(number: int, host: str) -> bool:
        one = said(number, host, maps=True)
        if room.has_room(one, room_bytes):
            room.keep(f"T{number}", {one.broker_name: Held(host, 10)})
            heard.put(one, number)
            return True
        return False

    taken = sum(register(number, "10.9.9.9") for number in range(100))
    assert 70 < taken < 80
    assert all(register(1000 + number, "10.1.1.1") for number in range(5))
    before = room.taken_bytes
    for number in range(2000, 2200):
        heard.put(said(number, "10.9.9.9", maps=False), number)
    assert room.taken_bytes == before
    assert len(heard) <= taken + 5 + 1
