"""Addresses of brokers in what passes through a proxy."""

import json
import time
from collections.abc import Iterator
from typing import Final

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanemq.proxy.gateway._answers import SeenAnswers
from lanemq.proxy.gateway.rewrites import (
    with_addresses,
    with_id_host,
    with_origin_ids,
)
from lanemq.proxy.logical.rules._records import LONG_RECORDS_BYTES, PIECE_BYTES, with_store_host
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.reading_time import slowness
from lanemq.wire import HostAddress, RemoteProtocolError, RequestCode, SysFlag
from lanemq.wire.frame import Frame, request
from lanemq.wire.message import (
    MAGIC_V1,
    MAGIC_V2,
    StoredMessage,
    decode_message,
    decode_messages,
    decode_offset_id,
    encode_message,
    encode_offset_id,
    encode_properties,
)

BROKER: Final = HostAddress("10.1.2.3", 10911)
PROXY: Final = HostAddress("192.168.7.1", 11911)
HOSTS: Final = st.sampled_from(
    [BROKER, PROXY, HostAddress("::1", 5), HostAddress("2001:db8::7", 10911)]
)
TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=20)


@st.composite
def messages(draw: st.DrawFn) -> StoredMessage:
    born, stored = draw(HOSTS), draw(HOSTS)
    flags = (SysFlag.BORN_HOST_V6 if born.is_v6 else 0) | (
        SysFlag.STORE_HOST_V6 if stored.is_v6 else 0
    )
    properties = draw(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4))
    for name in ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"):
        if draw(st.booleans()):
            origin = draw(HOSTS)
            properties[name] = encode_offset_id(origin, draw(st.integers(0, 1 << 60)))
    magic = draw(st.sampled_from([MAGIC_V1, MAGIC_V2]))
    message = StoredMessage(
        size_bytes=0,
        magic=magic,
        body_crc=draw(st.integers(0, 1 << 31 - 1)),
        queue_id=draw(st.integers(0, 1000)),
        flag=0,
        queue_offset=draw(st.integers(0, 1 << 60)),
        log_position=draw(st.integers(0, 1 << 60)),
        sys_flag=int(flags),
        born_timestamp_ms=1,
        born_host=born,
        store_timestamp_ms=2,
        store_host=stored,
        reconsume_times=1,
        prepared_transaction_offset=0,
        body=draw(st.binary(max_size=60) | st.just(b"\x02ORIGIN_MESSAGE_ID\x01" + b"A" * 32)),
        topic="T",
        properties_data=encode_properties(properties),
    )
    return decode_message(encode_message(message))


@given(st.lists(messages(), max_size=5), st.sampled_from([PROXY, HostAddress("2001:db8::1", 7)]))
def test_records_name_the_proxy_and_are_the_same_otherwise(
    given_messages: list[StoredMessage], seen: HostAddress
) -> None:
    data = b"".join(map(encode_message, given_messages))
    hosts = {BROKER.packed.hex().upper().encode(): PROXY.packed.hex().upper().encode()}
    records = with_origin_ids(with_store_host(data, seen.packed), hosts)
    found = decode_messages(records)
    assert len(found) == len(given_messages)
    for before, after in zip(given_messages, found, strict=True):
        assert after.store_host == seen
        expected = {
            name: with_id_host(value, PROXY.packed.hex().upper())
            if name.endswith("ORIGIN_MESSAGE_ID") and decode_offset_id(value)[0] == BROKER
            else value
            for name, value in before.properties.items()
        }
        assert after.properties == expected
        same = replace(
            after,
            store_host=before.store_host,
            properties_data=before.properties_data,
            sys_flag=before.sys_flag,
            size_bytes=before.size_bytes,
        )
        assert same == before


@given(st.binary(max_size=300))
def test_what_is_no_record_is_told_from_records(data: bytes) -> None:
    fault: RemoteProtocolError | None = None
    seen = data
    try:
        seen = with_origin_ids(with_store_host(data, PROXY.packed), {})
    except RemoteProtocolError as error:
        fault = error
    assert len(seen) == len(data)
    assert fault is None or "no record" in str(fault)


def test_half_a_record_is_told_from_records() -> None:
    record = encode_message(decode_message(_record()))
    for size in range(1, len(record)):
        with pytest.raises(RemoteProtocolError):
            with_store_host(record[:size], PROXY.packed)


def _record() -> bytes:
    return next(iter(_records(1)))


def _records(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield encode_message(
            StoredMessage(
                size_bytes=0,
                magic=MAGIC_V1,
                body_crc=0,
                queue_id=0,
                flag=0,
                queue_offset=number,
                log_position=number * 100,
                sys_flag=0,
                born_timestamp_ms=1,
                born_host=PROXY,
                store_timestamp_ms=2,
                store_host=BROKER,
                reconsume_times=0,
                prepared_transaction_offset=0,
                body=b"body",
                topic="T",
                properties_data=b"",
            )
        )


def test_routes_keep_what_nobody_here_knows() -> None:
    body = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.1.2.3:10911",1:"10.1.2.4:10911"},'
        b'"brokerName":"10.1.2.3:10911x","cluster":"c","novelty":[1,2]}],"queueDatas":[]}'
    )
    seen = with_addresses(body, {"10.1.2.3:10911": "p:1", "10.1.2.4:10911": "p:2", "p:1": "p:9"})
    assert seen == body.replace(b'"10.1.2.3:10911"', b'"p:1"').replace(b"10.1.2.4:10911", b"p:2")


STRANGE: Final = ("", "a" * 300, '"', "\\", '\\"', '"\\\\"', '","', "ü", "10.1.2.3:10911x")
LONG_TEXTS: Final = [
    size * one + "10.1.2.3:10911" for one in ("a", "\\", '"') for size in (32767, 65529, 65536)
]


@pytest.mark.parametrize("text", [*STRANGE, *LONG_TEXTS])
def test_addresses_are_found_whatever_texts_are_before_them(text: str) -> None:
    """An empty one, for example, was taken for the end of one, and what was behind it passed."""
    before = {"zone": text, text: [text], "at": "10.1.2.3:10911", "z": '"10.1.2.3:10911"'}
    body = json.dumps(before, ensure_ascii=False).encode()
    seen = json.loads(with_addresses(body, {"10.1.2.3:10911": "p:1"}))
    assert seen == before | {"at": "p:1"}


@given(st.binary(max_size=50) | st.text('\\"ab', max_size=20).map(str.encode))
def test_a_body_that_is_no_json_stays_but_for_its_addresses(body: bytes) -> None:
    assert with_addresses(body, {"a": "a"}) == body
    seen = with_addresses(body, {"a": "aa"})
    assert seen.replace(b'"aa"', b'"a"') == body.replace(b'"aa"', b'"a"')


@pytest.mark.parametrize("piece", [b'"', b'\\"', b"\\", b'"a', b'"a",'])
def test_looking_for_addresses_takes_many_short_steps(piece: bytes) -> None:
    """One long call in a thread holds up the event loop: a third of a second for 16 MiB."""
    body = piece * (2 << 20)
    with calls_of_this_thread() as calls:
        assert with_addresses(body, {"b": "c"}) == body
    assert calls.count >= 3 * len(body) >> 16


def test_ids_keep_their_positions_and_other_texts_stay() -> None:
    ids = [encode_offset_id(BROKER, 5), encode_offset_id(HostAddress("::1", 3), 1 << 60)]
    host = PROXY.packed.hex().upper()
    seen = with_id_host(",".join(ids), host).split(",")
    assert [decode_offset_id(one) for one in seen] == [(PROXY, 5), (PROXY, 1 << 60)]
    for other in ("", "x" * 32, "0" * 31, "handle,of,something"):
        assert with_id_host(other, host) == other


def test_the_unique_key_of_a_transaction_check_stays() -> None:
    seen = SeenAnswers(PROXY, {})
    check = request(
        RequestCode.CHECK_TRANSACTION_STATE,
        {
            "msgId": "A" * 32,
            "offsetMsgId": encode_offset_id(BROKER, 9),
            "tranStateTableOffset": "1",
        },
        body=_record(),
    )
    passed = seen.request(check)
    assert passed.fields["msgId"] == "A" * 32
    assert decode_offset_id(passed.fields["offsetMsgId"]) == (PROXY, 9)
    assert decode_message(passed.body).store_host == PROXY


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, 200050])
def test_a_body_that_cannot_be_read_passes_through(code: int) -> None:
    answer = Frame(0, body=b"not a record")
    assert SeenAnswers(PROXY, {}).answer(code, answer) is answer


def test_many_records_whose_address_changes_its_length_take_linear_time() -> None:
    v6 = replace(
        decode_message(_record()),
        store_host=HostAddress("::1", 5),
        sys_flag=int(SysFlag.STORE_HOST_V6),
    )
    one = encode_message(v6)
    number = (8 << 20) // len(one)
    begin_s = time.process_time()
    seen = with_store_host(one * number, PROXY.packed)
    assert time.process_time() - begin_s < 5.0  # about 0.1; each record moved what is behind it
    assert seen == encode_message(replace(v6, store_host=PROXY, sys_flag=0)) * number


async def test_an_answer_of_very_many_records_is_made_in_short_turns() -> None:
    """Whoever registers as a broker may answer a pull with 16 MiB of the shortest records."""
    one = _record()
    body = one * (1 + LONG_RECORDS_BYTES * 4 // len(one))
    seen, turns = SeenAnswers(PROXY, {}), 0
    code, frame = (
        int(RequestCode.PULL_MESSAGE),
        Frame(0, fields={"nextBeginOffset": "7"}, body=body),
    )
    assert not seen.is_long(code, replace(frame, body=body[: LONG_RECORDS_BYTES // 2]))
    assert not seen.is_long(int(RequestCode.HEART_BEAT), frame)
    assert seen.is_long(code, frame)

    class Turns(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal turns
            turns += 1

    trio.lowlevel.add_instrument(instrument := Turns())
    made = await seen.long_frame(code, frame)
    trio.lowlevel.remove_instrument(instrument)
    assert made == seen.answer(code, frame)
    assert turns >= len(body) // (PIECE_BYTES + len(one))
    broken = replace(frame, body=body + b"no record")
    passed = (await seen.long_frame(code, broken)).body
    assert passed[:PIECE_BYTES] == made.body[:PIECE_BYTES]
    assert passed.endswith(one + b"no record"), "as it is, with what is before it"


@pytest.mark.parametrize(
    "code", [RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY]
)
def test_a_request_about_a_message_has_one_however_many_a_broker_sends(code: int) -> None:
    """A body of 15 MiB held the event loop for a second; clients read the first message."""
    seen, one = SeenAnswers(PROXY, {}), _record()
    alone = seen.request(request(code, {"offsetMsgId": "0"}, body=one))
    assert seen.request(request(code, {"offsetMsgId": "0"}, body=one * 1000)).body == alone.body
    assert seen.request(request(code, {"offsetMsgId": "0"}, body=one + b"?")).body == alone.body
    for strange in (b"", b"no record"):
        assert seen.request(request(code, {}, body=strange)).body == strange


def test_ids_of_any_length_take_no_longer_than_their_text() -> None:
    """Hexadecimal digits that are no id: a pattern may not begin again at each of them."""

    def seconds(digits: int) -> float:
        properties = b"ORIGIN_MESSAGE_ID\x01" + b"A" * digits + b"z"
        record = encode_message(replace(decode_message(_record()), properties_data=properties))
        begun_s = time.process_time()
        for _ in range(4):
            with_origin_ids(record, {})
        return time.process_time() - begun_s

    assert min(seconds(32_000) for _ in range(3)) < 0.004 * slowness()  # 16 ms, once
