"""Messages come out as they went in, in the order and under the limits of the protocol."""

import itertools
import logging
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.storage import (
    GetStatus,
    MessageIllegal,
    NewMessage,
    Put,
    ReadLimits,
    Store,
    StoreConfig,
    StoreUnwritable,
    Unit,
    open_store,
)
from lanemq.testkit.storage.batches import batch_of, puts_of
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import MakeMessage, OpenSmall
from lanemq.wire import HostAddress, SysFlag, tags_code
from lanemq.wire.message import (
    MAGIC_BLANK,
    MAGIC_V2,
    StoredMessage,
    decode_messages,
    encode_properties,
)


async def test_the_first_start_of_a_store_says_that_it_makes_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    said = []
    for _ in range(2):
        caplog.clear()
        async with open_store(StoreConfig(root=tmp_path)):
            said.append(caplog.messages[0])
    assert said == [f"making a new store in {tmp_path}", f"opening {tmp_path} after a clean stop"]


async def test_what_is_put_is_read_after_the_commit(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        message = make_message(b"body", tags="A", flag=7, reconsume_times=2)
        put = store.put(message)
        assert store.get("T", 0, 0, max_count=1).status is GetStatus.NO_MESSAGE_IN_QUEUE
        store.commit()
        got = store.get("T", 0, 0, max_count=1)
        (read,) = decode_messages(got.records[0], check_crc=True)
        assert got.status is GetStatus.FOUND
        assert (got.next_offset, got.min_offset, got.max_offset) == (1, 0, 1)
        assert (read.log_position, read.queue_offset, read.size_bytes) == (0, 0, put.size_bytes)
        assert read.store_timestamp_ms == put.store_timestamp_ms
        assert (read.body, read.flag, read.reconsume_times) == (b"body", 7, 2)
        assert read.properties_data == message.properties
        assert store.record_at(put.log_position) == got.records[0]
        assert store.message_at(put.log_position) == read
        assert store.record_at(put.log_position + 1) is None


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (0, GetStatus.FOUND, 3),
        (2, GetStatus.FOUND, 3),
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
async def test_every_offset_has_the_outcome_of_the_protocol(
    open_small: OpenSmall,
    make_message: MakeMessage,
    offset: int,
    status: GetStatus,
    next_offset: int,
) -> None:
    async with open_small() as store:
        assert store.get("T", 0, offset, max_count=9).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
        store.put_batch(batch_of([make_message() for _ in range(3)]))
        store.commit()
        got = store.get("T", 0, offset, max_count=9)
        assert (got.status, got.next_offset) == (status, next_offset)


async def test_the_filter_looks_at_tags_and_counts_what_it_passed_over(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        for tags in ("A", "B", "A", "", "B"):
            store.put(make_message(tags.encode(), tags=tags))
        store.commit()
        got = store.get("T", 0, 0, max_count=9, tag_codes=frozenset({tags_code("B")}))
        assert [message.body for message in decode_messages(b"".join(got.records))] == [b"B", b"B"]
        assert got.next_offset == 5
        none = store.get("T", 0, 0, max_count=9, tag_codes=frozenset({tags_code("C")}))
        assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)


async def test_a_filter_that_matches_nothing_gives_up_after_800_messages(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        for _ in range(10):
            store.put_batch(batch_of([make_message(b"") for _ in range(30)]))
        for _ in range(600):
            store.put(make_message(b""))
        store.commit()
        got = store.get("T", 0, 0, max_count=1, tag_codes=frozenset({1}))
        assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)


async def test_a_read_ends_at_32_messages_or_at_its_bytes_but_gives_the_first(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small(commit_log_file_bytes=1 << 20) as store:
        for _ in range(40):
            store.put(make_message(bytes(1000)))
        store.commit()
        assert len(store.get("T", 0, 0, max_count=99).records) == 32
        for warm_bytes, count in ((3500, 3), (10, 1)):
            limits = ReadLimits(warm_bytes=warm_bytes)
            assert len(store.get("T", 0, 0, max_count=99, limits=limits).records) == count


async def test_cold_messages_come_eight_at_a_time(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small(memory_bytes=10_000, cold_memory_ratio=0.4) as store:
        for _ in range(80):
            store.put(make_message())
        store.commit()
        assert store.is_cold(0)
        assert not store.is_cold(store.max_position - 100)
        assert len(store.get("T", 0, 0, max_count=32).records) == 8
        assert len(store.get("T", 0, 60, max_count=32).records) == 20


async def test_a_record_that_does_not_fit_begins_the_next_file(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    small_config: StoreConfig,
) -> None:
    async with open_small() as store:
        first = store.put(make_message(bytes(3000)))
        second = store.put(make_message(bytes(1200)))
        store.commit()
        assert second.log_position == 4096
        name = small_config.commit_log_path / f"{0:020d}"
        data = files.read_all(name) or b""
        assert len(data) == 4096
        rest = struct.unpack_from(">ii", data, first.end)
        assert rest == (4096 - first.end, MAGIC_BLANK)
        assert [len(store.record_at(put.log_position) or b"") for put in (first, second)] == [
            first.size_bytes,
            second.size_bytes,
        ]


async def test_a_record_needs_eight_bytes_behind_it(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        size = store.put(make_message(b"")).size_bytes
        exact = store.put(make_message(bytes(4096 - 8 - 2 * size)))
        assert exact.end == 4096 - 8
        beyond = store.put(make_message(b""))
        assert beyond.log_position == 4096
    async with open_small() as store:
        store.put(make_message(b""))
        position = store.put(make_message(bytes(4096 - 7 - 3 * size))).log_position
        store.commit()
        assert position == 8192


async def test_a_batch_never_spans_files_and_has_consecutive_offsets(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        store.put(make_message(bytes(3000)))
        puts = puts_of(store.put_batch(batch_of([make_message(bytes(300)) for _ in range(4)])))
        store.commit()
        assert puts[0].log_position == 4096
        assert [put.queue_offset for put in puts] == [1, 2, 3, 4]
        assert all(after.log_position == before.end for before, after in itertools.pairwise(puts))


async def test_a_batch_is_taken_as_a_whole_or_not_at_all(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        bad = make_message(properties=bytes(40_000))
        for batch in (
            [make_message(), bad],
            [make_message(sys_flag=SysFlag.TRANSACTION_PREPARED)],
            [make_message(), make_message(flag=1 << 40)],
            [make_message(bytes(1500)) for _ in range(3)],
        ):
            with pytest.raises(MessageIllegal):
                store.put_batch(batch_of(batch))
        put = store.put(make_message())
        store.commit()
        assert (put.log_position % 4096, put.queue_offset) == (0, 0)
        assert store.bounds("T", 0) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"body": bytes(5000)}, "file of the log"),
        ({"properties": bytes(32_768)}, "properties of 32768 bytes"),
        ({"topic": "a/b"}, "name of a topic"),
        ({"topic": ""}, "name of a topic"),
        ({"topic": ".."}, "name of a topic"),
        ({"topic": "t" * 256}, "at most 255"),
        ({"queue_id": -1}, "id of a queue"),
        ({"born_host": b"123"}, "packed hosts"),
    ],
)
async def test_what_no_file_can_hold_is_refused_at_once(
    open_small: OpenSmall, make_message: MakeMessage, changes: dict[str, object], part: str
) -> None:
    message = make_message()
    for name, value in changes.items():
        setattr(message, name, value)
    async with open_small() as store:
        with pytest.raises(MessageIllegal, match=part):
            store.put(message)
        store.commit()
        assert store.max_position == 0


async def test_a_body_above_the_limit_is_refused(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small(max_message_bytes=100) as store:
        store.put(make_message(bytes(100)))
        with pytest.raises(MessageIllegal, match="101 bytes, at most 100"):
            store.put(make_message(bytes(101)))


async def test_long_topics_give_records_of_version_two(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        put = store.put(make_message(topic="%RETRY%" + "g" * 200))
        store.commit()
        message = store.message_at(put.log_position)
        assert message is not None
        assert message.magic == MAGIC_V2
        assert message.size_bytes == put.size_bytes


async def test_ipv6_hosts_are_stored_whole(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    peer = HostAddress("2001:db8::1", 1234)
    message = make_message()
    message.born_host = peer.packed
    async with open_small() as store:
        put = store.put(message)
        after = store.put(make_message())
        store.commit()
        read = store.message_at(put.log_position)
        assert read is not None
        assert read.born_host == peer
        assert after.log_position == put.end
        assert store.store_time_ms("T", 0, 0) == put.store_timestamp_ms
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 2)


async def test_prepared_and_rolled_back_records_have_no_place_in_a_queue(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        for flag in (
            SysFlag.TRANSACTION_PREPARED,
            0,
            SysFlag.TRANSACTION_ROLLBACK,
            SysFlag.TRANSACTION_COMMIT,
        ):
            put = store.put(make_message(sys_flag=flag, unique_key=f"U{flag}"))
        store.commit()
        assert put.queue_offset == 1
        assert store.bounds("T", 0) == (0, 2)

        def found(key: str) -> int:
            result = store.query("T", key, max_count=9, begin_ms=0, end_ms=1 << 60)
            return len(result.records)

        assert [found(f"U{flag}") for flag in (4, 0, 12, 8)] == [1, 1, 0, 1]


async def test_the_schedule_topic_keeps_the_time_of_delivery_as_tags_code(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        puts = [
            store.put(
                make_message(
                    topic="SCHEDULE_TOPIC_XXXX",
                    queue_id=2,
                    properties=encode_properties({"DELAY": level, "TAGS": "A"}),
                )
            )
            for level in ("3", "99", "0")
        ]
        store.commit()
        codes = [unit.tags_code for unit in store.units("SCHEDULE_TOPIC_XXXX", 2, 0, 9)]
        delays = [code - put.store_timestamp_ms for code, put in zip(codes, puts, strict=True)]
        assert delays[:2] == [10_000, 7_200_000]
        assert codes[2] == tags_code("A")


async def test_arrivals_are_told_for_all_messages_after_they_are_readable(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        told: list[tuple[str, int, int, list[int]]] = []

        def arrived(topic: str, queue_id: int, end: int, codes: Sequence[int]) -> None:
            got = store.get(topic, queue_id, end - len(codes), max_count=9)
            assert len(got.records) == len(codes)
            assert got.max_offset == end
            told.append((topic, queue_id, end, list(codes)))

        store.on_arrival.append(arrived)
        store.put(make_message(tags="A"))
        store.put(make_message())
        store.put(make_message(queue_id=3))
        store.put(make_message(tags="B"))
        assert told == []
        store.commit()
        assert told == [
            ("T", 0, 2, [tags_code("A"), 0]),
            ("T", 3, 1, [0]),
            ("T", 0, 3, [tags_code("B")]),
        ]


async def test_statistics_count_what_happened(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        put = store.put(make_message())
        store.commit()
        store.get("T", 0, 0, max_count=1)
        store.get("T", 0, 1, max_count=1)
        seen = store.statistics()
        assert (seen.put_messages_total, seen.put_bytes_total) == (1, put.size_bytes)
        assert (seen.get_found_total, seen.get_missed_total) == (1, 1)
        assert (seen.got_messages_total, seen.got_bytes_total) == (1, put.size_bytes)
        assert (seen.min_position, seen.max_position, seen.queues) == (0, put.end, 1)
        assert seen.flushed_position == 0
        await store.flushed(put.end)
        assert store.statistics().flushed_position == put.end


async def test_one_sync_serves_all_who_wait(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(queue_thorough_interval_s=1000) as store:
        before = files.syncs
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(store.flushed, store.put(make_message(b"")).end)
                store.commit()
        assert store.flushed_position == store.max_position
        assert files.syncs - before <= 4


async def test_nobody_is_promised_what_was_never_committed(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        put = store.put(make_message())
        with pytest.raises(StoreUnwritable, match="the log ends at 0"):
            await store.flushed(put.end)


async def test_a_deleted_topic_begins_anew_and_its_files_are_gone(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    small_config: StoreConfig,
) -> None:
    async with open_small() as store:
        for queue_id in range(3):
            store.put(make_message(queue_id=queue_id))
        store.put(make_message(topic="U"))
        store.commit()
        await trio.sleep(3)
        other = small_config.root / "consumequeue/T/1/notes.txt"
        files.write_all(other, b"not ours")
        assert store.delete_topic("T") == 3
        assert store.bounds("T", 0) == (0, 0)
        assert store.put(make_message()).queue_offset == 0
        assert sorted(store.queues()) == [("T", 0), ("U", 0)]
        assert files.exists(other)
        assert not files.exists(small_config.root / "consumequeue/T/2")


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.integers(0, 1),
        st.binary(max_size=300),
        st.booleans(),  # commit behind it
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(MESSAGES)
def test_queues_are_lists_of_what_was_put(messages: list[tuple[str, int, bytes, bool]]) -> None:
    def new(topic: str, queue_id: int, body: bytes) -> NewMessage:
        host = HostAddress("127.0.0.1", 1).packed
        return NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=b"",
            born_timestamp_ms=0,
            born_host=host,
            store_host=host,
        )

    async def check(config: StoreConfig, clock_ms: Callable[[], int]) -> None:
        files = SimulatedFiles()
        model: dict[tuple[str, int], list[tuple[bytes, Put]]] = {}
        for _ in range(2):
            async with open_store(config, files=files, clock_ms=clock_ms) as store:
                for topic, queue_id, body, commits in messages:
                    put = store.put(new(topic, queue_id, body))
                    model.setdefault((topic, queue_id), []).append((body, put))
                    if commits:
                        store.commit()
                        await trio.sleep(0.3)
                store.commit()
                for (topic, queue_id), expected in model.items():
                    read: list[StoredMessage] = []
                    while (got := store.get(topic, queue_id, len(read), max_count=7)).records:
                        read += decode_messages(b"".join(got.records), check_crc=True)
                        assert got.next_offset == len(read)
                    assert [message.body for message in read] == [body for body, _ in expected]
                    for offset, (message, (_, put)) in enumerate(zip(read, expected, strict=True)):
                        assert message.queue_offset == put.queue_offset == offset
                        assert message.log_position == put.log_position

    config = StoreConfig(
        root="/store",  # type: ignore[arg-type]  # a text does, too
        commit_log_file_bytes=1000,
        consume_queue_file_bytes=100,
        max_hash_slots=7,
        max_index_entries=40,
        tail_cache_bytes=300,
    )
    trio.run(check, config, lambda: 1, clock=MockClock(autojump_threshold=0))


ENTRIES = st.lists(
    st.tuples(st.binary(max_size=40), st.sampled_from((b"", b"TAGS\x01a\x02", b"KEYS\x01k l"))),
    min_size=1,
    max_size=8,
)


@given(entries=ENTRIES, topic=st.sampled_from(("T", "t" * 127)))
@settings(max_examples=50, deadline=None)
def test_a_batch_is_stored_byte_for_byte_as_its_messages_are_one_by_one(
    entries: list[tuple[bytes, bytes]], topic: str
) -> None:
    def message(body: bytes, properties: bytes) -> NewMessage:
        return NewMessage(
            topic=topic,
            queue_id=1,
            body=body,
            properties=properties,
            born_timestamp_ms=5,
            born_host=bytes((1, 2, 3, 4, 0, 0, 0, 5)),
            store_host=bytes(20),
            reconsume_times=2,
        )

    async def stored(put: Callable[[Store, list[NewMessage]], object]) -> tuple[bytes, list[Unit]]:
        files = SimulatedFiles(now_s=lambda: 1.0)
        config = StoreConfig(
            root=Path("/store"), commit_log_file_bytes=8192, max_hash_slots=7, max_index_entries=40
        )
        async with open_store(config, files=files, clock_ms=lambda: 7) as store:
            put(store, [message(*entry) for entry in entries])
            store.commit()
            units = store.units(topic, 1, 0, 99)
            return files.read_all(config.commit_log_path / f"{0:020d}") or b"", units

    def one_by_one(store: Store, messages: list[NewMessage]) -> None:
        for each in messages:
            store.put(each)

    clock = MockClock(autojump_threshold=0)
    together = trio.run(stored, lambda store, all_: store.put_batch(batch_of(all_)), clock=clock)
    assert together == trio.run(stored, one_by_one, clock=MockClock(autojump_threshold=0))
