"""Stored messages: the record and its two encoders."""

import zlib
from contextlib import suppress
from functools import partial
from typing import Any

import construct as cs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import HostAddress, LocalProtocolError, RemoteProtocolError, SysFlag
from lanemq.wire.message import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_LAYOUTS,
    StoredMessage,
    body_crc,
    compress_body,
    decode_message,
    decode_messages,
    encode_message,
    encode_properties,
    encode_record,
    iter_messages,
    record_content,
    record_outline,
    record_properties,
    record_size,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOST = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
TOPIC = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=30), st.text("Ab%é", min_size=100, max_size=300)
)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "topic": TOPIC.map(str.encode),
        "body": st.binary(),
        "properties": st.binary(),
        "queue_id": INT32,
        "flag": INT32,
        "queue_offset": INT64,
        "log_position": INT64,
        "sys_flag": INT32,
        "born_timestamp_ms": INT64,
        "born_host": HOST,
        "store_timestamp_ms": INT64,
        "store_host": HOST,
        "reconsume_times": INT32,
        "prepared_transaction_offset": INT64,
    }
)
PLAIN: dict[str, Any] = {
    "topic": b"T",
    "body": b"hi",
    "properties": b"",
    "queue_id": 1,
    "flag": 2,
    "queue_offset": 3,
    "log_position": 4,
    "sys_flag": 0,
    "born_timestamp_ms": 5,
    "born_host": HostAddress("127.0.0.1", 6).packed,
    "store_timestamp_ms": 7,
    "store_host": HostAddress("127.0.0.2", 8).packed,
}


def part_of(data: bytes, at: int, size: int) -> bytes:
    return data[at : at + size]


@given(FIELDS)
def test_an_outline_of_a_record_is_read_without_its_body(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    reads: list[tuple[int, int]] = []

    def read(at: int, size: int) -> bytes:
        reads.append((at, size))
        return record[at : at + size]

    store_ms, body, properties = record_content(record)
    assert record_outline(len(record), read) == (store_ms, properties)
    (_, head), (rest_at, rest) = reads
    assert rest_at + rest == len(record)
    assert head + rest <= len(record) - len(body) + 24  # of a short head, with IPv4 addresses
    for size in (len(record) - 1, len(record) + 1, 0, 20):
        with pytest.raises(RemoteProtocolError):
            record_outline(size, read)
    for end in (0, 10, len(record) - 1):
        shorter = record[:end]
        with pytest.raises(RemoteProtocolError):
            record_outline(len(record), partial(part_of, shorter))


@given(FIELDS)
def test_records_come_back(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    message = decode_message(record, check_crc=True)
    assert encode_message(message) == record
    assert message.size_bytes == record_size(record) == len(record)
    assert message.magic == (MAGIC_V1 if len(fields["topic"]) <= 127 else MAGIC_V2)
    assert message.topic == fields["topic"].decode()
    assert message.properties_data == record_properties(record) == fields["properties"]
    assert message.born_host.packed == fields["born_host"]
    assert message.store_host.packed == fields["store_host"]
    for name in ("body", "queue_id", "flag", "queue_offset", "log_position", "reconsume_times"):
        assert getattr(message, name) == fields[name]
    for name in ("born_timestamp_ms", "store_timestamp_ms", "prepared_transaction_offset"):
        assert getattr(message, name) == fields[name]


@given(FIELDS)
def test_the_declaration_reads_and_writes_the_same(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    sys_flag = decode_message(record).sys_flag
    magic = MAGIC_V1 if len(fields["topic"]) <= 127 else MAGIC_V2
    declaration = RECORD_LAYOUTS[magic, sys_flag & SysFlag.HOSTS_V6_MASK]
    parsed: Any = declaration.parse(record)
    assert declaration.build(parsed) == record
    assert {name: parsed[name] for name in fields if name != "sys_flag"} == {
        name: value for name, value in fields.items() if name != "sys_flag"
    }
    assert parsed.sys_flag == sys_flag
    assert parsed.body_crc == zlib.crc32(fields["body"]) & 0x7FFFFFFF


@given(FIELDS)
def test_the_hosts_decide_the_bits_of_the_flag(fields: dict[str, Any]) -> None:
    message = decode_message(encode_record(**fields))
    assert message.born_host.is_v6 == bool(message.sys_flag & SysFlag.BORN_HOST_V6)
    assert message.store_host.is_v6 == bool(message.sys_flag & SysFlag.STORE_HOST_V6)
    others = ~SysFlag.HOSTS_V6_MASK
    assert message.sys_flag & others == fields["sys_flag"] & others


@given(st.lists(FIELDS, max_size=5))
def test_records_follow_each_other(all_fields: list[dict[str, Any]]) -> None:
    records = [encode_record(**fields) for fields in all_fields]
    data = b"".join(records)
    messages = decode_messages(data)
    assert [encode_message(message) for message in messages] == records
    assert list(iter_messages(memoryview(data), check_crc=True)) == messages
    assert decode_messages(bytearray(data)) == messages


@given(st.binary(max_size=200))
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes) -> None:
    for position in (0, 1, -1, len(data)):
        with suppress(RemoteProtocolError):
            decode_message(data, position)
        with suppress(RemoteProtocolError):
            record_size(data, position)


@given(FIELDS, st.data())
def test_a_damaged_record_is_read_as_the_declaration_reads_it_or_refused(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    record = bytearray(encode_record(**fields))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = decode_message(record)
    except RemoteProtocolError:
        return
    declaration = RECORD_LAYOUTS[message.magic, message.sys_flag & SysFlag.HOSTS_V6_MASK]
    try:
        parsed: Any = declaration.parse(bytes(record))
    except cs.ConstructError:
        # Only a negative length of properties, which readers take for none.
        assert message.properties_data == b""
        return
    assert parsed.body == message.body
    assert parsed.topic == message.topic.encode()
    assert parsed.properties == message.properties_data


@given(FIELDS, st.data())
def test_a_cut_record_is_refused(fields: dict[str, Any], data: st.DataObject) -> None:
    record = encode_record(**fields)
    cut = record[: data.draw(st.integers(0, len(record) - 1))]
    with pytest.raises(RemoteProtocolError):
        decode_message(cut)


def test_a_record_is_laid_out_as_the_reference_lays_it_out() -> None:
    record = encode_record(**PLAIN | {"properties": b"A\x011\x02"})
    assert record == bytes.fromhex(
        "00000062"  # size
        "daa320a7"  # magic
        "58932aac"  # body CRC, its top bit cleared
        "00000001"  # queue id
        "00000002"  # flag
        "0000000000000003"  # queue offset
        "0000000000000004"  # log position
        "00000000"  # sysFlag
        "0000000000000005"  # born timestamp
        "7f000001 00000006"  # born host
        "0000000000000007"  # store timestamp
        "7f000002 00000008"  # store host
        "00000000"  # reconsume times
        "0000000000000000"  # prepared transaction offset
        "00000002 6869"  # body
        "01 54"  # topic
        "0004 41013102"  # properties
    )


def test_a_body_changed_after_it_was_stored_is_found() -> None:
    record = encode_record(**PLAIN).replace(b"hi", b"ho")
    assert decode_message(record).body == b"ho"
    with pytest.raises(RemoteProtocolError, match="CRC"):
        decode_message(record, check_crc=True)


def test_the_filler_of_a_log_file_is_no_message() -> None:
    filler = (100).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True) + bytes(92)
    with pytest.raises(RemoteProtocolError, match="magic 0xcbd43194"):
        decode_message(filler)


def test_a_topic_that_is_no_text_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="bad topic"):
        decode_message(encode_record(**PLAIN | {"topic": b"\xff"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"born_host": b"\x7f\0\0\1"},
        {"properties": bytes(32768)},
        {"queue_id": 1 << 31},
        {"log_position": 1 << 63},
        {"topic": bytes(32768)},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_record(**PLAIN | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"born_host": HostAddress("name", 1)},
        {"properties_data": bytes(32768)},
        {"topic": "x" * 128},  # with the magic of version 1
        {"flag": 1 << 31},
    ],
)
def test_a_message_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    message = msgspec.structs.replace(decode_message(encode_record(**PLAIN)), **changes)
    with pytest.raises(LocalProtocolError):
        encode_message(message)


def test_what_the_properties_say_is_at_hand() -> None:
    properties = encode_properties({"KEYS": "a  b ", "TAGS": "T1", "UNIQ_KEY": "0A"})
    message = decode_message(encode_record(**PLAIN | {"properties": properties}))
    assert message.properties == {"KEYS": "a  b ", "TAGS": "T1", "UNIQ_KEY": "0A"}
    assert (message.keys, message.tags, message.unique_key) == (("a", "b"), "T1", "0A")
    assert message.offset_id == "7F000002000000080000000000000004"
    bare = decode_message(encode_record(**PLAIN))
    assert (bare.keys, bare.tags, bare.unique_key) == ((), None, None)


def test_a_compressed_body_is_opened() -> None:
    stored = compress_body(b"x" * 5000)
    record = encode_record(**PLAIN | {"body": stored, "sys_flag": SysFlag.COMPRESSED})
    message = decode_message(record, check_crc=True)
    assert message.decompressed_body() == b"x" * 5000
    assert message.body_crc == body_crc(stored)
    with pytest.raises(RemoteProtocolError):
        message.decompressed_body(max_bytes=4999)


def test_a_message_is_a_value() -> None:
    record = encode_record(**PLAIN)
    assert decode_message(record) == decode_message(record)
    assert isinstance(decode_message(record), StoredMessage)
    with pytest.raises(AttributeError):
        decode_message(record).flag = 1  # type: ignore[misc]


@given(st.lists(FIELDS, max_size=3), st.data())
def test_many_records_are_read_as_one_by_one_whatever_is_wrong_with_them(
    all_fields: list[dict[str, Any]], drawn: st.DataObject
) -> None:
    data = bytearray(b"".join(encode_record(**fields) for fields in all_fields))
    for _ in range(drawn.draw(st.integers(0, 2)) if data else 0):
        data[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    whole = bytes(data[: drawn.draw(st.integers(0, len(data)))] if data else data)
    try:
        expected: object = list(iter_messages(whole))
    except RemoteProtocolError as error:
        expected = str(error)
    try:
        read: object = decode_messages(whole)
    except RemoteProtocolError as error:
        read = str(error)
    assert read == expected


def test_a_negative_size_of_properties_is_no_large_one() -> None:
    record = bytearray(encode_record(**{**PLAIN, "body": b"", "properties": b"x" * 32767}))
    at = len(record) - 32767 - 2
    record[at : at + 2] = (-32768 & 0xFFFF).to_bytes(2, "big")
    record += b"x"
    record[0:4] = len(record).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="properties length"):
        decode_messages(bytes(record))


def test_clearly_more_records_than_asked_for_are_refused_before_one_is_decoded() -> None:
    record = encode_record(**PLAIN)
    for asked, most in ((1, 4096), (32, 4096), (2000, 8000)):
        assert len(decode_messages(record * most, asked=asked)) == most, "no broker is that strange"
        for many in (record * (most + 1), record * (5 * most), record * most + b"no record"):
            for spoiled in (many, many[:4] + b"none" + many[8:]):
                with pytest.raises(RemoteProtocolError, match=f"more than {most} messages, where"):
                    decode_messages(spoiled, asked=asked)
    assert len(decode_messages(record * 5000)) == 5000, "nobody says what was asked for"


@given(st.lists(FIELDS, max_size=3), st.data())
def test_the_number_asked_for_changes_nothing_else(
    all_fields: list[dict[str, Any]], drawn: st.DataObject
) -> None:
    data = bytearray(b"".join(encode_record(**fields) for fields in all_fields))
    for _ in range(drawn.draw(st.integers(0, 2)) if data else 0):
        data[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    outcomes: list[object] = []
    for asked in (None, 1):
        try:
            outcomes.append(decode_messages(bytes(data), asked=asked))
        except RemoteProtocolError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
