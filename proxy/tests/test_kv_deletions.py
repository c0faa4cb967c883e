"""Namespaces that are deleted: durably, with a clear error, and free to be created again."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.proxy.broker.kv import _namespaces
from lanemq.proxy.broker.kv._deletions import Deletions
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk.kv import KeyValueStore, KvCompacted, NoNamespace, open_kv_store
from lanemq.storage import KvEngine
from lanemq.storage.tools import verify_kv
from lanemq.testing import TestServer, open_test_server
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.processes import server_process
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    Action,
    NamespaceStatus,
    OpType,
    Step,
    WriteAnswer,
    decode_answer,
    encode_drop,
    encode_key,
    encode_steps,
    kv_topic,
)

LATER: Final = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
KEY: Final = {"key": encode_key(b"k")}


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[TestServer, KeyValueStore]]:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        yield server, store


async def test_a_deleted_namespace_is_another_one_when_it_is_created_again() -> None:
    async with opened() as (server, store):
        await store.put(b"k", b"1")
        before = await store.status()
        changes = store.watch()
        await store.delete_namespace()
        with pytest.raises(NoNamespace):
            await store.get(b"k")
        with pytest.raises(NoNamespace):
            await anext(changes)
        with pytest.raises(NoNamespace):
            await store.delete_namespace()
        await store.create()
        assert await store.get(b"k") is None
        assert await store.put(b"k", b"2") == 1
        after = await store.status()
        assert (after.entries, after.identity == before.identity) == (1, False)
        assert [one.identity for one in await store.namespaces()] == [after.identity]
        async with open_kv_store(name_servers=server.name_servers) as other:
            entry = await other.get(b"k")
            assert entry is not None
            assert entry.value == b"2"


async def test_a_watch_that_waits_ends_when_its_namespace_is_deleted() -> None:
    async with opened() as (_, store), trio.open_nursery() as nursery:
        await store.put(b"k", b"1")
        ended = trio.Event()

        async def read() -> None:
            async for _ in store.watch(position=0):
                first.set()

        async def watch() -> None:
            with pytest.raises(NoNamespace, match="was deleted"):
                await read()
            ended.set()

        first = trio.Event()
        nursery.start_soon(watch)
        with trio.fail_after(60):
            await first.wait()
            await store.delete_namespace()
            await ended.wait()


@pytest.mark.parametrize("of_one_key", [False, True])
@pytest.mark.parametrize("from_now", [False, True])
async def test_a_watch_does_not_go_on_in_a_later_namespace_of_the_name(
    of_one_key: bool, from_now: bool
) -> None:
    async with opened() as (_, store):
        await store.put(b"k", b"1")
        key, position = b"k" if of_one_key else None, None if from_now else 0
        changes = store.watch(key=key, position=position)

        async def see_all() -> None:
            while (await anext(changes)).value != b"2":  # both may come in one answer
                pass

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(see_all)
                while changes.position is None:
                    await store.get(b"k")  # until its first question is answered
                await store.put(b"k", b"2")
        await store.delete_namespace()
        await store.create()
        for number in range(20):
            await store.put(b"k", b"new %d" % number)
        with pytest.raises(KvCompacted, match="was deleted and has been made again"):
            await anext(changes)
        again = store.watch(key=key, position=0)
        assert (await anext(again)).value == b"new 0"


async def test_namespaces_of_several_partitions_are_deleted_whole_and_made_with_others() -> None:
    async with opened() as (server, store):
        for partitions in (4, 2, 1, 3):
            await store.create(partitions, [server.broker_name])
            await store.put(b"k", b"%d" % partitions)
            assert (await store.status()).partitions == partitions
            await store.delete_namespace()
            with pytest.raises(NoNamespace):
                await store.get(b"k")


async def test_the_limit_counts_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_namespaces, "PARTITIONS_HERE_MAX", 2)
    async with open_test_server() as server:
        for number in range(6):
            store = open_kv_store(name_servers=server.name_servers, namespace=f"n{number}")
            async with store as opened_store:
                await opened_store.put(b"k", b"v")
                await opened_store.delete_namespace()


# At a broker whose removal can be interrupted


@pytest.fixture
def no_removal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    async def remove(self: Deletions) -> bool:
        return True

    monkeypatch.setattr(Deletions, "remove", remove)
    return monkeypatch


async def write(client: Client, op_type: str, body: bytes, **fields: str) -> Frame:
    return await client.call(RequestCode.KV_WRITE, {"opType": op_type, **fields}, body)


async def put(client: Client) -> Frame:
    body = encode_steps([Step(b"k", Action.PUT, b"v")])
    with trio.fail_after(60):
        while True:
            answer = await write(client, OpType.PUT, body, createAt="*")
            if answer.code not in LATER:
                return answer
            await trio.sleep(0.01)


async def status(client: Client) -> NamespaceStatus:
    answer = await client.call(RequestCode.KV_STATUS, {"namespace": "default"})
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    (found,) = decode_answer(answer.body, list[NamespaceStatus])
    return found


async def drop(client: Client) -> Frame:
    identity = (await status(client)).identity
    return await write(client, OpType.DROP, encode_drop(identity))


def is_removed(broker: TestBroker) -> bool:
    context, topic = broker.context, kv_topic("default")
    assert context.store.kv is not None
    return not (context.store.kv.states or context.logical.get(topic) or context.topics.get(topic))


async def until_removed(broker: TestBroker) -> None:
    with trio.fail_after(60):
        while not is_removed(broker):  # noqa: ASYNC110 - a task of the broker's does it
            await trio.sleep(0.01)


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_a_deletion_that_a_stop_interrupts_is_finished_by_the_next_start(
    tmp_path: Path, engine: KvEngine, no_removal: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path, kv_engine=engine) as broker:
        client = broker.connect()
        await put(client)
        assert (await drop(client)).code == ResponseCode.SUCCESS
        assert (await client.call(RequestCode.KV_GET, KEY)).code == (
            ResponseCode.KV_NAMESPACE_NOT_EXIST
        )
        again = await write(client, OpType.CREATE, b"", createAt="*")
        assert again.code == ResponseCode.SYSTEM_BUSY
    assert verify_kv(tmp_path).is_sound
    no_removal.undo()
    async with open_test_broker(tmp_path, kv_engine=engine) as broker:
        await until_removed(broker)
        client = broker.connect()
        assert (await put(client)).code == ResponseCode.SUCCESS
        assert (await status(client)).position == 1
    report = verify_kv(tmp_path)
    assert report.is_sound, report.findings
    async with open_test_broker(tmp_path, kv_engine=engine) as broker:
        found = await broker.connect().call(RequestCode.KV_GET, KEY)
        assert found.code == ResponseCode.SUCCESS


STEPS: Final = ("_delete_topic", "forget", "drop")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("engine", list(KvEngine))
async def test_a_removal_that_fails_anywhere_is_done_again(
    tmp_path: Path, engine: KvEngine, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its steps fails once, and once more before a restart."""
    async with open_test_broker(tmp_path, kv_engine=engine) as broker:
        client = broker.connect()
        await put(client)
        kv = broker.broker._kv
        assert kv is not None
        deletions, states = kv.deletions, broker.context.store.kv
        assert states is not None

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            if step == "_delete_topic":
                patch.setattr(deletions, "_delete_topic", fail)
            elif step == "forget":
                patch.setattr(deletions._logical, "forget", fail)
            else:
                patch.setattr(states.kept, "drop", fail)
            assert (await drop(client)).code == ResponseCode.SUCCESS
            assert not await deletions.remove()
            assert not is_removed(broker)
            if engine is KvEngine.MEMORY:
                await states.flush()
    async with open_test_broker(tmp_path, kv_engine=engine) as broker:
        await until_removed(broker)
        assert (await put(broker.connect())).code == ResponseCode.SUCCESS


async def test_a_drop_of_another_identity_deletes_nothing(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, kv_engine=KvEngine.MEMORY) as broker:
        client = broker.connect()
        await put(client)
        answer = await write(client, OpType.DROP, encode_drop("another"))
        assert not decode_answer(answer.body, WriteAnswer).done
        bad = await write(client, OpType.DROP, b"\xff")
        assert bad.code == ResponseCode.INVALID_PARAMETER
        assert (await client.call(RequestCode.KV_GET, KEY)).code == ResponseCode.SUCCESS


KILLS: Final = 8
CONFIG: Final = "logicalListenPort = -1\nmappedFileSizeCommitLog = 1048576\n"


@pytest.mark.slow
async def test_a_kill_in_a_deletion_leaves_the_namespace_whole_or_gone(tmp_path: Path) -> None:
    """And what was answered as deleted is gone, what is created then is another namespace."""
    rng = random.Random(7)
    (tmp_path / "broker.conf").write_text(CONFIG)
    names = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with open_nameserver(names) as server:
        command = ["broker", "-c", "broker.conf", "-n", server.address, "--name", "b"]
        command += ["--host", "127.0.0.1", "--port", "0", "--data", "store"]
        stored, deleted, identities = 0, False, set[str]()
        for number in range(1, KILLS + 1):
            store_of = open_kv_store(name_servers=server.address, broker="b", timeout_s=60)
            async with server_process(command, directory=tmp_path), store_of as store:
                with trio.fail_after(120):
                    entry = await store.checkpoint("c").load()
                    assert entry in ({None} if deleted else {None, b"%d" % stored})
                    await store.put(b"checkpoint/c", b"%d" % number)
                    identities.add((await store.status()).identity)
                stored, deleted = number, False
                with trio.move_on_after(rng.uniform(0.001, 0.1)):
                    await store.delete_namespace()
                    deleted = True
            report = verify_kv(tmp_path / "store")
            assert report.is_sound, report.findings
    assert len(identities) > 1
