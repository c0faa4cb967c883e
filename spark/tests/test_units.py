"""Units made as columns are those that a broker derives record by record; tables made of them are
those of a conversion."""

import shutil
import struct
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.storage.bulk import TablesPlan, convert_to_rocksdb
from lanemq.storage.tools import Part, RowsView, verify_store
from lanemq.testkit.spark import require_packages
from lanemq.testkit.storage.stages import Stand
from lanemq.testkit.storage.units import derived_units
from lanemq.wire import HostAddress, SysFlag
from lanemq.wire.message import MAGIC_V1, MAGIC_V2, RECORD_LAYOUTS, encode_properties

require_packages()

from lanemq.spark.records import LogicalPlaces, decode_records, walk_sizes  # noqa: E402
from lanemq.spark.store import build_table, table_parts  # noqa: E402
from lanemq.spark.store._units import UnitRules, Units  # noqa: E402

pytestmark = pytest.mark.slow
HOST = HostAddress("127.0.0.1", 10911).packed
QUEUE_OFFSET_AT = 20
"""The place of the offset in a record."""
DELAYS_MS = (1000, 5000)
DELETED = {"U": 2000}
TOPICS = ("T", "U", "SCHEDULE_TOPIC_XXXX", "%RETRY%g")
VALUES = {
    "TAGS": st.sampled_from(["a", "b", "größe", "\x00"]),
    "DELAY": st.sampled_from(["0", "1", "2", "9", "x"]),
    "INNER_MULTI_DISPATCH": st.sampled_from(["%LMQ%a", "%LMQ%a,%LMQ%b,c", "%LMQ%a/b"]),
    "INNER_MULTI_QUEUE_OFFSET": st.sampled_from(["0", "7,8", "7,8,9", "x"]),
}


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A log of some records of any kind."""
    data = b""
    for _ in range(draw(st.integers(1, 6))):
        names = draw(st.sets(st.sampled_from(sorted(VALUES))))
        properties = encode_properties({name: draw(VALUES[name]) for name in names})
        topic = draw(st.sampled_from(TOPICS)).encode()
        flags = (0, SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_COMMIT, SysFlag.INNER_BATCH)
        magic = draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
        values = {
            "size_bytes": 0,
            "magic": magic,
            "body_crc": 0,
            "queue_id": draw(st.integers(0, 2)),
            "flag": 0,
            "queue_offset": draw(st.integers(0, 1 << 40)),
            "log_position": len(data),
            "sys_flag": draw(st.sampled_from(flags)),
            "born_timestamp_ms": 0,
            "born_host": HOST,
            "store_timestamp_ms": draw(st.integers(0, 1 << 41)),
            "store_host": HOST,
            "reconsume_times": 0,
            "prepared_transaction_offset": 0,
            "body_size": 0,
            "body": b"",
            "topic_size": len(topic),
            "topic": topic,
            "properties_size": len(properties),
            "properties": properties,
        }
        layout = RECORD_LAYOUTS[magic, 0]
        values["size_bytes"] = len(layout.build(values))
        data += bytes(layout.build(values))
    return data


def as_rows(units: Units) -> list[tuple[object, ...]]:
    numbers = [values.tolist() for values in units[1:]]
    return sorted(zip(units.topics.to_pylist(), *numbers, strict=True))


@given(records())
def test_units_are_those_that_a_broker_derives(data: bytes) -> None:
    starts, _ = walk_sizes(data, 0, len(data))
    expected = derived_units(data, starts.tolist(), deleted=DELETED, delays_ms=DELAYS_MS)
    rules = UnitRules(DELAYS_MS, tuple(DELETED.items()))
    assert as_rows(rules.of(decode_records(data, starts))) == sorted(expected)


async def fill(root: Path, topics: list[str]) -> None:
    """Make a store in which queues begin again, and go back; of several log files."""
    config = StoreConfig(
        root=root, commit_log_file_bytes=4096, consume_queue_file_bytes=200, max_hash_slots=7
    )
    async with open_store(config) as store:
        for again, topic in enumerate(topics):
            if topic in topics[:again]:
                store.delete_topic(topic)
            for number in range(60 - 20 * again):
                message = NewMessage(
                    topic=topic,
                    queue_id=number % 3,
                    body=b"x" * (number % 50),
                    properties=encode_properties({"TAGS": f"t{number % 4}"}),
                    born_timestamp_ms=1_700_000_000_000 + number,
                    born_host=HOST,
                    store_host=HOST,
                )
                store.put(message)
                store.commit()


def rows_of(root: Path) -> list[tuple[object, ...]]:
    view = RowsView(root / "consumequeue")
    found = [(*queue, *row) for queue in view.queues() for row in view.values(*queue, 0, 1 << 40)]
    ends = sorted(view.ends())
    mark = view.watermark()
    view.close()
    return [*found, *ends, (mark,)]


@pytest.mark.parametrize("part_bytes", [300, 1000, 1 << 20])
@pytest.mark.parametrize("goes_back", [False, True])
def test_tables_of_parts_make_what_a_conversion_makes(
    tmp_path: Path, part_bytes: int, goes_back: bool
) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    trio.run(fill, one, ["T", "T", "U"] if goes_back else ["T", "longer topic", "U"])
    if goes_back:  # as after Apache's brokers, who do not note what was deleted
        (one / "config/dispatchWatermark.json").unlink()
        shutil.rmtree(one / "consumequeue")
    shutil.copytree(one, many)

    def make(plan: TablesPlan) -> list[object]:
        # As tasks do: in any order, and none knows of another.
        return [build_table(part) for part in table_parts(plan, part_bytes=part_bytes)]

    done = convert_to_rocksdb(many, from_log=True, tables=make)  # type: ignore[arg-type]
    plain = convert_to_rocksdb(one, from_log=True)
    assert rows_of(many) == rows_of(one)
    assert done.unplaced == plain.unplaced == []
    assert done.queues == plain.queues
    if not goes_back:  # what a later part or window takes back was counted
        assert done.units == plain.units
    problems = verify_store(many).problems
    assert [one for one in problems if not goes_back or one.part is not Part.FILES] == []


async def fill_with_damaged_offset(root: Path, number: int, bits: int) -> int:
    """Make a store of 40 messages in two queues, and flip bits of one's offset; returns its
    place."""
    stand = Stand(root)
    async with stand.open(1) as store:
        stand.put(store, 40)
        position = store.units("T", number % 2, number // 2, 1)[0].log_position
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    (offset,) = struct.unpack_from(">Q", data, position + QUEUE_OFFSET_AT)
    struct.pack_into(">Q", data, position + QUEUE_OFFSET_AT, offset ^ bits)
    path.write_bytes(data)
    return position


@pytest.mark.parametrize("part_bytes", [150, 700, 1 << 20])
@pytest.mark.parametrize("number", [0, 18, 38])
@pytest.mark.parametrize("bits", [4, 8, 9, 1 << 40])
def test_damaged_offsets_are_judged_by_their_neighbours_in_and_between_parts(
    tmp_path: Path, part_bytes: int, number: int, bits: int
) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    position = trio.run(fill_with_damaged_offset, one, number, bits)
    shutil.copytree(one, many)

    def make(plan: TablesPlan) -> list[object]:
        return [build_table(part) for part in table_parts(plan, part_bytes=part_bytes)]

    done = convert_to_rocksdb(many, from_log=True, tables=make)  # type: ignore[arg-type]
    plain = convert_to_rocksdb(one, from_log=True)
    assert rows_of(many) == rows_of(one)
    assert done.unplaced == plain.unplaced
    assert done.damaged == plain.damaged
    if number == 18:
        assert [damaged.log_position for damaged in done.damaged] == [position]


def test_a_message_is_in_the_segment_that_has_its_offset() -> None:
    import numpy as np
    import pyarrow as pa

    spans = {("T", 0): ((0, 10, 3), (20, 1 << 62, 4)), ("U", 0): ((0, 1 << 62, 9),)}
    offsets = [0, 9, 10, 19, 20, 5000]
    places = LogicalPlaces(spans)
    topics = pa.array(["T"] * len(offsets))
    queues = np.zeros(len(offsets), np.int64)
    found = places.column(topics, queues, np.array(offsets))
    assert found.to_pylist() == [3, 3, None, None, 4, 4]
    assert places.column(topics, queues + 1, np.array(offsets)).null_count == len(offsets)
    assert LogicalPlaces({}, 7).column(topics, queues, np.array(offsets)).to_pylist() == [7] * 6
