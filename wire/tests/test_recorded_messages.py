"""Messages that real brokers sent and stored are read, and written again byte for byte."""

from typing import Any

import pytest

from lanemq.wire import RequestCode, SysFlag
from lanemq.wire.message import (
    MAGIC_BLANK,
    RECORD_LAYOUTS,
    StoredMessage,
    decode_batch,
    decode_message,
    decode_messages,
    decode_offset_id,
    encode_batch,
    encode_message,
    encode_record,
)

POP_MESSAGE = 200050
ANSWERS_WITH_RECORDS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    POP_MESSAGE,
}


def check(data: bytes) -> list[StoredMessage]:
    """All ways to read and to write a record agree on each record of ``data``."""
    messages = decode_messages(data, check_crc=True)
    assert b"".join(map(encode_message, messages)) == data
    position = 0
    for message in messages:
        record = data[position : position + message.size_bytes]
        position += message.size_bytes
        assert write_anew(message) == record
        assert_declared(record, message)
        assert decode_offset_id(message.offset_id) == (message.store_host, message.log_position)
        message.decompressed_body()
    return messages


def write_anew(message: StoredMessage) -> bytes:
    return encode_record(
        topic=message.topic.encode(),
        body=message.body,
        properties=message.properties_data,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        log_position=message.log_position,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host.packed,
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=message.store_host.packed,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )


def assert_declared(record: bytes, message: StoredMessage) -> None:
    declaration = RECORD_LAYOUTS[message.magic, message.sys_flag & SysFlag.HOSTS_V6_MASK]
    fields: Any = declaration.parse(record)
    assert declaration.build(fields) == record
    assert fields.log_position == message.log_position
    assert fields.store_timestamp_ms == message.store_timestamp_ms
    assert fields.body == message.body
    assert fields.topic == message.topic.encode()
    assert fields.properties == message.properties_data


def test_every_record_in_an_answer(recorded: list[Any]) -> None:
    count = 0
    for one in recorded:
        frame = one.frame
        if frame.is_response and frame.code == 0 and one.request_code in ANSWERS_WITH_RECORDS:
            count += len(check(frame.body))
    assert count == 635


def test_every_record_in_a_request_of_a_broker(recorded: list[Any]) -> None:
    asked = [one.frame for one in recorded if one.frame.code == RequestCode.CHECK_TRANSACTION_STATE]
    assert len(asked) == 10
    for frame in asked:
        (message,) = check(frame.body)
        assert message.unique_key == frame.fields.get("msgId") or message.unique_key is None


def test_every_batch_that_a_client_sent(recorded: list[Any]) -> None:
    batches = [
        one.frame.body
        for one in recorded
        if not one.frame.is_response and one.frame.code == RequestCode.SEND_BATCH_MESSAGE
    ]
    assert len(batches) == 13
    for body in batches:
        assert encode_batch(decode_batch(body)) == body


@pytest.mark.slow
def test_every_record_of_a_commit_log(recorded_stores: list[Any]) -> None:
    assert len(recorded_stores) == 6
    for store in recorded_stores:
        count, file_start = 0, 0
        for data in store.log_files:
            position = 0
            while position + 8 <= len(data):
                size, magic = (
                    int.from_bytes(data[at : at + 4], "big", signed=True)
                    for at in (position, position + 4)
                )
                if size == 0 or magic == MAGIC_BLANK:
                    break
                (message,) = check(data[position : position + size])
                assert decode_message(data, position) == message
                assert message.log_position == file_start + position
                position += size
                count += 1
            file_start += len(data)
        assert count == store.records, store.name
