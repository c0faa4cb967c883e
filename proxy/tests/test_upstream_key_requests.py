"""Clients' keys at proxies: the SDK's store, as at a broker, over a log of the cluster.

The cluster's broker here is lanemq's, which answers as Apache's; its own keys are switched off.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.gateway import open_gateway
from lanemq.proxy.gateway.kv import PREFIX, _namespaces
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.net.limits import _rotation
from lanemq.proxy.process import open_broker
from lanemq.sdk import LanemqError
from lanemq.sdk.kv import (
    Action,
    ChangeKind,
    Compare,
    KeyValueStore,
    KvCompacted,
    KvRejected,
    LockNotAcquired,
    NoLease,
    NoNamespace,
    Operation,
    Step,
    open_kv_store,
)
from lanemq.testkit.proxy.brokers import SMALL_STORE, Client
from lanemq.testkit.proxy.gateways import gateway_config, until, until_seen
from lanemq.testkit.proxy.kv_history import History, work
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.kv import OpType, encode_key, encode_steps

PATIENT_S: Final = 60.0


@asynccontextmanager
async def cluster(root: Path) -> AsyncIterator[str]:
    """Run a name server and a broker; yields the address of the name server."""
    names = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=root / "kv.json"
    )
    async with open_nameserver(names) as name_server:
        config = BrokerConfig(
            broker_name="broker-a",
            bind_address="127.0.0.1",
            listen_port=0,
            namesrv_addr=name_server.address,
            store_path_root_dir=root / "store",
            kv_enable=False,
            **SMALL_STORE,  # type: ignore[arg-type]
        )
        async with open_broker(config):
            yield name_server.address


@asynccontextmanager
async def proxy(upstream: str) -> AsyncIterator[str]:
    """Run a proxy that serves keys; yields its address for routes."""
    config = gateway_config(upstream, keys=True)
    async with open_gateway(config) as gateway:
        yield str(gateway.address)


@asynccontextmanager
async def stores(root: Path, count: int = 1) -> AsyncIterator[list[KeyValueStore]]:
    """Open stores, each at a proxy of its own before one cluster."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(cluster(root))
        found = []
        for _ in range(count):
            address = await stack.enter_async_context(proxy(upstream))
            store = open_kv_store(name_servers=address, timeout_s=PATIENT_S)
            found.append(await stack.enter_async_context(store))
        yield found


async def check_equal(one: KeyValueStore, two: KeyValueStore) -> None:
    """Assert that two proxies have the same state at one position: others may be writing."""
    with trio.fail_after(PATIENT_S):
        while (own := await one.status()).position != (other := await two.status()).position:
            pass
    assert own.state_hash == other.state_hash


async def test_a_store_works_at_a_proxy_as_at_a_broker(tmp_path: Path) -> None:
    async with stores(tmp_path) as (store,):
        assert await store.get(b"a") is None
        assert await store.put(b"a", b"1") == 1
        entry = await store.get(b"a")
        assert entry is not None
        assert (entry.value, entry.version) == (b"1", 1)
        result = await store.compare_and_set(b"a", b"2", version=1)
        assert result.done
        assert not (await store.compare_and_set(b"a", b"3", version=1)).done
        await store.batch(
            [Step(b"b/1", Action.PUT, b"x"), Step(b"b/2", Action.PUT, b"y", if_version=0)]
        )
        page = await store.prefix(b"b/")
        assert [one.key for one in page.entries] == [b"b/1", b"b/2"]
        values = await store.multi_get([b"a", b"none", b"b/2"])
        assert [one and one.value for one in values] == [b"2", None, b"y"]
        assert await store.delete(b"a") == 2
        changes = store.watch(b"", position=0)
        keys = [(await anext(changes)).key for _ in range(5)]
        assert keys == [b"a", b"a", b"b/1", b"b/2", b"a"]
        status = await store.status()
        assert (status.entries, status.broker, status.engine) == (2, "broker-a", "memory")
        checkpoint = store.checkpoint("orders")
        assert await checkpoint.load() is None
        await checkpoint.save(b"7")
        with pytest.raises(KvRejected):
            await store.put(b"", b"no key")


async def test_stores_at_two_proxies_are_one(tmp_path: Path) -> None:
    async with stores(tmp_path, 2) as (one, two):
        assert await one.put(b"a", b"1") == 1
        entry = await two.get(b"a")
        assert entry is not None
        assert entry.value == b"1"
        changes = two.watch(b"a", position=0)
        assert (await anext(changes)).value == b"1"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.put, b"a", b"2")
            assert (await anext(changes)).value == b"2"
        async with one.lock(b"lock", ttl_s=30) as lock:
            with pytest.raises(LockNotAcquired):
                async with two.lock(b"lock", wait_s=0):
                    pass
            first = lock.fencing
        async with two.lock(b"lock", wait_s=5) as lock:
            assert lock.fencing > first
        await check_equal(one, two)


async def test_transactions_ranges_and_the_past_are_the_same_at_all_proxies(tmp_path: Path) -> None:
    async with stores(tmp_path, 2) as (one, two):
        await one.batch([Step(b"k%d" % n, Action.PUT, b"%d" % n) for n in range(5)])
        then = (await two.range(prefix=b"k")).positions
        compares = [Compare.value(b"k1", "=", b"1"), Compare.missing(b"k9")]
        moved = [Operation.delete(b"k1"), Operation.put(b"k9", b"1")]
        assert (await two.txn(compares, then=moved)).succeeded
        again = await one.txn(compares, then=moved, otherwise=[Operation.get(b"k9")])
        assert not again.succeeded
        assert [found.entry and found.entry.value for found in again.results] == [b"1"]
        page = await one.range(b"k1", b"k9", reverse=True, limit=2)
        assert [entry.key for entry in page.entries] == [b"k4", b"k3"]
        assert await two.count(prefix=b"k") == 5
        for store in (one, two):
            page = await store.range(prefix=b"k", revision=then)
            assert [entry.value for entry in page.entries] == [b"0", b"1", b"2", b"3", b"4"]
            change = await anext(store.watch(key=b"k1", position=then, previous=True))
            assert change.kind == ChangeKind.DELETE
            assert change.previous is not None
            assert change.previous.value == b"1"
        await one.compact((await one.range(prefix=b"k")).positions)
        for store in (one, two):
            with pytest.raises(KvCompacted):
                await store.range(prefix=b"k", revision=then)


async def test_leases_and_the_queue_of_a_lock_are_the_same_at_all_proxies(tmp_path: Path) -> None:
    got: list[int] = []

    async def work(store: KeyValueStore, number: int) -> None:
        async with store.lock(b"l", ttl_s=60):
            got.append(number)

    async with stores(tmp_path, 3) as (one, *others), trio.open_nursery() as nursery:
        lease = await one.grant_lease(60)
        await others[0].put(b"a", b"1", lease=lease)
        await others[1].keep_lease_alive(lease)
        status = await others[1].lease_status(lease)
        assert (status.keys, status.ttl_ms) == ((b"a",), 60_000)
        assert 50_000 < status.left_ms <= 60_000
        assert [found.lease for found in await one.leases()] == [lease]
        await one.revoke_lease(lease)
        assert await others[0].get(b"a") is None
        with pytest.raises(NoLease):
            await others[0].put(b"a", b"1", lease=lease)
        changes = others[0].watch(b"a", position=(await one.prefix(b"a")).position)
        with trio.fail_after(PATIENT_S):
            while True:
                brief = await one.grant_lease(1)
                with suppress(NoLease):  # it has ended already where the machine is busy
                    await one.put(b"a", b"1", lease=brief)
                    break
            while (await anext(changes)).kind != ChangeKind.EXPIRE:
                pass
        async with one.lock(b"l", ttl_s=60):
            waiting = one.watch(b"l/waiting/")
            for number, store in enumerate(others):
                nursery.start_soon(work, store, number)
                with trio.fail_after(PATIENT_S):
                    assert (await anext(waiting)).kind == ChangeKind.PUT
        with trio.fail_after(PATIENT_S):
            for _ in others:
                assert (await anext(waiting)).kind == ChangeKind.DELETE
        assert got == [0, 1]
        await check_equal(one, others[0])


async def test_a_namespace_of_several_partitions_is_at_every_proxy(tmp_path: Path) -> None:
    async with cluster(tmp_path) as upstream, proxy(upstream) as one, proxy(upstream) as two:
        async with open_kv_store(name_servers=one, namespace="jobs", timeout_s=PATIENT_S) as store:
            with pytest.raises(NoNamespace):
                await store.get(b"a")
            await store.create(4, ["broker-a"])
            for number in range(20):
                await store.put(b"%d" % number, b"x")
            with pytest.raises(KvRejected, match="4 partitions"):
                await store.create(3, ["broker-a"])
        async with open_kv_store(name_servers=two, namespace="jobs", timeout_s=PATIENT_S) as store:
            assert len((await store.prefix(b"")).entries) == 20
            statuses = await store.statuses()
            assert [status.partition for status in statuses] == [0, 1, 2, 3]
            assert len({status.identity for status in statuses}) == 1
            assert [info.partitions for info in await store.namespaces() if info.identity] == [4]


async def test_a_deleted_namespace_begins_again(tmp_path: Path) -> None:
    async with stores(tmp_path, 2) as (one, two):
        await one.put(b"a", b"1")
        before = (await two.status()).identity
        await two.delete_namespace()
        with pytest.raises(NoNamespace):
            await one.get(b"a")
        await one.create()
        assert await two.get(b"a") is None
        assert await two.put(b"b", b"1") is not None
        assert (await one.status()).identity != before


@pytest.mark.slow
async def test_clients_of_two_proxies_see_one_store(tmp_path: Path) -> None:
    history = History([b"a", b"b", b"c"])
    async with stores(tmp_path, 2) as (one, two), trio.open_nursery() as nursery:
        for name, store in enumerate((one, two, one, two)):
            nursery.start_soon(work, store, history, name)
        with trio.fail_after(120):
            while history.answered < 400:  # noqa: ASYNC110 - the clients have nobody to tell
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert history.is_linearizable


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.KV_GET, {"key": encode_key(b"k")}),
        (RequestCode.KV_WATCH, {"position": "0"}),
        (RequestCode.KV_STATUS, {}),
        (RequestCode.KV_WRITE, {"opType": OpType.PUT}),
    ],
)
async def test_namespaces_that_one_address_asks_for_leave_turns_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fields: dict[str, str]
) -> None:
    looked_for = list[str]()

    async def find_log(_client: object, _admin: object, topic: str) -> None:
        looked_for.append(topic.removeprefix(PREFIX))
        await trio.sleep_forever()

    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(cluster(tmp_path))
        config = gateway_config(upstream, keys=True)
        gateway = await stack.enter_async_context(open_gateway(config))
        await until_seen(gateway, "broker-a")
        (port,) = gateway.brokers.ports.values()
        monkeypatch.setattr(_namespaces, "find_log", find_log)
        nursery = await stack.enter_async_context(trio.open_nursery())

        async def ask(host: str, *names: str) -> None:
            ours, theirs = memory_stream_pair()
            at = HostAddress(host, 40001)
            nursery.start_soon(partial(port.server.serve_stream, theirs, peer=at))
            client = Client(Peer(ours))
            body = encode_steps([Step(b"k", Action.PUT, b"v")])
            asked = [client.frame(code, {"namespace": name, **fields}, body) for name in names]
            await client.peer.send(*asked)

        await ask("10.9.9.9", *(f"unknown{number}" for number in range(200)))
        await until(lambda: bool(looked_for))
        await ask("10.1.1.1", "other")
        await until(lambda: "other" in looked_for)
        assert len(looked_for) < 100
        nursery.cancel_scope.cancel()


async def test_who_no_longer_waits_for_a_namespace_leaves_its_turn_to_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rotation, "WAITING_MAX", 40)
    looked_for, codes = Counter[str](), Counter[int]()

    async def find_log(_client: object, _admin: object, topic: str) -> None:
        looked_for[topic.removeprefix(PREFIX)] += 1
        await trio.sleep(1)

    monkeypatch.setattr(_namespaces, "find_log", find_log)
    client: Any = None
    async with trio.open_nursery() as nursery:
        namespaces = _namespaces.KeyNamespaces(client, ["10.0.0.9:9876"])

        async def ask(name: str) -> None:
            with pytest.raises(Refused) as refused:
                await namespaces.open(name, host="10.9.9.9")
            codes[refused.value.code] += 1

        for _ in range(2):
            with trio.move_on_after(0.5):
                async with trio.open_nursery() as given_up:
                    for number in range(100):
                        given_up.start_soon(ask, f"unknown{number}")
        assert codes.pop(ResponseCode.SYSTEM_BUSY) > 100, "there is no room for so many"
        assert codes == {}
        looked_for.clear()
        for _ in range(20):
            nursery.start_soon(ask, "missing")
        await trio.sleep(10)
        assert codes == {ResponseCode.KV_NAMESPACE_NOT_EXIST: 20}
        assert looked_for["missing"] < 20, "what was missing a moment ago is"


async def test_namespaces_made_by_one_address_leave_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_namespaces, "PARTITIONS_MAX", 8)
    async with cluster(tmp_path) as upstream, proxy(upstream) as address:

        async def create(number: int) -> None:
            name = f"n{number}"
            async with open_kv_store(name_servers=address, namespace=name, timeout_s=2.0) as store:
                await store.create()

        for number in range(7):
            await create(number)
        with pytest.raises(LanemqError, match=r"127\.0\.0\.1 have made 7 of the 8 namespaces"):
            await create(7)
