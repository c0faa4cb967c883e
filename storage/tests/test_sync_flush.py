"""``FlushMode.SYNC``: nobody reads what a loss of power may take away."""

from pathlib import Path

import trio
import trio.testing

from lanemq.storage import FlushMode, GetStatus, NewMessage, Store, StoreConfig, open_store
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import HOST
from lanemq.wire.bodies import TopicConfig


def config(flush: FlushMode) -> StoreConfig:
    return StoreConfig(
        root=Path("/store"),
        commit_log_file_bytes=1 << 16,
        consume_queue_file_bytes=2000,
        max_hash_slots=10,
        max_index_entries=40,
        flush=flush,
    )


def message(body: bytes) -> NewMessage:
    return NewMessage(
        topic="T",
        queue_id=0,
        body=body,
        properties=b"",
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )


def visible(store: Store) -> int:
    got = store.get("T", 0, 0, max_count=32)
    assert len(got.records) == store.bounds("T", 0)[1]
    return len(got.records)


async def test_a_message_is_visible_once_it_is_durable(autojump_clock: object) -> None:
    async with open_store(config(FlushMode.SYNC), files=SimulatedFiles()) as store:
        arrived: list[int] = []
        store.on_arrival.append(lambda topic, queue_id, end, code: arrived.append(end))
        put = store.put(message(b"a"))
        store.commit()
        assert (visible(store), arrived) == (0, [])
        await store.flushed(put.end)
        assert (visible(store), arrived) == (1, [1])


async def test_a_flush_shows_what_it_covers_and_no_more(autojump_clock: object) -> None:
    async with open_store(config(FlushMode.SYNC), files=SimulatedFiles()) as store:
        seen: list[int] = []
        store.on_durable.append(lambda: seen.append(visible(store)))
        first = store.put(message(b"a"))
        store.commit()
        async with trio.open_nursery() as nursery:

            async def put_while_the_disk_is_at_work() -> None:
                await trio.testing.wait_all_tasks_blocked()
                second = store.put(message(b"b"))
                store.commit()
                assert second.queue_offset == 1
                await store.flushed(second.end)

            nursery.start_soon(put_while_the_disk_is_at_work)
            await store.flushed(first.end)
        assert seen == [1, 2]


async def test_nobody_has_to_ask_for_it(autojump_clock: object) -> None:
    """A sender that does not wait for the disk is read soon all the same."""
    async with open_store(config(FlushMode.SYNC), files=SimulatedFiles()) as store:
        became_visible = trio.Event()
        store.on_durable.append(became_visible.set)
        store.put(message(b"a"))
        store.commit()
        with trio.fail_after(0.2):
            await became_visible.wait()
        assert visible(store) == 1


async def test_without_it_a_message_is_visible_at_once(autojump_clock: object) -> None:
    async with open_store(config(FlushMode.ASYNC), files=SimulatedFiles()) as store:
        assert store.get("T", 0, 0, max_count=1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
        store.put(message(b"a"))
        store.commit()
        assert visible(store) == 1


async def test_a_topic_is_as_durable_as_the_messages_in_it(autojump_clock: object) -> None:
    files = SimulatedFiles()
    async with open_store(config(FlushMode.SYNC), files=files) as store:
        store.tables.topics.put(TopicConfig("T"))
        put = store.put(message(b"a"))
        store.commit()
        await store.flushed(put.end)
        files.kill()
        after = files.reboot("power")
        files.revive()
    async with open_store(config(FlushMode.SYNC), files=after) as store:
        assert store.tables.topics.get("T") is not None
        assert visible(store) == 1
