"""However the bytes are cut, the frames are the same; garbage gives one error type."""

import itertools
import tracemalloc
from collections.abc import Iterable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, RemoteProtocolError, Version
from lanemq.wire.frame import (
    FRAME,
    LEGACY_MAX_FRAME_BYTES,
    MAX_FIELDS,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    NEED_DATA,
    Connection,
    Frame,
    PeerClosed,
    SerializeType,
    decode_frame,
    encode_frame,
    frame_limit_bytes,
    request,
    split_frames,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FRAMES = st.lists(
    st.builds(
        Frame,
        code=st.integers(-(2**15), 2**15 - 1),
        opaque=st.integers(-(2**31), 2**31 - 1),
        fields=st.dictionaries(TEXT, TEXT, max_size=3),
        body=st.binary(max_size=40),
        serialize=st.sampled_from(SerializeType),
    ),
    max_size=5,
)


def feed(chunks: Iterable[bytes], connection: Connection | None = None) -> list[Frame]:
    connection = connection or Connection()
    frames = []
    for chunk in chunks:
        connection.receive_data(chunk)
        while isinstance(event := connection.next_event(), Frame):
            frames.append(event)
        assert event is NEED_DATA
    return frames


def single_bytes(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


@given(FRAMES, st.data())
def test_whole_and_byte_by_byte_and_cut_anywhere_agree(
    frames: list[Frame], data: st.DataObject
) -> None:
    sent = b"".join(encode_frame(frame) for frame in frames)
    cut = data.draw(st.integers(0, len(sent)))
    halves = [part for part in (sent[:cut], sent[cut:]) if part]
    assert feed([sent] if sent else []) == feed(single_bytes(sent)) == feed(halves) == frames


@given(st.binary(max_size=64))
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes) -> None:
    for chunks in ([data] if data else [], single_bytes(data)):
        with suppress(RemoteProtocolError):
            feed(chunks)


@given(FRAMES.filter(bool), st.data())
def test_a_damaged_stream_is_only_ever_a_remote_protocol_error(
    frames: list[Frame], data: st.DataObject
) -> None:
    sent = bytearray(b"".join(encode_frame(frame) for frame in frames))
    for _ in range(data.draw(st.integers(1, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(sent)
    whole, bytewise = map(feed_until_it_fails, ([damaged], single_bytes(damaged)))
    assert whole == bytewise


def feed_until_it_fails(chunks: Iterable[bytes]) -> tuple[list[Frame], str | None]:
    connection, frames = Connection(), []
    try:
        for chunk in chunks:
            connection.receive_data(chunk)
            while isinstance(event := connection.next_event(), Frame):
                frames.append(event)
    except RemoteProtocolError as error:
        return frames, str(error)
    return frames, None


@given(st.integers(0, 1), st.binary(max_size=64), st.binary(max_size=64))
def test_the_declaration_and_the_fast_path_cut_alike(
    serialize: int, header: bytes, body: bytes
) -> None:
    parts = {"serialize": serialize, "header": header, "body": body}
    buffer = bytearray(FRAME.build(parts))
    for data in (buffer, bytes(buffer), bytes(buffer) + b"\x00\x00"):
        assert split_frames(data) == ([(serialize, header, body)], len(buffer))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xff\xff\xff", "frame length -1"),
        (b"\x00\x00\x00\x03", "frame length 3"),
        (b"\x00\xff\xff\xfd", "frame length 16777213"),
        (b"\x16\x03\x01\x02", "bytes 0 to 3: 16030102"),  # TLS
        (b"GET ", "bytes 0 to 3: 47455420"),  # HTTP
        (b"\x00\x00\x00\x08\x02\x00\x00\x00", "serialize type 2"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x05", "header length 5"),
        (b"\x00\xff\xff\xfc\x00\x10\x00\x01", "header length 1048577"),
    ],
)
def test_an_impossible_frame_is_refused_at_its_first_bytes(data: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        feed(single_bytes(data))
    assert message in str(caught.value)


def test_a_frame_of_just_the_limit_is_read_and_one_byte_more_is_not() -> None:
    frame = request(10, body=b"x" * 100)
    size_bytes = len(encode_frame(frame))
    data = encode_frame(frame)
    assert feed([data], Connection(max_frame_bytes=size_bytes)) == [frame]
    with pytest.raises(RemoteProtocolError, match=f"frame length {size_bytes - 4}"):
        feed([data[:4]], Connection(max_frame_bytes=size_bytes - 1))


def test_frames_before_a_bad_one_are_still_delivered() -> None:
    connection = Connection()
    connection.receive_data(encode_frame(request(34)) + encode_frame(request(35)) + b"\xff" * 4)
    assert connection.next_event() == request(34)
    assert connection.next_event() == request(35)
    with pytest.raises(RemoteProtocolError, match="frame length -1"):
        connection.next_event()


def test_after_a_failure_the_error_stays_and_nothing_is_kept() -> None:
    connection = Connection()
    connection.receive_data(b"\xff" * 4)
    with pytest.raises(RemoteProtocolError) as first:
        connection.next_event()
    connection.receive_data(encode_frame(request(34)))
    with pytest.raises(RemoteProtocolError) as second:
        connection.next_event()
    assert second.value is first.value


def test_a_bad_header_fails_the_connection_after_the_frames_before_it() -> None:
    connection = Connection()
    good = encode_frame(request(34))
    connection.receive_data(good + b"\x00\x00\x00\x06\x00\x00\x00\x02{]" + good)
    assert connection.next_event() == request(34)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="JSON header"):
            connection.next_event()


def test_an_unfinished_frame_takes_no_more_memory_than_the_limit() -> None:
    connection = Connection(max_frame_bytes=1 << 20)
    tracemalloc.start()
    try:
        connection.receive_data(((1 << 20) - 4).to_bytes(4) + b"\x00\x00\x00\x00")
        for _ in range((1 << 20) // 4096 - 1):
            connection.receive_data(b"x" * 4096)
            assert connection.next_event() is NEED_DATA
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


def test_a_peer_that_closes_between_frames_is_an_event_and_stays_one() -> None:
    connection = Connection()
    connection.receive_data(encode_frame(request(34)))
    connection.receive_data(b"")
    assert isinstance(connection.next_event(), Frame)
    assert connection.next_event() == PeerClosed()
    assert connection.next_event() == PeerClosed()
    with pytest.raises(LocalProtocolError, match="after the end"):
        connection.receive_data(b"x")


@given(st.data())
def test_a_peer_that_closes_inside_a_frame_is_an_error(data: st.DataObject) -> None:
    sent = encode_frame(request(34, body=b"body"))
    cut = data.draw(st.integers(1, len(sent) - 1))
    connection = Connection()
    connection.receive_data(sent[:cut])
    connection.receive_data(b"")
    with pytest.raises(RemoteProtocolError, match=f"inside a frame, after {cut} bytes"):
        connection.next_event()


def test_a_frame_longer_than_the_limit_is_not_sent() -> None:
    connection = Connection(max_frame_bytes=200)
    with pytest.raises(LocalProtocolError, match="at most 200"):
        connection.send(request(10, body=b"x" * 200))


def test_a_legacy_client_gets_no_frame_above_8_mib() -> None:
    assert frame_limit_bytes(Version.V3_2_6_SNAPSHOT) == LEGACY_MAX_FRAME_BYTES == 8 << 20
    assert frame_limit_bytes(Version.V4_9_8) == MAX_FRAME_BYTES == 16 << 20
    answer = request(11).reply(body=bytes(LEGACY_MAX_FRAME_BYTES))
    with pytest.raises(LocalProtocolError, match="at most 8388608"):
        encode_frame(answer, max_frame_bytes=frame_limit_bytes(78))
    assert len(encode_frame(answer)) > LEGACY_MAX_FRAME_BYTES


def test_a_header_that_24_bits_cannot_count_is_not_sent() -> None:
    frame = request(10, {"i": "x" * (1 << 24)})
    with pytest.raises(LocalProtocolError, match="of header"):
        encode_frame(frame, max_frame_bytes=1 << 30)


def test_a_header_above_its_limit_is_not_read() -> None:
    frame = encode_frame(request(10, {"i": "x" * MAX_HEADER_BYTES}))
    with pytest.raises(RemoteProtocolError, match="header length"):
        decode_frame(frame[4:])
    with pytest.raises(RemoteProtocolError, match="header length"):
        feed([frame])


@pytest.mark.parametrize("serialize", SerializeType)
def test_a_header_of_too_many_fields_is_not_read(serialize: SerializeType) -> None:
    for number in (MAX_FIELDS, MAX_FIELDS + 1):
        fields = {str(field): "" for field in range(number)}
        frame = encode_frame(Frame(10, fields=fields, serialize=serialize))
        if number <= MAX_FIELDS:
            assert decode_frame(frame[4:]).fields == fields
        else:
            with pytest.raises(RemoteProtocolError, match=str(MAX_FIELDS)):
                decode_frame(frame[4:])


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00"])
def test_a_frame_without_room_for_its_header_word_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="no room for the header word"):
        decode_frame(data)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(2**31),
        Frame(1, opaque=2**31),
        Frame(1, flag=-(2**31) - 1),
        Frame(1, version=2**31),
    ],
)
def test_a_number_beyond_32_bits_is_not_sent(frame: Frame) -> None:
    with pytest.raises(LocalProtocolError, match="beyond 32 bits"):
        encode_frame(frame)


def test_our_opaques_start_at_1_and_wrap_within_32_bits_without_0() -> None:
    connection = Connection()
    assert [connection.next_opaque() for _ in range(3)] == [1, 2, 3]
    connection._opaques = itertools.count(2**31 - 3)
    assert [connection.next_opaque() for _ in range(3)] == [2**31 - 2, 2**31 - 1, 1]


def test_frames_may_be_taken_in_parts_and_say_what_is_kept() -> None:
    connection = Connection()
    frames = [request(1, {"n": str(n)}, bytes(n), opaque=n) for n in range(5)]
    data = b"".join(map(encode_frame, frames))
    connection.receive_data(data + encode_frame(frames[0])[:7])
    taken = []
    for frame in connection.frames():
        taken.append(frame)
        if len(taken) == 2:
            break
    assert connection.kept_bytes == len(data) + 7  # what came with them is there until all are
    assert connection.next_event() == frames[2]
    assert [*taken, frames[2], *connection.frames()] == frames
    assert (connection.kept_bytes, connection.is_mid_frame, connection.cuts) == (7, True, 1)
    assert connection.next_event() is NEED_DATA
    connection.receive_data(encode_frame(frames[0])[7:])
    assert list(connection.frames()) == [frames[0]]
    assert (connection.kept_bytes, connection.is_mid_frame, connection.cuts) == (0, False, 2)


def test_many_small_frames_are_cut_some_at_a_time() -> None:
    """A read of 256 KiB has so many that to cut all of them took 20 ms."""
    data = b"\0\0\0\x04\0\0\0\0" * 1000
    splits, size_bytes = split_frames(data)
    assert (len(splits), size_bytes) == (256, 256 * 8)
    connection = Connection()
    connection.receive_data(encode_frame(request(1)) * 1000 + b"\0")
    assert len(list(itertools.islice(connection.frames(), 300))) == 300
    assert connection.cuts == 2
    assert len(list(connection.frames())) == 700
    assert (connection.kept_bytes, connection.is_mid_frame, connection.cuts) == (1, True, 4)


def test_frames_before_a_bad_one_are_given_and_then_nothing_more() -> None:
    connection = Connection()
    connection.receive_data(encode_frame(request(1)) + b"\xff" * 16)
    frames = connection.frames()
    assert next(frames).code == 1
    with pytest.raises(RemoteProtocolError):
        next(frames)
    with pytest.raises(RemoteProtocolError):
        list(connection.frames())
    assert connection.kept_bytes == 0


@pytest.mark.parametrize("serialize", SerializeType)
def test_what_a_kept_frame_takes_is_counted(serialize: SerializeType) -> None:
    ordinary = request(11, {f"field{n}": str(n) for n in range(14)}, b"12345")
    assert ordinary.kept_bytes < 200  # a waiting request's flat charge is for the rest
    texts = {f"name {n}": f"value {n}" for n in range(MAX_FIELDS)}
    for fields in (texts, {"a": "x" * 100_000}, {"a": "x" * 100_000 + "\U0001f600"}):
        data = encode_frame(msgspec.structs.replace(request(11, fields), serialize=serialize))[4:]
        tracemalloc.start()
        try:
            frame = decode_frame(data)
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert frame.fields == fields
        assert taken < frame.kept_bytes + 4096
