"""The records of a batch are byte for byte those of its messages one by one."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError
from lanemq.wire.message import BatchEntry, encode_batch_records, encode_record

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
ENTRIES = st.lists(
    st.builds(
        BatchEntry, flag=INT32, body=st.binary(max_size=40), properties=st.binary(max_size=4)
    ),
    min_size=1,
    max_size=8,
)


@given(
    topic=st.binary(min_size=1, max_size=5) | st.just(b"t" * 128),
    entries=ENTRIES,
    queue_id=INT32,
    queue_offset=st.integers(0, 1 << 60),
    log_position=st.integers(0, 1 << 60),
    sys_flag=INT32,
    times_ms=st.tuples(INT64, INT64),
    hosts=st.tuples(HOSTS, HOSTS),
    reconsume_times=INT32,
)
def test_records_are_those_of_each_message(
    topic: bytes,
    entries: list[BatchEntry],
    queue_id: int,
    queue_offset: int,
    log_position: int,
    sys_flag: int,
    times_ms: tuple[int, int],
    hosts: tuple[bytes, bytes],
    reconsume_times: int,
) -> None:
    def one(number: int, position: int) -> bytes:
        return encode_record(
            topic=topic,
            body=entries[number].body,
            properties=entries[number].properties,
            queue_id=queue_id,
            flag=entries[number].flag,
            queue_offset=queue_offset + number,
            log_position=position,
            sys_flag=sys_flag,
            born_timestamp_ms=times_ms[0],
            born_host=hosts[0],
            store_timestamp_ms=times_ms[1],
            store_host=hosts[1],
            reconsume_times=reconsume_times,
        )

    sizes = [len(one(number, 0)) for number in range(len(entries))]
    positions = accumulate(sizes[:-1], initial=log_position)
    pieces = encode_batch_records(
        topic=topic,
        entries=entries,
        sizes=sizes,
        queue_id=queue_id,
        queue_offset=queue_offset,
        log_position=log_position,
        sys_flag=sys_flag,
        born_timestamp_ms=times_ms[0],
        born_host=hosts[0],
        store_timestamp_ms=times_ms[1],
        store_host=hosts[1],
        reconsume_times=reconsume_times,
    )
    assert b"".join(pieces) == b"".join(map(one, range(len(entries)), positions))
    assert len(pieces) <= 4 * len(entries)  # what they share is joined once


@pytest.mark.parametrize(
    ("entry", "born_host", "why"),
    [
        (BatchEntry(0, b"", b"x" * 32_768), bytes(8), "properties of 32768 bytes"),
        (BatchEntry(1 << 31, b"", b""), bytes(8), "does not fit its field"),
        (BatchEntry(0, b"", b""), bytes(9), "8 or 20 bytes, not 9 and 8"),
    ],
)
def test_what_does_not_fit_is_refused(entry: BatchEntry, born_host: bytes, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        encode_batch_records(
            topic=b"t",
            entries=[BatchEntry(0, b"", b""), entry],
            sizes=[100, 100],
            queue_id=0,
            queue_offset=0,
            log_position=0,
            sys_flag=0,
            born_timestamp_ms=0,
            born_host=born_host,
            store_timestamp_ms=0,
            store_host=bytes(8),
        )
