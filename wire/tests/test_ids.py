"""Message ids."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import HostAddress, LocalProtocolError, RemoteProtocolError
from lanemq.wire.message import (
    UniqueKeys,
    decode_offset_id,
    encode_offset_id,
    unique_key_time_ms,
)

HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)).map(
    HostAddress.unpack
)
IPS = st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16))
TIMES_MS = st.integers(1_000_000_000_000, 2_000_000_000_000)


@given(HOSTS, st.integers(-(1 << 63), (1 << 63) - 1))
def test_offset_ids_come_back(host: HostAddress, log_position: int) -> None:
    text = encode_offset_id(host, log_position)
    assert encode_offset_id(host.packed, log_position) == text
    assert decode_offset_id(text) == (host, log_position)
    assert decode_offset_id(text.lower()) == (host, log_position)
    assert len(text) == (56 if host.is_v6 else 32)


def test_an_offset_id_is_upper_case_hex() -> None:
    text = encode_offset_id(HostAddress("127.0.0.1", 10911), 0xBBED)
    assert text == "7F00000100002A9F000000000000BBED"


def test_a_position_beyond_64_bits_has_no_id() -> None:
    with pytest.raises(LocalProtocolError):
        encode_offset_id(HostAddress("127.0.0.1", 1), 1 << 63)


@given(st.text())
def test_other_texts_are_refused(text: str) -> None:
    for decode in (decode_offset_id, lambda key: unique_key_time_ms(key, 0)):
        with suppress(RemoteProtocolError):
            decode(text)


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, "  " * 16, "7F" * 17, "7F " * 10 + "7F"])
def test_broken_ids_are_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_offset_id(text)


@given(IPS, st.integers(), st.integers(), st.lists(TIMES_MS, min_size=1, max_size=20).map(sorted))
def test_unique_keys_differ_and_tell_their_time(
    ip: bytes, pid: int, loader_hash: int, times_ms: list[int]
) -> None:
    source = UniqueKeys(ip, pid, loader_hash)
    keys = [source.next(now_ms) for now_ms in times_ms]
    assert len(set(keys)) == len(keys)
    for key, made_ms in zip(keys, times_ms, strict=True):
        assert len(key) == 2 * len(ip) + 24
        assert key.startswith(ip.hex().upper())
        assert unique_key_time_ms(key, made_ms + 1) == made_ms


def test_the_counter_wraps_at_16_bits() -> None:
    source = UniqueKeys(b"\x7f\0\0\1", 1, 2)
    keys = [source.next(1_700_000_000_000) for _ in range(65537)]
    assert len(set(keys)) == 65536
    assert keys[0] == keys[65536]


def test_a_unique_key_has_its_parts_in_order() -> None:
    start_ms = int(time.mktime((2024, 5, 1, 0, 0, 0, 0, 0, -1))) * 1000
    source = UniqueKeys(bytes([10, 0, 0, 1]), 0x12345, 0xABCDEF01)
    assert source.next(start_ms + 0x1234) == "0A0000012345ABCDEF01000012340000"
    assert source.next(start_ms + 0x1235) == "0A0000012345ABCDEF01000012350001"


def test_a_clock_set_back_into_the_last_month_gives_its_end_a_zero() -> None:
    start_ms = int(time.mktime((2024, 5, 1, 0, 0, 0, 0, 0, -1))) * 1000
    source = UniqueKeys(b"\x0a\0\0\1", 1, 2)
    source.next(start_ms + 5)
    assert source.next(start_ms - 5)[-12:-4] == "00000000"


def test_an_ip_of_another_size_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        UniqueKeys(b"12345", 1, 1)
