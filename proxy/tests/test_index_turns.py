"""The keys of many messages that come at once take the event loop short turns."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanemq.proxy.broker.handlers.sends._send_special import BATCH_MESSAGES_MAX
from lanemq.storage import NewMessage
from lanemq.testkit.proxy.brokers import ADDRESS, Client, TestBroker, open_test_broker
from lanemq.testkit.reading_time import REQUEST_S, longest_step, slowness
from lanemq.wire import RequestCode
from lanemq.wire.headers import QueryMessage
from lanemq.wire.message import BatchEntry, decode_messages, encode_batch, encode_properties


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_test_broker(
        tmp_path,
        max_index_num=500_000,
        max_hash_slot_num=100_000,
        mapped_file_size_commit_log=32 << 20,
        mapped_file_size_consume_queue=1 << 20,
    ) as broker:
        yield broker


async def found(client: Client, key: str) -> int:
    """Return the number of messages found by a key."""
    fields = QueryMessage("T", key, 32, 0, 1 << 60).to_fields()
    return len(decode_messages((await client.call(RequestCode.QUERY_MESSAGE, fields)).body))


def append(broker: TestBroker, keys: str) -> None:
    broker.context.writer.append(
        NewMessage(
            topic="T",
            queue_id=0,
            body=b"",
            properties=encode_properties({"KEYS": keys}),
            born_timestamp_ms=1,
            born_host=ADDRESS.packed,
            store_host=ADDRESS.packed,
        )
    )


async def test_many_keys_of_one_commit_are_indexed_in_turns_for_which_senders_wait(
    broker: TestBroker,
) -> None:
    """1,960 messages of 64 keys held the loop for 93 ms."""
    taken: list[float] = []
    committed: list[float] = []
    context, client = broker.context, broker.connect()
    await client.send(properties={"KEYS": "first"})
    for begin in range(0, 6000, 2000):
        for number in range(begin, begin + 2000):
            append(broker, " ".join(f"k{number}-{each}" for each in range(64)))
        begun_s = time.thread_time()
        context.commit()
        committed.append(time.thread_time() - begun_s)
        async with longest_step(taken):
            assert (await client.send()).code == 0
            assert not context.store.search.is_behind
        assert await found(client, f"k{begin + 1999}-63") == 1
    assert await found(client, "k0-0") == 1
    assert min(committed) <= REQUEST_S * slowness(), committed
    assert min(taken) <= REQUEST_S * slowness(), taken


def keys_of(number: int, letter: str) -> dict[str, str]:
    return {"UNIQ_KEY": f"u{number}{letter}", "KEYS": f"{letter}{number} k{number}{letter}"}


@pytest.mark.parametrize("letter", ["e", "é"], ids=["ascii", "not ascii"])
async def test_keys_add_little_to_the_turn_of_a_batch(broker: TestBroker, letter: str) -> None:
    """The broker indexed them there while the index was behind: 20 ms of non-ASCII ones."""
    taken: dict[bool, list[float]] = {False: [], True: []}
    client = broker.connect()
    for _ in range(4):
        for has_keys, found in taken.items():
            entries = [
                BatchEntry(0, b"", encode_properties(keys_of(n, letter) if has_keys else {}))
                for n in range(BATCH_MESSAGES_MAX)
            ]
            if has_keys:
                for _ in range(2000):
                    append(broker, "a b c d e f g h i j k l m n o p q r s t")
                broker.context.commit()
            async with longest_step(found):
                assert (await client.send(body=encode_batch(entries), batch=True)).code == 0
    added_s = min(taken[True]) - min(taken[False])
    assert added_s <= REQUEST_S / 2 * slowness(), taken
