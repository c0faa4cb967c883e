"""A namespace is at one broker: none makes a second one while the first is down."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, get_ident

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.local import replace_file
from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServerConfig, _known, open_nameserver
from lanemq.proxy.nameserver._known import KnownBrokers
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk import NoRoute
from lanemq.sdk.kv import NoNamespace, open_kv_store
from lanemq.storage import KvEngine
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.brokers import SMALL_STORE, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.kv import Action, OpType, Step, encode_steps

HOST = "10.0.0.1"


@asynccontextmanager
async def name_server(root: Path) -> AsyncIterator[str]:
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=root / "kv.json"
    )
    async with open_nameserver(config) as opened:
        yield opened.address


@asynccontextmanager
async def running(root: Path, name: str, name_servers: str) -> AsyncIterator[RunningBroker]:
    config = BrokerConfig(
        broker_name=name,
        bind_address="127.0.0.1",
        listen_port=0,
        logical_listen_port=-1,
        namesrv_addr=name_servers,
        store_path_root_dir=root / name,
        kv_engine=KvEngine.MEMORY,
        **SMALL_STORE,  # type: ignore[arg-type]
    )
    async with open_broker(config) as broker:
        yield broker


def namespaces(broker: RunningBroker) -> list[str]:
    kv = broker.broker.context.store.kv
    assert kv is not None
    return sorted(kv.states)


@pytest.mark.slow
async def test_the_broker_that_is_left_makes_no_second_namespace(tmp_path: Path) -> None:
    async with name_server(tmp_path) as address:
        known = open_kv_store(name_servers=address, timeout_s=5)
        async with running(tmp_path, "b", address) as left, known as knows_it:
            async with running(tmp_path, "a", address):
                async with open_kv_store(name_servers=address, broker="a") as store:
                    assert await store.put(b"k", b"1") == 1
                    await store.checkpoint("c").save(b"17")
                assert await knows_it.put(b"k", b"2") == 2
                async with open_kv_store(name_servers=address, broker="b") as elsewhere:
                    with pytest.raises(NoNamespace, match="broker a has it, and not b"):
                        await elsewhere.put(b"k", b"split")
            # Its holder is down, and no longer registered.
            with pytest.raises(NoRoute, match="broker a is not registered now"):
                await knows_it.put(b"k", b"split")
            async with open_kv_store(name_servers=address, timeout_s=1) as store:
                with pytest.raises(NoRoute, match="broker a is not registered now"):
                    await store.put(b"k", b"split")
                with pytest.raises(NoRoute, match="broker a is not registered now"):
                    await store.get(b"k")
                with pytest.raises(NoRoute, match="broker a is not registered now"):
                    await store.checkpoint("c").load()  # which is not the begin of it
                with pytest.raises(NoNamespace, match="broker a has it, and not b"):
                    await store.create(brokers=["b"])
            assert namespaces(left) == []
            async with running(tmp_path, "a", address):
                assert await knows_it.put(b"k", b"3") == 3
                async with open_kv_store(name_servers=address) as store:
                    assert await store.checkpoint("c").load() == b"17"
            assert namespaces(left) == []


@pytest.mark.slow
async def test_of_several_brokers_nobody_chooses(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as address,
        running(tmp_path, "a", address),
        running(tmp_path, "b", address) as chosen,
    ):
        async with open_kv_store(name_servers=address) as store:
            with pytest.raises(NoNamespace, match="with broker=, one of a, b"):
                await store.put(b"k", b"v")
        async with open_kv_store(name_servers=address, broker="b") as store:
            await store.create()
        assert namespaces(chosen) == ["default"]
        async with open_kv_store(name_servers=address) as store:
            assert await store.put(b"k", b"v") == 1


async def test_a_broker_with_its_own_name_server_makes_them_until_it_has_company(
    tmp_path: Path,
) -> None:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        assert await store.put(b"k", b"v") == 1
        async with running(tmp_path, "guest", server.name_servers):
            pass
        assert await store.put(b"k", b"v") == 2
        jobs = open_kv_store(name_servers=server.name_servers, namespace="jobs")
        async with jobs as other:
            with pytest.raises(NoNamespace, match="another broker could have it"):
                await other.put(b"k", b"v")
        named = open_kv_store(
            name_servers=server.name_servers, namespace="jobs", broker=server.broker_name
        )
        async with named as other:
            assert await other.put(b"k", b"v") == 1


async def test_brokers_are_known_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "knownBrokers.json"
    known = KnownBrokers(path)
    assert known.names == frozenset()
    for name, is_new in (("a", True), ("b", True), ("a", False)):
        assert known.note(name, HOST) == is_new
        await known.write()
    assert KnownBrokers(path).names == {"a", "b"}
    path.write_text("rubbish")
    assert KnownBrokers(path).names, "that there was nobody is not known"
    path.write_text(json.dumps([f"n{number}" for number in range(1024)]))
    full = KnownBrokers(path)
    assert not full.note("one more", HOST)
    assert len(full.names) == 1024
    assert full.may_know("one more"), "nor is it known that it was not there"


async def test_a_name_that_cannot_be_written_is_written_at_the_next_registration(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").write_text("a file where a directory should be")
    path = tmp_path / "sub" / "knownBrokers.json"
    known = KnownBrokers(tmp_path / "other.json")
    known._path = path
    assert known.note("a", HOST)
    await known.write()
    assert known.names == {"a"}
    (tmp_path / "sub").unlink()
    assert known.note("a", HOST)
    await known.write()
    assert KnownBrokers(path).names == {"a"}


async def test_names_are_written_beside_the_loop_and_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, loop, writes = tmp_path / "knownBrokers.json", get_ident(), list[set[str]]()
    may_go, known = Event(), KnownBrokers(path)

    def write(path: Path, data: bytes) -> None:
        assert get_ident() != loop
        writes.append(set(json.loads(data)))
        assert may_go.wait(60)
        replace_file(path, data)

    monkeypatch.setattr(_known, "replace_file", write)

    async def register(number: int) -> None:
        assert known.note(f"n{number}", HOST)
        await known.write()
        assert f"n{number}" in json.loads(path.read_bytes())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(register, 0)
        await wait_all_tasks_blocked()
        for number in range(1, 101):
            nursery.start_soon(register, number)
        await wait_all_tasks_blocked()
        may_go.set()
    assert [len(names) for names in writes] == [1, 101]


async def test_an_address_leaves_names_to_others(tmp_path: Path) -> None:
    path = tmp_path / "knownBrokers.json"
    known = KnownBrokers(path)
    for number in range(2000):
        known.note(f"many {number}", HOST)
    assert len(known.names) == 1024 * 3 // 4 + 2, "those of its share, and one for the rest"
    assert known.note("another", "10.0.0.2")
    await known.write()
    kept = KnownBrokers(path)
    assert "another" in kept.names
    assert kept.may_know("many 1999"), "that one was not kept is kept"


@pytest.mark.parametrize(
    ("place", "said"),
    [(None, "no namespace 'default' of keys at broker"), ("elsewhere", "which is not elsewhere")],
)
async def test_a_write_that_does_not_name_this_broker_makes_nothing(
    tmp_path: Path, place: str | None, said: str
) -> None:
    async with open_test_broker(tmp_path, kv_engine=KvEngine.MEMORY) as broker:
        client = broker.connect()
        fields = {"opType": OpType.PUT} | ({"createAt": place} if place else {})
        body = encode_steps([Step(b"k", Action.PUT, b"v")])
        answer = await client.call(RequestCode.KV_WRITE, fields, body)
        assert answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST
        assert said in (answer.remark or "")
        assert broker.context.store.max_position <= 0
        here = {**fields, "createAt": broker.context.config.broker_name}
        made = await client.call(RequestCode.KV_WRITE, here, body)
        assert made.code == ResponseCode.SUCCESS


async def test_a_store_that_waits_for_its_holder_goes_on_when_it_is_back(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as address,
        open_kv_store(name_servers=address, broker="a") as store,
        trio.open_nursery() as nursery,
    ):
        done = trio.Event()

        async def put() -> None:
            assert await store.put(b"k", b"v") == 1
            done.set()

        nursery.start_soon(put)
        async with running(tmp_path, "a", address):
            with trio.fail_after(60):
                await done.wait()
