"""Registrations of brokers, compressed and not."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigWrapper

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "), min_size=1)
ATTRIBUTES = st.one_of(st.none(), st.dictionaries(NAMES, st.text("ab +"), min_size=1))
TOPICS = st.builds(
    TopicConfig,
    topic_name=NAMES,
    read_queue_nums=INTS,
    write_queue_nums=INTS,
    perm=INTS,
    topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    attributes=ATTRIBUTES,
)
BODIES = st.builds(
    RegisterBrokerBody,
    st.builds(
        TopicConfigWrapper,
        st.lists(TOPICS, max_size=4).map(lambda topics: {t.topic_name: t for t in topics}),
        st.builds(DataVersion, INTS, INTS, st.one_of(st.none(), INTS)),
    ),
    st.lists(NAMES, max_size=2).map(tuple),
)


@given(BODIES)
def test_compressed_registrations_come_back(body: RegisterBrokerBody) -> None:
    assert RegisterBrokerBody.decode_compressed(body.encode_compressed()) == body


@given(TOPICS)
def test_topics_come_back_from_their_short_form(topic: TopicConfig) -> None:
    assert TopicConfig.decode_text(topic.encode_text()) == topic


@given(st.binary())
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes) -> None:
    for one in (data, zlib.compress(data)):
        with suppress(RemoteProtocolError):
            RegisterBrokerBody.decode_compressed(one)


@given(BODIES, st.data())
def test_damage_is_only_ever_a_remote_protocol_error(
    body: RegisterBrokerBody, data: st.DataObject
) -> None:
    plain = bytearray(zlib.decompress(body.encode_compressed()))
    plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(plain[: data.draw(st.integers(0, len(plain)))])
    with suppress(RemoteProtocolError):
        RegisterBrokerBody.decode_compressed(zlib.compress(cut))


def sized(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def test_the_compressed_form_is_laid_out_as_the_reference_lays_it_out() -> None:
    table = {"T": TopicConfig("T", 4, 8)}
    body = RegisterBrokerBody(TopicConfigWrapper(table, DataVersion(1, 2)), ("h:1",))
    assert zlib.decompress(body.encode_compressed()) == (
        sized('{"counter":2,"timestamp":1}')
        + struct.pack(">i", 1)  # topics
        + sized("T 4 8 6 SINGLE_TAG")
        + sized('["h:1"]')
    )


def test_the_mappings_of_a_5x_broker_are_kept() -> None:
    mapping = {"bname": "b", "topic": "T"}
    extra = {"topicQueueMappingInfoMap": {"T": mapping}}
    body = RegisterBrokerBody(TopicConfigWrapper({}, DataVersion(1, 2, 3), extra))
    assert RegisterBrokerBody.decode_compressed(body.encode_compressed()) == body
    data = sized('{"counter":2,"timestamp":1}') + bytes(4) + sized("[]") + bytes(4)
    empty = RegisterBrokerBody.decode_compressed(zlib.compress(data))
    assert empty.topic_config_wrapper.extra == {"topicQueueMappingInfoMap": {}}


def test_the_short_form_of_5x_without_attributes_is_read() -> None:
    assert TopicConfig.decode_text("T 4 8 6 SINGLE_TAG ") == TopicConfig("T", 4, 8)
    assert TopicConfig.decode_text("T 4 8 6 SINGLE_TAG {}").attributes == {}


@pytest.mark.parametrize("text", ["", "T", "T 4 8 6", "T x 8 6 SINGLE_TAG", "T 4 8 6 S {"])
def test_other_short_forms_are_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        TopicConfig.decode_text(text)


def test_a_registration_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="more than 1000 bytes"):
        RegisterBrokerBody.decode_compressed(zlib.compress(bytes(2000)), max_bytes=1000)


@pytest.mark.parametrize(
    "read",
    [
        RegisterBrokerBody.decode_compressed,
        partial(RegisterBrokerBody.reading_bytes, is_compressed=True),
    ],
)
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (zlib.compress(bytes(64 << 20)), "more than 16777216 bytes"),
        (zlib.compress(bytes(64 << 20))[:-5], "more than 16777216 bytes"),
        (zlib.compress(bytes(15 << 20))[:-5], "ends too early"),
        (zlib.compress(bytes(15 << 20))[:-4] + b"xxxx", "broken compressed body"),
        (b"", "ends too early"),
    ],
    ids=["too long", "too long and cut", "cut", "broken", "empty"],
)
def test_a_registration_that_is_not_taken_takes_no_memory(
    read: Callable[[bytes], object], body: bytes, error: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=error):
            read(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_size_of_a_registration_is_known_before_it_is_read() -> None:
    size_bytes = RegisterBrokerBody.reading_bytes(
        zlib.compress(bytes(16 << 20)), is_compressed=True
    )
    assert size_bytes == fastjson.Shape(16 << 20, 0, 0).memory_bytes


def test_a_registration_of_more_topics_than_a_frame_has_is_refused() -> None:
    data = struct.pack(">i", 2) + b"{}" + struct.pack(">i", 150_000) + bytes(4 * 150_000)
    with pytest.raises(RemoteProtocolError, match="150000 topics where 131072"):
        RegisterBrokerBody.decode_compressed(zlib.compress(data))


def after_lengths(*texts: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(text)) + text for text in texts)


MIB = 1 << 20
VERSION, NO_TOPICS, NO_SERVERS = after_lengths(b"{}"), bytes(4), after_lengths(b"[]")


def full_of(unit: bytes, size_bytes: int) -> bytes:
    return b"[" + unit * (size_bytes // len(unit)) + b"1]"


FULL = {
    "objects as filter servers": VERSION + NO_TOPICS + after_lengths(full_of(b"{},", MIB)),
    "numbers in a version": after_lengths(b'{"x":' + full_of(b"1e308,", MIB) + b"}") + NO_TOPICS,
    "a long version": after_lengths(b'{"x":"' + b"x" * MIB + b'"}') + NO_TOPICS + NO_SERVERS,
    "arrays in mappings": VERSION
    + NO_TOPICS
    + NO_SERVERS
    + struct.pack(">i", 100)
    + after_lengths(*[full_of(b"[],", MIB // 100)] * 100),
}


@pytest.mark.parametrize("kind", FULL)
def test_a_registration_full_of_values_is_refused_before_any_is_made(kind: str) -> None:
    data = zlib.compress(FULL[kind])
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=r"values|its version"):
            RegisterBrokerBody.decode_compressed(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(FULL[kind])
    finally:
        tracemalloc.stop()


def test_the_memory_that_reading_takes_is_known_before() -> None:
    queues = ",".join(f'"{n}":[{{"bname":"b","gen":{n},"startOffset":-1}}]' for n in range(5000))
    dense = ",".join(f'"{n:07}":{{"a{n:017}":{n}}}' for n in range(20_000))
    for text in (f'{{"x":{{{members}}}}}'.encode() for members in (queues, dense)):
        tracemalloc.start()
        try:
            value = fastjson.loads(text)
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert value
        assert taken < RegisterBrokerBody.reading_bytes(text, is_compressed=False)
        packed = zlib.compress(text)
        assert taken < RegisterBrokerBody.reading_bytes(packed, is_compressed=True)
