"""Keys and values of rows: what the declarations say, and what a broker of 5.3.3 wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.queues.rocks._row_format import (
    BOUND_KEY,
    BOUND_VALUE,
    MAX,
    MIN,
    UNIT_KEY,
    UNIT_VALUE,
    WATERMARK_KEY,
    BoundKey,
    QueueKeys,
    UnitKey,
    pack_unit_value,
    parse_bound_key,
    parse_unit_key,
    topic_bounds,
)

topics = st.binary(max_size=30)
queue_ids = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
queues = st.tuples(topics, queue_ids)
SEPARATORS = {
    "before_topic": b"\x01",
    "before_bound": b"\x01",
    "before_queue_id": b"\x01",
    "before_offset": b"\x01",
}


def test_the_keys_and_values_are_those_a_broker_of_5_3_3_wrote() -> None:
    keys = QueueKeys(b"BenchT2", 0)
    assert keys.unit(1).hex() == "000000070142656e6368543201000000000100000000000000" + "01"
    value = pack_unit_value(0x7EC, 0x1FB, 0x54, 0x1A1FC51181A)
    assert value.hex() == "00000000000007ec000001fb0000000000000054000001a1fc51181a"
    assert keys.max.hex() == "000000070142656e63685432016d61780100000000"
    assert WATERMARK_KEY == b"\x00\x00\x00\x10\x01CHECKPOINT_TOPIC\x01max\x01\x00\x00\x00\x00"


@given(topics, queue_ids, offsets)
def test_the_key_of_a_unit_is_what_its_declaration_says(
    topic: bytes, queue_id: int, offset: int
) -> None:
    declared = UNIT_KEY.build(
        dict(SEPARATORS, topic_bytes=len(topic), topic=topic, queue_id=queue_id)
        | {"queue_offset": offset}
    )
    assert QueueKeys(topic, queue_id).unit(offset) == declared
    assert len(declared) == 19 + len(topic)
    assert parse_unit_key(declared) == UnitKey(topic, queue_id, offset)


@given(topics, queue_ids, st.sampled_from([MAX, MIN]))
def test_the_key_of_a_bound_is_what_its_declaration_says(
    topic: bytes, queue_id: int, bound: bytes
) -> None:
    declared = BOUND_KEY.build(
        dict(SEPARATORS, topic_bytes=len(topic), topic=topic, bound=bound, queue_id=queue_id)
    )
    keys = QueueKeys(topic, queue_id)
    assert (keys.max if bound == MAX else keys.min) == declared
    assert len(declared) == 14 + len(topic)
    assert parse_bound_key(declared) == BoundKey(topic, queue_id, bound)


@given(st.binary(max_size=60))
def test_a_key_is_parsed_into_what_gives_it_again_or_refused(key: bytes) -> None:
    try:
        unit = parse_unit_key(key)
    except ValueError:
        pass
    else:
        assert (
            UNIT_KEY.build(dict(SEPARATORS, topic_bytes=len(unit.topic), **unit._asdict())) == key
        )
    try:
        bound = parse_bound_key(key)
    except ValueError:
        pass
    else:
        declared = dict(SEPARATORS, topic_bytes=len(bound.topic), **bound._asdict())
        assert BOUND_KEY.build(declared) == key


@given(topics, queue_ids, offsets, st.data())
def test_a_changed_key_is_refused_or_of_another_row(
    topic: bytes, queue_id: int, offset: int, data: st.DataObject
) -> None:
    key = bytearray(QueueKeys(topic, queue_id).unit(offset))
    at = data.draw(st.integers(0, len(key) - 1))
    key[at] ^= data.draw(st.integers(1, 255))
    try:
        found = parse_unit_key(bytes(key))
    except ValueError:
        return
    assert found != UnitKey(topic, queue_id, offset)


@given(queues, offsets, queues, offsets)
def test_rows_sort_by_length_of_topic_then_topic_queue_and_offset(
    one: tuple[bytes, int], one_offset: int, other: tuple[bytes, int], other_offset: int
) -> None:
    first, second = QueueKeys(*one).unit(one_offset), QueueKeys(*other).unit(other_offset)
    expected = (len(one[0]), *one, one_offset) < (len(other[0]), *other, other_offset)
    assert (first < second) == expected


@given(queues, queues, offsets)
def test_the_range_of_a_queue_and_of_a_topic_holds_its_rows_and_no_others(
    one: tuple[bytes, int], other: tuple[bytes, int], offset: int
) -> None:
    keys, key = QueueKeys(*one), QueueKeys(*other).unit(offset)
    assert (keys.begin <= key < keys.end) == (one == other)
    begin, end = topic_bounds(one[0])
    assert (begin <= key < end) == (one[0] == other[0])
    assert (begin <= QueueKeys(*other).max < end) == (one[0] == other[0])


@pytest.mark.parametrize(("declaration", "size"), [(UNIT_VALUE, 28), (BOUND_VALUE, 16)])
def test_values_have_the_sizes_the_broker_expects(declaration: object, size: int) -> None:
    assert declaration.sizeof() == size  # type: ignore[attr-defined]
