"""Columns of records hold what the decoder of single records says, whatever is in them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.spark import require_packages
from lanemq.wire import HostAddress
from lanemq.wire.message import (
    RECORD_LAYOUTS,
    StoredMessage,
    compress_body,
    decode_message,
    decode_properties,
)

require_packages()

import numpy as np  # noqa: E402

from lanemq.spark._schemas import MESSAGES, MESSAGES_ON_DEMAND  # noqa: E402
from lanemq.spark.records import (  # noqa: E402
    RecordColumns,
    decode_records,
    sound_records,
    walk_sizes,
)
from lanemq.wire import SysFlag  # noqa: E402
from lanemq.wire.message import MAGIC_V1, MAGIC_V2, body_crc  # noqa: E402

pytestmark = pytest.mark.slow
NAMES = (*MESSAGES, *MESSAGES_ON_DEMAND)


def rows_of(columns: RecordColumns) -> list[dict[str, Any]]:
    made = {name: columns.column(name).to_pylist() for name in NAMES}
    return [{name: made[name][row] for name in NAMES} for row in range(len(columns))]


def row_of(message: StoredMessage) -> dict[str, Any]:
    """The row that a message must have, by the decoder of single records."""
    properties = message.properties
    return {
        "topic": message.topic,
        "queue": message.queue_id,
        "queueOffset": message.queue_offset,
        "logicalQueue": None,
        "msgId": message.unique_key or message.offset_id,
        "keys": properties.get("KEYS"),
        "tags": message.tags,
        "body": message.decompressed_body(),
        "properties": properties,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "logPosition": message.log_position,
        "storeSize": message.size_bytes,
        "offsetMsgId": message.offset_id,
        "bodyCrc": message.body_crc,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }


def assert_same(columns: RecordColumns, records: list[bytes]) -> None:
    for row, record in zip(rows_of(columns), records, strict=True):
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = round(row[name].timestamp() * 1000)
        row["properties"] = dict(row["properties"])
        expected = row_of(decode_message(record))
        assert row == expected
        assert list(row["properties"]) == list(expected["properties"])


def test_every_record_of_the_recorded_logs_is_as_the_decoder_has_it(recorded_stores: Path) -> None:
    count = 0
    for path in sorted(recorded_stores.glob("*/commitlog/*")):
        data = path.read_bytes()
        starts, _ = walk_sizes(data, 0, len(data))
        records = decode_records(data, starts)
        assert sound_records(records, int(path.name)) == len(starts)
        ends = starts + records.fields["size_bytes"]
        cut = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        assert_same(RecordColumns(records), cut)
        count += len(cut)
    assert count == 1601 + 2348 + 1579 + 2402 + 1576 + 2180


hosts = st.one_of(
    st.ip_addresses(v=4).map(lambda ip: HostAddress(str(ip), 10911)),
    st.ip_addresses(v=6).map(lambda ip: HostAddress(str(ip), 10911)),
)
segments = st.lists(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\x01", b"\x02", b"\xc3\xbc"])
)


@st.composite
def stored(draw: st.DrawFn) -> bytes:
    """A record of any kind, with properties that are often malformed."""
    born, store = draw(hosts), draw(hosts)
    flag = SysFlag.BORN_HOST_V6 * born.is_v6 | SysFlag.STORE_HOST_V6 * store.is_v6
    body = draw(st.binary(max_size=50))
    if draw(st.booleans()):
        flag |= SysFlag.COMPRESSED
        body = compress_body(body)
    magic = draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
    properties = b"".join(draw(segments))
    topic = draw(st.text(max_size=20)).encode()
    values = {
        "size_bytes": 0,
        "magic": magic,
        "body_crc": body_crc(body) if body else 0,
        "queue_id": draw(st.integers(0, 100)),
        "flag": draw(st.integers(-5, 5)),
        "queue_offset": draw(st.integers(0, 1 << 62)),
        "log_position": draw(st.integers(0, 1 << 62)),
        "sys_flag": flag,
        "born_timestamp_ms": draw(st.integers(0, 1 << 41)),
        "born_host": born.packed,
        "store_timestamp_ms": draw(st.integers(0, 1 << 41)),
        "store_host": store.packed,
        "reconsume_times": draw(st.integers(0, 16)),
        "prepared_transaction_offset": draw(st.integers(0, 1 << 40)),
        "body_size": len(body),
        "body": body,
        "topic_size": len(topic),
        "topic": topic,
        "properties_size": len(properties),
        "properties": properties,
    }
    layout = RECORD_LAYOUTS[magic, flag & SysFlag.HOSTS_V6_MASK]
    values["size_bytes"] = len(layout.build(values))
    return bytes(layout.build(values))


@given(st.lists(stored(), min_size=1, max_size=6))
def test_records_of_all_kinds_are_as_the_decoder_has_them(records: list[bytes]) -> None:
    data = b"".join(records)
    starts, end = walk_sizes(data, 0, len(data))
    assert (len(starts), end) == (len(records), len(data))
    found = decode_records(data, starts)
    assert sound_records(found, None) == len(records)
    assert_same(RecordColumns(found), records)


@given(stored(), st.data())
def test_a_record_with_a_changed_byte_is_refused_or_read_without_harm(
    record: bytes, data: st.DataObject
) -> None:
    changed = bytearray(record * 2)
    place = data.draw(st.integers(0, len(record) - 1))
    changed[place] ^= data.draw(st.integers(1, 255))
    starts, _ = walk_sizes(bytes(changed), 0, len(changed))
    found = decode_records(bytes(changed), starts)
    count = sound_records(found, None)
    columns = RecordColumns(found.take(slice(0, count)))
    for name in NAMES:
        columns.column(name).validate(full=True)


@pytest.mark.parametrize("repeats", [1, 2, 70])
def test_a_repeated_property_keeps_its_first_place_and_its_last_value(repeats: int) -> None:
    text = b"".join(b"n%d\x01old\x02" % number for number in range(repeats))
    text += b"n0\x01new\x02"
    from lanemq.spark.records._columns import MAP
    from lanemq.spark.records._properties import PropertyColumns

    data = text * 2
    ends = np.array([len(text), 2 * len(text)], np.int64)
    columns = PropertyColumns(data, ends - len(text), ends)
    expected = list(decode_properties(text).items())
    assert columns.maps(MAP).to_pylist() == [expected, expected]
    assert columns.get("n0").to_pylist() == ["new", "new"]


@given(st.lists(stored(), min_size=1, max_size=4), st.data())
def test_a_body_that_fails_its_checksum_is_null_and_named(
    records: list[bytes], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(records) - 1))
    before = b"".join(records[:number])
    whole = bytearray(b"".join(records))
    starts, _ = walk_sizes(bytes(whole), 0, len(whole))
    found = decode_records(bytes(whole), starts)
    begin, end = int(found.body_at[number]), int(found.body_end[number])
    if begin == end:  # a body of no bytes has no checksum
        return
    assert len(before) < begin
    whole[data.draw(st.integers(begin, end - 1))] ^= 1
    columns = RecordColumns(decode_records(bytes(whole), starts))
    bodies = columns.column("body").to_pylist()
    assert [row for row, body in enumerate(bodies) if body is None] == [number]
    assert [one.row for one in columns.unreadable] == [number]
    assert "checksum" in columns.unreadable[0].why
