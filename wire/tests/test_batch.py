"""Bodies of batch sends."""

from contextlib import suppress

import construct as cs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import LocalProtocolError, RemoteProtocolError
from lanemq.wire.message import BATCH_ENTRY, BatchEntry, decode_batch, encode_batch

ENTRIES = st.lists(
    st.builds(BatchEntry, st.integers(-(1 << 31), (1 << 31) - 1), st.binary(), st.binary())
)


@given(ENTRIES)
def test_batches_come_back(entries: list[BatchEntry]) -> None:
    data = encode_batch(entries)
    assert decode_batch(data) == entries
    assert decode_batch(memoryview(data)) == entries


@given(ENTRIES)
def test_the_declaration_reads_the_same(entries: list[BatchEntry]) -> None:
    parsed = cs.GreedyRange(BATCH_ENTRY).parse(encode_batch(entries))
    assert [BatchEntry(one.flag, one.body, one.properties) for one in parsed] == entries


@given(st.binary())
def test_garbage_is_only_ever_a_remote_protocol_error(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        decode_batch(data)


@given(ENTRIES.filter(bool), st.data())
def test_a_cut_or_changed_batch_never_reads_beyond_its_end(
    entries: list[BatchEntry], data: st.DataObject
) -> None:
    whole = bytearray(encode_batch(entries))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    with suppress(RemoteProtocolError):
        read = sum(len(one.body) + len(one.properties) for one in decode_batch(cut))
        assert read <= len(cut)


def test_an_entry_is_laid_out_as_java_writes_it() -> None:
    data = encode_batch([BatchEntry(5, b"hi", b"A\x011\x02")])
    assert data == bytes.fromhex(
        "0000001c"  # size
        "00000000"  # magic
        "00000000"  # body CRC
        "00000005"  # flag
        "00000002 6869"  # body
        "0004 41013102"  # properties
    )


def test_a_negative_length_of_properties_means_none() -> None:
    entry = bytearray(encode_batch([BatchEntry(0, b"x", b"")]))
    entry[-2:] = b"\xff\xff"
    assert decode_batch(entry) == [BatchEntry(0, b"x", b"")]


@pytest.mark.parametrize("entry", [BatchEntry(1 << 31, b"", b""), BatchEntry(0, b"", bytes(32768))])
def test_what_does_not_fit_is_refused(entry: BatchEntry) -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch([entry])
