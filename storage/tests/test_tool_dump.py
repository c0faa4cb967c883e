"""``lanemq store dump``: messages by any index and by none, and what should be one and is not."""

import shutil
from pathlib import Path

import pytest

from lanemq.storage.tools import Lost, NotAStore, Selection, open_dump
from lanemq.testkit.storage.stores import NAMES, Recorded, expected_of
from lanemq.wire.message import StoredMessage

FILE_STORE = "file-4.9.7-clean"
ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def dumped(root: Path, selection: Selection, source: str | None = None) -> list[StoredMessage]:
    with open_dump(root, selection, source=source) as dump:
        found = list(dump)
    assert not [one for one in found if isinstance(one, Lost)]
    return [one for one in found if isinstance(one, StoredMessage)]


def places(messages: list[StoredMessage]) -> list[tuple[int, int]]:
    return [(message.queue_id, message.queue_offset) for message in messages]


@pytest.mark.parametrize("name", NAMES)
def test_every_topic_has_the_messages_that_the_broker_reported(
    name: str, unpacked_stores: Path
) -> None:
    wanted = {
        (topic, int(number), offset)
        for topic, described in expected_of(name)["topics"].items()
        for number, queue in described["queues"].items()
        for offset in range(queue["min"], queue["max"])
    }
    for source in (None, "log"):
        messages = dumped(unpacked_stores / name, Selection(), source)
        found = [(one.topic, one.queue_id, one.queue_offset) for one in messages]
        assert len(found) == len(set(found))
        assert wanted <= set(found)
        # 4.9.7 does not list the topic that keeps its own notes on transactions.
        assert {topic for topic, _, _ in set(found) - wanted} <= {"RMQ_SYS_TRANS_OP_HALF_TOPIC"}


def test_a_store_in_stage_3_is_read_by_rocksdb_and_can_be_read_by_its_files(
    unpacked_stores: Path,
) -> None:
    root, selection = unpacked_stores / ROCKSDB_STORE, Selection(topic="sdx_orders")
    with open_dump(root, selection) as dump:
        assert dump.source == "rocksdb"
        assert len(list(dump)) == 57
    with pytest.raises(NotAStore, match="open_dump"):
        dumped(root, selection, "files")
    assert len(dumped(root, Selection(topic="sd_orders"), "files")) == 616


def test_a_selection_is_cut_by_queue_offset_count_key_and_time(unpacked_stores: Path) -> None:
    root = unpacked_stores / FILE_STORE
    some = dumped(root, Selection(topic="sa_orders", queue_id=1, offset=150, count=3))
    assert places(some) == [(1, 150), (1, 151), (1, 152)]
    key = some[0].unique_key
    assert key is not None
    assert places(dumped(root, Selection(topic="sa_orders", key=key))) == [(1, 150)]
    assert places(dumped(root, Selection(key=key), "log")) == [(1, 150)]
    time_ms = some[1].store_timestamp_ms
    between = dumped(root, Selection(topic="sa_orders", begin_ms=time_ms, end_ms=time_ms))
    assert (1, 151) in places(between)
    assert {message.store_timestamp_ms for message in between} == {time_ms}


def test_what_is_no_message_is_told_in_its_place(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    (before, broken, after) = dumped(
        root, Selection(topic="sa_orders", queue_id=2, offset=6, count=3)
    )
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[broken.log_position + 100] ^= 1
    log.write_bytes(data)
    selection = Selection(topic="sa_orders", queue_id=2, offset=6, count=3)
    for source in ("files", "log"):
        with open_dump(root, selection, source=source) as dump:
            first, lost, last = dump
        assert (first, last) == (before, after)
        assert isinstance(lost, Lost)
        assert (lost.topic, lost.queue_id, lost.queue_offset) == ("sa_orders", 2, 7)
        assert "CRC" in lost.why


def test_bytes_that_are_no_record_are_told_from_the_log(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    wanted = dumped(root, Selection(), "log")
    victim = wanted[40]
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[victim.log_position : victim.log_position + 50] = bytes(50)
    log.write_bytes(data)
    with open_dump(root, Selection(), source="log") as dump:
        found = list(dump)
    (lost,) = [one for one in found if isinstance(one, Lost)]
    assert (lost.log_position, lost.topic) == (victim.log_position, None)
    assert found.index(lost) == 40
    assert found[:40] + found[41:] == wanted[:40] + wanted[41:]


def test_the_log_is_enough(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    for name in ("consumequeue", "index", "config"):
        shutil.rmtree(root / name)
    assert len(dumped(root, Selection(topic="sa_orders"), "log")) == 616


def test_an_unknown_topic_or_queue_is_refused_with_a_hint(unpacked_stores: Path) -> None:
    root = unpacked_stores / FILE_STORE
    with pytest.raises(NotAStore, match="`inspect_store` lists"):
        dumped(root, Selection(topic="sa_order"))
    with pytest.raises(NotAStore, match="no queue 9"):
        dumped(root, Selection(topic="sa_orders", queue_id=9))
    with pytest.raises(NotAStore, match="no RocksDB"):
        dumped(root, Selection(topic="sa_orders"), "rocksdb")


@pytest.mark.parametrize("name", [FILE_STORE, ROCKSDB_STORE])
def test_a_queue_that_is_not_there_is_told_with_those_that_are(
    name: str, unpacked_stores: Path
) -> None:
    topic = {FILE_STORE: "sa_orders", ROCKSDB_STORE: "sdx_orders"}[name]
    selection = Selection(topic=topic, queue_id=9)
    with (
        pytest.raises(NotAStore, match=f"no queue 9 in topic '{topic}'.*it has 0, 1, 2, 3, and "),
        open_dump(unpacked_stores / name, selection),
    ):
        pass


def test_a_queue_that_no_topic_has_is_no_fault_of_a_topic(unpacked_stores: Path) -> None:
    root = unpacked_stores / FILE_STORE
    with (
        pytest.raises(NotAStore, match=r"no topic .* has a queue 99; `inspect_store`"),
        open_dump(root, Selection(queue_id=99, key="k")),
    ):
        pass
