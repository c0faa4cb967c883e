"""However a log is split, its rows and its damage are the same; nothing here needs a session."""

import shutil
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.testkit.spark import require_packages
from lanemq.testkit.storage.stores import HOST
from lanemq.wire import SysFlag
from lanemq.wire.message import encode_properties

require_packages()

import pyarrow as pa  # noqa: E402
from pyarrow import fs  # noqa: E402
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In  # noqa: E402

from lanemq.spark import OptionInvalid, SourceError, StoreDamaged  # noqa: E402
from lanemq.spark._options import Options  # noqa: E402
from lanemq.spark.store import StoreSource, _files  # noqa: E402
from lanemq.spark.store._plan import LogPart  # noqa: E402
from lanemq.spark.store._source import OPTIONS, TABLES  # noqa: E402
from lanemq.spark.store._table import Query  # noqa: E402

pytestmark = pytest.mark.slow
FILE_BYTES = 2048
QUEUE_OFFSET_AT, BORN_TIME_AT, STORE_TIME_AT = 20, 40, 56
LOG_BYTES = 4096
QUEUES = 5
MESSAGES = 60
LONELY = "Lonely"
"""A topic of one message."""
TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
Rows = list[dict[str, Any]]


def query_of(
    root: Path | str, table: str, *, columns: str = "", filters: tuple[Any, ...] = (), **more: str
) -> Query:
    kinds = {**TABLES[table].columns, **TABLES[table].on_demand}
    names = columns.split(",") if columns else list(TABLES[table].columns)
    return Query(
        roots=(str(root),),
        options=Options("rocketmq-store", OPTIONS, {"table": table, **more}),
        schema=pa.schema([(name, TYPES[kinds[name]]) for name in names]),
        filters=filters,
    )


def read(query: Query, split: int | None = None) -> Rows:
    """All rows, as tasks would read them; ``split`` bytes make a part of the log."""
    table = TABLES[query.options.choice("table")]
    parts = table.parts(query)
    if split:
        parts = [
            LogPart(part.root, part.log, part.piece, begin, min(begin + split, part.end))
            for part in parts
            if isinstance(part, LogPart)
            for begin in range(part.begin, part.end, split)
        ]
    return [
        row for part in parts for batch in table.batches(query, part) for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def make_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Make a store of several log files, with bodies of many sizes, closed cleanly."""

    async def fill(root: Path) -> None:
        config = StoreConfig(
            root=root,
            commit_log_file_bytes=FILE_BYTES,
            consume_queue_file_bytes=200,
            max_hash_slots=7,
            max_index_entries=40,
        )
        async with open_store(config) as store:
            for number in range(40):
                message = NewMessage(
                    topic="TU"[number % 2],
                    queue_id=number % 3,
                    body=bytes([number]) * (number * 17 % 150),
                    properties=encode_properties({"UNIQ_KEY": f"U{number}", "KEYS": f"k{number}"}),
                    born_timestamp_ms=1_700_000_000_000 + number,
                    born_host=HOST,
                    store_host=HOST,
                )
                store.put(message)
                store.commit()

    def make() -> Path:
        root = tmp_path_factory.mktemp("made") / "store"
        trio.run(fill, root)
        return root

    return make


def change(root: Path, position: int, data: bytes) -> None:
    path = root / f"commitlog/{position // FILE_BYTES * FILE_BYTES:020d}"
    with path.open("r+b") as file:
        file.seek(position % FILE_BYTES)
        file.write(data)


def java_hash(text: str) -> int:
    """Java's String.hashCode, without its sign, as the key index keeps it."""
    code = 0
    for unit in array("H", text.encode("utf-16-le")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return abs(signed)


SPLITS = (None, 64, 100, 333, 1024)


@pytest.mark.parametrize("split", SPLITS)
def test_a_sound_log_has_the_same_rows_however_it_is_split(
    make_store: Callable[[], Path], split: int | None
) -> None:
    root = make_store()
    rows = read(query_of(root, "messages"), split)
    assert [row["msgId"] for row in rows] == [f"U{number}" for number in range(40)]
    assert [len(row["body"]) for row in rows] == [number * 17 % 150 for number in range(40)]
    assert read(query_of(root, "damage"), split) == []


def test_damage_is_told_once_and_everything_around_it_is_read(
    make_store: Callable[[], Path],
) -> None:
    sound = make_store()
    records = read(query_of(sound, "messages"))
    for number in range(0, 40, 3):
        root = make_store()
        position = records[number]["logPosition"]
        change(root, position + 4, b"\0\0\0\0")  # its magic: no record any more
        others = [row["msgId"] for row in records if row["msgId"] != f"U{number}"]
        for split in SPLITS:
            query = query_of(root, "messages", columns="msgId")
            assert [row["msgId"] for row in read(query, split)] == others, (number, split)
            (damage,) = read(query_of(root, "damage"), split)
            assert damage["logPosition"] == position
            assert damage["filePosition"] == position % FILE_BYTES
            assert damage["file"].endswith(f"commitlog/{position // FILE_BYTES * FILE_BYTES:020d}")


def test_a_damaged_body_is_null_dropped_or_refused_as_the_mode_says(
    make_store: Callable[[], Path],
) -> None:
    root = make_store()
    position = read(query_of(root, "messages"))[5]["logPosition"]
    change(root, position + 90, b"?")
    for split in SPLITS:
        rows = read(query_of(root, "messages"), split)
        assert [row["msgId"] for row in rows if row["body"] is None] == ["U5"]
        assert len(rows) == 40
        dropped = read(query_of(root, "messages", mode="dropmalformed"), split)
        assert [row["msgId"] for row in rows if row["msgId"] != "U5"] == [
            row["msgId"] for row in dropped
        ]
        (damage,) = read(query_of(root, "damage"), split)
        assert (damage["kind"], damage["logPosition"]) == ("body", position)
        with pytest.raises(StoreDamaged, match=rf"{0:020d}: damaged at byte {position} .*checksum"):
            read(query_of(root, "messages", mode="FAILFAST"), split)
        # A body that nobody asks for is not looked at.
        query = query_of(root, "messages", columns="msgId", mode="FAILFAST")
        assert len(read(query, split)) == 40
    assert read(query_of(root, "messages", checkCrc="false"))[5]["body"] is not None


def test_a_torn_end_is_told_and_refused_where_the_mode_says(
    make_store: Callable[[], Path],
) -> None:
    root = make_store()
    last = read(query_of(root, "messages"))[-1]
    change(root, last["logPosition"] + last["storeSize"], b"\0\0\0\x7f torn")
    assert len(read(query_of(root, "messages"))) == 40
    (damage,) = read(query_of(root, "damage"))
    assert damage["logPosition"] == last["logPosition"] + last["storeSize"]
    with pytest.raises(StoreDamaged, match=f"log position {damage['logPosition']}"):
        read(query_of(root, "messages", mode="FAILFAST"))


def test_a_missing_file_is_told_and_the_others_are_read(make_store: Callable[[], Path]) -> None:
    root = make_store()
    (root / f"commitlog/{FILE_BYTES:020d}").unlink()
    rows = read(query_of(root, "messages"))
    assert rows[0]["msgId"] == "U0"
    assert rows[-1]["msgId"] == "U39"
    assert 0 < len(rows) < 40
    (damage,) = read(query_of(root, "damage"))
    assert (damage["kind"], damage["logPosition"], damage["endPosition"]) == (
        "gap",
        FILE_BYTES,
        2 * FILE_BYTES,
    )
    with pytest.raises(StoreDamaged, match=rf"commitlog/{FILE_BYTES:020d} is missing"):
        read(query_of(root, "messages", mode="FAILFAST"))


def test_fields_that_no_checksum_covers_are_damage_if_they_cannot_be_right(
    make_store: Callable[[], Path],
) -> None:
    root = make_store()
    rows = read(query_of(root, "messages"))
    early, late, odd = (rows[number] for number in (3, 4, 6))
    change(root, early["logPosition"] + STORE_TIME_AT, (-5).to_bytes(8, "big", signed=True))
    change(root, late["logPosition"] + BORN_TIME_AT, ((1 << 63) - 1).to_bytes(8))
    change(root, odd["logPosition"] + odd["storeSize"] - 2, b"\xff")
    for split in SPLITS:
        found = read(query_of(root, "messages"), split)
        assert len(found) == 40
        assert found[4]["bornTimestamp"].year == 9999  # a row that Python and Spark can show
        damages = read(query_of(root, "damage"), split)
        assert [(one["kind"], one["logPosition"]) for one in damages] == [
            ("header", row["logPosition"]) for row in (early, late, odd)
        ]
        assert "store time is -5 ms" in damages[0]["why"]
        assert "born time is 9223372036854775807 ms" in damages[1]["why"]
        assert "not UTF-8" in damages[2]["why"]
        with pytest.raises(StoreDamaged, match="store time is -5 ms"):
            read(query_of(root, "messages", mode="FAILFAST"), split)


def test_a_missing_file_of_a_queue_is_told(
    make_store: Callable[[], Path], caplog: pytest.LogCaptureFixture
) -> None:
    root = make_store()
    whole = read(query_of(root, "consume_queue"))
    assert not caplog.messages
    queue = root / "consumequeue/T/0"
    first = queue / f"{0:020d}"
    (queue / f"{400:020d}").write_bytes(first.read_bytes())
    assert len(read(query_of(root, "consume_queue"))) > len(whole)
    name = f"consumequeue/T/0/{200:020d}"
    assert f"{root}/{name} is missing: 10 units of the queue are not read" in caplog.text
    (damage,) = read(query_of(root, "damage"))
    assert (damage["kind"], damage["file"]) == ("gap", f"{root}/{name}")
    with pytest.raises(StoreDamaged, match=f"{name} is missing: 10 units"):
        read(query_of(root, "consume_queue", mode="FAILFAST"))


def test_filters_leave_rows_out_before_they_are_made(make_store: Callable[[], Path]) -> None:
    root = make_store()
    by_topic = query_of(root, "messages", filters=(EqualTo(("topic",), "T"),))
    assert [row["msgId"] for row in read(by_topic)] == [f"U{number}" for number in range(0, 40, 2)]
    both = (In(("queue",), (0, 2)), GreaterThanOrEqual(("queueOffset",), 5))
    rows = read(query_of(root, "messages", columns="queue,queueOffset", filters=both))
    assert rows
    assert all(row["queue"] != 1 and row["queueOffset"] >= 5 for row in rows)
    units = read(query_of(root, "consume_queue", filters=(EqualTo(("topic",), "U"),)))
    assert {row["topic"] for row in units} == {"U"}
    assert len(units) == 20


def test_units_and_index_lead_to_the_records(make_store: Callable[[], Path]) -> None:
    root = make_store()
    messages = {row["logPosition"]: row for row in read(query_of(root, "messages"))}
    units = read(query_of(root, "consume_queue"))
    assert len(units) == 40
    for unit in units:
        message = messages[unit["logPosition"]]
        for name in ("topic", "queue", "queueOffset", "storeSize"):
            assert unit[name] == message[name]
    entries = read(query_of(root, "index"))
    assert len(entries) == 80  # a unique key and a key each
    assert {entry["logPosition"] for entry in entries} == set(messages)


@pytest.mark.parametrize("name", ["file-4.9.7-clean", "file-5.3.3-clean", "rocksdb-5.3.3-clean"])
def test_the_index_of_a_recorded_store_has_every_key_of_its_messages(
    recorded_stores: Path, name: str
) -> None:
    columns = "topic,msgId,keys,properties,logPosition,sysFlag"
    entries = {
        (row["logPosition"], row["keyHash"])
        for row in read(query_of(recorded_stores / name, "index"))
    }
    messages = read(query_of(recorded_stores / name, "messages", columns=columns))
    expected = {
        (row["logPosition"], java_hash(f"{row['topic']}#{key}"))
        for row in messages
        for key in (*(row["keys"] or "").split(), dict(row["properties"]).get("UNIQ_KEY"))
        if key and row["sysFlag"] & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK
    }
    assert expected
    assert expected <= entries
    assert {position for position, _ in entries} <= {row["logPosition"] for row in messages}


@pytest.mark.parametrize("table", ["messages", "consume_queue", "index", "damage"])
def test_a_store_on_another_file_system_reads_the_same(
    make_store: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    root = make_store()
    here = read(query_of(root, table))
    there = fs.SubTreeFileSystem(str(root.parent), fs.LocalFileSystem())
    monkeypatch.setattr(_files, "_file_system", lambda uri: (there, uri.removeprefix("far://")))
    found = read(query_of("far://store", table))
    for row in [*here, *found]:
        row.pop("store", None)
    assert found == here


def test_the_recorded_rocksdb_store_is_read_from_another_file_system(
    recorded_stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = fs.SubTreeFileSystem(str(recorded_stores), fs.LocalFileSystem())
    monkeypatch.setattr(_files, "_file_system", lambda uri: (there, uri.removeprefix("far://")))
    name = "rocksdb-5.3.3-clean"
    for table in ("consume_queue", "topics", "groups", "offsets"):
        found = read(query_of(f"far://{name}", table))
        assert found
        if table != "offsets":
            assert {row["source"] for row in found} == {"rocksdb"}


def test_wrong_options_are_named_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(OptionInvalid, match=r"no option 'tabel'; its options are .*table"):
        StoreSource({"path": "x", "tabel": "messages"}).schema()
    with pytest.raises(OptionInvalid, match=r"table='queues': it takes messages, consume_queue"):
        StoreSource({"path": "x", "table": "queues"}).schema()
    with pytest.raises(OptionInvalid, match=r"no column 'boody'.*body"):
        StoreSource({"path": "x", "columns": "topic,boody"}).schema()
    with pytest.raises(OptionInvalid, match="splitBytes='many': it takes a whole number"):
        StoreSource({"path": "x", "splitBytes": "many"}).schema()
    with pytest.raises(SourceError, match=r"is not a store: it has no commitlog.*storePathRootDir"):
        read(query_of(tmp_path, "messages"))
    with pytest.raises(SourceError, match="nowhere://x"):
        read(query_of("nowhere://x", "messages"))


@pytest.fixture(scope="module", params=["files", "rocksdb"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store with its queues in one form, of several files of the log."""
    root = tmp_path_factory.mktemp("sound") / "store"

    async def fill() -> None:
        config = StoreConfig(
            root=root, commit_log_file_bytes=LOG_BYTES, consume_queue_file_bytes=200
        )
        async with open_store(config) as store:
            for number in range(MESSAGES):
                queue = number * number % QUEUES
                message = NewMessage(
                    topic=LONELY if number == MESSAGES // 2 else "TU"[number % 2],
                    queue_id=queue,
                    body=bytes(number * 13 % 90),
                    properties=encode_properties({"UNIQ_KEY": f"U{number}"}),
                    born_timestamp_ms=1_700_000_000_000 + number,
                    born_host=HOST,
                    store_host=HOST,
                )
                store.put(message)
                store.commit()

    trio.run(fill)
    if request.param == "rocksdb":
        convert_to_rocksdb(root, from_log=True)
        shutil.rmtree(root / "consumequeue.replaced", ignore_errors=True)
        for topic in (root / "consumequeue").iterdir():
            if topic.is_dir():
                shutil.rmtree(topic)
    return root


def put_offset(root: Path, position: int, offset: int) -> None:
    path = root / f"commitlog/{position // LOG_BYTES * LOG_BYTES:020d}"
    with path.open("r+b") as file:
        file.seek(position % LOG_BYTES + QUEUE_OFFSET_AT)
        file.write(offset.to_bytes(8, "big", signed=True))


near = st.integers(-3, 40)
flipped = st.integers(0, 63).map(lambda bit: 1 << bit)


@settings(max_examples=30)  # each reads the store four times, in up to a hundred parts
@given(st.data())
def test_a_wrong_offset_is_found_by_the_queues_wherever_it_is(
    sound: Path, data: st.DataObject
) -> None:
    rows = read(query_of(sound, "messages"))
    row = rows[data.draw(st.integers(0, len(rows) - 1))]
    right = row["queueOffset"]
    wrong = data.draw(st.one_of(near, flipped.map(lambda bit: right ^ bit)))
    wrong = wrong - (1 << 64) if wrong >= 1 << 63 else wrong
    split = data.draw(st.sampled_from((None, *SPLITS)))
    put_offset(sound, row["logPosition"], wrong)
    try:
        found = read(query_of(sound, "damage"), split)
        if wrong == right:
            assert found == []
            return
        assert [(one["kind"], one["logPosition"]) for one in found] == [
            ("header", row["logPosition"])
        ]
        assert f"its queue offset is {wrong}" in found[0]["why"]
        with pytest.raises(StoreDamaged, match=r"commitlog/\d{20}: damaged at byte .* offset is"):
            read(query_of(sound, "messages", mode="FAILFAST"), split)
        shown = [one["queueOffset"] for one in read(query_of(sound, "messages"))]
        assert (len(shown), wrong in shown) == (len(rows), True)
    finally:
        put_offset(sound, row["logPosition"], right)


@pytest.mark.parametrize("wrong", [-1, 1 << 62])
@pytest.mark.parametrize("split", SPLITS)
def test_a_part_that_begins_at_an_impossible_offset_has_the_message(
    sound: Path, wrong: int, split: int | None
) -> None:
    rows = read(query_of(sound, "messages"))
    row = rows[1]
    put_offset(sound, row["logPosition"], wrong)
    try:
        (found,) = read(query_of(sound, "damage"), split)
        assert (found["kind"], found["logPosition"]) == ("header", row["logPosition"])
        shown = read(query_of(sound, "messages"), split)
    finally:
        put_offset(sound, row["logPosition"], row["queueOffset"])
    assert sorted(one["logPosition"] for one in shown) == [one["logPosition"] for one in rows]


def test_without_queues_the_neighbours_tell(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root, ignore=shutil.ignore_patterns("consumequeue"))
    rows = read(query_of(root, "messages"))
    assert read(query_of(root, "damage")) == []
    queue = [row for row in rows if (row["topic"], row["queue"]) == ("T", 1)]
    assert len(queue) > 6
    row = queue[3]
    for wrong in (row["queueOffset"] + 1, row["queueOffset"] ^ 64, 0, -1):
        put_offset(root, row["logPosition"], wrong)
        (found,) = read(query_of(root, "damage"))
        assert (found["kind"], found["logPosition"]) == ("header", row["logPosition"])


def test_offsets_of_recorded_brokers_are_right(recorded_stores: Path) -> None:
    for root in sorted(recorded_stores.iterdir()):
        for split in (None, 65536):
            found = read(query_of(root, "damage"), split)
            assert [one for one in found if one["kind"] == "header"] == [], root.name
