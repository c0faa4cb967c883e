"""A redo of the log reads records that lie together at once, and finds what single reads find."""

import random
import shutil
from pathlib import Path

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lanemq.storage import NewMessage, Store, StoreConfig, open_store
from lanemq.storage.kv import LogRecord, operation_properties, read_entry
from lanemq.storage.kv._log import READ_BYTES, operation_record
from lanemq.storage.log._records import Record, check_record
from lanemq.storage.messages._plain import plain_content
from lanemq.testkit.storage.stores import HOST
from lanemq.wire.kv import Action, OpType, Step, encode_steps, kv_topic
from lanemq.wire.message import decode_properties, encode_record, record_content

TOPIC = kv_topic("default")


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root,
        commit_log_file_bytes=1 << 16,
        consume_queue_file_bytes=2000,
        max_hash_slots=7,
        max_index_entries=40,
    )


def message(topic: str, body: bytes, properties: bytes = b"") -> NewMessage:
    return NewMessage(
        topic=topic,
        queue_id=0,
        body=body,
        properties=properties,
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )


def put(store: Store, key: bytes, value: bytes) -> None:
    step = Step(key, Action.PUT, value)
    store.put(message(TOPIC, encode_steps([step]), operation_properties(OpType.PUT, key=key)))


def places(store: Store) -> list[tuple[int, int]]:
    units = store.units(TOPIC, 0, 0, 10_000)
    return [(unit.log_position, unit.size_bytes) for unit in units]


def content_at(store: Store, position: int) -> tuple[int, bytes, bytes] | None:
    record = store._parts.reader.record_at(position)
    return record_content(record) if record is not None else None


async def test_records_read_together_are_those_read_one_by_one(tmp_path: Path) -> None:
    """Among other messages, over the ends of files, in any order, and where nothing begins."""
    rng = random.Random(4)
    async with open_store(config(tmp_path)) as store:
        assert store.kv is not None
        await store.kv.make("default")
        for number in range(400):
            put(store, b"k%d" % number, bytes(rng.randrange(700)))
            for _ in range(rng.randrange(3)):
                store.put(message("T", bytes(rng.randrange(4000))))
        store.commit()
        reader = store._parts.reader
        asked = places(store)
        assert store.statistics().log_files > 5
        single = [content_at(store, position) for position, _ in asked]
        assert None not in single
        assert reader.contents_at(asked) == single
        for wrong in (
            [(position + 1, size) for position, size in asked[:9]],
            [(position, size - 1) for position, size in asked[:9]],
            [(store.max_position, 100), (store.max_position + 10_000_000, 100), (-1, 5), (0, 0)],
        ):
            mixed = [*wrong, *rng.sample(asked, 40)]
            expected = [content_at(store, position) for position, _ in mixed]
            assert reader.contents_at(mixed) == expected


@given(damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
@settings(max_examples=200)
def test_a_record_that_is_taken_apart_at_once_is_checked_as_any_other(
    damage: list[tuple[int, int]],
) -> None:
    """Whatever bytes of it are others: it is whole for both, or read the long way."""
    before, body = b"before", encode_steps([Step(b"key", Action.PUT, b"value")])
    properties = operation_properties(OpType.PUT, key=b"key", client="c", sequence=4, waits=3)
    record = bytearray(
        encode_record(
            topic=TOPIC.encode(),
            body=body,
            properties=properties,
            queue_id=0,
            queue_offset=7,
            log_position=1000,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=1,
            born_host=HOST,
            store_timestamp_ms=1234,
            store_host=HOST,
        )
    )
    assert plain_content(before + record, 6, 1000, len(record)) == (1234, body, properties)
    for at, byte in damage:
        record[at % len(record)] = byte
    data, size_bytes = bytes(record), len(record)
    found = plain_content(before + data + b"behind", len(before), 1000, size_bytes)
    checked = check_record(data, 0, 1000, size_bytes, check_crc=True)
    if found is not None:
        assert isinstance(checked, Record)
        assert checked.size_bytes == size_bytes
        assert found == record_content(data)
    for size in (size_bytes - 1, size_bytes + 1, size_bytes + 100, 0, -1):
        assert plain_content(before + data + b"behind", len(before), 1000, size) is None


pieces = st.sampled_from(
    [
        *(b"kv_client", b"key", b"kv_opType", b"KEYS", b"\x01", b"\x01", b"\x02", b"\x02", b":"),
        *(b"c:1:2", b"c1", b":1:2", b"a:b:1", b"7", b"9" * 20, b"0" * 19, b"put", b"tick", b"PUT"),
        *(
            "\u0663".encode(),
            b"\xff",
            b" ",
            b"+1",
            b"kv_opType\x01put\x02",
            b"kv_client\x01c:1:2\x02",
        ),
    ]
)


@given(properties=st.lists(pieces, max_size=9).map(b"".join))
@settings(max_examples=300)
@example(properties=b"kv_client\x01c:1:2\x02key\x01aw==\x02kv_opType\x01put")
@example(properties=b"kv_client\x01c:1:2\x02kv_opType\x01batch\x02")
@example(properties=b"kv_client\x01c:" + b"1" * 18 + b":" + b"2" * 19 + b"\x02kv_opType\x01put")
def test_properties_that_are_read_at_once_say_what_they_say_one_by_one(properties: bytes) -> None:
    named = decode_properties(properties)
    client, _, numbers = named.get("kv_client", "").partition(":")
    sequence, _, waits = numbers.partition(":")
    record = operation_record(3, 4, b"body", properties)
    if "kv_client" not in named:
        assert record == LogRecord(3, 4, named.get("kv_opType", ""), b"body")
    elif sequence.isdecimal() and waits.isdecimal() and len(numbers) < 38:
        op_type = named.get("kv_opType", "")
        assert record == LogRecord(3, 4, op_type, b"body", client, int(sequence), int(waits))
    else:
        assert record == LogRecord(3, 4, "", b"")


async def test_a_damaged_record_among_many_changes_nothing_and_the_rest_is_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(config(tmp_path)) as store:
        assert store.kv is not None
        await store.kv.make("default")
        for number in range(50):
            put(store, b"k%d" % number, b"value %d" % number)
        store.commit()
        position = places(store)[20][0]
    shutil.rmtree(tmp_path / "kv")
    path = tmp_path / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[data.index(b"value 20", position)] ^= 1
    path.write_bytes(data)
    async with open_store(config(tmp_path)) as store:
        assert store.kv is not None
        state = store.kv.states["default"]
        there = [number for number in range(50) if read_entry(state, b"k%d" % number) is not None]
        assert there == [number for number in range(50) if number != 20]
    assert "record 20 of %KV%default" in caplog.text


@pytest.mark.slow
async def test_one_read_of_long_records_is_bounded(tmp_path: Path) -> None:
    long = StoreConfig(root=tmp_path, commit_log_file_bytes=32 << 20, max_message_bytes=8 << 20)
    async with open_store(long) as store:
        assert store.kv is not None
        await store.kv.make("default")
        for number in range(10):
            put(store, b"k%d" % number, bytes(READ_BYTES // 2))
        store.commit()
        log = store.kv.logs["default"]
        assert [record.position for record in log.read(0, 256)] == [0, 1]
        assert [record.position for record in log.read(5, 1)] == [5]
        with trio.fail_after(60):  # a commit applies what fits a turn
            while store.kv.states["default"].meta.next < 10:
                await trio.lowlevel.checkpoint()
        whole = store.kv.states["default"].hash
    shutil.rmtree(tmp_path / "kv")
    async with open_store(long) as store:
        assert store.kv is not None
        assert store.kv.states["default"].hash == whole
