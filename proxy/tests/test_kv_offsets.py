"""Positions of consumers in the key-value store, in all faces."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    LitePullOptions,
    Message,
    MessageModel,
    OrderlyListener,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    WrongUse,
    aio,
    blocking,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.aio.kv import open_kv_store as open_asyncio
from lanemq.sdk.blocking.kv import open_kv_store as open_blocking
from lanemq.sdk.kv import KeyValueStore, KvOffsetStore, KvRejected, NoNamespace, open_kv_store
from lanemq.testing import TestServer, open_test_server
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord

QUEUE = MessageQueue("T", "b", 3)
FIRST = ConsumeFrom.FIRST_OFFSET
SETTINGS = {"defaultTopicQueueNums": "1"}


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[TestServer, KeyValueStore]]:
    async with (
        open_test_server(SETTINGS) as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        yield server, store


async def send(server: TestServer, *bodies: bytes) -> None:
    async with open_producer("p", name_servers=server.name_servers, send_timeout_s=60) as producer:
        for body in bodies:
            await producer.send(Message(topic="T", body=body))


async def test_what_is_saved_is_loaded_by_the_next_consumer() -> None:
    async with opened() as (_, store):
        first = KvOffsetStore(store, "g")
        assert await first.load_offset(QUEUE) is None
        await first.save_offset(QUEUE, 7)
        await first.save_offset(QUEUE, 9)
        assert await KvOffsetStore(store, "g").load_offset(QUEUE) == 9
        assert await KvOffsetStore(store, "other").load_offset(QUEUE) is None
        await first.save_offset(QUEUE, 2)  # as an operator wishes
        assert await first.load_offset(QUEUE) == 2
        entry = await store.get(b"offsets/g/T/b/3")
        assert entry is not None
        assert entry.value == b"2"


async def test_a_consumer_that_was_replaced_moves_nobody_back() -> None:
    async with opened() as (_, store):
        late, now = KvOffsetStore(store, "g"), KvOffsetStore(store, "g")
        await late.save_offset(QUEUE, 5)
        assert await now.load_offset(QUEUE) == 5
        await late.save_offset(QUEUE, 6)
        await now.save_offset(QUEUE, 8)  # further than what has come in between
        await late.save_offset(QUEUE, 7)
        assert await now.load_offset(QUEUE) == 8
        await late.save(QUEUE, StageRecord(8, 3))
        await now.save(QUEUE, StageRecord(9, 4))
        assert await late.load(QUEUE) == StageRecord(9, 4)
        stale = KvOffsetStore(store, "g")
        await stale.load(QUEUE)
        await now.save(QUEUE, StageRecord(10, 0))
        await stale.save(QUEUE, StageRecord(9, 9))
        assert await now.load(QUEUE) == StageRecord(10, 0)
        await now.save(QUEUE, StageRecord(10, 2), "gold")
        assert await now.load(QUEUE, "gold") == StageRecord(10, 2)
        assert await now.load(QUEUE, "silver") is None


async def test_a_consumer_that_was_replaced_moves_nobody_back_at_its_second_save() -> None:
    async with opened() as (_, store):
        late, now = KvOffsetStore(store, "g"), KvOffsetStore(store, "g")
        await late.save_offset(QUEUE, 5)
        assert await now.load_offset(QUEUE) == 5
        await now.save_offset(QUEUE, 8)
        for offset in (6, 7, 7):
            await late.save_offset(QUEUE, offset)
            assert await now.peek_offset(QUEUE) == 8
        assert await late.peek_offset(QUEUE) == 8
        await late.save_offset(QUEUE, 7)
        assert await late.load_offset(QUEUE) == 8  # it has the queue again
        await late.save_offset(QUEUE, 3)
        assert await now.load_offset(QUEUE) == 3


async def test_a_reader_that_asks_what_is_committed_moves_nobody_back() -> None:
    async with opened() as (server, store):
        await send(server, b"0", b"1")
        options = LitePullOptions(
            offset_store=KvOffsetStore(store, "g"), consume_from=FIRST, auto_commit=False
        )
        async with open_lite_pull_consumer(
            "g", name_servers=server.name_servers, options=options
        ) as consumer:
            (queue,) = await consumer.queues_of("T")
            await consumer.assign([queue])
            another = KvOffsetStore(store, "g")
            await another.save_offset(queue, 2)
            assert await consumer.committed(queue) == 2
            await consumer.commit({queue: 1})
            assert await another.load_offset(queue) == 2


async def test_what_cannot_be_a_position_is_said() -> None:
    async with opened() as (_, store):
        with pytest.raises(KvRejected, match="offset store"):
            KvOffsetStore(store, "a/b")
        await store.put(b"offsets/g/T/b/3", b"rubbish")
        with pytest.raises(LanemqError, match="not a position"):
            await KvOffsetStore(store, "g").load_offset(QUEUE)
        with pytest.raises(ValueError, match="clustering"):
            PushOptions(
                offset_store=KvOffsetStore(store, "g"), message_model=MessageModel.BROADCASTING
            )


async def test_a_position_of_a_namespace_that_may_be_elsewhere_is_not_the_begin() -> None:
    async with opened() as (server, _):
        server._broker.broker._kv.writes.new._is_alone = lambda: False  # type: ignore[union-attr]
        async with open_kv_store(name_servers=server.name_servers) as store:
            with pytest.raises(NoNamespace, match="another broker could have it"):
                await KvOffsetStore(store, "g").load_offset(QUEUE)


@pytest.mark.parametrize("kind", [ConcurrentListener, OrderlyListener])
async def test_a_push_consumer_goes_on_from_its_key(
    kind: type[ConcurrentListener] | type[OrderlyListener],
) -> None:
    async with opened() as (server, store):
        for round_number in range(2):
            await send(server, *(b"%d" % (3 * round_number + n) for n in range(3)))
            got: list[bytes] = []
            done = trio.Event()

            async def handle(
                messages: Sequence[ReceivedMessage],
                got: list[bytes] = got,
                done: trio.Event = done,
            ) -> None:
                got.extend(message.body for message in messages)
                if len(got) == 3:
                    done.set()

            options = PushOptions(offset_store=KvOffsetStore(store, "g"), consume_from=FIRST)
            async with open_push_consumer(
                "g",
                name_servers=server.name_servers,
                subscriptions={"T": "*"},
                listener=kind(handle),
                options=options,
            ):
                with trio.fail_after(60):
                    await done.wait()
            assert sorted(got) == [b"%d" % (3 * round_number + n) for n in range(3)]
            keys = [one.key for one in (await store.prefix(b"offsets/g/T/")).entries]
            assert len(keys) == 1
        assert (await store.multi_get(keys))[0].value == b"6"  # type: ignore[union-attr]


async def test_a_staged_listener_keeps_its_stages_there() -> None:
    async with opened() as (server, store):
        await send(server, *(b"%d" % n for n in range(5)))
        got: list[bytes] = []
        done = trio.Event()

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            got.extend(message.body for message in messages)
            if len(got) == 5:
                done.set()

        options = PushOptions(offset_store=KvOffsetStore(store, "g"), consume_from=FIRST)
        async with open_push_consumer(
            "g",
            name_servers=server.name_servers,
            subscriptions={"T": "*"},
            listener=StagedConcurrentListener(handle, stages=[1, 3]),
            options=options,
        ):
            with trio.fail_after(60):
                await done.wait()
        (key,) = [one.key for one in (await store.prefix(b"stages/g/T/")).entries]
        entry = await store.get(key)
        assert entry is not None
        record = StageRecord.unpack(int(entry.value))
        assert record is not None
        assert (record.queue_offset, record.stage_offset, record.settled) == (5, 5, True)
        (offset,) = (await store.prefix(b"offsets/g/T/")).entries
        assert offset.value == b"5"


async def test_a_lite_pull_consumer_commits_message_by_message() -> None:
    async with opened() as (server, store):
        await send(server, *(b"%d" % n for n in range(4)))
        for expected in (b"0", b"1", b"2"):
            options = LitePullOptions(
                offset_store=KvOffsetStore(store, "g"), consume_from=FIRST, auto_commit=False
            )
            async with open_lite_pull_consumer(
                "g", name_servers=server.name_servers, options=options
            ) as consumer:
                (queue,) = await consumer.queues_of("T")
                await consumer.assign([queue])
                async for message in consumer:
                    assert message.body == expected
                    await consumer.commit()
                    assert await consumer.committed(queue) == int(expected) + 1
                    break


def test_the_blocking_face_takes_it() -> None:
    with open_test_server(SETTINGS) as server, open_blocking(name_servers=server.name_servers) as s:
        trio.run(send, server, b"1", b"2")
        done = threading.Event()
        got: list[bytes] = []

        def handle(messages: Sequence[ReceivedMessage]) -> None:
            got.extend(message.body for message in messages)
            if len(got) == 2:
                done.set()

        store = KvOffsetStore(s, "g")
        listener = blocking.StagedConcurrentListener(handle, stages=[1], store=store)
        with blocking.open_push_consumer(
            "g",
            name_servers=server.name_servers,
            subscriptions={"T": "*"},
            listener=listener,
            offset_store=store,
            consume_from=FIRST,
        ):
            assert done.wait(60)
        assert [one.value for one in s.prefix(b"offsets/g/T/").entries] == [b"2"]
        with pytest.raises(WrongUse, match="takes a KvOffsetStore"):  # noqa: SIM117
            with blocking.open_lite_pull_consumer(
                "g",
                name_servers=server.name_servers,
                offset_store=object(),  # type: ignore[arg-type]
            ):
                pass


def test_the_asyncio_face_takes_it() -> None:
    async def main(server: TestServer) -> None:
        async with open_asyncio(name_servers=server.name_servers) as store:
            async with aio.open_producer(
                "p", name_servers=server.name_servers, send_timeout_s=60
            ) as producer:
                await producer.send(Message(topic="T", body=b"1"))
            async with aio.open_lite_pull_consumer(
                "g",
                name_servers=server.name_servers,
                offset_store=KvOffsetStore(store, "g"),
                consume_from=FIRST,
                auto_commit=False,
            ) as consumer:
                await consumer.assign(await consumer.queues_of("T"))
                async for message in consumer:
                    assert message.body == b"1"
                    await consumer.commit()
                    break
            page = await store.prefix(b"offsets/g/T/")
            assert [one.value for one in page.entries] == [b"1"]

    with open_test_server(SETTINGS) as server:
        asyncio.run(main(server))
